//! `repipe script`: what it prints of the fixtures, and that perf prints the same of them, of recordings made here, and
//! of the corpus.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::support::builder::{AttrSpec, Builder, Map, Sample};
use super::support::lab::{Perf, ours, same_lines};
use super::support::places;
use super::support::recording::st;
use super::support::run::{Dir, Outcome, repipe, run, run_limited, run_with};
use super::support::wire::Order;

fn fixture(name: &str) -> PathBuf {
    places::root().join("fixtures").join(name)
}

fn symfs() -> PathBuf {
    fixture("symfs")
}

/// `repipe script` of a fixture, with the fixtures' programs.
fn script(options: &[&str], name: &str) -> Outcome {
    run(repipe().arg("script").arg("--symfs").arg(symfs()).args(options).arg("-i").arg(fixture(name)))
}

#[track_caller]
fn text(options: &[&str], name: &str) -> String {
    let outcome = script(options, name).expect_ok(&format!("{options:?} {name}"));
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

fn first_lines(text: &str, count: usize) -> Vec<&str> {
    text.lines().take(count).collect()
}

#[test]
fn samples_callchains_and_unwound_stacks_of_the_fixtures() {
    assert_eq!(
        first_lines(&text(&[], "plain.data"), 2),
        [
            "            work    2292  2495.013807:    1000000 cpu-clock:u:            400169 inner+0x16 \
             (/usr/local/share/repipe-fixtures/work)",
            "            work    2292  2495.014807:    1000000 cpu-clock:u:      7f30159fe272 mix+0x24 \
             (/usr/local/share/repipe-fixtures/libburn.so)",
        ]
    );
    assert_eq!(
        first_lines(&text(&[], "g.data"), 6),
        [
            "work    2351  2495.366321:    1000000 cpu-clock:u: ",
            "\t          40016f inner+0x1c (/usr/local/share/repipe-fixtures/work)",
            "\t          400243 work+0x62 (/usr/local/share/repipe-fixtures/work)",
            "\t          400272 start+0x2a (/usr/local/share/repipe-fixtures/work)",
            "\t          400152 _start+0xe (/usr/local/share/repipe-fixtures/work)",
            "",
        ]
    );
    assert_eq!(
        first_lines(&text(&[], "dwarf.data"), 8),
        [
            "work    2392  2495.757781:   10000000 cpu-clock:u: ",
            "\t    7fd15e8a1272 mix+0x24 (/usr/local/share/repipe-fixtures/libburn.so)",
            "\t    7fd15e8a128c burn+0x10 (/usr/local/share/repipe-fixtures/libburn.so)",
            "\t          4001b7 outer+0x2a (/usr/local/share/repipe-fixtures/work)",
            "\t          400242 work+0x61 (/usr/local/share/repipe-fixtures/work)",
            "\t          400271 start+0x29 (/usr/local/share/repipe-fixtures/work)",
            "\t          400151 _start+0xd (/usr/local/share/repipe-fixtures/work)",
            "",
        ]
    );
}

#[test]
fn json_has_the_same_samples_as_the_text() {
    let json = text(&["--json"], "g.data");
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["time"], 2_495_366_321_574u64);
    assert_eq!((&first["comm"], &first["tid"]), (&"work".into(), &2351.into()));
    assert_eq!(first["callchain"][0]["ip"], "0x40016f");
    assert_eq!(
        (&first["callchain"][0]["sym"], &first["callchain"][0]["symoff"]),
        (&"inner".into(), &28.into())
    );
    let ips = |text: &str| -> Vec<String> {
        let frames = text.lines().filter_map(|line| line.strip_prefix('\t'));
        frames.map(|frame| frame.split_whitespace().next().unwrap().to_owned()).collect()
    };
    let mut of_json = Vec::new();
    for line in json.lines() {
        let sample: serde_json::Value = serde_json::from_str(line).unwrap();
        for frame in sample["callchain"].as_array().unwrap() {
            of_json.push(frame["ip"].as_str().unwrap().trim_start_matches("0x").to_owned());
        }
    }
    assert_eq!(of_json, ips(&text(&[], "g.data")));
}

#[test]
fn where_symbols_come_from_and_what_memory_they_have_changes_nothing() {
    for name in ["plain.data", "g.data", "dwarf.data", "forks.data"] {
        let lazy = text(&[], name);
        assert!(lazy.contains("inner+0x"), "{name}");
        assert_eq!(text(&["--eager-symbols"], name), lazy, "{name}");
        assert_eq!(text(&["--memory-limit", "1"], name), lazy, "{name}");
        let piped = std::fs::read(fixture(name)).unwrap();
        let repiped =
            run_with(repipe().args(["inject", "-i"]).arg(fixture(name)), &[]).expect_ok("to a pipe");
        let from_pipe =
            run_with(repipe().args(["script", "-i", "-", "--symfs"]).arg(symfs()), &repiped.stdout)
                .expect_ok("pipe");
        assert_eq!(String::from_utf8_lossy(&from_pipe.stdout), lazy, "{name}: {} bytes", piped.len());
    }
    let none = Dir::new();
    let outcome =
        run(repipe().arg("script").arg("--symfs").arg(none.path()).arg("-i").arg(fixture("plain.data")));
    let bare = String::from_utf8_lossy(&outcome.expect_ok("without files").stdout).into_owned();
    assert!(bare.lines().all(|line| line.contains(" [unknown] (/usr/local/")), "{bare}");
}

#[test]
fn fields_and_filters() {
    assert_eq!(first_lines(&text(&["-F", "ip,sym"], "plain.data"), 1), ["           400169 inner"]);
    assert_eq!(first_lines(&text(&["-F", "comm,pid"], "plain.data"), 1), ["            work    2292 "]);
    assert_eq!(first_lines(&text(&["-G", "-F", "ip"], "g.data"), 1), ["           40016f"]);
    assert_eq!(text(&["-F", "hw:ip"], "plain.data"), text(&[], "plain.data"));
    assert!(text(&["--ns"], "plain.data").starts_with("            work    2292  2495.013807"));
    let all = text(&["-F", "tid,time"], "forks.data");
    let tid = all.split_whitespace().next().unwrap();
    let of_tid: Vec<&str> = all.lines().filter(|line| line.split_whitespace().next() == Some(tid)).collect();
    assert!(of_tid.len() < all.lines().count());
    assert_eq!(text(&["-F", "tid,time", "--tid", tid], "forks.data").lines().collect::<Vec<_>>(), of_tid);
    assert_eq!(text(&["--pid", "1"], "forks.data"), "");
    assert_eq!(text(&["--comms", "nobody"], "forks.data"), "");
    let times: Vec<&str> = all.split_whitespace().filter_map(|word| word.strip_suffix(':')).collect();
    let (from, to) = (times[10], times[20]);
    let span = text(&["-F", "tid,time", "--time", &format!("{from},{to}")], "forks.data");
    // times are cut to microseconds, so the last one may lie behind the end
    assert!(matches!(span.lines().count(), 10 | 11), "{span}");
    for wrong in [
        &["-F", "nothing"][..],
        &["--time", "soon"],
        &["--cpu", "x"],
        &["--cpu", "0"],
        &["-F", "cpu"],
        &["--pid", "x"],
    ] {
        let outcome = script(wrong, "plain.data");
        assert_eq!(outcome.code, Some(2), "{wrong:?}: {}", outcome.stderr);
        assert!(outcome.stdout.is_empty(), "{wrong:?}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut c = Command::new("sh");
    c.arg("-c").arg("\"$0\" script -i \"$1\" | head -n 1; exit ${PIPESTATUS:-0}");
    let outcome = run(c.arg(env!("CARGO_BIN_EXE_repipe")).arg(fixture("z.data")));
    assert_eq!((outcome.stderr.as_str(), outcome.stdout.iter().filter(|&&b| b == b'\n').count()), ("", 1));
}

#[test]
fn json_has_the_address_of_a_sample_whose_callchain_is_empty() {
    let attr = AttrSpec::new(st::IP | st::TID | st::TIME | st::CALLCHAIN);
    let chain =
        |callchain: &[u64]| Sample { callchain: callchain.to_vec(), ..Sample::user(7, 0x40_0010, 100) };
    let bytes = Builder::with(Order::Little, &attr)
        .at(7, 7, 50)
        .mmap2(&Map::exec(7, 0x40_0000, 0x1000, "/nowhere/app"))
        .sample(&chain(&[]))
        .sample(&chain(&[0xffff_ffff_ffff_fe00, 0x40_0020]))
        .file();
    let dir = Dir::new();
    let input = dir.file("in", &bytes);
    let outcome =
        run(repipe().args(["script", "--json", "-F", "ip,dso", "-i"]).arg(&input)).expect_ok("json");
    let lines = String::from_utf8_lossy(&outcome.stdout).into_owned();
    let expected = [
        r#"{"ip":"0x400010","dso":"/nowhere/app"}"#,
        r#"{"callchain":[{"ip":"0x400020","dso":"/nowhere/app"}]}"#,
    ];
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_file_without_the_kernels_symbols_is_told_of() {
    let kernel = 0xffff_ffff_8100_0000;
    let bytes = Builder::with(Order::Little, &AttrSpec::plain())
        .at(7, 7, 50)
        .mmap(&Map::kernel(kernel, 0x100_0000))
        .sample(&Sample::kernel(7, kernel + 0x10, 100))
        .file();
    let dir = Dir::new();
    let input = dir.file("in", &bytes);
    let (text, empty) = (dir.file("text", b"root:x:0:0::/root:/bin/sh\n"), dir.file("empty", b""));
    let list =
        dir.file("list", b"ffffffff81000000 T _text\nffffffff81000000 T start\nffffffff81001000 T end\n");
    let elf = std::env::current_exe().unwrap();
    let run = |option: &str, file: &std::path::Path, more: &[&str]| {
        let mut c = repipe();
        c.args(["script", "-F", "ip,sym", option]).arg(file).args(more).arg("-i").arg(&input);
        run(&mut c).expect_ok(option)
    };
    for (option, file) in [
        ("--vmlinux", &text),
        ("--vmlinux", &empty),
        ("--vmlinux", &elf),
        ("--vmlinux", &dir.path().to_path_buf()),
        ("--kallsyms", &text),
        ("--kallsyms", &empty),
        ("--kallsyms", &elf),
        ("--kallsyms", &dir.path().to_path_buf()),
    ] {
        let outcome = run(option, file, &[]);
        let said = outcome.stderr;
        assert!(
            said.starts_with("repipe: warning: ") && said.contains(file.to_str().unwrap()),
            "{option}: {said}"
        );
        assert!(said.ends_with("; so the kernel has none\n"), "{option}: {said}");
        assert!(String::from_utf8_lossy(&outcome.stdout).contains("[unknown]"), "{option}");
        assert_eq!(run(option, file, &["--quiet"]).stderr, "", "{option}");
    }
    let outcome = run("--kallsyms", &list, &[]);
    assert_eq!((outcome.stderr.as_str(), outcome.stdout.ends_with(b" start\n")), ("", true));
}

#[test]
fn json_holds_whatever_names_hold() {
    let comm = "a\"b\\c\u{1}\n\u{7f}\u{2028}XY";
    let path = "/nowhere/\u{1b}[31m{\"x\": \"XYXY\t}";
    let bytes = Builder::with(Order::Little, &AttrSpec::plain())
        .at(7, 7, 50)
        .comm(7, 7, comm)
        .mmap2(&Map::exec(7, 0x40_0000, 0x1000, path))
        .sample(&Sample::user(7, 0x40_0010, 100))
        .sample(&Sample::user(7, 0x40_0020, 200))
        .file();
    // Names that are no UTF-8: the kernel takes any bytes.
    let mut bytes = bytes;
    let broken: Vec<usize> =
        bytes.windows(2).enumerate().filter(|(_, w)| w == b"XY").map(|(at, _)| at).collect();
    assert_eq!(broken.len(), 3);
    broken.iter().for_each(|&at| bytes[at..at + 2].copy_from_slice(&[0xff, 0xc0]));
    let dir = Dir::new();
    let input = dir.file("in", &bytes);
    let outcome = run(repipe().args(["script", "--json", "-i"]).arg(&input)).expect_ok("json");
    let lines: Vec<&[u8]> = outcome.stdout.split_inclusive(|&b| b == b'\n').collect();
    assert_eq!(lines.len(), 2, "{}", String::from_utf8_lossy(&outcome.stdout));
    for line in lines {
        let sample: serde_json::Value = serde_json::from_slice(line).unwrap();
        assert_eq!(sample["comm"], comm.replace("XY", "\u{fffd}\u{fffd}"));
        assert_eq!(sample["dso"], path.replace("XY", "\u{fffd}\u{fffd}"));
    }
    // As text, names are what they are, as perf has it.
    let outcome = run(repipe().args(["script", "-F", "comm", "-i"]).arg(&input)).expect_ok("text");
    assert!(outcome.stdout.windows(3).any(|w| w == [0xff, 0xc0, b' ']));
}

#[test]
fn what_is_missing_is_named() {
    let plain = fixture("plain.data");
    for (options, named) in [
        (&["-i", "/nowhere/perf.data"][..], "/nowhere/perf.data"),
        (&["-i", "/dev/null"], "the input is empty"),
        (&["-k", "/nowhere/vmlinux"], "/nowhere/vmlinux"),
        (&["--kallsyms", "/nowhere/kallsyms"], "/nowhere/kallsyms"),
    ] {
        let mut c = repipe();
        c.arg("script").args(options);
        if options[0] != "-i" {
            c.arg("-i").arg(&plain);
        }
        let outcome = run(&mut c).expect_failure(named);
        assert!(outcome.stderr.contains(named) && outcome.stdout.is_empty(), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    }
    let outcome = script(&["-F", "comm,colour"], "plain.data");
    for known in ["colour", "comm", "symoff", "period"] {
        assert!(outcome.stderr.contains(known), "{}", outcome.stderr);
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = repipe().args(["script", "-i"]).arg(&plain).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("No space left"), "{ended:?}");
}

#[test]
fn hostile_files_end_in_order() {
    for path in places::hostile() {
        let mut c = repipe();
        c.args(["script", "-i"]).arg(&path);
        let outcome = run_limited("-d 131072", &c, &[]);
        let name = places::name(&path);
        assert!(matches!(outcome.code, Some(0..=2)), "{name}: {:?} {}", outcome.code, outcome.stderr);
        assert!(!outcome.stderr.contains("panicked"), "{name}: {}", outcome.stderr);
        assert!(outcome.took < Duration::from_secs(20), "{name}: {:?}", outcome.took);
    }
}

#[test]
fn perf_prints_the_same_of_the_fixtures() {
    let Some(perf) = Perf::here().filter(|p| p.is_recent_enough_for("the fixtures")) else { return };
    let root = symfs();
    let at = ["--symfs", root.to_str().unwrap()];
    for name in ["plain.data", "g.data", "dwarf.data", "pipe.data", "z.data", "forks.data"] {
        let input = fixture(name);
        same_lines(name, &ours(&at, &input), &perf.script(&[], &at, &input).unwrap());
    }
    let g = fixture("g.data");
    for options in [
        &["-G"][..],
        &["--ns"],
        &["-F", "comm,pid,tid,time"],
        &["-F", "ip"],
        &["-F", "ip,sym,symoff"],
        &["-F", "-period,-time"],
        &["-F", "sw:comm,ip,sym,dso"],
        &["-F", "comm,sym"],
        &["--time", "10%/2"],
        &["--time", "0%-10%,30%-40%"],
        &["--time", "2495.4,2495.5"],
        &["--comms", "work"],
    ] {
        let options: Vec<&str> = at.iter().chain(options).copied().collect();
        // perf wants the times of first and last sample, which recordings without build-ids do not have
        if let Some(perfs) = perf.script(&[], &options, &g) {
            same_lines(&format!("{options:?}"), &ours(&options, &g), &perfs);
        }
    }
}

#[test]
fn perf_prints_the_same_of_the_corpus() {
    let Some(perf) = Perf::here().filter(|p| p.is_recent_enough_for("the corpus")) else { return };
    // Recordings of other machines: none of their files is here. Fields of tracepoints are not shown here yet.
    const TRACEPOINTS: [&str; 3] =
        ["LinuxTracepoints-perf.data", "LinuxTracepoints-pipe.data", "perfparser-probe.data.file"];
    // perf 6.12 knows no COMPRESSED2, wants the index of AUX data where simpleperf puts it elsewhere, and refuses
    // simpleperf's sections; the last one is broken.
    const UNREADABLE: [&str; 8] = [
        "lpd-sleep.compressed2.data",
        "lpd-sleep.compressed2.pipe.data",
        "simpleperf-perf_etm.data",
        "simpleperf-perf_kernel.data",
        "simpleperf-perf_with_missing_aux_data.data",
        "simpleperf-perf_with_trace_offcpu_v2.data",
        "simpleperf-perf_with_tracepoint_event.data",
        "quipper-piped.corrupted.zero_size_sample-3.2",
    ];
    let mut compared = 0;
    for input in places::recordings() {
        let name = places::name(&input);
        let name = name.as_str();
        let options: &[&str] =
            if TRACEPOINTS.contains(&name) { &["-F", "comm,tid,cpu,time,event"] } else { &[] };
        let Some(perfs) = perf.script(&[], options, &input) else {
            assert!(UNREADABLE.contains(&name), "perf can't read {name}");
            continue;
        };
        let lazy = ours(options, &input);
        same_lines(name, &lazy, &perfs);
        same_lines(name, &ours(&[options, &["--eager-symbols"]].concat(), &input), &lazy);
        compared += 1;
    }
    assert!(compared >= 50 || places::recordings().is_empty(), "{compared}");
}
