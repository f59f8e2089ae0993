//! A kernel module's file: relocatable ELF, of which `.text` and what is laid out with it is where its map says.

use super::{module_file, open_module};
use crate::symbol::LoadError;
use crate::symbol::dso::{Addressing, DsoSymbols};
use crate::symbol::eager;
use crate::symbol::elf::Elf;
use crate::symbol::source::{LoadOptions, SymbolSource, is_same};
use crate::symbol::symtab::Adjust;
use crate::symbol::table::{EndRule, SymbolTable};

/// Loads a module's symbols from its file, compressed or not. Addresses count from the start of the file; the
/// module's map begins at [`DsoSymbols::text_offset`].
pub fn load_module(source: &SymbolSource, options: &LoadOptions) -> Result<DsoSymbols, LoadError> {
    let path = module_file(source, options)?;
    let elf = open_module(&path)?;
    if let Some(id) = &source.build_id
        && !is_same(id, elf.build_id())
    {
        return Err(LoadError::BuildIdMismatch(path));
    }
    let mut table = SymbolTable::new();
    let adjust = Adjust::Module { text_end: text_end(&elf) };
    eager::load_symbols(&mut table, &elf, &elf, adjust, options.demangle_kernel)?;
    eager::settle(&mut table, EndRule::NextStart).map_err(|e| eager::oom(&elf, e))?;
    table.finish().map_err(|e| eager::oom(&elf, e))?;
    if table.is_empty() {
        return Err(LoadError::NoSymbols(path));
    }
    let text_offset = elf.section(".text").map(|(_, s)| s.offset);
    Ok(DsoSymbols::eager(table, Addressing::FileOffset, &path).with_text_offset(text_offset))
}

/// File offset past the code that the kernel lays out in one piece with `.text`: executable sections that
/// follow each other without a gap, up to those for start and exit.
fn text_end(elf: &Elf) -> u64 {
    let mut end = 0;
    for section in elf.sections.iter().filter(|s| s.is_exec()) {
        let apart = section.name.starts_with(b".init") || section.name.starts_with(b".exit");
        let next = u64::checked_next_multiple_of(end, section.align.max(1)).unwrap_or(u64::MAX);
        if apart || end != 0 && next != section.offset {
            break;
        }
        end = section.offset.saturating_add(section.size);
    }
    end
}
