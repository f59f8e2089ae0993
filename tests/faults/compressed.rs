//! Compressed records: what is in them counts, and sizes are understood.

use super::super::support::builder::{AttrSpec, Sample};
use super::super::support::recording::{feature, kind};
use super::super::support::run::{inject_pipe, rewritten, rewritten_bytes};
use super::super::support::wire::Order;
use super::super::support::write::{Framing, record};
use super::super::support::{compare, oracle};
use super::{app, ids, noise, process, raw_attr};

// ---- row 1

#[test]
fn samples_inside_compressed_records_count_as_hits() {
    for order in Order::BOTH {
        let plain = process(order, &AttrSpec::plain()).sample(&Sample::user(10, 0x40_0010, 200)).finish();
        for framing in [Framing::V1, Framing::V2] {
            let packed = plain.compressed(framing, 90);
            let out = rewritten(&["-b"], &packed.to_file());
            assert_eq!(ids(&out), [app()]);
            compare::same(&plain, &compare::without_injected(&plain, &out), &[feature::BUILD_ID]).unwrap();
            assert!(!out.features.contains_key(&feature::COMPRESSED));
        }
    }
}

#[test]
fn output_is_compressed_on_request() {
    for order in Order::BOTH {
        let plain = noise(process(order, &raw_attr()), 300_000).finish();
        for option in ["-z", "-z=3"] {
            let bytes = rewritten_bytes(&[option, "-b"], &plain.to_file());
            let raw = oracle::parse_raw(&bytes).unwrap();
            assert!(raw.count(kind::COMPRESSED) + raw.count(kind::COMPRESSED2) > 0);
            assert_eq!(raw.count(kind::SAMPLE), 0);
            assert_eq!(raw.features[&feature::COMPRESSED].len(), 20);
            let out = oracle::parse(&bytes).unwrap();
            assert_eq!(ids(&out), [app()]);
            let except = [feature::BUILD_ID, feature::COMPRESSED];
            compare::same(&plain, &compare::without_injected(&plain, &out), &except).unwrap();
        }
    }
}

// ---- row 2

/// An ended zstd frame, filled up to exactly `size` bytes by a frame that decoders skip.
fn frame_of(plain: &[u8], size: usize) -> Vec<u8> {
    let mut out = zstd::bulk::compress(plain, 1).unwrap();
    let fill = size - out.len() - 8;
    out.extend(0x184d_2a50u32.to_le_bytes());
    out.extend((fill as u32).to_le_bytes());
    out.resize(size, 0);
    out
}

#[test]
fn compressed2_sizes_that_wrap_are_understood() {
    // 65512 is the last that fits; up to 65519 the size rounds to 65536, which is 0 in 16 bits
    for order in Order::BOTH {
        for size in [65504, 65512, 65513, 65519] {
            let plain = process(order, &AttrSpec::plain()).sample(&Sample::user(10, 0x40_0010, 200)).finish();
            let mut packed = plain.clone();
            packed.records = vec![plain.compressed2(&frame_of(&plain.stream(), size))];
            packed.records.push(record(order, kind::FINISHED_ROUND, 0, &[]));
            packed.features.insert(feature::COMPRESSED, vec![0; 20]);
            let out = rewritten(&["-b"], &packed.to_file());
            assert_eq!(ids(&out), [app()], "{size}");
            assert_eq!(out.count(kind::SAMPLE), 1, "{size}");
            assert_eq!(out.kinds().last(), Some(&kind::FINISHED_ROUND), "{size}");
        }
    }
}

#[test]
fn compressed2_records_of_several_chunks_are_understood() {
    for order in Order::BOTH {
        for size in [70_000, 140_000, 300_000] {
            let plain = noise(process(order, &raw_attr()), size).finish();
            let stream = plain.stream();
            let frames = super::super::support::write::deflate([&stream[..]].into_iter());
            assert!(frames[0].len() > 65519);
            let mut packed = plain.clone();
            packed.records = vec![plain.compressed2(&frames[0])];
            packed.features.insert(feature::COMPRESSED, vec![0; 20]);
            let expected = plain.clone();
            let out = rewritten(&[], &packed.to_file());
            compare::same(&expected, &out, &[]).unwrap();
            let mut pipe = packed.to_pipe();
            pipe.extend(record(order, kind::FINISHED_ROUND, 0, &[]).bytes);
            let outcome = inject_pipe(&[], &pipe).expect_ok("pipe");
            let out = oracle::parse(&outcome.stdout).unwrap();
            assert_eq!(out.count(kind::SAMPLE), plain.count(kind::SAMPLE));
            assert_eq!(out.kinds().last(), Some(&kind::FINISHED_ROUND));
        }
    }
}
