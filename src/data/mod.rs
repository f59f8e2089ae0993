//! Where bytes come from: a mapped file, a pipe, a directory; and memory. The only module of the core with `unsafe` (the
//! map and what becomes of it, the allocator, a hint to the processor).

pub mod allocator;
pub mod fatal;
mod generation;
mod map;
pub mod parallel;
pub mod prefetch;
pub mod unfinished;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use generation::inode_generation;
pub use map::{Mapping, ReadAhead};
use rustix::fs::{FileType, Stat};

use crate::error::{Error, ErrorKind, Result};

/// An opened input.
pub enum Input {
    /// A regular file, mapped; it may hold either format.
    File(Arc<Mapping>),
    /// A pipe, socket or terminal, read as a stream.
    Pipe(PipeInput),
    /// A directory as `perf record --threads` makes it.
    Directory(Directory),
}

/// A stream with its name for messages.
pub struct PipeInput {
    /// Name for messages.
    pub name: PathBuf,
    /// Its read end.
    pub file: File,
}

/// A directory recording: `data` with header, attributes, features and its own records; `data.N` with records only.
pub struct Directory {
    /// The directory.
    pub path: PathBuf,
    /// The file `data`.
    pub data: Arc<Mapping>,
    /// The files `data.N`, by number.
    pub parts: Vec<Arc<Mapping>>,
    /// Names of entries that are neither, such as `kcore_dir`.
    pub others: Vec<String>,
}

/// What an opened input's metadata says, for the checks on the output.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Device of the file.
    pub dev: u64,
    /// Inode of the file.
    pub ino: u64,
    /// Permission bits.
    pub mode: u32,
    /// When it was last written.
    pub modified: Option<SystemTime>,
}

impl Identity {
    #[allow(clippy::unnecessary_cast, reason = "the widths of the fields differ between platforms")]
    fn of(stat: &Stat) -> Identity {
        let since =
            Duration::new(stat.st_mtime.try_into().unwrap_or(0), stat.st_mtime_nsec.try_into().unwrap_or(0));
        Identity {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            mode: stat.st_mode as u32 & 0o7777,
            modified: SystemTime::UNIX_EPOCH.checked_add(since),
        }
    }
}

/// Opens `path`, or standard input for `-`. Returns the identity where the input is a regular file or a directory;
/// of the latter with the permissions of the `data` in it.
///
/// Without `force`, a file that belongs to someone else than root or the user is refused, as perf does.
pub fn open(path: &Path, force: bool) -> Result<(Input, Option<Identity>)> {
    if path == Path::new("-") {
        let fd = rustix::stdio::stdin()
            .try_clone_to_owned()
            .map_err(|e| Error::io(e, "cannot read standard input", "<stdin>"))?;
        return from_fd(fd, PathBuf::from("<stdin>"));
    }
    let file = File::open(path).map_err(|e| Error::io(e, "cannot open", path))?;
    let stat = rustix::fs::fstat(&file).map_err(|e| Error::io(e.into(), "cannot stat", path))?;
    if !force && stat.st_uid != 0 && stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Error::new(ErrorKind::Io, "the file belongs to neither the current user nor root")
            .in_file(path)
            .hint("use -f to read it all the same"));
    }
    if FileType::from_raw_mode(stat.st_mode).is_dir() {
        let directory = open_directory(path)?;
        let data = path.join("data");
        let of_data = rustix::fs::stat(&data).map_err(|e| Error::io(e.into(), "cannot stat", &data))?;
        let identity = Identity { mode: Identity::of(&of_data).mode, ..Identity::of(&stat) };
        return Ok((Input::Directory(directory), Some(identity)));
    }
    from_fd(file.into(), path.to_path_buf())
}

fn from_fd(fd: OwnedFd, name: PathBuf) -> Result<(Input, Option<Identity>)> {
    let stat = rustix::fs::fstat(&fd).map_err(|e| Error::io(e.into(), "cannot stat", &name))?;
    if FileType::from_raw_mode(stat.st_mode).is_file() {
        let at = rustix::fs::tell(fd.as_fd()).unwrap_or(0);
        if at == 0 {
            let mapping = Mapping::new(File::from(fd), name)?;
            return Ok((Input::File(Arc::new(mapping)), Some(Identity::of(&stat))));
        }
    }
    Ok((Input::Pipe(PipeInput { name, file: File::from(fd) }), None))
}

fn open_directory(path: &Path) -> Result<Directory> {
    let mut numbered: Vec<(u64, PathBuf)> = Vec::new();
    let mut others = Vec::new();
    let entries = std::fs::read_dir(path).map_err(|e| Error::io(e, "cannot list", path))?;
    for entry in entries {
        let entry = entry.map_err(|e| Error::io(e, "cannot list", path))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.strip_prefix("data.").and_then(|n| n.parse().ok()) {
            Some(number) => numbered.push((number, entry.path())),
            None if name == "data" => {}
            None => others.push(name),
        }
    }
    numbered.sort();
    others.sort();
    let map = |p: PathBuf| -> Result<Arc<Mapping>> {
        // A pipe or device of that name would block, or have no end.
        let is_file = std::fs::metadata(&p).map_err(|e| Error::io(e, "cannot stat", &p))?.is_file();
        if !is_file {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a part of a directory recording that is no regular file",
            )
            .in_file(&p));
        }
        let file = File::open(&p).map_err(|e| Error::io(e, "cannot open", &p))?;
        Ok(Arc::new(Mapping::new(file, p)?))
    };
    let data = map(path.join("data"))
        .map_err(|e| e.hint("a directory recording has its header in a file named data"))?;
    let parts = numbered.into_iter().map(|(_, p)| map(p)).collect::<Result<Vec<_>>>()?;
    Ok(Directory { path: path.to_path_buf(), data, parts, others })
}
