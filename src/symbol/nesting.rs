//! Ranges that lie within earlier ones: where to look when an address is past the end of the inner one.

use super::memory::{self, OutOfMemory};

/// For a sorted array of ranges: which have an enclosing one, and which that is. Most tables have next to none.
#[derive(Clone, Default)]
pub(super) struct Nesting {
    /// (inner, outer) positions, sorted by inner.
    pairs: Vec<(u32, u32)>,
}

impl Nesting {
    /// Notes the range at position `at`, which follows `previous` and starts at `start`. Returns whether an
    /// earlier range reaches beyond its start. `end_of` tells the end of the range at a position.
    pub(super) fn push(
        &mut self,
        previous: Option<u32>,
        at: u32,
        start: u64,
        end_of: impl Fn(u32) -> u64,
    ) -> Result<bool, OutOfMemory> {
        // What encloses the start encloses the previous one's too, or is the previous one.
        let mut outer = previous;
        while let Some(candidate) = outer.filter(|&c| end_of(c) <= start) {
            outer = self.outer(candidate);
        }
        if let Some(outer) = outer {
            memory::push(&mut self.pairs, (at, outer))?;
        }
        Ok(outer.is_some())
    }

    /// The nearest earlier range that reaches beyond the start of the one at a position.
    pub(super) fn outer(&self, at: u32) -> Option<u32> {
        let i = self.pairs.binary_search_by_key(&at, |&(inner, _)| inner).ok()?;
        self.pairs.get(i).map(|&(_, outer)| outer)
    }

    /// Positions that have an enclosing range.
    pub(super) fn inner(&self) -> impl Iterator<Item = u32> {
        self.pairs.iter().map(|&(inner, _)| inner)
    }

    pub(super) fn shrink(&mut self) {
        self.pairs.shrink_to_fit();
    }

    pub(super) fn memory(&self) -> usize {
        memory::buffer(&self.pairs)
    }
}
