//! Hands over the records of a source one by one.

use std::sync::Arc;

use crate::abi::record::RecordType;
use crate::bytes::ByteOrder;
use crate::error::{Error, Result};
use crate::event::Record;
use crate::reader::{Block, Frame, Source, cut_off, frame, is_compressed, is_perf_talking};

/// How a walk over a source ended.
pub(super) enum End {
    /// All records were seen.
    Whole,
    /// A compressed record stands at this byte of the block, which was not decompressed.
    Compressed(Arc<Block>, usize),
    /// perf's own closing words stand at this place of the stream, behind all records.
    Talk(u64),
}

/// Calls `each` with every record and the size of the payload behind it. Errors with the place in the input.
pub(super) fn walk(
    source: &mut dyn Source,
    order: ByteOrder,
    mut each: impl FnMut(Record<'_>, u64) -> Result<()>,
) -> Result<End> {
    // Bytes of payload that lie in blocks to come.
    let mut pending = 0u64;
    let mut last: Option<Arc<Block>> = None;
    while let Some(block) = source.next()? {
        let mut at = usize::try_from(pending).unwrap_or(usize::MAX).min(block.len());
        pending -= at as u64;
        while let Some(rest) = block.get(at..).filter(|rest| !rest.is_empty()) {
            let pos = block.base() + at as u64;
            // The size of a COMPRESSED2 record may have wrapped: its type alone is looked at.
            if order.u32(rest, 0).is_some_and(|ty| is_compressed(RecordType(ty))) {
                return Ok(End::Compressed(block, at));
            }
            if is_perf_talking(rest) == Some(true) {
                return Ok(End::Talk(pos));
            }
            match frame(rest, pos, order).map_err(|e| block.locate(e))? {
                Frame::Record { size, payload, .. } => {
                    let bytes = rest.get(..size).unwrap_or_default();
                    each(Record { bytes, order, pos }, payload).map_err(|e| block.locate(e))?;
                    at += size;
                    let here = usize::try_from(payload).unwrap_or(usize::MAX).min(block.len() - at);
                    at += here;
                    pending = payload - here as u64;
                }
                Frame::Short { ty, needs } => return Err(block.locate(cut_off(ty, needs, rest.len(), pos))),
            }
        }
        last = Some(block);
    }
    match last {
        Some(block) if pending != 0 => {
            let e = Error::truncated(block.end(), format!("{pending} bytes of payload are missing"));
            Err(block.locate(e))
        }
        _ => Ok(End::Whole),
    }
}
