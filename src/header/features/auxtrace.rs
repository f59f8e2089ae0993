//! AUXTRACE: where in the file the AUXTRACE records are.
//!
//! perf writes a u64 count and then pairs of file offset and size; simpleperf leaves the count out. Offsets
//! are those of the record's header, sizes are those of the record without its payload.

use super::reader::Reader;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// The section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuxtraceIndex {
    /// Whether a count stands before the entries (perf's layout, not simpleperf's).
    pub counted: bool,
    /// In the order of the section.
    pub entries: Vec<AuxtraceEntry>,
}

/// One AUXTRACE record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxtraceEntry {
    /// Offset of the record's header in the file.
    pub file_offset: u64,
    /// Bytes of the record, its payload left out.
    pub size: u64,
}

impl AuxtraceIndex {
    /// Parses the section. Errors if the count does not agree with the section's size.
    pub fn parse(section: &[u8], order: ByteOrder) -> Result<AuxtraceIndex> {
        let mut r = Reader::new(Feature::AUXTRACE, section, order);
        let pairs = section.len() as u64 / 16;
        // With a count the section is 8 bytes longer than its pairs, so the two layouts can't be mixed up.
        let counted = !section.len().is_multiple_of(16);
        let n = if counted { r.u64()? } else { pairs };
        if n > pairs {
            return Err(r.corrupt(0, format!("{n} entries announced, room for {pairs}")));
        }
        let entries = (0..n)
            .map(|_| Ok(AuxtraceEntry { file_offset: r.u64()?, size: r.u64()? }))
            .collect::<Result<_>>()?;
        Ok(AuxtraceIndex { counted, entries })
    }

    /// Replaces each entry's file offset by what `moved` says of it and leaves out those that are gone.
    pub fn remap(&mut self, mut moved: impl FnMut(u64) -> Option<u64>) {
        self.entries.retain_mut(|entry| match moved(entry.file_offset) {
            Some(offset) => {
                entry.file_offset = offset;
                true
            }
            None => false,
        });
    }

    /// Appends the section, in the layout that it had.
    pub fn emit(&self, order: ByteOrder, out: &mut Vec<u8>) {
        if self.counted {
            order.put_u64(out, self.entries.len() as u64);
        }
        for entry in &self.entries {
            order.put_u64(out, entry.file_offset);
            order.put_u64(out, entry.size);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn section(order: ByteOrder, words: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        for &word in words {
            order.put_u64(&mut out, word);
        }
        out
    }

    #[test]
    fn both_layouts_round_trip() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (words, counted) in [(&[2, 0x100, 48, 0x900, 48][..], true), (&[0x26a8, 48][..], false)] {
                let bytes = section(order, words);
                let index = AuxtraceIndex::parse(&bytes, order).unwrap();
                assert_eq!(index.counted, counted);
                assert_eq!(index.entries.last().unwrap().size, 48);
                let mut out = Vec::new();
                index.emit(order, &mut out);
                assert_eq!(out, bytes);
            }
        }
    }

    #[test]
    fn offsets_move_and_entries_go() {
        let order = ByteOrder::Big;
        let mut index = AuxtraceIndex::parse(&section(order, &[3, 1, 48, 2, 48, 3, 48]), order).unwrap();
        index.remap(|offset| (offset != 2).then_some(offset + 100));
        let mut out = Vec::new();
        index.emit(order, &mut out);
        assert_eq!(out, section(order, &[2, 101, 48, 103, 48]));
    }

    #[test]
    fn a_count_beyond_the_section_is_refused() {
        let order = ByteOrder::Little;
        let e = AuxtraceIndex::parse(&section(order, &[u64::MAX, 1, 48]), order).unwrap_err();
        assert_eq!(e.offset(), Some(0));
        assert_eq!(AuxtraceIndex::parse(&[0; 3], order).unwrap_err().offset(), Some(0));
    }
}
