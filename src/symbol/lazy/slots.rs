//! Where materialised symbols stay, at addresses that never change, without a lock to read them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::entry::Entry;
use crate::symbol::sym::Symbol;

/// Slots of the first segment; each further one has twice as many.
const FIRST: u32 = 32;
/// Enough segments for 2^31 slots.
const SEGMENTS: usize = 26;

type Slot = OnceLock<(Symbol, Box<[u8]>)>;

/// Symbols in order of materialisation, in segments that double in size.
pub(super) struct Slots {
    segments: [OnceLock<Box<[Slot]>>; SEGMENTS],
    /// The next free slot. Held while one symbol is put in place, never while a name is read.
    next: Mutex<u32>,
    names: AtomicUsize,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots {
            segments: [const { OnceLock::new() }; SEGMENTS],
            next: Mutex::new(0),
            names: AtomicUsize::new(0),
        }
    }

    /// Puts a symbol in place for the group that begins with `first`, unless it has one already. Returns the slot.
    pub(super) fn publish(&self, first: &Entry, winner: &Entry, name: Box<[u8]>) -> Option<u32> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = Entry::as_slot(first.name_or_slot.load(Ordering::Acquire)) {
            return Some(slot);
        }
        let slot = *next;
        let (segment, at) = place(slot)?;
        let symbol = Symbol {
            start: winner.start(),
            end: winner.end(),
            name: slot,
            binding: winner.binding(),
            kind: winner.kind(),
            origin: 0,
        };
        let size = (FIRST as usize) << segment;
        let slots = self.segments.get(segment)?.get_or_init(|| (0..size).map(|_| Slot::new()).collect());
        self.names.fetch_add(name.len(), Ordering::Relaxed);
        slots.get(at)?.set((symbol, name)).ok()?;
        *next = slot.checked_add(1)?;
        first.name_or_slot.store(Entry::of_slot(slot), Ordering::Release);
        Some(slot)
    }

    /// A published symbol with its name.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<(&Symbol, &[u8])> {
        let (segment, at) = place(slot)?;
        let (symbol, name) = self.segments.get(segment)?.get()?.get(at)?.get()?;
        Some((symbol, name))
    }

    pub(super) fn len(&self) -> usize {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) as usize
    }

    pub(super) fn memory(&self) -> usize {
        let slots: usize = self.segments.iter().filter_map(OnceLock::get).map(|s| s.len()).sum();
        slots * size_of::<Slot>() + self.names.load(Ordering::Relaxed)
    }
}

/// Segment and position of a slot.
#[inline]
fn place(slot: u32) -> Option<(usize, usize)> {
    let biased = slot.checked_add(FIRST)?;
    let segment = biased.ilog2() - FIRST.ilog2();
    Some((segment as usize, (biased - (FIRST << segment)) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_dense() {
        assert_eq!(place(0), Some((0, 0)));
        assert_eq!(place(31), Some((0, 31)));
        assert_eq!(place(32), Some((1, 0)));
        assert_eq!(place(95), Some((1, 63)));
        assert_eq!(place(96), Some((2, 0)));
        assert!(place(u32::MAX).is_none());
        let (segment, _) = place((1 << 31) - 1).unwrap_or((usize::MAX, 0));
        assert!(segment <= SEGMENTS);
    }
}
