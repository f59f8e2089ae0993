//! Files that are not to be left behind if the process ends before they are complete.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::allocator::may_fail;

/// Their names, for a signal handler's thread to remove.
static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn files() -> MutexGuard<'static, Vec<PathBuf>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a file that was not there, and notes its name. All memory is had before: if there is none the process ends,
/// and a file whose name is not noted yet would be left.
pub fn create(path: &Path) -> io::Result<File> {
    let name = path.to_path_buf();
    may_fail(|| files().try_reserve(1))?;
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    files().push(name);
    Ok(file)
}

/// Notes a file that somebody else has created; to be called as soon as it is there.
pub fn add(path: &Path) {
    let name = path.to_path_buf();
    if may_fail(|| files().try_reserve(1)).is_ok() {
        files().push(name);
    }
}

/// Forgets a file that is complete, has another name by now, or is gone.
pub fn forget(path: &Path) {
    files().retain(|file| file != path);
}

/// Gives a file its final name by `rename` and forgets it. Removing waits meanwhile, so it finds either the unfinished name
/// or none.
pub fn rename<E>(path: &Path, rename: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    let mut files = files();
    rename()?;
    files.retain(|file| file != path);
    Ok(())
}

/// Removes all, for a process that is about to end.
pub fn remove_all() {
    let all = std::mem::take(&mut *files());
    for file in all {
        // Nothing more can be done about a failure at this point.
        let _ = std::fs::remove_file(file);
    }
}

/// As [`remove_all`], from wherever the process was stopped: it neither waits, nor allocates or frees. What another thread is
/// giving its name at this moment is left to it.
pub fn remove_all_now() {
    let all = match FILES.try_lock() {
        Ok(all) => all,
        Err(TryLockError::Poisoned(all)) => all.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    for file in all.iter() {
        let _ = rustix::fs::unlink(file.as_path());
    }
}
