//! The command line: definitions, validation, running, messages and exit codes.

mod info;
mod inject;
mod script;
mod signals;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::{ErrorKind, Result};

/// The perf.data rewriter: injects build-ids and resolved maps into recordings, losing nothing.
#[derive(Parser, Debug)]
#[command(
    name = "repipe",
    version,
    about,
    max_term_width = 100,
    propagate_version = true,
    infer_long_args = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Inject(Box<inject::InjectArgs>),
    Info(info::InfoArgs),
    Script(Box<script::ScriptArgs>),
}

/// The definition of the whole command line, for completions and man pages.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command given by the process's arguments. Exit codes: 0 success, 1 failure, 2 wrong usage.
pub fn main() -> ExitCode {
    let parsed = command().try_get_matches().and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version go to standard output and are a success; a closed pipe there is no failure.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    signals::install();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("repipe: {e}");
            ExitCode::from(if e.kind() == ErrorKind::Usage { 2 } else { 1 })
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        Command::Inject(args) => inject::run(args),
        Command::Info(args) => info::run(args),
        Command::Script(args) => script::run(args),
    }
}
