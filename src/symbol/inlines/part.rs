//! The DWARF of one file.

use addr2line::gimli::{self, EndianSlice, RunTimeEndian, Section as _};

use super::super::elf::Elf;
use super::super::section::{Bytes, Sections};
use super::Dwarf;
use super::place::Budget;
use super::units::Units;
use crate::bytes::ByteOrder;

/// How often each byte of a file may be looked at.
const TIMES: usize = 16;
const MIN_BUDGET: usize = 1 << 16;

/// Its sections and units.
pub(super) struct Part {
    sections: gimli::DwarfSections<Bytes>,
    order: RunTimeEndian,
    units: Units,
}

impl Part {
    /// From an image with debug information.
    pub fn read(debug: &Elf) -> Option<Part> {
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
        let mut part = Part { sections, order, units: Units::default() };
        let mut budget = part.budget();
        part.units = Units::read(&part.dwarf().0, &mut budget);
        Some(part)
    }

    /// The sections, as gimli reads them, and the units.
    pub fn dwarf(&mut self) -> (Dwarf<'_>, &mut Units) {
        (borrow(&self.sections, self.order), &mut self.units)
    }

    /// As [`Part::dwarf`], with another part that entries refer to, and that part.
    pub fn dwarf_with<'p>(
        &'p mut self,
        shared: Option<&'p mut Part>,
    ) -> [Option<(Dwarf<'p>, &'p mut Units)>; 2] {
        let (mut dwarf, units) = self.dwarf();
        let Some(shared) = shared else { return [Some((dwarf, units)), None] };
        dwarf.set_sup(borrow(&shared.sections, shared.order));
        [Some((dwarf, units)), Some((borrow(&shared.sections, shared.order), &mut shared.units))]
    }

    /// How much of it may be looked at.
    pub fn budget(&self) -> Budget {
        let dwarf = borrow(&self.sections, self.order);
        let ranges =
            dwarf.ranges.debug_ranges().reader().len() + dwarf.ranges.debug_rnglists().reader().len();
        let bytes = dwarf.debug_info.reader().len().saturating_add(ranges);
        Budget::new(bytes.saturating_mul(TIMES).saturating_add(MIN_BUDGET))
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        let mut unpacked = 0;
        self.sections.borrow(|bytes| {
            unpacked += bytes.memory();
            EndianSlice::new(&[], self.order)
        });
        unpacked + self.units.memory()
    }

    /// Forgets what is known of single units.
    pub fn forget(&mut self) {
        self.units.forget();
    }
}

fn borrow(sections: &gimli::DwarfSections<Bytes>, order: RunTimeEndian) -> Dwarf<'_> {
    sections.borrow(|bytes| EndianSlice::new(bytes, order))
}
