//! Numbers that stand for a state, so that what was derived from it can be told to be stale.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that no other version has had. It is drawn when first asked for, which spares those that nobody asks for
/// the shared counter.
#[derive(Default)]
pub(super) struct Version(AtomicU64);

impl Version {
    /// Never 0.
    pub(super) fn get(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        match self.0.load(Relaxed) {
            0 => {
                let new = NEXT.fetch_add(1, Relaxed);
                // Of racing readers the first one's number counts.
                self.0.compare_exchange(0, new, Relaxed, Relaxed).map_or_else(|set| set, |_| new)
            }
            set => set,
        }
    }

    /// Makes it a new number.
    pub(super) fn renew(&mut self) {
        *self.0.get_mut() = 0;
    }

    /// Makes it another's number.
    pub(super) fn set(&mut self, version: u64) {
        *self.0.get_mut() = version;
    }
}
