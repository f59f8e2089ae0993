//! Whole processes: `repipe inject` against `cp`, and against `perf inject` where `PERF` names one, in one run.
//!
//! `REPIPE_BENCH_INPUTS=DIR [PERF=/path/to/perf] [ROUNDS=7] cargo bench --bench inject [-- NAME…]`
//!
//! DIR holds recordings `*.data` and streams `*.pipe`. Every round runs every case once, in an order that rotates;
//! a ratio is the median over rounds of the ratio within a round, so that it holds while the machine's speed drifts.
//! For each case: median wall time, its ratio to `cp` (streams: to `cat | cat | cat`), perf's ratio to it, and the
//! peak of anonymous memory, sampled in a round of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const OPTIONS: [&str; 5] = ["", "-b", "-B", "--buildid-all", "--mmap2-buildid-all"];

/// One thing to run: a pipeline of commands over an input.
struct Case {
    name: String,
    stages: Vec<Vec<String>>,
    input: PathBuf,
    piped: bool,
    walls: Vec<f64>,
}

impl Case {
    /// Runs it once; wall time in seconds, and the peak of `RssAnon` of the stage that does the work, in MB.
    fn run(&self, out: &Path, memory: bool) -> Result<(f64, f64), String> {
        let _ = std::fs::remove_file(out);
        let start = Instant::now();
        let mut children: Vec<Child> = Vec::new();
        let last = self.stages.len() - 1;
        for (i, argv) in self.stages.iter().enumerate() {
            let stdin = match children.last_mut().and_then(|c| c.stdout.take()) {
                Some(pipe) => Stdio::from(pipe),
                None => Stdio::null(),
            };
            let stdout = match (i == last, self.piped) {
                (true, true) => Stdio::from(File::create(out).map_err(|e| e.to_string())?),
                (true, false) => Stdio::null(),
                (false, _) => Stdio::piped(),
            };
            let [program, args @ ..] = argv.as_slice() else { return Err("no command".into()) };
            let child =
                Command::new(program).args(args).stdin(stdin).stdout(stdout).stderr(Stdio::null()).spawn();
            children.push(child.map_err(|e| format!("{program}: {e}"))?);
        }
        let worker = children.len() / 2;
        let peak = if memory { watch(children.get_mut(worker)) } else { 0.0 };
        let mut failed = None;
        for (child, argv) in children.iter_mut().zip(&self.stages) {
            let status = child.wait().map_err(|e| e.to_string())?;
            if !status.success() {
                failed = Some(format!("{}: {status}", argv.join(" ")));
            }
        }
        let wall = start.elapsed().as_secs_f64();
        let _ = std::fs::remove_file(out);
        failed.map_or(Ok((wall, peak)), Err)
    }
}

/// Samples a process's anonymous memory until it ends.
fn watch(child: Option<&mut Child>) -> f64 {
    let Some(child) = child else { return 0.0 };
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0f64;
    while matches!(child.try_wait(), Ok(None)) {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let kb = text
            .lines()
            .find_map(|l| l.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
        peak = peak.max(kb.unwrap_or(0.0) / 1e3);
        std::thread::sleep(Duration::from_millis(2));
    }
    peak
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| w.to_string()).collect()
}

fn cases(input: &Path, out: &Path, perf: Option<&str>) -> Vec<Case> {
    let piped = input.extension().is_some_and(|e| e == "pipe");
    let (from, to) = (input.to_string_lossy(), out.to_string_lossy());
    let case =
        |name: String, stages| Case { name, stages, input: input.to_path_buf(), piped, walls: Vec::new() };
    let yard = match piped {
        false => case("cp".into(), vec![strings(&["cp", &from, &to])]),
        true => {
            case("cat|cat|cat".into(), vec![strings(&["cat", &from]), strings(&["cat"]), strings(&["cat"])])
        }
    };
    let mut all = vec![yard];
    for option in OPTIONS {
        let tools = [("repipe", Some(env!("CARGO_BIN_EXE_repipe"))), ("perf", perf)];
        for (name, program) in tools.into_iter().filter_map(|(n, p)| Some((n, p?))) {
            let mut argv = strings(&[program, "inject"]);
            argv.extend(option.split_whitespace().map(String::from));
            let stages = if piped {
                vec![strings(&["cat", &from]), argv, strings(&["cat"])]
            } else {
                argv.extend(strings(&["-f", "-i", &from, "-o", &to]));
                vec![argv]
            };
            all.push(case(format!("{name} {option}").trim_end().to_string(), stages));
        }
    }
    all
}

fn measure(input: &Path, out: &Path, perf: Option<&str>, rounds: usize) -> Result<(), String> {
    let mut cases = cases(input, out, perf);
    for case in &cases {
        case.run(out, false).map_err(|e| format!("{} on {}: {e}", case.name, case.input.display()))?;
    }
    let count = cases.len();
    for round in 0..rounds {
        for i in 0..count {
            let Some(case) = cases.get_mut((i + round) % count) else { continue };
            let (wall, _) = case.run(out, false)?;
            case.walls.push(wall);
        }
    }
    let size = std::fs::metadata(input).map(|m| m.len() as f64 / 1e6).unwrap_or(f64::NAN);
    let yard = cases.first().map(|c| c.walls.clone()).unwrap_or_default();
    let yard_name = cases.first().map(|c| c.name.clone()).unwrap_or_default();
    println!("\n{} ({size:.1} MB, {rounds} rounds)", input.display());
    println!(
        "{:<28} {:>9} {:>14} {:>12} {:>10}",
        "case",
        "wall s",
        format!("/ {yard_name}"),
        "perf / it",
        "anon MB"
    );
    let ratio = |a: &[f64], b: &[f64]| median(a.iter().zip(b).map(|(a, b)| a / b).collect());
    for case in &cases {
        let peer = case.name.strip_prefix("repipe").map(|rest| format!("perf{rest}"));
        let peer = peer.and_then(|name| cases.iter().find(|c| c.name == name));
        let faster = peer.map_or(String::new(), |p| format!("{:.1}", ratio(&p.walls, &case.walls)));
        let (_, anon) = case.run(out, true)?;
        let wall = median(case.walls.clone());
        println!(
            "{:<28} {wall:>9.3} {:>14.2} {faster:>12} {anon:>10.1}",
            case.name,
            ratio(&case.walls, &yard)
        );
    }
    Ok(())
}

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let Some(dir) = std::env::var_os("REPIPE_BENCH_INPUTS") else {
        println!(
            "REPIPE_BENCH_INPUTS names no directory with recordings; nothing measured (see docs/benchmarks.md)"
        );
        return;
    };
    let perf = std::env::var("PERF").ok();
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(7);
    let mut inputs: Vec<PathBuf> =
        std::fs::read_dir(&dir).map(|d| d.flatten().map(|e| e.path()).collect()).unwrap_or_default();
    inputs.retain(|p| p.extension().is_some_and(|e| e == "data" || e == "pipe"));
    inputs
        .retain(|p| names.is_empty() || names.iter().any(|n| p.file_name().is_some_and(|f| f == n.as_str())));
    inputs.sort();
    let out = Path::new(&dir).join(".bench-output");
    for input in &inputs {
        if let Err(e) = measure(input, &out, perf.as_deref(), rounds) {
            eprintln!("{e}");
            std::process::exit(1);
        }
    }
}
