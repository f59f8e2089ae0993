//! Build-ids: where they come from and why one is missing.

pub mod id;

pub use id::BuildId;
