//! Open, rewrite, reopen: any bytes end in an error or in a recording that rewrites to itself.

#![no_main]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use repipe::rewrite::{Options, run};
use repipe::stage::build_ids::Style;

/// Files of one process, and an empty directory in place of every source of build-ids on this machine.
static PLACE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    dir
});

fn options(input: PathBuf, output: &Path, style: Option<Style>, salvage: bool) -> Options {
    let empty = PLACE.path().join("empty");
    Options {
        input,
        output: output.to_path_buf(),
        style,
        known_build_ids: Some("0123456789abcdef /bin/true".into()),
        force: false,
        salvage,
        symfs: Some(empty.clone()),
        buildid_dir: Some(empty),
        ..Options::default()
    }
}

fuzz_target!(|data: &[u8]| {
    // the length picks the style, so that recordings serve as seeds as they are
    let style = match data.len() % 5 {
        0 => None,
        1 => Some(Style::BuildIds),
        2 => Some(Style::BuildIdAll),
        3 => Some(Style::Mmap2BuildIds),
        _ => Some(Style::Mmap2BuildIdAll),
    };
    let salvage = data.len() / 5 % 2 == 1;
    let path = |name: &str| PLACE.path().join(name);
    let [input, once, twice, thrice] = ["input", "once", "twice", "thrice"].map(path);
    std::fs::write(&input, data).unwrap();
    let _ = std::fs::remove_file(&once);
    if run(&options(input, &once, style, salvage)).is_err() {
        assert!(!once.exists(), "a failed run leaves an output");
        return;
    }
    // attrs that came late stand behind the data, and in front of it only after the next rewrite
    for (from, to) in [(&once, &twice), (&twice, &thrice)] {
        if let Err(e) = run(&options(from.clone(), to, None, false)) {
            panic!("the output cannot be read: {e}");
        }
    }
    assert!(std::fs::read(&twice).unwrap() == std::fs::read(&thrice).unwrap(), "the output is no fixed point");
});
