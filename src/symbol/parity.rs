//! Lazy and eager loading, compared on the ELF files of the machine that runs the tests.
//!
//! By default a sample that takes a few seconds; with `REPIPE_PARITY=all` every file of /usr/bin and /usr/lib,
//! with `REPIPE_PARITY=PATH…` (colon-separated) those files and folders.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::dso::{DsoSymbols, SymbolRef};
use super::elf::Elf;
use super::file::ImageFile;
use super::load::load_user;
use super::{Demangle, LoadError};

/// How long the sample may take.
const SAMPLE_TIME: Duration = Duration::from_secs(4);
/// Symbols of which all addresses of interest are compared in the sample.
const SAMPLE_BYTES: u64 = 4 << 20;

fn elf_files(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut dirs = roots.to_vec();
    while let Some(dir) = dirs.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else {
            files.push(dir);
            continue;
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    files
}

type Seen = Option<(u64, u64, u8, u8, Vec<u8>)>;

fn seen(symbol: Option<SymbolRef<'_>>) -> Seen {
    symbol.map(|s| (s.start(), s.end(), s.binding().0, s.kind().0, s.name().to_vec()))
}

/// Compares two tables at the bounds of every symbol, within each, and in the gaps; by name; as wholes.
/// Returns how many addresses were compared.
pub(super) fn assert_same(a: &DsoSymbols, b: &DsoSymbols, what: &Path) -> usize {
    let mut bounds: Vec<u64> = a.ranges().chain(b.ranges()).flat_map(|(start, end)| [start, end]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut compared = 0;
    for pair in bounds.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        for addr in [from, from + (to - from) / 2, to - 1, from.wrapping_sub(1)] {
            assert_eq!(seen(a.find(addr)), seen(b.find(addr)), "{} at {addr:#x}", what.display());
            compared += 1;
        }
    }
    for addr in bounds.first().into_iter().chain(bounds.last()) {
        for addr in [addr.wrapping_sub(1), *addr, addr.wrapping_add(1)] {
            assert_eq!(seen(a.find(addr)), seen(b.find(addr)), "{} at {addr:#x}", what.display());
        }
    }
    let all = |t: &DsoSymbols| t.iter().map(|s| seen(Some(s))).collect::<Vec<_>>();
    assert_eq!(all(a), all(b), "{}", what.display());
    for symbol in a.iter().step_by(37) {
        let name = symbol.name();
        assert_eq!(seen(a.find_by_name(name)), seen(b.find_by_name(name)), "{} by name", what.display());
        assert_eq!(b.find_by_name(name).unwrap().name(), name);
    }
    assert!(a.find_by_name(b"no such symbol").is_none() && b.find_by_name(b"no such symbol").is_none());
    compared
}

#[test]
fn lazy_and_eager_agree_on_files_of_this_machine() {
    let wish = std::env::var("REPIPE_PARITY").unwrap_or_default();
    let all = wish == "all";
    let roots: Vec<PathBuf> = match &*wish {
        "" | "all" => ["/usr/bin", "/usr/lib"].map(PathBuf::from).to_vec(),
        paths => std::env::split_paths(paths).collect(),
    };
    let sampled = wish.is_empty();
    let mut files = elf_files(&roots);
    if sampled {
        // Spread over the names, the same ones each time.
        files = files
            .iter()
            .step_by(17)
            .chain(files.iter().filter(|p| p.ends_with("libc.so.6")))
            .cloned()
            .collect();
    }
    let begin = Instant::now();
    let (mut loaded, mut symbols, mut compared) = (0, 0, 0);
    for path in files {
        if sampled && begin.elapsed() > SAMPLE_TIME {
            break;
        }
        let Ok(elf) = ImageFile::open(&path).and_then(Elf::parse) else { continue };
        if sampled && elf.file.len() > SAMPLE_BYTES {
            continue;
        }
        let load = |all| load_user(&elf, &elf, Demangle::Yes, all);
        let (lazy, eager) = match (load(false), load(true)) {
            (Err(LoadError::NoSymbols(_)), Err(LoadError::NoSymbols(_))) => continue,
            (lazy, eager) => (lazy.unwrap(), eager.unwrap()),
        };
        assert!(!eager.is_lazy());
        assert_eq!(lazy.is_lazy(), elf.section(".opd").is_none(), "{}", path.display());
        assert_eq!(lazy.len(), eager.len(), "{}", path.display());
        compared += assert_same(&lazy, &eager, &path);
        loaded += 1;
        symbols += eager.len();
    }
    println!("{loaded} files, {symbols} symbols, {compared} addresses in {:?}", begin.elapsed());
    assert!(loaded > 0 || !all, "no ELF file found");
    assert!(symbols == 0 || compared > symbols);
}
