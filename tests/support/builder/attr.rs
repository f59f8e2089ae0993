//! An event of a recording.

use super::super::recording::Attr;
use super::super::recording::{branch, flag, rf, st};
use super::super::wire::{Bytes, Order};

/// An attr under construction.
#[derive(Clone, Debug)]
pub struct AttrSpec {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    /// Bits as little-endian numbers them; on a big-endian recording they are laid out as its compiler does.
    pub flags: u64,
    pub branch_sample_type: u64,
    pub regs_user: u64,
    pub regs_intr: u64,
    pub stack_user: u32,
    pub ids: Vec<u64>,
    /// Bytes that stand beyond the fields known here, up to `size`.
    pub beyond: u8,
}

impl AttrSpec {
    /// cpu-clock with side-band records, their trailers, and the given sample fields.
    pub fn new(sample_type: u64) -> Self {
        AttrSpec {
            kind: 1,
            size: 136,
            config: 0,
            period: 250_000,
            sample_type,
            read_format: rf::ID,
            flags: flag::MMAP | flag::COMM | flag::TASK | flag::MMAP2 | flag::SAMPLE_ID_ALL,
            branch_sample_type: 0,
            regs_user: 0,
            regs_intr: 0,
            stack_user: 0,
            ids: vec![1],
            beyond: 0,
        }
    }

    /// IP, TID, TIME, ID and PERIOD.
    pub fn plain() -> Self {
        AttrSpec::new(st::IP | st::TID | st::TIME | st::ID | st::PERIOD)
    }

    /// Every sample field, both register sets, branch counters and hardware index, group reads with all their words.
    pub fn everything() -> Self {
        let mut a = AttrSpec::new(st::ALL);
        a.read_format = rf::TIME_ENABLED | rf::TIME_RUNNING | rf::ID | rf::GROUP | rf::LOST;
        a.branch_sample_type = branch::HW_INDEX | branch::COUNTERS;
        a.regs_user = 0b1_0000_0110;
        a.regs_intr = 0b11;
        a.stack_user = 64;
        a
    }

    pub fn ids(mut self, ids: impl IntoIterator<Item = u64>) -> Self {
        self.ids = ids.into_iter().collect();
        self
    }

    /// Size of the attr in bytes; what is past the known fields is filled with `beyond`.
    pub fn size(mut self, size: u32, beyond: u8) -> Self {
        self.size = size;
        self.beyond = beyond;
        self
    }

    pub fn read_format(mut self, bits: u64) -> Self {
        self.read_format = bits;
        self
    }

    pub fn flags(mut self, bits: u64) -> Self {
        self.flags = bits;
        self
    }

    pub fn branch(mut self, bits: u64) -> Self {
        self.branch_sample_type = bits;
        self
    }

    pub(super) fn build(&self, order: Order) -> Attr {
        let mut b = Bytes::new(order);
        b.u32(self.kind).u32(self.size).u64(self.config).u64(self.period);
        b.u64(self.sample_type).u64(self.read_format);
        b.u64(match order {
            Order::Little => self.flags,
            Order::Big => super::super::recording::flags_big(self.flags),
        });
        b.u32(1).u32(0).u64(0).u64(0).u64(self.branch_sample_type).u64(self.regs_user);
        b.u32(self.stack_user).u32(0).u64(self.regs_intr).u32(0).u16(127).u16(0);
        b.u32(0).u32(0).u64(0).u64(0);
        b.out.resize(self.size as usize, self.beyond);
        Attr { raw: b.out, ids: self.ids.clone() }
    }
}
