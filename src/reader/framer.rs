//! Finds where records end in bytes that arrive piecemeal.

use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::ByteOrder;
use crate::error::{Error, Result};
use crate::event::{Record, type_and_size, user};

/// Largest record taken; only simpleperf's can be larger than 64 KiB, and the largest of those are under a megabyte.
const RECORD_MAX: usize = 64 << 20;

/// What `perf record -o -` says when it ends; with standard error joined to its output, the words end up behind the
/// records of the file.
const PERF_SAYS: &[u8] = b"[ perf record: ";

/// Whether perf's closing words stand where a record should; `None` if more bytes are needed to tell.
#[inline]
pub fn is_perf_talking(bytes: &[u8]) -> Option<bool> {
    if bytes.first() != PERF_SAYS.first() {
        return Some(false);
    }
    match bytes.get(..PERF_SAYS.len()) {
        Some(start) => Some(start == PERF_SAYS),
        None if PERF_SAYS.starts_with(bytes) => None,
        None => Some(false),
    }
}

/// What stands at the start of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole record of this many bytes, and how many bytes of payload follow it.
    Record {
        /// Type of the record.
        ty: RecordType,
        /// Size that its header states, bytes.
        size: usize,
        /// Payload behind it, bytes.
        payload: u64,
    },
    /// The bytes end within a record that needs this many in all (8 while even the header is short).
    Short {
        /// Type, if the header is there.
        ty: Option<RecordType>,
        /// Bytes needed.
        needs: usize,
    },
}

/// Reads the header of the record at the start of `bytes`, which stands at stream position `pos`.
#[inline]
pub fn frame(bytes: &[u8], pos: u64, order: ByteOrder) -> Result<Frame> {
    let Some((ty, size)) = type_and_size(bytes, order) else {
        return Ok(Frame::Short { ty: None, needs: HEADER_SIZE });
    };
    if size < HEADER_SIZE {
        return Err(too_small(ty, size, pos));
    }
    if size > RECORD_MAX {
        return Err(Error::corrupt(pos, format!("a record of {size} bytes")).in_record(ty));
    }
    let Some(record) = bytes.get(..size) else {
        return Ok(Frame::Short { ty: Some(ty), needs: size });
    };
    let payload = user::payload_size(Record { bytes: record, order, pos })
        .ok_or_else(|| Error::corrupt(pos, "too short to state its payload").in_record(ty))?;
    Ok(Frame::Record { ty, size, payload })
}

/// The error for a record whose header states fewer bytes than a header has.
pub fn too_small(ty: RecordType, size: usize, pos: u64) -> Error {
    Error::corrupt(pos, format!("size {size} is below the header's {HEADER_SIZE} bytes"))
        .in_record(ty)
        .hint("--salvage keeps what precedes it")
}

/// The error for a record that the input ends in.
pub fn cut_off(ty: Option<RecordType>, needs: usize, have: usize, pos: u64) -> Error {
    let e = Error::truncated(pos, format!("the input ends {have} bytes into a record of at least {needs}"))
        .hint("--salvage keeps the whole records before it");
    match ty {
        Some(ty) => e.in_record(ty),
        None => e,
    }
}
