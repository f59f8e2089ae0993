//! The one test binary: black-box tests of the `repipe` command, and the kit they stand on.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in tests a broken expectation is a panic"
)]

mod cli;
mod corpus;
mod faults;
mod filter;
mod fixtures;
mod hostile;
mod info;
mod inline;
mod kernel;
mod kit;
mod limits;
mod matrix;
mod output;
mod plugins;
mod real_perf;
mod script;
mod support;
