//! Symbol tables of DSOs: a compact lazy index for user space, a sorted table for the rest.
//!
//! ```text
//! SymbolSource ─► load ─► DsoSymbols ─ find(address) ─► SymbolRef ─ hold ─► HeldSymbol
//!                          ├ LazyIndex    16 bytes per address; a name is read when its symbol is hit
//!                          └ SymbolTable  all symbols with their names
//! ```
//!
//! Both give the same answers; which one a DSO gets is for [`load`] to decide.

pub mod choose;
pub mod demangle;
mod dso;
pub mod eager;
pub mod elf;
mod error;
pub mod file;
pub mod lazy;
pub mod load;
pub mod memory;
mod nesting;
#[cfg(test)]
mod parity;
pub mod plt;
mod sym;
pub mod symtab;
pub mod table;

pub use demangle::Demangle;
pub use dso::{Addressing, DsoSymbols, HeldSymbol, SymbolRef};
pub use error::LoadError;
pub use sym::{Symbol, SymbolBinding, SymbolType};
