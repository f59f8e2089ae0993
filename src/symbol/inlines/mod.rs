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
//! Entries may refer to those of a file that is shared with others (`.gnu_debugaltlink`). Files of split DWARF (`.dwo`)
//! are not opened.

mod functions;
mod names;
mod part;
mod place;
mod shared;
mod units;

use std::sync::Arc;

use addr2line::gimli::{self, EndianSlice, RunTimeEndian};
use rustc_hash::FxHashMap;

use super::elf::{Elf, Segment};
use super::source::{self, LoadOptions, SymbolSource};
use super::{Demangle, demangle};
use functions::{Functions, Tree};
use part::Part;
use place::Budget;

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;
type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;
type Unit<'a> = gimli::Unit<Reader<'a>>;

/// Most functions inlined into each other at one address.
pub const MOST_NESTED: usize = 127;

/// The DWARF of one DSO.
pub struct Inlines {
    own: Part,
    shared: Option<Part>,
    /// Loaded segments of the file that is executed.
    segments: Box<[Segment]>,
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
    /// Where in `.debug_info` its name is looked for, with the highest bit set if in that of the shared file. The same
    /// function has the same, wherever it is inlined.
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
        let mut inlines = Inlines::of(debug, runtime)?;
        inlines.shared = shared::load(debug, source, options);
        Some(inlines)
    }

    /// From an image with debug information, of what is executed as `runtime`.
    pub fn of(debug: &Elf, runtime: &Elf) -> Option<Inlines> {
        let own = Part::read(debug)?;
        let segments = runtime.segments.iter().filter(|s| s.filesz > 0).copied().collect();
        Some(Inlines {
            budget: own.budget(),
            own,
            shared: None,
            segments,
            functions: FxHashMap::default(),
            trees: FxHashMap::default(),
            used: 0,
        })
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
        let (dwarf, units) = self.own.dwarf();
        for at in units.at(addr) {
            let functions = match self.functions.get(&at) {
                Some(functions) => Arc::clone(functions),
                None => {
                    let functions = match units.unit(&dwarf, at) {
                        Ok(unit) => Functions::read(&dwarf, &unit, &mut self.budget),
                        Err(_) => Functions::default(),
                    };
                    self.used += functions.memory();
                    let functions = Arc::new(functions);
                    self.functions.insert(at, Arc::clone(&functions));
                    functions
                }
            };
            let (Some(function), Some(start)) = (functions.at(addr), units.start(at)) else { continue };
            let key = start.saturating_add(function);
            if let Some(tree) = self.trees.get(&key) {
                return Ok(Some(Arc::clone(tree)));
            }
            let unit = units.unit(&dwarf, at)?;
            let tree = Arc::new(Tree::read(&dwarf, &unit, start, function, &mut self.budget));
            self.used += tree.memory();
            self.trees.insert(key, Arc::clone(&tree));
            return Ok(Some(tree));
        }
        Ok(None)
    }

    /// The name of an inlined function, as shown. `None` if it has none.
    pub fn name(&mut self, inlined: Inlined, how: Demangle) -> Option<Vec<u8>> {
        let name = names::read(&mut self.own, self.shared.as_mut(), inlined.origin)?;
        Some(demangle::demangle(&name, how).map_or(name, String::into_bytes))
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        let maps = self.functions.capacity() * 24 + self.trees.capacity() * 24;
        let parts = self.own.memory() + self.shared.as_ref().map_or(0, Part::memory);
        size_of::<Self>() + parts + maps + self.used
    }

    /// Forgets what is known of single units and functions; it comes back when it is asked for.
    pub fn shrink(&mut self) {
        self.functions = FxHashMap::default();
        self.trees = FxHashMap::default();
        self.used = 0;
        self.own.forget();
        if let Some(shared) = &mut self.shared {
            shared.forget();
        }
        self.budget = self.own.budget();
    }
}

#[cfg(test)]
mod tests;
