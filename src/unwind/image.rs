//! The file that a DSO's call frame information is read from.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;

use crate::data::Mapping;
use crate::symbol::elf::{Elf, Section, Segment};
use crate::symbol::file::ImageFile;

const SHT_NOBITS: u32 = 8;
const SHF_COMPRESSED: u64 = 1 << 11;
/// Largest section that is copied into memory, of images that are not files.
const MOST_COPIED: u64 = 1 << 20;

/// Bytes of a section: of the mapped file, or in memory.
#[derive(Clone)]
pub enum Bytes {
    /// A range of a mapped file.
    Mapped(Arc<Mapping>, Range<usize>),
    /// In memory.
    Owned(Arc<[u8]>),
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
        }
    }
}

/// A DSO's segments and call frame information.
pub struct Image {
    /// Loaded segments with contents.
    pub(super) segments: Vec<Segment>,
    info: ExplicitModuleSectionInfo<Bytes>,
}

impl Image {
    /// Reads a file. `None` if it has no call frame information that can be used: neither `.eh_frame` nor
    /// `.debug_frame`.
    pub fn open(path: &Path) -> Option<Image> {
        Image::of(&Elf::parse(ImageFile::open(path).ok()?).ok()?)
    }

    /// From headers that were read already.
    pub fn of(elf: &Elf) -> Option<Image> {
        if !elf.is_64 || elf.order != crate::bytes::ByteOrder::Little {
            return None;
        }
        // Images of memory, such as the vDSO's, have no file to map.
        let map = File::open(elf.file.path()).and_then(|file| {
            let len = file.metadata()?.len();
            Ok((file, len))
        });
        let map = match map {
            Ok((file, len)) if elf.file.memory() == 0 && len == elf.file.len() => {
                Some(Arc::new(Mapping::new(file, elf.file.path().to_path_buf()).ok()?))
            }
            _ => None,
        };
        let bytes = |section: &Section| -> Option<Bytes> {
            if section.kind == SHT_NOBITS || section.flags & SHF_COMPRESSED != 0 {
                return None;
            }
            match &map {
                Some(map) => {
                    map.section(section.offset, section.size)?;
                    let start = usize::try_from(section.offset).ok()?;
                    let range = start..start + usize::try_from(section.size).ok()?;
                    Some(Bytes::Mapped(Arc::clone(map), range))
                }
                None if section.size <= MOST_COPIED => {
                    Some(Bytes::Owned(elf.file.read_at(section.offset, section.size).ok()?.into()))
                }
                None => None,
            }
        };
        let section = |name| elf.section(name).map(|(_, section)| section);
        let place = |name| section(name).map(|s: &Section| s.addr..s.addr.saturating_add(s.size));
        let data = |name| section(name).and_then(bytes);
        let eh_frame = data(".eh_frame").filter(|bytes| !bytes.is_empty());
        let debug_frame = if eh_frame.is_none() { data(".debug_frame") } else { None };
        if eh_frame.is_none() && debug_frame.is_none() {
            return None;
        }
        let info = ExplicitModuleSectionInfo {
            text_svma: place(".text"),
            got_svma: place(".got"),
            eh_frame_svma: place(".eh_frame"),
            eh_frame,
            eh_frame_hdr_svma: place(".eh_frame_hdr"),
            eh_frame_hdr: data(".eh_frame_hdr").filter(|bytes| !bytes.is_empty()),
            debug_frame,
            ..ExplicitModuleSectionInfo::default()
        };
        let segments = elf.segments.iter().filter(|s| s.filesz > 0).copied().collect();
        Some(Image { segments, info })
    }

    /// The addresses that segments take.
    pub(super) fn range(&self) -> Option<Range<u64>> {
        let start = self.segments.iter().map(|s| s.vaddr).min()?;
        let end = self.segments.iter().map(|s| s.vaddr.saturating_add(s.filesz)).max()?;
        Some(start..end)
    }

    pub(super) fn sections(self, base: u64) -> ExplicitModuleSectionInfo<Bytes> {
        ExplicitModuleSectionInfo { base_svma: base, ..self.info }
    }
}
