//! Records that perf itself writes (types from 64 on), as far as they are parsed or made here.

use super::{Record, begin_record, finish_record};
use crate::abi::build_id::BuildId;
use crate::abi::misc;
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::ByteOrder;
use crate::error::Result;
use crate::evlist::Attr;
use crate::header::AttrEntry;

/// Bytes of a HEADER_TRACING_DATA record as perf writes it: header and u32 size.
const TRACING_DATA_FIXED: u64 = 12;

/// Bytes of payload that follow a record outside its header's size: AUX data and tracing data.
///
/// simpleperf puts tracing data into the record itself, which is then large enough to hold it.
/// `None` if the record is too short to say; 0 for all other types. The value comes from the file: check it against
/// what is there.
#[inline]
pub fn payload_size(record: Record<'_>) -> Option<u64> {
    match record.ty() {
        RecordType::AUXTRACE => record.order.u64(record.bytes, HEADER_SIZE),
        RecordType::HEADER_TRACING_DATA => {
            let size = u64::from(record.order.u32(record.bytes, HEADER_SIZE)?);
            let inside = (record.bytes.len() as u64).saturating_sub(TRACING_DATA_FIXED);
            Some(if size != 0 && inside >= size { 0 } else { size.next_multiple_of(8) })
        }
        _ => Some(0),
    }
}

/// Appends a HEADER_BUILD_ID record: header, i32 pid (-1 for the host, else the guest's), the id in 20 bytes, its
/// length, 3 bytes of padding, the name with its NUL, padded to eight. `misc` is the cpumode.
/// `None`, and nothing appended, if the name is too long for a record.
///
/// [`crate::header::features::build_ids::BuildIdEntry::from_record`] reads it.
pub fn encode_build_id(
    out: &mut Vec<u8>,
    order: ByteOrder,
    misc: u16,
    pid: i32,
    id: &BuildId,
    filename: &[u8],
) -> Option<()> {
    let at = begin_record(out, order, RecordType::HEADER_BUILD_ID, misc | misc::BUILD_ID_SIZE);
    order.put_u32(out, pid.cast_unsigned());
    out.extend_from_slice(&id.padded());
    out.extend_from_slice(&[id.as_bytes().len() as u8, 0, 0, 0]);
    out.extend_from_slice(filename);
    out.push(0);
    finish_record(out, order, at)
}

/// An event's attribute with its ids, in the stream of a pipe (HEADER_ATTR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderAttr<'a> {
    /// All bytes of the attr.
    pub attr: &'a [u8],
    /// The ids, u64 each, in the recording's byte order.
    pub ids: &'a [u8],
}

impl<'a> HeaderAttr<'a> {
    /// Parses the record; the attr's own size word says where the ids begin.
    pub fn parse(record: Record<'a>) -> Result<HeaderAttr<'a>> {
        let body = record.body();
        let stated = record.order.u32(body, crate::abi::attr::offset::SIZE);
        let size = match stated {
            Some(0) => crate::abi::attr::SIZE_VER0,
            Some(size) => size as usize,
            None => return Err(record.error("too short for an attr")),
        };
        match body.split_at_checked(size) {
            Some((attr, ids)) if size >= crate::abi::attr::SIZE_VER0 => {
                Ok(HeaderAttr { attr, ids: ids.get(..ids.len() / 8 * 8).unwrap_or_default() })
            }
            _ => {
                Err(record.error(format!("attr size {size} does not fit the record's {} bytes", body.len())))
            }
        }
    }

    /// The attribute with its ids, in a recording of this byte order.
    pub fn to_entry(self, order: ByteOrder) -> AttrEntry {
        let ids = self.ids.chunks_exact(8).filter_map(|id| order.u64(id, 0)).collect();
        AttrEntry { attr: Attr::new(self.attr, order), ids }
    }

    /// Appends the record. `None`, and nothing appended, if it would be larger than 65,528 bytes.
    pub fn encode(&self, out: &mut Vec<u8>, order: ByteOrder) -> Option<()> {
        let at = begin_record(out, order, RecordType::HEADER_ATTR, 0);
        out.extend_from_slice(self.attr);
        out.extend_from_slice(self.ids);
        finish_record(out, order, at)
    }
}

/// Appends a feature section as a record of a pipe (HEADER_FEATURE): header, u64 id, the section's bytes.
/// `None`, and nothing appended, if it would be larger than 65,535 bytes. The record's size is the section's only
/// measure, so it is not padded; perf does not either.
pub fn encode_feature(out: &mut Vec<u8>, order: ByteOrder, id: u32, section: &[u8]) -> Option<()> {
    let size = u16::try_from(section.len().checked_add(HEADER_SIZE + 8)?).ok()?;
    let at = begin_record(out, order, RecordType::HEADER_FEATURE, 0);
    order.put_u64(out, u64::from(id));
    out.extend_from_slice(section);
    order.set_u16(out, at + 6, size)
}

/// The id and bytes of a feature section carried by a HEADER_FEATURE record.
pub fn parse_feature(record: Record<'_>) -> Result<(u64, &[u8])> {
    let id = record
        .order
        .u64(record.bytes, HEADER_SIZE)
        .ok_or_else(|| record.error("too short for a feature id"))?;
    Ok((id, record.bytes.get(HEADER_SIZE + 8..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::header::features::build_ids::BuildIdEntry;

    #[test]
    fn a_build_id_record_is_36_bytes_and_the_name_padded_to_eight() {
        let id = BuildId::from_bytes(&[7; 8]).unwrap();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut out = Vec::new();
            encode_build_id(&mut out, order, 2, -1, &id, b"/bin/true").unwrap();
            assert_eq!(out.len(), 48);
            assert_eq!(order.u16(&out, 6), Some(48));
            let entry = BuildIdEntry::from_record(&out, order).unwrap();
            assert_eq!((entry.build_id(), entry.pid, entry.filename), (Some(id), -1, &b"/bin/true"[..]));
        }
    }

    #[test]
    fn tracing_data_stands_behind_the_record_or_in_it() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (room, size, expected) in
                [(0, 2012, 2016), (0, 0, 0), (2012, 2012, 0), (2048, 2012, 0), (8, 9, 16)]
            {
                let mut bytes = Vec::new();
                order.put_u32(&mut bytes, RecordType::HEADER_TRACING_DATA.0);
                order.put_u32(&mut bytes, 0);
                order.put_u32(&mut bytes, size);
                bytes.resize(12 + room, 0);
                assert_eq!(payload_size(Record { bytes: &bytes, order, pos: 0 }), Some(expected));
            }
        }
    }

    #[test]
    fn a_name_too_long_for_a_record_is_refused_whole() {
        let id = BuildId::from_bytes(&[7; 20]).unwrap();
        let mut out = vec![1];
        assert_eq!(encode_build_id(&mut out, ByteOrder::Little, 2, -1, &id, &[b'a'; 70_000]), None);
        assert_eq!(out, [1]);
    }

    #[test]
    fn an_attr_larger_than_its_record_is_refused() {
        let mut out = Vec::new();
        let mut attr = vec![0; 64];
        ByteOrder::Little.set_u32(&mut attr, 4, 4096);
        HeaderAttr { attr: &attr, ids: &[] }.encode(&mut out, ByteOrder::Little).unwrap();
        let e = HeaderAttr::parse(Record { bytes: &out, order: ByteOrder::Little, pos: 16 }).unwrap_err();
        assert!(e.to_string().contains("HEADER_ATTR record"), "{e}");
    }
}
