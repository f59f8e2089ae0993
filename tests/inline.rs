//! `repipe script --inline`: inlined functions as frames, compared with perf on programs that are made here.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::lab::Perf;
use super::support::places::left_out;
use super::support::run::{Dir, repipe, run};

const INLINING_CXX: &str = "
volatile unsigned long sink;
template <class T> struct Acc { T v; __attribute__((always_inline)) void add(T x) { v = v * 31 + x; sink = v; } };
namespace deep {
static inline __attribute__((always_inline)) void leaf(Acc<unsigned long>& a, unsigned long n) {
  for (unsigned long i = 0; i < n; i++) a.add(i); }
static inline __attribute__((always_inline)) void mid(Acc<unsigned long>& a) { leaf(a, 1000); leaf(a, 2000); }
}
__attribute__((noinline)) void outer(Acc<unsigned long>& a) { deep::mid(a); sink = sink + 1; }
int main() { Acc<unsigned long> a{1}; for (int i = 0; i < 20000; i++) outer(a); return 0; }
";

const INLINING_RUST: &str = "
use std::hint::black_box;
#[inline(always)]
fn leaf(v: u64, n: u64) -> u64 { (0..n).fold(v, |a, i| black_box(a.wrapping_mul(31).wrapping_add(i))) }
#[inline(always)]
fn mid(v: u64) -> u64 { leaf(v, 1000) ^ leaf(v, 2000) }
#[inline(never)]
fn outer(v: u64) -> u64 { mid(v).wrapping_add(1) }
fn main() { let mut v = 1; for _ in 0..20000 { v = outer(v); } black_box(v); }
";

/// Runs a step of making a program; false, and said so, if it can't be run here.
fn made(command: &mut Command) -> bool {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.status().is_ok_and(|status| status.success());
    if !done {
        left_out(&format!("{name} is not here or fails"));
    }
    done
}

/// Records a program with copies of its stack; `None` if that can't be done here.
fn recorded(perf: &Path, program: &Path, how: &[&str]) -> Option<PathBuf> {
    let out = program.with_extension(format!("{}.data", how.join("-").replace([',', ' '], "")));
    let mut c = Command::new(perf);
    c.args(["record", "-q", "-N", "-e", "cpu-clock:u", "-F", "499"]).args(how).arg("-o").arg(&out);
    let recorded = run(c.arg("--").arg(program)).ok();
    if !recorded {
        left_out("perf cannot record cpu-clock here");
    }
    recorded.then_some(out)
}

/// With `--inline`, ours and perf's lines, which has it by default.
fn inlined_by_both(perf: &Path, options: &[&str], input: &Path) -> (Vec<String>, Vec<String>) {
    let lines = |c: &mut Command| {
        let outcome = run(c.args(options).arg("-i").arg(input)).expect_ok("script");
        String::from_utf8_lossy(&outcome.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    (lines(repipe().args(["script", "--inline"])), lines(Command::new(perf).args(["script", "--inline"])))
}

/// Lines where perf's own is not the same function: it takes the outermost name from addr2line, which spells versioned
/// symbols otherwise, and knows no newer names of Rust.
fn perf_is_to_be_compared(line: &str) -> bool {
    !["__libc_start_main", " _R", "$u7b$"].iter().any(|part| line.contains(part))
}

#[test]
fn inlined_functions_of_cxx_are_frames_as_perf_has_them() {
    let Some(perf) = Perf::here() else { return };
    let compare = perf.is_recent_enough_for("inlined functions");
    let perf = perf.path;
    let dir = Dir::new();
    let source = dir.file("p.cpp", INLINING_CXX.as_bytes());
    let builds: [(&str, &[&str]); 4] =
        [("v5", &["-g"]), ("v4", &["-gdwarf-4"]), ("packed", &["-g", "-gz"]), ("split", &["-g"])];
    for (name, flags) in builds {
        let program = dir.join(name);
        if !made(Command::new("c++").args(["-O2"]).args(flags).arg("-o").args([&program, &source])) {
            return;
        }
        if name == "split" {
            let debug = dir.join("split.debug");
            let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
            link.push(&debug);
            let steps = [
                made(Command::new("objcopy").arg("--only-keep-debug").args([&program, &debug])),
                made(Command::new("objcopy").arg("--strip-debug").arg(link).arg(&program)),
            ];
            if steps != [true; 2] {
                return;
            }
        }
        let Some(input) = recorded(&perf, &program, &["--call-graph", "dwarf,4096"]) else { return };
        for options in [&["-F", "ip,sym,dso"][..], &["-F", "ip,sym,symoff"], &["-F", "ip"]] {
            if !compare {
                continue;
            }
            let (ours, perfs) = inlined_by_both(&perf, options, &input);
            let compared = |line: &&String| options != ["-F", "ip"] && perf_is_to_be_compared(line);
            let pairs = ours.iter().zip(&perfs).filter(|(_, perf)| compared(perf));
            pairs.for_each(|(ours, perfs)| assert_eq!(ours, perfs, "{name} {options:?}"));
            assert_eq!(ours.len(), perfs.len(), "{name} {options:?}");
        }
        let ours = text_of(&["--inline", "-F", "ip,sym,dso"], &input);
        let ours: Vec<&str> = ours.lines().collect();
        let names: Vec<&str> = ours.iter().filter_map(|line| line.get(18..)).collect();
        let expected =
            ["Acc<unsigned long>::add(unsigned long) (inlined)", "leaf (inlined)", "mid (inlined)"];
        assert!(names.windows(3).filter(|w| *w == expected).count() > 5, "{name}: {ours:?}");
        let none = text_of(&["-F", "ip,sym,dso"], &input);
        assert!(!none.contains("inlined"), "{name}");
        // a limit that lets nothing stay
        let with = text_of(&["--inline", "-F", "ip,sym,dso"], &input);
        assert_eq!(text_of(&["--inline", "-F", "ip,sym,dso", "--memory-limit", "1"], &input), with);
        let json = text_of(&["--inline", "--json"], &input);
        let sample: serde_json::Value = serde_json::from_str(json.lines().nth(5).unwrap()).unwrap();
        let chain = sample["callchain"].as_array().unwrap();
        let inlined = chain.iter().filter(|frame| frame["inlined"] == true).count();
        assert!(inlined >= 2 && chain.iter().any(|frame| frame.get("inlined").is_none()), "{sample}");
    }
}

/// dwz moves what two programs have in common to a file that both refer to: by its path, or by build-id.
#[test]
fn debug_information_that_files_share_names_inlined_functions() {
    let Some(perf) = Perf::here() else { return };
    let dir = Dir::new();
    let source = dir.file("p.cpp", INLINING_CXX.as_bytes());
    let (program, other, shared) = (dir.join("one"), dir.join("two"), dir.join("shared.debug"));
    for program in [&program, &other] {
        if !made(Command::new("c++").args(["-O2", "-g", "-o"]).args([program, &source])) {
            return;
        }
    }
    let Some(input) = recorded(&perf.path, &program, &["--call-graph", "dwarf,4096"]) else { return };
    let options = ["--inline", "-F", "ip,sym,dso", "--force"];
    let expected = text_of(&options, &input);
    assert!(expected.lines().filter(|line| line.ends_with(" leaf (inlined)")).count() > 5, "{expected}");
    if !made(Command::new("dwz").arg("-m").args([&shared, &program, &other])) {
        return;
    }
    assert_eq!(text_of(&options, &input), expected, "by its path");
    // Somewhere else, where only the build-id leads to.
    let notes = run(Command::new("readelf").arg("-n").arg(&shared)).expect_ok("readelf").stdout;
    let notes = String::from_utf8_lossy(&notes).into_owned();
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap();
    let cached = dir.join("cache/.build-id").join(&id[..2]).join(&id[2..]);
    std::fs::create_dir_all(&cached).unwrap();
    std::fs::rename(&shared, cached.join("debug")).unwrap();
    let cache = dir.join("cache");
    let with_cache = [&options[..], &["--buildid-dir", cache.to_str().unwrap()]].concat();
    assert_eq!(text_of(&with_cache, &input), expected, "by its build-id");
    // The functions are there, their names are not.
    let unnamed = text_of(&options, &input);
    assert_eq!(unnamed.lines().count(), expected.lines().count());
    assert!(unnamed.contains(" [unknown] (inlined)") && !unnamed.contains(" leaf (inlined)"), "{unnamed}");
    // Another file of that name is not taken.
    std::fs::copy(&other, &shared).unwrap();
    assert_eq!(text_of(&options, &input), unnamed, "another file");
}

fn text_of(options: &[&str], input: &Path) -> String {
    let outcome = run(repipe().arg("script").args(options).arg("-i").arg(input)).expect_ok("script");
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

#[test]
fn inlined_functions_of_rust_are_frames_as_perf_has_them() {
    let Some(perf) = Perf::here() else { return };
    let compare = perf.is_recent_enough_for("inlined functions");
    let perf = perf.path;
    let dir = Dir::new();
    let source = dir.file("q.rs", INLINING_RUST.as_bytes());
    let program = dir.join("q");
    let mut c = Command::new("rustc");
    c.args(["-C", "opt-level=2", "-g", "-C", "force-frame-pointers=yes", "-o"]).args([&program, &source]);
    if !made(&mut c) {
        return;
    }
    let Some(input) = recorded(&perf, &program, &["--call-graph", "dwarf,4096"]) else { return };
    if compare {
        let (ours, perfs) = inlined_by_both(&perf, &["-F", "ip,sym,dso"], &input);
        assert_eq!(ours.len(), perfs.len());
        let pairs: Vec<_> =
            ours.iter().zip(&perfs).filter(|(_, perf)| perf_is_to_be_compared(perf)).collect();
        assert!(pairs.iter().filter(|(_, perf)| perf.contains("(inlined)")).count() > 20, "{perfs:?}");
        pairs.iter().for_each(|(ours, perfs)| assert_eq!(ours, perfs));
    }
    // Chains of frame pointers too, which perf 6.12 leaves as they are; return addresses stand behind the call.
    let Some(input) = recorded(&perf, &program, &["-g"]) else { return };
    let text = text_of(&["--inline", "-F", "ip,sym,dso"], &input);
    let mid = text.lines().filter(|line| line.ends_with(" q::mid (inlined)")).count();
    let outer = text.lines().filter(|line| line.contains(" q::outer (")).count();
    assert!(outer > 5 && mid * 10 > outer * 8, "{mid} of {outer}");
}
