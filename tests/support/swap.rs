//! A recording's twin in the other byte order, as a machine of that order would have written it.
//!
//! Every field is swapped by its type, which the attr and the record's type tell. What has no order is kept:
//! raw tracepoint data, tracing data (which has its own mark), sections and records that nobody describes.

mod features;
mod records;

use self::records::swap_record;
use super::recording::{Attr, Container, Record, Recording};
use super::recording::{feature, flags_big, flags_little, kind};
use super::wire::Order;

/// The twin of a recording; of a compressed one the decompressed twin.
pub fn twin(recording: &Recording) -> Recording {
    let from = recording.order;
    let mut attrs = recording.attrs.clone();
    if recording.container == Container::Pipe {
        attrs.extend(recording.of_kind(kind::HEADER_ATTR).map(|r| attr_of_record(r, from)));
    }
    let known = Recording { attrs, records: Vec::new(), ..recording.clone() };
    let cpus = cpus_of(recording);
    let mut features = recording.features.clone();
    for (&id, raw) in features.iter_mut() {
        *raw = swap_feature(id, raw, from, cpus);
    }
    let mut event_types = Flip::new(from, &recording.event_types);
    let _ = event_types.event_types();
    Recording {
        order: from.other(),
        container: recording.container,
        attrs: recording
            .attrs
            .iter()
            .map(|a| Attr { raw: swap_attr(&a.raw, from), ids: a.ids.clone() })
            .collect(),
        event_types: event_types.finish(),
        features,
        records: recording.records.iter().map(|r| swap_record(r, &known, cpus)).collect(),
    }
}

/// Attr and ids of a HEADER_ATTR record.
pub fn attr_of_record(r: &Record, order: Order) -> Attr {
    let size = (order.u32(r.body(), 4) as usize).max(64);
    let (raw, ids) = r.body().split_at(size);
    Attr { raw: raw.to_vec(), ids: ids.chunks_exact(8).map(|id| order.u64(id, 0)).collect() }
}

fn cpus_of(recording: &Recording) -> usize {
    let piped = recording
        .of_kind(kind::HEADER_FEATURE)
        .find(|r| recording.order.u64(r.body(), 0) == u64::from(feature::NRCPUS))
        .map(|r| &r.body()[8..]);
    let raw = recording.features.get(&feature::NRCPUS).map(|v| &v[..]).or(piped);
    // perf writes the CPUs on line first, then those configured, and topology has one entry for each of the latter
    raw.map_or(0, |v| recording.order.u32(v, 0).max(recording.order.u32(v, 4)) as usize)
}

/// Copies a run of bytes, field by field, each reversed; `None` when the input ends early.
struct Flip<'a> {
    from: Order,
    input: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

impl<'a> Flip<'a> {
    fn new(from: Order, input: &'a [u8]) -> Self {
        Flip { from, input, at: 0, out: Vec::with_capacity(input.len()) }
    }

    fn left(&self) -> usize {
        self.input.len() - self.at
    }

    fn raw(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.input.get(self.at..self.at.checked_add(n)?)?;
        self.out.extend_from_slice(taken);
        self.at += n;
        Some(taken)
    }

    fn reversed(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.input.get(self.at..self.at + n)?;
        self.out.extend(taken.iter().rev());
        self.at += n;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let from = self.from;
        self.reversed(2).map(|b| from.u16(b, 0))
    }

    fn u32(&mut self) -> Option<u32> {
        let from = self.from;
        self.reversed(4).map(|b| from.u32(b, 0))
    }

    fn u64(&mut self) -> Option<u64> {
        let from = self.from;
        self.reversed(8).map(|b| from.u64(b, 0))
    }

    fn u32s(&mut self, n: usize) -> Option<()> {
        (0..n).try_for_each(|_| self.u32().map(drop))
    }

    fn u64s(&mut self, n: usize) -> Option<()> {
        (0..n).try_for_each(|_| self.u64().map(drop))
    }

    /// A word of bit fields: each field keeps its value and moves to where the other compiler puts it.
    fn fields(&mut self, swap: impl Fn(Order, u64) -> u64) -> Option<()> {
        let word = self.from.u64(self.input.get(self.at..self.at + 8)?, 0);
        let out = swap(self.from, word);
        self.at += 8;
        match self.from {
            Order::Little => self.out.extend(out.to_be_bytes()),
            Order::Big => self.out.extend(out.to_le_bytes()),
        }
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        let len = self.u32()? as usize;
        self.raw(len).map(drop)
    }

    fn strings(&mut self) -> Option<()> {
        let n = self.u32()?;
        (0..n).try_for_each(|_| self.string())
    }

    /// All that is left, as it is.
    fn finish(mut self) -> Vec<u8> {
        let left = self.left();
        let _ = self.raw(left);
        self.out
    }

    fn event_types(&mut self) -> Option<()> {
        while self.left() >= 72 {
            self.u64()?;
            self.raw(64)?;
        }
        Some(())
    }

    fn attr(&mut self, size: usize) -> Option<()> {
        let start = self.at;
        self.u32s(2)?;
        self.u64s(4)?;
        self.fields(|from, word| match from {
            Order::Little => flags_big(word),
            Order::Big => flags_little(word),
        })?;
        self.u32s(2)?;
        // config1, then from 64: config2, branch_sample_type, regs_user, stack_user, clockid, regs_intr,
        // aux_watermark, max_stack, reserved, aux_sample_size, flags, sig_data, config3, config4
        for width in [8, 8, 8, 8, 4, 4, 8, 4, 2, 2, 4, 4, 8, 8, 8] {
            if self.at - start + width > size {
                break;
            }
            self.reversed(width)?;
        }
        self.raw(size - (self.at - start)).map(drop)
    }
}

fn swap_attr(raw: &[u8], from: Order) -> Vec<u8> {
    let mut f = Flip::new(from, raw);
    f.attr(raw.len()).expect("an attr has at least 64 bytes");
    f.finish()
}

/// A feature section's twin; `cpus` is what NRCPUS says. What is not understood is kept as it is.
pub fn swap_feature(id: u32, raw: &[u8], from: Order, cpus: usize) -> Vec<u8> {
    let mut f = Flip::new(from, raw);
    if f.feature(id, cpus).is_none() && id != feature::CPU_TOPOLOGY {
        eprintln!("feature {id} of {} bytes is not laid out as known; its rest keeps its order", raw.len());
    }
    f.finish()
}
