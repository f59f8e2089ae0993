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

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::ByteOrder;
use crate::data::prefetch::prefetch;
use crate::error::Result;
use crate::event::Record;
use crate::reader::Block;

/// Records that may wait; past it a round is flushed as if its mark had come.
const ENTRIES_MAX: usize = 512 << 10;
/// Runs that are merged without a heap.
const FEW: usize = 16;
/// How many records further on memory is asked for.
const AHEAD: usize = 12;
/// Records that are delivered at once.
pub const DELIVERED_MAX: usize = 128;

/// A record that waits: its time, ns, and its stream position.
type Entry = (u64, u64);

/// Records that follow each other in one block, with their times.
#[derive(Debug)]
pub struct Batch {
    entries: Vec<Entry>,
    barriers: Vec<Entry>,
    /// Where each run ends, and its last time.
    runs: Vec<(usize, u64)>,
    last: u64,
    earliest: u64,
    latest: u64,
}

impl Batch {
    /// An empty one, behind a record of this time.
    pub fn new(last: u64) -> Self {
        Batch {
            entries: Vec::new(),
            barriers: Vec::new(),
            runs: Vec::new(),
            last,
            earliest: u64::MAX,
            latest: 0,
        }
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Time of the last record, ns.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Adds the record at a stream position.
    #[inline]
    pub fn push(&mut self, time: Option<u64>, pos: u64, side_band: bool) {
        let before = self.last;
        if let Some(time) = time {
            self.last = time;
            self.earliest = self.earliest.min(time);
            self.latest = self.latest.max(time);
        }
        let entry = (self.last, pos);
        if side_band {
            self.barriers.push(entry);
        }
        self.entries.push(entry);
        match self.runs.last_mut() {
            Some(run) if before <= self.last => *run = (self.entries.len(), self.last),
            _ => self.runs.push((self.entries.len(), self.last)),
        }
    }
}

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

/// Records to be delivered next.
struct Due<'a> {
    records: Vec<Record<'a>>,
    side_band_first: bool,
}

/// A run that is being delivered.
struct Cursor<'a> {
    bytes: &'a [u8],
    /// Stream position of the first of them.
    base: u64,
    next: &'a mut usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    fn of(run: &'a mut Run) -> Self {
        Cursor { bytes: &run.block, base: run.block.base(), next: &mut run.next, end: run.end }
    }

    /// Adds the records that sort before `bound`, at least the first, to those that are due; these are delivered when
    /// they are many, and before side-band.
    #[inline]
    fn advance(
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::event::{begin_record, finish_record};
    use crate::reader::Origin;

    /// A block of 16-byte records whose body is their number.
    fn block(count: usize) -> Arc<Block> {
        let mut bytes = Vec::new();
        for i in 0..count {
            let at = begin_record(&mut bytes, ByteOrder::Little, RecordType::SAMPLE, 0);
            ByteOrder::Little.put_u64(&mut bytes, i as u64);
            finish_record(&mut bytes, ByteOrder::Little, at).unwrap();
        }
        let origin = Origin { file: Arc::new("test".into()), offset: 0, decompressed: false };
        Arc::new(Block::heap(bytes, 100, origin))
    }

    /// Pushes records with these times (`None`: no time) and side-band marks, flushes at each limit, and gives the
    /// numbers in the order of delivery.
    fn deliver(records: &[(Option<u64>, bool)], strict: bool, limits: &[u64]) -> Vec<usize> {
        let block = block(records.len());
        let mut queue = OrderedEvents::new(ByteOrder::Little, strict, true);
        // In two batches, as a block may be found.
        for part in [0..records.len() / 2, records.len() / 2..records.len()] {
            let mut batch = Batch::new(queue.last());
            for i in part {
                batch.push(records[i].0, 100 + i as u64 * 16, records[i].1);
            }
            queue.extend(&block, &batch);
        }
        let mut out = Vec::new();
        for &limit in limits {
            queue
                .flush(limit, &mut |due| {
                    out.extend(due.iter().map(|r| r.order.u64(r.body(), 0).unwrap() as usize));
                    Ok(())
                })
                .unwrap();
        }
        out
    }

    /// Times with those that are missing taken from the record before, as the contract says.
    fn effective(records: &[(Option<u64>, bool)]) -> Vec<u64> {
        records
            .iter()
            .scan(0, |last, r| {
                *last = r.0.unwrap_or(*last);
                Some(*last)
            })
            .collect()
    }

    #[test]
    fn side_band_comes_between_the_samples_around_it() {
        // Two CPUs' buffers; the side-band of the second is older than most of the first.
        let records =
            [(Some(10), false), (Some(30), false), (Some(50), false), (Some(20), true), (Some(40), false)];
        let order = deliver(&records, false, &[u64::MAX]);
        let place = |n: usize| order.iter().position(|&x| x == n).unwrap();
        assert!(place(0) < place(3) && place(3) < place(1));
        assert_eq!(order.len(), 5);
        assert_eq!(deliver(&records, true, &[u64::MAX]), [0, 3, 1, 4, 2]);
    }

    #[test]
    fn what_is_later_than_the_limit_waits() {
        let records = [(Some(10), false), (Some(30), false), (Some(20), false)];
        assert_eq!(deliver(&records, true, &[20]), [0, 2]);
        assert_eq!(deliver(&records, true, &[20, u64::MAX]), [0, 2, 1]);
    }

    #[test]
    fn records_without_time_keep_their_place() {
        let records = [(Some(10), false), (None, false), (Some(5), false), (None, true)];
        assert_eq!(deliver(&records, true, &[u64::MAX]), [2, 3, 0, 1]);
    }

    #[test]
    fn of_what_is_delivered_at_once_the_first_alone_is_side_band() {
        let order = ByteOrder::Little;
        let kinds: Vec<RecordType> = (0..400)
            .map(|i| match i {
                0 | 7 | 8 | 300 => RecordType::MMAP2,
                20 => RecordType::LOST,
                _ => RecordType::SAMPLE,
            })
            .collect();
        let (mut bytes, mut batch) = (Vec::new(), Batch::new(0));
        for (i, &ty) in kinds.iter().enumerate() {
            batch.push(Some(i as u64), 100 + bytes.len() as u64, is_side_band(ty));
            let at = begin_record(&mut bytes, order, ty, 0);
            finish_record(&mut bytes, order, at).unwrap();
        }
        let origin = Origin { file: Arc::new("test".into()), offset: 0, decompressed: false };
        let block = Arc::new(Block::heap(bytes, 100, origin));
        for (strict, first) in [(false, true), (true, true), (true, false)] {
            let mut queue = OrderedEvents::new(order, strict, first);
            queue.extend(&block, &batch);
            let (mut seen, mut lens) = (Vec::new(), Vec::new());
            queue
                .flush(u64::MAX, &mut |due| {
                    assert!(!first || due.iter().skip(1).all(|r| !is_side_band(r.ty())));
                    seen.extend(due.iter().map(Record::ty));
                    lens.push(due.len());
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, kinds);
            assert_eq!(lens, if first { vec![7, 1, 128, 128, 36, 100] } else { vec![128, 128, 128, 16] });
        }
    }

    proptest! {
        #[test]
        fn strict_order_is_a_stable_sort(
            records in prop::collection::vec((prop::option::weighted(0.9, 0u64..40), any::<bool>()), 0..60),
        ) {
            let times = effective(&records);
            let mut want: Vec<usize> = (0..records.len()).collect();
            want.sort_by_key(|&i| times[i]);
            prop_assert_eq!(deliver(&records, true, &[u64::MAX]), want);
        }

        #[test]
        fn side_band_sees_the_same_before_and_after_as_strictly(
            records in prop::collection::vec((prop::option::weighted(0.9, 0u64..40), prop::bool::weighted(0.2)), 0..60),
            limit in 0u64..40,
        ) {
            let strict = deliver(&records, true, &[limit, u64::MAX]);
            let loose = deliver(&records, false, &[limit, u64::MAX]);
            let around = |order: &[usize]| -> Vec<(usize, Vec<usize>)> {
                let bands = order.iter().enumerate().filter(|(_, n)| records[**n].1);
                bands.map(|(at, &n)| {
                    let mut before = order[..at].to_vec();
                    before.sort_unstable();
                    (n, before)
                }).collect()
            };
            prop_assert_eq!(around(&strict), around(&loose));
            prop_assert_eq!(strict.len(), records.len());
            prop_assert_eq!(loose.len(), records.len());
        }
    }
}
