//! The `repipe` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    repipe::cli::main()
}
