//! A run that is being delivered.

use super::batch::Entry;
use super::{Run, is_side_band};
use crate::abi::record::HEADER_SIZE;
use crate::bytes::ByteOrder;
use crate::data::prefetch::prefetch;
use crate::error::Result;
use crate::event::Record;

/// How many records further on memory is asked for.
const AHEAD: usize = 12;
/// Records that are delivered at once.
pub const DELIVERED_MAX: usize = 128;

/// Records to be delivered next.
pub(super) struct Due<'a> {
    pub(super) records: Vec<Record<'a>>,
    pub(super) side_band_first: bool,
}

/// A run that is being delivered.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Stream position of the first of them.
    base: u64,
    pub(super) next: &'a mut usize,
    pub(super) end: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn of(run: &'a mut Run) -> Self {
        Cursor { bytes: &run.block, base: run.block.base(), next: &mut run.next, end: run.end }
    }

    /// Adds the records that sort before `bound`, at least the first, to those that are due; these are delivered when
    /// they are many, and before side-band.
    #[inline]
    pub(super) fn advance(
        &mut self,
        entries: &[Entry],
        bound: Entry,
        order: ByteOrder,
        due: &mut Due<'a>,
        deliver: &mut impl FnMut(&[Record<'_>]) -> Result<()>,
    ) -> Result<()> {
        let waiting = entries.get(*self.next..self.end).unwrap_or_default();
        for (i, &entry) in waiting.iter().enumerate() {
            if i > 0 && entry >= bound {
                break;
            }
            *self.next += 1;
            if let Some(ahead) = waiting.get(i + AHEAD) {
                let at = (ahead.1 - self.base) as usize;
                prefetch(self.bytes, at);
                prefetch(self.bytes, at + 64);
            }
            let rest = self.bytes.get((entry.1 - self.base) as usize..).unwrap_or_default();
            let size = usize::from(order.u16(rest, 6).unwrap_or(0)).max(HEADER_SIZE);
            let record = Record { bytes: rest.get(..size).unwrap_or(rest), order, pos: entry.1 };
            let first = due.side_band_first && is_side_band(record.ty());
            if due.records.len() >= DELIVERED_MAX || first && !due.records.is_empty() {
                deliver(&due.records)?;
                due.records.clear();
            }
            due.records.push(record);
        }
        Ok(())
    }
}
