//! Records that perf itself writes (types from 64 on), as far as they are parsed or made here.

use super::{Record, begin_record, finish_record};
use crate::abi::misc;
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::{ByteOrder, Cursor, Short, until_nul};
use crate::error::Result;

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

/// The build-id of a DSO (HEADER_BUILD_ID), and an entry of the BUILD_ID section, whose header has type 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildIdEvent<'a> {
    /// Misc word without the size bit: the cpumode.
    pub misc: u16,
    /// Process id of the machine: -1 for the host, else the guest's.
    pub pid: i32,
    /// The id: the stated number of bytes, or 20 if none is stated.
    pub id: &'a [u8],
    /// Whether the length is stated rather than assumed.
    pub sized: bool,
    /// Path or bracketed name, without its NUL.
    pub filename: &'a [u8],
}

impl<'a> BuildIdEvent<'a> {
    /// Names in the section are padded to a multiple of this, NUL included (`NAME_ALIGN`).
    pub const NAME_ALIGN: usize = 64;
    /// Bytes before the name: header 8, pid 4, id 20, size 1, reserved 3.
    pub const FIXED: usize = 36;

    /// Parses a record or a section entry.
    pub fn parse(record: Record<'a>) -> Result<BuildIdEvent<'a>> {
        let parse = || -> Result<BuildIdEvent<'a>, Short> {
            let mut c = Cursor::new(record.body(), record.order);
            let pid = c.u32()? as i32;
            let id = c.take(20)?;
            let size = usize::from(c.u8()?);
            c.skip(3)?;
            let sized = record.misc() & misc::BUILD_ID_SIZE != 0;
            let len = if sized { size.min(20) } else { 20 };
            Ok(BuildIdEvent {
                misc: record.misc() & !misc::BUILD_ID_SIZE,
                pid,
                id: id.get(..len).unwrap_or_default(),
                sized,
                filename: until_nul(c.rest()),
            })
        };
        parse().map_err(|short| record.error(format!("too short: {short}")))
    }

    /// Appends the record, with its length stated; `ty` is HEADER_BUILD_ID, or 0 for an entry of the section.
    /// `None`, and nothing appended, if the name is too long for a record.
    pub fn encode(&self, out: &mut Vec<u8>, order: ByteOrder, ty: RecordType) -> Option<()> {
        let at = begin_record(out, order, ty, self.misc | misc::BUILD_ID_SIZE);
        let id = self.id.get(..self.id.len().min(20)).unwrap_or_default();
        order.put_u32(out, self.pid as u32);
        out.extend_from_slice(id);
        out.resize(at + HEADER_SIZE + 24, 0);
        out.extend_from_slice(&[id.len() as u8, 0, 0, 0]);
        out.extend_from_slice(self.filename);
        if ty == RecordType::HEADER_BUILD_ID {
            out.push(0);
            return finish_record(out, order, at);
        }
        // A section entry ends right behind the padded name, not at a multiple of eight: readers count on it.
        let padded = (self.filename.len() + 1).next_multiple_of(Self::NAME_ALIGN);
        out.resize(at + Self::FIXED + padded, 0);
        let size = u16::try_from(out.len() - at).ok();
        match size.and_then(|size| order.set_u16(out, at + 6, size)) {
            Some(()) => Some(()),
            None => {
                out.truncate(at);
                None
            }
        }
    }
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

    /// Appends the record. `None`, and nothing appended, if it would be larger than 65,528 bytes.
    pub fn encode(&self, out: &mut Vec<u8>, order: ByteOrder) -> Option<()> {
        let at = begin_record(out, order, RecordType::HEADER_ATTR, 0);
        out.extend_from_slice(self.attr);
        out.extend_from_slice(self.ids);
        finish_record(out, order, at)
    }
}

/// Appends a feature section as a record of a pipe (HEADER_FEATURE): header, u64 id, the section's bytes.
/// `None`, and nothing appended, if it would be larger than 65,528 bytes.
pub fn encode_feature(out: &mut Vec<u8>, order: ByteOrder, id: u32, section: &[u8]) -> Option<()> {
    let at = begin_record(out, order, RecordType::HEADER_FEATURE, 0);
    order.put_u64(out, u64::from(id));
    out.extend_from_slice(section);
    finish_record(out, order, at)
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

    #[test]
    fn a_build_id_is_36_bytes_and_the_padded_name() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (ty, size) in [(RecordType::HEADER_BUILD_ID, 48), (RecordType(0), 36 + 64)] {
                let event =
                    BuildIdEvent { misc: 2, pid: -1, id: &[7; 8], sized: true, filename: b"/bin/true" };
                let mut out = Vec::new();
                event.encode(&mut out, order, ty).unwrap();
                assert_eq!(out.len(), size);
                assert_eq!(order.u16(&out, 6), Some(size as u16));
                let record = Record { bytes: &out, order, pos: 0 };
                assert_eq!(BuildIdEvent::parse(record).unwrap(), event);
            }
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
        let name = vec![b'a'; 70_000];
        let event = BuildIdEvent { misc: 2, pid: -1, id: &[7; 20], sized: true, filename: &name };
        let mut out = vec![1];
        assert_eq!(event.encode(&mut out, ByteOrder::Little, RecordType::HEADER_BUILD_ID), None);
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
