//! The same command under the name that makes `perf repipe …` find it on the PATH.

use std::process::ExitCode;

fn main() -> ExitCode {
    repipe::cli::main()
}
