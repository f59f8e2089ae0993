//! Programs that are built here, what perf records of them, and what two readers print of that.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::places::{self, left_out};
use super::run::{Dir, repipe, run};

/// A perf, by its path and version.
pub struct Perf {
    pub path: PathBuf,
    pub version: (u32, u32),
}

impl Perf {
    /// The perf of this machine; `None`, said plainly, where there is none.
    pub fn here() -> Option<Perf> {
        let path = places::perf()?;
        let said = run(Command::new(&path).arg("version")).stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        let mut parts = said.split_whitespace().nth(2).unwrap_or_default().split('.');
        let mut part = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        Some(Perf { path, version: (part(), part()) })
    }

    /// Whether it is one that `repipe script` follows to the byte. Before 6.8, columns were narrower, callchains had
    /// offsets in files for addresses, and names of threads that ended were other ones.
    pub fn is_recent(&self) -> bool {
        self.version >= (6, 8)
    }

    /// Whether it is recent; if not, says what is not compared for that.
    pub fn is_recent_enough_for(&self, what: &str) -> bool {
        if !self.is_recent() {
            let (major, minor) = self.version;
            eprintln!("LEFT OUT: {what}: perf {major}.{minor} prints other things than perf from 6.8 on");
        }
        self.is_recent()
    }

    /// `perf script`; `None` if it fails. `before` are options of perf itself.
    pub fn script(&self, before: &[&str], options: &[&str], input: &Path) -> Option<String> {
        let mut c = Command::new(&self.path);
        c.args(before).args(["script", "--no-inline"]).args(options);
        let outcome = run(c.arg("-i").arg(input));
        outcome.ok().then(|| String::from_utf8_lossy(&outcome.stdout).into_owned())
    }
}

/// `repipe script`.
#[track_caller]
pub fn ours(options: &[&str], input: &Path) -> String {
    let outcome = run(repipe().args(["script", "--no-inline"]).args(options).arg("-i").arg(input));
    String::from_utf8_lossy(&outcome.expect_ok(&format!("script {options:?}")).stdout).into_owned()
}

/// Fails with the first line that differs.
#[track_caller]
pub fn same_lines(what: &str, ours: &str, perfs: &str) {
    if ours == perfs {
        return;
    }
    let differs = ours.lines().zip(perfs.lines()).position(|(a, b)| a != b);
    let at = differs.unwrap_or_else(|| ours.lines().count().min(perfs.lines().count()));
    panic!(
        "{what}: line {} differs\nperf:   {:?}\nrepipe: {:?}",
        at + 1,
        perfs.lines().nth(at),
        ours.lines().nth(at)
    );
}

/// A directory for programs and recordings, the perf that records, and a build-id cache that has the vdso: perf looks
/// for it nowhere else.
pub struct Lab {
    pub perf: Perf,
    pub dir: Dir,
    pub cache: PathBuf,
}

impl Lab {
    /// `None`, said plainly, where this machine has no perf, or none that may record.
    pub fn new() -> Option<Lab> {
        let (perf, dir) = (Perf::here()?, Dir::new());
        let cache = dir.join("cache");
        let mut c = Command::new(&perf.path);
        c.arg("--buildid-dir").arg(&cache).args(["record", "-q", "--buildid-all", "-e", "cpu-clock", "-o"]);
        if !run(c.arg(dir.join("probe.data")).args(["--", "true"])).ok() {
            left_out("perf cannot record cpu-clock here");
            return None;
        }
        Some(Lab { perf, dir, cache })
    }

    /// Records a command. `None` if perf fails.
    pub fn record(&self, name: &str, options: &[&str], command: &[&str]) -> Option<PathBuf> {
        let out = self.dir.join(format!("{name}.data"));
        let mut c = Command::new(&self.perf.path);
        c.args(["record", "-q", "-N"]).args(options).arg("-o").arg(&out).arg("--").args(command);
        (run(&mut c).ok() && out.exists()).then_some(out)
    }

    /// Builds a program with `cc`, `c++` or `rustc`. `None`, said plainly, if there is no such compiler.
    pub fn build(&self, compiler: &str, flags: &[&str], name: &str, source: &str) -> Option<PathBuf> {
        let extension = match compiler {
            "cc" => "c",
            "c++" => "cc",
            _ => "rs",
        };
        let source = self.dir.file(&format!("{name}.{extension}"), source.as_bytes());
        let program = self.dir.join(name);
        let built = Command::new(compiler).args(flags).arg("-o").args([&program, &source]).output();
        if !built.is_ok_and(|out| out.status.success()) {
            left_out(&format!("no {compiler} that builds {name}"));
            return None;
        }
        Some(program)
    }

    /// Runs a tool on files of this place.
    #[track_caller]
    pub fn tool(&self, tool: &str, args: &[&str]) -> String {
        let outcome = run(Command::new(tool).args(args)).expect_ok(tool);
        String::from_utf8_lossy(&outcome.stdout).into_owned()
    }

    /// What perf prints of a recording made here.
    pub fn perfs(&self, options: &[&str], input: &Path) -> Option<String> {
        self.perf.script(&["--buildid-dir", self.cache.to_str().unwrap()], options, input)
    }

    /// What `repipe script` prints of a recording made here.
    #[track_caller]
    pub fn ours(&self, options: &[&str], input: &Path) -> String {
        // Another root has a cache of its own.
        let cache = ["--buildid-dir", self.cache.to_str().unwrap()];
        let cache = if options.contains(&"--symfs") { &[] } else { &cache[..] };
        ours(&[cache, options].concat(), input)
    }

    /// What `repipe script` prints with the symbols that are met, and the same with all of them.
    #[track_caller]
    fn ours_both_ways(&self, what: &str, options: &[&str], input: &Path) -> String {
        let lazy = self.ours(options, input);
        let eager = self.ours(&[options, &["--eager-symbols"]].concat(), input);
        same_lines(&format!("{what} --eager-symbols, and then without"), &eager, &lazy);
        lazy
    }

    /// Both readers print the same of a recording. Returns what it is.
    #[track_caller]
    pub fn same(&self, what: &str, options: &[&str], input: &Path) -> String {
        let what = format!("{what} {options:?}");
        let perfs = self.perfs(options, input).unwrap_or_else(|| panic!("{what}: perf can't read it"));
        let ours = self.ours_both_ways(&what, options, input);
        same_lines(&what, &self.comparable(&ours), &self.comparable(&perfs));
        ours
    }

    /// The same of stacks that were unwound, of which up to one in twenty may be one that perf walks less far, or that
    /// passes code without call frame information. Of all others, not a frame may differ.
    #[track_caller]
    pub fn same_stacks(&self, what: &str, options: &[&str], input: &Path) -> String {
        const ODD: [&str; 6] = ["_dl_runtime_resolve", "_dl_fini", "_fini", "_init", "clone3", "vfork"];
        let perfs = self.perfs(options, input).unwrap_or_else(|| panic!("{what}: perf can't read it"));
        let whole = self.ours_both_ways(what, options, input);
        let (ours, perfs) = (self.comparable(&whole), self.comparable(&perfs));
        let (ours, perfs): (Vec<_>, Vec<_>) = (ours.split("\n\n").collect(), perfs.split("\n\n").collect());
        assert_eq!(ours.len(), perfs.len(), "{what}: samples");
        let differ: Vec<_> = ours.iter().zip(&perfs).filter(|(ours, perfs)| ours != perfs).collect();
        for (ours, perfs) in &differ {
            let odd = ODD.iter().any(|name| ours.contains(name) || perfs.contains(name));
            // An old perf's unwinder goes on behind the first function.
            let further = !self.perf.is_recent() && perfs.starts_with(ours.trim_end());
            let less = ours.starts_with(perfs.trim_end());
            assert!(odd || less || further, "{what}:\nperf:\n{perfs}\nrepipe:\n{ours}");
        }
        assert!(differ.len() <= 2 + ours.len() / 20, "{what}: {} of {} differ", differ.len(), ours.len());
        whole
    }

    /// What of a text an old perf agrees on: neither widths nor addresses of frames, nor what is met in a PLT: it does not
    /// know that one begins with a symbol, and stretches `_init`, which has no size, over the entries, of which it then
    /// finds one or the other by the shape of its tree.
    fn comparable(&self, text: &str) -> String {
        if self.perf.is_recent() {
            return text.to_owned();
        }
        let line = |line: &str| {
            let words = line.split_whitespace();
            let kept: Vec<&str> = words.skip(usize::from(line.starts_with('\t'))).collect();
            let of_plt =
                |word: &str| [".plt+0x", "_init+0x", "@plt+0x"].iter().any(|part| word.contains(part));
            let kept = kept.into_iter().map(|word| if of_plt(word) { "[unknown]" } else { word });
            kept.collect::<Vec<_>>().join(" ") + "\n"
        };
        text.lines().map(line).collect()
    }
}
