//! A recording's twin in the other byte order, as a machine of that order would have written it.
//!
//! Every field is swapped by its type, which the attr and the record's type tell. What has no order is kept:
//! raw tracepoint data, tracing data (which has its own mark), sections and records that nobody describes.

use super::recording::{Attr, BRANCH_FIELDS, Container, Record, Recording};
use super::recording::{
    bitfield_big, bitfield_little, branch, feature, flags_big, flags_little, kind, misc, rf, st,
};
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

impl Flip<'_> {
    fn feature(&mut self, id: u32, cpus: usize) -> Option<()> {
        match id {
            feature::BUILD_ID => self.build_ids(),
            feature::HOSTNAME
            | feature::OSRELEASE
            | feature::VERSION
            | feature::ARCH
            | feature::CPUDESC
            | feature::CPUID => self.string(),
            feature::NRCPUS => self.u32s(2),
            feature::TOTAL_MEM | feature::CLOCKID | feature::DIR_FORMAT => self.u64().map(drop),
            feature::CMDLINE => self.strings(),
            feature::EVENT_DESC => self.event_desc(),
            feature::CPU_TOPOLOGY => {
                self.strings()?;
                self.strings()?;
                self.u32s(2 * cpus)?;
                self.strings()?;
                self.u32s(cpus)
            }
            feature::NUMA_TOPOLOGY => {
                let n = self.u32()?;
                (0..n).try_for_each(|_| {
                    self.u32()?;
                    self.u64s(2)?;
                    self.string()
                })
            }
            feature::PMU_MAPPINGS => {
                let n = self.u32()?;
                (0..n).try_for_each(|_| {
                    self.u32()?;
                    self.string()
                })
            }
            feature::GROUP_DESC => {
                let n = self.u32()?;
                (0..n).try_for_each(|_| {
                    self.string()?;
                    self.u32s(2)
                })
            }
            feature::CACHE => {
                self.u32()?;
                let n = self.u32()?;
                (0..n).try_for_each(|_| {
                    self.u32s(4)?;
                    (0..3).try_for_each(|_| self.string())
                })
            }
            feature::AUXTRACE | feature::SAMPLE_TIME | feature::MEM_TOPOLOGY => self.u64s(self.left() / 8),
            feature::COMPRESSED => self.u32s(5),
            feature::CLOCK_DATA => {
                self.u32s(2)?;
                self.u64s(2)
            }
            feature::CPU_PMU_CAPS | feature::HYBRID_TOPOLOGY => {
                let n = self.u32()?;
                (0..2 * n).try_for_each(|_| self.string())
            }
            feature::PMU_CAPS => {
                let n = self.u32()?;
                (0..n).try_for_each(|_| {
                    let caps = self.u32()?;
                    (0..2 * caps).try_for_each(|_| self.string())?;
                    self.string()
                })
            }
            _ => Some(()),
        }
    }

    fn build_ids(&mut self) -> Option<()> {
        while self.left() >= 36 {
            let start = self.at;
            self.u32()?;
            self.u16()?;
            let size = usize::from(self.u16()?);
            self.u32()?;
            self.raw(size.checked_sub(self.at - start)?)?;
        }
        Some(())
    }

    fn event_desc(&mut self) -> Option<()> {
        let n = self.u32()?;
        let size = self.u32()? as usize;
        (0..n).try_for_each(|_| {
            self.attr(size)?;
            let ids = self.u32()? as usize;
            self.string()?;
            self.u64s(ids)
        })
    }
}

/// One record's twin. `known` has the recording's attrs.
fn swap_record(r: &Record, known: &Recording, cpus: usize) -> Record {
    let from = known.order;
    let mut f = Flip::new(from, &r.bytes);
    let header = (|| {
        f.u32()?;
        f.u16()?;
        f.u16()
    })();
    assert!(header.is_some(), "a record has a header");
    let (kind, flags) = (r.kind(from), r.misc(from));
    let ok = match kind {
        kind::SAMPLE => f.sample(known, r),
        1..64 => f.kernel(kind, flags, known, r),
        _ => f.user(kind, cpus),
    };
    if ok.is_none() {
        eprintln!(
            "record type {kind} of {} bytes is not laid out as known; its rest keeps its order",
            r.bytes.len()
        );
    }
    Record { bytes: f.finish(), payload: r.payload.clone() }
}

/// The id that names a sample's attr, if its layout says where that is.
fn sample_event(known: &Recording, r: &Record) -> Option<u64> {
    let order = known.order;
    let bits = known.attrs.first()?.sample_type(order);
    if bits & st::IDENTIFIER != 0 {
        return Some(order.u64(&r.bytes, 8));
    }
    if bits & st::ID == 0 {
        return None;
    }
    let before = bits & (st::IP | st::TID | st::TIME | st::ADDR);
    Some(order.u64(&r.bytes, 8 + 8 * before.count_ones() as usize))
}

impl Flip<'_> {
    fn sample(&mut self, known: &Recording, r: &Record) -> Option<()> {
        let from = self.from;
        let attr = known.attr_of(sample_event(known, r))?;
        let bits = attr.sample_type(from);
        let has = |bit| bits & bit != 0;
        self.u64s((bits & (st::IDENTIFIER | st::IP)).count_ones() as usize)?;
        if has(st::TID) {
            self.u32s(2)?;
        }
        self.u64s((bits & (st::TIME | st::ADDR | st::ID | st::STREAM_ID)).count_ones() as usize)?;
        if has(st::CPU) {
            self.u32s(2)?;
        }
        if has(st::PERIOD) {
            self.u64()?;
        }
        if has(st::READ) {
            self.read_values(attr.read_format(from))?;
        }
        if has(st::CALLCHAIN) {
            let n = self.u64()?;
            self.u64s(n as usize)?;
        }
        if has(st::RAW) {
            let n = self.u32()?;
            self.raw(n as usize)?;
        }
        if has(st::BRANCH_STACK) {
            let n = self.u64()? as usize;
            let kinds = attr.branch_sample_type(from);
            self.u64s(usize::from(kinds & branch::HW_INDEX != 0))?;
            for _ in 0..n {
                self.u64s(2)?;
                self.fields(|from, word| match from {
                    Order::Little => bitfield_big(word, &BRANCH_FIELDS),
                    Order::Big => bitfield_little(word, &BRANCH_FIELDS),
                })?;
            }
            self.u64s(if kinds & branch::COUNTERS != 0 { n } else { 0 })?;
        }
        if has(st::REGS_USER) {
            self.registers(attr.regs_user(from))?;
        }
        if has(st::STACK_USER) {
            let n = self.u64()? as usize;
            // the stack of a 64-bit machine
            self.u64s(n / 8)?;
            self.raw(n % 8)?;
            self.u64s(usize::from(n != 0))?;
        }
        self.u64s(
            (bits & (st::WEIGHT | st::WEIGHT_STRUCT | st::DATA_SRC | st::TRANSACTION)).count_ones() as usize
        )?;
        if has(st::REGS_INTR) {
            self.registers(attr.regs_intr(from))?;
        }
        let words = st::PHYS_ADDR | st::CGROUP | st::DATA_PAGE_SIZE | st::CODE_PAGE_SIZE;
        self.u64s((bits & words).count_ones() as usize)?;
        if has(st::AUX) {
            let n = self.u64()?;
            self.raw(n as usize)?;
        }
        Some(())
    }

    fn registers(&mut self, mask: u64) -> Option<()> {
        let abi = self.u64()?;
        self.u64s(if abi == 0 { 0 } else { mask.count_ones() as usize })
    }

    fn read_values(&mut self, format: u64) -> Option<()> {
        let times = (format & (rf::TIME_ENABLED | rf::TIME_RUNNING)).count_ones() as usize;
        let each = 1 + (format & (rf::ID | rf::LOST)).count_ones() as usize;
        if format & rf::GROUP != 0 {
            let n = self.u64()? as usize;
            self.u64s(times + n * each)
        } else {
            self.u64s(times + each)
        }
    }

    fn kernel(&mut self, kind: u32, flags: u16, known: &Recording, r: &Record) -> Option<()> {
        let bits = known.attrs.first().map_or(0, |a| a.sample_type(self.from));
        let trailer = known.attrs.first().map_or(0, |a| a.trailer_size(self.from));
        let body_end = r.bytes.len().checked_sub(trailer)?;
        match kind {
            kind::MMAP => {
                self.u32s(2)?;
                self.u64s(3)?;
            }
            kind::MMAP2 => {
                self.u32s(2)?;
                self.u64s(3)?;
                if flags & misc::MMAP_BUILD_ID != 0 {
                    self.raw(24)?;
                } else {
                    self.u32s(2)?;
                    self.u64s(2)?;
                }
                self.u32s(2)?;
            }
            kind::COMM | kind::ITRACE_START | kind::SWITCH_CPU_WIDE => self.u32s(2)?,
            kind::EXIT | kind::FORK => {
                self.u32s(4)?;
                self.u64()?;
            }
            kind::LOST => self.u64s(2)?,
            kind::THROTTLE | kind::UNTHROTTLE | kind::AUX => self.u64s(3)?,
            kind::READ => {
                self.u32s(2)?;
                self.u64s(body_end.checked_sub(self.at)? / 8)?;
            }
            kind::LOST_SAMPLES | kind::CGROUP | kind::AUX_OUTPUT_HW_ID => self.u64s(1)?,
            kind::NAMESPACES => {
                self.u32s(2)?;
                let n = self.u64()?;
                self.u64s(2 * n as usize)?;
            }
            kind::KSYMBOL => {
                self.u64()?;
                self.u32()?;
                self.u16()?;
                self.u16()?;
            }
            kind::BPF_EVENT => {
                self.u16()?;
                self.u16()?;
                self.u32()?;
            }
            kind::TEXT_POKE => {
                self.u64()?;
                self.u16()?;
                self.u16()?;
            }
            kind::CALLCHAIN_DEFERRED => {
                self.u64()?;
                let n = self.u64()?;
                self.u64s(n as usize)?;
            }
            _ => {}
        }
        self.raw(body_end.checked_sub(self.at)?)?;
        if trailer > 0 {
            if bits & st::TID != 0 {
                self.u32s(2)?;
            }
            self.u64s((bits & (st::TIME | st::ID | st::STREAM_ID)).count_ones() as usize)?;
            if bits & st::CPU != 0 {
                self.u32s(2)?;
            }
            self.u64s((bits & st::IDENTIFIER).count_ones() as usize)?;
        }
        Some(())
    }

    fn user(&mut self, kind: u32, cpus: usize) -> Option<()> {
        match kind {
            kind::HEADER_ATTR => {
                let size = self.from.u32(self.input.get(self.at..self.at + 8)?, 4) as usize;
                self.attr(size.max(64))?;
                self.u64s(self.left() / 8)
            }
            kind::HEADER_EVENT_TYPE => self.u64().map(drop),
            kind::HEADER_TRACING_DATA | kind::HEADER_BUILD_ID => self.u32().map(drop),
            kind::ID_INDEX | kind::STAT_CONFIG | kind::STAT_ROUND => self.u64s(self.left() / 8),
            kind::AUXTRACE_INFO => {
                self.u32s(2)?;
                self.u64s(self.left() / 8)
            }
            kind::AUXTRACE => {
                self.u64s(3)?;
                self.u32s(4)
            }
            kind::AUXTRACE_ERROR => {
                self.u32s(6)?;
                self.u64s(2)?;
                self.raw(64)?;
                self.u32s(self.left() / 4)
            }
            kind::THREAD_MAP => {
                let n = self.u64()?;
                (0..n).try_for_each(|_| {
                    self.u64()?;
                    self.raw(16).map(drop)
                })
            }
            kind::CPU_MAP => self.cpu_map(),
            kind::STAT => {
                self.u64()?;
                self.u32s(2)?;
                self.u64s(3)
            }
            kind::EVENT_UPDATE => {
                let what = self.u64()?;
                self.u64()?;
                match what {
                    1 => self.u64().map(drop),
                    3 => self.cpu_map(),
                    _ => Some(()),
                }
            }
            kind::TIME_CONV => self.u64s(3 + if self.left() >= 40 { 2 } else { 0 }),
            kind::HEADER_FEATURE => {
                let id = self.u64()?;
                // an id that does not fit is nobody's, and so are its bytes
                let rest = swap_feature(
                    u32::try_from(id).unwrap_or(u32::MAX),
                    &self.input[self.at..],
                    self.from,
                    cpus,
                );
                self.at = self.input.len();
                self.out.extend(rest);
                Some(())
            }
            kind::COMPRESSED2 => self.u64().map(drop),
            kind::BPF_METADATA => {
                self.raw(512)?;
                self.u64().map(drop)
            }
            _ => Some(()),
        }
    }

    fn cpu_map(&mut self) -> Option<()> {
        match self.u16()? {
            0 => {
                let n = self.u16()?;
                (0..n).try_for_each(|_| self.u16().map(drop))
            }
            1 => {
                self.u16()?;
                let width = self.u16()?;
                if width == 8 {
                    // the words are aligned to their size from the record's start
                    self.raw(self.at.next_multiple_of(8) - self.at)?;
                    self.u64s(self.left() / 8)
                } else {
                    self.u32s(self.left() / 4)
                }
            }
            _ => {
                self.raw(2)?;
                self.u16()?;
                self.u16().map(drop)
            }
        }
    }
}
