//! The plugin's arguments.

use std::ffi::CStr;
use std::path::PathBuf;

use repipe_plugin::Args;

/// What `repipe plugin info` says.
pub const DESCRIPTION: &CStr = c"out=FILE            the database; it appears when the run has succeeded, whole or not at all\n\
    replace=yes|no      whether a FILE that is there is written over (no: it is refused)\n\
    columns=all|branches  which columns samples have (all); branches leaves out period, weight, transaction_ and data_src\n\
    callchains=yes|no   whether callchains go into the table call_paths (no)\n\
    calls=yes|no        whether the tables calls and call_paths are there (no); see below\n\n\
    Tables, views and columns have the names that perf's export-to-sqlite.py gives them, so exported-sql-viewer.py and\n\
    queries written for it work. Row 0 of a table stands for what is not known.\n\
    The recording passes unchanged; -o /dev/null if only the database is wanted. What --filter drops is exported all the\n\
    same, since plugins come before it: filter in a run of its own first.\n\
    Different from perf's: samples of tracepoints are among the samples; all is the host's, guests' samples too; frames\n\
    of inlined functions are not told apart, and stacks that were dumped are not unwound. calls has no rows: those\n\
    take a decoded trace of all branches. It is there for viewers that ask for it.";

/// Which columns samples have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All.
    All,
    /// Those of branches.
    Branches,
}

/// The arguments, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the database goes.
    pub out: PathBuf,
    /// Whether it may take the place of a file.
    pub replace: bool,
    /// Which columns samples have.
    pub columns: Columns,
    /// Whether callchains are wanted.
    pub callchains: bool,
    /// Whether there is a table of calls.
    pub calls: bool,
}

impl Options {
    /// From what was written on the command line; an error says what is wrong with it.
    pub fn parse(args: &Args) -> Result<Options, String> {
        args.only(&["out", "replace", "columns", "callchains", "calls"])?;
        let columns = match args.text("columns")? {
            None | Some("all") => Columns::All,
            Some("branches") => Columns::Branches,
            Some(other) => return Err(format!("columns={other} is neither all nor branches")),
        };
        let out = args.text("out")?.filter(|out| !out.is_empty());
        Ok(Options {
            out: out.ok_or("say where the database goes: out=FILE")?.into(),
            replace: args.yes("replace")?,
            columns,
            callchains: args.yes("callchains")?,
            calls: args.yes("calls")?,
        })
    }

    /// Whether there is a table of call paths.
    pub fn has_call_paths(&self) -> bool {
        self.callchains || self.calls
    }
}
