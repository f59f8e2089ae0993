//! The file that a DSO's call frame information is read from.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;

use crate::data::Mapping;
use crate::symbol::elf::{Elf, Section, Segment};
use crate::symbol::file::ImageFile;
use crate::symbol::section::{Bytes, Sections};

/// A DSO's segments and call frame information.
pub struct Image {
    /// Loaded segments with contents.
    pub(super) segments: Vec<Segment>,
    /// The file, where it is one.
    pub(super) map: Option<Arc<Mapping>>,
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
        let sections = Sections::new(elf)?;
        let section = |name| elf.section(name).map(|(_, section)| section);
        let place = |name| section(name).map(|s: &Section| s.addr..s.addr.saturating_add(s.size));
        let data = |name| section(name).and_then(|s| sections.plain(s));
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
        Some(Image { segments, map: sections.file().cloned(), info })
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
