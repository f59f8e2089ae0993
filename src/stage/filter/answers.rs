//! Answers to questions of places, remembered by address, and how they are found.

use super::program::Names;
use crate::session::{Dso, Map};

const SLOTS_BITS: u32 = 14;
/// How many slots there are.
pub const SLOTS: usize = 1 << SLOTS_BITS;
/// Questions whose answers are remembered.
const REMEMBERED: u32 = 32;

/// Answers to the first questions, a bit each.
#[derive(Clone, Copy, Default)]
pub struct Answers {
    known: u32,
    yes: u32,
}

impl Answers {
    /// The answer, if it is known.
    #[inline]
    pub fn get(self, question: u32) -> Option<bool> {
        let bit = bit(question);
        (self.known & bit != 0).then_some(self.yes & bit != 0)
    }

    /// Notes an answer.
    pub fn set(&mut self, question: u32, yes: bool) {
        self.known |= bit(question);
        if yes {
            self.yes |= bit(question);
        }
    }
}

/// None for questions that are not remembered.
#[inline]
fn bit(question: u32) -> u32 {
    if question < REMEMBERED { 1 << question } else { 0 }
}

/// Answers of an address of an address space.
#[derive(Clone, Copy, Default)]
pub struct Slot {
    /// The address.
    pub at: u64,
    /// Version of the address space; 0 if the slot is free.
    pub epoch: u64,
    /// Its answers.
    pub answers: Answers,
}

impl Slot {
    /// Notes an answer of an address.
    pub fn put(&mut self, at: u64, epoch: u64, question: u32, answer: bool) {
        if (self.at, self.epoch) != (at, epoch) {
            *self = Slot { at, epoch, answers: Answers::default() };
        }
        self.answers.set(question, answer);
    }
}

/// Where an address of an address space is kept.
#[inline]
pub fn slot_of(at: u64, epoch: u64) -> usize {
    let hash = (at ^ epoch.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - SLOTS_BITS)) as usize
}

/// The addresses of a map around one that lies in none of the ranges; `addr` is what the ranges have for it.
pub fn gap(ranges: &[(u64, u64)], map: &Map, ip: u64, addr: Option<u64>) -> Option<(u64, u64)> {
    let (start, end) = (map.start(), map.end());
    let Some(addr) = addr else { return Some((start, end)) };
    let next = ranges.partition_point(|range| range.0 <= addr);
    let before = next.checked_sub(1).and_then(|at| ranges.get(at)).map_or(0, |range| range.1);
    let after = ranges.get(next).map_or(u64::MAX, |range| range.0);
    if addr < before {
        return None;
    }
    // Both count in bytes, so their distances are the same.
    Some((start.max(ip.saturating_sub(addr - before)), end.min(ip.saturating_add(after - addr))))
}

/// Whether a DSO goes by one of these names: as shown, as recorded, or without its folder. Patterns are for the name as
/// shown.
pub fn is_dso(dso: &Dso, names: &Names) -> bool {
    match names {
        Names::Pattern(_) => names.has(dso.shown_name()),
        Names::Exact(_) => {
            [dso.shown_name(), dso.long_name(), dso.short_name()].into_iter().any(|name| names.has(name))
        }
    }
}
