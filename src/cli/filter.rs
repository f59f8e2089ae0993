//! Options that choose samples.

use clap::Args;

use crate::error::Result;
use crate::stage::filter::Clause;
use crate::stage::filter::expr::Field;

/// Which samples stay. All that are given must hold.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Choosing samples")]
pub struct FilterArgs {
    /// Keep samples for which an expression is true, such as 'comm == make and frame.symbol =~ "^malloc"'; may be given
    /// several times; see `repipe help filter`
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    filter: Vec<String>,

    /// Keep samples of these times: START,STOP in seconds, or 10%, 10%/2, 0%-10%
    #[arg(long, value_name = "TIMES", allow_hyphen_values = true)]
    time: Option<String>,

    /// Keep samples of these processes
    #[arg(long, value_name = "PID[,PID…]", allow_hyphen_values = true)]
    pid: Option<String>,

    /// Keep samples of these threads
    #[arg(long, value_name = "TID[,TID…]", allow_hyphen_values = true)]
    tid: Option<String>,

    /// Keep samples of threads of these names
    #[arg(long, alias = "comms", value_name = "COMM[,COMM…]", allow_hyphen_values = true)]
    comm: Option<String>,

    /// Keep samples of these CPUs, such as 0-3,7
    #[arg(long, value_name = "CPUS", allow_hyphen_values = true)]
    cpu: Option<String>,

    /// Keep samples of these events
    #[arg(long, value_name = "EVENT[,EVENT…]", allow_hyphen_values = true)]
    event: Option<String>,

    /// Keep samples whose instruction pointer is in these DSOs
    #[arg(long, alias = "dsos", value_name = "DSO[,DSO…]", allow_hyphen_values = true)]
    dso: Option<String>,

    /// Keep samples whose instruction pointer is in these symbols
    #[arg(long, alias = "symbols", value_name = "SYMBOL[,SYMBOL…]", allow_hyphen_values = true)]
    symbol: Option<String>,

    /// Leave out maps, names, forks and exits that no sample which stays can need
    #[arg(long)]
    prune: bool,
}

impl FilterArgs {
    /// Whether side-band that is not needed goes.
    pub fn prune(&self) -> bool {
        self.prune
    }

    /// What was asked for, parsed.
    pub fn clauses(&self) -> Result<Vec<Clause>> {
        let mut clauses = Vec::new();
        for source in &self.filter {
            clauses.push(Clause::expression("--filter", source)?);
        }
        for (option, field, source) in [
            ("--time", Field::Time, &self.time),
            ("--pid", Field::Pid, &self.pid),
            ("--tid", Field::Tid, &self.tid),
            ("--comm", Field::Comm, &self.comm),
            ("--cpu", Field::Cpu, &self.cpu),
            ("--event", Field::Event, &self.event),
            ("--dso", Field::Dso, &self.dso),
            ("--symbol", Field::Symbol, &self.symbol),
        ] {
            if let Some(source) = source {
                clauses.push(Clause::short(option, field, source)?);
            }
        }
        Ok(clauses)
    }
}
