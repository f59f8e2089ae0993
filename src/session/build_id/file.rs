//! Opening a DSO's file without side effects, and reading its build-id.
//!
//! Names come from a recording, so they may name anything: only regular files are opened, since opening a
//! device or a FIFO acts on it. Below another root, symbolic links resolve within that root.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::decompress::{Compression, Decompressed};
use super::elf::{self, ReadAt};
use super::id::BuildId;
use super::miss::MissReason;

// NONBLOCK in case a FIFO takes the file's place meanwhile.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A regular file open for reading, with what `fstat` says of it.
#[derive(Debug)]
pub struct DsoFile {
    file: File,
    stat: Stat,
}

impl DsoFile {
    /// Opens the regular file at an absolute path.
    ///
    /// # Errors
    /// Why it can't be read.
    pub fn open(path: &[u8]) -> Result<DsoFile, MissReason> {
        refuse_virtual(path)?;
        let stat = rustix::fs::stat(path).map_err(MissReason::from_errno)?;
        require_regular(&stat)?;
        DsoFile::from_fd(rustix::fs::open(path, READ, Mode::empty()))
    }

    /// Opens the regular file at an absolute path below a root directory, as a process with that root would.
    ///
    /// # Errors
    /// Why it can't be read.
    pub fn open_below(root: BorrowedFd<'_>, path: &[u8]) -> Result<DsoFile, MissReason> {
        refuse_virtual(path)?;
        let at = |flags| open_in_root(root, path, flags);
        let found = at(OFlags::PATH | OFlags::CLOEXEC).map_err(MissReason::from_errno)?;
        require_regular(&rustix::fs::fstat(found).map_err(MissReason::from_errno)?)?;
        DsoFile::from_fd(at(READ))
    }

    fn from_fd(opened: rustix::io::Result<OwnedFd>) -> Result<DsoFile, MissReason> {
        let fd = opened.map_err(MissReason::from_errno)?;
        let stat = rustix::fs::fstat(&fd).map_err(MissReason::from_errno)?;
        require_regular(&stat)?;
        Ok(DsoFile { file: fd.into(), stat })
    }

    /// What the system said of the file when it was opened.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// The descriptor, for further questions about the file.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The id of the ELF file, decompressed first if it is a .gz, .xz or .zst, whatever its name is.
    ///
    /// # Errors
    /// Why there is none.
    pub fn build_id(self) -> Result<BuildId, MissReason> {
        let mut magic = [0; 6];
        let found = match elf::read_build_id_at(&self.file) {
            Err(MissReason::NotElf) => {
                ReadAt::read_at(&mut &self.file, 0, &mut magic)?;
                let compression = Compression::of(&magic).ok_or(MissReason::NotElf)?;
                elf::read_build_id_at(Decompressed::new(compression, self.file))
            }
            plain => plain,
        };
        found?.ok_or(MissReason::NoNote)
    }
}

impl ReadAt for &File {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, MissReason> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match FileExt::read_at(*self, rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(MissReason::from_errno(errno_of(&e))),
            }
        }
        Ok(done)
    }
}

/// The error number of a failed read, for [`MissReason`].
pub(super) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn open_in_root(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        // Kernels before 5.6, and sandboxes that don't know the call: links then resolve outside the root,
        // so only a path without `..` is tried and never a link at its end.
        Err(Errno::NOSYS | Errno::PERM) if !path.split(|&b| b == b'/').any(|part| part == b"..") => {
            let relative = path.iter().position(|&b| b != b'/').and_then(|at| path.get(at..));
            let flags = flags | OFlags::NOFOLLOW;
            rustix::fs::openat(root, relative.unwrap_or(b"."), flags, Mode::empty())
        }
        other => other,
    }
}

/// Opens a directory for [`DsoFile::open_below`].
///
/// # Errors
/// As the system says.
pub fn open_root(path: &[u8]) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Files of /proc and /sys are made up as they are read, and some of them act when read.
fn refuse_virtual(path: &[u8]) -> Result<(), MissReason> {
    if path.starts_with(b"/proc/") || path.starts_with(b"/sys/") { Err(MissReason::NotAFile) } else { Ok(()) }
}

fn require_regular(stat: &Stat) -> Result<(), MissReason> {
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        Ok(())
    } else {
        Err(MissReason::NotAFile)
    }
}
