//! Records in the other order.

use super::super::recording::{BRANCH_FIELDS, Record, Recording};
use super::super::recording::{bitfield_big, bitfield_little, branch, kind, misc, rf, st};
use super::super::wire::Order;
use super::{Flip, swap_feature};

/// One record's twin. `known` has the recording's attrs.
pub(super) fn swap_record(r: &Record, known: &Recording, cpus: usize) -> Record {
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
    pub(super) fn sample(&mut self, known: &Recording, r: &Record) -> Option<()> {
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

    pub(super) fn kernel(&mut self, kind: u32, flags: u16, known: &Recording, r: &Record) -> Option<()> {
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

    pub(super) fn user(&mut self, kind: u32, cpus: usize) -> Option<()> {
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
