//! COMPRESSED and COMPRESSED2 records: what they hold, and the zstd stream over them.
//!
//! Layouts (libperf's `event.h`): COMPRESSED is a header and zstd data; COMPRESSED2 is a header, u64 size of the zstd
//! data, the data, and padding to eight bytes. One zstd stream goes on from record to record, and records straddle
//! the chunks.

#![allow(clippy::single_range_in_vec_init, reason = "a list of ranges is what is meant")]

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::framer::too_small;
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::{ByteOrder, align8};
use crate::error::{Error, ErrorKind, Result};

/// Most zstd bytes in one COMPRESSED2 record whose 16-bit size is right.
const CHUNK_MAX: usize = 65519;
/// Bytes of a COMPRESSED2 record before its data.
const V2_FIXED: usize = 16;

/// Whether a record is a zstd chunk.
pub fn is_compressed(ty: RecordType) -> bool {
    ty == RecordType::COMPRESSED || ty == RecordType::COMPRESSED2
}

/// A compressed record at the start of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Extent {
    /// It takes `total` bytes; the zstd data is in the ranges.
    Whole {
        /// Bytes that the record takes in the input.
        total: usize,
        /// Ranges of zstd data within it.
        chunks: Vec<std::ops::Range<usize>>,
    },
    /// More bytes are needed: at least this many in all.
    Short(usize),
}

/// Finds the extent of the compressed record at the start of `bytes` (stream position `pos`).
///
/// A COMPRESSED2 record's 16-bit size wraps when it holds more than fits (perf since 6.16): its data size is then
/// the truth. Up to 65,519 bytes that is one chunk; above, the first chunk is 65,519 bytes and further headers of
/// type 83 follow within the payload, whose own sizes are right and whose data sizes mean nothing. A wrapped record
/// has no padding.
pub fn extent(bytes: &[u8], pos: u64, order: ByteOrder) -> Result<Extent> {
    let (Some(ty), Some(size)) = (order.u32(bytes, 0), order.u16(bytes, 6)) else {
        return Ok(Extent::Short(HEADER_SIZE));
    };
    let (ty, size) = (RecordType(ty), usize::from(size));
    if ty == RecordType::COMPRESSED {
        return match size {
            0..HEADER_SIZE => Err(too_small(ty, size, pos)),
            _ if bytes.len() < size => Ok(Extent::Short(size)),
            _ => Ok(Extent::Whole { total: size, chunks: vec![HEADER_SIZE..size] }),
        };
    }
    let Some(data) = order.u64(bytes, HEADER_SIZE) else { return Ok(Extent::Short(V2_FIXED)) };
    let bad = |message: String| Error::corrupt(pos, message).in_record(ty);
    let data = usize::try_from(data).map_err(|_| bad(format!("data size {data:#x}")))?;
    let end = data.checked_add(V2_FIXED).ok_or_else(|| bad(format!("data size {data:#x}")))?;
    let aligned = align8(end).ok_or_else(|| bad(format!("data size {data:#x}")))?;
    if aligned <= size {
        return match bytes.len() < size {
            true => Ok(Extent::Short(size)),
            false => Ok(Extent::Whole { total: size, chunks: vec![V2_FIXED..end] }),
        };
    }
    // Only a wrapped size may be smaller than the data; the low bits must then agree.
    if aligned & 0xffff != size && end & 0xffff != size {
        return Err(bad(format!("data size {data:#x} does not fit the header's size {size}")));
    }
    if bytes.len() < end {
        return Ok(Extent::Short(end));
    }
    let mut chunks = vec![V2_FIXED..end.min(V2_FIXED + CHUNK_MAX)];
    let mut at = V2_FIXED + CHUNK_MAX;
    while at < end {
        let rest = bytes.get(at..end).unwrap_or_default();
        let inner = order.u32(rest, 0).zip(order.u16(rest, 6));
        let Some((83, size)) = inner.map(|(t, s)| (t, usize::from(s))) else {
            return Err(bad(format!("no header of a further chunk at byte {at} of {end}")));
        };
        if size < V2_FIXED || size > rest.len() {
            return Err(bad(format!("the chunk at byte {at} states {size} bytes of {}", rest.len())));
        }
        chunks.push(at + V2_FIXED..at + size);
        at += size;
    }
    Ok(Extent::Whole { total: end, chunks })
}

/// One zstd stream over the chunks of many records.
pub struct Decompressor {
    decoder: Decoder<'static>,
}

impl Decompressor {
    /// A new stream.
    pub fn new() -> Result<Self> {
        let decoder =
            Decoder::new().map_err(|e| Error::new(ErrorKind::OutOfMemory, "zstd decoder").because(e))?;
        Ok(Decompressor { decoder })
    }

    /// Decompresses part of `chunk` from `*used` on, appending at most about `limit` bytes to `out`; advances `used`.
    /// `Ok(true)` when the chunk has been used up and all its output is out.
    pub fn run(
        &mut self,
        chunk: &[u8],
        used: &mut usize,
        out: &mut Vec<u8>,
        limit: usize,
        pos: u64,
    ) -> Result<bool> {
        let start = out.len();
        out.try_reserve(limit)
            .map_err(|e| Error::new(ErrorKind::OutOfMemory, "decompressed records").because(e))?;
        out.resize(start + limit, 0);
        let (done, filled) = {
            let mut input = InBuffer::around(chunk.get(*used..).unwrap_or_default());
            let mut output = OutBuffer::around(out.get_mut(start..).unwrap_or_default());
            let mut result = Ok(0);
            while output.pos() < output.capacity() {
                let before = (input.pos(), output.pos());
                result = self.decoder.run(&mut input, &mut output);
                if result.is_err() || (input.pos(), output.pos()) == before {
                    break;
                }
            }
            result.map_err(|e| {
                Error::corrupt(pos, "zstd data")
                    .in_record(RecordType::COMPRESSED)
                    .because(e)
                    .hint("--salvage keeps what precedes it")
            })?;
            if input.pos() == 0 && output.pos() == 0 && *used < chunk.len() {
                return Err(
                    Error::corrupt(pos, "zstd data that leads nowhere").in_record(RecordType::COMPRESSED)
                );
            }
            *used += input.pos();
            (*used >= chunk.len() && output.pos() < output.capacity(), output.pos())
        };
        out.truncate(start + filled);
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn v2(size: u16, data: u64) -> Vec<u8> {
        let mut out = Vec::new();
        ByteOrder::Little.put_u32(&mut out, 83);
        ByteOrder::Little.put_u16(&mut out, 0);
        ByteOrder::Little.put_u16(&mut out, size);
        ByteOrder::Little.put_u64(&mut out, data);
        out
    }

    #[test]
    fn an_unwrapped_record_ends_with_its_padding() {
        let mut bytes = v2(24, 5);
        bytes.resize(24, 0);
        assert_eq!(
            extent(&bytes, 0, ByteOrder::Little).unwrap(),
            Extent::Whole { total: 24, chunks: vec![16..21] }
        );
    }

    #[test]
    fn a_size_that_wrapped_gives_way_to_the_data_size() {
        // 16 + 65519 aligns to 65536, which is 0 in 16 bits.
        let mut bytes = v2(0, 65519);
        bytes.resize(65535, 0);
        assert_eq!(
            extent(&bytes, 0, ByteOrder::Little).unwrap(),
            Extent::Whole { total: 65535, chunks: vec![16..65535] }
        );
        // Two chunks: 65519 bytes, then a header of its own with 100 bytes.
        let data = 65519 + 16 + 100;
        let wrapped = align8(data + 16).unwrap() & 0xffff;
        let mut bytes = v2(wrapped as u16, data as u64);
        bytes.resize(16 + 65519, 0);
        bytes.extend(v2(116, u64::MAX));
        bytes.resize(16 + data, 0);
        assert_eq!(
            extent(&bytes, 0, ByteOrder::Little).unwrap(),
            Extent::Whole { total: 16 + data, chunks: vec![16..65535, 65551..65651] }
        );
    }

    #[test]
    fn sizes_that_no_wrap_explains_are_refused() {
        assert!(extent(&v2(24, 4000), 0, ByteOrder::Little).is_err());
        assert!(extent(&v2(24, u64::MAX), 0, ByteOrder::Little).is_err());
        assert_eq!(extent(&v2(24, 5)[..12], 0, ByteOrder::Little).unwrap(), Extent::Short(16));
    }
}
