//! Each field of expressions, against what perf prints of it: the samples whose printed value meets the expression are
//! those that perf prints of the filtered recording.

use std::path::Path;
use std::process::Command;

use regex::Regex;

use super::super::support::lab::Lab;
use super::super::support::places::left_out;
use super::super::support::run::{inject, run};

/// A frame as perf prints it.
#[derive(Clone, Debug, PartialEq)]
struct Frame {
    ip: u64,
    symbol: String,
    dso: String,
}

/// A sample as perf prints it.
#[derive(Clone, Debug, PartialEq)]
struct Printed {
    line: String,
    comm: String,
    pid: i32,
    tid: i32,
    cpu: u32,
    misc: String,
    /// Seconds with nine digits: as text, so that nothing is rounded.
    time: String,
    period: u64,
    event: String,
    addr: u64,
    at: Frame,
    frames: Vec<Frame>,
}

/// What perf prints of a sample without looking for symbols.
const HEAD: &[&str] = &["-G", "-F", "comm,pid,tid,cpu,misc,time,period,event,addr"];

fn perf_script(perf: &Path, options: &[&str], path: &Path) -> String {
    let mut c = Command::new(perf);
    c.args(["script", "--ns", "--no-inline"]).args(options).arg("-i").arg(path);
    String::from_utf8_lossy(&run(&mut c).expect_ok("perf script").stdout).into_owned()
}

fn frame(line: &str) -> Frame {
    let whole = Regex::new(r"^\s*([0-9a-f]+) (.*) \((.*)\)$").unwrap();
    let parts = whole.captures(line).unwrap_or_else(|| panic!("no frame: {line}"));
    let text = |n: usize| parts[n].to_owned();
    Frame { ip: u64::from_str_radix(&parts[1], 16).unwrap(), symbol: text(2), dso: text(3) }
}

/// All samples in perf's words.
fn printed(perf: &Path, path: &Path) -> Vec<Printed> {
    let heads = perf_script(perf, HEAD, path);
    let places = perf_script(perf, &["-G", "-F", "ip,sym,dso"], path);
    let chains = perf_script(perf, &["-F", "time,ip,sym,dso"], path);
    let mut frames: Vec<Vec<Frame>> = Vec::new();
    for line in chains.lines().filter(|line| !line.is_empty()) {
        match line.starts_with('\t') {
            true => frames.last_mut().expect("a sample before its frames").push(frame(line)),
            false => frames.push(Vec::new()),
        }
    }
    let head = Regex::new(
        r"^\s*(.*?)\s+(-?\d+)/(-?\d+)\s+\[(\d+)\]\s+(\S+)\s+(\d+\.\d{9}):\s+(\d+)\s+(\S+?):\s+([0-9a-f]+)\s*$",
    )
    .unwrap();
    let samples: Vec<Printed> = heads
        .lines()
        .zip(places.lines())
        .zip(&frames)
        .map(|((line, place), frames)| {
            let parts = head.captures(line).unwrap_or_else(|| panic!("no sample: {line}"));
            let text = |n: usize| parts[n].to_owned();
            Printed {
                line: line.to_owned(),
                comm: text(1),
                pid: parts[2].parse().unwrap(),
                tid: parts[3].parse().unwrap(),
                cpu: parts[4].parse().unwrap(),
                misc: text(5),
                time: text(6),
                period: parts[7].parse().unwrap(),
                event: text(8),
                addr: u64::from_str_radix(&parts[9], 16).unwrap(),
                at: frame(place),
                frames: frames.clone(),
            }
        })
        .collect();
    assert_eq!((samples.len(), samples.len()), (heads.lines().count(), frames.len()));
    samples
}

/// The value that most samples have.
fn commonest<T: Clone + Eq + std::hash::Hash>(values: impl Iterator<Item = T>) -> T {
    let mut counts = std::collections::HashMap::new();
    for value in values {
        *counts.entry(value).or_insert(0) += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).expect("some value").0
}

/// Whether it is a name that needs no quotes, and that all demanglers agree on.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[test]
fn expressions_mean_what_perf_prints() {
    type Test<'a> = Box<dyn Fn(&Printed) -> bool + 'a>;
    let Some(lab) = Lab::new() else { return };
    let recent = lab.perf.is_recent_enough_for("names of threads that ended, and addresses of frames");
    let (perf, input) = (lab.perf.path, lab.dir.join("in"));
    let mut c = Command::new(&perf);
    c.args([
        "record",
        "-q",
        "-N",
        "-g",
        "-d",
        "--sample-cpu",
        "-e",
        "cpu-clock,page-faults",
        "-F",
        "999",
        "-o",
    ])
    .arg(&input);
    c.args([
        "--",
        "sh",
        "-c",
        "for i in 1 2 3; do ls -lR /usr/share > /dev/null & find /usr/lib > /dev/null; wait; done",
    ]);
    if !run(&mut c).ok() || !input.exists() {
        return left_out("perf cannot record kernel and user space here");
    }
    let all = printed(&perf, &input);
    let ids = run(Command::new(&perf).args(["buildid-list", "-i"]).arg(&input)).expect_ok("buildid-list");
    let ids = String::from_utf8_lossy(&ids.stdout).into_owned();
    let id = |dso: &str| ids.lines().find_map(|line| line.split_once(' ').filter(|(_, name)| *name == dso));

    let symbol = commonest(all.iter().map(|s| s.at.symbol.clone()).filter(|name| is_plain(name)));
    let outer = commonest(
        all.iter()
            .flat_map(|s| s.frames.iter().skip(1))
            .map(|f| f.symbol.clone())
            .filter(|name| is_plain(name)),
    );
    let dso = commonest(all.iter().map(|s| s.at.dso.clone()).filter(|name| name.ends_with(".so.6")));
    let (build_id, _) = id(&dso).expect("an id of a library that was hit");
    let (pid, tid) = (commonest(all.iter().map(|s| s.pid)), commonest(all.iter().map(|s| s.tid)));
    let comm = commonest(all.iter().map(|s| s.comm.clone()));
    let ip = commonest(all.iter().map(|s| s.at.ip));
    let caller = commonest(all.iter().filter_map(|s| s.frames.get(1)).map(|f| f.ip));
    let period = commonest(all.iter().map(|s| s.period));
    let (from, to) = (all[all.len() / 4].time.clone(), all[all.len() / 2].time.clone());
    let frames = |s: &Printed, test: &dyn Fn(&Frame) -> bool| test(&s.at) || s.frames.iter().any(test);

    let cases: Vec<(Vec<String>, Test<'_>)> = vec![
        (vec![format!("pid == {pid}")], Box::new(|s| s.pid == pid)),
        (vec![format!("tid != {tid}")], Box::new(|s| s.tid != tid)),
        (vec!["cpu == 0".into()], Box::new(|s| s.cpu == 0)),
        (vec![format!("time in {from}..{to}")], Box::new(|s| s.time >= from && s.time <= to)),
        (vec![format!("time < {from} or time > {to}")], Box::new(|s| s.time < from || s.time > to)),
        (vec!["event == page-faults".into()], Box::new(|s| s.event == "page-faults")),
        (vec!["--event".into(), "cpu-clock".into()], Box::new(|s| s.event == "cpu-clock")),
        (vec!["cpumode == kernel".into()], Box::new(|s| s.misc == "K")),
        (vec!["cpumode in {user, hypervisor}".into()], Box::new(|s| s.misc == "U")),
        (vec![format!("ip == {ip}")], Box::new(|s| s.at.ip == ip)),
        (vec!["ip >= 0x8000000000000000".into()], Box::new(|s| s.at.ip >> 63 == 1)),
        (vec!["addr in 1..0x7fffffffffffffff".into()], Box::new(|s| s.addr != 0 && s.addr >> 63 == 0)),
        (vec![format!("period == {period}")], Box::new(|s| s.period == period)),
        (vec!["period not in 2..1000".into()], Box::new(|s| !(2..=1000).contains(&s.period))),
        (vec![format!("comm == \"{comm}\"")], Box::new(|s| s.comm == comm)),
        (vec!["comm =~ ^l".into()], Box::new(|s| s.comm.starts_with('l'))),
        (vec![format!("dso == {dso}")], Box::new(|s| s.at.dso == dso)),
        (vec!["dso !~ \"so\"".into()], Box::new(|s| !s.at.dso.contains("so") || s.at.dso == "[unknown]")),
        (vec![format!("build-id == {build_id}")], Box::new(|s| s.at.dso == dso)),
        (vec![format!("symbol == {symbol}")], Box::new(|s| s.at.symbol == symbol)),
        (
            vec!["symbol =~ ^_?_?x64_sys_".into()],
            Box::new(|s| s.at.symbol.trim_start_matches('_').starts_with("x64_sys_")),
        ),
        (vec![format!("frame.symbol == {outer}")], Box::new(|s| frames(s, &|f| f.symbol == outer))),
        (vec![format!("frame.ip == {caller}")], Box::new(|s| frames(s, &|f| f.ip == caller))),
        (vec![format!("frame.dso == {dso}")], Box::new(|s| frames(s, &|f| f.dso == dso))),
        (vec![format!("frame.build-id =~ ^{build_id}$")], Box::new(|s| frames(s, &|f| f.dso == dso))),
        (
            vec![format!("not (frame.symbol == {outer} or cpu == 1) and period > 0 and event =~ clock")],
            Box::new(|s| !frames(s, &|f| f.symbol == outer) && s.cpu != 1 && s.event.contains("clock")),
        ),
    ];
    let mut chosen = 0;
    for (options, test) in &cases {
        if !recent && (options[0].starts_with("comm") || options[0].starts_with("frame.ip")) {
            continue;
        }
        let out = lab.dir.join("out");
        let options: Vec<&str> = match options.as_slice() {
            [expr] => vec!["--filter", expr],
            options => options.iter().map(String::as_str).collect(),
        };
        inject(&options, &input, &out).expect_ok(options[1]);
        let expected: Vec<&Printed> = all.iter().filter(|sample| test(sample)).collect();
        let after = perf_script(&perf, HEAD, &out);
        let lines: Vec<&str> = after.lines().collect();
        let differ = expected.iter().zip(&lines).find(|(sample, line)| sample.line != **line);
        assert!(
            expected.len() == lines.len() && differ.is_none(),
            "{options:?}: {} of {} expected, {} left; first difference: {differ:?}",
            expected.len(),
            all.len(),
            lines.len()
        );
        chosen += usize::from(!expected.is_empty() && expected.len() < all.len());
    }
    assert!(chosen + 6 >= cases.len(), "{chosen} of {} expressions choose", cases.len());
}

/// A name that is compared as a whole is looked for in the tables of names; a pattern is asked of every symbol that is met.
#[test]
fn symbols_are_the_same_by_name_and_by_pattern() {
    let Some(lab) = Lab::new() else { return };
    let command = ["sh", "-c", "for i in 1 2 3; do ls -lR /usr/lib /usr/share | sort | tail -n 1; done"];
    let Some(input) = lab.record("names", &["-g", "-F", "4000", "-e", "cpu-clock"], &command) else { return };
    let text = lab.ours(&["-F", "ip,sym"], &input);
    let name = Regex::new(r"^[A-Za-z0-9_]+(@plt|@@\S+)?$").unwrap();
    let met = text.lines().filter_map(|line| line.split_whitespace().nth(1)).filter(|n| name.is_match(n));
    let mut names: Vec<&str> = met.collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() > 100, "{} names", names.len());
    let every = names.len() / 15;
    let mut sizes = Vec::new();
    for name in names.into_iter().step_by(every).chain(["malloc", "no_such_function"]) {
        let [one, two] = [format!("== {name:?}"), format!("=~ {:?}", format!("^{name}$"))].map(|test| {
            let out = input.with_extension("out");
            inject(&["--filter", &format!("frame.symbol {test} or symbol {test}")], &input, &out)
                .expect_ok(&test);
            std::fs::read(out).unwrap()
        });
        assert!(one == two, "{name}: {} and {} bytes", one.len(), two.len());
        sizes.push(one.len());
    }
    let none = sizes.pop();
    assert!(sizes.iter().filter(|size| Some(**size) > none).count() > 10, "{sizes:?}");
}
