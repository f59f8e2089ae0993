//! Build-ids: where they come from and why one is missing.

pub use crate::abi::build_id::{self as id, BuildId};
