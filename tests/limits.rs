//! `repipe script` with little memory: by `--memory-limit`, and under a hard limit of the address space.

use std::process::Command;

use std::path::Path;

use super::support::builder::{AttrSpec, Builder, Map, Sample};
use super::support::places;
use super::support::recording::st;
use super::support::run::{Dir, Outcome, repipe, run};
use super::support::wire::Order;

/// `repipe script`, with the fixtures' programs, under `ulimit -v` if a limit in KiB is given.
fn script(input: &Path, options: &[&str], address_space: Option<u64>) -> Outcome {
    let mut c = address_space.map_or_else(repipe, limited);
    run(c.arg("script").args(options).arg("-i").arg(input))
}

/// Whether the program starts at all under a limit in KiB.
fn starts(address_space: u64) -> bool {
    limited(address_space).arg("--version").output().unwrap().status.success()
}

fn limited(address_space: u64) -> Command {
    let mut c = Command::new("sh");
    c.args(["-c", &format!("ulimit -v {address_space}; exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_repipe"));
    c
}

fn fixture(name: &str) -> std::path::PathBuf {
    places::root().join("fixtures").join(name)
}

#[test]
fn a_memory_limit_is_kept_or_said_not_to_be() {
    let symfs = fixture("symfs");
    let script = |name: &str, options: &[&str]| {
        let options = [&["--symfs", symfs.to_str().unwrap()], options].concat();
        script(&fixture(name), &options, None).expect_ok(name)
    };
    for name in ["g.data", "dwarf.data"] {
        let all = script(name, &[]);
        let kept = script(name, &["--memory-limit", "64M"]);
        assert_eq!(kept.stdout, all.stdout, "{name}");
        assert!(kept.stderr.starts_with("repipe: symbols took up to 0."), "{name}: {}", kept.stderr);
        let not_kept = script(name, &["--memory-limit", "1"]);
        assert_eq!(not_kept.stdout, all.stdout, "{name}");
        assert!(not_kept.stderr.contains("more than the 0.0 MB of --memory-limit"), "{}", not_kept.stderr);
        let quiet = script(name, &["--memory-limit", "1", "--quiet"]);
        assert_eq!(quiet.stderr, "", "{name}");
    }
}

/// A recording of this very program, which has some ten thousand symbols, and of its libraries.
fn of_this_program(dir: &Dir) -> std::path::PathBuf {
    const START: u64 = 0x40_0000_0000;
    let program = std::env::current_exe().unwrap();
    let len = std::fs::metadata(&program).unwrap().len();
    let mut builder = Builder::with(Order::Little, &AttrSpec::new(st::IP | st::TID | st::TIME))
        .at(7, 7, 1)
        .mmap2(&Map::exec(7, START, len, program.to_str().unwrap()))
        .mmap2(&Map::kernel(0xffff_ffff_8100_0000, 0x100_0000));
    for i in 0..4000u64 {
        builder = builder.sample(&Sample::user(7, START + (i * 4099) % len, 1000 + i));
    }
    dir.file("this.data", &builder.file())
}

/// From where nothing works to where all does: the same output, or an end in order with a message. `run` is given a
/// limit in KiB, and checks what the outcome left.
fn at_every_limit(what: &str, all: &Outcome, run: impl Fn(u64) -> Outcome) {
    let (mut worked, mut failed) = (0, 0);
    let mut under = |kib: u64| {
        let outcome = run(kib);
        let what = format!("{what} under {kib} KiB: {:?} {}", outcome.code, outcome.stderr);
        match outcome.code {
            Some(0) => {
                assert!(outcome.stdout == all.stdout, "{what}");
                worked += 1;
            }
            Some(1) => {
                // The C library aborts where it has no memory to note what a new thread has to clean up, and says so first.
                let said = outcome.stderr.lines().find(|line| !line.starts_with("Fatal glibc error: "));
                assert!(said.is_some_and(|said| said.starts_with("repipe: ")), "{what}");
                assert!(!outcome.stderr.contains("panicked"), "{what}");
                assert!(all.stdout.starts_with(&outcome.stdout), "{what}");
                failed += 1;
            }
            // The program, its libraries or its stack could not be mapped: the kernel ends it, or the linker.
            None | Some(127 | 134) if !starts(kib) => {}
            _ => panic!("{what}"),
        }
        worked
    };
    let steps = std::iter::successors(Some(12 << 10), |kib| Some(kib + kib / 24));
    let limits: Vec<u64> = steps.take_while(|kib| *kib < 4 << 20).take_while(|kib| under(*kib) < 5).collect();
    // A thread starts with some KiB at a time: what fails between is not met by larger steps.
    let least = limits.iter().rev().nth(3).expect("limits under which it works");
    for step in 1..=24 {
        under(least - step * 4);
    }
    assert!(worked > 0 && failed > 0, "{what}: {worked} {failed}");
}

#[test]
fn under_a_hard_limit_script_prints_the_same_or_fails_in_order() {
    let dir = Dir::new();
    let this = of_this_program(&dir);
    let symfs = fixture("symfs");
    let runs: [(&Path, &[&str], &str); 4] = [
        (&this, &["--eager-symbols"], "limits::"),
        (&this, &[], "limits::"),
        (&this, &["--inline"], "limits::"),
        (&fixture("dwarf.data"), &["--symfs", symfs.to_str().unwrap()], "outer+0x2a"),
    ];
    for (input, options, symbol) in runs {
        let all = script(input, options, None).expect_ok("without a limit");
        assert!(String::from_utf8_lossy(&all.stdout).contains(symbol), "symbols of {options:?}");
        at_every_limit(&format!("script {options:?}"), &all, |kib| script(input, options, Some(kib)));
    }
}

#[test]
fn under_a_hard_limit_inject_writes_the_same_or_nothing() {
    let symfs = fixture("symfs");
    let dir = Dir::new();
    let output = dir.path().join("out.data");
    for options in [&["-b"][..], &["-B", "-z"], &["--filter", "symbol == outer"]] {
        let inject = |address_space: Option<u64>| {
            let _ = std::fs::remove_file(&output);
            let mut c = address_space.map_or_else(repipe, limited);
            c.arg("inject").args(options).arg("--symfs").arg(&symfs);
            run(c.arg("-i").arg(fixture("g.data")).arg("-o").arg(&output))
        };
        let all = inject(None).expect_ok("without a limit");
        let written = std::fs::read(&output).unwrap();
        at_every_limit(&format!("inject {options:?}"), &all, |kib| {
            let outcome = inject(Some(kib));
            let left: Vec<_> =
                std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            if outcome.code == Some(0) {
                assert!(
                    left == ["out.data"] && std::fs::read(&output).unwrap() == written,
                    "{kib} KiB: {left:?}"
                );
            } else {
                assert!(left.is_empty(), "{kib} KiB: {left:?}");
            }
            outcome
        });
    }
}
