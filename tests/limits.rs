//! `repipe script` with little memory: by `--memory-limit`, and under a hard limit of the address space.

use std::process::Command;

use super::support::places;
use super::support::run::{Outcome, repipe, run};

/// `repipe script` of a fixture, under `ulimit -v` if a limit in KiB is given.
fn script(name: &str, options: &[&str], address_space: Option<u64>) -> Outcome {
    let fixtures = places::root().join("fixtures");
    let mut c = match address_space {
        Some(kib) => {
            let mut c = Command::new("sh");
            c.args(["-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\"")]).arg(env!("CARGO_BIN_EXE_repipe"));
            c
        }
        None => repipe(),
    };
    c.arg("script").args(options).arg("--symfs").arg(fixtures.join("symfs"));
    run(c.arg("-i").arg(fixtures.join(name)))
}

#[test]
fn a_memory_limit_is_kept_or_said_not_to_be() {
    for name in ["g.data", "dwarf.data"] {
        let all = script(name, &[], None).expect_ok(name);
        let kept = script(name, &["--memory-limit", "64M"], None).expect_ok(name);
        assert_eq!(kept.stdout, all.stdout, "{name}");
        assert!(kept.stderr.starts_with("repipe: symbols took up to 0."), "{name}: {}", kept.stderr);
        let not_kept = script(name, &["--memory-limit", "1"], None).expect_ok(name);
        assert_eq!(not_kept.stdout, all.stdout, "{name}");
        assert!(not_kept.stderr.contains("more than the 0.0 MB of --memory-limit"), "{}", not_kept.stderr);
        let quiet = script(name, &["--memory-limit", "1", "--quiet"], None).expect_ok(name);
        assert_eq!(quiet.stderr, "", "{name}");
    }
}
