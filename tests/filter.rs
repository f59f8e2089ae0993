//! `inject --filter` and its short forms: which samples stay, what stays besides, and what perf says of the result.

mod fields;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::builder::{AttrSpec, Builder, Map, Sample, build_id};
use super::support::lab::Perf;
use super::support::oracle;
use super::support::places::{self, left_out};
use super::support::recording::{Recording, feature, kind, st};
use super::support::run::{Dir, inject, inject_pipe, repipe, rewritten, rewritten_bytes, run};
use super::support::wire::Order;

const USER: u64 = -512i64 as u64;
const KERNEL: u64 = -128i64 as u64;
const DEFERRED: u64 = -640i64 as u64;

fn spec() -> AttrSpec {
    AttrSpec::new(st::IP | st::TID | st::TIME | st::ADDR | st::ID | st::CPU | st::PERIOD | st::CALLCHAIN)
}

fn times(order: Order, first: u64, last: u64) -> Vec<u8> {
    let mut raw = Vec::new();
    for word in [first, last] {
        raw.extend_from_slice(&match order {
            Order::Little => word.to_le_bytes(),
            Order::Big => word.to_be_bytes(),
        });
    }
    raw
}

/// Two processes, one of which forks, changes its name and executes another program; times are 1000 to 2000.
fn base(order: Order) -> Builder {
    let chain = |ips: &[u64]| [&[USER], ips].concat();
    let on = |cpu, sample: Sample| Sample { cpu, period: sample.time, addr: sample.time << 8, ..sample };
    Builder::with(order, &spec())
        .identity()
        .feature(feature::SAMPLE_TIME, &times(order, 1000, 2000))
        .build_id_table(&[build_id("/lib/late.so", &[0xab; 20])])
        .at(10, 10, 900)
        .exec(10, "ten")
        .mmap2(&Map::exec(10, 0x40_0000, 0x10_0000, "/bin/ten"))
        .mmap2_build_id(&Map::exec(10, 0x70_0000, 0x10_0000, "/lib/shared.so"), &[0x12; 20])
        .exec(20, "twenty")
        .mmap2(&Map::exec(20, 0x40_0000, 0x10_0000, "/bin/twenty"))
        .sample(&on(0, Sample::user(10, 0x40_0010, 1000).chain(chain(&[0x40_0010, 0x70_0020]))))
        .sample(&on(1, Sample::user(20, 0x40_0010, 1100).chain(chain(&[0x40_0010]))))
        .sample(&on(0, Sample::user(10, 0x70_0020, 1200).chain(chain(&[0x70_0020, 0x40_0050]))))
        .at(10, 10, 1250)
        .fork(11, 10, 11, 10)
        .sample(&on(1, Sample::user(11, 0x40_0010, 1300).chain(chain(&[0x40_0010]))))
        .at(11, 11, 1350)
        .comm(11, 11, "child")
        .sample(&on(2, Sample::user(11, 0x70_0030, 1400).chain(chain(&[0x70_0030]))))
        .at(11, 11, 1450)
        .exec(11, "eleven")
        .mmap2(&Map::exec(11, 0x40_0000, 0x10_0000, "/lib/late.so"))
        .sample(&on(2, Sample::user(11, 0x40_0010, 1500).chain(chain(&[0x40_0010]))))
        .sample(&on(
            0,
            Sample::kernel(10, 0xffff_8000_0000_1000, 1900).chain([KERNEL, 0xffff_8000_0000_1000]),
        ))
        .sample(&on(0, Sample::user(10, 0x40_0010, 2000).tid(12)))
        .finished_round()
}

/// Times of the samples that are left.
fn left(recording: &Recording) -> Vec<u64> {
    recording.of_kind(kind::SAMPLE).map(|r| recording.order.u64(&r.bytes, 24)).collect()
}

fn kept(options: &[&str], recording: &[u8]) -> Vec<u64> {
    left(&rewritten(options, recording))
}

#[test]
fn expressions_choose_samples() {
    for order in Order::BOTH {
        let input = base(order).file();
        for (expr, expected) in [
            ("pid == 10", &[1000, 1200, 1900, 2000][..]),
            ("tid == 12", &[2000]),
            ("tid != 10 and pid == 10", &[2000]),
            ("pid < 11 or pid > 11", &[1000, 1100, 1200, 1900, 2000]),
            ("cpu in {1, 2}", &[1100, 1300, 1400, 1500]),
            ("cpu not in 0..1", &[1400, 1500]),
            ("time >= 0.0000015", &[1500, 1900, 2000]),
            ("time > 1500ns", &[1900, 2000]),
            ("time in +100ns..+300ns", &[1100, 1200, 1300]),
            ("time in 10%..30%", &[1100, 1200]),
            ("time in {10%/1, 10%/10}", &[1000, 1900, 2000]),
            ("time <= 10%", &[1000, 1100]),
            ("time < 10%", &[1000]),
            ("cpumode == kernel", &[1900]),
            ("ip == 0x400010 and addr == 0x44c00", &[1100]),
            ("period in ..1100", &[1000, 1100]),
            ("frame.ip == 0x700020", &[1000, 1200]),
            ("frame.ip in 0x400050..0x400060", &[1200]),
            ("comm == ten", &[1000, 1200, 1300, 1900]),
            ("comm =~ '^(child|eleven)$'", &[1400, 1500]),
            ("comm == :12", &[2000]),
            ("dso == /bin/ten", &[1000, 1300, 2000]),
            ("dso == late.so", &[1500]),
            ("dso =~ 'shared'", &[1200, 1400]),
            ("frame.dso == shared.so", &[1000, 1200, 1400]),
            ("frame.dso != shared.so and cpumode == user", &[1100, 1300, 1500, 2000]),
            ("build-id == 1212121212121212121212121212121212121212", &[1200, 1400]),
            ("build-id =~ ^abab", &[1500]),
            ("frame.build-id =~ ^12", &[1000, 1200, 1400]),
            ("not (dso =~ . or cpumode == kernel)", &[]),
            ("(pid == 10 and not cpu == 0) or pid == 20 && comm == twenty", &[1100]),
            ("symbol =~ .", &[]),
        ] {
            assert_eq!(kept(&["--filter", expr], &input), expected, "{expr}");
        }
    }
}

#[test]
fn frames_of_the_program_before_an_exec_are_known() {
    for order in Order::BOTH {
        let chain = [KERNEL, 0xffff_8000_0000_1000, USER, 0x40_0010];
        let sample = |time| Sample::kernel(10, 0xffff_8000_0000_1000, time).chain(chain);
        let input = Builder::with(order, &spec())
            .at(10, 10, 900)
            .exec(10, "old")
            .mmap2(&Map::exec(10, 0x40_0000, 0x10_0000, "/bin/old"))
            .sample(&sample(1000))
            .at(10, 10, 1050)
            .exec(10, "new")
            .sample(&sample(1100))
            .at(10, 10, 1150)
            .mmap2(&Map::exec(10, 0x40_0000, 0x10_0000, "/bin/new"))
            .sample(&sample(1200))
            .finished_round()
            .file();
        assert_eq!(kept(&["--filter", "frame.dso == /bin/old"], &input), [1000, 1100]);
        assert_eq!(kept(&["--filter", "frame.dso == /bin/new"], &input), [1200]);
    }
}

#[test]
fn short_forms_and_expressions_must_all_hold() {
    let input = base(Order::Little).file();
    for (options, expected) in [
        (&["--pid", "10,20", "--cpu", "1-2"][..], &[1100][..]),
        (&["--tid=11", "--comm=child,eleven"], &[1400, 1500]),
        (&["--comms", "eleven"], &[1500]),
        (&["--time", "10%/2"], &[1100]),
        (&["--time", ",0.0000012 0.0000019,"], &[1000, 1100, 1200, 1900, 2000]),
        (&["--dso", "ten,late.so", "--filter", "time < 50%"], &[1000, 1300]),
        (&["--filter", "pid == 10", "--filter", "cpumode == user", "--dsos=/lib/shared.so"], &[1200]),
    ] {
        assert_eq!(kept(options, &input), expected, "{options:?}");
    }
}

#[test]
fn only_samples_go_and_their_times_are_told() {
    for order in Order::BOTH {
        let input = base(order).finish();
        let out = rewritten(&["--filter", "pid == 11"], &input.to_file());
        assert_eq!(left(&out), [1300, 1400, 1500]);
        let others = |r: &Recording| r.records.iter().filter(|x| x.kind(order) != kind::SAMPLE).count();
        assert_eq!(others(&out), others(&input));
        assert_eq!(out.features[&feature::SAMPLE_TIME], times(order, 1300, 1500));
        let mut same = input.features.clone();
        same.insert(feature::SAMPLE_TIME, times(order, 1300, 1500));
        assert_eq!(out.features, same);

        let none = rewritten(&["--filter", "pid == 99"], &input.to_file());
        assert_eq!(none.count(kind::SAMPLE), 0);
        assert!(!none.features.contains_key(&feature::SAMPLE_TIME));
    }
}

#[test]
fn a_filter_that_keeps_all_changes_no_byte() {
    for order in Order::BOTH {
        let input = base(order).file();
        for expr in ["pid >= 0", "comm =~ .", "frame.symbol != f"] {
            assert!(rewritten_bytes(&["--filter", expr], &input) == input, "{expr}");
        }
    }
}

#[test]
fn pipes_carry_no_times_that_are_not_known_yet() {
    let input = base(Order::Little);
    let dir = Dir::new();
    let path = dir.file("in", &input.file());
    let from_file = inject(&["--filter", "time < 20%"], &path, Path::new("-")).expect_ok("to a pipe");
    assert!(from_file.stderr.contains("SAMPLE_TIME is left out"), "{}", from_file.stderr);
    for out in [from_file.stdout, inject_pipe(&["--time", "20%"], &input.pipe()).expect_ok("pipe").stdout] {
        let out = oracle::parse(&out).unwrap();
        assert!(left(&out).starts_with(&[1000, 1100]), "{:?}", left(&out));
        assert!(
            out.of_kind(kind::HEADER_FEATURE)
                .all(|r| out.order.u64(&r.bytes, 8) != u64::from(feature::SAMPLE_TIME))
        );
    }
    let out = dir.join("out");
    let mut c = repipe();
    c.args(["inject", "--pid", "11", "-o"]).arg(&out);
    super::support::run::run_with(&mut c, &input.pipe()).expect_ok("pipe to file");
    assert_eq!(oracle::read(&out).unwrap().features[&feature::SAMPLE_TIME], times(Order::Little, 1300, 1500));
}

#[test]
fn what_a_dropped_sample_hit_gets_no_build_id() {
    let dir = Dir::new();
    let elf = super::support::elf::with_id(&[0x77; 20]);
    std::fs::create_dir(dir.join("bin")).unwrap();
    for name in ["bin/ten", "bin/twenty"] {
        dir.file(name, &elf);
    }
    let input = base(Order::Little).file();
    let symfs = dir.path().to_str().unwrap();
    for (pid, ten, twenty) in [("10", true, false), ("20", false, true)] {
        let out = rewritten(&["-b", "--symfs", symfs, "--pid", pid], &input);
        let names: Vec<String> = oracle::injected_of(&out).into_iter().map(|b| b.name).collect();
        let has = |name: &str| names.iter().any(|n| n == name);
        assert_eq!((has("/bin/ten"), has("/bin/twenty")), (ten, twenty), "{names:?}");
    }
}

#[test]
fn lost_records_stay_unless_time_cpu_and_event_tell_against_them() {
    let lost = |expr: &str| {
        let mut b = Builder::with(Order::Little, &spec())
            .feature(feature::SAMPLE_TIME, &times(Order::Little, 1000, 2000));
        b.id.cpu = 1;
        let input = b
            .at(10, 10, 1500)
            .lost(1, 5)
            .lost_samples(7)
            .sample(&Sample { cpu: 1, ..Sample::user(10, 0x10, 1500) })
            .finished_round();
        let out = rewritten(&["--filter", expr], &input.file());
        (out.count(kind::LOST), out.count(kind::LOST_SAMPLES), out.count(kind::SAMPLE))
    };
    assert_eq!(lost("time < 1400ns"), (0, 0, 0));
    assert_eq!(lost("time >= 1400ns"), (1, 1, 1));
    assert_eq!(lost("cpu == 0 or time < 1400ns"), (0, 0, 0));
    assert_eq!(lost("cpu == 0 or pid == 99"), (1, 1, 0));
    assert_eq!(lost("cpu == 0 and pid == 10"), (0, 0, 0));
    assert_eq!(lost("pid == 99"), (1, 1, 0));
    assert_eq!(lost("not cpu == 1"), (0, 0, 0));
}

#[test]
fn the_rest_of_a_deferred_callchain_goes_with_its_samples() {
    let mut attr = spec();
    attr.flags |= 1 << 38;
    let mut input = Builder::with(Order::Little, &attr);
    for (pid, time, cookie) in [(10, 1000, 7), (20, 1001, 8), (10, 1002, 9), (20, 1003, 9)] {
        input = input.sample(&Sample::user(pid, 0x10, time).chain([USER, 0x10, DEFERRED, cookie]));
    }
    for (time, cookie) in [(1010, 7), (1011, 8), (1012, 9), (1013, 5)] {
        input = input.at(10, 10, time).callchain_deferred(cookie, &[0x10]);
    }
    for expr in ["pid == 10", "comm == :10"] {
        let out = rewritten(&["--filter", expr], &input.file());
        let cookies: Vec<u64> =
            out.of_kind(kind::CALLCHAIN_DEFERRED).map(|r| out.order.u64(&r.bytes, 8)).collect();
        assert_eq!(cookies, [7, 9, 5], "{expr}");
    }
}

#[test]
fn pruning_leaves_what_the_samples_that_stay_need() {
    for order in Order::BOTH {
        let input = base(order)
            .mmap2(&Map::kernel(0xffff_8000_0000_0000, 0x10_0000))
            .comm(0, 0, "swapper")
            .comm(10, 12, "thread")
            .exit(20, 1, 20, 1)
            .finish()
            .to_file();
        let side_band = |pid: &str| {
            let out = rewritten(&["--prune", "--pid", pid], &input);
            [kind::MMAP2, kind::COMM, kind::FORK, kind::EXIT].map(|k| {
                let tid = |r: &super::support::recording::Record| {
                    let at = if matches!(k, kind::FORK | kind::EXIT) { 16 } else { 12 };
                    order.u32(&r.bytes, at).cast_signed()
                };
                out.of_kind(k).map(tid).collect::<Vec<_>>()
            })
        };
        assert_eq!(side_band("20"), [vec![20, -1], vec![20, 0], vec![], vec![20]]);
        // Thread 12 of process 10 has a sample; 11 is a child of 10, and nothing of 20 is needed.
        assert_eq!(side_band("10"), [vec![10, 10, -1], vec![10, 0, 12], vec![], vec![]]);
        assert_eq!(side_band("11"), [vec![10, 10, 11, -1], vec![10, 11, 11, 0], vec![11], vec![]]);
        assert_eq!(side_band("99"), [vec![-1], vec![0], vec![], vec![]]);
        let all = rewritten(&["--prune"], &input);
        assert_eq!((all.count(kind::SAMPLE), all.count(kind::MMAP2), all.count(kind::COMM)), (8, 5, 6));
    }
}

#[test]
fn pruning_refuses_what_it_cannot_foresee() {
    let outcome = inject_pipe(&["--prune"], &base(Order::Little).pipe());
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("--prune reads the recording twice"), "{}", outcome.stderr);
    let dir = Dir::new();
    let path = dir.file("in", &base(Order::Little).auxtrace_info(1, &[0]).file());
    let outcome = inject(&["--prune"], &path, &dir.join("out")).expect_usage("AUX data");
    assert!(outcome.stderr.contains("does not go with AUX data"), "{}", outcome.stderr);
    assert_eq!(dir.names(), ["in"]);
}

#[test]
fn events_go_by_name() {
    let order = Order::Little;
    let second = AttrSpec { config: 2, ..spec().ids([2]) };
    let mut input = Builder::with(order, &spec()).attr(&second);
    for (id, time) in [(1, 1000), (2, 1001), (1, 1002)] {
        input = input.sample(&Sample::user(10, 0x10, time).event(id));
    }
    // Named by the attr alone, and by EVENT_DESC.
    let plain = input.file();
    assert_eq!(kept(&["--event", "page-faults"], &plain), [1001]);
    let named = input.event_desc(&["one:u", "sched:two"]).file();
    assert_eq!(kept(&["--event", "one"], &named), [1000, 1002]);
    assert_eq!(kept(&["--event", "one:u,sched:two"], &named), [1000, 1001, 1002]);
    assert_eq!(kept(&["--filter", "event =~ sched:"], &named), [1001]);
    let fault = fails(&["--filter", "event in {one, three}"], &named);
    assert!(fault.contains("no event of this name"), "{fault}");
    assert!(
        fault.ends_with("    event in {one, three}\n                   ^^^^^ events: one:u, sched:two\n"),
        "{fault}"
    );
}

#[test]
fn a_filter_that_keeps_nothing_says_so() {
    let input = base(Order::Little).file();
    let dir = Dir::new();
    let path = dir.file("in", &input);
    let said = |options: &[&str]| {
        let outcome = inject(options, &path, &dir.join("out")).expect_ok("inject");
        let warning = outcome.stderr.lines().find(|l| l.contains("kept ")).map(str::to_owned);
        (left(&oracle::read(&dir.join("out")).unwrap()).len(), warning)
    };
    let warned = |what: &str| (0, Some(format!("repipe: warning: kept 0 of 8 samples: none meets {what}")));
    for (options, what) in [
        (&["--comm", "nosuch"][..], "--comm nosuch"),
        (&["--dso", "nosuch.so"], "--dso nosuch.so"),
        (&["--symbol", "nosuch"], "--symbol nosuch"),
        (&["--filter", "comm == \"x\""], "--filter comm == \"x\""),
        (&["--filter", "event =~ nosuch"], "--filter event =~ nosuch"),
        (&["--pid", "11", "--cpu=0"], "--pid 11 and --cpu 0"),
        (&["--comm", "a\x1b[2J"], "--comm a [2J"),
    ] {
        assert_eq!(said(options), warned(what), "{options:?}");
    }
    let long = format!("comm == {}", "x".repeat(1000));
    assert_eq!(said(&["--filter", &long]), warned(&format!("--filter comm == {}…", "x".repeat(52))));
    assert_eq!(said(&["--comm", "ten"]), (4, None));
    assert_eq!(said(&["--comm", "nosuch", "-q"]), (0, None));
    let none = Builder::with(Order::Little, &spec()).at(10, 10, 900).exec(10, "ten").file();
    let path = dir.file("none", &none);
    let outcome = inject(&["--comm", "nosuch"], &path, &dir.join("out")).expect_ok("no sample");
    assert!(!outcome.stderr.contains("kept"), "{}", outcome.stderr);
}

#[test]
fn faults_do_not_fill_or_steer_the_terminal() {
    let input = base(Order::Little).file();
    let long = format!("{}pid = 3", "pid == 1 or ".repeat(10_000));
    let fault = fails(&["--filter", &long], &input);
    assert!(fault.len() < 400 && fault.contains("or pid = 3\n"), "{} {fault}", fault.len());
    for expr in ["pid ==\n\x1b[2J\r3", "\x1b]0;title\x07", "comm =~ '\x1b[2J('", "event == \x1b[2J"] {
        let fault = fails(&["--filter", expr], &input);
        assert!(fault.chars().all(|c| c == '\n' || !c.is_control()), "{fault:?}");
    }
    let named =
        Builder::with(Order::Little, &spec()).sample(&Sample::user(1, 1, 1)).event_desc(&["\x1b[2Jevil"]);
    let fault = fails(&["--event", "other"], &named.file());
    assert!(fault.contains(r"events: \u{1b}[2Jevil"), "{fault:?}");
}

/// The message of a run that is refused, with nothing left.
fn fails(options: &[&str], bytes: &[u8]) -> String {
    let dir = Dir::new();
    let path = dir.file("in", bytes);
    let outcome = inject(options, &path, &dir.join("out"));
    assert_eq!(outcome.code, Some(2), "{options:?}: {}", outcome.stderr);
    assert_eq!(dir.names(), ["in"]);
    outcome.stderr
}

#[test]
fn faults_show_their_place() {
    let input = base(Order::Little).file();
    assert_eq!(
        fails(&["--filter", "pid = 3"], &input),
        "repipe: --filter: an operator is expected here\n    pid = 3\n        ^ equality is written ==\n"
    );
    let fault = fails(&["--time", "1,2 x,3"], &input);
    assert!(fault.contains("--time: this is no time in seconds\n    1,2 x,3\n        ^"), "{fault}");
    let no_cpu = Builder::with(Order::Little, &AttrSpec::plain()).sample(&Sample::user(1, 1, 1)).file();
    let fault = fails(&["--filter", "pid == 1 and cpu == 3"], &no_cpu);
    assert!(fault.contains("no CPU\n    pid == 1 and cpu == 3\n                 ^^^"), "{fault}");
    for (options, option, source, carets) in [
        (&["--filter", "time > +1s"][..], "--filter", "time > +1s", "           ^^^"),
        (&["--time", "10%"], "--time", "10%", "    ^^^"),
    ] {
        let fault = fails(options, &no_cpu);
        assert!(fault.contains(&format!(": {option}: the recording does not say when")), "{fault}");
        assert!(fault.contains(&format!("\n    {source}\n{carets} ")), "{fault}");
    }
}

#[test]
fn the_reference_is_a_help_topic() {
    let outcome = run(repipe().args(["help", "filter"])).expect_ok("help filter");
    let page = std::fs::read_to_string(places::root().join("docs/filter.md")).unwrap();
    assert_eq!(String::from_utf8(outcome.stdout).unwrap(), page);
    for field in [
        "pid", "cpu", "time", "cpumode", "event", "ip", "addr", "period", "comm", "dso", "build-id", "symbol",
    ] {
        assert!(page.contains(&format!("`{field}`")), "{field}");
    }
}

/// What perf prints of the samples, with everything that a filter could mix up.
fn script(perf: &Path, options: &[&str], path: &Path) -> String {
    let symfs = places::root().join("fixtures/symfs");
    let mut c = Command::new(perf);
    c.args(["script", "--ns", "-F", "comm,pid,tid,time,event,ip,sym,dso,period"]).args(options);
    let outcome = run(c.arg("--symfs").arg(symfs).arg("-i").arg(path)).expect_ok("perf script");
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

/// A pid, or `None`, of the recording's samples.
fn pids(text: &str) -> Vec<String> {
    let mut pids: Vec<String> = text
        .lines()
        .filter_map(|l| l.split_whitespace().find(|w| w.contains('/'))?.split('/').next().map(str::to_owned))
        .filter(|p| p.parse::<u32>().is_ok())
        .collect();
    pids.sort();
    pids.dedup();
    pids
}

#[test]
fn perf_script_chooses_the_same_samples() {
    let Some(perf) = places::perf() else { return };
    let fixture = |name: &str| places::root().join("fixtures").join(name);
    let symfs = places::root().join("fixtures/symfs");
    let (mut compared, mut chosen) = (0, 0);
    for name in ["plain.data", "g.data", "forks.data", "z.data"] {
        let input = fixture(name);
        let all = script(&perf, &[], &input);
        let some_pid = pids(&all).pop().unwrap();
        let first: f64 = all.split_whitespace().find_map(|w| w.strip_suffix(':')?.parse().ok()).unwrap();
        let later = format!("{:.6},{:.6}", first + 0.05, first + 0.2);
        let from = format!("{:.9},", first + 0.1);
        let two = format!(",{:.7} {:.7},", first + 0.01, first + 0.15);
        for (theirs, ours) in [
            (vec!["--time", &from], vec!["--time", &from]),
            (vec!["--time", &two], vec!["--time", &two]),
            (vec!["--time", &later], vec!["--time", &later]),
            (vec!["--pid", &some_pid], vec!["--pid", &some_pid]),
            (vec!["--tid", &some_pid], vec!["--tid", &some_pid]),
            (vec!["--comms", "work"], vec!["--comm", "work"]),
            (vec!["--dsos", "work"], vec!["--dso", "work"]),
            (vec!["--dsos", "libburn.so"], vec!["--dso", "libburn.so"]),
            (vec!["-S", "burn"], vec!["--symbol", "burn"]),
        ] {
            let dir = Dir::new();
            let out = dir.join("out");
            let ours: Vec<&str> = [&["--symfs", symfs.to_str().unwrap()], ours.as_slice()].concat();
            inject(&ours, &input, &out).expect_ok(name);
            let (before, mut after) = (script(&perf, &theirs, &input), script(&perf, &[], &out));
            assert!(
                before == after,
                "{name}: {theirs:?} {ours:?}: {} and {} bytes",
                before.len(),
                after.len()
            );
            inject(&[&["--prune"], ours.as_slice()].concat(), &input, &out).expect_ok("--prune");
            after = script(&perf, &[], &out);
            assert!(
                before == after,
                "{name}: {theirs:?} {ours:?}: {} and {} bytes",
                before.len(),
                after.len()
            );
            compared += 1;
            chosen += usize::from(!after.is_empty() && after.len() < all.len());
        }
    }
    assert_eq!(compared, 36);
    assert!(chosen >= 20, "{chosen} of the filters choose");
}

#[test]
fn perf_script_chooses_the_same_samples_of_a_whole_system() {
    let Some(perf) = Perf::here() else { return };
    let recent = perf.is_recent_enough_for("names of threads that ended");
    let perf = perf.path;
    let dir = Dir::new();
    let input: PathBuf = dir.join("in");
    let mut c = Command::new(&perf);
    c.args(["record", "-q", "-N", "-a", "-g", "-e", "cpu-clock", "-F", "2000", "-o"]).arg(&input);
    c.args(["--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do ls -lR /usr/share > /dev/null; done"]);
    if !run(&mut c).ok() || !input.exists() {
        return left_out("perf cannot record the whole system here");
    }
    let text = |options: &[&str], path: &Path| {
        let mut c = Command::new(&perf);
        c.args(["script", "--ns", "-G", "-F", "comm,pid,tid,cpu,time,event,ip,sym,dso"]).args(options);
        String::from_utf8_lossy(&run(c.arg("-i").arg(path)).expect_ok("script").stdout).into_owned()
    };
    for (theirs, ours) in [
        (["--cpu", "0"], ["--cpu", "0"]),
        (["--time", "10%/2"], ["--filter", "time in 10%/2"]),
        (["--time", "0%-10%,30%-40%"], ["--time", "0%-10%,30%-40%"]),
        (["--time", "50%-100%"], ["--filter", "time in 50%..100%"]),
        (["--comms", "ls"], ["--comm", "ls"]),
        (["--comms", "ls,sh"], ["--filter", "comm in {sh, ls}"]),
        (["--time", "20%-40%"], ["--time", "20%-40%"]),
        (["--dsos", "libc.so.6"], ["--dso", "libc.so.6"]),
        (["-S", "do_syscall_64"], ["--symbol", "do_syscall_64"]),
    ] {
        // before 6.8, perf went on to call a thread by its name when it had ended
        if theirs[0] == "--comms" && !recent {
            continue;
        }
        let out = dir.join("out");
        inject(&ours, &input, &out).expect_ok(ours[1]);
        let (before, after) = (text(&theirs, &input), text(&[], &out));
        assert!(before == after, "{ours:?}: {} and {} lines", before.lines().count(), after.lines().count());
    }
}
