//! What `repipe script` has to print as `perf script` does: recordings made here of programs of every kind, and the
//! options that choose what is shown. Whatever is compared is printed from all symbols and from those that are met.
//!
//! Compared to the byte with perf from 6.8 on. What an older one does not print alike is left out and said.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::lab::{Lab, same_lines};
use super::support::places::left_out;
use super::support::programs::{C, CXX, JIT, RUST, SIGNALS, STORM};
use super::support::run::{repipe, run};

const FRAMES: [&str; 3] = ["-O1", "-g", "-fno-omit-frame-pointer"];
const CLOCK: [&str; 4] = ["-e", "cpu-clock", "-F", "1999"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Records a program flat, with callchains, and with its stack; compares each. `seen` is what must be there in each.
#[track_caller]
fn program(lab: &Lab, program: &Path, options: &[&str], seen: &[&str]) {
    let name = program.file_name().unwrap().to_str().unwrap();
    for (how, record) in [("flat", &[][..]), ("fp", &["-g"]), ("dwarf", &["--call-graph", "dwarf,4096"])] {
        let what = format!("{name} {how}");
        let events: Vec<&str> = CLOCK.iter().chain(record).copied().collect();
        let out = lab.record(&what, &events, &[text(program)]).unwrap();
        let printed = match how {
            "dwarf" => lab.same_stacks(&what, options, &out),
            _ => lab.same(&what, options, &out),
        };
        assert!(printed.lines().count() > 20, "{what}: {printed}");
        for seen in seen {
            assert!(printed.contains(seen), "{what}: no {seen} in\n{printed}");
        }
    }
}

#[test]
fn programs_at_fixed_and_at_any_addresses_and_static_ones() {
    let Some(lab) = Lab::new() else { return };
    let builds: [(&str, &[&str]); 3] = [("pie", &[]), ("no-pie", &["-no-pie"]), ("static", &["-static"])];
    for (name, more) in builds {
        let flags: Vec<&str> = FRAMES.iter().chain(more).copied().collect();
        let Some(path) = lab.build("cc", &flags, name, C) else { continue };
        if name == "static" && !lab.perf.is_recent_enough_for("unwinding of static programs") {
            let out = lab.record(name, &[&CLOCK[..], &["-g"]].concat(), &[text(&path)]).unwrap();
            lab.same(name, &[], &out);
            continue;
        }
        program(&lab, &path, &[], &["leaf+0x", "__vdso_clock_gettime+0x", "([vdso])"]);
    }
}

#[test]
fn programs_without_symbols_and_with_symbols_elsewhere() {
    let Some(lab) = Lab::new() else { return };
    let Some(built) = lab.build("cc", &FRAMES, "built", C) else { return };
    let at = |name: &str| lab.dir.join(name);
    let stripped = at("stripped");
    lab.tool("strip", &["-o", text(&stripped), text(&built)]);
    program(&lab, &stripped, &[], &["[unknown] (", "([vdso])"]);

    // A debug file beside it, by .gnu_debuglink.
    let (linked, debug) = (at("linked"), at("linked.debug"));
    lab.tool("objcopy", &["--only-keep-debug", text(&built), text(&debug)]);
    lab.tool(
        "objcopy",
        &["--strip-all", &format!("--add-gnu-debuglink={}", text(&debug)), text(&built), text(&linked)],
    );
    program(&lab, &linked, &[], &["leaf+0x"]);

    // A debug file by build-id, below another root that has the program too.
    let id = lab.tool("readelf", &["-n", text(&built)]);
    let id = id.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap();
    let (head, tail) = id.split_at(2);
    let root = at("root");
    let by_id = root.join("usr/lib/debug/.build-id").join(head);
    std::fs::create_dir_all(&by_id).unwrap();
    std::fs::copy(&debug, by_id.join(format!("{tail}.debug"))).unwrap();
    let copy = root.join(stripped.strip_prefix("/").unwrap());
    std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
    std::fs::copy(&stripped, &copy).unwrap();
    let symfs = ["--symfs", text(&root)];
    let recorded =
        |how: &[&str]| lab.record("split", &[&CLOCK[..], how].concat(), &[text(&stripped)]).unwrap();
    let flat = recorded(&[]);
    // With another root, perf does not ask for the vdso of this system; here it is taken, if it has the recorded id.
    let but_vdso = |text: String| {
        text.lines().filter(|l| !l.contains("([vdso])")).map(|l| l.to_owned() + "\n").collect::<String>()
    };
    let (perfs, printed) = (lab.perfs(&symfs, &flat).unwrap(), lab.ours(&symfs, &flat));
    assert!(printed.contains("leaf+0x"), "{printed}");
    if lab.perf.is_recent_enough_for("debug files by build-id") {
        same_lines("by build-id", &but_vdso(printed), &but_vdso(perfs));
    }

    // In a cache of perf's, by build-id: the whole program, and its debug file alone.
    let split = recorded(&["-g"]);
    let dir = lab.cache.join(".build-id").join(head).join(tail);
    for (kind, file) in [("elf", &built), ("debug", &debug)] {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::copy(file, dir.join(kind)).unwrap();
        assert!(lab.ours(&[], &split).contains("leaf+0x"), "{kind}");
        if lab.perf.is_recent_enough_for("files of perf's cache") {
            lab.same(kind, &[], &split);
        }
    }
}

#[test]
fn programs_in_cxx() {
    let Some(lab) = Lab::new() else { return };
    let Some(path) = lab.build("c++", &["-O2", "-g"], "cxx", CXX) else { return };
    program(&lab, &path, &["--no-demangle"], &["_ZN4shop4CartIlLi3EE3addE"]);
    let out = lab.dir.join("cxx fp.data");
    assert!(lab.ours(&[], &out).contains("shop::Cart<long, 3>::add(std::"));
    if lab.perf.is_recent_enough_for("names of C++") {
        lab.same("cxx demangled", &[], &out);
        lab.same("cxx demangled", &[], &lab.dir.join("cxx flat.data"));
    }
}

#[test]
fn programs_in_rust() {
    let Some(lab) = Lab::new() else { return };
    // GNU's linker: perf from 6.8 on unwinds nothing that lld linked, which lays files out otherwise than memory.
    let flags = ["-O", "-g", "-C", "linker-features=-lld"];
    let (old, new) = (
        ["-C", "symbol-mangling-version=legacy", "-Z", "unstable-options"],
        ["-C", "symbol-mangling-version=v0"],
    );
    let Some(path) = lab.build("rustc", &[&flags[..], &new].concat(), "rust", RUST) else { return };
    program(&lab, &path, &["--no-demangle"], &["Square", "Shape4area"]);
    let out = lab.dir.join("rust fp.data");
    assert!(lab.ours(&[], &out).contains("<rust::Square as rust::Shape>::area+0x"));
    // Names of old, which every perf can read; compilers that no longer write them are not asked.
    let legacy = lab.dir.join("legacy");
    let built = Command::new("rustc")
        .args(flags)
        .args(old)
        .env("RUSTC_BOOTSTRAP", "1")
        .arg("-o")
        .args([&legacy, &lab.dir.join("rust.rs")])
        .output();
    if built.is_ok_and(|out| out.status.success()) {
        let out = lab.record("legacy", &CLOCK, &[text(&legacy)]).unwrap();
        let demangled = "<rust::Square as rust::Shape>::area+0x";
        assert!(lab.ours(&[], &out).contains(demangled));
        if lab.perf.is_recent_enough_for("names of Rust") {
            let named = |text: String| {
                text.lines().filter(|l| l.contains("rust::")).map(str::to_owned).collect::<Vec<_>>()
            };
            assert_eq!(named(lab.ours(&[], &out)), named(lab.perfs(&[], &out).unwrap()));
        }
    } else {
        left_out("no rustc that mangles names as of old");
    }
}

#[test]
fn code_made_at_run_time() {
    let Some(lab) = Lab::new() else { return };
    let Some(path) = lab.build("cc", &["-O1"], "jit", JIT) else { return };
    for (how, options) in [("flat", &[][..]), ("fp", &["-g"]), ("dwarf", &["--call-graph", "dwarf,2048"])] {
        let out = lab.record(how, &[&CLOCK[..], options].concat(), &[text(&path)]).unwrap();
        let printed = lab.ours(&[], &out);
        assert!(
            printed.contains("jit one+0x") && printed.contains("Lcom/example/Foo;::bar(I)V+0x"),
            "{printed}"
        );
        assert!(
            printed
                .lines()
                .any(|l| l.contains(" [unknown] (/tmp/perf-") || l.contains(" [unknown] (//anon)"))
        );
        if how == "dwarf" {
            // perf finds no frame here, since no file tells of one; the code keeps a frame pointer.
            let of_code = |sample: &&str| sample.lines().nth(1).is_some_and(|top| top.contains("jit one+0x"));
            let samples: Vec<&str> = printed.split("\n\n").filter(of_code).collect();
            assert!(!samples.is_empty() && samples.iter().all(|s| s.contains(" main+0x")), "{printed}");
        } else {
            lab.same(how, &[], &out);
        }
        forget_maps(&printed);
    }
}

#[test]
fn handlers_of_signals() {
    let Some(lab) = Lab::new() else { return };
    let Some(path) = lab.build("cc", &["-O1"], "signals", SIGNALS) else { return };
    let events = [&CLOCK[..], &["--call-graph", "dwarf,8192"]].concat();
    let out = lab.record("signals", &events, &[text(&path)]).unwrap();
    let printed = lab.ours(&[], &out);
    if lab.perf.is_recent_enough_for("what handlers of signals return to") {
        lab.same_stacks("signals", &[], &out);
    }
    let way = ["handler+0x", "__restore_rt+0x0 ", "work+0x", "interrupted+0x", "main+0x"];
    let whole = |sample: &&str| {
        let mut rest = *sample;
        way.iter().all(|name| rest.split_once(name).map(|(_, behind)| rest = behind).is_some())
    };
    let (all, wholes) = (printed.matches("handler+0x").count(), printed.split("\n\n").filter(whole).count());
    assert!(all >= 8 && wholes * 10 > all * 9, "{wholes} of {all} in\n{printed}");
}

/// Takes away the maps that [`JIT`] wrote.
fn forget_maps(printed: &str) {
    for word in
        printed.split(['(', ')']).filter(|word| word.starts_with("/tmp/perf-") && word.ends_with(".map"))
    {
        let _ = std::fs::remove_file(word);
    }
}

fn storm(lab: &Lab) -> Option<PathBuf> {
    lab.build("cc", &["-O1", "-g", "-fno-omit-frame-pointer", "-pthread"], "storm", STORM)
}

#[test]
fn a_storm_of_forks_and_the_whole_system() {
    let Some(lab) = Lab::new() else { return };
    let Some(path) = storm(&lab) else { return };
    for (how, options) in [("flat", &[][..]), ("fp", &["-g"]), ("events", &["-g", "--switch-events", "-d"])] {
        let out = lab.record(how, &[&CLOCK[..], options].concat(), &[text(&path)]).unwrap();
        let printed = lab.ours(&[], &out);
        assert!(
            printed.contains("child ") && printed.contains("thread-x") && printed.contains("work+0x"),
            "{printed}"
        );
        if lab.perf.is_recent_enough_for("names of threads that ended") {
            lab.same(how, &[], &out);
        }
    }
    let script = format!("{0}; cat /usr/bin/* | cksum >/dev/null; {0}", text(&path));
    let all = lab.record("all", &[&CLOCK[..], &["-a", "-g"]].concat(), &["sh", "-c", &script]).unwrap();
    let printed = lab.ours(&["--no-demangle"], &all);
    assert!(printed.contains("([kernel.kallsyms])") && printed.contains("cksum"));
    if lab.perf.is_recent_enough_for("the whole system") {
        // Of other programs that run here, such as a compiler, perf may fail to read the symbols.
        let names = "sh,storm,cat,cksum,swapper,thread-x,child 7,perf-exec";
        lab.same("all", &["--comms", names], &all);
        let fields = ["-F", "comm,pid,tid,cpu,time,period,event,ip,dso"];
        let (perfs, printed) = (lab.perfs(&fields, &all).unwrap(), lab.ours(&fields, &all));
        assert_eq!(printed.lines().count(), perfs.lines().count());
        let differ: Vec<_> =
            printed.lines().zip(perfs.lines()).filter(|(ours, perfs)| ours != perfs).collect();
        // On a busy machine, perf has at times forgotten the maps of a thread that ends.
        assert!(
            differ.len() <= 20 && differ.iter().all(|(_, perfs)| perfs.ends_with("([unknown])")),
            "{differ:?}"
        );
    }
}

#[test]
fn what_is_shown_and_of_which_samples() {
    let Some(lab) = Lab::new() else { return };
    let Some(path) = storm(&lab) else { return };
    let faults = ["-e", "page-faults", "-c", "7", "-d", "-W", "--phys-data", "--sample-cpu"];
    let flat = lab.record("faults", &faults, &[text(&path)]).unwrap();
    let chains = lab.record("faults-g", &[&faults[..], &["-g"]].concat(), &[text(&path)]).unwrap();
    let printed = lab.ours(&[], &flat);
    assert!(printed.contains("work+0x") || printed.contains("_dl_"), "{printed}");
    if !lab.perf.is_recent_enough_for("fields and filters") {
        return;
    }
    let time = |percent: usize| {
        let all = lab.ours(&["-F", "time"], &flat);
        let times: Vec<&str> = all.lines().map(|l| l.trim().trim_end_matches(':')).collect();
        times[times.len() * percent / 100].to_owned()
    };
    let (from, to) = (time(20), time(60));
    let (span, open, spans) = (format!("{from},{to}"), format!("{from},"), format!(",{from} {to},"));
    let ids = lab.ours(&["-F", "pid,tid"], &flat);
    let (pid, tid) = ids.lines().nth(40).unwrap().trim().split_once('/').unwrap();
    let pids = format!("{pid},1,{}", ids.lines().nth(70).unwrap().trim().split_once('/').unwrap().0);
    let options: [&[&str]; 54] = [
        &[],
        &["-F", "comm,pid,tid,cpu,time,event,ip,sym,symoff,dso,addr,period"],
        &["-F", "comm,tid,cpu,time,event,ip,sym,dso,period"],
        &["-F", "ip"],
        &["-F", "ip,sym"],
        &["-F", "ip,dso"],
        &["-F", "ip,sym,symoff"],
        &["-F", "sym,dso"],
        &["-F", "addr"],
        &["-F", "addr,sym,symoff,dso"],
        &["-F", "comm"],
        &["-F", "pid"],
        &["-F", "tid"],
        &["-F", "cpu"],
        &["-F", "time"],
        &["-F", "event"],
        &["-F", "period"],
        &["-F", "pid,tid,period"],
        &["-F", "comm,event,dso"],
        &["-F", "+addr"],
        &["-F", "+pid,-period"],
        &["-F", "-ip"],
        &["-F", "-comm,-cpu"],
        &["-F", "sw:ip,sym"],
        &["-F", "sw:comm,tid,ip", "-F", "hw:comm"],
        &["-F", "trace:ip"],
        &["-G"],
        &["-G", "-F", "comm,ip,sym"],
        &["--ns"],
        &["--ns", "-F", "comm,tid,time"],
        &["--no-demangle"],
        &["--time", &span],
        &["--time", &open],
        &["--time", &spans],
        &["--time", "10%/2"],
        &["--time", "50%-60%"],
        &["--time", "0%-10%,30%-40%"],
        &["--time", "10%"],
        &["--pid", &pids],
        &["--tid", tid],
        &["--pid", pid, "--tid", tid],
        &["--comms", "thread-x,child 5"],
        &["--cpu", "0"],
        &["-C", "0-1"],
        &["-F", "+misc"],
        &["-F", "+phys_addr"],
        &["-F", "ip,sym,misc,phys_addr"],
        &["-F", "comm,addr,weight,ins_lat,retire_lat,phys_addr,data_src"],
        &["--reltime"],
        &["--reltime", "--ns"],
        &["--deltatime", "-F", "comm,tid,time"],
        &["--max-stack", "1"],
        &["--max-stack", "5", "-F", "ip,sym"],
        &["--max-stack", "1000"],
    ];
    for input in [&flat, &chains] {
        for options in options {
            // perf wants the times of first and last sample for percentages, which not every recording states
            if options.first() == Some(&"--time")
                && options[1].contains('%')
                && lab.perfs(options, input).is_none()
            {
                eprintln!("LEFT OUT: {options:?}: perf has no first and last time");
                continue;
            }
            let (perfs, printed) = (lab.perfs(options, input).unwrap(), lab.ours(options, input));
            same_lines(&format!("{options:?}"), &printed, &perfs);
        }
    }
    assert_eq!(lab.ours(&["--comms", "nobody"], &flat), "");
    for refused in [
        &["-F", "nothing"][..],
        &["-F", "symoff"],
        &["-F", "ip,symoff"],
        &["-F", "-sym"],
        &["--time", "soon"],
    ] {
        assert_eq!(lab.perfs(refused, &flat), None, "{refused:?}");
        assert_eq!(
            run(repipe().arg("script").args(refused).arg("-i").arg(&flat)).code,
            Some(2),
            "{refused:?}"
        );
    }
}
