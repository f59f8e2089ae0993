//! Functions of a unit, and what is inlined in a function.

use addr2line::gimli::constants as dw;
use addr2line::gimli::{self, AttributeValue, DebugInfoOffset, UnitOffset};

use super::place::{Budget, Place};
use super::shared::SHARED;
use super::{Dwarf, Inlined, MOST_NESTED, Reader, Unit};

/// The functions of a unit, by address.
#[derive(Default)]
pub(super) struct Functions {
    /// First address, first past it, offset of the entry in the unit; sorted by start.
    ranges: Vec<(u64, u64, usize)>,
}

impl Functions {
    /// Reads all of a unit's entries, as far as they are whole.
    pub fn read(dwarf: &Dwarf<'_>, unit: &Unit<'_>, left: &mut Budget) -> Functions {
        let mut ranges = Vec::new();
        // What comes before an error stands.
        let _ = functions(dwarf, unit, &mut ranges, left);
        ranges.sort_unstable();
        ranges.shrink_to_fit();
        Functions { ranges }
    }

    /// Offset in the unit of the function that has the address.
    pub fn at(&self, addr: u64) -> Option<usize> {
        let at = self.ranges.partition_point(|&(start, ..)| start <= addr).checked_sub(1)?;
        let &(_, end, entry) = self.ranges.get(at)?;
        (addr < end).then_some(entry)
    }

    pub fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<(u64, u64, usize)>()
    }
}

fn functions(
    dwarf: &Dwarf<'_>,
    unit: &Unit<'_>,
    out: &mut Vec<(u64, u64, usize)>,
    left: &mut Budget,
) -> gimli::Result<()> {
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        left.spend(1)?;
        let offset = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        if abbreviation.tag() != dw::DW_TAG_subprogram {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        let mut place = Place::default();
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            place.take(dwarf, unit, attribute.name(), attribute.value())?;
        }
        place.each(dwarf, unit, left, |start, end| out.push((start, end, offset.0)))?;
    }
    Ok(())
}

/// A range of an inlined function: where, how deep, and what.
#[derive(Clone, Copy)]
struct Piece {
    start: u64,
    end: u64,
    /// 0 is inlined into the function itself.
    depth: u32,
    origin: usize,
}

/// What is inlined in one function, in the order of its entries: each followed by what is inlined in it.
#[derive(Default)]
pub(super) struct Tree {
    pieces: Vec<Piece>,
}

impl Tree {
    /// Reads the entries below a function's, as far as they are whole. `start` is where the unit begins.
    pub fn read(
        dwarf: &Dwarf<'_>,
        unit: &Unit<'_>,
        start: usize,
        function: usize,
        left: &mut Budget,
    ) -> Tree {
        let mut pieces = Vec::new();
        let _ = inlined(dwarf, unit, (start, function), &mut pieces, left);
        pieces.shrink_to_fit();
        Tree { pieces }
    }

    /// What is inlined at an address, the innermost first.
    pub fn find(&self, addr: u64, out: &mut Vec<Inlined>) {
        for piece in &self.pieces {
            if piece.depth as usize == out.len() && (piece.start..piece.end).contains(&addr) {
                out.push(Inlined { origin: piece.origin });
            }
        }
        out.reverse();
    }

    pub fn memory(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>()
    }
}

fn inlined(
    dwarf: &Dwarf<'_>,
    unit: &Unit<'_>,
    (start, function): (usize, usize),
    out: &mut Vec<Piece>,
    left: &mut Budget,
) -> gimli::Result<()> {
    let mut entries = unit.entries_raw(Some(UnitOffset(function)))?;
    let top = entries.next_depth();
    let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(()) };
    entries.skip_attributes(abbreviation.attributes())?;
    // Depths in the tree of the inlined entries that the next one may be within.
    let mut within: Vec<isize> = Vec::new();
    // Depth of a function within the function, or of what is nested too deep: not looked into.
    let mut beside: Option<isize> = None;
    while !entries.is_empty() && entries.next_depth() > top {
        left.spend(1)?;
        let (offset, depth) = (entries.next_offset(), entries.next_depth());
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        if beside.is_some_and(|beside| depth > beside) {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        beside = None;
        while within.last().is_some_and(|&last| last >= depth) {
            within.pop();
        }
        let tag = abbreviation.tag();
        if tag != dw::DW_TAG_inlined_subroutine {
            entries.skip_attributes(abbreviation.attributes())?;
            beside = (tag == dw::DW_TAG_subprogram).then_some(depth);
            continue;
        }
        let (mut place, mut origin) = (Place::default(), start.saturating_add(offset.0));
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            let value = attribute.value();
            match attribute.name() {
                dw::DW_AT_abstract_origin => origin = reference(&value, start).unwrap_or(origin),
                name => place.take(dwarf, unit, name, value)?,
            }
        }
        let level = within.len() as u32;
        place.each(dwarf, unit, left, |start, end| out.push(Piece { start, end, depth: level, origin }))?;
        if within.len() + 1 < MOST_NESTED {
            within.push(depth);
        } else {
            beside = Some(depth);
        }
    }
    Ok(())
}

/// The entry in `.debug_info` that an attribute refers to: within a unit that begins at `start`, in any, or in the shared
/// part.
pub(super) fn reference(value: &AttributeValue<Reader<'_>>, start: usize) -> Option<usize> {
    match *value {
        AttributeValue::UnitRef(UnitOffset(at)) => start.checked_add(at),
        AttributeValue::DebugInfoRef(DebugInfoOffset(at)) => Some(at),
        AttributeValue::DebugInfoRefSup(DebugInfoOffset(at)) => Some(at | SHARED),
        _ => None,
    }
}
