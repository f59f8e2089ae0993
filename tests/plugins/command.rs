//! `repipe plugin`, and plugins built as a user would.

use std::process::Command;

use super::super::support::oracle;
use super::super::support::recording::{Record, Recording, kind};
use super::super::support::run::{Dir, repipe, run};
use super::super::support::wire::Order;
use super::{build, fixture, inject, root};

/// Makes a new plugin in a folder of its own.
fn new(dir: &Dir, name: &str, options: &[&str]) {
    let mut c = repipe();
    c.current_dir(dir.path()).args(["plugin", "new", name]).args(options);
    run(&mut c).expect_ok("plugin new");
}

#[test]
fn a_new_plugin_in_rust_builds_and_works_outside_of_the_workspace() {
    let dir = Dir::new();
    new(&dir, "my-filter", &[]);
    let mut c = Command::new(env!("CARGO"));
    c.current_dir(dir.join("my-filter")).args(["test", "--offline", "--quiet"]);
    c.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    run(&mut c).expect_ok("its own test");
    let mut c = Command::new(env!("CARGO"));
    c.current_dir(dir.join("my-filter")).args(["build", "--offline", "--quiet"]);
    c.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    run(&mut c).expect_ok("cargo build");
    let folder = dir.join("my-filter/target/debug");

    let list = run(repipe().args(["plugin", "list"]).env("REPIPE_PLUGIN_PATH", &folder)).expect_ok("list");
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("my-filter    0.1.0    leaves out the samples of one CPU"), "{list}");
    let info = run(repipe().args(["plugin", "info", "my-filter"]).env("REPIPE_PLUGIN_PATH", &folder))
        .expect_ok("info");
    let info = String::from_utf8(info.stdout).unwrap();
    assert!(info.contains("  records    SAMPLE\n") && info.ends_with("\ncpu=N  the CPU\n"), "{info}");

    // The samples of the fixture have no CPU, so all of them stay.
    let out = dir.join("out");
    let mut c = repipe();
    c.args(["inject", "--plugin", "my-filter:cpu=0", "-i"]).arg(fixture("plain.data")).arg("-o").arg(&out);
    run(c.env("REPIPE_PLUGIN_PATH", &folder)).expect_ok("by name");
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(fixture("plain.data")).unwrap());
    // Never from the current directory.
    let mut c = repipe();
    c.current_dir(&folder).args(["plugin", "info", "my-filter"]).env_remove("REPIPE_PLUGIN_PATH");
    run(c.env("XDG_DATA_HOME", dir.path())).expect_usage("not from here");
}

#[test]
fn a_new_plugin_in_c_builds_and_works() {
    let dir = Dir::new();
    new(&dir, "no-idle", &["--c"]);
    run(Command::new("make").current_dir(dir.join("no-idle"))).expect_ok("make");
    let plugin = dir.join("no-idle/no-idle.so");
    let out = dir.join("out");
    inject(&fixture("plain.data"), &out, &["--plugin", plugin.to_str().unwrap()]).expect_ok("inject");
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(fixture("plain.data")).unwrap());

    let mut again = repipe();
    run(again.current_dir(dir.path()).args(["plugin", "new", "no-idle"])).expect_failure("it is there");
    let mut bad = repipe();
    let outcome = run(bad.current_dir(dir.path()).args(["plugin", "new", "../x"]));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
}

#[test]
fn limit_keeps_the_first_samples_of_each_thread() {
    let dir = Dir::new();
    let include = format!("-I{}", root().join("plugins/abi/include").display());
    let plugin = build(&dir, "../../plugins/limit/limit.c", "limit.so", &[&include]);
    let before = oracle::read(&fixture("forks.data")).unwrap();
    let samples = |r: &Recording| -> Vec<(u32, Vec<u8>)> {
        let of = |r: &Record| (Order::Little.u32(&r.bytes, 20), r.bytes.clone());
        r.records.iter().filter(|r| r.kind(Order::Little) == kind::SAMPLE).map(of).collect()
    };
    let out = dir.join("out");
    let arg = format!("{}:n=2", plugin.display());
    inject(&fixture("forks.data"), &out, &["--plugin", &arg]).expect_ok("limit");
    let after = samples(&oracle::read(&out).unwrap());
    let mut seen = std::collections::HashMap::new();
    let expected: Vec<_> = samples(&before)
        .into_iter()
        .filter(|(tid, _)| {
            let n = seen.entry(*tid).or_insert(0);
            *n += 1;
            *n <= 2
        })
        .collect();
    assert!(!expected.is_empty() && expected.len() < samples(&before).len());
    assert_eq!(after, expected);
    let outcome = inject(&fixture("forks.data"), &out, &["--plugin", &format!("{}:n=x", plugin.display())]);
    assert!(outcome.expect_usage("no number").stderr.contains("plugin limit: n is no number"));
}

/// Builds plugins of this repository in a target folder of their own.
pub fn shipped(dir: &Dir, names: &[&str]) -> std::path::PathBuf {
    let mut c = Command::new(env!("CARGO"));
    c.current_dir(root()).args(["build", "--offline", "--quiet", "--target-dir"]).arg(dir.join("target"));
    c.args(names.iter().flat_map(|name| ["-p".to_owned(), format!("repipe-plugin-{name}")]));
    run(&mut c).expect_ok("cargo build");
    dir.join("target/debug")
}

#[test]
fn shipped_plugins_work_in_a_chain() {
    let dir = Dir::new();
    let folder = shipped(&dir, &["every", "redact", "rename-dso"]);
    let input = fixture("plain.data");
    let before = oracle::read(&input).unwrap();
    let inject = |plugins: &[&str], options: &[&str]| {
        let out = dir.join("out");
        let mut c = repipe();
        c.args(["inject", "-i"]).arg(&input).arg("-o").arg(&out).args(options);
        plugins.iter().for_each(|plugin| {
            c.args(["--plugin", plugin]);
        });
        run(c.env("REPIPE_PLUGIN_PATH", &folder)).expect_ok(&format!("{plugins:?}"));
        oracle::read(&out).unwrap()
    };
    let count = |r: &Recording| r.kinds().iter().filter(|&&k| k == kind::SAMPLE).count();
    assert_eq!(count(&inject(&["every:n=5"], &[])), count(&before) / 5);
    for (plugin, says) in [
        ("every:n=3,n=4", "plugin every: n is given twice, as n=3 and n=4; give it once ("),
        ("every:n=x", "plugin every: n=x is no number ("),
        ("every", "plugin every: say how many samples make one: n=N ("),
        ("redact:salt=a,salt=b", "plugin redact: salt is given twice"),
        ("redact:solt=a", "plugin redact: there is no argument solt; there are: "),
        ("rename-dso:from=/a", "plugin rename-dso: give rules as from=PREFIX,to=PREFIX ("),
    ] {
        let mut c = repipe();
        c.args(["inject", "--plugin", plugin, "-i"]).arg(&input).arg("-o").arg(dir.join("refused"));
        let stderr = run(c.env("REPIPE_PLUGIN_PATH", &folder)).expect_usage(plugin).stderr;
        assert!(stderr.contains(says), "{plugin}: {stderr}");
        assert!(!dir.join("refused").exists());
    }

    let text = |r: &Recording| {
        let records: Vec<u8> = r.records.iter().flat_map(|r| r.bytes.clone()).collect();
        let features: Vec<u8> = r.features.values().flatten().copied().collect();
        String::from_utf8_lossy(&[records, features].concat()).into_owned()
    };
    let hidden = ["fixture.example", "perf\0", "work\0"];
    assert!(text(&before).contains(hidden[0]) && text(&before).contains("/repipe-fixtures/work"));
    // What is renamed into a home is hidden by the plugin behind it, and -b then finds it where the map says.
    let home = dir.join("symfs/home");
    let chain = ["rename-dso:from=/usr/local/share/,to=/home/ada/", "redact:salt=x,comm=wo*"];
    let symfs = dir.join("symfs");
    std::fs::create_dir_all(&home).unwrap();
    let first = text(&inject(&chain, &[]));
    assert!(!first.contains("fixture.example") && !first.contains("/ada/"), "{first}");
    let user = first.split("/home/user-").nth(1).and_then(|rest| rest.get(..8)).expect("a pseudonym");
    assert!(first.contains("comm-") && !first.contains("\0work\0"), "{first}");
    let real = home.join(format!("user-{user}/repipe-fixtures"));
    std::fs::create_dir_all(&real).unwrap();
    let from = root().join("fixtures/symfs/usr/local/share/repipe-fixtures/work");
    std::fs::copy(from, real.join("work")).unwrap();
    let with_ids = inject(&chain, &["-b", "--symfs", symfs.to_str().unwrap()]);
    let ids = oracle::injected_of(&with_ids);
    let path = format!("/home/user-{user}/repipe-fixtures/work");
    assert!(ids.iter().any(|id| id.name == path), "{ids:?}");
}

/// Records of a recording in a pipe, but for its feature sections of some ids.
fn without(pipe: &[u8], ids: &[u8]) -> Vec<Record> {
    let records = oracle::parse_raw(pipe).unwrap().records;
    let of = |r: &Record| r.kind(Order::Little) == kind::HEADER_FEATURE && ids.contains(&r.bytes[8]);
    records.into_iter().filter(|r| !of(r)).collect()
}

#[test]
fn sections_are_edited_wherever_they_pass() {
    /// `HEADER_HOSTNAME`, `HEADER_CMDLINE`, `HEADER_SAMPLE_TIME`.
    const CHANGED: [u8; 3] = [3, 11, 21];
    let dir = Dir::new();
    let folder = shipped(&dir, &["redact", "rename-dso"]);
    let through = |input: &std::path::Path, options: &[&str]| {
        let mut c = repipe();
        c.args(["inject", "-i"]).arg(input).args(options);
        run(c.env("REPIPE_PLUGIN_PATH", &folder)).expect_ok(&format!("{options:?}")).stdout
    };
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
    let input = fixture("pipe.data");
    let before = std::fs::read(&input).unwrap();
    let pipe = through(&input, &["--plugin", "redact"]);
    assert!(has(&before, "fixture.example") && !has(&pipe, "fixture.example") && has(&pipe, "host-"));
    assert_eq!(without(&pipe, &CHANGED), without(&before, &CHANGED));
    let features = |bytes: &[u8], id: u8| without(bytes, &[]).len() - without(bytes, &[id]).len();
    assert_eq!((features(&before, 11), features(&pipe, 11)), (1, 0));
    assert_eq!((features(&before, 3), features(&pipe, 3)), (1, 1));

    // Build-ids pass as records.
    let symfs = root().join("fixtures/symfs");
    let with_ids = dir.file("ids.pipe", &through(&input, &["-b", "--symfs", symfs.to_str().unwrap()]));
    let paths = |bytes: &[u8]| -> Vec<String> {
        oracle::injected_of(&oracle::parse(bytes).unwrap()).into_iter().map(|id| id.name).collect()
    };
    let old = paths(&std::fs::read(&with_ids).unwrap());
    let rules = ["--plugin", "rename-dso:from=/usr/local/share/,to=/home/ada/", "--plugin", "redact:salt=x"];
    let new = through(&with_ids, &rules);
    assert!(!has(&new, "/usr/local/share/") && !has(&new, "/ada/"));
    let (old, new) = (old, paths(&new));
    assert!(old.iter().any(|path| path.starts_with("/usr/local/share/")), "{old:?}");
    let ends = |paths: &[String]| -> Vec<String> {
        paths.iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect()
    };
    assert_eq!(ends(&old), ends(&new));
    assert!(new.iter().any(|path| path.starts_with("/home/user-")), "{new:?}");

    // Who edits but does not follow what becomes known is refused.
    let rogue = super::native::rogue(&dir, "edits.so", &["-DNEEDS=RPP_EDITS_FEATURES"]);
    let mut c = repipe();
    c.args(["inject", "--plugin", &format!("{rogue}:do=keep"), "-i"]).arg(&input);
    let outcome = run(&mut c);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stdout.is_empty() && outcome.stderr.contains("plugin rogue edits feature sections"));
    let out = dir.join("out");
    let mut c = repipe();
    c.args(["inject", "--plugin", "redact", "-i"]).arg(fixture("pipe.data")).arg("-o").arg(&out);
    run(c.env("REPIPE_PLUGIN_PATH", &folder)).expect_ok("to a file");
    let bytes = std::fs::read(&out).unwrap();
    assert!(!bytes.windows(15).any(|w| w == b"fixture.example"));
    // From a file to a pipe they go before the records, as they are when the plugin has been opened.
    let mut c = repipe();
    c.args(["inject", "--plugin", "redact", "-i"]).arg(fixture("plain.data"));
    let bytes = run(c.env("REPIPE_PLUGIN_PATH", &folder)).expect_ok("to a pipe").stdout;
    assert!(bytes.len() > 1000 && !bytes.windows(15).any(|w| w == b"fixture.example"));
    assert!(bytes.windows(5).any(|w| w == b"host-"));
}
