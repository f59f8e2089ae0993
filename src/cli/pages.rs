//! Man pages and completions, made from the definition of the command line.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use crate::error::{Error, Result};

/// Write a man page for repipe and each of its commands
#[derive(Args, Debug)]
pub(super) struct ManArgs {
    /// Directory that gets repipe.1, repipe-inject.1 and so on
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Print the completions of a shell
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// The shell that will read them
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the man pages.
pub(super) fn man(args: &ManArgs) -> Result<()> {
    std::fs::create_dir_all(&args.dir).map_err(|e| Error::io(e, "cannot make the folder", &args.dir))?;
    clap_mangen::generate_to(super::command(), &args.dir)
        .map_err(|e| Error::io(e, "cannot write a man page to", &args.dir))
}

/// Prints completions.
pub(super) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "repipe", &mut text);
    match std::io::stdout().write_all(&text) {
        // What reads has enough.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|e| Error::io(e, "cannot write", "<stdout>")),
    }
}
