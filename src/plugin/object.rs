//! What of a file is looked at before the dynamic linker maps it, which trusts it and says little of what it refuses.

use std::fs::File;
use std::path::Path;

use object::elf;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{NativeEndian, ReadRef};

use crate::error::{Error, ErrorKind};

/// Why a file can't be loaded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// What it is, to be put behind its name.
    why: String,
    /// Whether it is of the wrong kind, rather than broken.
    is_other: bool,
}

impl Fault {
    fn broken(why: impl Into<String>) -> Fault {
        Fault { why: why.into(), is_other: false }
    }

    fn other(why: impl Into<String>) -> Fault {
        Fault { why: why.into(), is_other: true }
    }

    /// As an error of what was to be loaded, such as `plugin x.so:`.
    pub(super) fn of(self, what: &str) -> Error {
        let error = Error::new(ErrorKind::Plugin, format!("{what} {}", self.why));
        match self.is_other {
            true => error.hint(format!(
                "needed is a shared object for {}, as cc -shared or crate-type = [\"cdylib\"] makes it",
                own_machine().map_or_else(|| std::env::consts::ARCH.to_owned(), machine_name)
            )),
            false => error,
        }
    }
}

/// Machines by their number in an ELF header, the name that their toolchains have, and Rust's.
const MACHINES: &[(u16, &str, &str)] = &[
    (elf::EM_X86_64.0, "x86-64", "x86_64"),
    (elf::EM_AARCH64.0, "aarch64", "aarch64"),
    (elf::EM_RISCV.0, "riscv64", "riscv64"),
    (elf::EM_PPC64.0, "ppc64", "powerpc64"),
    (elf::EM_S390.0, "s390x", "s390x"),
    (elf::EM_LOONGARCH.0, "loongarch64", "loongarch64"),
    (elf::EM_386.0, "i386", "x86"),
    (elf::EM_ARM.0, "arm", "arm"),
    (elf::EM_PPC.0, "ppc", "powerpc"),
    (elf::EM_MIPS.0, "mips", "mips64"),
    (elf::EM_SPARCV9.0, "sparc64", "sparc64"),
];

/// This program's own machine, if it is in the list.
fn own_machine() -> Option<u16> {
    MACHINES.iter().find(|(_, _, rust)| *rust == std::env::consts::ARCH).map(|(number, _, _)| *number)
}

fn machine_name(number: u16) -> String {
    let known = MACHINES.iter().find(|(of, _, _)| *of == number);
    known.map_or_else(|| format!("machine {number}"), |(_, name, _)| (*name).to_owned())
}

/// What a file is by its first bytes, if it is no ELF file.
fn kind_of(start: &[u8]) -> &'static str {
    const KINDS: &[(&[u8], &str)] = &[
        (b"!<arch>\n", "is a static library"),
        (b"!<thin>\n", "is a static library"),
        (b"PERFILE2", "is a recording"),
        (b"2ELIFREP", "is a recording"),
        (b"#!", "is a script"),
        (b"MZ", "is a program or library for Windows"),
        (b"\0asm", "is a WebAssembly module"),
        (b"BC\xc0\xde", "is LLVM bitcode"),
        (b"\xcf\xfa\xed\xfe", "is a program or library for macOS"),
        (b"\xca\xfe\xba\xbe", "is a program or library for macOS"),
    ];
    let known = KINDS.iter().find(|(magic, _)| start.starts_with(magic));
    match known {
        Some((_, kind)) => kind,
        None if start.is_empty() => "is empty",
        None if start.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace() || *b >= 0x80) => {
            "is a text file"
        }
        None => "is no shared object",
    }
}

/// Why a file can't be loaded: it is none, of another kind or for another machine, or is shorter than its segments are.
/// Whatever else is wrong with it, the linker says. Opening a FIFO would wait for a writer, and touching a segment beyond
/// the file's end is a bus error.
pub(super) fn fault(path: &Path) -> Option<Fault> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    if !kind.is_file() {
        return Some(Fault::broken("is no regular file"));
    }
    let file = ReadCache::new(File::open(path).ok()?);
    let len = (&file).len().ok()?;
    let start = (&file).read_bytes_at(0, len.min(64)).ok()?;
    if !start.starts_with(&elf::ELFMAG) {
        return Some(Fault::other(kind_of(start)));
    }
    if let Some(what) = other_machine(start) {
        return Some(Fault::other(what));
    }
    let Ok(header) = FileHeader64::<NativeEndian>::parse(&file) else {
        return Some(Fault::broken(format!("is cut short: its {len} bytes are less than its header")));
    };
    let ty = header.e_type.get(NativeEndian);
    match ty {
        elf::ET_DYN => {}
        elf::ET_EXEC => return Some(Fault::other("is an executable")),
        elf::ET_REL => return Some(Fault::other("is an object file that was not linked")),
        elf::ET_CORE => return Some(Fault::other("is a core dump")),
        _ => return Some(Fault::other("is no shared object")),
    }
    let segments = match header.program_headers(NativeEndian, &file) {
        Ok(segments) => segments,
        Err(_) => {
            let why = format!("is cut short: its list of segments lies behind its {len} bytes");
            return Some(Fault::broken(why));
        }
    };
    let ends = segments
        .iter()
        .filter(|segment| segment.p_type(NativeEndian) == PT_LOAD)
        .map(|segment| segment.p_offset(NativeEndian).saturating_add(segment.p_filesz(NativeEndian)));
    if let Some(end) = ends.max().filter(|end| *end > len) {
        return Some(Fault::broken(format!("is cut short: {len} of at least {end} bytes")));
    }
    let is_program = segments.iter().any(|segment| {
        let dynamic = segment.dynamic(NativeEndian, &file).ok().flatten().unwrap_or_default();
        dynamic.iter().any(|entry| {
            entry.d_tag(NativeEndian) == elf::DT_FLAGS_1 && entry.d_val(NativeEndian) & elf::DF_1_PIE.0 != 0
        })
    });
    is_program.then(|| Fault::other("is an executable"))
}

/// For which other machine an ELF file is, by what its header begins with.
fn other_machine(start: &[u8]) -> Option<String> {
    let is_little = start.get(5).is_none_or(|&data| data == elf::ELFDATA2LSB.0);
    let number = start.get(18..20).and_then(|two| two.try_into().ok());
    let number = number.map(|two| if is_little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) });
    let name = number.map_or_else(|| "an unknown machine".to_owned(), machine_name);
    if start.get(4) == Some(&elf::ELFCLASS32.0) {
        return Some(format!("is of 32 bits (for {name})"));
    }
    let differs = own_machine().zip(number).is_some_and(|(own, number)| own != number);
    if is_little != cfg!(target_endian = "little") || differs {
        let order = if is_little { "little" } else { "big" };
        return Some(format!("is for another machine ({name}, {order}-endian)"));
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// A shared object of this machine: one that this test runs with.
    fn shared_object() -> Vec<u8> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
        let path = path.into_iter().find(|path| path.contains("libc.so.6")).expect("the C library is mapped");
        std::fs::read(path).unwrap()
    }

    /// Why bytes can't be loaded, with the hint if there is one.
    fn why(bytes: &[u8]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.so");
        std::fs::write(&path, bytes).unwrap();
        fault(&path).map(|fault| fault.of("x:").to_string())
    }

    #[test]
    fn what_would_hang_or_end_the_process_is_told() {
        let whole = shared_object();
        for (len, wanted) in
            [(3000, true), (60, true), (whole.len() - whole.len() / 4, true), (whole.len(), false)]
        {
            let why = why(&whole[..len]);
            assert_eq!(
                why.as_ref().is_some_and(|why| why.contains("is cut short: ")),
                wanted,
                "{len} {why:?}"
            );
            assert_eq!(why.is_some(), wanted, "{len} {why:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(fault(dir.path()), Some(Fault::broken("is no regular file")));
        let fifo = dir.path().join("fifo.so");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(fault(&fifo), Some(Fault::broken("is no regular file")));
        assert_eq!(fault(&dir.path().join("none")), None);
    }

    #[test]
    fn what_is_of_another_kind_is_told_by_its_name() {
        let whole = shared_object();
        let with = |at: usize, bytes: &[u8]| {
            let mut other = whole.clone();
            other[at..at + bytes.len()].copy_from_slice(bytes);
            other
        };
        let (mut big, mut small) = (with(5, &[2]), with(4, &[1]));
        big[18..20].copy_from_slice(&[0, 22]);
        small[18..20].copy_from_slice(&[3, 0]);
        let riscv = elf::EM_RISCV.0.to_le_bytes();
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for (bytes, says) in [
            (b"" as &[u8], "is empty"),
            (b"hello\n", "is a text file"),
            ("grüße\n".as_bytes(), "is a text file"),
            (b"#!/bin/sh\n", "is a script"),
            (b"!<arch>\nx.o/", "is a static library"),
            (b"MZ\x90\0", "is a program or library for Windows"),
            (b"PERFILE2\x68", "is a recording"),
            (b"\x01\x02\x03", "is no shared object"),
            (&with(18, &riscv), "is for another machine (riscv64, little-endian)"),
            (&big, "is for another machine (s390x, big-endian)"),
            (&small, "is of 32 bits (for i386)"),
            (&with(16, &[1, 0]), "is an object file that was not linked"),
            (&with(16, &[2, 0]), "is an executable"),
            (&with(16, &[4, 0]), "is a core dump"),
            (&with(16, &[9, 9]), "is no shared object"),
            (&program, "is an executable"),
        ] {
            let why = why(bytes).unwrap_or_default();
            let (what, needed) = why.split_once(" (needed is a shared object for ").unwrap_or((&why, ""));
            assert_eq!(what, format!("x: {says}"));
            assert!(needed.ends_with(", as cc -shared or crate-type = [\"cdylib\"] makes it)"), "{why}");
        }
    }
}
