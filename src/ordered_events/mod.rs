//! Time order within a bounded window.
//!
//! A round holds what each CPU's buffer had, one after the other, and each buffer is sorted. So the window is kept as
//! *runs*: stretches of the input in which times do not fall. Of a record only its time and position are stored.
//!
//! Strict order is only needed around *side-band* records, which change what the samples after them mean:
//!
//! ```text
//! run 1   s s s s s s M s s s s          s: sample    M, F: side-band
//! run 2       s s s F s s s s
//!                   │ │
//!                   F M: before each, every run is brought up to it; between them runs go on by themselves
//! ```
//!
//! The contract: a side-band record is delivered after every record of the window that sorts before it by
//! (time, position) and before every one that sorts after it; samples between two side-band records come run by run.
//! In a strict window, everything comes by (time, position). Records without time keep their place in
//! their run. [`OrderedEvents::flush`] delivers what is not later than a limit; a record that comes later than its
//! time's flush is delivered with the next one, and counted. Records are delivered several at once, of which, where that
//! is asked for, the first alone may be side-band: what it changes is so for all that come with it.

mod batch;
mod cursor;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use self::batch::Entry;
use self::cursor::{Cursor, Due};
use crate::abi::record::RecordType;
use crate::bytes::ByteOrder;
use crate::error::Result;
use crate::event::Record;
use crate::reader::Block;

pub use self::batch::Batch;
pub use self::cursor::DELIVERED_MAX;

/// Records that may wait; past it a round is flushed as if its mark had come.
const ENTRIES_MAX: usize = 512 << 10;
/// Runs that are merged without a heap.
const FEW: usize = 16;
struct Run {
    block: Arc<Block>,
    /// Its records, as indices of entries.
    next: usize,
    end: usize,
    /// Time of its last record, ns.
    last: u64,
}

/// The window.
pub struct OrderedEvents {
    order: ByteOrder,
    strict: bool,
    /// Whether side-band begins what is delivered at once.
    side_band_first: bool,
    runs: Vec<Run>,
    entries: Vec<Entry>,
    /// Side-band records that wait.
    barriers: Vec<Entry>,
    /// Latest time seen, and latest time at the last round mark.
    latest: u64,
    round: u64,
    flushed: u64,
    late: u64,
    heap_bytes: usize,
    last_block: Option<u64>,
}

impl OrderedEvents {
    /// An empty window. With `strict`, all records come by time; otherwise side-band alone is a barrier. Without
    /// `side_band_first`, side-band is delivered among the others.
    pub fn new(order: ByteOrder, strict: bool, side_band_first: bool) -> Self {
        OrderedEvents {
            order,
            strict,
            side_band_first,
            runs: Vec::new(),
            entries: Vec::new(),
            barriers: Vec::new(),
            latest: 0,
            round: 0,
            flushed: 0,
            late: 0,
            heap_bytes: 0,
            last_block: None,
        }
    }

    /// Records that came later than the flush that they belonged to.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Latest time seen, ns.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// Time of the record added last, ns, which one without a time takes over.
    pub fn last(&self) -> u64 {
        self.runs.last().map_or(self.latest, |run| run.last)
    }

    /// Adds records of a block, which follow in the stream those that were added before.
    pub fn extend(&mut self, block: &Arc<Block>, batch: &Batch) {
        if batch.earliest < self.flushed {
            self.late += batch.entries.iter().filter(|e| e.0 < self.flushed).count() as u64;
        }
        self.latest = self.latest.max(batch.latest);
        if !self.strict {
            self.barriers.extend_from_slice(&batch.barriers);
        }
        let base = self.entries.len();
        self.entries.extend_from_slice(&batch.entries);
        let mut next = base;
        for &(end, last) in &batch.runs {
            let end = base + end;
            let head = self.entries.get(next).map_or(0, |e| e.0);
            match self.runs.last_mut() {
                Some(run) if run.last <= head && run.block.base() == block.base() => {
                    (run.last, run.end) = (last, end);
                }
                _ => {
                    if self.last_block != Some(block.base()) {
                        self.last_block = Some(block.base());
                        self.heap_bytes += block.heap_bytes();
                    }
                    self.runs.push(Run { block: block.clone(), next, end, last });
                }
            }
            next = end;
        }
    }

    /// Whether the window has grown so far that it should be flushed without a mark. `heap_max` bounds the bytes of
    /// input that it keeps in memory.
    pub fn is_full(&self, heap_max: usize) -> bool {
        self.entries.len() > ENTRIES_MAX || self.heap_bytes > heap_max
    }

    /// A round mark: returns up to which time records can be delivered, since all that follow are later.
    pub fn round(&mut self) -> u64 {
        std::mem::replace(&mut self.round, self.latest)
    }

    /// Stream position before which everything has been delivered; `None` if nothing waits.
    pub fn frontier(&self) -> Option<u64> {
        self.runs.iter().filter_map(|r| self.entries.get(r.next)).map(|e| e.1).min()
    }

    /// Delivers all records up to and including `limit` ns.
    pub fn flush(&mut self, limit: u64, deliver: &mut impl FnMut(&[Record<'_>]) -> Result<()>) -> Result<()> {
        self.flushed = self.flushed.max(limit.min(self.latest));
        let mut barriers = Vec::new();
        self.barriers.retain(|&b| {
            let due = b.0 <= limit;
            if due {
                barriers.push(b);
            }
            !due
        });
        // They come in sorted stretches, as the runs do, which the stable sort makes use of.
        barriers.sort();
        let mut barriers = barriers.into_iter().peekable();
        let entries = &self.entries;
        let mut runs: Vec<Cursor<'_>> = self.runs.iter_mut().map(Cursor::of).collect();
        let head = |run: &Cursor<'_>| {
            entries.get(*run.next).copied().filter(|e| *run.next < run.end && e.0 <= limit)
        };
        let heads: Vec<(Entry, usize)> =
            runs.iter().enumerate().filter_map(|(i, r)| Some((head(r)?, i))).collect();
        let mut due =
            Due { records: Vec::with_capacity(DELIVERED_MAX), side_band_first: self.side_band_first };
        let end = (limit, u64::MAX);
        // A few heads are cheaper kept sorted, the earliest last, than in a heap.
        let (mut few, many) =
            if self.strict && heads.len() <= FEW { (heads, Vec::new()) } else { (Vec::new(), heads) };
        few.sort_unstable_by(|a, b| b.cmp(a));
        while let Some((_, index)) = few.pop() {
            let Some(run) = runs.get_mut(index) else { break };
            let next = few.last().map_or(end, |(key, _)| *key);
            run.advance(entries, next.min(end), self.order, &mut due, deliver)?;
            if let Some(key) = head(run) {
                let later = few.iter().rposition(|(other, _)| *other > key);
                few.insert(later.map_or(0, |at| at + 1), (key, index));
            }
        }
        let mut heap: BinaryHeap<Reverse<(Entry, usize)>> = many.into_iter().map(Reverse).collect();
        while let Some(top) = heap.peek().copied() {
            let Reverse((key, index)) = top;
            let Some(run) = runs.get_mut(index) else { break };
            // The record at the head is due. After it the run may go on: strictly up to the next run's head, else
            // up to the next side-band record, since samples between two of those commute.
            let next = if self.strict {
                heap.pop();
                heap.peek().map(|Reverse((key, _))| *key)
            } else {
                while barriers.next_if(|&b| b <= key).is_some() {}
                barriers.peek().copied()
            };
            run.advance(entries, next.unwrap_or(end).min(end), self.order, &mut due, deliver)?;
            match (head(run), self.strict) {
                (Some(key), true) => heap.push(Reverse((key, index))),
                (None, true) => {}
                // The top stays at its place or sinks, which is cheaper than to take it out and put it back.
                (head, false) => match (head, heap.peek_mut()) {
                    (Some(key), Some(mut top)) => *top = Reverse((key, index)),
                    (None, Some(top)) => {
                        PeekMut::pop(top);
                    }
                    (_, None) => break,
                },
            }
        }
        if !due.records.is_empty() {
            deliver(&due.records)?;
        }
        self.forget();
        Ok(())
    }

    /// Lets go of what has been delivered.
    fn forget(&mut self) {
        self.runs.retain(|r| r.next < r.end);
        let mut kept = 0;
        let mut seen = None;
        self.heap_bytes = 0;
        for run in &mut self.runs {
            let len = run.end - run.next;
            self.entries.copy_within(run.next..run.end, kept);
            (run.next, run.end) = (kept, kept + len);
            kept += len;
            if seen != Some(run.block.base()) {
                seen = Some(run.block.base());
                self.heap_bytes += run.block.heap_bytes();
            }
        }
        self.entries.truncate(kept);
        self.last_block = seen;
    }
}

/// Whether a record changes what samples mean.
#[inline]
pub fn is_side_band(ty: RecordType) -> bool {
    matches!(
        ty,
        RecordType::MMAP
            | RecordType::MMAP2
            | RecordType::COMM
            | RecordType::FORK
            | RecordType::EXIT
            | RecordType::KSYMBOL
            | RecordType::BPF_EVENT
            | RecordType::NAMESPACES
            | RecordType::TEXT_POKE
    )
}
