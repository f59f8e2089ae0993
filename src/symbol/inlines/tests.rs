#![allow(clippy::unwrap_used)]

use std::path::Path;

use super::*;
use crate::symbol::file::ImageFile;

/// Sections of debug information, each with its contents, in an ELF file with one segment at 0x1000 for as much of
/// the file.
fn image(sections: &[(&str, Vec<u8>)]) -> Elf {
    let mut names = vec![0u8];
    let mut bodies: Vec<u8> = vec![0; 120];
    let mut headers = vec![0u8; 64];
    let mut header = |name: &str, kind: u32, contents: &[u8], names: &mut Vec<u8>, bodies: &mut Vec<u8>| {
        let mut h = [0u8; 64];
        h[..4].copy_from_slice(&(names.len() as u32).to_le_bytes());
        h[4..8].copy_from_slice(&kind.to_le_bytes());
        h[24..32].copy_from_slice(&(bodies.len() as u64).to_le_bytes());
        h[32..40].copy_from_slice(&(contents.len() as u64).to_le_bytes());
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        bodies.extend_from_slice(contents);
        headers.extend_from_slice(&h);
    };
    for (name, contents) in sections {
        header(name, 1, contents, &mut names, &mut bodies);
    }
    let mut all = names.clone();
    all.extend_from_slice(b".shstrtab\0");
    header(".shstrtab", 3, &all, &mut names, &mut bodies);
    let shoff = bodies.len() as u64;
    bodies.extend_from_slice(&headers);
    bodies[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bodies[16..20].copy_from_slice(&[3, 0, 62, 0]);
    bodies[32..40].copy_from_slice(&64u64.to_le_bytes());
    bodies[40..48].copy_from_slice(&shoff.to_le_bytes());
    bodies[54..64].copy_from_slice(&[
        56,
        0,
        1,
        0,
        64,
        0,
        sections.len() as u8 + 2,
        0,
        sections.len() as u8 + 1,
        0,
    ]);
    // PT_LOAD of the first 64 KiB.
    bodies[64..72].copy_from_slice(&[1, 0, 0, 0, 5, 0, 0, 0]);
    bodies[80..88].copy_from_slice(&0x1000u64.to_le_bytes());
    bodies[96..104].copy_from_slice(&0x10000u64.to_le_bytes());
    bodies[104..112].copy_from_slice(&0x10000u64.to_le_bytes());
    Elf::parse(ImageFile::from_memory(Path::new("made"), bodies)).unwrap()
}

const LOW_PC: [u8; 2] = [0x11, 1];
const HIGH_PC: [u8; 2] = [0x12, 6];
const NAME: [u8; 2] = [3, 8];
const ORIGIN: [u8; 2] = [0x31, 0x13];

/// Abbreviations: 1 a unit, 2 a function with children, 3 an inlined one with children, 4 a named function without.
fn abbreviations() -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |code: u8, tag: u8, children: u8, attributes: &[[u8; 2]]| {
        out.extend_from_slice(&[code, tag, children]);
        attributes.iter().for_each(|a| out.extend_from_slice(a));
        out.extend_from_slice(&[0, 0]);
    };
    add(1, 0x11, 1, &[LOW_PC, HIGH_PC]);
    add(2, 0x2e, 1, &[LOW_PC, HIGH_PC]);
    add(3, 0x1d, 1, &[ORIGIN, LOW_PC, HIGH_PC]);
    add(4, 0x2e, 0, &[NAME]);
    out.push(0);
    out
}

fn place(out: &mut Vec<u8>, start: u64, len: u32) {
    out.extend_from_slice(&start.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
}

/// A version 4 unit of a function at 0x2000 with `depth` functions inlined into each other at 0x2010, all the same one,
/// called `f`.
fn nested(depth: usize) -> Elf {
    let mut info = vec![0; 4];
    info.extend_from_slice(&[4, 0, 0, 0, 0, 0, 8]);
    info.push(1);
    place(&mut info, 0x2000, 0x1000);
    let origin = info.len() as u32;
    info.extend_from_slice(&[4, b'f', 0]);
    info.push(2);
    place(&mut info, 0x2000, 0x100);
    for _ in 0..depth {
        info.push(3);
        info.extend_from_slice(&origin.to_le_bytes());
        place(&mut info, 0x2010, 0x10);
    }
    info.extend(std::iter::repeat_n(0, depth + 2));
    let len = info.len() as u32 - 4;
    info[..4].copy_from_slice(&len.to_le_bytes());
    image(&[(".debug_info", info), (".debug_abbrev", abbreviations())])
}

fn at(inlines: &mut Inlines, offset: u64) -> Vec<Inlined> {
    let mut out = Vec::new();
    inlines.find(offset, &mut out);
    out
}

#[test]
fn what_is_nested_is_found_by_file_offset() {
    let elf = nested(3);
    let mut inlines = Inlines::of(&elf, &elf).unwrap();
    // The segment lies 0x1000 above its place in the file.
    let found = at(&mut inlines, 0x1010);
    assert_eq!(found.len(), 3);
    assert_eq!(inlines.name(found[0], Demangle::Yes).unwrap(), b"f");
    assert_eq!(at(&mut inlines, 0x101f).len(), 3);
    for outside in [0x100f, 0x1020, 0x1fff, 0x2000, 0, u64::MAX] {
        assert!(at(&mut inlines, outside).is_empty(), "{outside:#x}");
    }
    let before = inlines.memory();
    inlines.shrink();
    assert!(inlines.memory() < before);
    assert_eq!(at(&mut inlines, 0x1010), found);
}

#[test]
fn nesting_without_end_is_cut() {
    let elf = nested(50_000);
    let mut inlines = Inlines::of(&elf, &elf).unwrap();
    assert_eq!(at(&mut inlines, 0x1010).len(), MOST_NESTED);
}

#[test]
fn names_that_lead_to_themselves_end() {
    let elf = nested(1);
    let mut inlines = Inlines::of(&elf, &elf).unwrap();
    let found = at(&mut inlines, 0x1010);
    // The inlined entry itself refers on to the function; an entry past the end and in between has no name.
    for origin in [found[0].origin + 1, 3, 1 << 40, usize::MAX] {
        let _ = inlines.name(Inlined { origin }, Demangle::Yes);
    }
    let mut info = elf.contents(elf.section(".debug_info").unwrap().1).unwrap();
    // The function's name gives way to a reference of the inlined entry to itself.
    let entry = info.iter().rposition(|&b| b == 3).unwrap();
    let own = (entry as u32).to_le_bytes();
    info[entry + 1..entry + 5].copy_from_slice(&own);
    let looped = image(&[(".debug_info", info), (".debug_abbrev", abbreviations())]);
    let mut inlines = Inlines::of(&looped, &looped).unwrap();
    let found = at(&mut inlines, 0x1010);
    assert_eq!((found.len(), inlines.name(found[0], Demangle::Yes)), (1, None));
}

/// Every byte of the information changed and cut at every length: an answer or none, and no panic.
#[test]
fn damaged_information_is_read_as_far_as_it_is_whole() {
    let elf = nested(3);
    let info = elf.contents(elf.section(".debug_info").unwrap().1).unwrap();
    let check = |info: Vec<u8>, abbreviations: Vec<u8>| {
        let elf = image(&[(".debug_info", info), (".debug_abbrev", abbreviations)]);
        let Some(mut inlines) = Inlines::of(&elf, &elf) else { return 0 };
        let found = at(&mut inlines, 0x1010);
        assert!(found.len() <= MOST_NESTED);
        found.into_iter().filter(|&f| inlines.name(f, Demangle::Yes).is_some()).count()
    };
    let mut answers = 0;
    for i in 0..info.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = info.clone();
            changed[i] = value;
            answers += check(changed, abbreviations());
        }
        answers += check(info[..i].to_vec(), abbreviations());
    }
    assert!(answers > info.len());
    let abbreviations = abbreviations();
    for i in 0..abbreviations.len() {
        for value in [0, 1, 3, 0x11, 0x17, 0x55, 0xff] {
            let mut changed = abbreviations.clone();
            changed[i] = value;
            check(info.clone(), changed);
        }
    }
}

/// What addr2line itself says of this program, which was compiled with inlining.
#[test]
fn addr2line_finds_the_same_in_this_program() {
    let path = std::env::current_exe().unwrap();
    let elf = Elf::parse(ImageFile::open(&path).unwrap()).unwrap();
    let mut inlines = Inlines::of(&elf, &elf).unwrap();
    let loader = addr2line::Loader::new(&path).unwrap();
    let (_, text) = elf.section(".text").unwrap();
    let mut compared = 0;
    for addr in (text.addr..text.addr + text.size).step_by(4099).take(1500) {
        let mut frames = loader.find_frames(addr).unwrap();
        let mut names = Vec::new();
        while let Some(frame) = frames.next().unwrap() {
            names.push(frame.function.map(|f| f.raw_name().unwrap().as_bytes().to_vec()));
        }
        names.pop();
        let found = at(&mut inlines, addr - text.addr + text.offset);
        let found: Vec<_> = found.into_iter().map(|f| inlines.name(f, Demangle::No)).collect();
        assert_eq!(found, names, "{addr:#x}");
        compared += usize::from(!names.is_empty());
    }
    assert!(compared > 0 || cfg!(not(debug_assertions)), "nothing was inlined");
}

/// The named function stands in a file that is shared with others, and its name among the shared strings of that.
#[test]
fn what_is_shared_with_other_files_is_named_from_there() {
    let shared = nested(0);
    let origin = shared.contents(shared.section(".debug_info").unwrap().1).unwrap();
    let origin = origin.windows(3).position(|bytes| bytes == [4, b'f', 0]).unwrap();
    let own = nested(1);
    let mut info = own.contents(own.section(".debug_info").unwrap().1).unwrap();
    let entry = info.iter().rposition(|&b| b == 3).unwrap();
    info[entry + 1..entry + 5].copy_from_slice(&(origin as u32).to_le_bytes());
    // DW_FORM_GNU_ref_alt for DW_FORM_ref4, and a plain function in between, so that only the shared one has the name.
    let mut abbreviations = abbreviations();
    let form = abbreviations.windows(2).position(|pair| pair == ORIGIN).unwrap();
    abbreviations.splice(form + 1..form + 2, [0xa0, 0x3e]);
    info[origin + 1] = b'g';
    let own = image(&[(".debug_info", info), (".debug_abbrev", abbreviations)]);
    let mut inlines = Inlines::of(&own, &own).unwrap();
    let found = at(&mut inlines, 0x1010);
    assert_eq!((found.len(), inlines.name(found[0], Demangle::Yes)), (1, None));
    inlines.shared = Part::read(&shared);
    assert_eq!(inlines.name(found[0], Demangle::Yes).unwrap(), b"f");
    let before = inlines.memory();
    inlines.shrink();
    assert!(inlines.memory() < before);
    assert_eq!(inlines.name(found[0], Demangle::Yes).unwrap(), b"f");
}
