//! What the tests stand on: a recording as a value, a builder, a writer, an independent reader and a
//! converter to the other byte order. None of it uses the crate's own parser.

#![allow(dead_code, reason = "a kit: a record that no test builds yet is still part of it")]

pub mod builder;
pub mod compare;
pub mod elf;
pub mod lab;
pub mod oracle;
pub mod places;
pub mod programs;
pub mod recording;
pub mod run;
pub mod swap;
pub mod wire;
pub mod write;
