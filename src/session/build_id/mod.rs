//! Build-ids: where they come from and why one is missing.

pub mod cache;
pub mod decompress;
pub mod elf;
pub mod file;
pub mod host;
pub mod key;
pub mod known;
pub mod miss;
pub mod resolve;
#[cfg(test)]
mod resolve_tests;
pub mod system;
pub mod table;
#[cfg(test)]
mod testing;
mod user;

pub use crate::abi::build_id::{self as id, BuildId};
pub use cache::BuildIdCache;
pub use host::{HostIdentity, SameHost};
pub use key::{DsoKey, DsoKind};
pub use known::KnownBuildIds;
pub use miss::MissReason;
pub use resolve::{Found, IdSource, Resolution, Resolver, ResolverOptions};
pub use table::RecordedIds;
