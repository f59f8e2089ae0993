//! An open file that may be put aside when too many are open, and taken up again only if it is still the same.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Files open in all of this process's handles.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// What tells a file from another one, and from a later state of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(meta: &Metadata) -> Self {
        Identity {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        }
    }
}

/// A file opened once. While it is open, what its path leads to does not matter.
pub(super) struct FileHandle {
    file: Mutex<Option<Arc<OpenFile>>>,
    identity: Identity,
}

struct OpenFile(File);

impl OpenFile {
    fn new(file: File) -> Arc<Self> {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Arc::new(OpenFile(file))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FileHandle {
    pub(super) fn new(file: File, meta: &Metadata) -> Self {
        FileHandle { file: Mutex::new(Some(OpenFile::new(file))), identity: Identity::of(meta) }
    }

    /// Opens a path to read.
    pub(super) fn open(path: &Path) -> io::Result<File> {
        // Without NONBLOCK, opening a FIFO of that name would wait for a writer.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?))
    }

    /// Reads at a byte offset as much as there is, up to the length of `buf`.
    pub(super) fn read_at(&self, path: &Path, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = match self.held() {
            Some(file) => file,
            None => self.reopen(path)?,
        };
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = offset.checked_add(done as u64) else { break };
            match file.0.read_at(rest, at) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn held(&self) -> Option<Arc<OpenFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The file anew, for this read alone; an error if the path leads to another one now.
    fn reopen(&self, path: &Path) -> io::Result<Arc<OpenFile>> {
        let file = Self::open(path)?;
        if Identity::of(&file.metadata()?) != self.identity {
            return Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, "the file has changed"));
        }
        Ok(OpenFile::new(file))
    }

    /// Closes the file if this process holds half as many as it may.
    pub(super) fn park_if_many(&self) {
        if OPEN.load(Ordering::Relaxed) > limit() {
            self.park();
        }
    }

    /// Closes the file. Reads open it again, each for itself.
    pub(super) fn park(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// How many files may stay open: half of what the process may have.
fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let soft = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        usize::try_from(soft.unwrap_or(u64::MAX) / 2).unwrap_or(usize::MAX)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn handle(path: &Path) -> FileHandle {
        let file = FileHandle::open(path).unwrap();
        let meta = file.metadata().unwrap();
        FileHandle::new(file, &meta)
    }

    #[test]
    fn a_file_that_was_replaced_is_read_while_open_and_refused_when_parked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"first").unwrap();
        let handle = handle(&path);
        let mut buf = [0; 5];
        handle.park();
        assert_eq!(handle.read_at(&path, &mut buf, 0).unwrap(), 5);
        let open = self::handle(&path);
        std::fs::write(dir.path().join("g"), b"other").unwrap();
        std::fs::rename(dir.path().join("g"), &path).unwrap();
        assert_eq!((open.read_at(&path, &mut buf, 0).unwrap(), &buf), (5, b"first"));
        assert!(handle.read_at(&path, &mut buf, 0).is_err());
        open.park();
        assert!(open.read_at(&path, &mut buf, 0).is_err());
    }
}
