//! perf's rules on small images, each checked for lazy and eager loading alike, and on hostile ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Barrier;

use super::elf::{Elf, SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS, SHT_RELA};
use super::file::ImageFile;
use super::load::load_user;
use super::parity::assert_same;
use super::test_elf::{DYNSYM_INDEX, FIRST_SECTION, TestElf, TestSection};
use super::{Demangle, DsoKind, DsoSymbols, LoadError, LoadOptions, SymbolSource, load};

const LOCAL: u8 = 0;
const GLOBAL: u8 = 1;
const WEAK: u8 = 2;
const NOTYPE: u8 = 0;
const FUNC: u8 = 2;
const IFUNC: u8 = 10;

fn elf(bytes: Vec<u8>) -> Result<Elf, LoadError> {
    Elf::parse(ImageFile::from_memory(Path::new("test.so"), bytes))
}

/// Loads both ways, checks that they agree, and returns the lazy one.
fn both(test: &TestElf) -> DsoSymbols {
    let elf = elf(test.build()).unwrap();
    let eager = load_user(&elf, &elf, Demangle::Yes, true).unwrap();
    let lazy = load_user(&elf, &elf, Demangle::Yes, false).unwrap();
    assert!(lazy.is_lazy() && !eager.is_lazy());
    assert_same(&lazy, &eager, Path::new("test.so"));
    // A second index, of which nothing has been looked up by the comparison.
    load_user(&elf, &elf, Demangle::Yes, false).unwrap()
}

fn at(symbols: &DsoSymbols, addr: u64) -> String {
    symbols.find(addr).map_or("-".into(), |s| format!("{}+{:#x}", s.name_lossy(), addr - s.start()))
}

#[test]
fn duplicates_are_chosen_by_size_binding_underscores_and_length() {
    let mut t = TestElf::new();
    t.symbol("weak_long_name", 0x1000, 16, WEAK, FUNC).symbol("__g", 0x1000, 16, GLOBAL, FUNC);
    t.symbol("loc", 0x1000, 16, LOCAL, FUNC).symbol("g", 0x1000, 16, GLOBAL, FUNC);
    t.symbol("ab", 0x1010, 16, GLOBAL, FUNC).symbol("abc", 0x1010, 16, GLOBAL, FUNC);
    t.symbol("first", 0x1020, 16, GLOBAL, FUNC).symbol("other", 0x1020, 16, GLOBAL, FUNC);
    t.symbol("unsized_global", 0x1030, 0, GLOBAL, FUNC).symbol("sized_weak", 0x1030, 16, WEAK, FUNC);
    // Of different sizes: the name decides where the range ends.
    t.symbol("short_range_long_name", 0x1040, 4, GLOBAL, FUNC).symbol("x", 0x1040, 16, GLOBAL, FUNC);
    let s = both(&t);
    assert_eq!(at(&s, 0x1001), "g+0x1");
    assert_eq!(at(&s, 0x1012), "abc+0x2");
    assert_eq!(at(&s, 0x1020), "first+0x0");
    assert_eq!(at(&s, 0x1038), "sized_weak+0x8");
    assert_eq!((at(&s, 0x1043), at(&s, 0x1045)), ("short_range_long_name+0x3".into(), "-".into()));
    assert_eq!(s.materialized(), 5);
}

#[test]
fn nested_symbols_resolve_to_the_innermost_and_past_it_to_the_outer() {
    let mut t = TestElf::new();
    t.function("outer", 0x1000, 0x100).function("inner", 0x1020, 0x10).function("innermost", 0x1024, 4);
    t.function("after", 0x1080, 0x10);
    let s = both(&t);
    for (addr, want) in [
        (0x1010, "outer+0x10"),
        (0x1021, "inner+0x1"),
        (0x1025, "innermost+0x1"),
        (0x1029, "inner+0x9"),
        (0x1031, "outer+0x31"),
        (0x1085, "after+0x5"),
        (0x10f0, "outer+0xf0"),
        (0x1100, "-"),
    ] {
        assert_eq!(at(&s, addr), want);
    }
}

#[test]
fn dynsym_copies_go_and_what_only_dynsym_has_stays() {
    let mut t = TestElf::new();
    t.function("shared", 0x1000, 16).function("private", 0x1010, 16);
    t.dynamic("shared", 0x1000, 16, GLOBAL, FUNC).dynamic("only_dynamic", 0x1030, 16, GLOBAL, FUNC);
    // Cut short by a symbol that .symtab does not have.
    t.function("unsized", 0x1020, 0);
    let s = both(&t);
    assert_eq!(s.len(), 4);
    assert_eq!(at(&s, 0x102f), "unsized+0xf");
    assert_eq!(at(&s, 0x1031), "only_dynamic+0x1");
    assert_eq!(s.find_by_name(b"only_dynamic").unwrap().start(), 0x1030);
}

#[test]
fn the_last_unsized_symbol_ends_a_page_on() {
    let mut t = TestElf::new();
    t.function("last", 0x1234, 0);
    let s = both(&t);
    assert_eq!((at(&s, 0x2fff), at(&s, 0x3000)), ("last+0x1dcb".into(), "-".into()));
}

#[test]
fn of_unsized_aliases_the_last_of_each_table_gets_an_end() {
    let mut t = TestElf::new();
    t.symbol("vfork", 0x1000, 8, WEAK, FUNC).symbol("interceptor", 0x1000, 0, GLOBAL, FUNC);
    t.dynamic("interceptor", 0x1000, 0, GLOBAL, FUNC).dynamic("vfork", 0x1000, 8, WEAK, FUNC);
    t.symbol("first_of_two", 0x1020, 0, GLOBAL, FUNC).symbol("second", 0x1020, 0, LOCAL, FUNC);
    t.function("end", 0x1030, 16);
    let s = both(&t);
    assert_eq!(at(&s, 0x101f), "interceptor+0x1f");
    assert_eq!(at(&s, 0x1021), "second+0x1");
}

#[test]
fn labels_count_and_what_is_undefined_or_elsewhere_does_not() {
    let mut t = TestElf::new();
    t.symbol("label", 0x1000, 16, GLOBAL, NOTYPE).symbol("file.c", 0x1010, 16, LOCAL, 4);
    t.symbol("tls", 0x1020, 16, GLOBAL, 6).symbol("data", 0x1030, 16, GLOBAL, 1);
    let s = both(&t);
    let names: Vec<_> = s.iter().map(|s| s.name_lossy().into_owned()).collect();
    assert_eq!(names, ["label", "data"]);
}

#[test]
fn addresses_are_file_offsets_whatever_the_load_address() {
    let mut t = TestElf::new();
    t.base = 0x40_0000;
    t.function("f", 0x1100, 16);
    assert_eq!(at(&both(&t), 0x1104), "f+0x4");
}

#[test]
fn mangled_names_are_shown_demangled_and_found_so() {
    let mut t = TestElf::new();
    t.function("_Z4leafi", 0x1000, 16).function("foo@@V2", 0x1010, 16);
    let s = both(&t);
    assert_eq!(at(&s, 0x1000), "leaf(int)+0x0");
    assert!(s.find_by_name(b"leaf(int)").is_some() && s.find_by_name(b"_Z4leafi").is_none());
    assert_eq!(s.find_by_name(b"foo").unwrap().name(), b"foo@@V2");
    let elf = elf(t.build()).unwrap();
    let raw = load_user(&elf, &elf, Demangle::No, false).unwrap();
    assert_eq!(at(&raw, 0x1000), "_Z4leafi+0x0");
}

fn relocation(offset: u64, symbol: u64, kind: u64, addend: u64) -> [u8; 24] {
    let mut r = [0; 24];
    r[..8].copy_from_slice(&offset.to_le_bytes());
    r[8..16].copy_from_slice(&(symbol << 32 | kind).to_le_bytes());
    r[16..].copy_from_slice(&addend.to_le_bytes());
    r
}

/// Relocations in the wrong order: for `malloc`, an IFUNC at 0x1100, and one that nothing is known of.
fn with_plt(machine: u16, plt_size: usize, sec: bool) -> TestElf {
    let mut t = TestElf::new();
    t.machine = machine;
    t.symbol("local_memcpy", 0x1100, 16, LOCAL, FUNC).symbol("memcpy_ifunc", 0x1100, 16, GLOBAL, IFUNC);
    t.symbol("before_plt", 0x4f00, 0, GLOBAL, FUNC);
    t.dynamic("malloc", 0, 0, GLOBAL, FUNC).dynamic("known", 0x1100, 16, WEAK, FUNC);
    let section = |name, kind, flags, link, entsize, contents| TestSection {
        name,
        kind,
        flags,
        addr: 0x9000,
        link,
        align: 16,
        entsize,
        contents,
    };
    let code = SHF_ALLOC | SHF_EXECINSTR;
    t.sections.push(section(".plt", SHT_PROGBITS, code, 0, 16, vec![0; plt_size]));
    let rela = [relocation(0x20, 0, 37, 0x1100), relocation(0x10, 1, 7, 0), relocation(0x30, 0, 37, 0x1777)]
        .concat();
    t.sections.push(section(".rela.plt", SHT_RELA, SHF_ALLOC, DYNSYM_INDEX, 24, rela));
    if sec {
        t.sections.push(section(".plt.sec", SHT_PROGBITS, code, 0, 16, vec![0; 48]));
    }
    t
}

fn plt_offset(t: &TestElf, name: &str) -> u64 {
    elf(t.build()).unwrap().section(name).unwrap().1.offset
}

#[test]
fn plt_slots_are_named_after_their_targets() {
    let t = with_plt(62, 64, false);
    let plt = plt_offset(&t, ".plt");
    let s = both(&t);
    assert_eq!(at(&s, plt - 1), format!("before_plt+{:#x}", plt - 1 - 0x4f00));
    assert_eq!(at(&s, plt), ".plt+0x0");
    assert_eq!(at(&s, plt + 0x11), "malloc@plt+0x1");
    // By the order of GOT entries, not of relocations.
    assert_eq!(at(&s, plt + 0x20), "memcpy_ifunc@plt+0x0");
    assert_eq!(at(&s, plt + 0x35), format!("offset_{:#x}@plt+0x5", plt + 0x30));
    assert_eq!(s.find_by_name(b"malloc@plt").unwrap().start(), plt + 0x10);
}

#[test]
fn a_plt_without_a_header_and_one_with_its_slots_elsewhere() {
    let t = with_plt(62, 48, false);
    assert_eq!(at(&both(&t), plt_offset(&t, ".plt") + 2), "malloc@plt+0x2");
    let t = with_plt(62, 64, true);
    let s = both(&t);
    assert_eq!(at(&s, plt_offset(&t, ".plt") + 0x3f), ".plt+0x3f");
    assert_eq!(at(&s, plt_offset(&t, ".plt.sec")), "malloc@plt+0x0");
    // On aarch64 the header is 32 bytes, and relocations are in the order of slots.
    let t = with_plt(183, 80, false);
    let (plt, s) = (plt_offset(&t, ".plt"), both(&t));
    assert_eq!(at(&s, plt + 0x1f), ".plt+0x1f");
    assert_eq!(at(&s, plt + 0x30), "malloc@plt+0x0");
}

#[test]
fn what_wins_over_an_ifunc_names_its_slot() {
    let mut t = with_plt(62, 64, false);
    t.symbol("memcpy_global_func", 0x1100, 16, GLOBAL, FUNC);
    let plt = plt_offset(&t, ".plt");
    assert_eq!(at(&both(&t), plt + 0x20), "memcpy_global_func@plt+0x0");
}

#[test]
fn racing_lookups_make_each_symbol_once() {
    let mut t = TestElf::new();
    for i in 0..600u64 {
        t.function(&format!("f{i}"), 0x1000 + i * 16, 16).function(&format!("_f{i}"), 0x1000 + i * 16, 16);
    }
    let elf = elf(t.build()).unwrap();
    for _ in 0..5 {
        let s = load_user(&elf, &elf, Demangle::Yes, false).unwrap();
        let barrier = Barrier::new(4);
        let seen: Vec<Vec<usize>> = std::thread::scope(|scope| {
            let threads = (0..4).map(|thread| {
                let (s, barrier) = (&s, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    (0..600u64)
                        .map(|i| {
                            let symbol = if thread % 2 == 0 {
                                s.find(0x1008 + i * 16)
                            } else {
                                s.find_by_name(format!("f{i}").as_bytes())
                            };
                            let symbol = symbol.unwrap();
                            assert_eq!(symbol.name(), format!("f{i}").as_bytes());
                            std::ptr::from_ref(symbol.symbol()) as usize
                        })
                        .collect::<Vec<_>>()
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "all threads got the same symbols");
        assert_eq!(s.materialized(), 600);
    }
}

#[test]
fn a_file_that_shrinks_meanwhile_gives_no_symbol() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lib.so");
    let mut t = TestElf::new();
    t.function("kept", 0x1000, 16).function("lost", 0x1010, 16);
    std::fs::write(&path, t.build()).unwrap();
    let source = SymbolSource::new(DsoKind::User, &path, None);
    let s = load(&source, &LoadOptions { buildid_dir: None, ..LoadOptions::default() }).unwrap();
    assert_eq!(at(&s, 0x1001), "kept+0x1");
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
    assert_eq!(at(&s, 0x1001), "kept+0x1");
    assert_eq!(at(&s, 0x1011), "-");
    assert!(load(&source, &LoadOptions::default()).is_err());
}

#[test]
fn a_debug_link_is_followed_if_the_checksum_fits() {
    let dir = tempfile::tempdir().unwrap();
    let mut full = TestElf::new();
    full.function("static_one", 0x1000, 16);
    let debug = full.build();
    let mut stripped = TestElf::new();
    stripped.dynamic("exported", 0x1010, 16, GLOBAL, FUNC);
    let mut crc = flate2::Crc::new();
    crc.update(&debug);
    let mut link = b"lib.debug\0\0\0".to_vec();
    link.extend(crc.sum().to_le_bytes());
    stripped.sections.push(TestSection {
        name: ".gnu_debuglink",
        kind: SHT_PROGBITS,
        flags: 0,
        addr: 0,
        link: 0,
        align: 4,
        entsize: 0,
        contents: link,
    });
    let path = dir.path().join("lib.so");
    std::fs::write(&path, stripped.build()).unwrap();
    std::fs::create_dir(dir.path().join(".debug")).unwrap();
    let debug_path: PathBuf = dir.path().join(".debug/lib.debug");
    std::fs::write(&debug_path, &debug).unwrap();
    let source = SymbolSource::new(DsoKind::User, &path, None);
    let options = LoadOptions { buildid_dir: None, ..LoadOptions::default() };
    let s = load(&source, &options).unwrap();
    assert_eq!((at(&s, 0x1001), s.origin()), ("static_one+0x1".into(), &*debug_path));
    std::fs::write(&debug_path, [&debug[..], b"x"].concat()).unwrap();
    let s = load(&source, &options).unwrap();
    assert_eq!((at(&s, 0x1001), at(&s, 0x1011), s.origin()), ("-".into(), "exported+0x1".into(), &*path));
}

#[test]
fn packed_debug_data_and_dynsym_make_one_table() {
    use std::io::Write;
    let mut inner = TestElf::new();
    inner.function("hidden_function", 0x1000, 16).function("unsized", 0x1010, 0);
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&inner.build()).unwrap();
    let mut t = TestElf::new();
    t.dynamic("exported", 0x1020, 16, GLOBAL, FUNC);
    t.sections.push(TestSection {
        name: ".gnu_debugdata",
        kind: SHT_PROGBITS,
        flags: 0,
        addr: 0,
        link: 0,
        align: 1,
        entsize: 0,
        contents: xz.finish().unwrap(),
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lib.so");
    std::fs::write(&path, t.build()).unwrap();
    let source = SymbolSource::new(DsoKind::User, &path, None);
    let s = load(&source, &LoadOptions { buildid_dir: None, ..LoadOptions::default() }).unwrap();
    assert!(!s.is_lazy());
    assert_eq!(at(&s, 0x1001), "hidden_function+0x1");
    assert_eq!(at(&s, 0x101f), "unsized+0xf");
    assert_eq!(at(&s, 0x1021), "exported+0x1");
}

/// Every byte of the headers and tables, changed in several ways, and every truncation: an error or symbols,
/// the same both ways, and no panic.
#[test]
fn damaged_images_are_refused_or_read_the_same_both_ways() {
    let mut t = with_plt(62, 64, true);
    t.function("outer", 0x1300, 0x100).function("inner", 0x1310, 16).function("inner_alias", 0x1310, 16);
    let good = t.build();
    let start_of_tables = 0x5000;
    let interesting = (0..120).chain(start_of_tables..good.len());
    let check = |bytes: Vec<u8>| {
        let Ok(elf) = elf(bytes) else { return };
        let lazy = load_user(&elf, &elf, Demangle::Yes, false);
        let eager = load_user(&elf, &elf, Demangle::Yes, true);
        if let (Ok(lazy), Ok(eager)) = (&lazy, &eager)
            && lazy.is_lazy()
        {
            assert_same(lazy, eager, Path::new("damaged"));
        }
    };
    for at in interesting {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = value;
            check(bytes);
        }
    }
    for len in (0..good.len()).step_by(61) {
        check(good[..len].to_vec());
    }
}

#[test]
fn tables_too_wide_for_the_index_are_loaded_whole() {
    let mut t = TestElf::new();
    t.function("huge", 0x1000, 1 << 33).function("f", 0x1010, 16);
    let elf = elf(t.build()).unwrap();
    let s = load_user(&elf, &elf, Demangle::Yes, false).unwrap();
    assert!(!s.is_lazy());
    assert_eq!((at(&s, 0x1011), at(&s, 1 << 32)), ("f+0x1".into(), "huge+0xfffff000".into()));
}

/// On PPC64 a function's symbol is that of its descriptor, which holds the code's address.
#[test]
fn function_descriptors_lead_to_the_code() {
    let mut t = TestElf::new();
    t.machine = super::elf::machine::PPC64;
    let descriptor = |code: u64| [code, 0x8000, 0].map(u64::to_le_bytes).concat();
    let opd = [descriptor(0x1100), descriptor(0x1140), descriptor(0x9999_0000)].concat();
    t.sections.push(TestSection {
        name: ".opd",
        kind: SHT_PROGBITS,
        flags: SHF_ALLOC,
        addr: 0x9000,
        link: 0,
        align: 8,
        entsize: 0,
        contents: opd,
    });
    t.function("first", 0x9000, 0x40).function("second", 0x9018, 0x20);
    t.function("of_no_section", 0x9030, 0x20).function("past_the_end", 0x9048, 0x20);
    t.symtab.iter_mut().for_each(|symbol| symbol.section = FIRST_SECTION);
    // Not by a descriptor, as local functions may be.
    t.function("plain", 0x1200, 0x10);
    let elf = elf(t.build()).unwrap();
    let s = load_user(&elf, &elf, Demangle::Yes, false).unwrap();
    let names: Vec<_> = s.iter().map(|s| (s.start(), s.name_lossy().into_owned())).collect();
    assert_eq!(names, [(0x1100, "first".into()), (0x1140, "second".into()), (0x1200, "plain".into())]);
    assert_eq!((at(&s, 0x113f), at(&s, 0x1141)), ("first+0x3f".into(), "second+0x1".into()));
    assert_eq!((at(&s, 0x1160), at(&s, 0x9000)), ("-".into(), "-".into()));
}
