//! Indexes an ELF image.

use super::LazyIndex;
use super::build::{Builder, NotCompact, Tables};
use super::entry::Source;
use crate::symbol::demangle::Demangle;
use crate::symbol::elf::{Elf, Section};
use crate::symbol::plt::Plt;
use crate::symbol::symtab::{Adjust, Walker, has_opd};

/// Indexes the symbols of `syms`, which is executed as `runtime` (often the same).
pub(in crate::symbol) fn load(syms: &Elf, runtime: &Elf, how: Demangle) -> Result<LazyIndex, NotCompact> {
    if has_opd(runtime).is_some() {
        return Err(NotCompact::TooWide);
    }
    // A table without names is none.
    let named = |s: &&Section| syms.string_table(s.link as usize).is_some();
    let [symtab, dynsym] = syms.symbol_tables().map(|section| section.filter(named));
    let plt = Plt::read(runtime)?;
    let strings = |section: Option<&Section>| syms.string_table(section?.link as usize);
    let tables = Tables {
        symtab: strings(symtab),
        dynsym: strings(dynsym),
        plt: runtime.string_table(plt.strings),
        plt_got: runtime.string_table(plt.got_strings),
    };
    // Bounded by the bytes that are there; entries that can stand for no address leave some of it spare.
    let bytes: u64 = [symtab, dynsym].iter().flatten().map(|s| s.size.min(syms.file.len())).sum();
    let expected =
        usize::try_from(bytes / if syms.is_64 { 24 } else { 16 }).map_err(|_| NotCompact::TooWide)?;
    let mut builder = Builder::new(tables, how, expected)?;
    let walker = Walker::new(syms, runtime, Adjust::FileOffset)?;
    for (section, source) in [(symtab, Source::Symtab), (dynsym, Source::Dynsym)] {
        if let Some(section) = section {
            walker.walk(section, |raw| builder.add(raw, source))?;
        }
    }
    builder.settle()?;
    if !builder.is_empty() {
        builder.add_plt(&plt)?;
    }
    builder.finish()
}
