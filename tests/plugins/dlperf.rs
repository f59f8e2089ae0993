//! Three dlfilters of our own, under repipe and under perf: what they see, what they print, and which samples they leave are
//! the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::support::builder::{AttrSpec, Branch, Builder, Map, Sample};
use super::super::support::lab::Lab;
use super::super::support::places::{self, left_out, root};
use super::super::support::recording::{feature, st};
use super::super::support::run::{Dir, inject, repipe, run};
use super::super::support::wire::Order;
use super::{build, fixture};

/// Recordings made here are of programs of this machine, others of the fixtures'.
const OF_HERE: [&str; 2] = ["lines.data", "faults.data"];

fn symfs(input: &Path) -> Vec<String> {
    let is_of_here = OF_HERE.iter().any(|name| input.ends_with(name));
    let symfs = root().join("fixtures/symfs").to_str().unwrap().to_owned();
    if is_of_here { Vec::new() } else { vec!["--symfs".into(), symfs] }
}

/// Standard output of a `script` with or without a dlfilter.
fn script(mut program: Command, input: &Path, filter: &[&str]) -> String {
    program.args(["script", "--ns", "-F", "comm,tid,time,event,ip,sym,dso,period"]).args(symfs(input));
    let outcome = run(program.args(filter).arg("-i").arg(input)).expect_ok("script");
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

/// A recording with something in every field that a dlfilter is told of; page faults, so that addresses are resolved.
fn built(order: Order) -> Vec<u8> {
    let spec = AttrSpec {
        kind: 1,
        config: 2,
        // An older perf refuses a longer one.
        size: 128,
        ..AttrSpec::new(
            st::IP
                | st::TID
                | st::TIME
                | st::ADDR
                | st::ID
                | st::STREAM_ID
                | st::CPU
                | st::PERIOD
                | st::CALLCHAIN
                | st::RAW
                | st::BRANCH_STACK
                | st::WEIGHT
                | st::DATA_SRC
                | st::TRANSACTION
                | st::PHYS_ADDR
                | st::CGROUP
                | st::DATA_PAGE_SIZE
                | st::CODE_PAGE_SIZE,
        )
    };
    let work = "/usr/local/share/repipe-fixtures/work";
    let mut recording = Builder::with(order, &spec)
        // perf reads no instructions of another machine.
        .feature_string(feature::ARCH, std::env::consts::ARCH)
        .at(10, 10, 900)
        .exec(10, "work")
        .mmap2(&Map::exec(10, 0x40_0000, 0x1000, work));
    for n in 0..40u64 {
        // Where instructions of inner() begin.
        let ip = 0x40_0169 + n % 3 * 3;
        recording = recording.sample(&Sample {
            addr: 0x40_0160 + n * 4,
            stream_id: 5,
            cpu: (n % 3) as u32,
            period: 100 + n,
            callchain: vec![-512i64 as u64, ip, 0x40_0200],
            raw: vec![n as u8; 4 + 8 * (n as usize % 3)],
            branches: (0..n % 4)
                .map(|b| Branch { from: ip + b, to: ip, flags: 1 + b, counters: 0 })
                .collect(),
            weight: n * n,
            data_src: 0x6810_0142 + n,
            transaction: n,
            phys_addr: 0x1000 * n,
            cgroup: 42,
            data_page_size: 4096,
            code_page_size: 0x20_0000,
            ..Sample::user(10, ip, 1000 + n)
        });
    }
    recording.finished_round().file()
}

/// What a filter wrote down. The last word of filter.c's lines is the source file: without a line table, perf may have the
/// name of one from the symbol table.
fn written(log: &Path, name: &str, has_lines: bool) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let cut = |line: &str| line.rsplit_once(' ').map_or(line.to_owned(), |(start, _)| start.to_owned());
    match name == "filter" && !has_lines {
        true => text.lines().map(cut).collect::<Vec<_>>().join("\n"),
        false => text,
    }
}

/// A line without the size of a build-id and the sum of its bytes, which perf did not look for.
fn without_id(line: &str) -> String {
    let line = line.replace(" 20/88 ", " 0/88 ");
    let mut words: Vec<&str> = line.split(' ').collect();
    for at in 1..words.len().saturating_sub(1) {
        if words[at - 1] == "id" && words[at] == "20" {
            (words[at], words[at + 1]) = ("0", "0");
        }
    }
    words.join(" ") + "\n"
}

/// Compares a dlfilter on a recording. How many lines were printed.
fn compare(lab: &Lab, dir: &Dir, name: &str, filter: &Path, input: &Path) -> usize {
    let log = dir.join("log");
    let mut options = vec!["--dlfilter", filter.to_str().unwrap()];
    let args = match name {
        "filter" => vec!["odd", log.to_str().unwrap()],
        "look" => vec![log.to_str().unwrap()],
        _ => Vec::new(),
    };
    options.extend(args.iter().flat_map(|arg| ["--dlarg", arg]));
    let has_lines = input.ends_with("lines.data");
    let of_here = symfs(input).is_empty();
    let take_log = || {
        let log = written(&log, name, has_lines);
        if of_here || places::has_programs_at_home() { log } else { log.lines().map(without_id).collect() }
    };

    let theirs = script(Command::new(&lab.perf.path), input, &options);
    let seen = take_log();
    let what = format!("{name} on {}", input.display());
    // The narrower columns of an older perf tell nothing of the filter.
    if lab.perf.is_recent() {
        assert_eq!(script(repipe(), input, &options), theirs, "{what}");
        assert_eq!(take_log(), seen, "{what}");
    }
    // By the same name, so that the same symbols are looked for.
    std::fs::create_dir_all(dir.join("left")).unwrap();
    let (symfs, out) = (symfs(input), dir.join("left").join(input.file_name().unwrap()));
    let symfs: Vec<&str> = symfs.iter().map(String::as_str).collect();
    let printed = inject(&[symfs.as_slice(), options.as_slice()].concat(), input, &out);
    let printed = String::from_utf8(printed.expect_ok(&what).stdout).unwrap();
    // An older perf has other names for entries of the PLT.
    if lab.perf.is_recent() || !symfs.is_empty() {
        assert_eq!(take_log(), seen, "{what}");
    }
    // What the filter prints itself goes to standard output here too, without the samples.
    let own = |line: &&str| name == "say" && ["early ", "late ", "stop"].iter().any(|w| line.starts_with(w));
    let samples: Vec<&str> = theirs.lines().filter(|line| !own(line)).collect();
    let left = script(Command::new(&lab.perf.path), &out, &[]);
    assert_eq!(left.lines().collect::<Vec<_>>(), samples, "{what}");
    assert_eq!(printed.lines().count(), theirs.lines().filter(own).count(), "{what}");
    seen.lines().count() + samples.len()
}

#[test]
fn three_dlfilters_see_and_leave_what_they_do_under_perf() {
    let Some(lab) = Lab::new() else { return };
    let dir = Dir::new();
    let mut inputs: Vec<PathBuf> = vec![fixture("plain.data"), fixture("g.data"), fixture("forks.data")];
    inputs.push(dir.file("built.data", &built(Order::Little)));
    match lab.record("faults", &["-d", "-W", "-g", "-e", "page-faults", "-c", "1"], &["ls", "/"]) {
        Some(input) => inputs.push(input),
        None => left_out("perf cannot record page faults here"),
    }
    let source = "int sink;\n__attribute__((noinline)) void spin(int n) {\n  for (int i = 0; i < n; i++)\n    sink += i;\n}\n\
                  int main(void) {\n  for (int i = 0; i < 300; i++)\n    spin(100000);\n  return 0;\n}\n";
    let program = lab.build("cc", &["-g", "-O1"], "lines", source);
    let recorded = program.and_then(|program| {
        lab.record("lines", &["-e", "cpu-clock:u", "-F", "2000"], &[program.to_str().unwrap()])
    });
    let Some(with_lines) = recorded else { return left_out("no program with line tables") };
    inputs.push(with_lines);
    for name in ["filter", "say", "look"] {
        let filter = build(&dir, &format!("{name}.c"), &format!("{name}.so"), &[]);
        for input in &inputs {
            assert!(compare(&lab, &dir, name, &filter, input) > 20, "{name} on {}", input.display());
        }
    }
}

#[test]
fn a_recording_of_the_other_byte_order_shows_a_dlfilter_the_same() {
    let dir = Dir::new();
    let filter = build(&dir, "look.c", "look.so", &[]);
    let logs = Order::BOTH.map(|order| {
        let (input, log) = (dir.file("in", &built(order)), dir.join("log"));
        let symfs = symfs(&input);
        let options = ["--dlfilter", filter.to_str().unwrap(), "--dlarg", log.to_str().unwrap()];
        let options = [&[symfs[0].as_str(), symfs[1].as_str()], &options[..]].concat();
        inject(&options, &input, &dir.join("out")).expect_ok("inject");
        std::fs::read_to_string(log).unwrap()
    });
    assert_eq!(logs[0].lines().count(), 40);
    let first = logs[0].lines().next().unwrap();
    assert!(
        first.contains(" raw 4 ")
            && first.contains(" chain 3 ")
            && first.contains("addr 160 inner 153-18d+d "),
        "{first}"
    );
    // Branches' flags are bit-fields, which each order begins at its own end.
    let plain = |log: &String| -> Vec<String> {
        log.lines().filter(|line| line.contains(" branches 0 ")).map(str::to_owned).collect()
    };
    assert_eq!(plain(&logs[0]), plain(&logs[1]));
    assert_eq!(plain(&logs[0]).len(), 10);
}
