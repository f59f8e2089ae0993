//! Over every recording of the corpus, in both byte orders and over all four transports: what a rewrite keeps,
//! what it adds, and that rewriting its own output changes nothing more.

use std::path::Path;

use super::support::compare::{self, Failures};
use super::support::places::{name, recording, recordings};
use super::support::recording::{BuildId, Container, Recording, feature, kind};
use super::support::run::{Dir, Outcome, inject, repipe, run, run_with};
use super::support::wire::Order;
use super::support::{oracle, swap};

/// File or pipe in, file or pipe out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    FileFile,
    FilePipe,
    PipeFile,
    PipePipe,
}

impl Way {
    fn output(self) -> Container {
        match self {
            Way::FileFile | Way::PipeFile => Container::File,
            Way::FilePipe | Way::PipePipe => Container::Pipe,
        }
    }
}

/// The styles that add build-ids, with every source on this machine shut off.
const STYLES: [&str; 2] = ["-b", "--buildid-all"];

struct Case {
    name: String,
    /// The recording as its file has it.
    bytes: Vec<u8>,
    read: Recording,
    compressed: bool,
}

/// Recordings that are whole, in one order; the twin of a compressed one is its decompressed content.
fn cases(order: Order) -> impl Iterator<Item = Case> {
    recordings().into_iter().filter(|p| !name(p).contains("corrupted")).map(move |path| {
        let name = name(&path);
        let bytes = std::fs::read(&path).unwrap();
        let raw = oracle::parse_raw(&bytes).unwrap();
        let compressed =
            order == raw.order && (raw.count(kind::COMPRESSED) + raw.count(kind::COMPRESSED2)) > 0;
        let read = oracle::parse(&bytes).unwrap();
        if read.order == order {
            return Case { name, bytes, read, compressed };
        }
        let mut twin = swap::twin(&read);
        twin.features.remove(&feature::COMPRESSED);
        let bytes = twin.to_bytes();
        let read = oracle::parse(&bytes).unwrap();
        Case { name: format!("{name}, {order:?}"), bytes, read, compressed }
    })
}

/// Runs one rewrite; the pipe fed to a program is the recording's own bytes if it is one, and its content as a pipe
/// if it is a file.
fn go(way: Way, options: &[&str], case: &Case, dir: &Dir) -> Result<Vec<u8>, String> {
    let (input, output) = (dir.join("in"), dir.join("out"));
    let piped = || match case.read.container {
        Container::Pipe => case.bytes.clone(),
        Container::File => case.read.to_pipe(),
    };
    let outcome = match way {
        Way::FileFile | Way::FilePipe => {
            std::fs::write(&input, &case.bytes).unwrap();
            let mut c = repipe();
            c.arg("inject").args(options).arg("-i").arg(&input);
            if way == Way::FileFile {
                c.arg("-o").arg(&output);
            }
            run(&mut c)
        }
        Way::PipeFile => run_with(repipe().arg("inject").args(options).arg("-o").arg(&output), &piped()),
        Way::PipePipe => run_with(repipe().arg("inject").args(options), &piped()),
    };
    let Outcome { code, stdout, stderr, .. } = outcome;
    if code != Some(0) {
        return Err(format!("exit {code:?}: {}", stderr.trim()));
    }
    match way.output() {
        Container::Pipe => Ok(stdout),
        Container::File => std::fs::read(&output).map_err(|e| format!("no output: {e}")),
    }
}

/// The HEADER_BUILD_ID records of the pipe that a program is fed.
fn fed(case: &Case) -> Vec<BuildId> {
    match case.read.container {
        Container::Pipe => compare::content(&case.read).injected,
        Container::File => compare::content(&oracle::parse(&case.read.to_pipe()).unwrap()).injected,
    }
}

fn sealed<'a>(dir: &'a Dir, style: &'a str) -> [String; 3] {
    let nothing = dir.join("nothing");
    let _ = std::fs::create_dir(&nothing);
    let nothing = nothing.display();
    [style.to_owned(), format!("--symfs={nothing}"), format!("--buildid-dir={nothing}")]
}

fn keeps_all(way: Way, order: Order) {
    let mut failures = Failures::default();
    for case in cases(order) {
        let dir = Dir::new();
        failures.add(&case.name, go(way, &[], &case, &dir).and_then(|out| check_kept(way, &case, &out)));
    }
    failures.report();
}

fn check_kept(way: Way, case: &Case, out: &[u8]) -> Result<(), String> {
    let raw = oracle::parse_raw(out)?;
    let packed = raw.count(kind::COMPRESSED) + raw.count(kind::COMPRESSED2);
    if packed > 0 {
        return Err(format!("{packed} compressed records in the output"));
    }
    let read = oracle::parse(out)?;
    compare::is(way.output(), &read)?;
    if compare::content(&read).features.contains_key(&feature::COMPRESSED) {
        return Err("the COMPRESSED section is still there".into());
    }
    if case.read.container == Container::File && way == Way::FileFile && !case.compressed {
        let at = case.bytes.iter().zip(out).position(|(a, b)| a != b);
        if at.is_some() || case.bytes.len() != out.len() {
            return Err(format!(
                "{} bytes became {}, the first other at {at:#x?}",
                case.bytes.len(),
                out.len()
            ));
        }
        return Ok(());
    }
    // through a pipe the table is told by records and made anew, and so is the index of AUX data
    let anew = [feature::COMPRESSED, feature::BUILD_ID, feature::AUXTRACE];
    compare::same_content(&case.read, &read, if way == Way::FileFile { &anew[..1] } else { &anew })?;
    compare::aux_index(out)?;
    // the records of a pipe go on into the table of a file; a table is not made into records unasked
    let before = match way {
        Way::PipeFile | Way::PipePipe => fed(case),
        Way::FileFile | Way::FilePipe => compare::content(&case.read).injected,
    };
    let told = compare::content(&read).injected;
    if told != before {
        return Err(format!("{} HEADER_BUILD_ID records became {}", before.len(), told.len()));
    }
    if way.output() == Container::File {
        let table = oracle::table_of(&read);
        for e in oracle::table_of(&case.read).iter().chain(&before) {
            if !table.iter().any(|t| t.agrees(e)) {
                return Err(format!("the build-id of {} is lost", e.name));
            }
        }
    }
    Ok(())
}

fn adds_only_ids(way: Way, order: Order) {
    let mut failures = Failures::default();
    for case in cases(order) {
        for style in STYLES {
            let dir = Dir::new();
            let options = sealed(&dir, style);
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let result = go(way, &options, &case, &dir).and_then(|out| check_added(way, &case, &out));
            failures.add(format!("{} {style}", case.name), result);
        }
    }
    failures.report();
}

fn check_added(way: Way, case: &Case, out: &[u8]) -> Result<(), String> {
    let read = oracle::parse(out)?;
    compare::is(way.output(), &read)?;
    compare::same_content(&case.read, &read, &[feature::COMPRESSED, feature::BUILD_ID, feature::AUXTRACE])?;
    compare::aux_index(out)?;
    // with every other source shut off, ids come from the recording: its table, its records
    let known = oracle::table_of(&case.read);
    let before = compare::content(&case.read).injected;
    let mut added = compare::content(&read).injected;
    for old in &before {
        let at = added.iter().position(|e| e == old).ok_or(format!("the record of {} is lost", old.name))?;
        added.remove(at);
    }
    // the table of a file goes on as records of a pipe
    if way == Way::FilePipe
        && let Some(e) = known.iter().find(|k| !added.iter().any(|e| e.agrees(k)))
    {
        return Err(format!("the build-id of {} is lost", e.name));
    }
    for e in &added {
        let told = known.iter().chain(&before).any(|k| k.agrees(e))
            || compare::map_ids(&case.read).iter().any(|(name, id)| *name == e.name && *id == e.id);
        if !told {
            return Err(format!("{} got {}, which the recording does not say", e.name, e.hex()));
        }
    }
    if way.output() == Container::File {
        let table = oracle::table_of(&read);
        if let Some(e) = added.iter().find(|e| !table.iter().any(|t| t.agrees(e))) {
            return Err(format!("{} {} is a record, but not in the table", e.name, e.hex()));
        }
    }
    Ok(())
}

macro_rules! ways {
    ($($name:ident: $way:ident, $order:ident;)+) => {$(
        mod $name {
            use super::*;

            #[test]
            fn no_option_keeps_every_record_and_section() {
                keeps_all(Way::$way, Order::$order);
            }

            #[test]
            fn build_id_styles_add_ids_and_nothing_else() {
                adds_only_ids(Way::$way, Order::$order);
            }
        }
    )+};
}

ways! {
    file_to_file: FileFile, Little;
    file_to_pipe: FilePipe, Little;
    pipe_to_file: PipeFile, Little;
    pipe_to_pipe: PipePipe, Little;
    file_to_file_big_endian: FileFile, Big;
    file_to_pipe_big_endian: FilePipe, Big;
    pipe_to_file_big_endian: PipeFile, Big;
    pipe_to_pipe_big_endian: PipePipe, Big;
}

#[test]
fn rewriting_the_output_changes_nothing_more() {
    let mut failures = Failures::default();
    for case in cases(Order::Little) {
        for style in ["", "-b", "--buildid-all", "-B", "--mmap2-buildid-all"] {
            let dir = Dir::new();
            let options = sealed(&dir, style);
            let options: Vec<&str> = options.iter().map(String::as_str).filter(|o| !o.is_empty()).collect();
            let result = go(Way::FileFile, &options, &case, &dir).and_then(|once| {
                let read = oracle::parse(&once)?;
                let again = Case { name: String::new(), bytes: once, read, compressed: false };
                let twice = go(Way::FileFile, &options, &again, &dir)?;
                if twice == again.bytes {
                    Ok(())
                } else if style == "-B" {
                    // the mappings that nothing hit are gone, and with them a doubt about whose an id in the table is
                    let read = oracle::parse(&twice)?;
                    let again = Case { name: String::new(), bytes: twice, read, compressed: false };
                    let thrice = go(Way::FileFile, &options, &again, &dir)?;
                    if thrice == again.bytes {
                        Ok(())
                    } else {
                        Err("the third differs from the second".into())
                    }
                } else {
                    compare::same(&again.read, &oracle::parse(&twice)?, &[]).and(Err("bytes differ".into()))
                }
            });
            failures.add(format!("{} {style}", case.name), result);
        }
    }
    failures.report();
}

#[test]
fn a_twin_gets_the_ids_of_its_original() {
    let mut failures = Failures::default();
    for (little, big) in cases(Order::Little).zip(cases(Order::Big)) {
        for style in ["-b", "-B", "--mmap2-buildid-all"] {
            let dir = Dir::new();
            let options = sealed(&dir, style);
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let result = go(Way::FileFile, &options, &little, &dir).and_then(|a| {
                let b = go(Way::FileFile, &options, &big, &dir)?;
                let (a, b) = (swap::twin(&oracle::parse(&a)?), oracle::parse(&b)?);
                compare::same(&a, &b, &[feature::AUXTRACE])
            });
            failures.add(format!("{} {style}", little.name), result);
        }
    }
    failures.report();
}

#[test]
fn mmap2_styles_touch_mappings_only() {
    let mut failures = Failures::default();
    for case in cases(Order::Little).chain(cases(Order::Big)) {
        for style in ["-B", "--mmap2-buildid-all"] {
            let dir = Dir::new();
            let options = sealed(&dir, style);
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let result = go(Way::FileFile, &options, &case, &dir).and_then(|out| {
                let mut before = compare::content(&case.read).records;
                let after = oracle::parse(&out)?;
                let mut kept = compare::content(&after).records;
                let is_map = |r: &super::support::recording::Record| {
                    matches!(r.kind(after.order), kind::MMAP | kind::MMAP2)
                };
                let maps = |records: &[super::support::recording::Record]| {
                    records.iter().filter(|r| is_map(r)).count()
                };
                if style != "-B" && maps(&before) != maps(&kept) {
                    return Err(format!("{} mappings became {}", maps(&before), maps(&kept)));
                }
                before.retain(|r| !is_map(r));
                kept.retain(|r| !is_map(r));
                compare::same_records(&before, &kept)?;
                let (a, b) = (compare::content(&case.read).features, compare::content(&after).features);
                compare::same_features(&a, &b, &[feature::COMPRESSED, feature::BUILD_ID, feature::AUXTRACE])
            });
            failures.add(format!("{} {style}", case.name), result);
        }
    }
    failures.report();
}

#[test]
fn the_corrupted_recording_ends_in_an_orderly_error() {
    let Some(path) = recording("quipper-piped.corrupted.zero_size_sample-3.2") else { return };
    let dir = Dir::new();
    for options in [&[][..], &["-b"], &["--buildid-all"], &["-B"], &["--mmap2-buildid-all"]] {
        let outcome = inject(options, &path, &dir.join("out")).expect_failure("zero-size sample");
        // the header of 16 bytes and the records before it
        assert!(outcome.stderr.contains("0xbfd0"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("SAMPLE"), "{}", outcome.stderr);
        assert_eq!(dir.names(), Vec::<String>::new());
    }
}

#[test]
fn info_agrees_with_the_golden_build_id_lists() {
    let mut failures = Failures::default();
    for path in recordings() {
        let golden = path.with_file_name(format!("{}.buildids", name(&path)));
        let Ok(golden) = std::fs::read_to_string(&golden) else { continue };
        let outcome = run(repipe().arg("info").arg(&path));
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let has = |id: &str, file: &str| text.lines().any(|l| l.contains(id) && l.contains(file));
        for line in golden.lines() {
            let (id, file) = line.trim().split_once(' ').unwrap();
            let missing = if has(id, file.trim()) {
                Ok(())
            } else {
                Err(format!("no line with {line}: {}", outcome.stderr))
            };
            failures.add(name(&path), missing);
        }
    }
    failures.report();
}

#[test]
fn info_reads_every_recording() {
    let mut failures = Failures::default();
    for path in recordings() {
        for options in [&[][..], &["--json"]] {
            let outcome = run(repipe().arg("info").arg(&path).args(options));
            let good = !name(&path).contains("corrupted");
            let result = match outcome.code {
                Some(0) if good => check_info(options, &outcome, &path),
                Some(1) if !good && outcome.stderr.contains("0xbfd0") => Ok(()),
                code => Err(format!("exit {code:?}: {}", outcome.stderr)),
            };
            failures.add(format!("{} {options:?}", name(&path)), result);
        }
    }
    failures.report();
}

fn check_info(options: &[&str], outcome: &Outcome, path: &Path) -> Result<(), String> {
    let text = String::from_utf8_lossy(&outcome.stdout);
    if !options.is_empty() {
        return serde_json::from_str::<serde_json::Value>(&text).map(drop).map_err(|e| e.to_string());
    }
    let read = oracle::read(path)?;
    let samples = read.count(kind::SAMPLE).to_string();
    let told = text.lines().any(|l| {
        let mut words = l.split(|c: char| !c.is_alphanumeric() && c != '_');
        l.contains("SAMPLE") && words.any(|w| w == samples)
    });
    if told || samples == "0" { Ok(()) } else { Err(format!("no line tells of {samples} samples")) }
}
