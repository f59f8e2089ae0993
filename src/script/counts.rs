//! Counters that are read with each sample.

use rustc_hash::FxHashMap;

use crate::abi::attr::flag;
use crate::abi::sample::{self as s, read_format as bit};
use crate::error::Result;
use crate::event::{Record, sample};
use crate::evlist::{Attr, SampleLayout};

/// What each counter stood at when last seen.
#[derive(Default)]
pub(super) struct Counts {
    /// By id, and by thread where counters are each thread's own.
    last: FxHashMap<(u64, u32), u64>,
}

impl Counts {
    /// What was counted since the counter was last seen.
    pub fn since_last(&mut self, attr: &Attr, id: u64, tid: u32, value: u64) -> u64 {
        let per_thread = attr.flag(flag::INHERIT) && attr.sample_type() & s::TID != 0;
        let last = self.last.entry((id, if per_thread { tid } else { 0 })).or_insert(0);
        value.wrapping_sub(std::mem::replace(last, value))
    }
}

/// The values of a sample with their ids, where they have ids.
pub(super) fn values(record: Record<'_>, layout: &SampleLayout) -> Result<Vec<(Option<u64>, u64)>> {
    let Some(range) = sample::fields(record, layout)?.read else { return Ok(Vec::new()) };
    let words = record.bytes.get(range).unwrap_or_default();
    let word = |index: usize| record.order.u64(words, index * 8);
    let format = layout.read_format;
    let has = |bits: u64| (format.0 & bits).count_ones() as usize;
    let times = has(bit::TOTAL_TIME_ENABLED | bit::TOTAL_TIME_RUNNING);
    let (first, stride) = match format.is_group() {
        true => (1 + times, 1 + has(bit::ID | bit::LOST)),
        // Times stand between a single value and its id.
        false => (0, 1 + times + has(bit::ID | bit::LOST)),
    };
    let id_at = if format.is_group() { 1 } else { 1 + times };
    let count = (words.len() / 8).saturating_sub(first) / stride;
    let value = |index: usize| {
        let at = first + index * stride;
        let id = if has(bit::ID) == 1 { word(at + id_at) } else { None };
        Some((id, word(at)?))
    };
    Ok((0..count).filter_map(value).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::abi::attr::offset;
    use crate::abi::record::RecordType;
    use crate::bytes::ByteOrder;
    use crate::event::{begin_record, finish_record};

    fn read(format: u64, words: &[u64]) -> Vec<(Option<u64>, u64)> {
        let order = ByteOrder::Little;
        let mut attr = vec![0; 136];
        order.set_u64(&mut attr, offset::SAMPLE_TYPE, s::READ).unwrap();
        order.set_u64(&mut attr, offset::READ_FORMAT, format).unwrap();
        let layout = SampleLayout::new(&Attr::new(&attr, order));
        let mut bytes = Vec::new();
        let at = begin_record(&mut bytes, order, RecordType::SAMPLE, 2);
        words.iter().for_each(|&word| order.put_u64(&mut bytes, word));
        finish_record(&mut bytes, order, at).unwrap();
        values(Record { bytes: &bytes, order, pos: 0 }, &layout).unwrap()
    }

    #[test]
    fn groups_and_single_values() {
        let group = bit::GROUP | bit::ID | bit::LOST | bit::TOTAL_TIME_ENABLED;
        let pairs = [(Some(7), 10), (Some(8), 20)];
        assert_eq!(read(group, &[2, 99, 10, 7, 0, 20, 8, 0]), pairs);
        assert_eq!(read(bit::ID | bit::TOTAL_TIME_RUNNING, &[10, 99, 7]), [(Some(7), 10)]);
        assert_eq!(read(0, &[10]), [(None, 10)]);
    }

    #[test]
    fn a_period_is_what_came_since() {
        let mut counts = Counts::default();
        let attr = Attr::new(&[0; 136], ByteOrder::Little);
        assert_eq!(counts.since_last(&attr, 1, 5, 10), 10);
        assert_eq!(counts.since_last(&attr, 1, 6, 25), 15);
        assert_eq!(counts.since_last(&attr, 2, 6, 25), 25);
    }
}
