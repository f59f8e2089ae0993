//! Files that lie: each ends in exit 1, with a message that says where, no output, little memory and little time.

use std::time::Duration;

use super::support::builder::{AttrSpec, Builder, Map, Read, Sample, build_id};
use super::support::compare::{self, Failures};
use super::support::oracle;
use super::support::places::{self, name};
use super::support::recording::{Recording, feature, kind, misc};
use super::support::run::{Dir, Outcome, repipe, run_limited};
use super::support::wire::Order;
use super::support::write::{Framing, record};

/// 64 MiB of data: heap and private mappings. A shared or read-only mapping of the input does not count.
const MEMORY: &str = "-d 65536";
/// The same, and a second of processor time, which a busy machine does not stretch.
const MEMORY_AND_TIME: &str = "-d 65536 && ulimit -t 1";
/// Longer than that is waiting for what never comes, on a machine however busy.
const STUCK: Duration = Duration::from_secs(60);
const STYLES: [&str; 5] = ["", "-b", "--buildid-all", "-B", "--mmap2-buildid-all"];

/// Runs one style on a file or on a pipe, under the limits.
fn attack(dir: &Dir, style: &str, bytes: &[u8], piped: bool) -> Outcome {
    let mut c = repipe();
    c.arg("inject").args([style].iter().filter(|s| !s.is_empty())).arg("-o").arg(dir.join("out"));
    if piped {
        return run_limited(MEMORY_AND_TIME, &c, bytes);
    }
    c.arg("-i").arg(dir.file("in", bytes));
    let outcome = run_limited(MEMORY_AND_TIME, &c, &[]);
    std::fs::remove_file(dir.join("in")).unwrap();
    outcome
}

/// What must be true of a run over bytes that may be anything.
fn orderly(bytes: &[u8], outcome: &Outcome, dir: &Dir) -> Result<(), String> {
    let said = outcome.stderr.trim();
    if said.contains("panicked") {
        return Err(said.into());
    }
    if outcome.took > STUCK {
        return Err(format!("took {:?}", outcome.took));
    }
    match outcome.code {
        Some(0) => {
            let before = oracle::parse(bytes).map_err(|e| format!("exit 0 on a broken file: {e}"))?;
            let out = std::fs::read(dir.join("out")).map_err(|e| format!("exit 0 without output: {e}"))?;
            std::fs::remove_file(dir.join("out")).unwrap();
            let after = oracle::parse(&out).map_err(|e| format!("exit 0 with a broken output: {e}"))?;
            // a pipe's attrs and sections move into the file's header, and mappings and ids are what styles change
            let moved =
                [kind::MMAP, kind::MMAP2, kind::HEADER_BUILD_ID, kind::HEADER_ATTR, kind::HEADER_FEATURE];
            let kept = |r: &Recording| -> Vec<_> {
                r.records.iter().filter(|one| !moved.contains(&one.kind(r.order))).cloned().collect()
            };
            compare::same_records(&kept(&before), &kept(&after))
        }
        Some(1) => {
            let place = ["offset 0x", "not a perf recording", "file format on a pipe"]
                .iter()
                .any(|m| said.contains(m));
            if !place {
                return Err(format!("the message names no offset: {said}"));
            }
            if dir.names().is_empty() { Ok(()) } else { Err(format!("left {:?}", dir.names())) }
        }
        code => Err(format!("exit {code:?}: {said}")),
    }
}

#[test]
fn every_hostile_file_of_the_corpus_ends_in_an_orderly_error() {
    let mut failures = Failures::default();
    for path in places::hostile() {
        let bytes = std::fs::read(&path).unwrap();
        for style in STYLES {
            for piped in [false, true] {
                let dir = Dir::new();
                let outcome = attack(&dir, style, &bytes, piped);
                failures
                    .add(format!("{} {style} piped={piped}", name(&path)), orderly(&bytes, &outcome, &dir));
            }
        }
    }
    failures.report();
}

#[test]
fn info_of_every_hostile_file_is_orderly() {
    let mut failures = Failures::default();
    for path in places::hostile() {
        for option in [&[][..], &["--json"]] {
            let mut c = repipe();
            c.arg("info").arg(&path).args(option);
            let outcome = run_limited(MEMORY_AND_TIME, &c, &[]);
            let orderly = matches!(outcome.code, Some(0 | 1))
                && outcome.took < STUCK
                && !outcome.stderr.contains("panicked")
                && (outcome.ok() || !outcome.stderr.trim().is_empty());
            let result = if orderly {
                Ok(())
            } else {
                Err(format!("{:?} after {:?}: {}", outcome.code, outcome.took, outcome.stderr))
            };
            failures.add(format!("{} {option:?}", name(&path)), result);
        }
    }
    failures.report();
}

/// A small recording with something of everything in it.
fn small(order: Order) -> Builder {
    let sample = Sample::user(10, 0x40_0010, 5);
    Builder::with(order, &AttrSpec::plain())
        .identity()
        .build_id_table(&[build_id("/usr/bin/app", &[0x11; 20])])
        .at(10, 10, 1)
        .exec(10, "app")
        .mmap2(&Map::exec(10, 0x40_0000, 0x1000, "/usr/bin/app"))
        .auxtrace(0, 0, 10, 0, &[0x5a; 24])
        .id_index(&[[1, 0, 0, 10]])
        .sample(&sample)
        .finished_round()
}

/// Overwrites a word of a file.
fn with(mut bytes: Vec<u8>, order: Order, at: usize, value: u64) -> Vec<u8> {
    let word = if order == Order::Little { value.to_le_bytes() } else { value.to_be_bytes() };
    bytes[at..at + 8].copy_from_slice(&word);
    bytes
}

/// Each header that lies, by name, with the offset that the message is to name where one word is at fault.
fn lying_headers(order: Order) -> Vec<(&'static str, Vec<u8>)> {
    let good = small(order).file();
    let data_end = (order.u64(&good, 40) + order.u64(&good, 48)) as usize;
    let mut all = vec![
        ("attr entry of no size", with(good.clone(), order, 16, 0)),
        ("attr entry below 64 bytes", with(good.clone(), order, 16, 40)),
        ("attr entry of 1 EiB", with(good.clone(), order, 16, 1 << 60)),
        ("attrs past the end", with(good.clone(), order, 24, 1 << 40)),
        ("attrs of 1 EiB", with(good.clone(), order, 32, 152 << 50)),
        ("attrs not a multiple of their size", with(good.clone(), order, 32, 100)),
        ("data past the end", with(good.clone(), order, 40, u64::MAX - 4)),
        ("data offset and size overflow", with(good.clone(), order, 48, u64::MAX)),
        ("data of 1 EiB", with(good.clone(), order, 48, 1 << 60)),
        ("event types of 1 EiB", with(with(good.clone(), order, 56, 104), order, 64, 1 << 60)),
        ("a feature section of 1 EiB", with(good.clone(), order, data_end + 8, 1 << 60)),
        ("a feature section past the end", with(good.clone(), order, data_end, u64::MAX)),
        ("every feature bit", with(good.clone(), order, 72, u64::MAX)),
        ("header size 17", with(good.clone(), order, 8, 17)),
        ("header of as many bytes as the file", with(good.clone(), order, 8, good.len() as u64)),
        ("header of 2^63 bytes", with(good.clone(), order, 8, 1 << 63)),
    ];
    let ids_at = order.u64(&good, 24) as usize + 136;
    all.push(("ids past the end", with(good.clone(), order, ids_at, 1 << 50)));
    all.push(("ids of 1 EiB", with(good, order, ids_at + 8, 1 << 60)));
    all
}

#[test]
fn headers_that_lie_are_refused() {
    let mut failures = Failures::default();
    for order in Order::BOTH {
        for (what, bytes) in lying_headers(order) {
            for style in STYLES {
                let dir = Dir::new();
                let outcome = attack(&dir, style, &bytes, false);
                let result = match outcome.code {
                    Some(1) => orderly(&bytes, &outcome, &dir),
                    code => Err(format!("exit {code:?}: {}", outcome.stderr)),
                };
                failures.add(format!("{what} {style} {order:?}"), result);
            }
        }
    }
    failures.report();
}

/// Records that lie, each appended to a good recording, with the type that the message is to name.
fn lying_records(order: Order) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let header = |kind: u32, size: u16| {
        let mut r = record(order, kind, misc::USER, &[]).bytes;
        r[6..8].copy_from_slice(&if order == Order::Little {
            size.to_le_bytes()
        } else {
            size.to_be_bytes()
        });
        r
    };
    let words = |ws: &[u64]| {
        let mut b = super::support::wire::Bytes::new(order);
        b.u64s(ws.iter().copied());
        b.out
    };
    let body = |kind, ws: &[u64]| record(order, kind, misc::USER, &words(ws)).bytes;
    vec![
        ("a record of no size", header(kind::SAMPLE, 0), "SAMPLE"),
        ("a record of 3 bytes", header(kind::COMM, 3), "COMM"),
        ("a record past the end", header(kind::MMAP2, 4000), "MMAP2"),
        ("half a header", vec![9, 0, 0], ""),
        ("AUX data past the end", body(kind::AUXTRACE, &[1 << 40, 0, 0, 0, 0]), "AUXTRACE"),
        ("AUX data of 2^64-1", body(kind::AUXTRACE, &[u64::MAX, 0, 0, 0, 0]), "AUXTRACE"),
        ("AUX record too short for its size", body(kind::AUXTRACE, &[]), "AUXTRACE"),
        ("a zstd chunk that is none", body(kind::COMPRESSED, &[0x1234_5678, 0]), "COMPRESSED"),
        ("COMPRESSED2 of 2^64-1", body(kind::COMPRESSED2, &[u64::MAX, 0]), "COMPRESSED2"),
        ("COMPRESSED2 without a size", body(kind::COMPRESSED2, &[]), "COMPRESSED2"),
    ]
}

#[test]
fn records_that_lie_are_refused_with_their_offset_and_type() {
    let mut failures = Failures::default();
    for order in Order::BOTH {
        for (what, bytes, kind) in lying_records(order) {
            let mut recording = small(order).finish();
            recording.features.remove(&feature::AUXTRACE);
            let at = recording.stream().len();
            let (mut file, mut pipe) = (recording.to_file(), recording.to_pipe());
            // behind the records of a file: the sections move, so the file is laid out anew with a made-up record
            recording
                .records
                .push(super::support::recording::Record { bytes: bytes.clone(), payload: Vec::new() });
            file =
                if bytes.len() >= 8 { recording.to_file() } else { with_data_tail(file, order, at, &bytes) };
            let file_at = order.u64(&file, 40) as usize + at;
            let pipe_at = pipe.len();
            pipe.extend(&bytes);
            for style in STYLES {
                for (piped, bytes, at) in [(false, &file, file_at), (true, &pipe, pipe_at)] {
                    let dir = Dir::new();
                    let outcome = attack(&dir, style, bytes, piped);
                    let told =
                        outcome.stderr.contains(&format!("offset {at:#x}")) && outcome.stderr.contains(kind);
                    let result = match outcome.code {
                        Some(1) if told => orderly(bytes, &outcome, &dir),
                        code => Err(format!(
                            "exit {code:?}, not 1 with {at:#x} and {kind:?}: {}",
                            outcome.stderr.trim()
                        )),
                    };
                    failures.add(format!("{what} {style} {order:?} piped={piped}"), result);
                }
            }
        }
    }
    failures.report();
}

/// The file with bytes put in behind its records, and no sections.
fn with_data_tail(file: Vec<u8>, order: Order, records: usize, tail: &[u8]) -> Vec<u8> {
    let data_at = order.u64(&file, 40) as usize;
    let mut out = file[..data_at + records].to_vec();
    out.extend(tail);
    out[72..104].fill(0);
    with(out, order, 48, (records + tail.len()) as u64)
}

/// Records whose fields lie about their own insides; what can't be understood may pass, but not crash.
#[test]
fn fields_that_lie_do_no_harm() {
    let mut failures = Failures::default();
    for order in Order::BOTH {
        let bytes = |ws: &[u64]| {
            let mut b = super::support::wire::Bytes::new(order);
            b.u64s(ws.iter().copied());
            b.out
        };
        let everything = Builder::with(order, &AttrSpec::everything()).at(10, 10, 1);
        let full = Sample::full(10, 0x40_0010, 5).encode(&everything.recording.attrs[0], order);
        let mut cases: Vec<(String, Builder)> = Vec::new();
        // each word of a full sample as a huge count, and the sample cut at each word
        for at in (0..full.len()).step_by(8) {
            for value in [u64::MAX, 1 << 61, 0x1_0000] {
                let body = with(full.clone(), order, at, value);
                cases.push((
                    format!("sample word {at} is {value:#x}"),
                    everything.clone().raw(kind::SAMPLE, 2, &body),
                ));
            }
            cases.push((format!("sample cut at {at}"), everything.clone().raw(kind::SAMPLE, 2, &full[..at])));
        }
        for kind in 1..=84u32 {
            if matches!(
                kind,
                kind::AUXTRACE | kind::COMPRESSED | kind::COMPRESSED2 | kind::HEADER_TRACING_DATA
            ) {
                continue;
            }
            for words in [&[][..], &[u64::MAX], &[u64::MAX; 4], &[u64::MAX; 12]] {
                let what = format!("record type {kind} of {} words of ones", words.len());
                cases.push((what, small(order).raw(kind, 0xffff, &bytes(words))));
            }
        }
        let unended = Map::exec(10, 0x40_0000, 0x1000, "x");
        cases.push((
            "a mapping of the whole space".into(),
            everything.clone().mmap2(&Map { start: 0, len: u64::MAX, ..unended.clone() }),
        ));
        cases.push((
            "a mapping that wraps".into(),
            everything.clone().mmap2(&Map { start: u64::MAX - 5, len: 100, ..unended.clone() }),
        ));
        cases.push(("a mapping of no length".into(), everything.clone().mmap2(&Map { len: 0, ..unended })));
        let read = Read { values: vec![[1, 1, 1]; 3], ..Read::default() };
        cases.push(("a read of a group".into(), everything.clone().read(10, 10, &read)));
        for (what, b) in cases {
            let bytes = b.file();
            for style in ["-b", "-B", "--mmap2-buildid-all"] {
                let dir = Dir::new();
                let outcome = attack(&dir, style, &bytes, false);
                failures.add(format!("{what} {style} {order:?}"), orderly(&bytes, &outcome, &dir));
            }
        }
    }
    failures.report();
}

#[test]
fn a_zstd_bomb_is_not_held_in_memory() {
    // one chunk of a few KiB that holds 256 MiB of records
    let order = Order::Little;
    let b = Builder::with(order, &AttrSpec::plain()).at(10, 10, 1);
    let mut plain = Vec::new();
    let mut lost = b.clone().lost_samples(1).finish().records.remove(0).bytes;
    lost.resize(0xfff8, 0);
    lost[6..8].copy_from_slice(&0xfff8u16.to_le_bytes());
    while plain.len() < 16 << 20 {
        plain.extend(&lost);
    }
    let plain = plain.repeat(16);
    let packed = zstd::bulk::compress(&plain, 1).unwrap();
    assert!(packed.len() < 65000, "{}", packed.len());
    let mut recording = b.finish();
    recording.records.push(record(order, kind::COMPRESSED, 0, &packed));
    recording.features.insert(feature::COMPRESSED, vec![0; 20]);
    let dir = Dir::new();
    let mut c = repipe();
    c.args(["inject", "-i"]).arg(dir.file("in", &recording.to_file())).arg("-o").arg(dir.join("out"));
    let outcome = run_limited(MEMORY, &c, &[]).expect_ok("bomb");
    assert!(outcome.took < STUCK, "{:?}", outcome.took);
    let size = std::fs::metadata(dir.join("out")).unwrap().len();
    assert!(size > plain.len() as u64);
}

// ---- every prefix

fn prefixes(what: &str, bytes: &[u8], step: usize, failures: &mut Failures) {
    let dir = Dir::new();
    for len in (0..bytes.len()).step_by(step) {
        let cut = &bytes[..len];
        let outcome = attack(&dir, "-b", cut, false);
        let result = match (outcome.code, oracle::parse(cut)) {
            // a pipe that ends between records is whole; what has no attrs may be refused
            (Some(0), Ok(_)) => orderly(cut, &outcome, &dir),
            (Some(1), Ok(r)) if !r.records.iter().any(|r| r.kind(Order::Little) == kind::HEADER_ATTR) => {
                Ok(())
            }
            (Some(1), Ok(_)) => Err(format!("refused, though it is whole: {}", outcome.stderr)),
            _ => orderly(cut, &outcome, &dir),
        };
        failures.add(format!("{what} cut at {len}"), result);
    }
}

/// Each byte is a cut with `REPIPE_ALL_PREFIXES=1`; otherwise every so many of larger recordings.
fn step(otherwise: usize) -> usize {
    if std::env::var_os("REPIPE_ALL_PREFIXES").is_some() { 1 } else { otherwise }
}

#[test]
fn every_prefix_of_a_file() {
    let mut failures = Failures::default();
    prefixes("file", &small(Order::Little).file(), 1, &mut failures);
    failures.report();
}

#[test]
fn every_prefix_of_a_pipe() {
    let mut failures = Failures::default();
    prefixes("pipe", &small(Order::Little).pipe(), 1, &mut failures);
    failures.report();
}

#[test]
fn every_prefix_of_a_compressed_file() {
    let mut failures = Failures::default();
    let mut recording = small(Order::Little).finish();
    recording.records.retain(|r| r.kind(Order::Little) != kind::AUXTRACE);
    recording.features.remove(&feature::AUXTRACE);
    prefixes("compressed", &recording.compressed(Framing::V2, 64).to_file(), 1, &mut failures);
    failures.report();
}

#[test]
fn prefixes_of_corpus_recordings() {
    let mut failures = Failures::default();
    let small = ["lpd-sleep.data", "quipper-piped.header_features-4.16", "simpleperf-perf_etm.data"];
    for path in small.into_iter().filter_map(places::recording) {
        prefixes(&name(&path), &std::fs::read(&path).unwrap(), step(61), &mut failures);
    }
    failures.report();
}
