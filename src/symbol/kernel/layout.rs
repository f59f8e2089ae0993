//! Where the kernel and its modules lie: `/proc/kcore`, `/proc/modules`.

use std::path::Path;

use crate::symbol::LoadError;
use crate::symbol::load::open_elf;

/// A piece of the kernel's memory as `/proc/kcore` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSegment {
    /// First address.
    pub start: u64,
    /// First address past it.
    pub end: u64,
    /// Where in kcore it begins, in bytes.
    pub offset: u64,
}

/// The pieces of a kcore file, in its order, those alone that may be executed if `exec` is set.
pub fn kcore_segments(path: &Path, exec: bool) -> Result<Vec<KernelSegment>, LoadError> {
    let elf = open_elf(path)?;
    let wanted = elf.segments.iter().filter(|s| s.exec || !exec);
    let segments = wanted.map(|s| KernelSegment {
        start: s.vaddr,
        end: s.vaddr.saturating_add(s.filesz),
        offset: s.offset,
    });
    Ok(segments.collect())
}

/// A loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleRange {
    /// Name in brackets, as DSOs of modules are called.
    pub name: String,
    /// First address; 0 if the kernel hides it.
    pub start: u64,
    /// Bytes.
    pub size: u64,
}

/// Parses `/proc/modules`: `NAME SIZE USERS USED-BY STATE ADDRESS`. Lines that are not so are skipped.
pub fn parse_proc_modules(text: &str) -> Vec<ModuleRange> {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (name, size) = (fields.next()?, fields.next()?.parse().ok()?);
        let address = fields.find_map(|field| field.strip_prefix("0x"))?;
        Some(ModuleRange { name: format!("[{name}]"), start: u64::from_str_radix(address, 16).ok()?, size })
    };
    text.lines().filter_map(line).collect()
}

/// The modules of the running kernel; none if it has no modules at all.
pub fn proc_modules() -> Result<Vec<ModuleRange>, LoadError> {
    match std::fs::read_to_string("/proc/modules") {
        Ok(text) => Ok(parse_proc_modules(&text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(LoadError::io("/proc/modules", e)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn modules() {
        let text = "ext4 983040 1 - Live 0xffffffffc0000000\nbad line\njbd2 163840 1 ext4, Live 0xffffffffc0100000 (OE)\n";
        let module = |name: &str, start, size| ModuleRange { name: name.into(), start, size };
        assert_eq!(
            parse_proc_modules(text),
            [
                module("[ext4]", 0xffff_ffff_c000_0000, 983040),
                module("[jbd2]", 0xffff_ffff_c010_0000, 163840)
            ]
        );
    }

    #[test]
    fn pieces_of_the_kernels_memory() {
        use crate::symbol::test_elf::{TEXT, TEXT_SIZE, TestElf};
        let mut kcore = TestElf::new();
        kcore.base = 0xffff_ffff_8100_0000;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), kcore.build()).unwrap();
        let start = kcore.base + TEXT;
        let piece = KernelSegment { start, end: start + TEXT_SIZE, offset: TEXT };
        assert_eq!(kcore_segments(file.path(), true).unwrap(), [piece]);
        std::fs::write(file.path(), b"no kernel").unwrap();
        assert!(kcore_segments(file.path(), false).is_err());
    }
}
