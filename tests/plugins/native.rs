//! Plugins of our own interface.

use std::path::Path;

use super::super::support::oracle;
use super::super::support::recording::{Recording, kind};
use super::super::support::run::{Dir, Outcome, repipe, run as command};
use super::super::support::wire::Order;
use super::{build, fixture, inject};

/// The plugin that misbehaves as it is told.
pub fn rogue(dir: &Dir, name: &str, flags: &[&str]) -> String {
    let include = format!("-I{}", super::root().join("plugins/abi/include").display());
    let flags: Vec<&str> = flags.iter().copied().chain([include.as_str()]).collect();
    build(dir, "rogue.c", name, &flags).to_str().unwrap().to_owned()
}

fn run(plugin: &str, what: &str, out: &Path) -> Outcome {
    inject(&fixture("plain.data"), out, &["--plugin", &format!("{plugin}:do={what}")])
}

#[test]
fn a_plugin_that_breaks_the_contract_is_an_error_that_names_it_and_leaves_nothing() {
    let dir = Dir::new();
    let plugin = rogue(&dir, "rogue.so", &[]);
    let out = dir.join("out");
    for (what, says) in [
        ("verdict", "its verdict is 77"),
        ("fail", "records: I do not like it"),
        ("failsomewhere", "records: I do not like it"),
        ("failbehind", "records: I do not like it"),
        ("silent", "records: returned -5"),
        ("nothing", "gave nothing for that"),
        ("oversized", "its size is 65528, but 128 bytes were given"),
        ("misaligned", "its size is 27"),
        ("short", "5 bytes are no header"),
        ("type", "is not for plugins to write"),
        ("sample", "past the end of the sample"),
        ("both", "its verdict is not to replace"),
        ("endless", "gives more than 1048576 bytes for one record"),
        ("noopen", "open: returned -3"),
        ("latefail", "finish: returned -8"),
    ] {
        let outcome = run(&plugin, what, &out).expect_failure(what);
        let stderr = outcome.stderr;
        assert!(stderr.contains("plugin rogue: ") && stderr.contains(says), "{what}: {stderr}");
        let place = match what {
            "noopen" | "latefail" => None,
            // It does not say at which record, so the message names the first that it was shown.
            "failsomewhere" | "failbehind" | "silent" => Some("at this record or one of the "),
            _ => Some("SAMPLE record: "),
        };
        assert!(place.is_none_or(|place| stderr.contains(place)), "{what}: {stderr}");
        assert_eq!(stderr.contains(" record: "), place.is_some(), "{what}: {stderr}");
        assert!(!stderr.contains("answered after"), "{what}: {stderr}");
        assert_eq!(dir.names(), ["rogue.so"], "{what}");
    }
    let outcome = run(&plugin, "abort", &out).expect_failure("abort");
    assert!(outcome.stderr.starts_with("repipe: aborted by a plugin"), "{}", outcome.stderr);
    assert_eq!(dir.names(), ["rogue.so"], "abort");
    let outcome = inject(&fixture("plain.data"), &out, &["--plugin", &plugin]);
    assert!(outcome.expect_failure("no argument").stderr.contains("open: say what to do"));
}

#[test]
fn objects_that_are_no_plugins_are_refused() {
    let dir = Dir::new();
    let out = dir.join("out");
    for (name, flags, says) in [
        ("major.so", &["-DMAJOR=9"][..], "is built for version 9.1 of the plugin interface, this is 1.1"),
        ("symbol.so", &["-DSYMBOLLESS"], "has no symbol repipe_plugin"),
        ("null.so", &["-DNOTHING"], "gave no descriptor"),
        ("name.so", &["-DNAMELESS"], "has no name"),
        ("hook.so", &["-DHOOKLESS"], "has no function for records"),
        ("small.so", &["-DSIZE=40"], "its descriptor has 40 bytes"),
        ("needs.so", &["-DNEEDS=(1ull<<40)"], "needs what this version does not have"),
        ("order.so", &["-DORDER=3"], "wants records in an order, 3, that is not known"),
        ("any.so", &["-DORDER=RPP_ORDER_FILE"], "needs symbols, but not the order by time that it takes"),
        (
            "alone.so",
            &["-DORDER=RPP_ORDER_TIME_ALONE", "-DNEEDS=RPP_NEEDS_UNWIND"],
            "needs unwinding, but not the order by time that it takes",
        ),
    ] {
        let plugin = rogue(&dir, name, flags);
        let outcome = run(&plugin, "keep", &out).expect_failure(name);
        assert!(outcome.stderr.contains(says) && outcome.stderr.contains(name), "{name}: {}", outcome.stderr);
        assert!(!out.exists());
    }
    let outcome = inject(&fixture("plain.data"), &out, &["--plugin", "no-such-plugin"]);
    assert!(outcome.expect_usage("absent").stderr.contains("there is no plugin no-such-plugin in "));
}

#[test]
fn files_of_another_kind_are_told_by_what_they_are() {
    let dir = Dir::new();
    let out = dir.join("out");
    let mut foreign = std::fs::read(rogue(&dir, "rogue.so", &[])).unwrap();
    // The machine of the ELF header: s390x.
    foreign[18] = 22;
    let program = env!("CARGO_BIN_EXE_repipe");
    for (name, bytes, says) in [
        ("foreign.so", foreign, "is for another machine (s390x, "),
        ("program.so", std::fs::read(program).unwrap(), "is an executable (needed is a shared object for "),
        ("text.so", b"GROUP ( libc.so.6 )\n".to_vec(), "is a text file (needed is "),
        ("archive.so", b"!<arch>\n".to_vec(), "is a static library (needed is "),
        ("empty.so", Vec::new(), "is empty (needed is "),
    ] {
        let path = dir.file(name, &bytes);
        let path = path.to_str().unwrap();
        for option in ["--plugin", "--dlfilter"] {
            let what =
                if option == "--plugin" { format!("plugin {path}: ") } else { format!("dlfilter {path} ") };
            let outcome = inject(&fixture("plain.data"), &out, &[option, path]).expect_failure(name);
            assert!(outcome.stderr.contains(&format!("{what}{says}")), "{name}: {}", outcome.stderr);
            assert!(!out.exists());
        }
    }
}

#[test]
fn a_pipe_that_says_more_of_itself_later_opens_a_plugin_once() {
    let dir = Dir::new();
    let plugin = rogue(&dir, "rogue.so", &[]);
    let filter = build(&dir, "filter.c", "filter.so", &[]);
    let log = dir.join("log");
    let keep = format!("{plugin}:do=keep");
    let filter =
        ["--dlfilter", filter.to_str().unwrap(), "--dlarg", "keep", "--dlarg", log.to_str().unwrap()];
    let input = fixture("pipe.data");
    let count = |r: &Recording| r.kinds().iter().filter(|&&k| k == kind::SAMPLE).count();
    let seen = count(&oracle::read(&input).unwrap());
    // From pipe to pipe a recording begins with its first feature, and others follow.
    for options in [&["--plugin", keep.as_str()][..], &filter] {
        let mut c = repipe();
        c.args(["inject", "-i"]).arg(&input).args(options);
        let outcome = command(&mut c).expect_ok("from pipe to pipe");
        assert_eq!(count(&oracle::parse(&outcome.stdout).unwrap()), seen, "{options:?}");
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), seen + 2);
}

#[test]
fn nonsense_that_is_given_to_functions_is_turned_away() {
    let dir = Dir::new();
    let plugin = rogue(&dir, "rogue.so", &[]);
    let out = dir.join("out");
    for what in ["keep", "huge"] {
        let outcome = run(&plugin, what, &out).expect_ok(what);
        assert!(!outcome.stderr.contains("too late"), "{}", outcome.stderr);
        assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(fixture("plain.data")).unwrap(), "{what}");
    }
}

#[test]
fn a_plugin_of_a_later_minor_version_loads() {
    let dir = Dir::new();
    let plugin = rogue(&dir, "later.so", &["-DPAST"]);
    let out = dir.join("out");
    let told = run(&plugin, "drop", &out).expect_ok("later").stderr;
    assert!(told.contains("warning: kept 0 of 198 samples: plugins left none\n"), "{told}");
    let kinds = oracle::read(&out).unwrap().kinds();
    assert!(!kinds.contains(&kind::SAMPLE) && kinds.contains(&kind::MMAP2));
}

#[test]
fn a_plugin_of_an_earlier_minor_version_loads_and_gets_what_that_had() {
    let dir = Dir::new();
    let plugin = build(&dir, "old.c", "old.so", &[]);
    let plugin = plugin.to_str().unwrap();
    let out = dir.join("out");
    let input = fixture("plain.data");
    let before = oracle::read(&input).unwrap();
    let samples = before.kinds().iter().filter(|&&k| k == kind::SAMPLE).count();

    let outcome = inject(&input, &out, &["--plugin", plugin]).expect_ok("old");
    assert!(outcome.stderr.contains(&format!("plugin old: saw {samples}\n")), "{}", outcome.stderr);
    let doubled: Vec<_> = before
        .records
        .iter()
        .flat_map(|r| std::iter::repeat_n(r.clone(), 1 + usize::from(r.kind(Order::Little) == kind::SAMPLE)))
        .collect();
    assert_eq!(oracle::read(&out).unwrap().records, doubled);

    let outcome = inject(&input, &dir.join("none"), &["--plugin", &format!("{plugin}:n=3")]);
    let stderr = outcome.expect_failure("fails").stderr;
    assert!(stderr.contains("SAMPLE record: plugin old: records: as told"), "{stderr}");
    assert!(!dir.join("none").exists());
}

#[test]
fn what_is_dropped_replaced_and_asked() {
    let dir = Dir::new();
    let plugin = rogue(&dir, "rogue.so", &[]);
    let out = dir.join("out");
    let before = oracle::read(&fixture("plain.data")).unwrap();
    let samples = |kinds: Vec<u32>| kinds.iter().filter(|&&k| k == kind::SAMPLE).count();

    run(&plugin, "twice", &out).expect_ok("twice");
    let after = oracle::read(&out).unwrap();
    assert_eq!(samples(after.kinds()), 2 * samples(before.kinds()));
    let mut doubled = before.records.clone();
    doubled = doubled
        .into_iter()
        .flat_map(|r| if r.kind(Order::Little) == kind::SAMPLE { vec![r.clone(), r] } else { vec![r] })
        .collect();
    assert_eq!(after.records, doubled);

    let outcome = run(&plugin, "resolve", &out).expect_ok("resolve");
    let lines: Vec<&str> =
        outcome.stderr.lines().filter(|line| line.contains("plugin rogue: work ")).collect();
    assert_eq!(lines.len(), samples(before.kinds()), "{}", outcome.stderr);
    assert!(lines.iter().all(|line| line.contains(" cpu-clock:u ") && line.contains(" 1 ")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with(" libburn.so")), "{lines:?}");
}

#[test]
fn who_wants_order_alone_gets_no_answers_about_addresses() {
    let dir = Dir::new();
    let out = dir.join("out");
    let plugin = rogue(&dir, "alone.so", &["-DORDER=RPP_ORDER_TIME_ALONE", "-DNEEDS=0"]);
    let outcome = run(&plugin, "resolve", &out).expect_failure("resolve");
    assert!(outcome.stderr.contains("records: returned -7"), "{}", outcome.stderr);
    run(&plugin, "drop", &out).expect_ok("drop");
    assert!(!oracle::read(&out).unwrap().kinds().contains(&kind::SAMPLE));
    // Another stage that needs maps has them all the same.
    let arg = format!("{plugin}:do=keep");
    inject(&fixture("plain.data"), &out, &["-b", "--plugin", &arg]).expect_ok("keep");
    assert!(!oracle::injected_of(&oracle::read(&out).unwrap()).is_empty());
}

#[test]
fn stacks_are_unwound_for_those_who_ask() {
    let dir = Dir::new();
    let plugin = rogue(&dir, "unwind.so", &["-DNEEDS=RPP_NEEDS_UNWIND"]);
    let input = fixture("dwarf.data");
    let arg = format!("{plugin}:do=chain");
    let outcome = inject(&input, &dir.join("out"), &["--plugin", &arg]).expect_ok("chain");
    let chains: Vec<Vec<&str>> = outcome
        .stderr
        .lines()
        .filter_map(|line| line.split_once("plugin rogue: chain"))
        .map(|(_, chain)| chain.split_whitespace().collect())
        .collect();
    let symfs = super::root().join("fixtures/symfs");
    let mut script = repipe();
    script.args(["script", "-F", "ip", "-i"]).arg(&input).arg("--symfs").arg(symfs);
    let shown = command(&mut script).expect_ok("script");
    let shown = String::from_utf8(shown.stdout).unwrap();
    let expected: Vec<Vec<&str>> = shown
        .split("\n\n")
        .map(|block| block.split_whitespace().collect())
        .filter(|b: &Vec<&str>| !b.is_empty())
        .collect();
    assert!(expected.iter().any(|chain| chain.len() > 4), "{shown}");
    assert_eq!(chains, expected);

    // Who does not ask gets none.
    let plugin = rogue(&dir, "not.so", &[]);
    let outcome =
        inject(&input, &dir.join("out"), &["--plugin", &format!("{plugin}:do=chain")]).expect_ok("not");
    assert!(
        outcome.stderr.lines().filter(|l| l.contains("plugin rogue: chain")).all(|l| l.ends_with("chain"))
    );
}

#[test]
fn a_chain_passes_on_what_is_left() {
    let dir = Dir::new();
    let plugin = rogue(&dir, "rogue.so", &[]);
    let other = rogue(&dir, "other.so", &[]);
    let out = dir.join("out");
    let arg = |plugin: &str, what: &str| format!("{plugin}:do={what}");
    let (drop, fail) = (arg(&plugin, "drop"), arg(&other, "fail"));
    inject(&fixture("plain.data"), &out, &["-b", "--plugin", &drop, "--plugin", &fail])
        .expect_ok("dropped first");
    assert!(oracle::injected_of(&oracle::read(&out).unwrap()).is_empty());
    inject(&fixture("plain.data"), &out, &["--plugin", &fail, "--plugin", &drop])
        .expect_failure("fails first");
}

#[test]
fn files_that_others_may_write_are_refused_unless_forced() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new();
    let plugin = rogue(&dir, "rogue.so", &[]);
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o777)).unwrap();
    let out = dir.join("out");
    let outcome = run(&plugin, "keep", &out).expect_failure("writable");
    assert!(outcome.stderr.contains("may be written by others"), "{}", outcome.stderr);
    let arg = format!("{plugin}:do=keep");
    inject(&fixture("plain.data"), &out, &["--force", "--plugin", &arg]).expect_ok("forced");
}

#[test]
fn what_a_plugin_tells_is_a_warning_only_if_it_says_so() {
    let dir = Dir::new();
    let plugin = rogue(&dir, "rogue.so", &[]);
    let told = run(&plugin, "tell", &dir.join("out")).expect_ok("tell").stderr;
    assert!(told.contains("repipe: warning: plugin rogue: beware\n"), "{told}");
    assert!(told.contains("repipe: plugin rogue: all is done\n"), "{told}");
    let do_tell = format!("{plugin}:do=tell");
    let options = ["--summary=json", "--plugin", &do_tell];
    let told = inject(&fixture("plain.data"), &dir.join("out"), &options).expect_ok("as JSON").stderr;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["warnings"], serde_json::json!(["plugin rogue: beware"]));
    assert_eq!(told["notes"], serde_json::json!(["plugin rogue: all is done"]));
}
