//! Symbol loading and look-up, over the largest ELF files of the machine and one made here.
//!
//! `cargo bench --bench symbols [FILE…]`; without files: rustc's driver and LLVM libraries, libc, and the made
//! one. Times are the best of some rounds with the files in the page cache; peaks are of resident memory in a
//! process of its own per case, above what that process had before.

#![allow(missing_docs)]
#![allow(clippy::expect_used, reason = "a bench that can't set itself up has nothing to say")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use repipe::symbol::elf::Elf;
use repipe::symbol::file::ImageFile;
use repipe::symbol::kernel::Kallsyms;
use repipe::symbol::load::load_user;
use repipe::symbol::{Demangle, DsoKind, DsoSymbols, LoadOptions, SymbolSource, load};

/// Symbols in the made file.
const MADE: u64 = 1_000_000;
/// Addresses looked up in each round.
const LOOKUPS: usize = 20_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [mode, path] = args.as_slice()
        && let Some(mode) = mode.strip_prefix("--peak-")
    {
        peak(mode, Path::new(path));
        return;
    }
    let dir = std::env::temp_dir().join(format!("repipe-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder for the made file");
    let made = dir.join("made.so");
    std::fs::write(&made, make_elf(MADE)).expect("the made file");
    let mut files: Vec<PathBuf> = args.iter().map(PathBuf::from).collect();
    if files.is_empty() {
        files = rustc_libraries();
        files.extend(["/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"].map(PathBuf::from));
        files.push(made);
    }
    println!(
        "{:<28} {:>9}  {:>10} {:>10} {:>10}  {:>8} {:>8} {:>8}  {:>9} {:>9}",
        "file", "symbols", "index", "eager", "by name", "cold", "warm", "eager", "peak lazy", "eager"
    );
    for file in files.iter().filter(|file| file.exists()) {
        bench_file(file);
    }
    bench_kallsyms();
    let _ = std::fs::remove_dir_all(&dir);
}

fn bench_file(path: &Path) {
    let elf = ImageFile::open(path).and_then(Elf::parse).expect("an ELF file");
    let load = |all| load_user(&elf, &elf, Demangle::Yes, all).expect("symbols");
    let index = best(5, || load(false));
    let eager = best(2, || load(true));
    let table = load(true);
    let by_name = once(|| table.find_by_name(b"no such symbol").is_none());
    let lazy = load(false);
    let addrs = addresses(&lazy);
    let cold = per_lookup(&lazy, &addrs);
    let warm = (0..50).map(|_| per_lookup(&lazy, &addrs)).min().unwrap_or_default();
    let warm_eager = (0..50).map(|_| per_lookup(&table, &addrs)).min().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    println!(
        "{:<28.28} {:>9}  {:>10.2?} {:>10.2?} {:>10.2?}  {:>6}ns {:>6}ns {:>6}ns  {:>6} KB {:>6} KB",
        name,
        lazy.len(),
        index,
        eager,
        by_name,
        cold.as_nanos(),
        warm.as_nanos(),
        warm_eager.as_nanos(),
        peak_of("lazy", path),
        peak_of("eager", path)
    );
}

fn bench_kallsyms() {
    let path = Path::new("/proc/kallsyms");
    if Kallsyms::read(path).is_err() {
        println!("kallsyms: not readable, or addresses are hidden");
        return;
    }
    let text = std::fs::read(path).expect("kallsyms");
    let read = best(5, || std::fs::read(path).map(|text| text.len()).unwrap_or_default());
    let parse = best(5, || {
        Kallsyms::parse(path, text.as_slice()).and_then(|k| k.into_symbols(None)).map(|s| s.kernel.len()).ok()
    });
    let options = LoadOptions { ignore_vmlinux: true, buildid_dir: None, ..LoadOptions::default() };
    let source = SymbolSource::new(DsoKind::Kernel, "[kernel.kallsyms]", None);
    let all = best(5, || load(&source, &options).map(|s| s.len()).ok());
    let kernel = load(&source, &options).expect("the kernel's symbols");
    let addrs = addresses(&kernel);
    let warm = (0..50).map(|_| per_lookup(&kernel, &addrs)).min().unwrap_or_default();
    println!(
        "kallsyms: {} bytes, {} symbols; reading alone {read:.2?}, parsing and fixing up {parse:.2?}, all {all:.2?}; look-up {} ns, {} KB",
        text.len(),
        kernel.len(),
        warm.as_nanos(),
        kernel.memory() / 1024
    );
}

fn best<T>(rounds: usize, mut f: impl FnMut() -> T) -> Duration {
    (0..rounds).map(|_| once(&mut f)).min().unwrap_or_default()
}

fn once<T>(f: impl FnOnce() -> T) -> Duration {
    let begin = Instant::now();
    let result = black_box(f());
    let time = begin.elapsed();
    drop(result);
    time
}

/// Addresses as samples have them: a few thousand symbols, some far more often than others.
fn addresses(symbols: &DsoSymbols) -> Vec<u64> {
    let ranges: Vec<(u64, u64)> = symbols.ranges().filter(|(start, end)| end > start).collect();
    let hot: Vec<(u64, u64)> = (0..4000usize)
        .filter_map(|i| ranges.get(i.wrapping_mul(2654435761) % ranges.len().max(1)))
        .copied()
        .collect();
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    (0..LOOKUPS)
        .filter_map(|_| {
            let skewed = random() % (1 + random() % hot.len().max(1));
            let &(start, end) = hot.get(skewed)?;
            Some(start + random() as u64 % (end - start))
        })
        .collect()
}

fn per_lookup(symbols: &DsoSymbols, addrs: &[u64]) -> Duration {
    once(|| addrs.iter().filter(|&&addr| symbols.find(addr).is_some()).count()) / addrs.len().max(1) as u32
}

/// Kilobytes that loading and 4000 symbols take, measured in a process of its own.
fn peak_of(mode: &str, path: &Path) -> String {
    let run = || {
        let out = Command::new(std::env::current_exe().ok()?)
            .arg(format!("--peak-{mode}"))
            .arg(path)
            .output()
            .ok()?;
        Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    run().unwrap_or_default()
}

fn peak(mode: &str, path: &Path) {
    let elf = ImageFile::open(path).and_then(Elf::parse).expect("an ELF file");
    let before = peak_resident();
    let symbols = load_user(&elf, &elf, Demangle::Yes, mode == "eager").expect("symbols");
    let stride = (symbols.len() / 4000).max(1);
    let starts: Vec<u64> = symbols.ranges().map(|(start, _)| start).step_by(stride).collect();
    black_box(starts.iter().filter(|&&start| symbols.find(start).is_some()).count());
    println!("{}", peak_resident().saturating_sub(before));
}

fn peak_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}

/// The libraries that rustc is made of.
fn rustc_libraries() -> Vec<PathBuf> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let Ok(out) = sysroot else { return Vec::new() };
    let lib = Path::new(String::from_utf8_lossy(&out.stdout).trim()).join("lib");
    let Ok(entries) = std::fs::read_dir(lib) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 1 << 20));
    files.sort();
    files
}

/// A shared object with nothing but functions of 32 bytes, out of order by blocks as linkers leave them.
fn make_elf(count: u64) -> Vec<u8> {
    let text = 0x1000;
    let mut strings = vec![0u8];
    let mut symtab = vec![0u8; 24];
    for i in 0..count {
        let at = (i / 1000 * 7919 % (count / 1000)) * 1000 + i % 1000;
        symtab.extend((strings.len() as u32).to_le_bytes());
        symtab.extend([0x12, 0, 1, 0]);
        symtab.extend((text + at * 32).to_le_bytes());
        symtab.extend(32u64.to_le_bytes());
        strings.extend(format!("_ZN4made5block16function{at:08}Ei\0").bytes());
    }
    let names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0";
    let section =
        |name: u32, kind: u32, flags: u64, addr: u64, offset: u64, size: u64, link: u32, entsize: u64| {
            let mut s = Vec::new();
            s.extend(name.to_le_bytes());
            s.extend(kind.to_le_bytes());
            for v in [flags, addr, offset, size] {
                s.extend(v.to_le_bytes());
            }
            s.extend(link.to_le_bytes());
            s.extend(0u32.to_le_bytes());
            s.extend(8u64.to_le_bytes());
            s.extend(entsize.to_le_bytes());
            s
        };
    let symtab_at = 64u64;
    let strings_at = symtab_at + symtab.len() as u64;
    let names_at = strings_at + strings.len() as u64;
    let headers_at = names_at + names.len() as u64;
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(16, 0);
    out.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    for v in [0, 0, headers_at] {
        out.extend(v.to_le_bytes());
    }
    out.extend(0u32.to_le_bytes());
    for v in [64u16, 56, 0, 64, 5, 4] {
        out.extend(v.to_le_bytes());
    }
    out.extend(&symtab);
    out.extend(&strings);
    out.extend(names);
    out.extend(vec![0; 64]);
    out.extend(section(1, 8, 6, text, text, count * 32, 0, 0));
    out.extend(section(7, 2, 0, 0, symtab_at, symtab.len() as u64, 3, 24));
    out.extend(section(15, 3, 0, 0, strings_at, strings.len() as u64, 0, 0));
    out.extend(section(23, 3, 0, 0, names_at, names.len() as u64, 0, 0));
    out
}
