//! perf's dlfilters.

use super::super::support::oracle;
use super::super::support::recording::{Record, kind};
use super::super::support::run::{Dir, repipe, run};
use super::super::support::wire::Order;
use super::native::rogue;
use super::{build, fixture, inject};

/// `HEADER_SAMPLE_TIME`.
const SAMPLE_TIME: u32 = 21;

fn samples(records: &[Record]) -> Vec<&Record> {
    records.iter().filter(|r| r.kind(Order::Little) == kind::SAMPLE).collect()
}

fn others(records: &[Record]) -> Vec<&Record> {
    records.iter().filter(|r| r.kind(Order::Little) != kind::SAMPLE).collect()
}

#[test]
fn both_generations_see_the_same_and_every_function_answers() {
    let dir = Dir::new();
    let new = build(&dir, "filter.c", "new.so", &[]);
    let old = build(&dir, "filter.c", "old.so", &["-DOLD"]);
    let input = fixture("g.data");
    let mut logs = Vec::new();
    for (filter, al) in [(&new, "/88"), (&old, "/80")] {
        let log = dir.join("log");
        let args =
            ["--dlfilter", filter.to_str().unwrap(), "--dlarg", "keep", "--dlarg", log.to_str().unwrap()];
        inject(&input, &dir.join("out"), &args).expect_ok("keep");
        assert_eq!(std::fs::read(dir.join("out")).unwrap(), std::fs::read(&input).unwrap());
        let text = std::fs::read_to_string(&log).unwrap();
        assert_eq!(text.lines().next(), Some("start 2 0 0 -1"));
        let seen = text.lines().count() - 2;
        assert_eq!(seen, samples(&oracle::read(&input).unwrap().records).len());
        assert_eq!(text.lines().last(), Some(format!("stop {seen}").as_str()));
        let work = text.lines().find(|line| line.contains(" work 20/")).expect("a sample of the program");
        assert!(work.contains("cpu-clock:u work ") && work.contains(" same 1 "), "{work}");
        assert!(!text.contains(" - "), "all samples have symbols: {text}");
        logs.push(text.replace(al, ""));
    }
    assert_eq!(logs[0], logs[1]);
}

#[test]
fn what_a_filter_drops_is_left_out_and_nothing_else() {
    let dir = Dir::new();
    let filter = build(&dir, "filter.c", "filter.so", &[]);
    let input = fixture("plain.data");
    let before = oracle::read(&input).unwrap();
    for (mode, kept) in [("odd", 2), ("early", 0)] {
        let (log, out) = (dir.join("log"), dir.join("out"));
        let args =
            ["--dlfilter", filter.to_str().unwrap(), "--dlarg", mode, "--dlarg", log.to_str().unwrap()];
        inject(&input, &out, &args).expect_ok(mode);
        let after = oracle::read(&out).unwrap();
        let all = samples(&before.records);
        let expected: Vec<&Record> = match kept {
            0 => Vec::new(),
            n => all.iter().step_by(n).copied().collect(),
        };
        assert_eq!(samples(&after.records), expected, "{mode}");
        assert_eq!(others(&after.records), others(&before.records), "{mode}");
        // SAMPLE_TIME tells of those that stayed, whether the filter stands alone or in a chain.
        match (after.features.get(&SAMPLE_TIME), expected.first(), expected.last()) {
            (Some(times), Some(first), Some(last)) => {
                let has = |r: &Record, time: &[u8]| r.bytes.chunks(8).any(|word| word == time);
                assert!(has(first, &times[..8]) && has(last, &times[8..]), "{mode}: {times:?}");
            }
            (times, _, _) => assert!(times.is_none() && expected.is_empty(), "{mode}"),
        }
        let alone = std::fs::read(&out).unwrap();
        let keep = rogue(&dir, "keep.so", &[]) + ":do=keep";
        inject(&input, &out, &[&args[..], &["--plugin", &keep]].concat()).expect_ok(mode);
        assert!(std::fs::read(&out).unwrap() == alone, "{mode}: a plugin that keeps all changes something");
    }
}

#[test]
fn dropped_samples_hit_no_dso() {
    let dir = Dir::new();
    let filter = build(&dir, "filter.c", "filter.so", &[]);
    let out = dir.join("out");
    let log = dir.join("log");
    let args =
        ["-b", "--dlfilter", filter.to_str().unwrap(), "--dlarg", "early", "--dlarg", log.to_str().unwrap()];
    inject(&fixture("plain.data"), &out, &args).expect_ok("early");
    assert!(oracle::injected_of(&oracle::read(&out).unwrap()).is_empty());
}

#[test]
fn a_failing_filter_leaves_no_output_and_is_stopped() {
    let dir = Dir::new();
    let filter = build(&dir, "filter.c", "filter.so", &[]);
    let filter = filter.to_str().unwrap();
    for (mode, says) in [("fail", "filter_event_early returned -9"), ("failstart", "start returned -5")] {
        let (log, out) = (dir.join("log"), dir.join("out"));
        let args = ["--dlfilter", filter, "--dlarg", mode, "--dlarg", log.to_str().unwrap()];
        let outcome = inject(&fixture("plain.data"), &out, &args).expect_failure(mode);
        assert!(outcome.stderr.contains(says) && outcome.stderr.contains(filter), "{}", outcome.stderr);
        assert!(!out.exists());
        assert!(std::fs::read_to_string(&log).unwrap().contains("\nstop "), "{mode}");
    }
    let outcome = inject(&fixture("plain.data"), &dir.join("out"), &["--dlfilter", "./no-such.so"]);
    assert!(outcome.expect_failure("absent").stderr.contains("no-such.so"));
    let plain = dir.file("plain.so", b"no object");
    let outcome = inject(&fixture("plain.data"), &dir.join("out"), &["--dlfilter", plain.to_str().unwrap()]);
    outcome.expect_failure("not an object");
    assert_eq!(dir.names(), ["filter.so", "log", "plain.so"]);
}

#[test]
fn what_a_filter_prints_does_not_get_into_the_recording() {
    let dir = Dir::new();
    let filter = build(&dir, "say.c", "say.so", &[]);
    let input = fixture("pipe.data");
    let recorded = oracle::read(&input).unwrap();
    let all = samples(&recorded.records);
    let kept: Vec<Record> =
        (1..).zip(&all).filter(|(n, _)| n % 3 != 0).map(|(_, &record)| record.clone()).collect();
    let said: usize = 2 * all.len() + 1;
    let is_said = |line: &&str| ["early ", "late ", "stop"].iter().any(|word| line.starts_with(word));
    for (output, others) in
        [("-", "2>\"$ERR\""), ("/dev/stdout", "2>\"$ERR\""), ("-", "2>&-"), ("-", "2>\"$ERR\" -q")]
    {
        let err = dir.file("err", b"");
        let mut c = std::process::Command::new("sh");
        // Through cat, so that standard output is a pipe.
        c.arg("-c")
            .arg(format!("\"$REPIPE\" inject -i \"$IN\" -o {output} --dlfilter \"$FILTER\" {others} | cat"));
        c.env("REPIPE", repipe().get_program()).env("IN", &input).env("FILTER", &filter).env("ERR", &err);
        let outcome = run(&mut c).expect_ok(others);
        let written = oracle::parse(&outcome.stdout).unwrap_or_else(|e| panic!("{output} {others}: {e}"));
        assert!(samples(&written.records).into_iter().eq(&kept), "{output} {others}");
        let printed = std::fs::read_to_string(&err).unwrap().lines().filter(is_said).count();
        assert_eq!(printed, if others == "2>&-" { 0 } else { said }, "{output} {others}");
    }
    // Where standard output is not the recording, it stays.
    let mut c = repipe();
    c.args(["inject", "-i"]).arg(&input).arg("-o").arg(dir.join("out")).arg("--dlfilter").arg(&filter);
    let outcome = run(&mut c).expect_ok("to a file");
    assert_eq!(String::from_utf8(outcome.stdout).unwrap().lines().filter(is_said).count(), said);
}

#[test]
fn script_prints_its_lines_in_order_with_those_of_the_filter() {
    let dir = Dir::new();
    let filter = build(&dir, "say.c", "say.so", &[]);
    let input = fixture("plain.data");
    let script = |options: &[&str]| {
        let mut c = repipe();
        c.args(["script", "-F", "tid,time"]).args(options).arg("-i").arg(&input);
        String::from_utf8(run(&mut c).expect_ok("script").stdout).unwrap()
    };
    let plain = script(&[]);
    assert!(plain.lines().count() > 10);
    let mut expected = String::new();
    for (n, line) in (1..).zip(plain.lines()) {
        expected += &format!("early {n}\nlate {n}\n");
        if n % 3 != 0 {
            expected += line;
            expected += "\n";
        }
    }
    expected += "stop\n";
    assert_eq!(script(&["--dlfilter", filter.to_str().unwrap()]), expected);
}
