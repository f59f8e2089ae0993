//! Loads a whole ELF symbol table, names and all.

use super::LoadError;
use super::demangle::{Demangle, demangle};
use super::elf::Elf;
use super::file::NameReader;
use super::memory::OutOfMemory;
use super::plt::{self, Plt, PltName};
use super::sym::{SymbolBinding, SymbolType};
use super::symtab::{Adjust, Walker};
use super::table::{EndRule, SymbolTable};

/// Names may add up to this in any file, and to [`NAME_FACTOR`] times its string table in a larger one.
const NAME_BYTES: u64 = 64 << 20;
/// Tail merging lets names share bytes, and demangling makes them longer.
const NAME_FACTOR: u64 = 16;

/// Loads the symbols of `syms`, which is executed as `runtime` (often the same), unfixed: more tables of the
/// same DSO may be added before [`settle`].
pub fn load_symbols(
    table: &mut SymbolTable,
    syms: &Elf,
    runtime: &Elf,
    adjust: Adjust,
    how: Demangle,
) -> Result<(), LoadError> {
    let walker = Walker::new(syms, runtime, adjust)?;
    for section in syms.symbol_tables().into_iter().flatten() {
        let Some(strings) = syms.string_table(section.link as usize) else { continue };
        let mut reader = strings.reader();
        table.begin_table();
        let limit = NAME_BYTES.max(strings.len().saturating_mul(NAME_FACTOR));
        let mut names = 0u64;
        walker.walk(section, |raw| -> Result<(), LoadError> {
            let name = reader.name(raw.name).map_err(|e| LoadError::io(syms.file.path(), e))?;
            let demangled = demangle(name, how);
            let name = demangled.as_ref().map_or(name, |d| d.as_bytes());
            names += name.len() as u64;
            if names > limit {
                return Err(LoadError::TooLarge(syms.file.path().into()));
            }
            let end = raw.start.saturating_add(raw.size);
            table.push(raw.start, end, raw.binding, raw.kind, name).map_err(|e| oom(syms, e))
        })?;
    }
    Ok(())
}

/// Sorts, finds ends and drops duplicates.
pub fn settle(table: &mut SymbolTable, rule: EndRule) -> Result<(), OutOfMemory> {
    table.sort()?;
    table.fixup_end(rule);
    table.fixup_duplicate()
}

/// Adds symbols for the PLT of the runtime file.
pub fn add_plt(table: &mut SymbolTable, runtime: &Elf, how: Demangle) -> Result<(), LoadError> {
    let plt = Plt::read(runtime)?;
    let Some(start) = plt.start else { return Ok(()) };
    table.clip(start).map_err(|e| oom(runtime, e))?;
    let strings = runtime.string_table(plt.strings);
    let got_strings = runtime.string_table(plt.got_strings);
    let mut names = strings.as_ref().map(|s| s.reader());
    let mut got_names = got_strings.as_ref().map(|s| s.reader());
    // PLT symbols are inserted after all are named: an IFUNC is looked for among the others.
    let mut named = Vec::new();
    for slot in &plt.slots {
        let target = |names: &mut Option<NameReader<'_>>, at: u32| -> Result<Vec<u8>, LoadError> {
            let Some(names) = names else { return Ok(plt::unnamed_slot(slot.start)) };
            let name = names.name(at).map_err(|e| LoadError::io(runtime.file.path(), e))?;
            Ok(match demangle(name, how) {
                Some(demangled) => plt::slot_name(demangled.as_bytes()),
                None if name.is_empty() => plt::unnamed_slot(slot.start),
                None => plt::slot_name(name),
            })
        };
        let name = match slot.name {
            PltName::Header => plt::HEADER.to_vec(),
            PltName::Target(at) => target(&mut names, at)?,
            PltName::GotTarget(at) => target(&mut got_names, at)?,
            PltName::Ifunc(at) => match table.ifunc_at(at) {
                Some(symbol) => plt::slot_name(table.name(symbol)),
                None => plt::unnamed_slot(slot.start),
            },
            PltName::Offset => plt::unnamed_slot(slot.start),
        };
        named.push((slot, name));
    }
    for (slot, name) in named {
        let end = slot.start.saturating_add(slot.size);
        table
            .insert(slot.start, end, SymbolBinding::GLOBAL, SymbolType::FUNC, &name)
            .map_err(|e| oom(runtime, e))?;
    }
    Ok(())
}

pub(super) fn oom(elf: &Elf, _: OutOfMemory) -> LoadError {
    LoadError::OutOfMemory(elf.file.path().into())
}
