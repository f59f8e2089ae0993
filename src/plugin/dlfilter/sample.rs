//! A sample as a dlfilter is told of it.

use std::ffi::{c_char, c_void};
use std::ops::Range;

use super::abi::Sample;
use crate::abi::attr::{event_type, offset};
use crate::abi::sample as s;
use crate::bytes::ByteOrder;
use crate::error::Result;
use crate::event::{Record, sample};
use crate::evlist::{Evsel, SampleLayout};
use crate::plugin::fixed::{self, Plan};

/// Software events whose data address is one of code or data that has symbols: page faults of all kinds.
const PAGE_FAULTS: [u64; 3] = [2, 5, 6];
/// The hardware event of branches; with a period of 1 it is a trace of them.
const BRANCHES: u64 = 4;
/// `PERF_MEM_DATA_SRC_NONE`: everything is "not available".
const NO_DATA_SRC: u64 = 0x1e_0508_0021;
/// Fields behind the fixed ones, but for callchains.
const VARIABLE: u64 = s::READ
    | s::RAW
    | s::BRANCH_STACK
    | s::REGS_USER
    | s::STACK_USER
    | s::WEIGHT
    | s::WEIGHT_STRUCT
    | s::DATA_SRC
    | s::TRANSACTION
    | s::REGS_INTR
    | s::PHYS_ADDR
    | s::AUX
    | s::CGROUP
    | s::DATA_PAGE_SIZE
    | s::CODE_PAGE_SIZE;

/// What all samples of an event have in common, with perf's defaults for fields that they lack.
pub(super) fn template(evsel: &Evsel, name: *const c_char) -> Sample {
    let (ty, config) = (evsel.attr.event_type(), evsel.attr.config());
    let period = evsel.attr.u64(offset::SAMPLE_PERIOD);
    let correlates = match ty {
        event_type::SOFTWARE => PAGE_FAULTS.contains(&config),
        event_type::HARDWARE => config & BRANCHES != 0 && period == 1,
        _ => false,
    };
    Sample { period, addr_correlates_sym: u8::from(correlates), event: name, ..NO_SAMPLE }
}

/// A sample that has no field.
const NO_SAMPLE: Sample = Sample {
    size: size_of::<Sample>() as u32,
    ins_lat: 0,
    p_stage_cyc: 0,
    ip: 0,
    pid: -1,
    tid: -1,
    time: u64::MAX,
    addr: 0,
    id: u64::MAX,
    stream_id: u64::MAX,
    period: 0,
    weight: 0,
    transaction: 0,
    insn_cnt: 0,
    cyc_cnt: 0,
    cpu: -1,
    flags: 0,
    data_src: NO_DATA_SRC,
    phys_addr: 0,
    data_page_size: 0,
    code_page_size: 0,
    cgroup: 0,
    cpumode: 0,
    addr_correlates_sym: 0,
    misc: 0,
    raw_size: 0,
    raw_data: std::ptr::null(),
    brstack_nr: 0,
    brstack: std::ptr::null(),
    raw_callchain_nr: 0,
    raw_callchain: std::ptr::null(),
    event: std::ptr::null(),
    machine_pid: 0,
    vcpu: -1,
};

/// Words of a record in this machine's byte order and alignment.
#[derive(Default)]
pub(super) struct Words {
    fixed: fixed::Words,
    callchain: Vec<u64>,
    branches: Vec<u64>,
}

/// Fills in what the record has, which is the same for all samples of an event. Pointers are into the record, or into `words` where the record's bytes can't be
/// taken as they are.
#[inline]
pub(super) fn fill(
    to: &mut Sample,
    record: Record<'_>,
    plan: &Plan,
    layout: &SampleLayout,
    words: &mut Words,
) -> Result<()> {
    let fixed = plan
        .read(record, &mut words.fixed)
        .ok_or_else(|| record.error("too short for the fields of its event"))?;
    to.misc = record.misc();
    to.cpumode = record.cpumode().bits() as u8;
    to.ip = fixed.ip();
    (to.pid, to.tid) = fixed.pid_tid();
    to.time = fixed.time();
    to.addr = fixed.addr();
    to.id = fixed.id();
    to.stream_id = fixed.stream_id();
    to.period = fixed.period();
    to.cpu = fixed.cpu();
    if layout.has(VARIABLE) {
        return variable(to, record, layout, words);
    }
    if let Some(range) = sample::callchain(record, layout)? {
        callchain(to, record, range, words);
    }
    Ok(())
}

fn callchain(to: &mut Sample, record: Record<'_>, range: Range<usize>, words: &mut Words) {
    to.raw_callchain_nr = (range.len() / 8) as u64;
    to.raw_callchain = native(record, range, &mut words.callchain);
}

#[inline(never)]
fn variable(to: &mut Sample, record: Record<'_>, layout: &SampleLayout, words: &mut Words) -> Result<()> {
    let fields = sample::fields(record, layout)?;
    let word = |at: Option<usize>, default: u64| {
        at.and_then(|at| record.order.u64(record.bytes, at)).unwrap_or(default)
    };
    if let Some(range) = fields.callchain {
        callchain(to, record, range, words);
    }
    if let Some(raw) = fields.raw.and_then(|range| record.bytes.get(range)) {
        to.raw_size = u32::try_from(raw.len()).unwrap_or(u32::MAX);
        to.raw_data = raw.as_ptr().cast::<c_void>();
    }
    if let Some(range) = fields.branches {
        to.brstack_nr = (range.len() / 24) as u64;
        to.brstack = native(record, range, &mut words.branches).cast::<c_void>();
    }
    let weight = word(fields.weight, 0);
    if layout.has(s::WEIGHT_STRUCT) {
        to.weight = weight & 0xffff_ffff;
        to.ins_lat = (weight >> 32) as u16;
        to.p_stage_cyc = (weight >> 48) as u16;
    } else {
        to.weight = weight;
    }
    to.data_src = word(fields.data_src, to.data_src);
    to.transaction = word(fields.transaction, 0);
    to.phys_addr = word(fields.phys_addr, 0);
    to.cgroup = word(fields.cgroup, 0);
    to.data_page_size = word(fields.data_page_size, 0);
    to.code_page_size = word(fields.code_page_size, 0);
    Ok(())
}

/// Words as a C program may read them: the record's own, or a copy where order or alignment forbid.
#[inline]
fn native(record: Record<'_>, range: Range<usize>, copy: &mut Vec<u64>) -> *const u64 {
    let raw = record.bytes.get(range).unwrap_or_default();
    let pointer = raw.as_ptr().cast::<u64>();
    if record.order == ByteOrder::NATIVE && pointer.is_aligned() {
        return pointer;
    }
    copy.clear();
    copy.extend(raw.chunks_exact(8).map(|word| record.order.u64(word, 0).unwrap_or(0)));
    copy.as_ptr()
}

/// Kinds of words in an attr, for turning it around: two halves, a whole, a bit field, a half and two quarters.
const HALVES: [usize; 4] = [0, 48, 88, 112];
const FLAGS: usize = 40;
const QUARTERS: usize = 104;
/// Bytes of an attr as a filter gets it: zeros behind what the recording has, for filters that know more fields.
pub(super) const ATTR_WORDS: usize = 32;

/// The attr as a C structure of this machine.
pub(super) fn native_attr(bytes: &[u8], order: ByteOrder) -> [u64; ATTR_WORDS] {
    let mut out = [0u64; ATTR_WORDS];
    for (index, (word, raw)) in out.iter_mut().zip(bytes.chunks(8)).enumerate() {
        let mut whole = [0; 8];
        for (to, from) in whole.iter_mut().zip(raw) {
            *to = *from;
        }
        if order != ByteOrder::NATIVE {
            turn(&mut whole, index * 8);
        }
        *word = u64::from_ne_bytes(whole);
    }
    out
}

fn turn(whole: &mut [u8; 8], at: usize) {
    let (low, high) = whole.split_at_mut(4);
    if HALVES.contains(&at) {
        low.reverse();
        high.reverse();
    } else if at == FLAGS {
        // A bit field is laid out from the other end of each byte.
        whole.iter_mut().for_each(|byte| *byte = byte.reverse_bits());
    } else if at == QUARTERS {
        low.reverse();
        high.chunks_mut(2).for_each(<[u8]>::reverse);
    } else {
        whole.reverse();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::evlist::Attr;

    #[test]
    fn an_attr_of_the_other_order_is_turned_field_by_field() {
        let write = |order: ByteOrder| {
            let mut bytes = vec![0; 136];
            order.set_u32(&mut bytes, offset::TYPE, 1).unwrap();
            order.set_u32(&mut bytes, offset::SIZE, 136).unwrap();
            order.set_u64(&mut bytes, offset::CONFIG, 0x1234).unwrap();
            let flags = 1u64 << 18 | 1 << 3;
            let flags = if order == ByteOrder::Little { flags } else { flags.reverse_bits() };
            order.set_u64(&mut bytes, offset::FLAGS, flags).unwrap();
            order.set_u32(&mut bytes, offset::AUX_WATERMARK, 7).unwrap();
            order.set_u16(&mut bytes, offset::SAMPLE_MAX_STACK, 127).unwrap();
            assert!(Attr::new(&bytes, order).flag(18));
            native_attr(&bytes, order)
        };
        assert_eq!(write(ByteOrder::Little), write(ByteOrder::Big));
    }
}
