//! What is delivered when.
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
