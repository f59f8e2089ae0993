//! What of a file is looked at before the dynamic linker maps it, which trusts it.

use std::fs::File;
use std::path::Path;

use object::elf::{FileHeader64, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{NativeEndian, ReadRef};

/// Why a file can't be loaded: it is none, or is shorter than its segments are. Whatever else is wrong with it, the
/// linker says. Opening a FIFO would wait for a writer, and touching a segment beyond the file's end is a bus error.
pub(super) fn fault(path: &Path) -> Option<String> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    if !kind.is_file() {
        return Some("is no regular file".to_owned());
    }
    let file = ReadCache::new(File::open(path).ok()?);
    let len = (&file).len().ok()?;
    let header = FileHeader64::<NativeEndian>::parse(&file).ok()?;
    let segments = match header.program_headers(NativeEndian, &file) {
        Ok(segments) => segments,
        Err(_) => return Some(format!("is cut short: its list of segments lies behind its {len} bytes")),
    };
    let ends = segments
        .iter()
        .filter(|segment| segment.p_type(NativeEndian) == PT_LOAD)
        .map(|segment| segment.p_offset(NativeEndian).saturating_add(segment.p_filesz(NativeEndian)));
    let end = ends.max().filter(|end| *end > len)?;
    Some(format!("is cut short: {len} of at least {end} bytes"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_would_hang_or_end_the_process_is_told() {
        let dir = tempfile::tempdir().unwrap();
        // Any ELF file has segments: this test's own.
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let path = dir.path().join("cut.so");
        for (len, wanted) in [(3000, true), (60, false), (0, false), (whole.len(), false)] {
            std::fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(fault(&path).is_some_and(|why| why.contains("cut short")), wanted, "{len}");
        }
        assert_eq!(fault(dir.path()).unwrap(), "is no regular file");
        let fifo = dir.path().join("fifo.so");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(fault(&fifo).unwrap(), "is no regular file");
        assert_eq!(fault(&dir.path().join("none")), None);
    }
}
