//! From a file to its symbols.

use super::LoadError;
use super::demangle::Demangle;
use super::dso::{Addressing, DsoSymbols};
use super::eager;
use super::elf::Elf;
use super::lazy::{self, NotCompact};
use super::symtab::Adjust;
use super::table::{EndRule, SymbolTable};

/// Symbols of a user-space image: of `syms`, which is executed as `runtime` (often the same image).
///
/// A lazy index unless `all` is set or the table does not fit one.
pub fn load_user(syms: &Elf, runtime: &Elf, how: Demangle, all: bool) -> Result<DsoSymbols, LoadError> {
    let origin = syms.file.path();
    if !all {
        match lazy::load(syms, runtime, how) {
            Ok(index) => return Ok(DsoSymbols::lazy(index, origin)),
            Err(NotCompact::TooWide) => {}
            Err(NotCompact::Load(e)) => return Err(e),
            Err(NotCompact::Memory(e)) => return Err(eager::oom(syms, e)),
        }
    }
    let mut table = SymbolTable::new();
    eager::load_symbols(&mut table, syms, runtime, Adjust::FileOffset, how)?;
    eager::settle(&mut table, EndRule::NextStart).map_err(|e| eager::oom(syms, e))?;
    if !table.is_empty() {
        eager::add_plt(&mut table, runtime, how)?;
    }
    table.finish().map_err(|e| eager::oom(syms, e))?;
    Ok(DsoSymbols::eager(table, Addressing::FileOffset, origin))
}
