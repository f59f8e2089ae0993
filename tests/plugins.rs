//! Plugins and dlfilters on `repipe inject`: what they see, what stays, and what becomes of those that misbehave.

mod command;
mod dlfilters;
mod dlperf;
mod names;
mod native;
mod redact;
mod sqlite;

use std::path::{Path, PathBuf};

use super::support::places::root;
use super::support::run::{Dir, Outcome, repipe, run};

/// Builds a shared object from a C source of `tests/plugins`.
fn build(dir: &Dir, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let object = dir.join(name);
    let mut c = std::process::Command::new("cc");
    c.args(["-std=gnu11", "-Wall", "-Werror", "-shared", "-fPIC", "-O1", "-o"]).arg(&object);
    c.arg(root().join("tests/plugins").join(source)).args(flags);
    run(&mut c).expect_ok("cc");
    object
}

fn fixture(name: &str) -> PathBuf {
    root().join("fixtures").join(name)
}

/// `repipe inject` of a fixture with its own symbols.
fn inject(input: &Path, output: &Path, options: &[&str]) -> Outcome {
    let symfs = root().join("fixtures/symfs");
    run(repipe()
        .arg("inject")
        .arg("-i")
        .arg(input)
        .arg("-o")
        .arg(output)
        .arg("--symfs")
        .arg(symfs)
        .args(options))
}
