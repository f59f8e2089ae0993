//! The database: written under another name in one transaction, and renamed when all is in it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use repipe_plugin::{Host, OpenError};
use rusqlite::{Connection, Params};
use tempfile::{NamedTempFile, TempPath};

/// The id of a row.
pub type Row = i64;

/// A database that is being written. Unless it is committed, nothing stays of it.
pub struct Database {
    // Before the name, so that it is closed before the file is removed.
    connection: Option<Connection>,
    temporary: Option<TempPath>,
    file: File,
    out: PathBuf,
    replace: bool,
    comms: Row,
    comm_threads: Row,
}

impl Database {
    /// Begins one that is to be called `out`.
    pub fn create(out: &Path, replace: bool, host: &mut Host<'_>) -> Result<Database, OpenError> {
        let wrong = |why: &str| OpenError::Usage(format!("{}: {why}", out.display()));
        let bad = |why: &str| OpenError::Failed(format!("{}: {why}", out.display()));
        match std::fs::symlink_metadata(out) {
            Ok(meta) if meta.is_dir() => return Err(wrong("is a directory")),
            Ok(_) if !replace => return Err(wrong("is there already; replace=yes writes over it")),
            _ => {}
        }
        let name = out.file_name().ok_or_else(|| wrong("is no name of a file"))?;
        let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        let temporary = tempfile::Builder::new().prefix(&prefix).suffix(".tmp").tempfile_in(folder);
        let temporary: NamedTempFile = temporary.map_err(|e| bad(&e.to_string()))?;
        host.unfinished(temporary.path());
        let connection = Connection::open(temporary.path()).map_err(|e| bad(&e.to_string()))?;
        // No journal: a run that fails leaves no file, so there is nothing to roll back to. Pages that do not fit into the
        // cache go to the file, so memory is bounded.
        connection
            .execute_batch(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
                 PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384; BEGIN",
            )
            .map_err(|e| bad(&e.to_string()))?;
        connection.set_prepared_statement_cache_capacity(32);
        let (file, temporary) = temporary.into_parts();
        Ok(Database {
            connection: Some(connection),
            temporary: Some(temporary),
            file,
            out: out.to_owned(),
            replace,
            comms: 0,
            comm_threads: 0,
        })
    }

    fn says(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what}", self.out.display())
    }

    fn connection(&self) -> Result<&Connection, String> {
        self.connection.as_ref().ok_or_else(|| self.says("is closed"))
    }

    /// Runs statements that give no rows.
    pub fn run(&self, sql: &str) -> Result<(), String> {
        self.connection()?.execute_batch(sql).map_err(|e| self.says(e))
    }

    /// Puts a row in; each statement is compiled once.
    pub fn insert(&self, sql: &str, row: impl Params) -> Result<(), String> {
        let mut statement = self.connection()?.prepare_cached(sql).map_err(|e| self.says(e))?;
        statement.execute(row).map_err(|e| self.says(e)).map(drop)
    }

    /// The next number of a name of a thread.
    pub fn next_comm(&mut self) -> Row {
        self.comms += 1;
        self.comms
    }

    /// Says that a thread had a name.
    pub fn comm_thread(&mut self, comm: Row, thread: Row) -> Result<(), String> {
        self.comm_threads += 1;
        self.insert("INSERT INTO comm_threads VALUES (?, ?, ?)", [self.comm_threads, comm, thread])
    }

    /// Ends the transaction, and gives the file its name.
    pub fn commit(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        self.run("COMMIT")?;
        if let Some(connection) = self.connection.take() {
            connection.close().map_err(|(_, e)| self.says(e))?;
        }
        self.file.sync_all().map_err(|e| self.says(e))?;
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        let name = temporary.to_path_buf();
        let named = match self.replace {
            true => temporary.persist(&self.out),
            false => temporary.persist_noclobber(&self.out),
        };
        host.finished(&name);
        named.map_err(|e| match e.error.kind() {
            io::ErrorKind::AlreadyExists => self.says("has appeared meanwhile; replace=yes writes over it"),
            _ => self.says(e.error),
        })
    }
}
