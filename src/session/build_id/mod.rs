//! Build-ids: where they come from and why one is missing.

pub mod decompress;
pub mod elf;
pub mod file;
pub mod miss;
#[cfg(test)]
mod testing;

pub use crate::abi::build_id::{self as id, BuildId};
pub use miss::MissReason;
