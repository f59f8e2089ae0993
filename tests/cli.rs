//! The command line of `inject`: what is offered, what is refused, what is said.

use super::support::builder::{AttrSpec, Builder, Map, Sample};
use super::support::oracle;
use super::support::run::{Dir, inject, repipe, run};
use super::support::wire::Order;

const STYLES: [&str; 4] = ["-b", "--buildid-all", "-B", "--mmap2-buildid-all"];

fn recording(dir: &Dir) -> std::path::PathBuf {
    let b = Builder::with(Order::Little, &AttrSpec::plain())
        .at(10, 10, 1)
        .mmap2(&Map::exec(10, 0x40_0000, 0x1000, "/gone/app"))
        .sample(&Sample::user(10, 0x40_0010, 5));
    dir.file("in", &b.file())
}

#[test]
fn help_lists_every_option() {
    for flag in ["-h", "--help"] {
        let outcome = run(repipe().args(["inject", flag])).expect_ok(flag);
        let text = String::from_utf8(outcome.stdout).unwrap();
        for option in [
            "-b",
            "--build-ids",
            "--buildid-all",
            "-B",
            "--mmap2-buildids",
            "--mmap2-buildid-all",
            "--known-build-ids",
            "-i",
            "-o",
            "-f",
            "-v",
            "-q",
            "--symfs",
            "--buildid-dir",
            "-z",
            "--salvage",
            "--summary",
        ] {
            let listed = text.split(|c: char| c.is_whitespace() || ",=[<".contains(c)).any(|w| w == option);
            assert!(listed, "{flag} does not list {option}:\n{text}");
        }
    }
}

#[test]
fn two_styles_together_are_refused_with_a_reason() {
    let dir = Dir::new();
    let input = recording(&dir);
    for (i, a) in STYLES.iter().enumerate() {
        for b in &STYLES[i + 1..] {
            let outcome = inject(&[a, b], &input, &dir.join("out"));
            assert_eq!(outcome.code, Some(2), "{a} {b}");
            assert!(outcome.stderr.lines().any(|l| l.trim().len() > 20), "{a} {b}: {}", outcome.stderr);
        }
    }
    assert_eq!(dir.names(), ["in"]);
}

#[test]
fn long_and_short_spellings_do_the_same() {
    let dir = Dir::new();
    let input = recording(&dir);
    let list = "--known-build-ids=aabbccdd00112233 /gone/app";
    for (short, long) in [("-b", "--build-ids"), ("-B", "--mmap2-buildids")] {
        inject(&[short, list], &input, &dir.join("short")).expect_ok(short);
        inject(&[long, list], &input, &dir.join("long")).expect_ok(long);
        assert_eq!(std::fs::read(dir.join("short")).unwrap(), std::fs::read(dir.join("long")).unwrap());
    }
}

#[test]
fn known_ids_are_honoured_by_all_styles_from_a_list_or_a_file() {
    let dir = Dir::new();
    let input = recording(&dir);
    let id = vec![0xaa, 0xbb, 0xcc, 0xdd, 0, 0x11, 0x22, 0x33];
    let file = dir.file("list", b"ffffffff /another\n\naabbccdd00112233 /gone/app\n");
    let from_file = format!("--known-build-ids=file://{}", file.display());
    for style in STYLES {
        for list in ["--known-build-ids=ffffffff /another,aabbccdd00112233 /gone/app", &from_file] {
            inject(&[style, list], &input, &dir.join("out")).expect_ok(style);
            let out = oracle::read(&dir.join("out")).unwrap();
            let expected = ("/gone/app".to_owned(), id.clone());
            if style.contains('B') || style.contains("mmap2") {
                assert_eq!(super::support::compare::map_ids(&out), [expected], "{style}");
            } else {
                let told: Vec<_> = oracle::injected_of(&out).into_iter().map(|e| (e.name, e.id)).collect();
                assert_eq!(told, [expected], "{style}");
            }
        }
    }
}

#[test]
fn a_known_list_that_is_not_there_is_an_error() {
    let dir = Dir::new();
    let input = recording(&dir);
    let outcome = inject(&["-b", "--known-build-ids=file:///no/such/list"], &input, &dir.join("out"));
    let outcome = outcome.expect_failure("no list");
    assert!(outcome.stderr.contains("/no/such/list"), "{}", outcome.stderr);
    assert_eq!(dir.names(), ["in"]);
}

#[test]
fn nothing_but_the_recording_goes_to_stdout() {
    let dir = Dir::new();
    let input = recording(&dir);
    for options in [&["-b"][..], &["-b", "-v"], &["-b", "--summary=json"], &["-b", "--summary=text"]] {
        let outcome = run(repipe().arg("inject").args(options).arg("-i").arg(&input)).expect_ok("pipe");
        let out = oracle::parse(&outcome.stdout).unwrap_or_else(|e| panic!("{options:?}: {e}"));
        assert_eq!(out.count(9), 1);
        let outcome = inject(options, &input, &dir.join("out")).expect_ok("file");
        assert_eq!(outcome.stdout, b"");
    }
}

#[test]
fn an_empty_input_is_no_recording() {
    let dir = Dir::new();
    let input = dir.file("in", b"");
    inject(&[], &input, &dir.join("out")).expect_failure("empty");
    let text = dir.file(
        "text",
        b"this is not a recording, but it is long enough for a header of any kind. It goes on and on.\n",
    );
    let outcome = inject(&[], &text, &dir.join("out")).expect_failure("text");
    assert!(outcome.stderr.contains("not a perf recording"), "{}", outcome.stderr);
    assert_eq!(dir.names(), ["in", "text"]);
}

/// A page for each command, with all that its help lists.
#[test]
fn man_pages_and_completions_have_what_help_has() {
    let dir = Dir::new();
    run(repipe().arg("man").arg(dir.join("man"))).expect_ok("man");
    let pages =
        ["repipe", "repipe-inject", "repipe-script", "repipe-info", "repipe-plugin", "repipe-plugin-new"];
    let page = |name: &str| {
        let page = std::fs::read_to_string(dir.join("man").join(format!("{name}.1"))).unwrap();
        // roff has a backslash before each dash
        page.replace('\\', "")
    };
    for name in pages {
        assert!(page(name).starts_with(".ie"), "{name}");
    }
    let completions = run(repipe().args(["completions", "bash"])).expect_ok("completions");
    let completions = String::from_utf8(completions.stdout).unwrap();
    for command in ["inject", "script", "info"] {
        let help = run(repipe().args([command, "--help"])).expect_ok("help");
        let help = String::from_utf8(help.stdout).unwrap();
        let words =
            help.lines().filter(|line| line.trim_start().starts_with('-')).flat_map(str::split_whitespace);
        let options: Vec<&str> = words.filter(|word| word.starts_with("--")).collect();
        assert!(options.len() > 2, "{command}: {options:?}");
        let page = page(&format!("repipe-{command}"));
        for option in options {
            let option = option.split([',', '[', ']', '=', '.']).next().unwrap();
            assert!(page.contains(option), "{command} {option}");
            assert!(completions.contains(option), "{command} {option}");
        }
    }
    let denied = dir.file("file", b"");
    run(repipe().arg("man").arg(denied)).expect_failure("no folder");
}

#[test]
fn wrong_use_exits_with_2_and_a_failure_with_1() {
    let dir = Dir::new();
    let input = recording(&dir);
    for options in [
        &["--nosuch"][..],
        &["--filter", "pid ="],
        &["--pid", "x"],
        &["--cpu", "0"],
        &["--event", "nosuch"],
        &["-z99"],
        &["--dlarg", "x"],
        &["--known-build-ids", "ab /x"],
        &["--plugin", ":n=1"],
        &["--plugin", "nosuch"],
        &["-b", "--buildid-all"],
    ] {
        let outcome = inject(options, &input, &dir.join("out")).expect_usage(&format!("{options:?}"));
        assert!(!dir.join("out").exists(), "{options:?}: {}", outcome.stderr);
    }
    inject(&[], &input, &input).expect_usage("the output is the input");
    for options in
        [&["-F", "nosuch"][..], &["--pid", "x"], &["--cpu", "x"], &["--time", "x"], &["--memory-limit", "x"]]
    {
        run(repipe().arg("script").args(options).arg("-i").arg(&input)).expect_usage(&format!("{options:?}"));
    }
    run(&mut repipe()).expect_usage("no command");
    run(repipe().arg("info")).expect_usage("no recording");
    run(repipe().args(["plugin", "info", "nosuch"])).expect_usage("no plugin of that name");
    for options in [
        &["--plugin", "./nosuch.so"][..],
        &["--dlfilter", "./nosuch.so"],
        &["--known-build-ids", "file://nosuch"],
    ] {
        let options = [options, &["-b"]].concat();
        inject(&options, &input, &dir.join("out")).expect_failure(&format!("{options:?}"));
    }
    inject(&[], &dir.join("nosuch"), &dir.join("out")).expect_failure("no such recording");
    for page in [&["--help"][..], &["inject", "--help"], &["script", "--help"]] {
        let help = String::from_utf8(run(repipe().args(page)).expect_ok("help").stdout).unwrap();
        for line in ["0  the output is complete", "1  something failed", "2  wrong use: "] {
            assert!(help.contains(line), "{page:?} lacks {line}");
        }
    }
}
