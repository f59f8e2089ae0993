//! The header of a file (`struct perf_file_header` in perf's `header.h`), its attributes and feature table.
//!
//! Layout, in the recording's byte order: u64 magic, u64 header size, u64 size of an attribute entry; three sections
//! (u64 offset, u64 size): attributes, data, event types (unused since 3.x); 256 feature bits. An attribute entry is
//! an attr followed by the section of its ids. Behind the data stand one section (offset, size) for each feature bit,
//! ascending, and then the features.

use super::{AttrEntry, Container, FeatureBits, Header, detect};
use crate::abi::attr::{SIZE_MAX, SIZE_VER0, offset};
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::data::Mapping;
use crate::error::{Error, Result};
use crate::evlist::Attr;

/// A range of the file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Section {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub size: u64,
}

impl Section {
    /// Bytes of a section on disk.
    pub const SIZE: u64 = 16;

    fn parse(bytes: &[u8], at: usize, order: ByteOrder) -> Option<Section> {
        Some(Section { offset: order.u64(bytes, at)?, size: order.u64(bytes, at.checked_add(8)?)? })
    }

    /// Appends it.
    pub fn put(self, out: &mut Vec<u8>, order: ByteOrder) {
        order.put_u64(out, self.offset);
        order.put_u64(out, self.size);
    }

    /// First byte behind it; `None` if it would lie beyond all files.
    pub fn end(self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }
}

/// The header of a file and where its parts are.
#[derive(Clone, Debug)]
pub struct FileHeader {
    /// Byte order of the file.
    pub order: ByteOrder,
    /// Stated size of the header; at least 104.
    pub size: u64,
    /// Stated size of an attribute entry.
    pub attr_size: u64,
    /// Attribute entries.
    pub attrs: Section,
    /// Records.
    pub data: Section,
    /// Old event types.
    pub event_types: Section,
    /// Feature bits as words with bit 0 lowest.
    pub features: FeatureBits,
    /// Whether the bits were written as 32-bit words by a big-endian 32-bit perf.
    pub features_in_halves: bool,
    /// Whether the header was never finalised: data size 0, so the data goes on to the end of the file.
    pub unfinished: bool,
    /// In salvage: the file has not all that the header says, so its parts can't be kept as they are.
    pub damaged: bool,
    /// Sections of ids, in the order of the attributes.
    pub ids: Vec<Section>,
    /// Sections of the features, ascending by feature.
    pub feature_sections: Vec<(Feature, Section)>,
}

/// Offset of the feature bits in the header.
pub const FEATURE_BITS_AT: usize = 72;
/// Offset of the data section's size in the header.
pub const DATA_SECTION_AT: usize = 40;
/// Offset of the event types section in the header.
const EVENT_TYPES_AT: usize = 56;
/// Least header size.
pub const HEADER_SIZE: u64 = 104;

impl FileHeader {
    /// Parses header, attributes and feature table of a mapped file; no feature is looked into.
    pub fn parse(file: &Mapping) -> Result<(FileHeader, Header)> {
        Self::parse_inner(file).map_err(|e| e.in_file(file.path()))
    }

    fn parse_inner(file: &Mapping) -> Result<(FileHeader, Header)> {
        let (order, container, size) = detect(file)?;
        debug_assert_eq!(container, Container::File);
        let whole = file.len() as u64;
        let fixed = file
            .section(0, HEADER_SIZE)
            .ok_or_else(|| Error::truncated(0, format!("{whole} bytes where a file header takes 104")))?;
        let section = |at| Section::parse(fixed, at, order).unwrap_or_default();
        let attr_size = order.u64(fixed, 16).unwrap_or(0);
        let mut h = FileHeader {
            order,
            size,
            attr_size,
            attrs: section(24),
            data: section(DATA_SECTION_AT),
            event_types: section(EVENT_TYPES_AT),
            features: FeatureBits::default(),
            features_in_halves: false,
            unfinished: false,
            damaged: false,
            ids: Vec::new(),
            feature_sections: Vec::new(),
        };
        h.read_feature_bits(fixed);
        if h.data.offset > whole || h.data.offset < 16 {
            return Err(Error::corrupt(
                DATA_SECTION_AT as u64,
                format!("data begins at {:#x}, in a file of {whole} bytes", h.data.offset),
            ));
        }
        if size > h.data.offset {
            return Err(Error::corrupt(
                8,
                format!("a header of {size:#x} bytes, and data at {:#x}", h.data.offset),
            ));
        }
        if h.event_types.size > 0 && file.section(h.event_types.offset, h.event_types.size).is_none() {
            return Err(Error::corrupt(
                EVENT_TYPES_AT as u64,
                format!("event types of {:#x} bytes, in a file of {whole} bytes", h.event_types.size),
            ));
        }
        if h.data.size == 0 {
            // perf writes the size when it ends; a recording cut off before has data to the end and no features.
            h.unfinished = h.data.offset < whole && !h.features_follow(file);
            if h.unfinished {
                h.data.size = whole - h.data.offset;
                h.features = FeatureBits::default();
            }
        }
        let attrs = h.read_attrs(file)?;
        let mut header = Header::new(order);
        header.attrs = attrs;
        Ok((h, header))
    }

    /// With data size 0: whether a sound feature table stands at the data's place, so that there just is no data.
    fn features_follow(&self, file: &Mapping) -> bool {
        let mut at = self.data.offset;
        let mut any = false;
        for _ in self.features.iter() {
            let Some(entry) = file.section(at, Section::SIZE).and_then(|b| Section::parse(b, 0, self.order))
            else {
                return false;
            };
            if entry.offset < self.data.offset || file.section(entry.offset, entry.size).is_none() {
                return false;
            }
            any = true;
            at += Section::SIZE;
        }
        any
    }

    /// The bits are 64-bit words; a 32-bit big-endian perf wrote 32-bit ones, told apart by the host name bit, which
    /// every perf sets (the same test as perf's own reader makes).
    fn read_feature_bits(&mut self, fixed: &[u8]) {
        let mut words = [0; 4];
        for (i, word) in words.iter_mut().enumerate() {
            *word = self.order.u64(fixed, FEATURE_BITS_AT + i * 8).unwrap_or(0);
        }
        let halves = words.map(|w| w.rotate_left(32));
        self.features = FeatureBits::from_words(words);
        if self.order == ByteOrder::Big
            && !self.features.has(Feature::HOSTNAME)
            && FeatureBits::from_words(halves).has(Feature::HOSTNAME)
        {
            self.features = FeatureBits::from_words(halves);
            self.features_in_halves = true;
        }
    }

    fn read_attrs(&mut self, file: &Mapping) -> Result<Vec<AttrEntry>> {
        let least = SIZE_VER0 as u64 + Section::SIZE;
        if self.attrs.size == 0 {
            return Ok(Vec::new());
        }
        if self.attr_size < least || self.attr_size > SIZE_MAX as u64 + Section::SIZE {
            return Err(Error::corrupt(16, format!("attribute entries of {} bytes", self.attr_size)));
        }
        let entries = file.section(self.attrs.offset, self.attrs.size).ok_or_else(|| {
            Error::corrupt(
                24,
                format!(
                    "attributes at {:#x} take {:#x} bytes, past the end",
                    self.attrs.offset, self.attrs.size
                ),
            )
        })?;
        let stride = self.attr_size as usize;
        if !entries.len().is_multiple_of(stride) {
            return Err(Error::corrupt(24, "attributes do not fill their section"));
        }
        let mut attrs = Vec::new();
        for (i, entry) in entries.chunks_exact(stride).enumerate() {
            let at = self.attrs.offset + (i * stride) as u64;
            let room = stride - Section::SIZE as usize;
            let stated = match self.order.u32(entry, offset::SIZE).unwrap_or(0) {
                0 => SIZE_VER0,
                n => n as usize,
            };
            if stated < SIZE_VER0 || stated > room {
                return Err(Error::corrupt(
                    at + 4,
                    format!("attribute {i} states {stated} bytes, its entry has {room}"),
                ));
            }
            let ids = Section::parse(entry, room, self.order).unwrap_or_default();
            let raw = file.section(ids.offset, ids.size).filter(|b| b.len() % 8 == 0).ok_or_else(|| {
                Error::corrupt(
                    at + room as u64,
                    format!("ids of attribute {i} at {:#x} take {:#x} bytes", ids.offset, ids.size),
                )
            })?;
            let ids_read = raw.chunks_exact(8).filter_map(|b| self.order.u64(b, 0)).collect();
            self.ids.push(ids);
            attrs.push(AttrEntry {
                attr: Attr::new(entry.get(..room).unwrap_or_default(), self.order),
                ids: ids_read,
            });
        }
        // Ids of hostile files may overlap and so multiply what is read; bound it by the file.
        let total: usize = attrs.iter().map(|a| a.ids.len() * 8).sum();
        if total > file.len() {
            return Err(Error::corrupt(self.attrs.offset, "ids of attributes overlap"));
        }
        Ok(attrs)
    }

    /// Reads the feature table and sections into `header`. The data must be within the file.
    pub fn read_features(&mut self, file: &Mapping, header: &mut Header) -> Result<()> {
        let table =
            self.data.end().ok_or_else(|| Error::corrupt(DATA_SECTION_AT as u64, "data size overflows"))?;
        let mut total = 0usize;
        for (i, feature) in self.features.iter().enumerate() {
            let at = table.saturating_add(i as u64 * Section::SIZE);
            let entry = file
                .section(at, Section::SIZE)
                .and_then(|b| Section::parse(b, 0, self.order))
                .ok_or_else(|| {
                    Error::truncated(at, format!("the table of feature sections ends before {feature}"))
                        .in_file(file.path())
                        .hint("--salvage keeps the records")
                })?;
            let bytes = file.section(entry.offset, entry.size).ok_or_else(|| {
                Error::truncated(
                    at,
                    format!(
                        "feature {feature} at {:#x} takes {:#x} bytes, past the end",
                        entry.offset, entry.size
                    ),
                )
                .in_file(file.path())
                .hint("--salvage keeps the records")
            })?;
            total = total.saturating_add(bytes.len());
            if total > file.len().saturating_mul(2) {
                return Err(Error::corrupt(at, "feature sections overlap").in_file(file.path()));
            }
            self.feature_sections.push((feature, entry));
            header.features.push((feature, bytes.to_vec()));
        }
        Ok(())
    }
}
