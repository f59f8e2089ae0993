//! What is kept of recordings that are cut or have something behind them.

use super::super::support::builder::{AttrSpec, Builder, Map, Sample};
use super::super::support::recording::kind;
use super::super::support::run::{Dir, inject, inject_pipe};
use super::super::support::wire::{Bytes, Order};
use super::super::support::{compare, oracle};
use super::{APP, process};

// ---- row 23, what can be salvaged

#[test]
fn what_was_cut_is_salvaged_on_request_only() {
    for order in Order::BOTH {
        let b = Builder::with(order, &AttrSpec::plain())
            .at(10, 10, 1)
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP))
            .sample(&Sample::user(10, 0x40_0010, 5))
            .sample(&Sample::user(10, 0x40_0020, 6));
        let whole = b.file();
        // the size of the data is written last; a recording that was cut off has 0 there
        let mut unfinished = whole.clone();
        unfinished[48..56].fill(0);
        let cut = &whole[..whole.len() - 3];
        let dir = Dir::new();
        let (out, input) = (dir.join("out"), dir.file("cut", cut));
        let failed = inject(&[], &input, &out).expect_failure("cut");
        assert!(failed.stderr.contains("--salvage"), "{}", failed.stderr);
        assert!(!out.exists());
        inject(&["--salvage"], &input, &out).expect_ok("cut");
        assert_eq!(oracle::read(&out).unwrap().count(kind::SAMPLE), 1);
        let told = inject(&[], &dir.file("unfinished", &unfinished), &out).expect_ok("unfinished");
        assert!(told.stderr.contains("not finished"), "{}", told.stderr);
        assert_eq!(oracle::read(&out).unwrap().records, b.recording.records);
        // the last record of an unfinished recording is likely to be cut
        let input = dir.file("unfinished", &unfinished[..unfinished.len() - 3]);
        inject(&[], &input, &out).expect_failure("unfinished and cut");
        inject(&["--salvage"], &input, &out).expect_ok("unfinished and cut");
        assert_eq!(oracle::read(&out).unwrap().count(kind::SAMPLE), 1);
        let pipe = b.pipe();
        let failed = inject_pipe(&[], &pipe[..pipe.len() - 3]).expect_failure("pipe");
        assert!(failed.stderr.contains("SAMPLE"), "{}", failed.stderr);
        let salvaged = inject_pipe(&["--salvage"], &pipe[..pipe.len() - 3]).expect_ok("pipe");
        assert_eq!(oracle::parse(&salvaged.stdout).unwrap().count(kind::SAMPLE), 1);
    }
}

#[test]
fn what_is_salvaged_of_a_file_is_whole_wherever_it_was_cut() {
    for order in Order::BOTH {
        let b = process(order, &AttrSpec::plain()).sample(&Sample::user(10, 0x40_0010, 200));
        let whole = b.file();
        let dir = Dir::new();
        for len in (0..whole.len()).rev().step_by(3) {
            let out = dir.join("out");
            let input = dir.file("in", &whole[..len]);
            let _ = std::fs::remove_file(&out);
            let outcome = inject(&["--salvage"], &input, &out);
            if outcome.code == Some(1) {
                assert!(!out.exists(), "{len}");
                continue;
            }
            let first = oracle::read(&out).unwrap_or_else(|e| panic!("cut at {len}: {e}"));
            assert!(first.records.len() <= b.recording.records.len());
            compare::same_records(&b.recording.records[..first.records.len()], &first.records).unwrap();
        }
        // the data ends between two records
        let data_end = order.u64(&whole, 40) + order.u64(&whole, 48);
        let input = dir.file("in", &whole[..data_end as usize]);
        inject(&["--salvage"], &input, &dir.join("out")).expect_ok("cut behind the data");
        assert_eq!(oracle::read(&dir.join("out")).unwrap().records, b.recording.records);
    }
}

#[test]
fn salvage_keeps_whole_records_that_make_no_sense_and_drops_what_is_cut() {
    for order in Order::BOTH {
        let b = process(order, &AttrSpec::plain())
            .raw(kind::NAMESPACES, 0, &[1; 8])
            .sample(&Sample::user(10, 0x40_0010, 200));
        for style in ["-b", "--buildid-all", "-B", "--mmap2-buildid-all"] {
            let mut pipe = b.pipe();
            pipe.extend([1, 2, 3]);
            inject_pipe(&[style], &pipe).expect_failure(style);
            let outcome = inject_pipe(&[style, "--salvage"], &pipe).expect_ok(style);
            assert!(outcome.stderr.contains("kept as they are"), "{style}: {}", outcome.stderr);
            let out = oracle::parse(&outcome.stdout).unwrap_or_else(|e| panic!("{style}: {e}"));
            assert_eq!((out.count(kind::NAMESPACES), out.count(kind::SAMPLE)), (1, 1), "{style}");
        }
    }
}

#[test]
fn what_perf_printed_after_the_last_record_is_no_record() {
    // `perf record -o - 2>&1 >FILE` and the like
    for order in Order::BOTH {
        let b = process(order, &AttrSpec::plain()).finished_round();
        let mut pipe = b.pipe();
        pipe.extend(b"[ perf record: Woken up 1 times to write data ]\n");
        let outcome = inject_pipe(&[], &pipe).expect_ok("text behind the records");
        assert!(outcome.stderr.contains("perf record"), "it is told: {}", outcome.stderr);
        let out = oracle::parse(&outcome.stdout).unwrap();
        assert_eq!(out.kinds().last(), Some(&kind::FINISHED_ROUND));
        let mut b = Bytes::new(order);
        b.u32(kind::FINISHED_ROUND).u16(0).u16(8);
        assert!(outcome.stdout.ends_with(&b.out));
    }
}
