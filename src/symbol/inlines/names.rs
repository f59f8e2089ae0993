//! Names of functions by their entries.

use addr2line::gimli::constants as dw;
use addr2line::gimli::{Reader as _, UnitOffset};

use super::Part;
use super::functions::reference;
use super::shared::SHARED;
use crate::symbol::file::MAX_NAME;

/// Most references from entry to entry that are followed.
const MOST_HOPS: usize = 16;

/// The name of the entry at an offset of `.debug_info`, which may be one of the shared part: its linkage name, or else
/// its plain one, or else that of the entry that it refers to.
pub(super) fn read(own: &mut Part, shared: Option<&mut Part>, mut at: usize) -> Option<Vec<u8>> {
    let mut parts = own.dwarf_with(shared);
    for _ in 0..MOST_HOPS {
        let part = parts.get_mut(usize::from(at & SHARED != 0))?;
        let (dwarf, units) = part.as_mut()?;
        let index = units.containing(at & !SHARED)?;
        let start = units.start(index)?;
        let unit = units.unit(dwarf, index).ok()?;
        let mut entries = unit.entries_raw(Some(UnitOffset((at & !SHARED).checked_sub(start)?))).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        let (mut plain, mut next) = (None, None);
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec).ok()?;
            let value = attribute.value();
            let text = |value| {
                let text = dwarf.attr_string(&unit, value).ok()?;
                let bytes = text.to_slice().ok()?;
                Some(bytes.get(..bytes.len().min(MAX_NAME))?.to_vec())
            };
            match attribute.name() {
                dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                    if let Some(name) = text(value) {
                        return Some(name);
                    }
                }
                dw::DW_AT_name => plain = text(value),
                dw::DW_AT_abstract_origin | dw::DW_AT_specification => next = reference(&value, start),
                _ => {}
            }
        }
        if plain.is_some() {
            return plain;
        }
        // What the shared part refers to is its own.
        at = next? | at & SHARED;
    }
    None
}
