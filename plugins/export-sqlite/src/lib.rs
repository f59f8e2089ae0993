//! `export-sqlite`: writes samples, and the events, threads, DSOs, symbols and callchains that they hit, into an SQLite
//! database with the tables and views of perf's script export-to-sqlite.py, so that what reads those reads this.

mod database;
mod events;
mod options;
mod places;
mod schema;
mod threads;

use repipe_plugin::{
    Args, COMM, FORK, Host, Info, OpenError, Plugin, Record, SAMPLE, Verdict, edit, export, field,
};
use rusqlite::params;

use database::{Database, Row};
use events::Events;
use options::{Columns, Options};
use places::Places;
use threads::Threads;

/// `PERF_RECORD_SWITCH` and `PERF_RECORD_SWITCH_CPU_WIDE`.
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;
/// Bits of a SWITCH's misc word.
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Bit of a COMM's misc word.
const COMM_EXEC: u16 = 1 << 13;

/// The only machine: perf, too, takes all samples for the host's unless it is told of guests.
const HOST_MACHINE: Row = 1;

struct Export {
    db: Database,
    options: Options,
    events: Events,
    threads: Threads,
    places: Places,
    samples: Row,
    switches: Row,
    has_machine: bool,
}

impl Export {
    /// The machine's row goes in with the first that refers to it.
    fn machine(&mut self) -> Result<(), String> {
        if !std::mem::replace(&mut self.has_machine, true) {
            self.db.insert("INSERT INTO machines VALUES (?, -1, '')", params![HOST_MACHINE])?;
        }
        Ok(())
    }

    fn sample(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<(), String> {
        let event = self.events.event(&self.db, record.evsel(), host)?;
        self.machine()?;
        let who = self.threads.of(&mut self.db, record.pid(), record.tid())?;
        self.samples += 1;
        let hit = self.places.hit(&self.db, host, Some(record.cpumode()), record.ip())?;
        let call_path = match self.options.has_call_paths() {
            true => self.places.call_path(&self.db, host, record)?,
            false => 0,
        };
        let addr = if event.has_addr() { host.field(field::ADDR).map_or(0, |field| field.value) } else { 0 };
        let to = match event.addr_is_code_or_data() {
            true => self.places.hit(&self.db, host, None, addr)?,
            false => places::Hit::default(),
        };
        let weight = event.weight(host);
        let transaction = event.transaction(host);
        let data_src = event.data_src(host);
        let time = record.time().unwrap_or(u64::MAX).cast_signed();
        let cpu = record.cpu().unwrap_or(-1);
        let ip = record.ip().cast_signed();
        let (offset, to_offset) = (hit.offset.cast_signed(), to.offset.cast_signed());
        match self.options.columns {
            Columns::All => self.db.insert(
                "INSERT INTO samples VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,0,0,?,0,0,0)",
                params![
                    self.samples,
                    event.id,
                    HOST_MACHINE,
                    who.thread,
                    who.comm,
                    hit.dso,
                    hit.symbol,
                    offset,
                    ip,
                    time,
                    cpu,
                    to.dso,
                    to.symbol,
                    to_offset,
                    addr.cast_signed(),
                    record.period().cast_signed(),
                    weight.cast_signed(),
                    transaction.cast_signed(),
                    data_src.cast_signed(),
                    call_path,
                ],
            ),
            Columns::Branches => self.db.insert(
                "INSERT INTO samples VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,0,0,?,0,0,0)",
                params![
                    self.samples,
                    event.id,
                    HOST_MACHINE,
                    who.thread,
                    who.comm,
                    hit.dso,
                    hit.symbol,
                    offset,
                    ip,
                    time,
                    cpu,
                    to.dso,
                    to.symbol,
                    to_offset,
                    addr.cast_signed(),
                    call_path,
                ],
            ),
        }
    }

    fn switch(&mut self, record: &Record<'_>) -> Result<(), String> {
        let own = self.threads.known(&mut self.db, record.pid(), record.tid())?;
        let mut other = None;
        if record.kind() == SWITCH_CPU_WIDE {
            let word = |at| record.order().u32(record.bytes(), at).map(u32::cast_signed);
            if let (Some(pid), Some(tid)) = (word(8), word(12)) {
                other = self.threads.known(&mut self.db, pid, tid)?;
            }
        }
        // A switch between the idle task and one that nothing is known of tells nothing.
        if [own, other].into_iter().flatten().all(|who| who.is_idle) {
            return Ok(());
        }
        self.machine()?;
        self.switches += 1;
        let is_out = record.misc() & SWITCH_OUT != 0;
        let flags = u32::from(is_out) | u32::from(is_out && record.misc() & SWITCH_OUT_PREEMPT != 0) << 1;
        let (from, to) = if is_out { (own, other) } else { (other, own) };
        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
        self.db.insert(
            "INSERT INTO context_switches VALUES (?,?,?,?,?,?,?,?,?)",
            params![
                self.switches,
                HOST_MACHINE,
                record.time().unwrap_or(u64::MAX).cast_signed(),
                record.cpu().unwrap_or(-1),
                from.thread,
                from.comm,
                to.thread,
                to.comm,
                flags
            ],
        )
    }
}

impl Plugin for Export {
    const INFO: Info = Info {
        summary: c"writes samples and what they hit into an SQLite database, laid out as by perf's export-to-sqlite.py",
        description: options::DESCRIPTION,
        license: c"MIT OR Apache-2.0",
        symbols: true,
        record_types: &[SAMPLE, COMM, FORK, SWITCH, SWITCH_CPU_WIDE],
        ..Info::new(c"export-sqlite", c"0.1.0")
    };

    fn open(args: &Args, host: &mut Host<'_>) -> Result<Self, OpenError> {
        let options = Options::parse(args)?;
        let db = Database::create(&options.out, options.replace, host)?;
        schema::create(&db, &options).map_err(OpenError::Failed)?;
        Ok(Export {
            db,
            options,
            events: Events::default(),
            threads: Threads::new(events::tells_exec(host)),
            places: Places::default(),
            samples: 0,
            switches: 0,
            has_machine: false,
        })
    }

    fn record(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<Verdict, String> {
        let word = |at| record.order().u32(record.bytes(), at).map_or(-1, u32::cast_signed);
        let time = record.time().unwrap_or(u64::MAX);
        match record.kind() {
            SAMPLE => self.sample(record, host)?,
            COMM => {
                let name = edit::name(record).unwrap_or_default();
                self.threads.comm(word(8), word(12), name, time, record.misc() & COMM_EXEC != 0);
            }
            FORK => self.threads.fork((word(8), word(16)), (word(12), word(20)), time),
            SWITCH | SWITCH_CPU_WIDE => self.switch(record)?,
            _ => {}
        }
        Ok(Verdict::Keep)
    }

    fn finish(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        if self.switches == 0 {
            schema::drop_switches(&self.db)?;
        }
        self.db.commit(host)
    }
}

export!(Export);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use repipe_plugin::harness::{Harness, Sample, comm};

    #[test]
    fn the_database_appears_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("x.db");
        let open = || Harness::<Export>::open(&[("out", out.to_str()), ("callchains", Some("yes"))]);
        let mut run = open().unwrap();
        run.set_location("/bin/x", Some("main"));
        run.record(&comm(1, "one")).unwrap();
        let sample = Sample { callchain: vec![0x2000, 0x3000], ..Sample::default() };
        assert_eq!(run.sample(&sample).unwrap(), [sample.bytes()]);
        assert!(!out.exists());
        let begun = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        assert_eq!(begun.map(|path| path.display().to_string()).collect::<Vec<_>>(), run.unfinished());
        run.finish().unwrap();
        let db = rusqlite::Connection::open(&out).unwrap();
        let row =
            db.query_row("SELECT command, event, symbol, time FROM samples_view WHERE id = 1", [], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, String>(2)?,
                    row.get(3)?,
                ))
            });
        assert_eq!(row, Ok(("one".into(), "cycles".into(), "main".into(), 1)));
        assert!(open().err().unwrap().ends_with("x.db: is there already; replace=yes writes over it"));

        std::fs::remove_file(&out).unwrap();
        let mut run = open().unwrap();
        run.sample(&sample).unwrap();
        drop(run);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
