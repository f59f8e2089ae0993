//! A real perf as recorder and as reader. `$PERF` or the first `perf` on the PATH; required in CI.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::places;
use super::support::recording::{BuildId, kind};
use super::support::run::{Dir, inject, repipe, run, run_with};
use super::support::{compare, oracle, places::left_out};

/// A perf, a directory and the program that is recorded.
struct Lab {
    perf: PathBuf,
    dir: Dir,
    program: PathBuf,
}

const PROGRAM: &str = "
int sink;
__attribute__((noinline)) void spin(int n) { for (int i = 0; i < n; i++) sink += i; }
int main(void) { for (int i = 0; i < 300; i++) spin(1000000); return 0; }
";

impl Lab {
    /// `None`, said plainly, where this machine has no perf, compiler or permission to record.
    fn new() -> Option<Lab> {
        let perf = places::perf()?;
        let dir = Dir::new();
        let source = dir.file("spin.c", PROGRAM.as_bytes());
        let program = dir.join("spin");
        let built = Command::new("cc")
            .args(["-O1", "-g", "-fno-omit-frame-pointer", "-Wl,--build-id", "-o"])
            .args([&program, &source])
            .status();
        if !built.is_ok_and(|s| s.success()) {
            left_out("no C compiler");
            return None;
        }
        let lab = Lab { perf, dir, program };
        if lab.record("probe.data", &[]).is_none() {
            left_out("perf cannot record cpu-clock here");
            return None;
        }
        Some(lab)
    }

    fn record(&self, name: &str, options: &[&str]) -> Option<PathBuf> {
        let out = self.dir.join(name);
        let mut c = Command::new(&self.perf);
        c.args(["record", "-q", "-B", "-N", "-e", "cpu-clock:u", "-F", "2000"]).args(options);
        let outcome = run(c.arg("-o").arg(&out).arg("--").arg(&self.program));
        (outcome.ok() && out.exists()).then_some(out)
    }

    /// What perf prints of the samples.
    fn script(&self, path: &Path) -> String {
        let mut c = Command::new(&self.perf);
        c.args(["script", "--ns", "-F", "comm,pid,tid,time,event,ip,sym,dso", "-i"]).arg(path);
        let outcome = run(&mut c).expect_ok("perf script");
        String::from_utf8_lossy(&outcome.stdout).into_owned()
    }

    fn build_ids(&self, path: &Path) -> String {
        let outcome =
            run(Command::new(&self.perf).args(["buildid-list", "-i"]).arg(path)).expect_ok("buildid-list");
        String::from_utf8_lossy(&outcome.stdout).into_owned()
    }

    /// The program's id as readelf sees it.
    fn program_id(&self) -> String {
        let outcome = run(Command::new("readelf").arg("-n").arg(&self.program)).expect_ok("readelf");
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let line = text.lines().find(|l| l.contains("Build ID:")).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    }

    #[track_caller]
    fn check(&self, input: &Path, before: &str) {
        for style in ["", "-b", "--buildid-all", "--mmap2-buildid-all", "-B"] {
            let options: Vec<&str> = [style].into_iter().filter(|s| !s.is_empty()).collect();
            let out = self.dir.join("out");
            inject(&options, input, &out).expect_ok(style);
            // -B names no mapping that nothing hits, and the vdso has no file
            let known = |text: &str| {
                text.lines().filter(|l| !l.contains("[vdso]")).map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(known(&self.script(&out)), known(before), "{style}");
            if matches!(style, "-b" | "--buildid-all") {
                let line = format!("{} {}", self.program_id(), self.program.display());
                let ids = self.build_ids(&out);
                assert!(ids.lines().any(|l| l == line), "{style}: no {line} in\n{ids}");
            }
        }
    }
}

#[test]
fn perf_prints_the_same_samples_before_and_after() {
    let Some(lab) = Lab::new() else { return };
    for (name, options) in
        [("plain.data", &[][..]), ("g.data", &["-g"]), ("id.data", &["--sample-identifier", "-d", "-W"])]
    {
        let input = lab.record(name, options).unwrap();
        let before = lab.script(&input);
        assert!(before.contains("spin"), "{name}: {before}");
        lab.check(&input, &before);
    }
}

#[test]
fn perf_reads_what_was_compressed() {
    let Some(lab) = Lab::new() else { return };
    let Some(input) = lab.record("z.data", &["-z", "-g"]) else {
        return left_out("this perf records no -z");
    };
    let before = lab.script(&input);
    lab.check(&input, &before);
    let plain = lab.record("plain.data", &["-g"]).unwrap();
    let out = lab.dir.join("packed");
    inject(&["-z", "-b"], &plain, &out).expect_ok("-z");
    assert_eq!(lab.script(&out), lab.script(&plain));
    let raw = oracle::parse_raw(&std::fs::read(&out).unwrap()).unwrap();
    assert!(raw.count(kind::COMPRESSED) + raw.count(kind::COMPRESSED2) > 0);
}

#[test]
fn perf_reads_what_came_through_pipes() {
    let Some(lab) = Lab::new() else { return };
    let input = lab.record("plain.data", &["-g"]).unwrap();
    let before = lab.script(&input);
    let piped = run(repipe().args(["inject", "-b", "-i"]).arg(&input)).expect_ok("file to pipe").stdout;
    let mut c = Command::new(&lab.perf);
    c.args(["script", "--ns", "-F", "comm,pid,tid,time,event,ip,sym,dso", "-i", "-"]);
    let outcome = run_with(&mut c, &piped).expect_ok("perf script of a pipe");
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), before);
    let out = lab.dir.join("out");
    run_with(repipe().args(["inject", "-b", "-o"]).arg(&out), &piped).expect_ok("pipe to file");
    assert_eq!(lab.script(&out), before);
}

#[test]
fn perf_reads_a_directory_made_one_file() {
    let Some(lab) = Lab::new() else { return };
    let Some(input) = lab.record("threads", &["--threads", "-g"]) else {
        return left_out("this perf records no --threads");
    };
    let sorted = |text: String| {
        let mut samples: Vec<String> = text.split("\n\n").map(str::to_owned).collect();
        samples.sort();
        samples
    };
    let before = sorted(lab.script(&input));
    for style in [&[][..], &["-b"]] {
        let out = lab.dir.join("out");
        inject(style, &input, &out).expect_ok("directory");
        assert_eq!(sorted(lab.script(&out)), before);
    }
}

/// DSOs of the frames of unwound stacks, as perf walks them.
fn dsos_of_frames(lab: &Lab, path: &Path) -> BTreeSet<String> {
    let mut c = Command::new(&lab.perf);
    let outcome = run(c.args(["script", "--no-inline", "-F", "ip,dso", "-i"]).arg(path)).expect_ok("script");
    let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
    let dso = |line: &str| Some(line.split_once(" (")?.1.strip_suffix(')')?.to_owned());
    let dsos: BTreeSet<String> = text.lines().filter_map(dso).collect();
    dsos.into_iter().filter(|dso| !dso.starts_with("//anon") && dso != "[unknown]").collect()
}

#[test]
fn every_dso_that_unwinding_touches_has_an_id() {
    let Some(lab) = Lab::new() else { return };
    // A program whose work is in libraries, called back from them, so that stacks go through several.
    let source = "#include <stdlib.h>
        #include <math.h>
        static double keys[20000];
        static int less(const void *a, const void *b) {
          double x = pow(*(const double *)a, 1.01), y = pow(*(const double *)b, 1.01); return (x > y) - (x < y); }
        int main(void) {
          for (int k = 0; k < 6; k++) { for (int i = 0; i < 20000; i++) keys[i] = rand(); qsort(keys, 20000, 8, less); }
          return keys[0] < 0; }";
    let (source, program) = (lab.dir.file("sort.c", source.as_bytes()), lab.dir.join("sort"));
    let built = Command::new("cc")
        .args(["-O1", "-Wl,--build-id", "-o"])
        .args([&program, &source])
        .arg("-lm")
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    let input = lab.dir.join("dwarf.data");
    let mut c = Command::new(&lab.perf);
    c.args(["record", "-q", "-B", "-N", "-e", "cpu-clock", "-F", "2000", "--call-graph", "dwarf,4096", "-o"]);
    run(c.arg(&input).arg("--").arg(&program)).expect_ok("record");
    let touched = dsos_of_frames(&lab, &input);
    let program = program.to_str().unwrap();
    for part in [program, "/libc", "/libm", "[kernel.kallsyms]"] {
        assert!(touched.iter().any(|dso| dso.contains(part)), "no frame in {part}: {touched:?}");
    }
    let parse = |path: &Path| oracle::parse(&std::fs::read(path).unwrap()).unwrap();
    let before = parse(&input);
    assert!(compare::map_ids(&before).is_empty() && oracle::table_of(&before).is_empty(), "ids before");
    let out = lab.dir.join("out");
    inject(&["-b"], &input, &out).expect_ok("-b");
    let listed = oracle::injected_of(&parse(&out));
    for dso in &touched {
        let its = |entry: &BuildId| entry.name == *dso && entry.id.iter().any(|&byte| byte != 0);
        assert!(listed.iter().any(its), "-b: no id for {dso} in {listed:?}");
    }
    inject(&["-B"], &input, &out).expect_ok("-B");
    let maps = compare::map_ids(&parse(&out));
    for dso in &touched {
        // The kernel's map has a symbol's name behind its own.
        let its = |(name, id): &&(String, Vec<u8>)| name.starts_with(dso) && id.iter().any(|&byte| byte != 0);
        assert!(maps.iter().any(|map| its(&map)), "-B: no id for {dso} in {maps:?}");
    }
    assert_eq!(dsos_of_frames(&lab, &out), touched, "frames after -B");
}
