//! One test per kind of fault that rewriters of recordings are known for, with the right value in it.
//! Each recording is built here, in both byte orders.

use super::support::builder::{AttrSpec, Builder, Map, Read, Sample, build_id, build_id_entry};
use super::support::recording::{BuildId, Container, Record, Recording, feature, flag, kind, misc, rf, st};
use super::support::run::{Dir, inject, inject_pipe, repipe, rewritten, rewritten_bytes, run, run_with};
use super::support::wire::{Bytes, Order};
use super::support::write::{Framing, record};
use super::support::{compare, elf, oracle, swap};

const APP: &str = "/usr/bin/app";
const LIB: &str = "/usr/lib/lib.so";
const APP_ID: [u8; 20] = [0x11; 20];
const LIB_ID: [u8; 8] = [0x22; 8];

/// A process with two mappings whose ids the recording's table tells; nothing is sampled yet.
fn process(order: Order, attr: &AttrSpec) -> Builder {
    Builder::with(order, attr)
        .identity()
        .build_id_table(&[build_id(APP, &APP_ID), build_id(LIB, &LIB_ID)])
        .at(10, 10, 100)
        .exec(10, "app")
        .mmap2(&Map::exec(10, 0x40_0000, 0x1000, APP))
        .mmap2(&Map::exec(10, 0x7f00_0000_0000, 0x1000, LIB))
}

/// Names and ids of HEADER_BUILD_ID records, sorted.
fn ids(recording: &Recording) -> Vec<(String, Vec<u8>)> {
    let mut ids: Vec<_> = oracle::injected_of(recording).into_iter().map(|e| (e.name, e.id)).collect();
    ids.sort();
    ids
}

fn app() -> (String, Vec<u8>) {
    (APP.to_owned(), APP_ID.to_vec())
}

fn lib() -> (String, Vec<u8>) {
    (LIB.to_owned(), LIB_ID.to_vec())
}

/// Records that do not compress, of about the given size in all.
fn noise(mut b: Builder, bytes: usize) -> Builder {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for i in 0..bytes / 1000 {
        let raw: Vec<u8> = (0..124)
            .flat_map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()
            })
            .collect();
        let time = 200 + i as u64;
        b = b.sample(&Sample { raw: raw[..988].to_vec(), ..Sample::user(10, 0x40_0010, time) });
    }
    b
}

fn raw_attr() -> AttrSpec {
    AttrSpec::new(st::IP | st::TID | st::TIME | st::ID | st::PERIOD | st::RAW)
}

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
            let frames = super::support::write::deflate([&stream[..]].into_iter());
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
