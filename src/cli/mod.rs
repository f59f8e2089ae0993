//! The command line: definitions, validation, running, messages and exit codes.

mod filter;
mod info;
mod inject;
mod pages;
mod plugin;
mod script;
mod signals;
mod terminal;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::{ErrorKind, Result};

/// What the process's exit tells, for the help and the man pages.
const EXIT_CODES: &str = "Exit codes:
  0  the output is complete
  1  something failed; no output is left
  2  wrong use: an option or its value, an argument of a plugin, or what does not go together";

/// The perf.data rewriter: injects build-ids and resolved maps into recordings, losing nothing.
#[derive(Parser, Debug)]
#[command(
    name = "repipe",
    version,
    about,
    max_term_width = 100,
    propagate_version = true,
    after_help = format!("See repipe help filter for the language of --filter.\n\n{EXIT_CODES}"),
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
    Plugin(plugin::PluginCommand),
    Script(Box<script::ScriptArgs>),
    Man(pages::ManArgs),
    Completions(pages::CompletionsArgs),
}

/// The definition of the whole command line, for completions and man pages.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command given by the process's arguments. Its exit codes are those that the help tells.
pub fn main() -> ExitCode {
    if let Some(topic) = help_topic() {
        // A closed pipe is no failure here either.
        let _ = std::io::stdout().write_all(topic.as_bytes());
        return ExitCode::SUCCESS;
    }
    let parsed = command().try_get_matches().and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version go to standard output and are a success; a closed pipe there is no failure.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    if let Command::Script(_) = &cli.command {
        // Before there is a second thread.
        crate::data::allocator::share_heap();
    }
    signals::install();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("repipe: {}", terminal::message(&e.to_string()));
            ExitCode::from(if e.kind() == ErrorKind::Usage { 2 } else { 1 })
        }
    }
}

/// The page that `repipe help TOPIC` asks for, where TOPIC is no command.
fn help_topic() -> Option<&'static str> {
    let mut args = std::env::args_os().skip(1);
    let (help, topic) = (args.next()?, args.next()?);
    (help == "help" && topic == "filter" && args.next().is_none()).then_some(crate::stage::filter::REFERENCE)
}

fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        Command::Inject(args) => inject::run(args),
        Command::Info(args) => info::run(args),
        Command::Plugin(args) => plugin::run(args),
        Command::Script(args) => script::run(args),
        Command::Man(args) => pages::man(args),
        Command::Completions(args) => pages::completions(args),
    }
}
