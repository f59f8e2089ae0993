//! Tables and views: names, columns, rows of what is not known, and types of branches are those of perf's
//! export-to-sqlite.py. Tables that only a decoded trace of the processor fills are left out, as that script does when they
//! stayed empty.

use rusqlite::params;

use crate::database::Database;
use crate::options::{Columns, Options};

const TABLES: &str = "
CREATE TABLE selected_events (id integer NOT NULL PRIMARY KEY, name varchar(80));
CREATE TABLE machines (id integer NOT NULL PRIMARY KEY, pid integer, root_dir varchar(4096));
CREATE TABLE threads (id integer NOT NULL PRIMARY KEY, machine_id bigint, process_id bigint, pid integer, tid integer);
CREATE TABLE comms (
    id integer NOT NULL PRIMARY KEY, comm varchar(16), c_thread_id bigint, c_time bigint, exec_flag boolean
);
CREATE TABLE comm_threads (id integer NOT NULL PRIMARY KEY, comm_id bigint, thread_id bigint);
CREATE TABLE dsos (
    id integer NOT NULL PRIMARY KEY, machine_id bigint, short_name varchar(256), long_name varchar(4096),
    build_id varchar(64)
);
CREATE TABLE symbols (
    id integer NOT NULL PRIMARY KEY, dso_id bigint, sym_start bigint, sym_end bigint, binding integer, name varchar(2048)
);
CREATE TABLE branch_types (id integer NOT NULL PRIMARY KEY, name varchar(80));
CREATE TABLE context_switches (
    id integer NOT NULL PRIMARY KEY, machine_id bigint, time bigint, cpu integer, thread_out_id bigint,
    comm_out_id bigint, thread_in_id bigint, comm_in_id bigint, flags integer
);
INSERT INTO selected_events VALUES (0, 'unknown');
INSERT INTO machines VALUES (0, 0, 'unknown');
INSERT INTO threads VALUES (0, 0, 0, -1, -1);
INSERT INTO comms VALUES (0, 'unknown', 0, 0, 0);
INSERT INTO dsos VALUES (0, 0, 'unknown', 'unknown', '');
INSERT INTO symbols VALUES (0, 0, 0, 0, 0, 'unknown');
";

/// Columns of samples up to where the sets of columns differ, and those behind.
const SAMPLES: [&str; 2] = [
    "id integer NOT NULL PRIMARY KEY, evsel_id bigint, machine_id bigint, thread_id bigint, comm_id bigint,
    dso_id bigint, symbol_id bigint, sym_offset bigint, ip bigint, time bigint, cpu integer, to_dso_id bigint,
    to_symbol_id bigint, to_sym_offset bigint, to_ip bigint",
    "branch_type integer, in_tx boolean, call_path_id bigint, insn_count bigint, cyc_count bigint, flags integer",
];
const SAMPLES_ALL: &str = "period bigint, weight bigint, transaction_ bigint, data_src bigint";

const VIEWS: &str = "
CREATE VIEW machines_view AS
    SELECT id, pid, root_dir,
        iif(id = 0, 'unknown', iif(pid = -1, 'host', 'guest')) AS host_or_guest
    FROM machines;
CREATE VIEW dsos_view AS
    SELECT d.id, d.machine_id, m.host_or_guest, d.short_name, d.long_name, d.build_id
    FROM dsos d LEFT JOIN machines_view m ON m.id = d.machine_id;
CREATE VIEW symbols_view AS
    SELECT s.id, s.name, d.short_name AS dso, s.dso_id, s.sym_start, s.sym_end,
        iif(s.binding = 0, 'local', iif(s.binding = 1, 'global', 'weak')) AS binding
    FROM symbols s LEFT JOIN dsos d ON d.id = s.dso_id;
CREATE VIEW threads_view AS
    SELECT t.id, t.machine_id, m.host_or_guest, t.process_id, t.pid, t.tid
    FROM threads t LEFT JOIN machines_view m ON m.id = t.machine_id;
CREATE VIEW comm_threads_view AS
    SELECT ct.comm_id, c.comm AS command, ct.thread_id, t.pid, t.tid
    FROM comm_threads ct LEFT JOIN comms c ON c.id = ct.comm_id LEFT JOIN threads t ON t.id = ct.thread_id;
CREATE VIEW samples_view AS
    SELECT s.id, s.time, s.cpu, t.pid, t.tid, c.comm AS command, e.name AS event,
        printf('%x', s.ip) AS ip_hex, y.name AS symbol, s.sym_offset, d.short_name AS dso_short_name,
        printf('%x', s.to_ip) AS to_ip_hex, ty.name AS to_symbol, s.to_sym_offset, td.short_name AS to_dso_short_name,
        b.name AS branch_type_name, s.in_tx, s.insn_count, s.cyc_count,
        iif(s.cyc_count = 0, 0.0, round(CAST(s.insn_count AS FLOAT) / s.cyc_count, 2)) AS IPC, s.flags
    FROM samples s
        LEFT JOIN threads t ON t.id = s.thread_id
        LEFT JOIN comms c ON c.id = s.comm_id
        LEFT JOIN selected_events e ON e.id = s.evsel_id
        LEFT JOIN symbols y ON y.id = s.symbol_id
        LEFT JOIN dsos d ON d.id = s.dso_id
        LEFT JOIN symbols ty ON ty.id = s.to_symbol_id
        LEFT JOIN dsos td ON td.id = s.to_dso_id
        LEFT JOIN branch_types b ON b.id = s.branch_type;
CREATE VIEW context_switches_view AS
    SELECT s.id, s.machine_id, s.time, s.cpu, ot.pid AS pid_out, ot.tid AS tid_out, oc.comm AS comm_out,
        it.pid AS pid_in, it.tid AS tid_in, ic.comm AS comm_in,
        CASE s.flags WHEN 0 THEN 'in' WHEN 1 THEN 'out' WHEN 3 THEN 'out preempt' ELSE s.flags END AS flags
    FROM context_switches s
        JOIN threads ot ON ot.id = s.thread_out_id
        JOIN threads it ON it.id = s.thread_in_id
        JOIN comms oc ON oc.id = s.comm_out_id
        JOIN comms ic ON ic.id = s.comm_in_id;
";

const CALL_PATHS: &str = "
CREATE TABLE call_paths (id integer NOT NULL PRIMARY KEY, parent_id bigint, symbol_id bigint, ip bigint);
INSERT INTO call_paths VALUES (0, 0, 0, 0);
CREATE VIEW call_paths_view AS
    SELECT c.id, printf('%x', c.ip) AS ip, c.symbol_id, s.name AS symbol, s.dso_id, s.dso AS dso_short_name,
        c.parent_id, printf('%x', p.ip) AS parent_ip, p.symbol_id AS parent_symbol_id, ps.name AS parent_symbol,
        ps.dso_id AS parent_dso_id, ps.dso AS parent_dso_short_name
    FROM call_paths c
        JOIN call_paths p ON p.id = c.parent_id
        LEFT JOIN symbols_view s ON s.id = c.symbol_id
        LEFT JOIN symbols_view ps ON ps.id = p.symbol_id;
";

const CALLS: &str = "
CREATE TABLE calls (
    id integer NOT NULL PRIMARY KEY, thread_id bigint, comm_id bigint, call_path_id bigint, call_time bigint,
    return_time bigint, branch_count bigint, call_id bigint, return_id bigint, parent_call_path_id bigint, flags integer,
    parent_id bigint, insn_count bigint, cyc_count bigint
);
INSERT INTO calls VALUES (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
CREATE VIEW calls_view AS
    SELECT k.id, k.thread_id, t.pid, t.tid, c.comm AS command, k.call_path_id, printf('%x', p.ip) AS ip, p.symbol_id,
        s.name AS symbol, k.call_time, k.return_time, k.return_time - k.call_time AS elapsed_time, k.branch_count,
        k.insn_count, k.cyc_count,
        iif(k.cyc_count = 0, 0.0, round(CAST(k.insn_count AS FLOAT) / k.cyc_count, 2)) AS IPC,
        k.call_id, k.return_id,
        CASE k.flags WHEN 0 THEN '' WHEN 1 THEN 'no call' WHEN 2 THEN 'no return' WHEN 3 THEN 'no call/return'
            WHEN 6 THEN 'jump' ELSE k.flags END AS flags,
        k.parent_call_path_id, k.parent_id
    FROM calls k
        JOIN call_paths p ON p.id = k.call_path_id
        LEFT JOIN threads t ON t.id = k.thread_id
        LEFT JOIN comms c ON c.id = k.comm_id
        LEFT JOIN symbols s ON s.id = p.symbol_id;
CREATE INDEX pcpid_idx ON calls (parent_call_path_id);
CREATE INDEX pid_idx ON calls (parent_id);
ALTER TABLE comms ADD has_calls boolean;
UPDATE comms SET has_calls = 1 WHERE id = 0;
";

/// Flags of a branch.
const BRANCH: u32 = 1;
const TRACE_BEGIN: u32 = 1 << 8;
const TRACE_END: u32 = 1 << 9;
/// Types of branches: their flags besides [`BRANCH`], and names.
const BRANCHES: [(u32, &str); 12] = [
    (0x2, "call"),
    (0x4, "return"),
    (0x8, "conditional jump"),
    (0x42, "software interrupt"),
    (0x44, "return from interrupt"),
    (0x12, "system call"),
    (0x14, "return from system call"),
    (0x20, "asynchronous branch"),
    (0x62, "hardware interrupt"),
    (0x80, "transaction abort"),
    (0x802, "vm entry"),
    (0x1002, "vm exit"),
];

/// Makes all tables and views.
pub fn create(db: &Database, options: &Options) -> Result<(), String> {
    db.run(TABLES)?;
    let [before, behind] = SAMPLES;
    let (columns, zeros) = match options.columns {
        Columns::All => (format!("{before}, {SAMPLES_ALL}, {behind}"), 25),
        Columns::Branches => (format!("{before}, {behind}"), 21),
    };
    let zeros = vec!["0"; zeros].join(", ");
    db.run(&format!("CREATE TABLE samples ({columns}); INSERT INTO samples VALUES ({zeros});"))?;
    db.run(VIEWS)?;
    if options.has_call_paths() {
        db.run(CALL_PATHS)?;
    }
    if options.calls {
        db.run(CALLS)?;
    }
    branch_types(db)
}

fn branch_types(db: &Database) -> Result<(), String> {
    let put =
        |flags: u32, name: &str| db.insert("INSERT INTO branch_types VALUES (?, ?)", params![flags, name]);
    put(0, "no branch")?;
    put(BRANCH, "unconditional jump")?;
    put(TRACE_BEGIN, "trace begin / no branch")?;
    put(TRACE_BEGIN | BRANCH, "trace begin")?;
    put(TRACE_END, "no branch / trace end")?;
    put(TRACE_END | BRANCH, "trace end")?;
    BRANCHES.iter().try_for_each(|(flags, name)| {
        put(BRANCH | flags, name)?;
        put(TRACE_BEGIN | BRANCH | flags, &format!("trace begin / {name}"))?;
        put(TRACE_END | BRANCH | flags, &format!("{name} / trace end"))
    })
}

/// Takes out the table of context switches.
pub fn drop_switches(db: &Database) -> Result<(), String> {
    db.run("DROP VIEW context_switches_view; DROP TABLE context_switches")
}
