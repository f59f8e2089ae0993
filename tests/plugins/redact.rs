//! `redact`: nothing of a secret is left, wherever it stood.

use std::path::{Path, PathBuf};

use super::super::support::builder::{AttrSpec, Builder, Map, Sample, build_id};
use super::super::support::oracle;
use super::super::support::recording::{Recording, feature, kind};
use super::super::support::run::{Dir, Outcome, repipe, run};
use super::super::support::wire::{Bytes, Order};
use super::command::shipped;

const SECRET: &str = "s3cr3t";
const RULES: &str = "redact:salt=x,comm=*s3cr3t*,name=*s3cr3t*,raw=zero";
/// `HEADER_BPF_PROG_INFO` and `HEADER_BPF_BTF`.
const BPF: [u32; 2] = [25, 26];

fn with_secret(text: &str) -> String {
    text.replace('$', SECRET)
}

/// A sample with the secret in all that may hold bytes of any kind; its stack has it in the part that was filled and behind.
fn sample() -> Sample {
    let mut stack = vec![0x11; 64];
    stack[8..14].copy_from_slice(SECRET.as_bytes());
    stack[52..58].copy_from_slice(SECRET.as_bytes());
    Sample {
        raw: with_secret("twelve$").into_bytes(),
        stack,
        stack_dyn_size: 48,
        aux: with_secret("AUX data: $........").into_bytes(),
        ..Sample::full(10, 0x40_0010, 1100)
    }
}

/// A recording with a secret in every record and section that may hold a name; tracing data only where it is asked for.
fn recording(order: Order, tracing_data: bool) -> Builder {
    let s = |text: &str| with_secret(text);
    let bytes = || Bytes::new(order);
    let text = |text: &str| bytes().string(&with_secret(text)).take();
    let mut input = Builder::with(order, &AttrSpec::everything())
        .identity()
        .feature_string(feature::HOSTNAME, &s("$.example"))
        .feature(feature::CMDLINE, &bytes().u32(2).string("perf").string(&s("--$")).take())
        .feature_string(feature::OSRELEASE, &s("6.1.0-$"))
        .feature_string(feature::VERSION, &s("6.1.$"))
        .feature_string(feature::CPUDESC, &s("CPU of $"))
        .feature_string(feature::CPUID, &s("id-$"))
        .event_desc(&[&s("probe:$_entry")])
        .feature(feature::GROUP_DESC, &bytes().u32(1).string(&s("{$,x}")).u32(0).u32(1).take())
        .feature(feature::PMU_MAPPINGS, &bytes().u32(1).u32(4).string(&s("$_pmu")).take())
        .feature(feature::CPU_PMU_CAPS, &[bytes().u32(1).take(), text("caps"), text("$")].concat())
        .feature(BPF[0], s("program $").as_bytes())
        .feature(BPF[1], s("types $").as_bytes())
        .feature(128, s("simpleperf /data/$").as_bytes())
        .feature(200, s("unknown $").as_bytes())
        .build_id_table(&[build_id(&s("/home/$/bin/x"), &[0xab; 20]), build_id(&s("/opt/$/y"), &[0xcd; 20])]);
    if tracing_data {
        let data = s("\x17\x08Dtracing0.6\0name: $_event\nfield:$;\0\0\x0612 $\n13 Web $\n/home/$/x\n");
        input = input.feature(feature::TRACING_DATA, data.as_bytes());
    }
    let info = s("filter main @ /home/$/bin/x ").into_bytes();
    let info: Vec<u64> = info.chunks_exact(8).map(|word| order.u64(word, 0)).collect();
    input
        .event_type(3, &s("$:probe"))
        .thread_map(&[(10, &s("w-$")), (11, "other")])
        .event_update(0, 1, &s("$s"))
        .event_update(2, 1, &s("probe:$_entry"))
        .auxtrace_info(1, &info)
        .auxtrace_error(1, 0x40_1000, &s("cannot open /home/$/x"))
        .bpf_metadata(&s("prog_$"), &[(&s("key_$"), &s("value of $"))])
        .raw(200, 7, s("unknown $..").as_bytes())
        .raw(32769, 0, s("simpleperf record $........").as_bytes())
        .build_id(&build_id(&s("/Users/$/z"), &[0x33; 16]))
        .at(10, 10, 1000)
        .exec(10, &s("w-$"))
        .comm(10, 11, "other")
        .mmap(&Map::exec(10, 0x10_0000, 0x1000, &s("/var/home/$/v")))
        .mmap2(&Map::exec(10, 0x40_0000, 0x2000, &s("/home/$/bin/x")))
        .mmap2(&Map::exec(10, 0x50_0000, 0x2000, &s("/run/user/$/w")))
        .mmap2_build_id(&Map::exec(10, 0x60_0000, 0x2000, &s("/opt/$/lib-$.so")), &[0xef; 16])
        .ksymbol(0xffff_ffff_c000_0000, 0x80, false, &s("bpf_prog_0123456789abcdef_$"))
        .cgroup(42, &s("/system.slice/$.service/$"))
        .raw(40, 0, s("a kernel's record of $, type 40.").as_bytes())
        .sample(&sample())
        .finished_round()
}

fn count(bytes: &[u8]) -> usize {
    bytes.windows(SECRET.len()).filter(|window| *window == SECRET.as_bytes()).count()
}

fn redact(folder: &Path, input: &Path, output: &str, options: &str) -> Outcome {
    let mut c = repipe();
    c.args(["inject", "-i"]).arg(input).args(["-o", output, "--plugin"]).arg(format!("{RULES},{options}"));
    run(c.env("REPIPE_PLUGIN_PATH", folder))
}

#[test]
fn no_byte_of_a_secret_is_left_wherever_it_stood() {
    let dir = Dir::new();
    let folder = shipped(&dir, &["redact"]);
    let out = dir.join("out");
    for order in Order::BOTH {
        let (file, pipe) = (recording(order, true), recording(order, false));
        assert_eq!((count(&file.file()), count(&pipe.pipe())), (47, 42), "the places that are tried");
        let file = dir.file("in.data", &file.file());
        let pipe = dir.file("in.pipe", &pipe.pipe());
        for (input, to_pipe) in [(&file, false), (&file, true), (&pipe, false), (&pipe, true)] {
            for stacks in ["zero", "drop"] {
                let what = format!("{} to pipe: {to_pipe} {stacks}", input.display());
                let output = if to_pipe { "-" } else { out.to_str().unwrap() };
                let outcome =
                    redact(&folder, input, output, &format!("aux=zero,stacks={stacks}")).expect_ok(&what);
                let written = if to_pipe { outcome.stdout } else { std::fs::read(&out).unwrap() };
                assert_eq!(count(&written), 0, "{what}");
                assert!(!outcome.stderr.contains("warning: plugin"), "{what}: {}", outcome.stderr);
                assert!(
                    outcome.stderr.contains("left out, since it is not looked into: records "),
                    "{}",
                    outcome.stderr
                );
                check(&oracle::parse(&written).unwrap(), stacks);
                // What samples and sections are now, others can read.
                let again = dir.file("again", &written);
                run(repipe().args(["info", "-i"]).arg(&again)).expect_ok(&what);
                let mut c = repipe();
                c.args(["inject", "-b", "--filter", "frame.ip == 0x400010", "-i"])
                    .arg(&again)
                    .arg("-o")
                    .arg(dir.join("b"));
                run(&mut c).expect_ok(&what);
            }
        }
    }
}

/// That what is no secret is still there, and where it was.
fn check(written: &Recording, stacks: &str) {
    let order = written.order;
    let of = |kind| written.of_kind(kind).map(|r| r.bytes.clone()).collect::<Vec<_>>();
    let sample = of(kind::SAMPLE).pop().unwrap();
    let mut expected = Sample { raw: vec![0; 12], aux: vec![0; 24], stack: vec![0; 64], ..self::sample() };
    if stacks == "drop" {
        expected.stack.clear();
    }
    let attr = &Builder::with(order, &AttrSpec::everything()).finish().attrs[0];
    let expected = expected.encode(attr, order);
    assert!(sample[8..] == expected, "{stacks}: {sample:x?} {expected:x?}");
    let has = |kind, text: &str| of(kind).iter().any(|bytes| String::from_utf8_lossy(bytes).contains(text));
    for (kind, text) in [
        (kind::COMM, "comm-"),
        (kind::COMM, "other"),
        (kind::THREAD_MAP, "comm-"),
        (kind::THREAD_MAP, "other"),
        (kind::MMAP, "/var/home/user-"),
        (kind::MMAP2, "/home/user-"),
        (kind::MMAP2, "/opt/name-"),
        (kind::CGROUP, "/system.slice/cg-"),
        (kind::AUXTRACE_ERROR, "cannot open /home/user-"),
        (kind::EVENT_UPDATE, "probe:name-"),
        (kind::KSYMBOL, "name-"),
    ] {
        assert!(has(kind, text), "{kind} {text}");
    }
    for kind in [kind::BPF_METADATA, 200, 32769, 40] {
        assert!(of(kind).is_empty(), "{kind}");
    }
    let user = |kind, from: &str| -> Option<String> {
        let text: Vec<String> = of(kind).iter().map(|b| String::from_utf8_lossy(b).into_owned()).collect();
        text.iter().find_map(|text| Some(text.split_once(from)?.1.get(..8)?.to_owned()))
    };
    assert_eq!(user(kind::MMAP, "user-"), user(kind::HEADER_BUILD_ID, "user-"), "one user, one pseudonym");
}

#[test]
fn what_is_kept_though_it_may_hold_names_is_told() {
    let dir = Dir::new();
    let folder = shipped(&dir, &["redact"]);
    let out = dir.join("out");
    let output = out.to_str().unwrap();
    let run = |input: &PathBuf, options: &str| redact(&folder, input, output, options);
    let kept = dir.file("in", &recording(Order::Little, true).file());
    let told = run(&kept, "others=keep").expect_ok("keep").stderr;
    for says in ["copies of users' stacks are kept, which may hold names: stacks=zero", "AUX data is kept"] {
        assert!(told.contains(&format!("warning: plugin redact: {says}")), "{told}");
    }
    assert!(!told.contains("left out") && !told.contains("raw data"), "{told}");
    let written = std::fs::read(&out).unwrap();
    assert!(count(&written) >= 10, "stacks, AUX data and others stay as they are");

    let traced = recording(Order::Little, true).auxtrace(0, 0, 10, 3, &[0; 64]);
    let input = dir.file("aux", &traced.file());
    let told = run(&input, "stacks=zero").expect_ok("AUX data").stderr;
    assert!(told.contains("warning: plugin redact: AUX data is kept, which is not looked into"), "{told}");
    let refused = run(&input, "aux=zero").expect_failure("AUX data").stderr;
    assert!(
        refused.contains("AUXTRACE record: plugin redact: records: AUX data beside the samples"),
        "{refused}"
    );

    // Tracing data behind a record of a pipe.
    let spec = AttrSpec { kind: 2, ..AttrSpec::plain() };
    let input = Builder::with(Order::Little, &spec)
        .identity()
        .sample(&Sample::user(1, 1, 1))
        .finished_round()
        .finish();
    let mut pipe = input.clone();
    let data =
        Builder::with(Order::Little, &spec).tracing_data(with_secret("12 $\n345 a\n").as_bytes()).finish();
    pipe.records.splice(0..0, data.records);
    let pipe = dir.file("pipe", &pipe.to_pipe());
    assert_eq!(count(&std::fs::read(&pipe).unwrap()), 1);
    let told = redact(&folder, &pipe, "-", "stacks=zero").expect_ok("pipe to pipe").stderr;
    assert!(
        told.contains("warning: plugin redact: tracing data, if there is some, passes from pipe to pipe"),
        "{told}"
    );
    let told = run(&pipe, "stacks=zero").expect_ok("pipe to file").stderr;
    assert!(!told.contains("warning: plugin redact: tracing data"), "{told}");
    let written = std::fs::read(&out).unwrap();
    assert!(written.windows(6).any(|w| w == b"12 com") && count(&written) == 0);
}
