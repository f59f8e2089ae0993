//! Files, pipes and directories, and what each holds beside the records.

use super::super::support::builder::{AttrSpec, Builder, Sample, build_id};
use super::super::support::recording::{Container, Recording, feature, kind, misc};
use super::super::support::run::{
    Dir, inject, inject_pipe, repipe, rewritten, rewritten_bytes, run, run_with,
};
use super::super::support::wire::{Bytes, Order};
use super::super::support::write::record;
use super::super::support::{compare, oracle};
use super::{APP, APP_ID, LIB, LIB_ID, app, ids, lib, process};

// ---- row 3

#[test]
fn a_regular_file_may_hold_a_pipe() {
    for order in Order::BOTH {
        let b = process(order, &AttrSpec::plain()).sample(&Sample::user(10, 0x40_0010, 200));
        let out = rewritten(&[], &b.pipe());
        assert_eq!(out.container, Container::File);
        assert_eq!(out.attrs, b.recording.attrs);
        compare::same_content(&oracle::parse(&b.pipe()).unwrap(), &out, &[]).unwrap();
    }
}

#[test]
fn every_attr_of_a_pipe_reaches_the_file_whatever_its_size() {
    for order in Order::BOTH {
        let mut b = Builder::new(order)
            .attr(&AttrSpec::plain().ids([1, 2]).size(112, 0))
            .attr(&AttrSpec::plain().ids([3]).size(136, 0))
            .attr(&AttrSpec::plain().ids([]).size(144, 0x5a))
            .sample(&Sample::user(10, 0x40_0010, 200).event(3));
        let pipe = b.pipe();
        b.recording.container = Container::Pipe;
        let out = rewritten(&[], &pipe);
        assert_eq!(out.attrs.len(), 3);
        for (before, after) in b.recording.attrs.iter().zip(&out.attrs) {
            // a file's attrs are of one size, and readers take it from the attr itself: the largest, with zeros
            let (told, rest) = after.raw.split_at(before.raw.len());
            assert_eq!((&told[..4], &told[8..]), (&before.raw[..4], &before.raw[8..]));
            assert_eq!(order.u32(told, 4), 144);
            assert!(rest.iter().all(|&b| b == 0));
            assert_eq!(before.ids, after.ids);
        }
    }
}

#[test]
fn attrs_may_stand_behind_the_data() {
    // as a writer leaves them that learns of events late; there is room for them in front, too
    for order in Order::BOTH {
        let b = process(order, &AttrSpec::plain()).sample(&Sample::user(10, 0x40_0010, 200));
        let mut bytes = b.file();
        let (attrs_at, entry) = (112, 152);
        assert_eq!(order.u64(&bytes, 24), attrs_at as u64);
        let mut attr = bytes[attrs_at..attrs_at + entry].to_vec();
        bytes[attrs_at..attrs_at + entry].fill(0xee);
        let end = Bytes::new(order).u64(bytes.len() as u64).take();
        bytes[24..32].copy_from_slice(&end);
        bytes.append(&mut attr);
        for options in [&[][..], &["-b"]] {
            let out = rewritten(options, &bytes);
            let kept = compare::without_injected(&b.recording, &out);
            compare::same(&b.recording, &kept, &[feature::BUILD_ID]).unwrap();
        }
    }
}

#[test]
fn a_pipes_build_ids_reach_the_table_of_the_file() {
    for order in Order::BOTH {
        let entries = [build_id(APP, &APP_ID), build_id(LIB, &LIB_ID)];
        let b = Builder::with(order, &AttrSpec::plain())
            .build_id(&entries[0])
            .finished_round()
            .build_id(&entries[1]);
        let out = rewritten(&[], &b.pipe());
        assert_eq!(ids(&out), [app(), lib()]);
        let table: Vec<_> = oracle::table_of(&out).into_iter().map(|e| (e.name, e.id)).collect();
        assert_eq!(table, [app(), lib()]);
    }
}

// ---- row 4

#[test]
fn who_recorded_is_kept_over_every_transport() {
    for order in Order::BOTH {
        let b = process(order, &AttrSpec::plain())
            .feature(140, b"simpleperf's")
            .feature(255, &[1, 2, 3])
            .feature(feature::EVENT_DESC, &[0; 8])
            .sample(&Sample::user(10, 0x40_0010, 200));
        let (file, pipe) = (b.file(), b.pipe());
        let dir = Dir::new();
        let (file, out) = (dir.file("in", &file), dir.join("out"));
        let mut ways = Vec::new();
        inject(&[], &file, &out).expect_ok("file to file");
        ways.push(std::fs::read(&out).unwrap());
        ways.push(run(repipe().args(["inject", "-i"]).arg(&file)).expect_ok("file to pipe").stdout);
        ways.push(inject_pipe(&[], &pipe).expect_ok("pipe to pipe").stdout);
        run_with(repipe().args(["inject", "-o"]).arg(&out), &pipe).expect_ok("pipe to file");
        ways.push(std::fs::read(&out).unwrap());
        for bytes in ways {
            let content = compare::content(&oracle::parse(&bytes).unwrap());
            compare::same_features(&b.recording.features, &content.features, &[feature::BUILD_ID]).unwrap();
        }
    }
}

// ---- row 20

/// Offsets that the index of a file's bytes gives, and those where AUXTRACE records stand.
fn aux_offsets(bytes: &[u8]) -> (Vec<u64>, Vec<u64>) {
    let raw = oracle::parse_raw(bytes).unwrap();
    let order = raw.order;
    let index = &raw.features[&feature::AUXTRACE];
    let told = (0..order.u64(index, 0) as usize).map(|i| order.u64(index, 8 + i * 16)).collect();
    let mut at = order.u64(bytes, 40);
    let mut there = Vec::new();
    for r in &raw.records {
        if r.kind(order) == kind::AUXTRACE {
            there.push(at);
        }
        at += r.len() as u64;
    }
    (told, there)
}

#[test]
fn aux_data_is_stepped_over_and_its_index_follows_it() {
    for order in Order::BOTH {
        // a payload that reads as a record of no size, and one that reads as a sample
        let sample = record(order, kind::SAMPLE, misc::USER, &[0; 40]).bytes;
        let b = process(order, &AttrSpec::plain())
            .auxtrace_info(3, &[1, 2])
            .auxtrace(0, 0, 10, 0, &[0; 64])
            .sample(&Sample::user(10, 0x40_0010, 200))
            .auxtrace(64, 0, 10, 0, &sample)
            .auxtrace(0, 1, 10, 1, &[]);
        let aux = |r: &Recording| r.of_kind(kind::AUXTRACE).map(|r| r.payload.clone()).collect::<Vec<_>>();
        for style in ["-b", "--buildid-all", "-B"] {
            let bytes = rewritten_bytes(&[style], &b.file());
            let out = oracle::parse(&bytes).unwrap();
            assert_eq!(aux(&out), aux(&b.recording), "{style}");
            let (told, there) = aux_offsets(&bytes);
            assert_eq!(told, there, "{style}");
            assert_eq!(there.len(), 3);
        }
        let piped = inject_pipe(&["-b"], &b.pipe()).expect_ok("pipe").stdout;
        assert_eq!(aux(&oracle::parse(&piped).unwrap()), aux(&b.recording));
        let dir = Dir::new();
        run_with(repipe().args(["inject", "-o"]).arg(dir.join("out")), &b.pipe()).expect_ok("pipe to file");
        let (told, there) = aux_offsets(&std::fs::read(dir.join("out")).unwrap());
        assert_eq!((told.len(), &told), (3, &there));
    }
}

// ---- row 24

#[test]
fn a_directory_is_one_recording() {
    for order in Order::BOTH {
        // side-band in data, samples of two CPUs beside it
        let b = process(order, &AttrSpec::plain())
            .sample(&Sample::user(10, 0x40_0010, 200))
            .sample(&Sample::user(10, 0x7f00_0000_0010, 210))
            .sample(&Sample::user(10, 0x40_0020, 220))
            .finished_round();
        let mut samples = 0;
        let samples: Vec<Option<usize>> = b
            .recording
            .records
            .iter()
            .map(|r| {
                (r.kind(order) == kind::SAMPLE).then(|| {
                    samples += 1;
                    samples % 2
                })
            })
            .collect();
        let dir = Dir::new();
        let input = dir.join("in");
        b.recording.to_dir(&input, |i, _| samples[i]);
        let sorted = |r: &Recording| {
            let mut all = compare::content(r).records;
            // a round of one file is none of the merged stream; no marker is better than a false one
            all.retain(|r| r.kind(order) != kind::FINISHED_ROUND);
            all.sort_by(|a, b| a.bytes.cmp(&b.bytes));
            all
        };
        for (style, expected) in [("", vec![]), ("-b", vec![app(), lib()])] {
            let options: Vec<&str> = [style].into_iter().filter(|o| !o.is_empty()).collect();
            let out = dir.join(format!("out{style}"));
            inject(&options, &input, &out).expect_ok("directory to file");
            let read = oracle::read(&out).unwrap();
            assert!(out.is_file());
            assert!(!read.features.contains_key(&feature::DIR_FORMAT));
            assert_eq!(ids(&read), expected);
            compare::same_records(&sorted(&b.recording), &sorted(&read)).unwrap();
            let outcome = run(repipe().arg("inject").args(&options).arg("-i").arg(&input))
                .expect_ok("directory to pipe");
            let read = oracle::parse(&outcome.stdout).unwrap();
            compare::same_records(&sorted(&b.recording), &sorted(&read)).unwrap();
        }
    }
}
