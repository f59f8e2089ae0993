//! `repipe info`: against golden texts of built recordings, an independent reader, and public golden lists.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::support::builder::{AttrSpec, Builder, Map, Sample, build_id};
use super::support::recording::{BuildId, Container, Recording, feature, kind};
use super::support::run::{Dir, Outcome, repipe, run, run_with};
use super::support::wire::{Bytes, Order};
use super::support::write::Framing;
use super::support::{oracle, places, swap};

fn info(path: &Path) -> Outcome {
    run(repipe().args(["info", "--json"]).arg(path))
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_slice(&outcome.stdout).unwrap()
}

/// Count and bytes of records by type, as `info` tells them.
fn told(value: &Value) -> BTreeMap<u64, (u64, u64)> {
    let by_type = value["records"]["by_type"].as_array().unwrap();
    let number = |v: &Value| v.as_u64().unwrap();
    by_type.iter().map(|t| (number(&t["type"]), (number(&t["count"]), number(&t["bytes"])))).collect()
}

/// The same, as they are.
fn counted(recording: &Recording) -> BTreeMap<u64, (u64, u64)> {
    let mut counts = BTreeMap::new();
    for r in &recording.records {
        let (count, bytes) = counts.entry(r.kind(recording.order).into()).or_default();
        *count += 1u64;
        *bytes += r.bytes.len() as u64;
    }
    counts
}

fn three_events(order: Order) -> Builder {
    let mut cycles = AttrSpec::plain().ids([11, 12]);
    cycles.kind = 0;
    let clock = AttrSpec::plain().ids([21]);
    let mut faults = AttrSpec::plain().ids([31]);
    faults.config = 3;
    let mut short = build_id("/usr/lib/libshort.so", &[0x5a; 8]);
    short.pid = 42;
    Builder::with(order, &cycles)
        .attr(&clock)
        .attr(&faults)
        .identity()
        .build_id_table(&[build_id("/usr/bin/app", &[0x11; 20]), short])
        .feature(140, b"private")
        .event_type_section(&[(0, "ambiguous"), (3, "old-name")])
        .at(7, 7, 1_000_000_000)
        .mmap2(&Map::exec(7, 0x1000, 0x1000, "/usr/bin/app"))
        .comm(7, 7, "app")
        .sample(&Sample::user(7, 0x1234, 2_000_000_001).event(11))
        .sample(&Sample::user(7, 0x1238, 2_500_000_000).event(12))
        .sample(&Sample::user(7, 0x123c, 2_250_000_000).event(21))
        .build_id(&build_id("/usr/bin/app", &[0x33; 16]))
        .finished_round()
}

/// Compares with `tests/golden/info/NAME.txt`, or writes it if `REPIPE_BLESS` is set.
#[track_caller]
fn golden(name: &str, text: &str) {
    let path = places::root().join("tests/golden/info").join(name).with_extension("txt");
    if std::env::var_os("REPIPE_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs; REPIPE_BLESS=1 writes it anew", path.display());
}

#[test]
fn text_of_built_recordings() {
    let dir = Dir::new();
    let everything = Builder::with(Order::Big, &AttrSpec::everything()).identity().every_kernel_record();
    let cases = [
        ("three-events", three_events(Order::Little).file()),
        ("three-events-big-pipe", three_events(Order::Big).pipe()),
        ("everything-big", everything.file()),
    ];
    for (name, bytes) in cases {
        dir.file(name, &bytes);
        let shown = run(repipe().arg("info").arg(name).current_dir(dir.path())).expect_ok(name);
        golden(name, &String::from_utf8(shown.stdout).unwrap());
    }
}

#[test]
fn byte_order_changes_nothing_but_its_name() {
    let dir = Dir::new();
    let shown = Order::BOTH.map(|order| {
        let path = dir.file("x.data", &three_events(order).file());
        let mut value = json(&info(&path).expect_ok("both orders"));
        value["byte_order"].take();
        value
    });
    assert_eq!(shown[0], shown[1]);
    let value = &shown[0];
    assert_eq!(value["time"], serde_json::json!({"first": 2_000_000_001u64, "last": 2_500_000_000u64}));
    let samples: Vec<_> = value["events"].as_array().unwrap().iter().map(|e| e["samples"].as_u64()).collect();
    assert_eq!(samples, [Some(2), Some(1), Some(0)]);
    let table = value["build_ids"]["table"].as_array().unwrap();
    assert_eq!(table[1]["build_id"], "5a".repeat(8));
    assert_eq!(table[1]["length"], 8);
    assert_eq!(table[1]["pid"], 42);
    assert_eq!(value["build_ids"]["records"][0]["build_id"], "33".repeat(16));
}

#[test]
fn every_way_in_tells_the_same_records() {
    let dir = Dir::new();
    for order in Order::BOTH {
        let recording = three_events(order).every_user_record().finish();
        let expected = counted(&recording);
        let path = dir.file("file", &recording.to_file());
        assert_eq!(told(&json(&info(&path).expect_ok("file"))), expected);

        let in_pipe = oracle::parse(&recording.to_pipe()).unwrap();
        let expected_in_pipe = counted(&in_pipe);
        let path = dir.file("pipe", &recording.to_pipe());
        let value = json(&info(&path).expect_ok("pipe format in a file"));
        assert_eq!((&value["format"], told(&value)), (&"pipe".into(), expected_in_pipe.clone()));
        let value = json(&run_with(repipe().args(["info", "--json", "-i", "-"]), &recording.to_pipe()));
        assert_eq!((&value["format"], told(&value)), (&"pipe".into(), expected_in_pipe));

        for framing in [Framing::V1, Framing::V2] {
            let path = dir.file("packed", &recording.compressed(framing, 77).to_file());
            let value = json(&info(&path).expect_ok("compressed"));
            assert_eq!((&value["compressed"], told(&value)), (&true.into(), expected.clone()));
        }

        let parts = dir.join(format!("dir{order:?}"));
        recording.to_dir(&parts, |i, _| (i % 3).checked_sub(1));
        let value = json(&info(&parts).expect_ok("directory"));
        assert_eq!((&value["format"], told(&value)), (&"directory".into(), expected));
        assert_eq!(value["header"]["parts"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_compressed_record_whose_size_wrapped_to_nothing_is_read_in_files_and_directories() {
    let dir = Dir::new();
    for order in Order::BOTH {
        let plain = three_events(order).finish();
        let mut packed = plain.compressed(Framing::V2, usize::MAX);
        let [record] = packed.records.as_slice() else { panic!("one chunk: {:?}", packed.records) };
        let len = order.u64(&record.bytes, 8) as usize;
        // a frame that zstd steps over fills the chunk up to the longest that is not cut
        let mut zstd = 0x184d_2a50u32.to_le_bytes().to_vec();
        let filler = 65_519 - len - 8;
        zstd.extend((filler as u32).to_le_bytes());
        zstd.resize(8 + filler, 0);
        zstd.extend(&record.bytes[16..16 + len]);
        packed.records = vec![packed.compressed2(&zstd)];
        assert_eq!(order.u16(&packed.records[0].bytes, 6), 0, "the size wraps to 0");

        let expected = counted(&plain);
        let path = dir.file("wrapped", &packed.to_file());
        assert_eq!(told(&json(&info(&path).expect_ok("file"))), expected);
        let parts = dir.join(format!("dir{order:?}"));
        packed.to_dir(&parts, |_, _| Some(0));
        assert_eq!(told(&json(&info(&parts).expect_ok("directory"))), expected);
    }
}

#[test]
fn a_broken_section_is_shown_as_such_and_the_rest_goes_on() {
    let dir = Dir::new();
    let long = Bytes::new(Order::Big).u32(4000).raw(b"short").take();
    let path = dir.file("x.data", &three_events(Order::Big).feature(feature::CPUDESC, &long).file());
    let value = json(&info(&path).expect_ok("a broken section"));
    let features = value["features"].as_array().unwrap();
    let broken: Vec<_> = features.iter().filter(|f| !f["broken"].is_null()).collect();
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0]["name"], "CPUDESC");
    let message = broken[0]["broken"].as_str().unwrap();
    assert!(message.starts_with("at offset 0x4: "), "{message}");
    assert_eq!(value["samples"]["total"], 3);
    let text = run(repipe().arg("info").arg(&path)).expect_ok("text");
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("CPUDESC              broken: at offset 0x4"), "{text}");
}

#[test]
fn stray_zeros_in_the_build_id_table_do_not_hide_what_follows() {
    let dir = Dir::new();
    for order in Order::BOTH {
        let entry = |name: &str| super::support::builder::build_id_entry(order, &build_id(name, &[7; 20]), 0);
        let table = [entry("/a"), vec![0; 28], entry("/b"), vec![0; 4]].concat();
        let path = dir.file("x.data", &three_events(order).feature(feature::BUILD_ID, &table).file());
        let value = json(&info(&path).expect_ok("gaps"));
        let paths: Vec<_> =
            value["build_ids"]["table"].as_array().unwrap().iter().map(|id| id["path"].clone()).collect();
        assert_eq!(paths, ["/a", "/b"]);
    }
}

#[test]
fn a_recording_that_breaks_off_is_shown_up_to_there_and_fails() {
    let dir = Dir::new();
    let whole = three_events(Order::Little).pipe();
    let path = dir.file("cut", &whole[..whole.len() - 4]);
    let outcome = info(&path).expect_failure("cut");
    assert!(outcome.stderr.contains("at offset 0x"), "{}", outcome.stderr);
    let value = json(&outcome);
    assert_eq!(value["samples"]["total"], 3);
    assert_eq!(value["warnings"].as_array().unwrap().len(), 1);
    let gone = run(repipe().arg("info").arg(dir.join("no such file"))).expect_failure("missing input");
    assert!(gone.stdout.is_empty());
}

#[test]
fn every_prefix_of_a_recording_ends_in_order() {
    let dir = Dir::new();
    let whole = three_events(Order::Big).file();
    for end in (0..whole.len()).step_by(31) {
        let outcome = info(&dir.file("cut", &whole[..end]));
        assert!(matches!(outcome.code, Some(0 | 1)), "{end} bytes: {outcome:?}");
        assert!(!outcome.stderr.contains("panicked"), "{end} bytes: {}", outcome.stderr);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = Dir::new();
    let path = dir.file("x.data", &three_events(Order::Little).file());
    let command =
        format!("{} info {} | true; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_repipe"), path.display());
    let outcome = run(Command::new("bash").args(["-c", &command]).stdin(Stdio::null()));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn names_of_the_recording_are_not_obeyed_by_a_terminal() {
    let dir = Dir::new();
    let path = dir
        .file("x.data", &three_events(Order::Little).feature_string(feature::HOSTNAME, "a\x1b[2Jb").file());
    let shown = run(repipe().arg("info").arg(&path)).expect_ok("escape");
    assert!(!shown.stdout.contains(&0x1b));
}

/// The recording of the corpus that has a record without a size.
const BROKEN: &str = "quipper-piped.corrupted.zero_size_sample-3.2";
/// One whose file took up perf's closing words too.
const TALKING: &str = "lpd-sleep.compressed2.pipe.data";

#[test]
fn the_corpus_is_understood() {
    for path in places::recordings() {
        let name = places::name(&path);
        let outcome = info(&path);
        if name == BROKEN {
            outcome.expect_failure(&name);
            continue;
        }
        let value = json(&outcome.expect_ok(&name));
        let warnings = value["warnings"].as_array().unwrap().len();
        assert_eq!(warnings, usize::from(name == TALKING), "{name}: {}", value["warnings"]);
        for feature in value["features"].as_array().unwrap() {
            assert!(!feature["value"].is_null(), "{name}: {feature}");
        }
        let recording = oracle::read(&path).unwrap();
        assert_eq!(told(&value), counted(&recording), "{name}");
        if recording.container == Container::File {
            let features: Vec<_> =
                value["features"].as_array().unwrap().iter().map(|f| f["id"].as_u64()).collect();
            assert_eq!(
                features,
                recording.features.keys().map(|&k| Some(k.into())).collect::<Vec<_>>(),
                "{name}"
            );
        }
        let by_event =
            value["events"].as_array().unwrap().iter().map(|e| e["samples"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(by_event, recording.count(kind::SAMPLE) as u64, "{name}");
    }
}

/// Sections whose bytes the converter of the test kit leaves as they are.
const NOT_TWINNED: [&str; 4] = ["BPF_PROG_INFO", "BPF_BTF", "SIMPLEPERF_FILE", "SIMPLEPERF_FILE2"];

#[test]
fn the_corpus_reads_the_same_in_the_other_byte_order() {
    let dir = Dir::new();
    for path in places::recordings() {
        let name = places::name(&path);
        let Ok(recording) = oracle::read(&path) else { continue };
        let written = |r: &Recording| {
            let mut value = json(&info(&dir.file("x.data", &r.to_bytes())));
            value["byte_order"].take();
            value
        };
        let (here, there) = (written(&recording), written(&swap::twin(&recording)));
        for part in ["events", "records", "samples", "time", "build_ids", "header"] {
            assert_eq!(here[part], there[part], "{name}: {part}");
        }
        let features = |value: &Value| value["features"].as_array().unwrap().clone();
        for (here, there) in features(&here).iter().zip(&features(&there)) {
            if NOT_TWINNED.iter().all(|&other| here["name"] != other) {
                assert_eq!(here, there, "{name}");
            }
        }
    }
}

#[test]
fn build_ids_agree_with_the_public_lists() {
    let mut lists = 0;
    for path in places::recordings() {
        let Ok(expected) = std::fs::read_to_string(format!("{}.buildids", path.display())) else { continue };
        lists += 1;
        let name = places::name(&path);
        let outcome = info(&path).expect_ok(&name);
        let ids = json(&outcome)["build_ids"]["table"].as_array().unwrap().clone();
        let lines: Vec<_> = ids
            .iter()
            .map(|id| format!("{} {}", id["build_id"].as_str().unwrap(), id["path"].as_str().unwrap()))
            .collect();
        assert_eq!(lines, expected.lines().collect::<Vec<_>>(), "{name}");
        let text = run(repipe().arg("info").arg(&path)).expect_ok(&name).stdout;
        let text = String::from_utf8(text).unwrap();
        let shown: Vec<_> =
            text.lines().skip_while(|l| !l.starts_with("build-ids of the table: ")).skip(1).collect();
        assert_eq!(shown, expected.lines().map(|l| format!("  {l}")).collect::<Vec<_>>(), "{name}");
    }
    if places::recordings().is_empty() {
        return;
    }
    assert!(lists >= 14, "{lists} lists");
}

#[test]
fn hostile_files_end_in_order() {
    for path in places::hostile() {
        let name = places::name(&path);
        let outcome = info(&path);
        assert!(matches!(outcome.code, Some(0 | 1)), "{name}: {outcome:?}");
        if !outcome.ok() {
            let outcome = outcome.expect_failure(&name);
            assert!(outcome.stderr.contains("at offset 0x"), "{name}: {}", outcome.stderr);
        }
    }
}

#[test]
fn ids_without_a_stated_length_show_the_whole_field() {
    let dir = Dir::new();
    let unsized_id = BuildId { misc: 2, pid: -1, id: vec![0x77; 16], name: "/bin/old".into() };
    let mut entry = super::support::builder::build_id_entry(Order::Little, &unsized_id, 0);
    entry[5] &= 0x7f;
    let path = dir.file("x.data", &three_events(Order::Little).feature(feature::BUILD_ID, &entry).file());
    let value = json(&info(&path).expect_ok("no length"));
    let listed = &value["build_ids"]["table"][0];
    assert_eq!(listed["build_id"], "77".repeat(16) + "00000000");
    assert!(listed["length"].is_null());
}
