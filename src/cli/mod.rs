//! The command line: definitions, validation, running, messages and exit codes.

use std::process::ExitCode;

/// Runs the command given by the process's arguments.
pub fn main() -> ExitCode {
    ExitCode::FAILURE
}
