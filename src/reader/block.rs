//! Contiguous bytes of the record stream.

use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::data::Mapping;
use crate::error::Error;

/// Where a block's bytes were read, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The input's name.
    pub file: Arc<PathBuf>,
    /// Offset in it of the block's first byte, or of the compressed record that it came from.
    pub offset: u64,
    /// Whether the bytes were decompressed, so that offsets within the block are not offsets in the file.
    pub decompressed: bool,
}

enum Bytes {
    Map(Arc<Mapping>, Range<usize>),
    Heap(Vec<u8>),
}

/// Contiguous bytes of the record stream.
pub struct Block {
    base: u64,
    bytes: Bytes,
    origin: Option<Origin>,
    /// All records of later blocks are at or after this time, ns; only said where several files are read as one.
    horizon: Option<u64>,
}

impl Block {
    /// A range of a mapped file; its stream position is `base`.
    pub fn mapped(map: &Arc<Mapping>, range: Range<usize>, base: u64) -> Self {
        Block { base, bytes: Bytes::Map(map.clone(), range), origin: None, horizon: None }
    }

    /// Bytes in memory.
    pub fn heap(bytes: Vec<u8>, base: u64, origin: Origin) -> Self {
        Block { base, bytes: Bytes::Heap(bytes), origin: Some(origin), horizon: None }
    }

    /// The same with a horizon.
    #[must_use]
    pub fn with_horizon(mut self, horizon: Option<u64>) -> Self {
        self.horizon = horizon;
        self
    }

    /// The same at another stream position.
    #[must_use]
    pub fn rebased(mut self, base: u64) -> Self {
        self.base = base;
        self
    }

    /// The horizon, where one is known.
    pub fn horizon(&self) -> Option<u64> {
        self.horizon
    }

    /// Stream position of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Stream position behind the last byte.
    pub fn end(&self) -> u64 {
        self.base + self.len() as u64
    }

    /// The file and the range in it, if the block is mapped.
    pub fn map(&self) -> Option<(&Arc<Mapping>, Range<usize>)> {
        match &self.bytes {
            Bytes::Map(map, range) => Some((map, range.clone())),
            Bytes::Heap(_) => None,
        }
    }

    /// Lets go of the pages of a range that nobody will read again, if the block is mapped.
    pub fn release(&self, range: Range<usize>) {
        if let Bytes::Map(map, at) = &self.bytes {
            map.release(at.start + range.start..at.start + range.end);
        }
    }

    /// Bytes that the block holds in memory of its own.
    pub fn heap_bytes(&self) -> usize {
        match &self.bytes {
            Bytes::Map(..) => 0,
            Bytes::Heap(v) => v.capacity(),
        }
    }

    /// Turns an error at a stream position within the block into one at a place of the input.
    pub fn locate(&self, error: Error) -> Error {
        match (&self.bytes, &self.origin) {
            (Bytes::Map(map, range), _) => {
                let delta = range.start as i64 - self.base as i64;
                error.shift(delta).in_file(map.path())
            }
            (Bytes::Heap(_), Some(origin)) if origin.decompressed => error
                .replace_offset(origin.offset)
                .note("in the data decompressed from there")
                .in_file(Path::new(origin.file.as_path())),
            (Bytes::Heap(_), Some(origin)) => {
                error.shift(origin.offset as i64 - self.base as i64).in_file(Path::new(origin.file.as_path()))
            }
            (Bytes::Heap(_), None) => error,
        }
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Map(map, range) => map.get(range.clone()).unwrap_or_default(),
            Bytes::Heap(v) => v,
        }
    }
}
