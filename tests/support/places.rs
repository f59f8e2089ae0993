//! Where tests find recordings and programs, and how they say so when something is not there.

use std::path::{Path, PathBuf};

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Whether what is missing is a failure rather than a test left out.
pub fn ci() -> bool {
    std::env::var("CI").is_ok_and(|v| v == "true")
}

/// Says that a test is left out; in CI that is a failure.
pub fn left_out(what: &str) {
    assert!(!ci(), "{what}; CI needs it");
    eprintln!("LEFT OUT: {what}");
}

fn corpus(part: &str) -> Vec<PathBuf> {
    let dir = root().join("../shared/corpus").join(part);
    let Ok(entries) = std::fs::read_dir(&dir) else {
        left_out(&format!("no corpus at {}", dir.display()));
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    files.retain(|p| p.extension().is_none_or(|e| e != "buildids"));
    files.sort();
    assert!(!files.is_empty(), "the corpus at {} is empty", dir.display());
    files
}

/// The corpus' recordings, without the golden lists beside them; empty where there is no corpus.
pub fn recordings() -> Vec<PathBuf> {
    corpus("recordings")
}

/// The corpus' hostile files.
pub fn hostile() -> Vec<PathBuf> {
    corpus("hostile")
}

/// One recording of the corpus by its name.
pub fn recording(name: &str) -> Option<PathBuf> {
    recordings().into_iter().find(|p| p.file_name().is_some_and(|n| n == name))
}

/// A real perf: `$PERF`, or the first on the PATH.
pub fn perf() -> Option<PathBuf> {
    let found = match std::env::var_os("PERF") {
        Some(p) => Some(PathBuf::from(p)),
        None => std::env::var_os("PATH")
            .and_then(|path| std::env::split_paths(&path).map(|d| d.join("perf")).find(|p| p.is_file())),
    };
    let works = found.filter(|p| {
        std::process::Command::new(p).arg("version").output().is_ok_and(|out| out.status.success())
    });
    if works.is_none() {
        left_out("no working perf in $PERF or on the PATH");
    }
    works
}

/// Whether the fixtures' programs stand where they were recorded: only then does perf look for their build-ids, below
/// another root too.
pub fn has_programs_at_home() -> bool {
    Path::new("/usr/local/share/repipe-fixtures/work").is_file()
}

/// The file name of a path, for messages.
pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
