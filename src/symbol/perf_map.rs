//! `/tmp/perf-PID.map`: what a JIT compiler says of the code it has made, a line each.

use std::path::{Path, PathBuf};

use super::LoadError;
use super::dso::{Addressing, DsoSymbols};
use super::file::ImageFile;
use super::source::SymbolSource;
use super::sym::{SymbolBinding, SymbolType};
use super::table::SymbolTable;

/// Largest map that is read.
const MAX: u64 = 4 << 30;

/// Reads the map that the source's path names, in the process's mount namespace if it is not here: there the
/// process may have another PID, and so a map of another name.
pub(super) fn load(source: &SymbolSource) -> Result<DsoSymbols, LoadError> {
    let path = place(source).unwrap_or_else(|| source.path.clone());
    let file = ImageFile::open(&path)?;
    if file.len() > MAX {
        return Err(LoadError::TooLarge(path));
    }
    let text = file.read_all()?;
    let mut table = SymbolTable::new();
    for (start, end, name) in text.split(|&b| b == b'\n').filter_map(parse_line) {
        table
            .push(start, end, SymbolBinding::GLOBAL, SymbolType::FUNC, name)
            .map_err(|_| LoadError::OutOfMemory(path.clone()))?;
    }
    table.sort().and_then(|()| table.finish()).map_err(|_| LoadError::OutOfMemory(path.clone()))?;
    if table.is_empty() {
        return Err(LoadError::NoSymbols(path));
    }
    Ok(DsoSymbols::eager(table, Addressing::Absolute, &path))
}

/// `START SIZE NAME`, numbers in hexadecimal, with or without `0x`; the name may have spaces.
fn parse_line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = split_field(line)?;
    let (size, name) = split_field(rest)?;
    let start = hex(start)?;
    (!name.is_empty()).then_some((start, start.saturating_add(hex(size)?), name))
}

fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = line.iter().position(|&b| b == b' ')?;
    Some((line.get(..space)?, line.get(space + 1..)?))
}

fn hex(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Where the map is as seen from here.
fn place(source: &SymbolSource) -> Option<PathBuf> {
    if source.path.exists() {
        return None;
    }
    let root = source.root.as_ref()?;
    // `/proc/PID/root`: the process's own number for itself is the last of its status' NSpid line.
    let status = std::fs::read_to_string(root.parent()?.join("status")).ok()?;
    let inner =
        status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().next_back()?;
    Some(root.join(Path::new("tmp")).join(format!("perf-{inner}.map")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{DsoKind, LoadOptions, load};
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(
            parse_line(b"7f00 20 a name with spaces"),
            Some((0x7f00, 0x7f20, &b"a name with spaces"[..]))
        );
        assert_eq!(parse_line(b"0x7f00 0x20 x"), Some((0x7f00, 0x7f20, &b"x"[..])));
        for bad in ["", "7f00", "7f00 20", "7f00 20 ", "zz 20 x", "7f00 -1 x"] {
            assert_eq!(parse_line(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn later_code_at_the_same_place_wins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf-1.map");
        std::fs::write(&path, "2000 100 late\n1000 100 first\nnonsense\n1000 80 second\n").unwrap();
        let map = load(&SymbolSource::new(DsoKind::PerfMap, path, None), &LoadOptions::default()).unwrap();
        assert_eq!(map.addressing(), Addressing::Absolute);
        let name = |addr| map.find(addr).map(|s| s.name_lossy().into_owned());
        assert_eq!(name(0x1000).as_deref(), Some("second"));
        assert_eq!(name(0x1090).as_deref(), Some("first"));
        assert_eq!(name(0x2010).as_deref(), Some("late"));
        assert_eq!(name(0x1100), None);
    }
}
