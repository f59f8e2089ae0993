//! Where `repipe script` takes the kernel's and its modules' symbols from: an ELF file, kallsyms, `.ko` files, and how far
//! the kernel was moved at boot. The kernel and the module are made here; perf is asked for the same.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::builder::{AttrSpec, Builder, Map, Sample};
use super::support::lab::Perf;
use super::support::places::left_out;
use super::support::recording::st;
use super::support::run::{Dir, repipe, run};
use super::support::wire::Order;

/// Where the file has the kernel's text.
const LINKED: u64 = 0xffff_ffff_8100_0000;
/// Where it ran.
const MOVED: u64 = 0xffff_ffff_9a00_0000;
const MODULE: u64 = 0xffff_ffff_c010_0000;

const KERNEL: &str = "
.text
.globl _text, _stext, do_first, do_second, _etext
_text: _stext: .fill 64, 1, 0x90
.type do_first, @function
do_first: .fill 48, 1, 0x90
.size do_first, 48
.type do_second, @function
do_second: .fill 80, 1, 0x90
.size do_second, 80
_etext: .fill 64, 1, 0x90
";

const IN_MODULE: &str = "
.text
.type made_first, @function
made_first: .fill 32, 1, 0x90
.size made_first, 32
.type made_second, @function
made_second: .fill 32, 1, 0x90
.size made_second, 32
";

/// The kernel linked where kernels are, and the module's object; `None` if that can't be made here.
fn made(dir: &Dir) -> Option<(PathBuf, Vec<u8>)> {
    let (kernel, vmlinux) = (dir.file("kernel.s", KERNEL.as_bytes()), dir.join("made-vmlinux"));
    let (module, object) = (dir.file("module.s", IN_MODULE.as_bytes()), dir.join("module.o"));
    let runs = |c: &mut Command| c.status().is_ok_and(|status| status.success());
    let text = format!("-Wl,-Ttext={LINKED:#x},-e,_text,--build-id=none");
    let linked =
        runs(Command::new("cc").args(["-nostdlib", "-static", &text, "-o"]).args([&vmlinux, &kernel]));
    let compiled = runs(Command::new("cc").args(["-c", "-o"]).args([&object, &module]));
    if !linked || !compiled || !cfg!(target_arch = "x86_64") {
        left_out("no C compiler that makes an x86-64 kernel");
        return None;
    }
    Some((vmlinux, std::fs::read(object).unwrap()))
}

/// Samples in both functions of the kernel, which ran at `start`, and of the module.
fn recording(dir: &Dir, start: u64, module: &str) -> PathBuf {
    let kernel = Map::kernel(start, 0x20_0000);
    let module = Map { pgoff: 0, ..Map { name: module, start: MODULE, len: 0x1000, ..kernel.clone() } };
    let mut builder = Builder::with(Order::Little, &AttrSpec::new(st::IP | st::TID | st::TIME))
        .at(u32::MAX, 0, 0)
        .mmap(&kernel)
        .mmap(&module)
        .at(7, 7, 1)
        .comm(7, 7, "seven");
    let ips = [start + 64 + 5, start + 112 + 79, MODULE + 3, MODULE + 33];
    for (ip, time) in ips.into_iter().zip(1000..) {
        builder = builder.sample(&Sample::kernel(7, ip, time));
    }
    dir.file(&format!("{start:x}.data"), &builder.file())
}

/// What is printed, a line a sample: symbols with offsets.
fn symbols(input: &Path, options: &[&Path]) -> Vec<String> {
    let mut c = repipe();
    let outcome = run(c.args(["script", "-F", "sym,ip,symoff", "-i"]).arg(input).args(options));
    let text = String::from_utf8_lossy(&outcome.expect_ok("script").stdout).into_owned();
    text.lines().map(|line| line.split_whitespace().nth(1).unwrap_or_default().to_owned()).collect()
}

fn of_perf(perf: &Perf, input: &Path, options: &[&Path]) -> Option<Vec<String>> {
    let options: Vec<&str> = options.iter().map(|o| o.to_str().unwrap()).collect();
    let options = [&["-F", "sym,ip,symoff"], &options[..]].concat();
    let text = perf.script(&[], &options, input)?;
    Some(text.lines().map(|line| line.split_whitespace().nth(1).unwrap_or_default().to_owned()).collect())
}

const BOTH: [&str; 2] = ["do_first+0x5", "do_second+0x4f"];

#[test]
fn the_kernels_elf_file_gives_symbols_wherever_the_kernel_ran() {
    let dir = Dir::new();
    let Some((vmlinux, _)) = made(&dir) else { return };
    let perf = Perf::here().filter(|perf| perf.is_recent_enough_for("a kernel that was moved"));
    for start in [LINKED, MOVED] {
        let input = recording(&dir, start, "[made]");
        let options = [Path::new("-k"), &*vmlinux];
        let ours = symbols(&input, &options);
        assert_eq!(ours[..2], BOTH, "{start:#x}");
        if let Some(perfs) = perf.as_ref().and_then(|perf| of_perf(perf, &input, &options)) {
            assert_eq!(ours[..2], perfs[..2], "{start:#x}");
        }
        let ignored = symbols(&input, &[&options[..], &[Path::new("--ignore-vmlinux")]].concat());
        assert!(!ignored.contains(&BOTH[0].to_owned()), "{ignored:?}");
        // Below another root, and where distributions put it.
        let root = Dir::new();
        std::fs::create_dir(root.join("boot")).unwrap();
        std::fs::copy(&vmlinux, root.join("boot/vmlinux")).unwrap();
        assert_eq!(symbols(&input, &[Path::new("--symfs"), root.path()])[..2], BOTH, "{start:#x}");
        let ignored = symbols(&input, &[Path::new("--symfs"), root.path(), Path::new("--ignore-vmlinux")]);
        assert_eq!(ignored[..2], ["[unknown]", "[unknown]"]);
    }
}

#[test]
fn a_copy_of_kallsyms_gives_symbols_of_kernel_and_modules() {
    let dir = Dir::new();
    let list = format!(
        "{:016x} T _stext\n{:016x} T _text\n{:016x} T do_first\n{:016x} t do_second\n{:016x} T _etext\n\
         {MODULE:016x} t made_first\t[made]\n{:016x} t made_second\t[made]\n",
        LINKED,
        LINKED,
        LINKED + 64,
        LINKED + 112,
        LINKED + 192,
        MODULE + 32,
    );
    let list = dir.file("kallsyms", list.as_bytes());
    for start in [LINKED, MOVED] {
        let input = recording(&dir, start, "[made]");
        let ours = symbols(&input, &[Path::new("--kallsyms"), &list]);
        assert_eq!(ours[..2], BOTH, "{start:#x}");
        assert_eq!(ours[2..], ["made_first+0x3", "made_second+0x1"], "{start:#x}");
        let limited = [Path::new("--kallsyms"), &list, Path::new("--memory-limit"), Path::new("1")];
        assert_eq!(symbols(&input, &limited), ours, "{start:#x}");
    }
}

#[test]
fn module_files_give_symbols_packed_or_not() {
    let dir = Dir::new();
    let Some((vmlinux, module)) = made(&dir) else { return };
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&module).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&module).unwrap();
    let packed = [
        ("", module.clone()),
        (".gz", gz.finish().unwrap()),
        (".xz", xz.finish().unwrap()),
        (".zst", zstd::encode_all(&*module, 1).unwrap()),
    ];
    for (suffix, bytes) in packed {
        let root = Dir::new();
        let place = "/lib/modules/6.1.0-made/kernel/drivers";
        std::fs::create_dir_all(root.join(&place[1..])).unwrap();
        let name = format!("{place}/made.ko{suffix}");
        std::fs::write(root.join(&name[1..]), bytes).unwrap();
        let input = recording(&dir, LINKED, &name);
        let options = [Path::new("-k"), &*vmlinux, Path::new("--symfs"), root.path()];
        let ours = symbols(&input, &options);
        assert_eq!(ours[2..], ["made_first+0x3", "made_second+0x1"], "{suffix}");
        // The kernel's file was named whole, which --symfs leaves as it is.
        assert_eq!(ours[..2], BOTH, "{suffix}");
    }
}
