//! Time order within a bounded window.
//!
//! A round holds what each CPU's buffer had, one after the other, and each buffer is sorted. So the window is kept as
//! *runs*: stretches of the input in which times do not fall. Nothing is stored for a sample; a run is a place and a
//! length.
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
//! With [`OrderedEvents::strict`], everything comes by (time, position). Records without time keep their place in
//! their run. [`OrderedEvents::flush`] delivers what is not later than a limit; a record that comes later than its
//! time's flush is delivered with the next one, and counted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::ByteOrder;
use crate::error::Result;
use crate::event::Record;
use crate::evlist::Evlist;
use crate::reader::Block;

/// Side-band records and runs that may wait; past it a round is flushed as if its mark had come.
const ENTRIES_MAX: usize = 256 << 10;

struct Run {
    block: Arc<Block>,
    /// Next record, as an index into the block.
    at: usize,
    /// End of the last record.
    end: usize,
    /// Time of the next record, ns.
    head: u64,
    /// Latest time, which is that of the last timed record.
    last: u64,
}

impl Run {
    fn key(&self) -> (u64, u64) {
        (self.head, self.block.base() + self.at as u64)
    }
}

/// The window.
pub struct OrderedEvents {
    order: ByteOrder,
    strict: bool,
    runs: Vec<Run>,
    /// (time, position) of side-band records that wait.
    barriers: Vec<(u64, u64)>,
    /// Latest time seen, and latest time at the last round mark.
    latest: u64,
    round: u64,
    flushed: u64,
    late: u64,
    heap_bytes: usize,
    last_block: Option<u64>,
}

impl OrderedEvents {
    /// An empty window. With `strict`, all records come by time; otherwise side-band alone is a barrier.
    pub fn new(order: ByteOrder, strict: bool) -> Self {
        OrderedEvents {
            order,
            strict,
            runs: Vec::new(),
            barriers: Vec::new(),
            latest: 0,
            round: 0,
            flushed: 0,
            late: 0,
            heap_bytes: 0,
            last_block: None,
        }
    }

    /// Whether all records come by time.
    pub fn strict(&self) -> bool {
        self.strict
    }

    /// Records that came later than the flush that they belonged to.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Latest time seen, ns.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// Adds the record at `at..at + size` of a block. Records are added in the order of the stream.
    #[inline]
    pub fn push(&mut self, block: &Arc<Block>, at: usize, size: usize, time: Option<u64>, side_band: bool) {
        let time = match (time, self.runs.last()) {
            (Some(time), _) => {
                if time < self.flushed {
                    self.late += 1;
                }
                self.latest = self.latest.max(time);
                time
            }
            (None, Some(run)) => run.last,
            (None, None) => self.latest,
        };
        if side_band && !self.strict {
            self.barriers.push((time, block.base() + at as u64));
        }
        if let Some(run) = self.runs.last_mut()
            && run.last <= time
            && run.end == at
            && run.block.base() == block.base()
        {
            run.last = time;
            run.end = at + size;
            return;
        }
        if self.last_block != Some(block.base()) {
            self.last_block = Some(block.base());
            self.heap_bytes += block.heap_bytes();
        }
        self.runs.push(Run { block: block.clone(), at, end: at + size, head: time, last: time });
    }

    /// Whether the window has grown so far that it should be flushed without a mark. `heap_max` bounds the bytes of
    /// input that it keeps in memory.
    pub fn is_full(&self, heap_max: usize) -> bool {
        self.runs.len() + self.barriers.len() > ENTRIES_MAX || self.heap_bytes > heap_max
    }

    /// A round mark: returns up to which time records can be delivered, since all that follow are later.
    pub fn round(&mut self) -> u64 {
        std::mem::replace(&mut self.round, self.latest)
    }

    /// Stream position before which everything has been delivered; `None` if nothing waits.
    pub fn frontier(&self) -> Option<u64> {
        self.runs.iter().map(|r| r.block.base() + r.at as u64).min()
    }

    /// Delivers all records up to and including `limit` ns.
    pub fn flush(
        &mut self,
        limit: u64,
        evlist: &Evlist,
        deliver: &mut impl FnMut(Record<'_>) -> Result<()>,
    ) -> Result<()> {
        self.flushed = self.flushed.max(limit.min(self.latest));
        let mut runs = std::mem::take(&mut self.runs);
        let mut barriers: Vec<(u64, u64)> = Vec::new();
        self.barriers.retain(|&b| {
            let due = b.0 <= limit;
            if due {
                barriers.push(b);
            }
            !due
        });
        barriers.sort_unstable();
        let mut barriers = barriers.into_iter().peekable();
        let mut heap: BinaryHeap<Reverse<((u64, u64), usize)>> = runs
            .iter()
            .enumerate()
            .filter(|(_, r)| r.head <= limit)
            .map(|(i, r)| Reverse((r.key(), i)))
            .collect();
        while let Some(Reverse((key, index))) = heap.pop() {
            let Some(run) = runs.get_mut(index) else { continue };
            let bound = if self.strict {
                heap.peek().map(|Reverse((key, _))| *key)
            } else {
                while barriers.peek().is_some_and(|&b| b < key) {
                    barriers.next();
                }
                barriers.next_if(|&b| b == key);
                // The barrier itself, if it is the head, is due now; the bound is what comes after it.
                barriers.peek().copied()
            };
            let bound = match (bound, heap.peek()) {
                // Behind a barrier that was just reached, no run may run ahead of another's head that sorts before
                // the next barrier; bounding by the next barrier is enough, since samples between barriers commute.
                (Some(bound), _) => bound.min((limit.saturating_add(1), 0)),
                (None, _) => (limit.saturating_add(1), 0),
            };
            advance(run, bound, limit, self.order, evlist, deliver)?;
            if run.at < run.end && run.head <= limit {
                heap.push(Reverse((run.key(), index)));
            }
        }
        runs.retain(|r| r.at < r.end);
        self.runs = runs;
        self.heap_bytes = 0;
        let mut seen = None;
        for run in &self.runs {
            if seen != Some(run.block.base()) {
                seen = Some(run.block.base());
                self.heap_bytes += run.block.heap_bytes();
            }
        }
        self.last_block = seen;
        Ok(())
    }
}

/// Delivers a run's records that sort before `bound`, at least the first.
fn advance(
    run: &mut Run,
    bound: (u64, u64),
    limit: u64,
    order: ByteOrder,
    evlist: &Evlist,
    deliver: &mut impl FnMut(Record<'_>) -> Result<()>,
) -> Result<()> {
    let block = run.block.clone();
    let bytes: &[u8] = &block;
    let base = block.base();
    // Where the whole run sorts before the bound, no time need be read again.
    let whole = (run.last, base + run.end as u64) <= bound && run.last <= limit;
    let mut first = true;
    while run.at < run.end {
        let rest = bytes.get(run.at..run.end).unwrap_or_default();
        let size = usize::from(order.u16(rest, 6).unwrap_or(0)).max(HEADER_SIZE);
        let record = Record { bytes: rest.get(..size).unwrap_or(rest), order, pos: base + run.at as u64 };
        if !whole {
            run.head = record.time(evlist).unwrap_or(run.head).max(run.head);
            if !first && ((run.head, record.pos) >= bound || run.head > limit) {
                return Ok(());
            }
        }
        first = false;
        run.at += size;
        deliver(record)?;
    }
    Ok(())
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
