//! Functions that the compiler inlined, by address, from a DSO's DWARF.
//!
//! ```text
//! address ─► units ─► functions of the unit ─► inlined ranges of the function ─► names, innermost first
//!            at load   when first met            when first met                   read when shown
//! ```
//!
//! addr2line's own look-up calls itself once for each level of nesting, of which a broken file may have millions; so
//! the entries are walked here, with the reader that addr2line is built on. Names are found as it finds them: the
//! linkage name, or else the plain one, of the entry or of the one that it refers to.
//!
//! Files of split DWARF (`.dwo`) and shared ones (`.gnu_debugaltlink`) are not opened.

mod functions;
mod names;
mod place;
mod units;

use std::sync::Arc;

use addr2line::gimli::{self, EndianSlice, RunTimeEndian, Section as _};
use rustc_hash::FxHashMap;

use super::elf::{Elf, Segment};
use super::section::{Bytes, Sections};
use super::source::{self, LoadOptions, SymbolSource};
use super::{Demangle, demangle};
use crate::bytes::ByteOrder;
use functions::{Functions, Tree};
use place::Budget;
use units::Units;

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;
type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;
type Unit<'a> = gimli::Unit<Reader<'a>>;

/// Most functions inlined into each other at one address.
pub const MOST_NESTED: usize = 127;

/// How often each byte of a file may be looked at.
const TIMES: usize = 16;
const MIN_BUDGET: usize = 1 << 16;

/// The sections, as gimli reads them.
fn dwarf(sections: &gimli::DwarfSections<Bytes>, order: RunTimeEndian) -> Dwarf<'_> {
    sections.borrow(|bytes| EndianSlice::new(bytes, order))
}

/// The DWARF of one DSO.
pub struct Inlines {
    sections: gimli::DwarfSections<Bytes>,
    order: RunTimeEndian,
    /// Loaded segments of the file that is executed.
    segments: Box<[Segment]>,
    units: Units,
    /// By unit.
    functions: FxHashMap<u32, Arc<Functions>>,
    /// By offset of the function's entry in `.debug_info`.
    trees: FxHashMap<usize, Arc<Tree>>,
    used: usize,
    budget: Budget,
}

/// An inlined function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inlined {
    /// Where in `.debug_info` its name is looked for. The same function has the same, wherever it is inlined.
    pub origin: usize,
}

impl Inlines {
    /// Finds the DSO's debug information: in its file, or in the debug file that belongs to it. `None` if there is none.
    pub fn load(source: &SymbolSource, options: &LoadOptions) -> Option<Inlines> {
        let images = source::find_images(source, options).ok()?;
        let runtime = images.runtime.as_ref().unwrap_or(&images.syms);
        let has =
            |elf: &&Elf| elf.section(".debug_info").is_some_and(|(_, s)| s.kind != super::elf::SHT_NOBITS);
        let debug = [&images.syms, runtime].into_iter().find(has)?;
        Inlines::of(debug, runtime)
    }

    /// From an image with debug information, of what is executed as `runtime`.
    pub fn of(debug: &Elf, runtime: &Elf) -> Option<Inlines> {
        let reader = Sections::new(debug)?;
        let load = |id: gimli::SectionId| -> Result<Bytes, gimli::Error> {
            let section = debug.section(id.name()).and_then(|(_, section)| reader.contents(section));
            Ok(section.unwrap_or_default())
        };
        let sections = gimli::DwarfSections::load(load).ok()?;
        let order = match debug.order {
            ByteOrder::Little => RunTimeEndian::Little,
            ByteOrder::Big => RunTimeEndian::Big,
        };
        let segments = runtime.segments.iter().filter(|s| s.filesz > 0).copied().collect();
        let mut inlines = Inlines {
            sections,
            order,
            segments,
            units: Units::default(),
            functions: FxHashMap::default(),
            trees: FxHashMap::default(),
            used: 0,
            budget: Budget::new(0),
        };
        inlines.budget = inlines.whole_budget();
        inlines.units = Units::read(&dwarf(&inlines.sections, order), &mut inlines.budget);
        Some(inlines)
    }

    fn whole_budget(&self) -> Budget {
        let dwarf = dwarf(&self.sections, self.order);
        let ranges =
            dwarf.ranges.debug_ranges().reader().len() + dwarf.ranges.debug_rnglists().reader().len();
        let bytes = dwarf.debug_info.reader().len().saturating_add(ranges);
        Budget::new(bytes.saturating_mul(TIMES).saturating_add(MIN_BUDGET))
    }

    /// The functions inlined at a file offset of what is executed, the innermost first, into `out`.
    pub fn find(&mut self, offset: u64, out: &mut Vec<Inlined>) {
        out.clear();
        let segment = self.segments.iter().find(|s| offset.wrapping_sub(s.offset) < s.filesz);
        let Some(segment) = segment else { return };
        let addr = offset.wrapping_sub(segment.offset).wrapping_add(segment.vaddr);
        // A broken entry costs what it has, no more.
        if let Ok(Some(tree)) = self.tree(addr) {
            tree.find(addr, out);
        }
    }

    /// What is inlined in the function at an address.
    fn tree(&mut self, addr: u64) -> gimli::Result<Option<Arc<Tree>>> {
        let dwarf = dwarf(&self.sections, self.order);
        for at in self.units.at(addr) {
            let functions = match self.functions.get(&at) {
                Some(functions) => Arc::clone(functions),
                None => {
                    let functions = match self.units.unit(&dwarf, at) {
                        Ok(unit) => Functions::read(&dwarf, &unit, &mut self.budget),
                        Err(_) => Functions::default(),
                    };
                    self.used += functions.memory();
                    let functions = Arc::new(functions);
                    self.functions.insert(at, Arc::clone(&functions));
                    functions
                }
            };
            let (Some(function), Some(start)) = (functions.at(addr), self.units.start(at)) else { continue };
            let key = start.saturating_add(function);
            if let Some(tree) = self.trees.get(&key) {
                return Ok(Some(Arc::clone(tree)));
            }
            let unit = self.units.unit(&dwarf, at)?;
            let tree = Arc::new(Tree::read(&dwarf, &unit, start, function, &mut self.budget));
            self.used += tree.memory();
            self.trees.insert(key, Arc::clone(&tree));
            return Ok(Some(tree));
        }
        Ok(None)
    }

    /// The name of an inlined function, as shown. `None` if it has none.
    pub fn name(&mut self, inlined: Inlined, how: Demangle) -> Option<Vec<u8>> {
        let name = names::read(&dwarf(&self.sections, self.order), &mut self.units, inlined.origin)?;
        Some(demangle::demangle(&name, how).map_or(name, String::into_bytes))
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        let mut unpacked = 0;
        self.sections.borrow(|bytes| {
            unpacked += bytes.memory();
            EndianSlice::new(&[], self.order)
        });
        let maps = self.functions.capacity() * 24 + self.trees.capacity() * 24;
        size_of::<Self>() + unpacked + self.units.memory() + maps + self.used
    }

    /// Forgets what is known of single units and functions; it comes back when it is asked for.
    pub fn shrink(&mut self) {
        self.functions = FxHashMap::default();
        self.trees = FxHashMap::default();
        self.used = 0;
        self.units.forget();
        self.budget = self.whole_budget();
    }
}

#[cfg(test)]
mod tests;
