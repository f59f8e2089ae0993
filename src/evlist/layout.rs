//! Where the fields of samples and of sample id trailers are; computed once for each event.
//!
//! Field order is that of `PERF_RECORD_SAMPLE` and `struct sample_id` in `perf_event.h`. Offsets are in bytes from
//! the start of the record, its header included.

use super::{Attr, ReadFormat};
use crate::abi::attr::{flag, offset};
use crate::abi::record::HEADER_SIZE;
use crate::abi::sample::{self as s, branch};

/// Offsets of a sample's fixed fields, and what is needed to step over the variable ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleLayout {
    /// All bits of `sample_type`.
    pub sample_type: u64,
    /// The event id (IDENTIFIER, else ID).
    pub id: Option<usize>,
    /// Instruction pointer, u64.
    pub ip: Option<usize>,
    /// Process id u32, then thread id u32.
    pub tid: Option<usize>,
    /// Time, u64 ns.
    pub time: Option<usize>,
    /// Data address, u64.
    pub addr: Option<usize>,
    /// The ID field (as opposed to IDENTIFIER), u64.
    pub id_field: Option<usize>,
    /// Stream id, u64.
    pub stream_id: Option<usize>,
    /// CPU u32, then a reserved u32.
    pub cpu: Option<usize>,
    /// Period, u64.
    pub period: Option<usize>,
    /// End of the fixed fields, where the variable ones begin.
    pub fixed_end: usize,
    /// Layout of counter values.
    pub read_format: ReadFormat,
    /// Whether a branch stack has a hardware index word.
    pub branch_hw_index: bool,
    /// Whether a counters word for each branch follows the branches.
    pub branch_counters: bool,
    /// Mask of user registers; one word a bit.
    pub regs_user: u64,
    /// Mask of interrupt registers; one word a bit.
    pub regs_intr: u64,
}

impl SampleLayout {
    /// Computes the layout from an attribute.
    pub fn new(attr: &Attr) -> Self {
        let sample_type = attr.sample_type();
        let mut at = HEADER_SIZE;
        let mut field = |bit: u64| {
            (sample_type & bit != 0).then(|| {
                let here = at;
                at += 8;
                here
            })
        };
        let identifier = field(s::IDENTIFIER);
        let ip = field(s::IP);
        let tid = field(s::TID);
        let time = field(s::TIME);
        let addr = field(s::ADDR);
        let id_field = field(s::ID);
        let stream_id = field(s::STREAM_ID);
        let cpu = field(s::CPU);
        let period = field(s::PERIOD);
        let branch_type = attr.branch_sample_type();
        SampleLayout {
            sample_type,
            id: identifier.or(id_field),
            ip,
            tid,
            time,
            addr,
            id_field,
            stream_id,
            cpu,
            period,
            fixed_end: at,
            read_format: ReadFormat(attr.read_format()),
            branch_hw_index: branch_type & branch::HW_INDEX != 0,
            branch_counters: branch_type & branch::COUNTERS != 0,
            regs_user: attr.u64(offset::SAMPLE_REGS_USER),
            regs_intr: attr.u64(offset::SAMPLE_REGS_INTR),
        }
    }

    /// Whether samples have a field.
    #[inline]
    pub fn has(&self, bits: u64) -> bool {
        self.sample_type & bits != 0
    }
}

/// The sample id trailer of kernel records that are not samples; offsets are from its start.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TrailerLayout {
    /// Size in bytes; 0 if records have no trailer.
    pub size: usize,
    /// Process id u32, then thread id u32.
    pub tid: Option<usize>,
    /// Time, u64 ns.
    pub time: Option<usize>,
    /// ID field, u64.
    pub id_field: Option<usize>,
    /// Stream id, u64.
    pub stream_id: Option<usize>,
    /// CPU u32, then a reserved u32.
    pub cpu: Option<usize>,
    /// IDENTIFIER field, u64; always last.
    pub identifier: Option<usize>,
}

impl TrailerLayout {
    /// Computes the layout from an attribute; empty without `sample_id_all`.
    pub fn new(attr: &Attr) -> Self {
        if !attr.flag(flag::SAMPLE_ID_ALL) {
            return TrailerLayout::default();
        }
        let sample_type = attr.sample_type();
        let mut size = 0;
        let mut field = |bit: u64| {
            (sample_type & bit != 0).then(|| {
                let here = size;
                size += 8;
                here
            })
        };
        let tid = field(s::TID);
        let time = field(s::TIME);
        let id_field = field(s::ID);
        let stream_id = field(s::STREAM_ID);
        let cpu = field(s::CPU);
        let identifier = field(s::IDENTIFIER);
        TrailerLayout { size, tid, time, id_field, stream_id, cpu, identifier }
    }

    /// Bytes from the record's end back to the id.
    pub fn id_from_end(&self) -> Option<usize> {
        self.identifier.or(self.id_field).map(|at| self.size - at)
    }

    /// Bytes from the record's end back to the time.
    #[inline]
    pub fn time_from_end(&self) -> Option<usize> {
        self.time.map(|at| self.size - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::ByteOrder;

    fn attr(sample_type: u64, id_all: bool) -> Attr {
        let mut bytes = vec![0; 128];
        ByteOrder::Little.set_u64(&mut bytes, offset::SAMPLE_TYPE, sample_type);
        ByteOrder::Little.set_u64(&mut bytes, offset::FLAGS, u64::from(id_all) << flag::SAMPLE_ID_ALL);
        Attr::new(&bytes, ByteOrder::Little)
    }

    #[test]
    fn identifier_comes_first_in_samples_and_last_in_trailers() {
        let a = attr(s::IDENTIFIER | s::IP | s::TID | s::TIME | s::CPU | s::PERIOD, true);
        let l = SampleLayout::new(&a);
        assert_eq!((l.id, l.ip, l.tid, l.time), (Some(8), Some(16), Some(24), Some(32)));
        assert_eq!((l.cpu, l.period, l.fixed_end), (Some(40), Some(48), 56));
        let t = TrailerLayout::new(&a);
        assert_eq!((t.size, t.tid, t.time, t.cpu, t.identifier), (32, Some(0), Some(8), Some(16), Some(24)));
        assert_eq!((t.id_from_end(), t.time_from_end()), (Some(8), Some(24)));
    }

    #[test]
    fn no_trailer_without_sample_id_all() {
        assert_eq!(TrailerLayout::new(&attr(s::TID | s::TIME, false)), TrailerLayout::default());
    }
}
