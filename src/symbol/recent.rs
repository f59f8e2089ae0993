//! Where earlier look-ups ended, since samples come back to the same code over and over.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most positions that are kept, 4 bytes each.
const MAX: usize = 2048;
/// Tables of fewer entries are searched as fast.
const WORTHWHILE: usize = 128;

/// Positions in a sorted array, by address looked up. Only hints: whoever takes one checks it against the
/// array, so a stale or torn one costs a search and no more.
#[derive(Default)]
pub(super) struct Recent(OnceLock<Box<[AtomicU32]>>);

impl Recent {
    /// A position that may be the one for the address.
    #[inline]
    pub(super) fn get(&self, addr: u64) -> Option<usize> {
        let slots = self.0.get()?;
        Some(slots.get(place(addr, slots.len()))?.load(Ordering::Relaxed) as usize)
    }

    /// Keeps the position found for an address in an array of `len` entries.
    #[inline]
    pub(super) fn put(&self, addr: u64, at: usize, len: usize) {
        if len < WORTHWHILE {
            return;
        }
        let slots = self.0.get_or_init(|| {
            let size = (len / 16).next_power_of_two().min(MAX);
            (0..size).map(|_| AtomicU32::new(0)).collect()
        });
        if let (Some(slot), Ok(at)) = (slots.get(place(addr, slots.len())), u32::try_from(at)) {
            slot.store(at, Ordering::Relaxed);
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.0.get().map_or(0, |slots| size_of_val(&**slots))
    }
}

/// Neighbouring instructions share a place; `len` is a power of two.
#[inline]
fn place(addr: u64, len: usize) -> usize {
    let mixed = (addr >> 5).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    mixed as usize & (len.wrapping_sub(1))
}
