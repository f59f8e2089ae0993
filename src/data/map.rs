//! A file mapped read-only.
#![allow(unsafe_code, reason = "mapping a file; justified at the block")]

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

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
        // which are checked as hostile ones are, and a read past a new end raises SIGBUS, which ends the process
        // before its output is renamed into place. perf has the same limit.
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

    /// Bytes `offset..offset + size` if they are all in the file.
    pub fn section(&self, offset: u64, size: u64) -> Option<&[u8]> {
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

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}
