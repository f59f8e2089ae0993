//! Samples: the fixed fields by offset, the variable ones by stepping over what precedes them.

use std::ops::Range;

use super::Record;
use crate::abi::sample as s;
use crate::bytes::ByteOrder;
use crate::error::Result;
use crate::evlist::SampleLayout;

/// Where each variable field of one sample is; ranges are byte offsets from the record's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Counter values.
    pub read: Option<Range<usize>>,
    /// Callchain entries, u64 each, context markers among them.
    pub callchain: Option<Range<usize>>,
    /// Raw data, without its size word.
    pub raw: Option<Range<usize>>,
    /// Hardware index of the branch stack, u64.
    pub branch_hw_index: Option<usize>,
    /// Branches, 24 bytes each: from, to, flags.
    pub branches: Option<Range<usize>>,
    /// A counters word for each branch.
    pub branch_counters: Option<Range<usize>>,
    /// ABI of the user registers (0 none, 1 32-bit, 2 64-bit) and the registers, u64 each.
    pub regs_user: Option<(u64, Range<usize>)>,
    /// User stack: the part that was really copied (`dyn_size`).
    pub stack_user: Option<Range<usize>>,
    /// Weight, one word (also for WEIGHT_STRUCT).
    pub weight: Option<usize>,
    /// Data source.
    pub data_src: Option<usize>,
    /// Transaction flags.
    pub transaction: Option<usize>,
    /// ABI and registers at the interrupt.
    pub regs_intr: Option<(u64, Range<usize>)>,
    /// Physical address.
    pub phys_addr: Option<usize>,
    /// Cgroup id.
    pub cgroup: Option<usize>,
    /// Data page size, bytes.
    pub data_page_size: Option<usize>,
    /// Code page size, bytes.
    pub code_page_size: Option<usize>,
    /// AUX data snapshot.
    pub aux: Option<Range<usize>>,
    /// Where the fields end; equal to the record's size unless it has bytes that are not known here.
    pub end: usize,
}

struct Walk<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
    at: usize,
}

impl Walk<'_> {
    fn word(&mut self) -> Option<u64> {
        let value = self.order.u64(self.bytes, self.at)?;
        self.at += 8;
        Some(value)
    }

    fn place(&mut self) -> Option<usize> {
        let at = self.at;
        self.word().map(|_| at)
    }

    fn span(&mut self, count: u64, size: usize) -> Option<Range<usize>> {
        let len = usize::try_from(count).ok()?.checked_mul(size)?;
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len())?;
        let range = self.at..end;
        self.at = end;
        Some(range)
    }

    fn regs(&mut self, mask: u64) -> Option<(u64, Range<usize>)> {
        let abi = self.word()?;
        let count = if abi == 0 { 0 } else { mask.count_ones() };
        Some((abi, self.span(u64::from(count), 8)?))
    }
}

/// Finds the callchain of a sample without looking at what follows it: its entries as a byte range.
/// `Ok(None)` if the event has no callchains; an error if it does not fit the record.
#[inline]
pub fn callchain(record: Record<'_>, layout: &SampleLayout) -> Result<Option<Range<usize>>> {
    if !layout.has(s::CALLCHAIN) {
        return Ok(None);
    }
    let find = || {
        let mut w = Walk { bytes: record.bytes, order: record.order, at: layout.fixed_end };
        if layout.has(s::READ) {
            w.at += layout.read_format.size(w.bytes, w.at, w.order)?;
        }
        let count = w.word()?;
        w.span(count, 8)
    };
    match find() {
        Some(range) => Ok(Some(range)),
        None => Err(record.error("callchain runs past the end of the sample")),
    }
}

/// Finds all variable fields.
pub fn fields(record: Record<'_>, layout: &SampleLayout) -> Result<Fields> {
    let mut f = Fields::default();
    let mut w = Walk { bytes: record.bytes, order: record.order, at: layout.fixed_end };
    match walk(&mut w, layout, &mut f) {
        Ok(()) => {
            f.end = w.at;
            Ok(f)
        }
        Err(field) => Err(record.error(format!("{field} runs past the end of the sample at byte {}", w.at))),
    }
}

fn walk(w: &mut Walk<'_>, l: &SampleLayout, f: &mut Fields) -> Result<(), &'static str> {
    if w.at > w.bytes.len() {
        return Err("a fixed field");
    }
    if l.has(s::READ) {
        let size = l.read_format.size(w.bytes, w.at, w.order).ok_or("read values")?;
        f.read = w.span(size as u64, 1);
    }
    if l.has(s::CALLCHAIN) {
        let count = w.word().ok_or("callchain")?;
        f.callchain = Some(w.span(count, 8).ok_or("callchain")?);
    }
    if l.has(s::RAW) {
        let size = w.order.u32(w.bytes, w.at).ok_or("raw data")?;
        w.at += 4;
        f.raw = Some(w.span(u64::from(size), 1).ok_or("raw data")?);
    }
    if l.has(s::BRANCH_STACK) {
        let count = w.word().ok_or("branch stack")?;
        if l.branch_hw_index {
            f.branch_hw_index = Some(w.place().ok_or("branch stack")?);
        }
        f.branches = Some(w.span(count, 24).ok_or("branch stack")?);
        if l.branch_counters {
            f.branch_counters = Some(w.span(count, 8).ok_or("branch counters")?);
        }
    }
    if l.has(s::REGS_USER) {
        f.regs_user = Some(w.regs(l.regs_user).ok_or("user registers")?);
    }
    if l.has(s::STACK_USER) {
        f.stack_user = Some(stack(w).ok_or("user stack")?);
    }
    if l.has(s::WEIGHT | s::WEIGHT_STRUCT) {
        f.weight = Some(w.place().ok_or("weight")?);
    }
    if l.has(s::DATA_SRC) {
        f.data_src = Some(w.place().ok_or("data source")?);
    }
    if l.has(s::TRANSACTION) {
        f.transaction = Some(w.place().ok_or("transaction")?);
    }
    if l.has(s::REGS_INTR) {
        f.regs_intr = Some(w.regs(l.regs_intr).ok_or("interrupt registers")?);
    }
    if l.has(s::PHYS_ADDR) {
        f.phys_addr = Some(w.place().ok_or("physical address")?);
    }
    if l.has(s::CGROUP) {
        f.cgroup = Some(w.place().ok_or("cgroup")?);
    }
    if l.has(s::DATA_PAGE_SIZE) {
        f.data_page_size = Some(w.place().ok_or("data page size")?);
    }
    if l.has(s::CODE_PAGE_SIZE) {
        f.code_page_size = Some(w.place().ok_or("code page size")?);
    }
    if l.has(s::AUX) {
        let size = w.word().ok_or("AUX data")?;
        f.aux = Some(w.span(size, 1).ok_or("AUX data")?);
    }
    Ok(())
}

/// u64 size; if not 0: the stack, then u64 of how much of it was really copied.
fn stack(w: &mut Walk<'_>) -> Option<Range<usize>> {
    let size = w.word()?;
    let whole = w.span(size, 1)?;
    if size == 0 {
        return Some(whole);
    }
    let copied = usize::try_from(w.word()?).unwrap_or(usize::MAX).min(whole.len());
    Some(whole.start..whole.start + copied)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::abi::attr::offset;
    use crate::abi::record::RecordType;
    use crate::event::{begin_record, finish_record};
    use crate::evlist::Attr;

    fn layout(sample_type: u64) -> SampleLayout {
        let mut bytes = vec![0; 136];
        ByteOrder::Little.set_u64(&mut bytes, offset::SAMPLE_TYPE, sample_type);
        ByteOrder::Little.set_u64(
            &mut bytes,
            offset::BRANCH_SAMPLE_TYPE,
            s::branch::HW_INDEX | s::branch::COUNTERS,
        );
        ByteOrder::Little.set_u64(&mut bytes, offset::SAMPLE_REGS_USER, 0b1011);
        SampleLayout::new(&Attr::new(&bytes, ByteOrder::Little))
    }

    fn sample(words: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        let at = begin_record(&mut out, ByteOrder::Little, RecordType::SAMPLE, 2);
        for &w in words {
            ByteOrder::Little.put_u64(&mut out, w);
        }
        finish_record(&mut out, ByteOrder::Little, at).unwrap();
        out
    }

    #[test]
    fn every_variable_field_is_found() {
        let l = layout(
            s::IP
                | s::CALLCHAIN
                | s::BRANCH_STACK
                | s::REGS_USER
                | s::STACK_USER
                | s::WEIGHT_STRUCT
                | s::CGROUP
                | s::AUX,
        );
        #[rustfmt::skip]
        let bytes = sample(&[
            0x11,                   // ip
            2, 0xa, 0xb,            // callchain
            1, 7, 1, 2, 3, 9,       // branch stack: count, hw index, branch, counters
            2, 4, 5, 6,             // user registers
            16, 0xcc, 0xdd, 8,      // stack of 16 bytes, 8 copied
            0x77,                   // weight
            0x88,                   // cgroup
            8, 0x99,                // AUX
        ]);
        let record = Record { bytes: &bytes, order: ByteOrder::Little, pos: 0 };
        let f = fields(record, &l).unwrap();
        assert_eq!(f.callchain, Some(24..40));
        assert_eq!(callchain(record, &l).unwrap(), Some(24..40));
        assert_eq!(
            (f.branch_hw_index, f.branches, f.branch_counters),
            (Some(48), Some(56..80), Some(80..88))
        );
        assert_eq!(f.regs_user, Some((2, 96..120)));
        assert_eq!(f.stack_user, Some(128..136));
        assert_eq!((f.weight, f.cgroup, f.aux), (Some(152), Some(160), Some(176..184)));
        assert_eq!(f.end, bytes.len());
    }

    #[test]
    fn hostile_counts_are_errors_that_name_the_field() {
        let l = layout(s::IP | s::CALLCHAIN);
        for count in [3, u64::MAX, 1 << 61] {
            let bytes = sample(&[0x11, count, 0xa, 0xb]);
            let record = Record { bytes: &bytes, order: ByteOrder::Little, pos: 8 };
            assert!(callchain(record, &l).is_err());
            assert!(fields(record, &l).unwrap_err().to_string().contains("callchain runs past"));
        }
    }
}
