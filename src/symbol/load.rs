//! From a DSO to its symbols.

use std::path::{Path, PathBuf};

use super::LoadError;
use super::debugdata;
use super::demangle::Demangle;
use super::dso::{Addressing, DsoSymbols};
use super::eager;
use super::elf::Elf;
use super::file::ImageFile;
use super::lazy::{self, NotCompact};
use super::perf_map;
use super::source::{self, DsoKind, LoadOptions, SymbolSource};
use super::symtab::Adjust;
use super::table::{EndRule, SymbolTable};
use super::vdso;

/// Loads the symbols of a DSO from wherever they are found. Opens and reads files, and may take a while for
/// large ones: hold no lock meanwhile.
pub fn load(source: &SymbolSource, options: &LoadOptions) -> Result<DsoSymbols, LoadError> {
    match source.kind {
        DsoKind::User => load_found(source, options),
        DsoKind::PerfMap => perf_map::load(source),
        DsoKind::Vdso => {
            let elf = Elf::parse(vdso::image(source, options)?)?;
            load_user(&elf, &elf, options.demangle, options.eager)
        }
        DsoKind::KernelModule => super::kernel::load_module(source, options),
        DsoKind::Kernel => super::kernel::load_kernel(source, options, None),
    }
}

fn load_found(source: &SymbolSource, options: &LoadOptions) -> Result<DsoSymbols, LoadError> {
    let images = source::find_images(source, options)?;
    let runtime = images.runtime.as_ref().unwrap_or(&images.syms);
    if images.syms.symbol_tables()[0].is_none()
        && let Some(inner) = debugdata::unpack(runtime)
        && let Ok(inner) = inner
    {
        return load_with_debugdata(&inner, runtime, options.demangle);
    }
    load_user(&images.syms, runtime, options.demangle, options.eager)
}

/// Symbols of a user-space image: of `syms`, which is executed as `runtime` (often the same image).
///
/// A lazy index unless `all` is set or the table does not fit one: then all symbols with their names.
pub fn load_user(syms: &Elf, runtime: &Elf, how: Demangle, all: bool) -> Result<DsoSymbols, LoadError> {
    let origin = syms.file.path();
    if !all {
        match lazy::load(syms, runtime, how) {
            Ok(index) if index.is_empty() => return Err(LoadError::NoSymbols(origin.into())),
            Ok(index) => return Ok(DsoSymbols::lazy(index, origin)),
            Err(NotCompact::TooWide) => {}
            Err(NotCompact::Load(e)) => return Err(e),
            Err(NotCompact::Memory(e)) => return Err(eager::oom(syms, e)),
        }
    }
    let mut table = SymbolTable::new();
    eager::load_symbols(&mut table, syms, runtime, Adjust::FileOffset, how)?;
    finish(table, syms, runtime, how)
}

/// The packed image within has the functions that `.dynsym` lacks: both make one table, loaded whole, so that
/// duplicates are chosen among all.
fn load_with_debugdata(inner: &Elf, runtime: &Elf, how: Demangle) -> Result<DsoSymbols, LoadError> {
    let mut table = SymbolTable::new();
    eager::load_symbols(&mut table, inner, runtime, Adjust::FileOffset, how)?;
    eager::load_symbols(&mut table, runtime, runtime, Adjust::FileOffset, how)?;
    finish(table, inner, runtime, how)
}

fn finish(mut table: SymbolTable, syms: &Elf, runtime: &Elf, how: Demangle) -> Result<DsoSymbols, LoadError> {
    let origin = syms.file.path();
    eager::settle(&mut table, EndRule::NextStart).map_err(|e| eager::oom(syms, e))?;
    if table.is_empty() {
        return Err(LoadError::NoSymbols(origin.into()));
    }
    eager::add_plt(&mut table, runtime, how)?;
    table.finish().map_err(|e| eager::oom(syms, e))?;
    Ok(DsoSymbols::eager(table, Addressing::FileOffset, origin))
}

/// The first of some files that exists.
pub(super) fn first_file(paths: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    paths.into_iter().find(|path| path.is_file())
}

/// Opens an ELF image.
pub(super) fn open_elf(path: &Path) -> Result<Elf, LoadError> {
    ImageFile::open(path).and_then(Elf::parse)
}
