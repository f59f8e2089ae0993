//! Contents of a section for those who go back and forth in it: mapped, or unpacked into memory.

use std::fs::File;
use std::io::Read;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::elf::{Elf, SHT_NOBITS, Section};
use super::memory;
use crate::data::Mapping;

const SHF_COMPRESSED: u64 = 1 << 11;
const ELFCOMPRESS_ZLIB: u32 = 1;
const ELFCOMPRESS_ZSTD: u32 = 2;
/// Largest section that is copied into memory, of images that are not files.
const MOST_COPIED: u64 = 1 << 20;
/// Largest section that is unpacked.
const MOST_UNPACKED: u64 = 1 << 30;
/// Memory that a decoder may take for its window.
const MAX_WINDOW_LOG: u32 = 27;

/// Bytes of a section: of the mapped file, or in memory.
#[derive(Clone)]
pub enum Bytes {
    /// A range of a mapped file.
    Mapped(Arc<Mapping>, Range<usize>),
    /// In memory.
    Owned(Arc<[u8]>),
    /// In memory, unpacked.
    Unpacked(Arc<Vec<u8>>),
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes::Owned(Arc::default())
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map, range) => map.get(range.clone()).unwrap_or_default(),
            Bytes::Owned(bytes) => bytes,
            Bytes::Unpacked(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// Bytes of memory that are not the file's.
    pub fn memory(&self) -> usize {
        match self {
            Bytes::Mapped(..) => 0,
            Bytes::Owned(bytes) => bytes.len(),
            Bytes::Unpacked(bytes) => bytes.capacity(),
        }
    }
}

/// Reads sections of one image.
pub struct Sections<'a> {
    elf: &'a Elf,
    map: Option<Arc<Mapping>>,
}

impl<'a> Sections<'a> {
    /// Maps the image's file. `None` if that fails; an image in memory, such as the vDSO's, has no file to map.
    pub fn new(elf: &'a Elf) -> Option<Sections<'a>> {
        let map = File::open(elf.file.path()).and_then(|file| {
            let len = file.metadata()?.len();
            Ok((file, len))
        });
        let map = match map {
            Ok((file, len)) if elf.file.memory() == 0 && len == elf.file.len() => {
                let mapped = Mapping::new(file, elf.file.path().to_path_buf());
                Some(Arc::new(mapped.inspect_err(memory::note_failure).ok()?))
            }
            _ => None,
        };
        Some(Sections { elf, map })
    }

    /// The mapped file, where the image is one.
    pub fn file(&self) -> Option<&Arc<Mapping>> {
        self.map.as_ref()
    }

    /// Contents of a section as they stand in the file; `None` if it has none there, or they are packed.
    pub fn plain(&self, section: &Section) -> Option<Bytes> {
        if section.kind == SHT_NOBITS || section.flags & SHF_COMPRESSED != 0 {
            return None;
        }
        match &self.map {
            Some(map) => {
                map.section(section.offset, section.size)?;
                let start = usize::try_from(section.offset).ok()?;
                let range = start..start + usize::try_from(section.size).ok()?;
                Some(Bytes::Mapped(Arc::clone(map), range))
            }
            None if section.size <= MOST_COPIED => {
                Some(Bytes::Owned(self.elf.file.read_at(section.offset, section.size).ok()?.into()))
            }
            None => None,
        }
    }

    /// Contents of a section, unpacked if they are packed.
    pub fn contents(&self, section: &Section) -> Option<Bytes> {
        if section.flags & SHF_COMPRESSED == 0 {
            return self.plain(section);
        }
        let packed = self.plain(&Section { flags: 0, ..section.clone() })?;
        // Elf64_Chdr has a reserved word behind the type.
        let (size_at, header) = if self.elf.is_64 { (8, 24) } else { (4, 12) };
        let kind = self.elf.order.u32(&packed, 0)?;
        let size = self.elf.word(&packed, size_at)?;
        let body = packed.get(header..)?;
        if size > MOST_UNPACKED {
            return None;
        }
        let unpacked = match kind {
            ELFCOMPRESS_ZLIB => read_all(flate2::read::ZlibDecoder::new(body), size),
            ELFCOMPRESS_ZSTD => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(body).ok()?;
                decoder.window_log_max(MAX_WINDOW_LOG).ok()?;
                read_all(decoder, size)
            }
            _ => None,
        };
        unpacked.map(|bytes| Bytes::Unpacked(Arc::new(bytes)))
    }
}

fn read_all(reader: impl Read, size: u64) -> Option<Vec<u8>> {
    memory::read_to_end(reader, size).inspect_err(|e| memory::note(e.kind())).ok()
}
