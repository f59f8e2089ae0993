//! Time order, and what of an address space is so at a time.

use super::super::support::builder::{AttrSpec, Builder, Map, Sample, build_id};
use super::super::support::compare;
use super::super::support::recording::{flag, st};
use super::super::support::run::rewritten;
use super::super::support::wire::Order;
use super::{APP, APP_ID, LIB, LIB_ID, app, ids, lib, process};

// ---- row 19

#[test]
fn hits_follow_time_and_records_keep_their_places() {
    for order in Order::BOTH {
        // the sample stands before its mapping in the file, and after it in time; then the mapping is replaced
        let b = Builder::with(order, &AttrSpec::plain())
            .build_id_table(&[build_id(APP, &APP_ID), build_id(LIB, &LIB_ID)])
            .sample(&Sample::user(10, 0x40_0010, 200))
            .at(10, 10, 100)
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP))
            .at(10, 10, 300)
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, LIB))
            .finished_round();
        let out = rewritten(&["-b"], &b.file());
        assert_eq!(ids(&out), [app()]);
        compare::same_records(&b.recording.records, &compare::without_injected(&b.recording, &out).records)
            .unwrap();
    }
}

#[test]
fn samples_without_time_are_legal() {
    for order in Order::BOTH {
        let attr = AttrSpec::new(st::IP | st::TID | st::PERIOD).flags(flag::MMAP | flag::MMAP2 | flag::COMM);
        let b = Builder::with(order, &attr)
            .build_id_table(&[build_id(APP, &APP_ID), build_id(LIB, &LIB_ID)])
            .exec(10, "app")
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, LIB))
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP))
            .sample(&Sample::user(10, 0x40_0010, 0));
        let out = rewritten(&["-b"], &b.file());
        assert_eq!(ids(&out), [app()]);
        compare::same_records(&b.recording.records, &compare::without_injected(&b.recording, &out).records)
            .unwrap();
    }
}

#[test]
fn equal_times_keep_the_order_of_the_file() {
    for order in Order::BOTH {
        let b = Builder::with(order, &AttrSpec::plain())
            .build_id_table(&[build_id(APP, &APP_ID), build_id(LIB, &LIB_ID)])
            .at(10, 10, 100)
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, LIB))
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP))
            .sample(&Sample::user(10, 0x40_0010, 100))
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, LIB));
        assert_eq!(ids(&rewritten(&["-b"], &b.file())), [app()]);
    }
}

#[test]
fn a_forked_process_has_its_parents_maps_until_it_execs() {
    for order in Order::BOTH {
        let base = process(order, &AttrSpec::plain()).at(10, 10, 110).fork(11, 10, 11, 10);
        let forked = base.clone().sample(&Sample::user(11, 0x40_0010, 120));
        assert_eq!(ids(&rewritten(&["-b"], &forked.file())), [app()]);
        let execed = base
            .at(11, 11, 115)
            .exec(11, "lib")
            .mmap2(&Map::exec(11, 0x40_0000, 0x1000, LIB))
            .sample(&Sample::user(11, 0x40_0010, 120));
        assert_eq!(ids(&rewritten(&["-b"], &execed.file())), [lib()]);
    }
}

#[test]
fn a_later_mapping_hides_what_it_covers_and_no_more() {
    for order in Order::BOTH {
        let b = Builder::with(order, &AttrSpec::plain())
            .build_id_table(&[build_id(APP, &APP_ID), build_id(LIB, &LIB_ID), build_id("/x", &[5; 20])])
            .at(10, 10, 1)
            .mmap2(&Map::exec(10, 0x40_0000, 0x3000, APP))
            .at(10, 10, 2)
            .mmap2(&Map::exec(10, 0x40_1000, 0x1000, LIB))
            .mmap2(&Map::exec(10, 0x50_0000, 0x1000, "/x"));
        let at = |ip| rewritten(&["-b"], &b.clone().sample(&Sample::user(10, ip, 10)).file());
        assert_eq!(ids(&at(0x40_0fff)), [app()]);
        assert_eq!(ids(&at(0x40_1000)), [lib()]);
        assert_eq!(ids(&at(0x40_1fff)), [lib()]);
        assert_eq!(ids(&at(0x40_2000)), [app()]);
        assert_eq!(ids(&at(0x40_3000)), []);
        assert_eq!(ids(&rewritten(&["--buildid-all"], &b.file())).len(), 3);
    }
}
