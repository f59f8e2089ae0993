//! The parts of a file around its data: header, ids and attributes before, feature table and sections behind.

use crate::abi::attr::offset;
use crate::abi::feature::{FEATURE_BITS, Feature};
use crate::bytes::ByteOrder;
use crate::data::Mapping;
use crate::header::{AttrEntry, FeatureBits, FileHeader, MAGIC, Section};

/// Bytes to overwrite once all is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Offset in the file.
    pub offset: u64,
    /// New bytes.
    pub bytes: Vec<u8>,
}

/// Size of the header that is written.
const HEADER_SIZE: u64 = 104;
/// Offset of the attribute size and section in the header.
const ATTRS_AT: u64 = 16;
/// Offset of the data section in the header.
const DATA_AT: u64 = 32 + 8;
/// Offset of the feature bits in the header.
const FEATURES_AT: u64 = 72;

/// What stands before the data of a file being written, and what must be set when the data is complete.
pub struct FileLayout {
    order: ByteOrder,
    front: Vec<u8>,
    halves: bool,
    /// Attributes that the front holds.
    attrs: usize,
}

impl FileLayout {
    /// Keeps the front of an input file byte for byte. `None` if attributes, ids or event types stand elsewhere, or
    /// if ids overlap so that they are more than there is room for: the reader takes them only where the rest of the
    /// file makes up for that, and of the rest a part may be left out.
    pub fn keep(header: &FileHeader, file: &Mapping) -> Option<FileLayout> {
        let front = file.section(0, header.data.offset)?;
        let sections = header.ids.iter().chain([&header.attrs, &header.event_types]);
        for section in sections.filter(|s| s.size > 0) {
            if section.end()? > header.data.offset {
                return None;
            }
        }
        let ids = header.ids.iter().fold(0u64, |sum, ids| sum.saturating_add(ids.size));
        if header.data.offset < HEADER_SIZE || ids > header.data.offset {
            return None;
        }
        Some(FileLayout {
            order: header.order,
            front: front.to_vec(),
            halves: header.features_in_halves,
            attrs: header.ids.len(),
        })
    }

    /// Lays out a front as perf does: header, ids, attributes.
    pub fn build(order: ByteOrder, attrs: &[AttrEntry]) -> FileLayout {
        let mut front = Vec::new();
        order.put_u64(&mut front, MAGIC);
        order.put_u64(&mut front, HEADER_SIZE);
        front.resize(HEADER_SIZE as usize, 0);
        let (block, stride, section) = attr_block(order, attrs, HEADER_SIZE);
        front.extend_from_slice(&block);
        order.set_u64(&mut front, ATTRS_AT as usize, stride);
        order.set_u64(&mut front, ATTRS_AT as usize + 8, section.offset);
        order.set_u64(&mut front, ATTRS_AT as usize + 16, section.size);
        let data = front.len() as u64;
        order.set_u64(&mut front, DATA_AT as usize, data);
        FileLayout { order, front, halves: false, attrs: attrs.len() }
    }

    /// The bytes before the data.
    pub fn front(&self) -> &[u8] {
        &self.front
    }

    /// What follows the data, and the patches of the header. Attributes that came after the front was written are
    /// put behind the features.
    pub fn finish(
        &self,
        data_size: u64,
        features: &[(Feature, Vec<u8>)],
        attrs: &[AttrEntry],
    ) -> (Vec<u8>, Vec<Patch>) {
        let order = self.order;
        let end = self.front.len() as u64 + data_size;
        let (mut tail, bits) = feature_area(order, end, features);
        let mut patches = vec![self.patch_words(DATA_AT + 8, &[data_size]), self.patch_features(bits)];
        if attrs.len() > self.attrs {
            let (block, stride, section) = attr_block(order, attrs, end + tail.len() as u64);
            tail.extend_from_slice(&block);
            patches.push(self.patch_words(ATTRS_AT, &[stride, section.offset, section.size]));
        }
        (tail, patches)
    }

    fn patch_words(&self, offset: u64, words: &[u64]) -> Patch {
        let mut bytes = Vec::new();
        for &word in words {
            self.order.put_u64(&mut bytes, word);
        }
        Patch { offset, bytes }
    }

    fn patch_features(&self, bits: FeatureBits) -> Patch {
        let words = bits.words().map(|w| if self.halves { w.rotate_left(32) } else { w });
        self.patch_words(FEATURES_AT, &words)
    }
}

/// Ids of all attributes, then the attributes, as they stand from `at` on; the size of an entry and the section of
/// entries.
///
/// Entries have one size for all. perf finds the ids behind as many bytes as the attr itself states, so a shorter attr
/// among longer ones states the size of its entry.
fn attr_block(order: ByteOrder, attrs: &[AttrEntry], at: u64) -> (Vec<u8>, u64, Section) {
    let mut out = Vec::new();
    let mut ids = Vec::new();
    for entry in attrs {
        ids.push(Section { offset: at + out.len() as u64, size: entry.ids.len() as u64 * 8 });
        for &id in &entry.ids {
            order.put_u64(&mut out, id);
        }
    }
    let room = attrs.iter().map(|a| a.attr.bytes().len()).max().unwrap_or(0);
    let stride = room as u64 + Section::SIZE;
    let section = Section { offset: at + out.len() as u64, size: attrs.len() as u64 * stride };
    for (entry, ids) in attrs.iter().zip(ids) {
        let start = out.len();
        out.extend_from_slice(entry.attr.bytes());
        out.resize(start + room, 0);
        if entry.attr.bytes().len() != room
            && let Some(attr) = out.get_mut(start..)
        {
            order.set_u32(attr, offset::SIZE, room as u32);
        }
        ids.put(&mut out, order);
    }
    (out, stride, section)
}

/// The table of feature sections and the sections, as they stand from `at` on, and the bits that announce them.
pub fn feature_area(order: ByteOrder, at: u64, features: &[(Feature, Vec<u8>)]) -> (Vec<u8>, FeatureBits) {
    let mut sorted: Vec<_> = features.iter().filter(|(f, _)| f.0 < FEATURE_BITS).collect();
    sorted.sort_by_key(|(f, _)| *f);
    sorted.dedup_by_key(|(f, _)| *f);
    let mut bits = FeatureBits::default();
    let mut table = Vec::new();
    let mut offset = at + sorted.len() as u64 * Section::SIZE;
    for (feature, bytes) in &sorted {
        bits.insert(*feature);
        Section { offset, size: bytes.len() as u64 }.put(&mut table, order);
        offset += bytes.len() as u64;
    }
    for (_, bytes) in &sorted {
        table.extend_from_slice(bytes);
    }
    (table, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_sorted_and_found_by_their_table() {
        let features = vec![(Feature::ARCH, b"arch".to_vec()), (Feature::HOSTNAME, b"h".to_vec())];
        let (area, bits) = feature_area(ByteOrder::Big, 1000, &features);
        assert!(bits.has(Feature::ARCH) && bits.has(Feature::HOSTNAME) && !bits.has(Feature::VERSION));
        assert_eq!(ByteOrder::Big.u64(&area, 0), Some(1032));
        assert_eq!(ByteOrder::Big.u64(&area, 8), Some(1));
        assert_eq!(ByteOrder::Big.u64(&area, 16), Some(1033));
        assert_eq!(&area[32..], b"harch");
    }
}
