//! `export-sqlite`: what is in its tables, that nothing is left of runs that fail, and that perf's own export has the same.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::Value;

use super::super::support::builder::{AttrSpec, Builder, Map, Sample};
use super::super::support::oracle;
use super::super::support::places::{self, left_out};
use super::super::support::recording::{kind, st};
use super::super::support::run::{Dir, Outcome, repipe, run};
use super::super::support::wire::Order;
use super::native::rogue;
use super::{fixture, root};

/// The plugin, built in the folder of the program under test, where SQLite is compiled already.
fn plugin() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_repipe")).ancestors().nth(2).unwrap();
    let mut c = Command::new(env!("CARGO"));
    c.current_dir(root()).args(["build", "--offline", "--quiet", "-p", "repipe-plugin-export-sqlite"]);
    // A first build compiles SQLite.
    let status = c.arg("--target-dir").arg(target).status().unwrap();
    assert!(status.success(), "cargo build");
    target.join("debug/librepipe_plugin_export_sqlite.so")
}

fn export(input: &Path, out: &Path, args: &str, options: &[&str]) -> Outcome {
    let mut c = repipe();
    c.args(["inject", "-o", "/dev/null", "--symfs"]).arg(root().join("fixtures/symfs")).arg("-i").arg(input);
    c.arg("--plugin").arg(format!("{}:out={}{args}", plugin().display(), out.display()));
    run(c.args(options))
}

fn text(value: Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(n) => n.to_string(),
        Value::Real(x) => format!("{x:?}"),
        Value::Text(text) => text,
        Value::Blob(bytes) => format!("{bytes:?}"),
    }
}

/// All rows of a query, columns separated by spaces.
fn rows(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        (0..columns).map(|at| row.get(at).map(text)).collect::<Result<Vec<_>, _>>().map(|row| row.join(" "))
    };
    statement.query_map([], row).unwrap().map(|row| row.unwrap()).collect()
}

fn open(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    assert_eq!(rows(&db, "PRAGMA integrity_check"), ["ok"]);
    db
}

/// Every table and view with its columns.
fn layout(db: &Connection) -> Vec<String> {
    let names = rows(db, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name");
    let columns = |name: &String| {
        format!("{name}: {}", rows(db, &format!("SELECT name FROM pragma_table_info('{name}')")).join(" "))
    };
    names.iter().map(columns).collect()
}

#[test]
fn samples_join_what_they_hit() {
    let dir = Dir::new();
    let out = dir.join("g.db");
    export(&fixture("g.data"), &out, ",callchains=yes", &[]).expect_ok("g.data");
    let db = open(&out);
    let samples = oracle::read(&fixture("g.data")).unwrap().count(kind::SAMPLE);
    assert_eq!(samples, 197);
    assert_eq!(rows(&db, "SELECT count(*), min(id), max(id) FROM samples"), ["198 0 197"]);
    assert_eq!(rows(&db, "SELECT * FROM selected_events"), ["0 unknown", "1 cpu-clock:u"]);
    assert_eq!(rows(&db, "SELECT * FROM machines_view"), ["0 0 unknown unknown", "1 -1  host"]);
    assert_eq!(rows(&db, "SELECT * FROM threads"), ["0 0 0 -1 -1", "1 1 1 2351 2351"]);
    assert_eq!(rows(&db, "SELECT * FROM comms"), ["0 unknown 0 0 0", "1 work 1 2495365318052 1"]);
    assert_eq!(rows(&db, "SELECT * FROM comm_threads_view"), ["1 work 1 2351 2351"]);
    let place = "/usr/local/share/repipe-fixtures";
    assert_eq!(
        rows(&db, "SELECT * FROM dsos"),
        [
            "0 0 unknown unknown ".to_owned(),
            format!("1 1 work {place}/work c1d1f216ffcde120439ca277ba022b600f28fe67"),
            format!("2 1 libburn.so {place}/libburn.so 6eb03e3eda775cf765f8817190f51b3869e05745"),
        ]
    );
    // Addresses are those of the files: see readelf -s of the copies below symfs.
    assert_eq!(
        rows(&db, "SELECT name, dso, sym_start, sym_end, binding FROM symbols_view ORDER BY dso, sym_start"),
        [
            "mix libburn.so 590 636 local",
            "unknown unknown 0 0 local",
            "_start work 324 339 global",
            "inner work 339 397 global",
            "outer work 397 481 global",
            "work work 481 584 local",
            "start work 584 896 global",
        ]
    );
    assert_eq!(
        rows(
            &db,
            "SELECT d.short_name, y.name, count(*), sum(period), min(sym_offset), max(sym_offset)
             FROM samples s JOIN symbols y ON y.id = s.symbol_id JOIN dsos d ON d.id = y.dso_id
             WHERE s.dso_id = d.id AND s.id > 0 GROUP BY 1, 2"
        ),
        ["libburn.so mix 89 89000000 36 36", "work inner 108 108000000 22 28"]
    );
    assert_eq!(
        rows(
            &db,
            "SELECT time, cpu, pid, tid, command, event, ip_hex, symbol, sym_offset, dso_short_name, to_symbol, branch_type_name FROM samples_view WHERE id IN (1, 90)"
        ),
        [
            "2495366321574 -1 2351 2351 work cpu-clock:u 40016f inner 28 work unknown no branch",
            "2495460708065 -1 2351 2351 work cpu-clock:u 400169 inner 22 work unknown no branch",
        ]
    );
    let paths = "WITH RECURSIVE up(leaf, id, text) AS (
            SELECT id, id, '' FROM call_paths WHERE id IN (SELECT call_path_id FROM samples WHERE id > 0)
            UNION ALL SELECT leaf, p.parent_id, y.name || ' ' || text
            FROM up JOIN call_paths p ON p.id = up.id JOIN symbols y ON y.id = p.symbol_id WHERE up.id > 1)
        SELECT text, (SELECT count(*) FROM samples s WHERE s.call_path_id = leaf) FROM up WHERE id = 1 ORDER BY 1";
    assert_eq!(rows(&db, paths), ["_start start work inner  108", "_start start work outer mix  89"]);
    assert_eq!(rows(&db, "SELECT count(*) FROM call_paths"), ["8"]);
}

#[test]
fn threads_have_the_names_that_they_had() {
    let dir = Dir::new();
    let out = dir.join("forks.db");
    export(&fixture("forks.data"), &out, "", &[]).expect_ok("forks.data");
    let db = open(&out);
    // Every other child has a name of its own by exec; the first has it from its parent by fork.
    assert_eq!(
        rows(
            &db,
            "SELECT t.tid, c.comm, c.c_time, c.exec_flag FROM comms c JOIN threads t ON t.id = c.c_thread_id WHERE c.id BETWEEN 1 AND 4"
        ),
        [
            "2445 work 2497135253985 0",
            "2446 work 2497140589850 1",
            "2447 work 2497150771488 0",
            "2448 work 2497159868826 1"
        ]
    );
    assert_eq!(rows(&db, "SELECT count(*), sum(exec_flag) FROM comms WHERE id > 0"), ["12 6"]);
    assert_eq!(
        rows(&db, "SELECT count(*) FROM threads WHERE id > 0 AND process_id = id AND pid = tid"),
        ["12"]
    );
    assert_eq!(
        rows(&db, "SELECT count(*) FROM comm_threads WHERE comm_id = thread_id AND comm_id = id"),
        ["12"]
    );
    assert_eq!(rows(&db, "SELECT count(*), count(DISTINCT thread_id) FROM samples WHERE id > 0"), ["90 12"]);
}

/// A process of two threads, one of which is named anew and switches; a page fault's address; a switch that tells nothing.
fn built(order: Order) -> Vec<u8> {
    let spec = AttrSpec {
        kind: 1,
        config: 2,
        ..AttrSpec::new(
            st::IP | st::TID | st::TIME | st::ADDR | st::CPU | st::PERIOD | st::WEIGHT | st::CALLCHAIN,
        )
    };
    let sample = |tid, ip, time| Sample {
        cpu: 1,
        period: 3,
        addr: 0x70_0040,
        weight: 9,
        ..Sample::user(10, ip, time).tid(tid).chain([-512i64 as u64, ip, 0x12])
    };
    Builder::with(order, &spec)
        .at(10, 10, 900)
        .exec(10, "ten")
        .mmap2(&Map::exec(10, 0x40_0000, 0x1000, "/bin/ten"))
        .mmap2(&Map::exec(10, 0x70_0000, 0x1000, "/lib/a.so"))
        .fork(10, 10, 11, 10)
        .sample(&sample(11, 0x40_0010, 1000))
        .at(11, 11, 1100)
        .comm(10, 11, "worker")
        .sample(&sample(11, 0x40_0010, 1200))
        .sample(&sample(11, 0x99_0000, 1300))
        .finished_round()
        .file()
}

#[test]
fn addresses_names_and_frames_that_are_not_known() {
    for order in Order::BOTH {
        let dir = Dir::new();
        let (input, out) = (dir.file("in", &built(order)), dir.join("out.db"));
        export(&input, &out, ",callchains", &[]).expect_ok("built");
        let db = open(&out);
        assert_eq!(rows(&db, "SELECT * FROM threads WHERE id > 0"), ["1 1 1 10 10", "2 1 1 10 11"]);
        // What a sample's comm_id says is the name that its process was executed as.
        assert_eq!(
            rows(&db, "SELECT id, comm, c_thread_id, exec_flag FROM comms WHERE id > 0"),
            ["1 ten 1 1", "2 ten 2 0", "3 worker 2 0"]
        );
        assert_eq!(rows(&db, "SELECT comm_id, thread_id FROM comm_threads"), ["1 1", "1 2"]);
        // Code without a symbol has one of its own at its address in the file, and none where there is no map.
        assert_eq!(
            rows(&db, "SELECT s.id, comm_id, thread_id, d.long_name, y.name, y.sym_start, ip, cpu, td.long_name, ty.sym_start, to_ip, period, weight, data_src
                FROM samples s JOIN dsos d ON d.id = s.dso_id JOIN symbols y ON y.id = symbol_id
                JOIN dsos td ON td.id = to_dso_id JOIN symbols ty ON ty.id = to_symbol_id WHERE s.id > 0"),
            [
                "1 1 2 /bin/ten unknown 16 4194320 1 /lib/a.so 64 7340096 3 9 128933429281",
                "2 1 2 /bin/ten unknown 16 4194320 1 /lib/a.so 64 7340096 3 9 128933429281",
                "3 1 2 unknown unknown 0 10027008 1 /lib/a.so 64 7340096 3 9 128933429281",
            ]
        );
        assert_eq!(rows(&db, "SELECT count(*) FROM symbols"), ["3"]);
        assert_eq!(
            rows(&db, "SELECT * FROM call_paths"),
            ["0 0 0 0", "1 0 0 0", "2 1 0 18", "3 2 1 0", "4 2 0 10027008"]
        );
        assert_eq!(rows(&db, "SELECT call_path_id FROM samples WHERE id > 0"), ["3", "3", "4"]);
    }
}

#[test]
fn tables_are_those_that_were_asked_for() {
    let dir = Dir::new();
    let layouts: Vec<Vec<String>> = ["", ",callchains=yes", ",calls=yes", ",columns=branches,callchains=no"]
        .iter()
        .enumerate()
        .map(|(n, args)| {
            let out = dir.join(format!("{n}.db"));
            export(&fixture("plain.data"), &out, args, &[]).expect_ok(args);
            let db = open(&out);
            let layout = layout(&db);
            for line in &layout {
                let name = line.split(':').next().unwrap();
                rows(&db, &format!("SELECT * FROM {name} LIMIT 1"));
            }
            layout
        })
        .collect();
    let [plain, callchains, calls, branches] = layouts.as_slice() else { unreachable!() };
    let names = |layout: &[String]| {
        layout.iter().map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        names(plain),
        "branch_types comm_threads comm_threads_view comms dsos dsos_view machines machines_view samples samples_view \
         selected_events symbols symbols_view threads threads_view"
    );
    let more = |layout: &[String]| -> Vec<String> {
        layout.iter().filter(|line| !plain.contains(line)).cloned().collect()
    };
    assert_eq!(names(&more(callchains)), "call_paths call_paths_view");
    assert_eq!(names(&more(calls)), "call_paths call_paths_view calls calls_view comms");
    assert_eq!(
        more(branches),
        [
            "samples: id evsel_id machine_id thread_id comm_id dso_id symbol_id sym_offset ip time cpu to_dso_id \
          to_symbol_id to_sym_offset to_ip branch_type in_tx call_path_id insn_count cyc_count flags"
        ]
    );
}

#[test]
fn a_run_that_a_signal_ends_leaves_nothing_of_its_own_and_touches_nothing_of_others() {
    let plugin = plugin();
    let input = std::fs::read(fixture("pipe.data")).unwrap();
    // As a run that was killed outright leaves it.
    const OTHER: &str = ".out.db.Ab3dEf.tmp";
    for signal in ["INT", "TERM", "HUP"] {
        let dir = Dir::new();
        dir.file(OTHER, b"another's");
        let mut c = repipe();
        c.args(["inject", "-o", "/dev/null", "--plugin"]);
        c.arg(format!("{}:out={}", plugin.display(), dir.join("out.db").display()));
        let mut child = c.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        // It waits for the rest, with its database begun.
        child.stdin.as_mut().unwrap().write_all(&input[..input.len() - 20]).unwrap();
        let start = Instant::now();
        while dir.names().len() < 2 && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(dir.names().len(), 2, "{:?}", dir.names());
        // Its name is told right after it is there.
        std::thread::sleep(Duration::from_millis(200));
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status();
        assert!(sent.unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success());
        assert_eq!(dir.names(), [OTHER], "SIG{signal}");

        let out = dir.join("out.db");
        let next = export(&fixture("plain.data"), &out, "", &[]).expect_ok("the next run");
        assert!(!next.stderr.contains(OTHER), "{}", next.stderr);
        assert_eq!(dir.names(), [OTHER, "out.db"]);
        assert_eq!(std::fs::read(dir.join(OTHER)).unwrap(), b"another's");
    }
}

#[test]
fn a_run_that_fails_leaves_nothing_and_a_file_that_is_there_stays() {
    let dir = Dir::new();
    let other = rogue(&dir, "rogue.so", &[]);
    let out = dir.join("out.db");
    for what in ["fail", "latefail"] {
        let outcome = export(&fixture("plain.data"), &out, "", &["--plugin", &format!("{other}:do={what}")]);
        outcome.expect_failure(what);
        // The other's finish comes after this plugin's, whose database was whole by then.
        let left = if what == "fail" { vec!["rogue.so"] } else { vec!["out.db", "rogue.so"] };
        assert_eq!(dir.names(), left, "{what}");
    }
    std::fs::write(&out, "mine").unwrap();
    let refused = export(&fixture("plain.data"), &out, "", &[]).expect_usage("there already");
    assert!(
        refused.stderr.contains("out.db: is there already; replace=yes writes over it"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read(&out).unwrap(), b"mine");
    export(&fixture("plain.data"), &out, ",replace=yes", &[]).expect_ok("replace");
    assert_eq!(rows(&open(&out), "SELECT count(*) > 100 FROM samples"), ["1"]);
    for (args, says) in [
        (",columns=some", "columns=some is neither all nor branches"),
        (",calls=maybe", "calls=maybe is neither yes nor no"),
        (",x=y", "there is no argument x"),
    ] {
        let outcome = export(&fixture("plain.data"), &dir.join("other.db"), args, &[]).expect_usage(args);
        assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
    }
    let outcome = export(&fixture("plain.data"), &dir.join("none/x.db"), "", &[]).expect_failure("no folder");
    assert!(outcome.stderr.contains("none/x.db: "), "{}", outcome.stderr);
    assert_eq!(dir.names(), ["out.db", "rogue.so"]);
}

/// perf's own script, if it is there.
fn export_script(perf: &Path) -> Option<PathBuf> {
    let exec_path = Command::new(perf).arg("--exec-path").output().ok()?;
    let folder = PathBuf::from(String::from_utf8(exec_path.stdout).ok()?.trim());
    Some(folder.join("scripts/python/export-to-sqlite.py")).filter(|script| script.is_file())
}

/// A database by perf's own script, or `None`, said plainly, where this perf has no Python.
fn by_perf(perf: &Path, input: &Path, out: &Path) -> Option<Connection> {
    let script = export_script(perf)?;
    let mut c = Command::new(perf);
    c.args(["script", "--symfs"]).arg(root().join("fixtures/symfs")).arg("-i").arg(input);
    c.arg("-s").arg(script).arg(out).args(["all", "calls", "callchains"]);
    c.env("PYTHONPATH", root().join("tests/plugins/pyside")).env("PYTHONDONTWRITEBYTECODE", "1");
    let outcome = run(&mut c);
    if !outcome.ok() || !out.exists() {
        left_out("this perf runs no scripts in Python");
        return None;
    }
    Some(open(out))
}

#[test]
fn every_table_and_view_is_as_perf_exports_it() {
    let Some(perf) = places::perf() else { return };
    let dir = Dir::new();
    // A perf built by hand may lack what the system's has.
    let perf = [perf, "/usr/bin/perf".into()].into_iter().find(|perf| export_script(perf).is_some());
    let Some(perf) = perf else { return left_out("no perf here has export-to-sqlite.py") };
    for name in ["plain.data", "g.data", "forks.data", "z.data", "pipe.data"] {
        let (ours, theirs) = (dir.join(format!("{name}.ours")), dir.join(format!("{name}.perfs")));
        let Some(theirs) = by_perf(&perf, &fixture(name), &theirs) else { return };
        export(&fixture(name), &ours, ",calls=yes,callchains=yes", &[]).expect_ok(name);
        let ours = open(&ours);
        assert_eq!(layout(&ours), layout(&theirs), "{name}");
        for line in layout(&ours) {
            let table = line.split(':').next().unwrap();
            let sql = format!("SELECT * FROM {table} ORDER BY 1, 2");
            // What stands for no data source has had one part more since perf 6.2.
            let theirs =
                rows(&theirs, &sql).into_iter().map(|row| row.replace(" 84410401 ", " 128933429281 "));
            let of_here = |row: String| match places::has_programs_at_home() {
                false if table.starts_with("dsos") => {
                    row.rsplit_once(' ').map_or(row.clone(), |(row, _id)| row.into())
                }
                _ => row,
            };
            let (ours, theirs) = (rows(&ours, &sql).into_iter().map(of_here), theirs.map(of_here));
            assert_eq!(ours.collect::<Vec<_>>(), theirs.collect::<Vec<_>>(), "{name}: {table}");
        }
    }
}
