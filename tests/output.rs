//! Output safety: what is at the output's path before, during and after a run, whatever ends it.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt, symlink};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::support::builder::{AttrSpec, Builder, Map, Sample};
use super::support::oracle;
use super::support::recording::st;
use super::support::run::{Dir, inject, repipe, run, run_limited};
use super::support::wire::Order;

/// A recording of about the given number of bytes.
fn recording(bytes: usize) -> Builder {
    let mut b = Builder::with(Order::Little, &AttrSpec::plain()).at(10, 10, 1).mmap2(&Map::exec(
        10,
        0x40_0000,
        0x1000,
        "/usr/bin/app",
    ));
    for i in 0..bytes as u64 / 48 {
        b = b.sample(&Sample::user(10, 0x40_0010, 10 + i));
    }
    b
}

#[test]
fn the_input_is_refused_as_output_under_any_name() {
    let dir = Dir::new();
    let bytes = recording(1000).file();
    let input = dir.file("in", &bytes);
    std::fs::hard_link(&input, dir.join("hard")).unwrap();
    symlink(&input, dir.join("soft")).unwrap();
    std::fs::create_dir(dir.join("sub")).unwrap();
    for output in ["in", "hard", "soft", "sub/../in"] {
        for force in [&[][..], &["-f"]] {
            let outcome = inject(force, &input, &dir.join(output));
            assert_eq!(outcome.code, Some(2), "{output}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("the output is the input"), "{output}: {}", outcome.stderr);
            assert_eq!(std::fs::read(&input).unwrap(), bytes, "{output}");
        }
    }
    assert_eq!(dir.names(), ["hard", "in", "soft", "sub"]);
    assert!(dir.join("soft").is_symlink());
}

#[test]
fn a_directorys_own_files_are_refused_as_output() {
    let dir = Dir::new();
    let b = recording(1000);
    let input = dir.join("in");
    b.recording.to_dir(&input, |i, _| (i > 0).then_some(0));
    let before = std::fs::read(input.join("data.0")).unwrap();
    for output in ["data", "data.0"] {
        let outcome = inject(&[], &input, &input.join(output));
        assert_eq!(outcome.code, Some(2), "{output}: {}", outcome.stderr);
    }
    assert_eq!(std::fs::read(input.join("data.0")).unwrap(), before);
}

#[test]
fn a_missing_input_leaves_no_output() {
    let dir = Dir::new();
    let outcome = inject(&["-b"], &dir.join("absent"), &dir.join("out")).expect_failure("absent");
    assert!(outcome.stderr.contains("absent"), "{}", outcome.stderr);
    assert_eq!(dir.names(), Vec::<String>::new());
}

#[test]
fn a_missing_output_directory_is_an_error() {
    let dir = Dir::new();
    let input = dir.file("in", &recording(100).file());
    let outcome = inject(&[], &input, &dir.join("no/out")).expect_failure("no directory");
    assert!(outcome.stderr.contains("no/"), "{}", outcome.stderr);
    assert_eq!(dir.names(), ["in"]);
}

#[test]
fn an_existing_output_is_replaced_by_success_only() {
    let dir = Dir::new();
    let good = recording(1000).file();
    let input = dir.file("in", &good);
    let broken = dir.file("broken", &good[..good.len() - 10]);
    let output = dir.file("out", b"precious");
    inject(&[], &broken, &output).expect_failure("broken");
    assert_eq!(std::fs::read(&output).unwrap(), b"precious");
    inject(&[], &input, &output).expect_ok("good");
    assert_eq!(std::fs::read(&output).unwrap(), good);
    assert_eq!(dir.names(), ["broken", "in", "out"]);
}

#[test]
fn the_inputs_permissions_are_kept() {
    let dir = Dir::new();
    let input = dir.file("in", &recording(1000).file());
    for mode in [0o600, 0o640, 0o644, 0o400] {
        std::fs::set_permissions(&input, PermissionsExt::from_mode(mode)).unwrap();
        let output = dir.join(format!("out{mode:o}"));
        inject(&["-b"], &input, &output).expect_ok("mode");
        assert_eq!(std::fs::metadata(&output).unwrap().permissions().mode() & 0o7777, mode);
    }
}

#[test]
fn a_link_or_a_pipe_at_the_outputs_path_stays_one() {
    let dir = Dir::new();
    let bytes = recording(1000).file();
    let input = dir.file("in", &bytes);
    let target = dir.file("target", b"old");
    symlink(&target, dir.join("link")).unwrap();
    inject(&[], &input, &dir.join("link")).expect_ok("link");
    assert_eq!(std::fs::read(dir.join("link")).unwrap(), bytes);

    let fifo = dir.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut reader = std::process::Command::new("cat").arg(&fifo).stdout(Stdio::piped()).spawn().unwrap();
    let outcome = inject(&[], &input, &fifo);
    assert!(std::fs::metadata(&fifo).unwrap().file_type().is_fifo(), "{}", outcome.stderr);
    if outcome.ok() {
        let mut got = Vec::new();
        reader.stdout.take().unwrap().read_to_end(&mut got).unwrap();
        oracle::parse(&got).unwrap();
    }
    // a program that refuses the pipe never opens it, and leaves the reader waiting
    let _ = reader.kill();
    reader.wait().unwrap();
}

/// A program that has written part of its output and waits for more input.
fn half_way(dir: &Dir) -> Child {
    let mut child = repipe()
        .args(["inject", "-o"])
        .arg(dir.join("out"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pipe = recording(4 << 20).pipe();
    child.stdin.as_mut().unwrap().write_all(&pipe[..pipe.len() - 20]).unwrap();
    child
}

fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn signals_remove_the_temporary_file() {
    for signal in ["INT", "TERM"] {
        let dir = Dir::new();
        let mut child = half_way(&dir);
        // the signal is to meet it while it waits for input, with its output begun
        let start = Instant::now();
        while dir.names().is_empty() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(100));
        assert!(!dir.names().contains(&"out".to_owned()), "the output has its name before it is complete");
        let sent =
            std::process::Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status();
        assert!(sent.unwrap().success());
        let status = wait(&mut child).unwrap_or_else(|| panic!("SIG{signal} does not end it"));
        assert!(!status.success());
        assert_eq!(dir.names(), Vec::<String>::new(), "SIG{signal}");
    }
}

#[test]
fn an_input_that_ends_too_early_leaves_nothing() {
    let dir = Dir::new();
    let mut child = half_way(&dir);
    drop(child.stdin.take());
    let status = wait(&mut child).expect("it ends with its input");
    assert_eq!(status.code(), Some(1));
    assert_eq!(dir.names(), Vec::<String>::new());
}

#[test]
fn a_full_disk_is_a_clean_error() {
    let dir = Dir::new();
    let bytes = recording(1 << 20).file();
    let input = dir.file("in", &bytes);
    for style in [&[][..], &["-b"], &["-z"]] {
        let mut c = repipe();
        c.arg("inject").args(style).arg("-i").arg(&input).arg("-o").arg(dir.join("out"));
        // files of at most 8 blocks of 512 bytes
        let outcome = run_limited("-f 8", &c, &[]).expect_failure("file size limit");
        assert!(outcome.stderr.contains("large"), "{}", outcome.stderr);
        assert_eq!(dir.names(), ["in"]);
    }
    let mut c = std::process::Command::new("sh");
    c.args(["-c", "exec \"$0\" inject -i \"$1\" >/dev/full"]).arg(env!("CARGO_BIN_EXE_repipe")).arg(&input);
    let outcome = run(&mut c).expect_failure("/dev/full");
    assert!(outcome.stderr.contains("No space left"), "{}", outcome.stderr);
}

#[test]
fn a_reader_that_goes_away_is_a_clean_end() {
    let dir = Dir::new();
    let input = dir.file("in", &recording(4 << 20).file());
    for style in [&[][..], &["-b"]] {
        let mut c = repipe();
        c.arg("inject")
            .args(style)
            .arg("-i")
            .arg(&input)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = c.spawn().unwrap();
        let mut first = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let status = wait(&mut child).expect("it ends when nobody reads");
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        assert!(said.contains("pipe") || said.is_empty(), "{said}");
    }
}

/// What a read of a mapped file raises when somebody has cut it short.
#[test]
fn a_bus_error_ends_the_run_in_order() {
    use std::io::{Read, Write};
    use std::process::Stdio;
    let dir = super::support::run::Dir::new();
    let mut c = super::support::run::repipe();
    c.args(["inject", "-i", "-", "-o"]).arg(dir.join("out"));
    let mut child = c.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It has begun to write when there is a file; then it waits for the rest of its input.
    let start = super::support::builder::Builder::with(
        super::support::wire::Order::Little,
        &super::support::builder::AttrSpec::plain(),
    );
    child.stdin.as_mut().unwrap().write_all(&start.pipe()).unwrap();
    for _ in 0..500 {
        if !dir.names().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(dir.names().len(), 1, "the unfinished output");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::BUS).unwrap();
    let status = child.wait().unwrap();
    let mut text = String::new();
    child.stderr.unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("cut short by another program"), "{text}");
    assert_eq!(dir.names(), Vec::<String>::new());
}

/// Ids that overlap are more than their place holds once the data is cut off.
#[test]
fn what_is_salvaged_of_overlapping_ids_can_be_read() {
    let dir = Dir::new();
    let mut builder =
        Builder::with(Order::Little, &AttrSpec::new(st::IP | st::TID | st::TIME | st::ID).ids([1, 2]));
    for id in 3..9 {
        builder = builder.attr(&AttrSpec::new(st::IP | st::TID | st::TIME | st::ID).ids([id]));
    }
    let mut bytes = builder.at(7, 7, 1).sample(&Sample::user(7, 0x1000, 2)).file();
    let at = |bytes: &[u8], i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().unwrap()) as usize;
    let (stride, attrs, attrs_len, data) = (at(&bytes, 16), at(&bytes, 24), at(&bytes, 32), at(&bytes, 40));
    let ids = data as u64 / 8 * 8;
    for entry in (attrs..attrs + attrs_len).step_by(stride) {
        let section = entry + stride - 16;
        bytes[section..section + 8].copy_from_slice(&0u64.to_le_bytes());
        bytes[section + 8..section + 16].copy_from_slice(&ids.to_le_bytes());
    }
    // Behind the data, so that the file has room for as many ids, stand sections that are cut off.
    let flags = 72;
    bytes[flags..flags + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    bytes.resize(bytes.len() + ids as usize * 8, 0xff);
    let input = dir.file("in", &bytes);
    let output = dir.path().join("out");
    inject(&["--salvage"], &input, &output).expect_ok("salvage");
    let again = dir.path().join("again");
    inject(&[], &output, &again).expect_ok("what was salvaged");
    let written = std::fs::read(&output).unwrap();
    assert!(written.len() > attrs_len / stride * ids as usize, "{} bytes", written.len());
    assert_eq!(written, std::fs::read(&again).unwrap());
}
