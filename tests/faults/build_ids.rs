//! Build-ids: their sizes, where they come from, and whose they are.

use super::super::support::builder::{AttrSpec, Builder, Map, Sample, build_id, build_id_entry};
use super::super::support::recording::{BuildId, Recording, feature, kind, misc};
use super::super::support::run::{Dir, inject, inject_pipe, rewritten, rewritten_bytes};
use super::super::support::wire::Order;
use super::super::support::{compare, elf, oracle, swap};
use super::{APP, APP_ID, LIB, LIB_ID, app, ids, process};

// ---- row 5

#[test]
fn stray_bytes_between_build_id_entries_end_no_loop() {
    for order in Order::BOTH {
        let mut table = build_id_entry(order, &build_id(APP, &APP_ID), 0);
        for stray in [&[0u8; 8][..], &[0; 4], &[0; 36], &[0; 64]] {
            table.truncate(36 + 64);
            table.extend_from_slice(stray);
            table.extend(build_id_entry(order, &build_id(LIB, &LIB_ID), 0));
            let b = process(order, &AttrSpec::plain())
                .sample(&Sample::user(10, 0x40_0010, 200))
                .feature(feature::BUILD_ID, &table);
            // what no stage touches stays as it is, stray bytes included
            assert_eq!(rewritten_bytes(&[], &b.file()), b.file());
            let out = rewritten(&["-b"], &b.file());
            assert_eq!(ids(&out), [app()]);
            strict_table(&out);
        }
    }
}

/// Every entry is 36 bytes and a padded name, and they fill the section.
fn strict_table(recording: &Recording) {
    let raw = &recording.features[&feature::BUILD_ID];
    let entries = oracle::build_id_table(recording.order, raw);
    let mut at = 0;
    for e in &entries {
        let size = usize::from(recording.order.u16(raw, at + 6));
        assert_eq!((size - 36) % 8, 0, "{e:?}");
        assert!(size > 36 + e.name.len() && size <= 36 + e.name.len() + 64, "{size} for {e:?}");
        at += size;
    }
    assert_eq!(at, raw.len(), "the entries fill the section");
}

#[test]
fn a_build_id_entry_of_no_size_ends_the_table() {
    for order in Order::BOTH {
        let mut table = build_id_entry(order, &build_id(APP, &APP_ID), 0);
        let mut broken = build_id_entry(order, &build_id(LIB, &LIB_ID), 0);
        broken[6..8].fill(0);
        table.extend(broken);
        let b = process(order, &AttrSpec::plain())
            .sample(&Sample::user(10, 0x40_0010, 200))
            .feature(feature::BUILD_ID, &table);
        let out = rewritten(&["-b"], &b.file());
        assert_eq!(ids(&out), [app()]);
        strict_table(&out);
    }
}

// ---- row 6

#[test]
fn build_ids_keep_their_length() {
    for order in Order::BOTH {
        for len in [1, 8, 16, 20] {
            let id: Vec<u8> = (1..=len).collect();
            let hex: String = id.iter().map(|b| format!("{b:02x}")).collect();
            let expected = [(APP.to_owned(), id.clone())];
            let sample = Sample::user(10, 0x40_0010, 200);
            let base = Builder::with(order, &AttrSpec::plain()).at(10, 10, 100);
            let mapped = base.clone().mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP)).sample(&sample);
            let carried = base.mmap2_build_id(&Map::exec(10, 0x40_0000, 0x1000, APP), &id).sample(&sample);

            let list = format!("--known-build-ids={hex} {APP}");
            let tabled = mapped.clone().build_id_table(&[build_id(APP, &id)]);
            for (from, bytes, options) in [
                ("list", mapped.file(), &["-b", &list][..]),
                ("mapping", carried.file(), &["-b"]),
                ("table", tabled.file(), &["-b"]),
                ("list, all", mapped.file(), &["--buildid-all", &list]),
            ] {
                let out = rewritten(options, &bytes);
                assert_eq!(ids(&out), expected, "from the {from}");
                assert_eq!(oracle::table_of(&out)[0].id, id, "from the {from}");
                let told = oracle::injected_of(&out)[0].misc & misc::BUILD_ID_SIZE;
                assert_eq!(told, misc::BUILD_ID_SIZE, "the size is told, from the {from}");
            }
            for style in ["-B", "--mmap2-buildid-all"] {
                let out = rewritten(&[style, &list], &mapped.file());
                assert_eq!(compare::map_ids(&out), expected, "{style}");
            }
        }
    }
}

#[test]
fn trailing_zeros_are_cut_only_where_no_size_is_told() {
    for order in Order::BOTH {
        let sample = Sample::user(10, 0x40_0010, 200);
        let b = Builder::with(order, &AttrSpec::plain())
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP))
            .sample(&sample);
        let mut id = vec![7; 16];
        id.resize(20, 0);
        let old = BuildId { misc: misc::USER, pid: -1, id: id.clone(), name: APP.into() };
        let out = rewritten(&["-b"], &b.clone().build_id_table(&[old]).file());
        assert_eq!(ids(&out), [(APP.to_owned(), vec![7; 16])]);
        let out = rewritten(&["-b"], &b.build_id_table(&[build_id(APP, &id)]).file());
        assert_eq!(ids(&out), [(APP.to_owned(), id)]);
    }
}

#[test]
fn the_note_is_taken_by_type_and_owner() {
    let dir = Dir::new();
    std::fs::create_dir_all(dir.join("usr/bin")).unwrap();
    let id = [0xc3; 12];
    let notes = [
        elf::note("Go", 4, &[1; 40]),
        elf::note("XYZ", 3, &[2; 20]),
        elf::note("GNU", 1, &[3; 16]),
        elf::note("GNU", 3, &id),
    ];
    dir.file("usr/bin/app", &elf::file(&notes.concat()));
    let b = Builder::with(Order::Little, &AttrSpec::plain())
        .mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP))
        .sample(&Sample::user(10, 0x40_0010, 200));
    let out = rewritten(&["-b", &format!("--symfs={}", dir.path().display())], &b.file());
    assert_eq!(ids(&out), [(APP.to_owned(), id.to_vec())]);
}

// ---- row 12

#[test]
fn a_big_endian_recording_becomes_what_its_little_endian_twin_becomes() {
    let make = |order| {
        Builder::with(order, &AttrSpec::everything())
            .identity()
            .build_id_table(&[build_id(APP, &APP_ID), build_id("/usr/lib/libodd-é.so", &LIB_ID)])
            .every_user_record()
            .every_kernel_record()
            .mmap2(&Map::exec(10, 0x40_0000, 0x2000, APP))
            .sample(&Sample::full(10, 0x40_1000, 1300))
    };
    for options in [&[][..], &["-b"], &["--buildid-all"], &["-B"], &["--mmap2-buildid-all"]] {
        let little = rewritten(options, &make(Order::Little).file());
        let big = rewritten(options, &swap::twin(&make(Order::Little).finish()).to_file());
        compare::same(&swap::twin(&little), &big, &[feature::AUXTRACE])
            .unwrap_or_else(|e| panic!("{options:?}: {e}"));
    }
}

// ---- row 13

#[test]
fn attrs_keep_their_own_size_and_all_their_bytes() {
    for order in Order::BOTH {
        for size in [64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 152, 512] {
            let mut spec = AttrSpec::plain().size(size, 0xee);
            spec.flags |= 1 << 62;
            let b = process(order, &spec).sample(&Sample::user(10, 0x40_0010, 200));
            for options in [&[][..], &["-b"]] {
                let out = rewritten(options, &b.file());
                assert_eq!(out.attrs, b.recording.attrs, "{size}");
                let piped = inject_pipe(options, &b.pipe()).expect_ok("pipe").stdout;
                let content = compare::content(&oracle::parse(&piped).unwrap());
                assert_eq!(content.attrs, b.recording.attrs, "{size}");
            }
        }
    }
}

// ---- row 14

#[test]
fn an_id_that_a_mapping_carries_is_never_overwritten() {
    let id = [0xab; 16];
    let hex = "ff".repeat(20);
    let list = format!("--known-build-ids={hex} {APP}");
    for order in Order::BOTH {
        let map = Map::exec(10, 0x40_0000, 0x1000, APP);
        let b = Builder::with(order, &AttrSpec::plain())
            .build_id_table(&[build_id(APP, &[9; 20])])
            .mmap2_build_id(&map, &id)
            .sample(&Sample::user(10, 0x40_0010, 200));
        for style in ["-b", "--buildid-all"] {
            assert_eq!(
                ids(&rewritten(&[style, &list], &b.file())),
                [(APP.to_owned(), id.to_vec())],
                "{style}"
            );
        }
        for style in ["-B", "--mmap2-buildid-all"] {
            let out = rewritten(&[style, &list], &b.file());
            assert_eq!(compare::map_ids(&out), [(APP.to_owned(), id.to_vec())], "{style}");
            assert_eq!(out.count(kind::MMAP2), 1, "{style}");
        }
        let out = rewritten(&["--mmap2-buildid-all", &list], &b.file());
        compare::same_records(&b.recording.records, &out.records).unwrap();
    }
}

#[test]
fn two_files_of_one_name_keep_two_ids() {
    // a binary replaced while it was recorded: same path, other id
    for order in Order::BOTH {
        let b = Builder::with(order, &AttrSpec::plain())
            .at(10, 10, 1)
            .mmap2_build_id(&Map::exec(10, 0x40_0000, 0x1000, APP), &[1; 20])
            .sample(&Sample::user(10, 0x40_0010, 2))
            .at(11, 11, 3)
            .mmap2_build_id(&Map::exec(11, 0x40_0000, 0x1000, APP), &[2; 20])
            .sample(&Sample::user(11, 0x40_0010, 4));
        let out = rewritten(&["-b"], &b.file());
        assert_eq!(ids(&out), [(APP.to_owned(), vec![1; 20]), (APP.to_owned(), vec![2; 20])]);
    }
}

// ---- row 15

#[test]
fn the_kernel_and_each_module_have_their_own_ids() {
    let kernel = BuildId {
        misc: misc::KERNEL | misc::BUILD_ID_SIZE,
        pid: -1,
        id: vec![0x77; 20],
        name: "[kernel.kallsyms]".into(),
    };
    let path = |name: &str| format!("/lib/modules/6.1.0-made/kernel/drivers/{name}.ko");
    let module = |name: &str, id: u8| BuildId { id: vec![id; 20], name: path(name), ..kernel.clone() };
    for order in Order::BOTH {
        let at = |n: u64| 0xffff_ffff_c000_0000 + n * 0x1_0000;
        let (one, two) = (path("one"), path("two"));
        let map =
            |start, name| Map { misc: misc::KERNEL, prot: 0, ..Map::exec(u32::MAX, start, 0x1_0000, name) };
        let b = Builder::with(order, &AttrSpec::plain())
            .identity()
            .build_id_table(&[kernel.clone(), module("one", 0x88), module("two", 0x99)])
            .mmap(&Map::kernel(0xffff_ffff_8100_0000, 0x100_0000))
            .mmap(&map(at(0), &one))
            .mmap(&map(at(1), &two))
            .at(10, 10, 10)
            .sample(&Sample::kernel(10, 0xffff_ffff_8100_1000, 20))
            .sample(&Sample::kernel(10, at(0) + 8, 21))
            .sample(&Sample::kernel(10, at(1) + 8, 22));
        for style in ["-b", "--buildid-all"] {
            let out = rewritten(&[style], &b.file());
            let told = oracle::injected_of(&out);
            for (name, id) in [(one.as_str(), 0x88), (&two, 0x99), ("[kernel.kallsyms]", 0x77)] {
                let of: Vec<_> = told.iter().filter(|e| e.name == name).collect();
                assert_eq!(of.len(), 1, "{style} {name}: {told:?}");
                assert_eq!(of[0].id, [id; 20], "{style} {name}");
                assert_eq!(of[0].misc & 7, misc::KERNEL, "{style} {name}");
            }
            assert_eq!(told.len(), 3, "{style}: {told:?}");
        }
    }
}

#[test]
fn a_kernel_of_another_machine_gets_no_id_from_this_one() {
    let b = Builder::with(Order::Little, &AttrSpec::plain())
        .identity()
        .mmap(&Map::kernel(0xffff_ffff_8100_0000, 0x100_0000))
        .sample(&Sample::kernel(10, 0xffff_ffff_8100_1000, 20));
    let dir = Dir::new();
    let (input, out) = (dir.file("in", &b.file()), dir.join("out"));
    for style in ["-b", "--buildid-all", "-B", "--mmap2-buildid-all"] {
        inject(&[style], &input, &out).expect_ok(style);
        let read = oracle::read(&out).unwrap();
        assert_eq!((ids(&read), compare::map_ids(&read)), (vec![], vec![]), "{style}");
    }
}

// ---- row 16

#[test]
fn a_file_whose_inode_differs_is_not_trusted() {
    use std::os::unix::fs::MetadataExt as _;
    let dir = Dir::new();
    let file = dir.file("app", &elf::with_id(&[0x5c; 20]));
    let name = file.to_str().unwrap();
    let inode = std::fs::metadata(&file).unwrap().ino();
    let inject = |options: &[&str], name: &str, ino| {
        let b = Builder::with(Order::Little, &AttrSpec::plain())
            .mmap2(&Map::exec(10, 0x40_0000, 0x1000, name).inode(77, 78, ino, 0))
            .sample(&Sample::user(10, 0x40_0010, 200));
        let out = dir.join("out");
        inject(options, &dir.file("in", &b.file()), &out).expect_ok("inode");
        ids(&oracle::read(&out).unwrap())
    };
    let there = [(name.to_owned(), vec![0x5c; 20])];
    // the device is only a hint
    assert_eq!(inject(&["-b"], name, inode), there);
    assert_eq!(inject(&["-b"], name, inode + 1), []);
    assert_eq!(inject(&["-b", "-f"], name, inode + 1), there, "forced");
    assert_eq!(inject(&["--buildid-all"], name, inode + 1), []);
    // files under a symfs root are copies, whose inodes say nothing
    let symfs = format!("--symfs={}", dir.path().display());
    assert_eq!(inject(&["-b", &symfs], "/app", inode + 1), [("/app".to_owned(), vec![0x5c; 20])]);
}

#[test]
fn each_miss_has_a_reason() {
    let b = Builder::with(Order::Little, &AttrSpec::plain())
        .mmap2(&Map::exec(10, 0x40_0000, 0x1000, "/gone/away"))
        .sample(&Sample::user(10, 0x40_0010, 200));
    let dir = Dir::new();
    let input = dir.file("in", &b.file());
    let outcome = inject(&["-b"], &input, &dir.join("out")).expect_ok("-b");
    assert!(outcome.stderr.contains("/gone/away"), "{}", outcome.stderr);
    let json = inject(&["-b", "--summary=json"], &input, &dir.join("out2")).expect_ok("json").stderr;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}"));
    assert!(value.is_object());
    assert!(json.contains("/gone/away"), "{json}");
    assert_eq!(inject(&["-b", "-q"], &input, &dir.join("out3")).expect_ok("-q").stderr, "");
}
