//! Where an ELF image's bytes come from: a file opened once, or memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::LoadError;
use super::handle::FileHandle;
use super::name_search::NameSearch;

/// Longest name that is read. Names beyond it are cut.
pub const MAX_NAME: usize = 1 << 20;

/// Bytes read at once when a table is walked.
const WINDOW: usize = 64 << 10;
/// Bytes that are searched at a time.
const SEARCHED: usize = 256 << 10;

/// An image to read from. A file is opened once and read by position from then on, so that all parts come from
/// the same file even if its path is given to another one; a read past its end is short, never a fault.
#[derive(Clone)]
pub struct ImageFile {
    path: Arc<Path>,
    bytes: Bytes,
    len: u64,
}

#[derive(Clone)]
enum Bytes {
    File(Arc<FileHandle>),
    Memory(Arc<[u8]>),
}

impl ImageFile {
    /// Opens a regular file.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let file = FileHandle::open(path).map_err(|e| LoadError::io(path, e))?;
        Self::from_file(path, file)
    }

    /// Takes an open file; `path` is for messages.
    pub fn from_file(path: &Path, file: File) -> Result<Self, LoadError> {
        let meta = file.metadata().map_err(|e| LoadError::io(path, e))?;
        if !meta.is_file() {
            return Err(LoadError::BadElf { path: path.into(), what: "not a regular file" });
        }
        let handle = FileHandle::new(file, &meta);
        Ok(ImageFile { path: path.into(), bytes: Bytes::File(Arc::new(handle)), len: meta.len() })
    }

    /// An image in memory; `path` is for messages.
    pub fn from_memory(path: &Path, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let len = bytes.len() as u64;
        ImageFile { path: path.into(), bytes: Bytes::Memory(bytes), len }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes held in memory for it.
    pub fn memory(&self) -> usize {
        match &self.bytes {
            Bytes::File(_) => 0,
            Bytes::Memory(bytes) => bytes.len(),
        }
    }

    /// Tells that only single names will be read from now on: closes the file if too many are open.
    pub fn settle_down(&self) {
        if let Bytes::File(file) = &self.bytes {
            file.park_if_many();
        }
    }

    /// Reads at a byte offset as much as there is, up to the length of `buf`.
    pub fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.bytes {
            Bytes::File(file) => file.read_at(&self.path, buf, offset),
            Bytes::Memory(bytes) => {
                let Some(rest) = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)) else {
                    return Ok(0);
                };
                rest.take(buf.len() as u64).read(buf)
            }
        }
    }

    /// All `len` bytes at an offset. A length beyond the end is refused before anything is allocated.
    pub fn read_at(&self, offset: u64, len: u64) -> Result<Vec<u8>, LoadError> {
        let bad = |what| LoadError::BadElf { path: self.path.to_path_buf(), what };
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(bad("a section lies outside of the file"));
        }
        let mut buf = Vec::new();
        let len = usize::try_from(len).map_err(|_| LoadError::TooLarge(self.path.to_path_buf()))?;
        super::memory::reserve(&mut buf, len).map_err(|_| LoadError::OutOfMemory(self.path.to_path_buf()))?;
        buf.resize(len, 0);
        let n = self.read_some_at(&mut buf, offset).map_err(|e| LoadError::io(&*self.path, e))?;
        if n < len {
            return Err(bad("it shrank while it was read"));
        }
        Ok(buf)
    }

    /// The whole image.
    pub fn read_all(&self) -> Result<Vec<u8>, LoadError> {
        self.read_at(0, self.len)
    }
}

/// A string table within an image.
#[derive(Clone)]
pub struct StringTable {
    file: ImageFile,
    offset: u64,
    len: u64,
}

impl StringTable {
    /// The table at a byte offset of the image; its end is cut to the image's.
    pub fn new(file: ImageFile, offset: u64, len: u64) -> Self {
        let len = len.min(file.len().saturating_sub(offset));
        StringTable { file, offset, len }
    }

    /// Bytes in the table.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The image that has it.
    pub fn file(&self) -> &ImageFile {
        &self.file
    }

    /// Lets a search go through the table; an error if the file has become shorter.
    pub(super) fn search(&self, search: &mut NameSearch<'_>) -> io::Result<()> {
        let (mut window, mut kept, mut at) = (vec![0; SEARCHED + search.overlap()], 0, 0);
        while at < self.len {
            let space = window.get_mut(kept..).unwrap_or_default();
            let want = space.len().min(usize::try_from(self.len - at).unwrap_or(usize::MAX));
            let space = space.get_mut(..want).unwrap_or_default();
            let n = self.file.read_some_at(space, self.offset.saturating_add(at))?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let piece = window.get(..kept + n).unwrap_or_default();
            search.piece(at - kept as u64, piece).map_err(|_| io::ErrorKind::OutOfMemory)?;
            let again = search.overlap().min(kept + n);
            window.copy_within(kept + n - again..kept + n, 0);
            (at, kept) = (at + n as u64, again);
        }
        Ok(())
    }

    /// The name at an offset of the table, without its NUL; empty if the offset is outside, an error if the
    /// file has become shorter.
    pub fn name(&self, at: u32) -> io::Result<Vec<u8>> {
        let mut name = Vec::new();
        let mut at = u64::from(at);
        let mut buf = [0u8; 512];
        while at < self.len && name.len() < MAX_NAME {
            let want = buf.len().min(usize::try_from(self.len - at).unwrap_or(usize::MAX));
            let part = buf.get_mut(..want).unwrap_or_default();
            let n = self.file.read_some_at(part, self.offset.saturating_add(at))?;
            let part = part.get(..n).unwrap_or_default();
            let upto = memchr_nul(part);
            name.extend_from_slice(part.get(..upto).unwrap_or_default());
            if upto < part.len() {
                break;
            }
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += n as u64;
        }
        Ok(name)
    }

    /// A reader for many names, fast when they are asked for in about ascending order.
    pub fn reader(&self) -> NameReader<'_> {
        NameReader { table: self, window: Vec::new(), at: 0, long: Vec::new() }
    }
}

/// Reads names through a window that slides over the string table.
pub struct NameReader<'a> {
    table: &'a StringTable,
    window: Vec<u8>,
    at: u64,
    long: Vec<u8>,
}

impl NameReader<'_> {
    /// The name at an offset of the table, without its NUL; empty if the offset is outside.
    pub fn name(&mut self, at: u32) -> io::Result<&[u8]> {
        let off = u64::from(at);
        if self.find(off).is_none() {
            self.fill(off)?;
        }
        match self.find(off) {
            Some((from, to)) => Ok(self.window.get(from..to).unwrap_or_default()),
            None => {
                self.long = self.table.name(at)?;
                Ok(&self.long)
            }
        }
    }

    /// Where in the window the name is, if the window has all of it.
    fn find(&self, off: u64) -> Option<(usize, usize)> {
        let from = usize::try_from(off.checked_sub(self.at)?).ok()?;
        let rest = self.window.get(from..)?;
        let len = memchr_nul(rest);
        (len < rest.len()).then_some((from, from + len))
    }

    fn fill(&mut self, off: u64) -> io::Result<()> {
        let len = usize::try_from(self.table.len.saturating_sub(off)).unwrap_or(usize::MAX).min(WINDOW);
        self.window.resize(len, 0);
        self.at = off;
        let n = self.table.file.read_some_at(&mut self.window, self.table.offset.saturating_add(off))?;
        self.window.truncate(n);
        Ok(())
    }
}

/// Length of the part before the first NUL.
fn memchr_nul(bytes: &[u8]) -> usize {
    bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())
}
