//! Where the code of an entry is.

use addr2line::gimli::constants as dw;
use addr2line::gimli::{self, AttributeValue};

use super::{Dwarf, Reader, Unit};

/// How much is still read of one DSO. Lists of ranges may be used by many entries, and functions may be nested, so
/// that a small file could take forever; honest ones have each part looked at a few times.
pub(super) struct Budget(usize);

impl Budget {
    pub fn new(steps: usize) -> Budget {
        Budget(steps)
    }

    /// An error once all is spent.
    pub fn spend(&mut self, steps: usize) -> gimli::Result<()> {
        self.0 = self.0.checked_sub(steps).ok_or(gimli::Error::MissingUnitDie)?;
        Ok(())
    }
}

/// Where an entry says that its code is.
#[derive(Default)]
pub(super) struct Place {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    list: Option<gimli::RangeListsOffset>,
}

impl Place {
    /// Takes over an attribute.
    pub fn take(
        &mut self,
        dwarf: &Dwarf<'_>,
        unit: &Unit<'_>,
        name: gimli::DwAt,
        value: AttributeValue<Reader<'_>>,
    ) -> gimli::Result<()> {
        let address = |value| match value {
            AttributeValue::Addr(addr) => Ok(Some(addr)),
            AttributeValue::DebugAddrIndex(index) => dwarf.address(unit, index).map(Some),
            _ => Ok(None),
        };
        match name {
            dw::DW_AT_low_pc => self.low = address(value)?,
            dw::DW_AT_high_pc => match value.udata_value() {
                Some(size) => self.size = Some(size),
                None => self.high = address(value)?,
            },
            dw::DW_AT_ranges => self.list = dwarf.attr_ranges_offset(unit, value)?,
            _ => {}
        }
        Ok(())
    }

    /// A unit's, from its root.
    pub fn of_unit(dwarf: &Dwarf<'_>, unit: &Unit<'_>) -> gimli::Result<Place> {
        let mut place = Place::default();
        let mut entries = unit.entries_raw(None)?;
        if let Some(abbreviation) = entries.read_abbreviation()? {
            for spec in abbreviation.attributes() {
                let attribute = entries.read_attribute(*spec)?;
                place.take(dwarf, unit, attribute.name(), attribute.value())?;
            }
        }
        Ok(place)
    }

    /// Calls `each` with every range.
    pub fn each(
        &self,
        dwarf: &Dwarf<'_>,
        unit: &Unit<'_>,
        left: &mut Budget,
        mut each: impl FnMut(u64, u64),
    ) -> gimli::Result<()> {
        // Code that the linker dropped stays at address 0.
        let mut each = |start: u64, end: u64| {
            if start < end && start != 0 {
                each(start, end);
            }
        };
        if let Some(list) = self.list {
            // Not every item of a list is a range.
            let mut items = dwarf.raw_ranges(unit, list)?;
            while items.next()?.is_some() {
                left.spend(1)?;
            }
            let mut ranges = dwarf.ranges(unit, list)?;
            while let Some(range) = ranges.next()? {
                each(range.begin, range.end);
            }
        } else if let Some(low) = self.low
            && let Some(high) = self.high.or_else(|| low.checked_add(self.size?))
        {
            each(low, high);
        }
        Ok(())
    }
}
