//! Which unit of `.debug_info` has the code at an address.

use std::sync::Arc;

use addr2line::gimli::{
    self, Abbreviations, DebugAbbrev, DebugAbbrevOffset, DebugInfoOffset, Reader as _, Section as _,
    UnitHeader,
};
use rustc_hash::FxHashMap;

use super::place::{Budget, Place};
use super::{Dwarf, Reader, Unit};

/// Most ranges that are looked at for one address; those of honest units do not overlap.
const MOST_LOOKED_AT: usize = 64;
/// Bytes that parsed abbreviations take for each that they have in the file, about.
const PARSED: usize = 8;

/// Units by place and by address.
#[derive(Default)]
pub(super) struct Units {
    /// Offset of each unit in `.debug_info`, ascending, and of its abbreviations.
    places: Vec<(usize, usize)>,
    /// Offsets of abbreviations, ascending, each once.
    tables: Vec<usize>,
    /// First address, first past it, highest end so far, unit; sorted by start.
    ranges: Vec<(u64, u64, u64, u32)>,
    /// Abbreviations by offset, of units that were met.
    parsed: FxHashMap<usize, Arc<Abbreviations>>,
    /// Bytes that these had in the file.
    parsed_bytes: usize,
}

impl Units {
    pub fn read(dwarf: &Dwarf<'_>, left: &mut Budget) -> Units {
        let mut units = Units::default();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Some(place) = header.debug_info_offset() else { break };
            units.places.push((place.0, header.debug_abbrev_offset().0));
        }
        units.tables = units.places.iter().map(|&(_, table)| table).collect();
        units.tables.sort_unstable();
        units.tables.dedup();
        units.read_ranges(dwarf, left);
        units.places.shrink_to_fit();
        units.tables.shrink_to_fit();
        units
    }

    /// The ranges of all units. Those that share abbreviations are read one after the other, so that each table is parsed
    /// once and need not be kept.
    fn read_ranges(&mut self, dwarf: &Dwarf<'_>, left: &mut Budget) {
        let mut order: Vec<u32> = (0..).take(self.places.len()).collect();
        order.sort_by_key(|&at| self.places.get(at as usize).map(|&(_, table)| table));
        let mut ranges = Vec::new();
        let mut table = None;
        for at in order {
            let of = self.places.get(at as usize).map(|&(_, table)| table);
            if table != of {
                self.forget();
                table = of;
            }
            let Ok(unit) = self.unit(dwarf, at) else { continue };
            // What comes before an error stands.
            let _ = Place::of_unit(dwarf, &unit).and_then(|place| {
                place.each(dwarf, &unit, left, |start, end| ranges.push((start, end, 0, at)))
            });
        }
        self.forget();
        ranges.sort_unstable();
        let mut highest = 0;
        for range in &mut ranges {
            highest = highest.max(range.1);
            range.2 = highest;
        }
        ranges.shrink_to_fit();
        self.ranges = ranges;
    }

    /// Forgets abbreviations.
    pub fn forget(&mut self) {
        self.parsed = FxHashMap::default();
        self.parsed_bytes = 0;
    }

    /// The units that may have the address, those first that begin closest to it.
    pub fn at(&self, addr: u64) -> Vec<u32> {
        let upto = self.ranges.partition_point(|&(start, ..)| start <= addr);
        let before = self.ranges.get(..upto).unwrap_or_default();
        let reaching = before.iter().rev().take_while(|&&(_, _, highest, _)| highest > addr);
        let mut units: Vec<u32> = reaching
            .take(MOST_LOOKED_AT)
            .filter(|&&(_, end, ..)| end > addr)
            .map(|&(.., unit)| unit)
            .collect();
        units.dedup();
        units
    }

    /// Offset of a unit in `.debug_info`.
    pub fn start(&self, unit: u32) -> Option<usize> {
        self.places.get(unit as usize).map(|&(start, _)| start)
    }

    /// The unit that has an offset of `.debug_info`.
    pub fn containing(&self, offset: usize) -> Option<u32> {
        let at = self.places.partition_point(|&(start, _)| start <= offset).checked_sub(1)?;
        u32::try_from(at).ok()
    }

    /// Reads a unit's header and root.
    pub fn unit<'a>(&mut self, dwarf: &Dwarf<'a>, unit: u32) -> gimli::Result<Unit<'a>> {
        let start = self.start(unit).ok_or(gimli::Error::MissingUnitDie)?;
        let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(start))?;
        let abbreviations = self.abbreviations(dwarf, &header)?;
        gimli::Unit::new_with_abbreviations(dwarf, header, abbreviations)
    }

    /// A unit's abbreviations. A table ends where another unit's begins, at the latest; so none is read into the next.
    fn abbreviations(
        &mut self,
        dwarf: &Dwarf<'_>,
        header: &UnitHeader<Reader<'_>>,
    ) -> gimli::Result<Arc<Abbreviations>> {
        let start = header.debug_abbrev_offset().0;
        if let Some(table) = self.parsed.get(&start) {
            return Ok(Arc::clone(table));
        }
        let all = *dwarf.debug_abbrev.reader();
        let next = self.tables.partition_point(|&table| table <= start);
        let end = self.tables.get(next).map_or(all.len(), |&end| end.min(all.len()));
        let bytes = all.slice().get(start..end).ok_or(gimli::Error::MissingUnitDie)?;
        let table = DebugAbbrev::from(Reader::new(bytes, all.endian()));
        let table = Arc::new(table.abbreviations(DebugAbbrevOffset(0))?);
        self.parsed_bytes += bytes.len();
        self.parsed.insert(start, Arc::clone(&table));
        Ok(table)
    }

    pub fn memory(&self) -> usize {
        let (places, ranges) = (self.places.capacity() * 16, self.ranges.capacity() * 32);
        places
            + ranges
            + self.tables.capacity() * 8
            + self.parsed.capacity() * 16
            + self.parsed_bytes * PARSED
    }
}
