//! A file mapped read-only.
#![allow(unsafe_code, reason = "mapping a file; justified at the block")]

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::Thread;

use memmap2::{Mmap, MmapOptions};

use crate::error::{Error, Result};

/// A whole regular file, mapped, with its handle and its name.
pub struct Mapping {
    file: File,
    path: PathBuf,
    map: Option<Mmap>,
}

impl Mapping {
    /// Maps `file`. An empty file has no bytes and no map.
    pub fn new(file: File, path: PathBuf) -> Result<Mapping> {
        let len = file.metadata().map_err(|e| Error::io(e, "cannot stat", &path))?.len();
        if len == 0 {
            return Ok(Mapping { file, path, map: None });
        }
        // SAFETY: the map is private to this program and only ever read, as bytes, for which every bit pattern is
        // valid. Another process may still write to the file or cut it short: changed bytes are then read, all of
        // which are checked as hostile ones are, and a read past a new end raises SIGBUS, which ends the process (see
        // `fatal`) before its output is renamed into place.
        let map = unsafe { MmapOptions::new().map(&file) }.map_err(|e| Error::io(e, "cannot map", &path))?;
        // Faults are cheaper in sequence; failing to say so costs nothing but time.
        let _ = map.advise(memmap2::Advice::Sequential);
        Ok(Mapping { file, path, map: Some(map) })
    }

    /// The file's name for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file; its position is not used.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes `offset..offset + size` if they are all in the file; no bytes are in it wherever they are said to be.
    pub fn section(&self, offset: u64, size: u64) -> Option<&[u8]> {
        if size == 0 {
            return Some(&[]);
        }
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        self.get(start..end)
    }

    /// Reads a range into memory ahead of its use, so that a walk over it takes no page faults.
    pub fn populate(&self, range: Range<usize>) {
        if let Some(map) = &self.map {
            let end = range.end.min(map.len());
            if range.start < end {
                // Best effort: kernels before 5.14 don't know it, and the pages then come by faults.
                let _ = map.advise_range(memmap2::Advice::PopulateRead, range.start, end - range.start);
            }
        }
    }
}

impl Mapping {
    /// Lets go of the pages of a range that nobody will read again, so that the process does not have to when it ends.
    pub fn release(&self, range: Range<usize>) {
        let Some(map) = &self.map else { return };
        let end = range.end.min(map.len());
        if range.start < end {
            // SAFETY: the map is shared, of a file and never written, so that a page that is read again all the same
            // comes back from the file with what the file holds, which readers must expect to change anyway.
            let _ = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, end - range.start)
            };
        }
    }
}

/// How far ahead of the reader pages are brought in, and by how many at a time.
const AHEAD: usize = 32 << 20;
const STEP: usize = 2 << 20;

/// Brings a mapping's pages in ahead of whoever walks over it, on a thread of its own, so that the walk takes no page
/// faults; ends with this.
pub struct ReadAhead {
    progress: Arc<AtomicUsize>,
    thread: Thread,
}

impl ReadAhead {
    /// Starts for a range; nothing is done for one that is over in an instant.
    pub fn start(map: &Arc<Mapping>, range: Range<usize>) -> Option<ReadAhead> {
        if range.len() < 2 * STEP {
            return None;
        }
        let progress = Arc::new(AtomicUsize::new(range.start));
        let (seen, map) = (progress.clone(), map.clone());
        let worker = move || {
            let mut at = range.start;
            while at < range.end {
                match seen.load(Relaxed) {
                    usize::MAX => return,
                    done if at > done.saturating_add(AHEAD) => std::thread::park(),
                    _ => {
                        map.populate(at..(at + STEP).min(range.end));
                        at += STEP;
                    }
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("read-ahead".into()).spawn(worker).ok()?.thread().clone();
        Some(ReadAhead { progress, thread })
    }

    /// Tells how far the walk has come, as an index into the mapping.
    pub fn reached(&self, at: usize) {
        self.progress.store(at, Relaxed);
        self.thread.unpark();
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.reached(usize::MAX);
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_section_is_within_the_file_or_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"abcdef").unwrap();
        let map = Mapping::new(File::open(&path).unwrap(), path).unwrap();
        assert_eq!(map.section(2, 3), Some(&b"cde"[..]));
        assert_eq!(map.section(2, 5), None);
        assert_eq!(map.section(u64::MAX, 2), None);
        assert_eq!(map.section(1 << 40, 0), Some(&b""[..]));
    }
}
