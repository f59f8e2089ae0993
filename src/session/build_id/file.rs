//! Opening a DSO's file without side effects, and reading its build-id.
//!
//! Names come from a recording, so they may name anything: only regular files are opened, since opening a
//! device or a FIFO acts on it. Below another root, symbolic links resolve within that root.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use super::decompress::{Compression, Decompressed};
use super::elf::{self, ReadAt};
use super::id::BuildId;
use super::miss::MissReason;

// NONBLOCK in case a FIFO takes the file's place meanwhile.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A regular file open for reading.
#[derive(Debug)]
pub struct DsoFile {
    file: File,
    identity: FileIdentity,
}

/// What tells a file from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Major and minor number of its device.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// When it was last written.
    pub written: Duration,
    /// When it was created; zero where the file system does not know.
    pub born: Duration,
}

impl FileIdentity {
    /// With the file's mode. Times are since 1970; earlier ones count as 1970.
    fn of(fd: &OwnedFd) -> rustix::io::Result<(u32, FileIdentity)> {
        let time = |seconds: i64, nanoseconds: u32| {
            Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
                .saturating_add(Duration::from_nanos(nanoseconds.into()))
        };
        match rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME) {
            Ok(stat) => {
                let written = time(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec);
                let born = match StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME) {
                    true => time(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
                    false => Duration::ZERO,
                };
                let device = (stat.stx_dev_major, stat.stx_dev_minor);
                Ok((stat.stx_mode.into(), FileIdentity { device, inode: stat.stx_ino, written, born }))
            }
            // Sandboxes that do not know the call.
            Err(Errno::NOSYS | Errno::PERM) => {
                let stat = rustix::fs::fstat(fd)?;
                let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
                let written = time(stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or_default());
                Ok((stat.st_mode, FileIdentity { device, inode: stat.st_ino, written, born: Duration::ZERO }))
            }
            Err(e) => Err(e),
        }
    }
}

impl DsoFile {
    /// Opens the regular file at an absolute path.
    ///
    /// # Errors
    /// Why it can't be read.
    pub fn open(path: &[u8]) -> Result<DsoFile, MissReason> {
        refuse_virtual(path)?;
        let stat = rustix::fs::stat(path).map_err(MissReason::from_errno)?;
        require_regular(stat.st_mode)?;
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
        require_regular(rustix::fs::fstat(found).map_err(MissReason::from_errno)?.st_mode)?;
        DsoFile::from_fd(at(READ))
    }

    fn from_fd(opened: rustix::io::Result<OwnedFd>) -> Result<DsoFile, MissReason> {
        let fd = opened.map_err(MissReason::from_errno)?;
        let (mode, identity) = FileIdentity::of(&fd).map_err(MissReason::from_errno)?;
        require_regular(mode)?;
        Ok(DsoFile { file: fd.into(), identity })
    }

    /// What tells the file from others.
    pub fn identity(&self) -> &FileIdentity {
        &self.identity
    }

    /// The descriptor, for further questions about the file.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The file's first bytes, at most `limit` of them.
    ///
    /// # Errors
    /// The system refuses.
    pub fn contents(&self, limit: u64) -> Result<Vec<u8>, MissReason> {
        let mut contents = Vec::new();
        let read = (&self.file).take(limit).read_to_end(&mut contents);
        read.map_err(|e| MissReason::from_errno(errno_of(&e)))?;
        Ok(contents)
    }

    /// The id of the ELF file, decompressed first if it is a .gz, .xz or .zst, whatever its name is.
    ///
    /// # Errors
    /// Why there is none.
    pub fn build_id(&self) -> Result<BuildId, MissReason> {
        let mut magic = [0; 6];
        let found = match elf::read_build_id_at(&self.file) {
            Err(MissReason::NotElf) => {
                ReadAt::read_at(&mut &self.file, 0, &mut magic)?;
                let compression = Compression::of(&magic).ok_or(MissReason::NotElf)?;
                elf::read_build_id_at(Decompressed::new(compression, &self.file))
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

fn require_regular(mode: u32) -> Result<(), MissReason> {
    if FileType::from_raw_mode(mode) == FileType::RegularFile { Ok(()) } else { Err(MissReason::NotAFile) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::TestElf;
    use super::*;
    use std::ffi::OsStr;
    use std::fs;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    const ID: [u8; 20] = [0x5a; 20];

    fn id_of(path: &Path) -> Result<BuildId, MissReason> {
        DsoFile::open(path.as_os_str().as_bytes())?.build_id()
    }

    fn id() -> Result<BuildId, MissReason> {
        Ok(BuildId::from_bytes(&ID).unwrap())
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zst(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    #[test]
    fn plain_and_linked_files_give_their_id() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.so.1");
        fs::write(&file, TestElf::with_id(&ID).build()).unwrap();
        symlink("x.so.1", dir.path().join("x.so")).unwrap();
        assert_eq!((id_of(&file), id_of(&dir.path().join("x.so"))), (id(), id()));
    }

    #[test]
    fn modules_give_their_id_however_they_are_compressed() {
        let dir = tempfile::tempdir().unwrap();
        // notes near the start, past what is kept at hand, and behind a body that needs a second pass
        for (filler, body) in [(0, 0), (0, 300_000), (200_000, 0), (200_000, 300_000)] {
            let elf = TestElf { segments: false, filler, body, ..TestElf::with_id(&ID) }.build();
            for (name, bytes) in [("m.ko.gz", gzip(&elf)), ("m.ko.xz", xz(&elf)), ("m.ko.zst", zst(&elf))] {
                let file = dir.path().join(name);
                fs::write(&file, &bytes).unwrap();
                assert_eq!(id_of(&file), id(), "{name} {filler} {body}");
                fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
                assert!(
                    matches!(id_of(&file), Err(MissReason::Decompress | MissReason::MalformedElf)),
                    "{name} cut"
                );
                // the right magic before garbage
                fs::write(&file, [&bytes[..6], &[0xa5; 100]].concat()).unwrap();
                assert_eq!(id_of(&file), Err(MissReason::Decompress), "{name} garbage");
            }
            fs::write(dir.path().join("inner"), gzip(b"no ELF file")).unwrap();
            assert_eq!(id_of(&dir.path().join("inner")), Err(MissReason::NotElf));
        }
    }

    #[test]
    fn what_grows_without_bound_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bomb.ko.zst");
        // section headers said to lie beyond the bound, in 600 MiB of zeros
        let mut elf = TestElf { segments: false, ..TestElf::with_id(&ID) }.build();
        crate::bytes::ByteOrder::Little.set_u64(&mut elf, 40, 599 << 20).unwrap();
        let mut encoder = zstd::Encoder::new(fs::File::create(&file).unwrap(), 1).unwrap();
        encoder.write_all(&elf).unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..600 {
            encoder.write_all(&zeros).unwrap();
        }
        encoder.finish().unwrap();
        assert_eq!(id_of(&file), Err(MissReason::TooLarge));
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        for path in [fifo.as_path(), dir.path(), Path::new("/dev/null"), Path::new("/proc/self/exe")] {
            assert_eq!(id_of(path), Err(MissReason::NotAFile), "{}", path.display());
        }
        assert_eq!(id_of(&dir.path().join("none")), Err(MissReason::NoSuchFile));
        assert_eq!(id_of(&dir.path().join("fifo/x")), Err(MissReason::NoSuchFile));
        assert_eq!(id_of(Path::new(OsStr::from_bytes(b"/a\0b"))), Err(MissReason::Io(Errno::INVAL)));
        assert_eq!(id_of(Path::new(&"/a".repeat(3000))), Err(MissReason::Io(Errno::NAMETOOLONG)));
        fs::write(dir.path().join("empty"), "").unwrap();
        assert_eq!(id_of(&dir.path().join("empty")), Err(MissReason::NotElf));
    }

    #[test]
    fn links_resolve_within_another_root() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/lib")).unwrap();
        fs::write(root.path().join("usr/lib/only-here.so"), TestElf::with_id(&ID).build()).unwrap();
        symlink("/usr/lib", root.path().join("lib")).unwrap();
        symlink("../../../usr/lib/only-here.so", root.path().join("usr/up.so")).unwrap();
        let fd = open_root(root.path().as_os_str().as_bytes()).unwrap();
        let below = |path: &str| DsoFile::open_below(fd.as_fd(), path.as_bytes())?.build_id();
        for path in ["/usr/lib/only-here.so", "/lib/only-here.so", "/usr/up.so", "/../../lib/only-here.so"] {
            assert_eq!(below(path), id(), "{path}");
        }
        assert_eq!(below("/lib"), Err(MissReason::NotAFile));
        assert_eq!(below("/lib/none.so"), Err(MissReason::NoSuchFile));
        assert_eq!(below("/bin/sh"), Err(MissReason::NoSuchFile));
    }
}
