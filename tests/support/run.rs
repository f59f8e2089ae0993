//! Runs the program under test: bounded in time and memory, with its output in a directory of its own.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a run left.
#[derive(Debug)]
pub struct Outcome {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub took: Duration,
    /// Peak of resident memory, in KiB, where measured.
    pub peak_kib: Option<u64>,
}

impl Outcome {
    pub fn ok(&self) -> bool {
        self.code == Some(0)
    }

    #[track_caller]
    pub fn expect_ok(self, what: &str) -> Self {
        assert!(self.ok(), "{what}: exit {:?}: {}", self.code, self.stderr);
        self
    }

    /// An orderly failure: exit 1 and a message.
    #[track_caller]
    pub fn expect_failure(self, what: &str) -> Self {
        self.expect_exit(1, what)
    }

    /// Wrong use: exit 2 and a message.
    #[track_caller]
    pub fn expect_usage(self, what: &str) -> Self {
        self.expect_exit(2, what)
    }

    #[track_caller]
    fn expect_exit(self, code: i32, what: &str) -> Self {
        assert_eq!(self.code, Some(code), "{what}: {}", self.stderr);
        assert!(!self.stderr.trim().is_empty(), "{what}: fails without a word");
        assert!(!self.stderr.contains("panicked at"), "{what}: {}", self.stderr);
        self
    }
}

/// The program under test.
pub fn repipe() -> Command {
    Command::new(env!("CARGO_BIN_EXE_repipe"))
}

/// Runs a command with nothing on stdin.
pub fn run(command: &mut Command) -> Outcome {
    run_with(command, &[])
}

/// Runs a command with the given bytes on stdin, through a pipe. It is killed after two minutes.
pub fn run_with(command: &mut Command, input: &[u8]) -> Outcome {
    let start = Instant::now();
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut err = child.stderr.take().unwrap();
    let (stdout, stderr) = std::thread::scope(|s| {
        s.spawn(move || {
            // a program that ends early closes the pipe; that is its right
            let _ = stdin.write_all(input);
        });
        let out = s.spawn(move || {
            let mut v = Vec::new();
            out.read_to_end(&mut v).unwrap();
            v
        });
        let err = s.spawn(move || {
            let mut v = Vec::new();
            err.read_to_end(&mut v).unwrap();
            v
        });
        while child.try_wait().unwrap().is_none() {
            if start.elapsed() > Duration::from_secs(120) {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        (out.join().unwrap(), err.join().unwrap())
    });
    let status = child.wait().unwrap();
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    Outcome { code: status.code(), stdout, stderr, took: start.elapsed(), peak_kib: None }
}

/// `repipe inject` from file to file.
pub fn inject(options: &[&str], input: &Path, output: &Path) -> Outcome {
    run(repipe().arg("inject").args(options).arg("-i").arg(input).arg("-o").arg(output))
}

/// `repipe inject` from bytes on a pipe to bytes on a pipe.
pub fn inject_pipe(options: &[&str], input: &[u8]) -> Outcome {
    run_with(repipe().arg("inject").args(options), input)
}

/// A directory for one test, removed at its end.
pub struct Dir(tempfile::TempDir);

impl Dir {
    pub fn new() -> Self {
        Dir(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.path().join(name.as_ref())
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Names of all that is in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Rewrites bytes from file to file with every source of ids on this machine shut off, and reads what came out.
#[track_caller]
pub fn rewritten(options: &[&str], bytes: &[u8]) -> super::recording::Recording {
    let out = rewritten_bytes(options, bytes);
    super::oracle::parse(&out).unwrap_or_else(|e| panic!("{options:?}: the output is broken: {e}"))
}

/// [`rewritten`], as bytes.
#[track_caller]
pub fn rewritten_bytes(options: &[&str], bytes: &[u8]) -> Vec<u8> {
    let dir = Dir::new();
    let input = dir.file("in", bytes);
    let output = dir.join("out");
    let empty = dir.join("empty");
    std::fs::create_dir(&empty).unwrap();
    let mut c = repipe();
    c.arg("inject")
        .args(options)
        .arg("-i")
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .arg("--buildid-dir")
        .arg(&empty);
    if !options.iter().any(|o| o.starts_with("--symfs")) {
        c.arg("--symfs").arg(&empty);
    }
    run(&mut c).expect_ok(&format!("{options:?}"));
    std::fs::read(&output).unwrap()
}

/// Runs a command under limits of the shell: `limits` is what `ulimit` is told, such as `-d 65536`.
pub fn run_limited(limits: &str, command: &Command, input: &[u8]) -> Outcome {
    let mut c = Command::new("sh");
    c.arg("-c")
        .arg(format!("trap '' XFSZ; ulimit {limits} && exec \"$@\""))
        .arg("sh")
        .arg(command.get_program());
    run_with(c.args(command.get_args()), input)
}
