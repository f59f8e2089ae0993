//! Fields of samples of any layout, and records that nobody knows.

use super::super::support::builder::{AttrSpec, Builder, Map, Read, Sample, build_id};
use super::super::support::recording::{BuildId, Record, feature, kind, misc, rf, st};
use super::super::support::run::{Dir, inject_pipe, repipe, rewritten, rewritten_bytes, run};
use super::super::support::wire::Order;
use super::super::support::{compare, oracle};
use super::{APP, APP_ID, LIB, LIB_ID, app, ids, lib, process};

// ---- row 26

#[test]
fn fields_after_a_read_of_any_format_are_found() {
    let all = rf::TIME_ENABLED | rf::TIME_RUNNING | rf::ID | rf::GROUP | rf::LOST;
    for order in Order::BOTH {
        for format in 0..=all {
            let attr =
                AttrSpec::new(st::IP | st::TID | st::TIME | st::READ | st::CALLCHAIN).read_format(format);
            let read =
                Read { time_enabled: 1, time_running: 2, values: vec![[3, 1, 0], [4, 2, 9], [5, 3, 0]] };
            let sample = Sample { read, ..Sample::user(10, 0x99_0000, 200) };
            let b = process(order, &attr).sample(&sample.chain([0x99_0000, 0x7f00_0000_0010]));
            let out = rewritten(&["-b"], &b.file());
            assert_eq!(ids(&out), [lib()], "read format {format:#x}");
            let kept = compare::without_injected(&b.recording, &out);
            compare::same_records(&b.recording.records, &kept.records).unwrap();
        }
    }
}

#[test]
fn every_sample_field_is_stepped_over() {
    for order in Order::BOTH {
        // each field alone between the fields that name the DSOs, then all at once
        for bit in (0..25).map(|n| 1 << n).chain([st::ALL]) {
            let mut attr = AttrSpec::everything();
            attr.sample_type = bit | st::IP | st::TID | st::TIME | st::CALLCHAIN;
            let sample =
                Sample::full(10, 0x40_0010, 200).chain([0xffff_ffff_ffff_fe00, 0x40_0010, 0x7f00_0000_0010]);
            let b = process(order, &attr).sample(&sample).sample(&sample);
            let out = rewritten(&["-b"], &b.file());
            // the words of a dumped stack may name DSOs too; here they name none
            assert_eq!(ids(&out), [app(), lib()], "sample_type {:#x}", attr.sample_type);
            let kept = compare::without_injected(&b.recording, &out);
            compare::same_records(&b.recording.records, &kept.records).unwrap();
        }
    }
}

#[test]
fn a_callchains_kernel_part_is_looked_up_in_the_kernel() {
    // an address that both the kernel and the process map; the marker says whose it is
    for order in Order::BOTH {
        let kernel = BuildId {
            misc: misc::KERNEL | misc::BUILD_ID_SIZE,
            ..build_id("[kernel.kallsyms]", &[0x77; 20])
        };
        let b = Builder::with(order, &AttrSpec::new(st::IP | st::TID | st::TIME | st::CALLCHAIN))
            .build_id_table(&[build_id(APP, &APP_ID), kernel])
            .mmap(&Map::kernel(0x40_0000, 0x1000))
            .at(10, 10, 1)
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP));
        let chain = |context: u64| Sample::kernel(10, 0x99_0000, 5).chain([context, 0x40_0010]);
        let user = b.clone().sample(&chain(u64::MAX - 511));
        assert_eq!(ids(&rewritten(&["-b"], &user.file())), [app()]);
        let kernel = b.sample(&chain(u64::MAX - 127));
        let out = ids(&rewritten(&["-b"], &kernel.file()));
        assert_eq!(out, [("[kernel.kallsyms]".to_owned(), vec![0x77; 20])]);
    }
}

#[test]
fn samples_of_several_layouts_are_told_apart_by_id() {
    for order in Order::BOTH {
        let small = AttrSpec::new(st::IDENTIFIER | st::IP | st::TID | st::TIME).ids([1, 2]);
        let large =
            AttrSpec::new(st::IDENTIFIER | st::IP | st::TID | st::TIME | st::PERIOD | st::CALLCHAIN).ids([3]);
        let b = Builder::with(order, &small)
            .attr(&large)
            .build_id_table(&[build_id(APP, &APP_ID), build_id(LIB, &LIB_ID)])
            .at(10, 10, 1)
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP))
            .mmap2(&Map::exec(10, 0x7f00_0000_0000, 0x1000, LIB))
            .sample(&Sample::user(10, 0x40_0010, 5).event(2))
            .sample(&Sample::user(10, 0x99_0000, 6).event(3).chain([0x7f00_0000_0010]));
        assert_eq!(ids(&rewritten(&["-b"], &b.file())), [app(), lib()]);
        assert_eq!(inject_pipe(&["-b"], &b.pipe()).expect_ok("pipe").code, Some(0));
    }
}

// ---- row 27

#[test]
fn what_nobody_knows_passes_through() {
    for order in Order::BOTH {
        let mut attr = AttrSpec::plain();
        attr.sample_type |= 1 << 40;
        attr.flags |= 1 << 60;
        let body = {
            let mut b =
                Sample::user(10, 0x40_0010, 200).encode(&process(order, &attr).recording.attrs[0], order);
            b.extend([0xaa; 24]);
            b
        };
        let b = process(order, &attr)
            .feature(33, &[1; 7])
            .feature(99, &[2; 9])
            .feature(254, &[])
            .raw(23, 1, &[3; 16])
            .raw(63, 2, &[4; 24])
            .raw(85, 3, &[])
            .raw(32768, 0, &[5; 12])
            .raw(u32::MAX, 0, &[6; 8])
            .raw(kind::SAMPLE, misc::USER, &body)
            .finished_round();
        assert_eq!(rewritten_bytes(&[], &b.file()), b.file());
        let out = rewritten(&["-b"], &b.file());
        assert_eq!(ids(&out), [app()]);
        compare::same(&b.recording, &compare::without_injected(&b.recording, &out), &[feature::BUILD_ID])
            .unwrap();
        let piped = oracle::parse(&inject_pipe(&["-b"], &b.pipe()).expect_ok("pipe").stdout).unwrap();
        let kept: Vec<Record> = compare::content(&piped).records;
        compare::same_records(&b.recording.records, &kept).unwrap();
    }
}

#[test]
fn every_record_type_passes_in_both_byte_orders_over_every_transport() {
    for order in Order::BOTH {
        let b = Builder::with(order, &AttrSpec::everything())
            .identity()
            .every_user_record()
            .every_kernel_record();
        let file = b.file();
        assert_eq!(rewritten_bytes(&[], &file), file);
        let dir = Dir::new();
        let input = dir.file("in", &file);
        for (what, bytes) in [
            (
                "file to pipe",
                run(repipe().args(["inject", "-i"]).arg(&input)).expect_ok("file to pipe").stdout,
            ),
            ("pipe to pipe", inject_pipe(&[], &b.pipe()).expect_ok("pipe to pipe").stdout),
            ("pipe to file", rewritten_bytes(&[], &b.pipe())),
        ] {
            let out = oracle::parse(&bytes).unwrap();
            compare::same_records(&b.recording.records, &compare::content(&out).records)
                .unwrap_or_else(|e| panic!("{what}: {e}"));
        }
    }
}

// ---- row 29

#[test]
fn simpleperfs_private_records_and_sections_pass() {
    for order in Order::BOTH {
        // ids per attr, no EVENT_DESC, user records from 32768 on, sections from 128 on
        let b = Builder::with(order, &AttrSpec::plain().ids([1, 2]))
            .attr(&AttrSpec::plain().ids([3, 4]))
            .build_id_table(&[build_id(APP, &APP_ID)])
            .feature(128, &[1; 40])
            .feature(129, b"simpleperf_version\0" as &[u8])
            .feature(132, &[7; 100])
            .raw(32768, 0, &[0; 48])
            .raw(32769, 0, &[1; 32])
            .long_simpleperf_record(32770, 100_000)
            .at(10, 10, 1)
            .mmap(&Map::exec(10, 0x40_0000, 0x1000, APP))
            .sample(&Sample::user(10, 0x40_0010, 5).event(4));
        assert_eq!(rewritten_bytes(&[], &b.file()), b.file());
        let out = rewritten(&["-b"], &b.file());
        assert_eq!(ids(&out), [app()]);
        compare::same(&b.recording, &compare::without_injected(&b.recording, &out), &[feature::BUILD_ID])
            .unwrap();
    }
}
