//! The `repipe` command.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: repipe::data::allocator::Allocator = repipe::data::allocator::Allocator;

fn main() -> ExitCode {
    repipe::cli::main()
}
