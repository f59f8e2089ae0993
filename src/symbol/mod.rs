//! Symbol tables of DSOs: a compact lazy index for user space, a sorted table for the rest.
//!
//! ```text
//! SymbolSource ─► load ─► DsoSymbols ─ find(address) ─► SymbolRef ─ hold ─► HeldSymbol
//!                          ├ LazyIndex    16 bytes per address; a name is read when its symbol is hit
//!                          └ SymbolTable  all symbols with their names
//! ```
//!
//! Both give the same answers; which one a DSO gets is for [`load()`] to decide.

pub mod choose;
mod debugdata;
pub mod demangle;
mod dso;
pub mod eager;
pub mod elf;
mod error;
pub mod file;
mod handle;
pub mod inlines;
pub mod kernel;
pub mod lazy;
pub mod load;
pub mod memory;
mod name_search;
mod nesting;
#[cfg(test)]
mod parity;
mod perf_map;
pub mod plt;
mod recent;
#[cfg(test)]
mod rules;
pub mod section;
mod side;
mod slot;
mod source;
mod sym;
pub mod symtab;
pub mod table;
pub mod tables;
#[cfg(test)]
mod test_elf;
mod vdso;

pub use demangle::Demangle;
pub use dso::{Addressing, DsoSymbols, HeldSymbol, SymbolRef};
pub use error::LoadError;
pub use load::load;
pub use side::{SideTable, SymbolKey};
pub use slot::{DsoId, DsoSlot, SymbolStore};
pub use source::{DsoKind, LoadOptions, SymbolSource};
pub use sym::{Symbol, SymbolBinding, SymbolType};
pub use vdso::image as vdso_image;
