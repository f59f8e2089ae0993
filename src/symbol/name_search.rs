//! Which names of a table have given bytes in them, without reading them one by one.

use memchr::memmem::Finder;

use super::memory::{self, OutOfMemory};

/// Looks for bytes in a table of names, each with a NUL behind it, of which a name may begin within another.
pub(super) struct NameSearch<'n> {
    finder: Finder<'n>,
    /// Offsets, first and last, at which names begin that have the bytes; ascending.
    starts: Vec<(u64, u64)>,
    /// Where the name begins that reaches into the next piece.
    begun: u64,
}

impl<'n> NameSearch<'n> {
    /// A search that has seen nothing yet. The bytes have no NUL among them.
    pub(super) fn new(part: &'n [u8]) -> Self {
        NameSearch { finder: Finder::new(part), starts: Vec::new(), begun: 0 }
    }

    /// A search through a table in memory.
    pub(super) fn over(part: &'n [u8], table: &[u8]) -> Result<Self, OutOfMemory> {
        let mut search = Self::new(part);
        search.piece(0, table)?;
        Ok(search)
    }

    /// Bytes at the end of a piece that must be at the beginning of the next again.
    pub(super) fn overlap(&self) -> usize {
        self.finder.needle().len().saturating_sub(1)
    }

    /// Searches the next piece, which is at this offset of the table.
    pub(super) fn piece(&mut self, at: u64, bytes: &[u8]) -> Result<(), OutOfMemory> {
        let begins = |upto: &[u8]| memchr::memrchr(0, upto).map(|nul| at + nul as u64 + 1);
        for found in self.finder.find_iter(bytes) {
            let from = begins(bytes.get(..found).unwrap_or_default()).unwrap_or(self.begun);
            let to = at + found as u64;
            match self.starts.last_mut() {
                Some(last) if last.0 == from => last.1 = to,
                _ => memory::push(&mut self.starts, (from, to))?,
            }
        }
        self.begun = begins(bytes).unwrap_or(self.begun);
        Ok(())
    }

    /// Whether the name at an offset has the bytes.
    pub(super) fn has(&self, at: u32) -> bool {
        let at = u64::from(at);
        let next = self.starts.partition_point(|&(_, to)| to < at);
        self.starts.get(next).is_some_and(|&(from, _)| from <= at)
    }
}

/// Ranges, sorted and those that touch made one; `None` if they are too many to be of use.
pub(super) fn merged(mut ranges: Vec<(u64, u64)>) -> Option<Vec<(u64, u64)>> {
    const MOST: usize = 1 << 14;
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    (ranges.len() <= MOST).then_some(ranges)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_that_have_the_bytes_are_found_in_pieces_of_any_size() {
        let table = b"\0malloc\0calloc\0__malloc_x\0mall\0oc\0";
        let offset = |name: &[u8]| memchr::memmem::find(table, name).unwrap() as u32;
        for size in 6..=table.len() {
            let mut search = NameSearch::new(b"malloc");
            let mut at = 0;
            while at < table.len() {
                search.piece(at as u64, &table[at..(at + size).min(table.len())]).unwrap();
                at += size - search.overlap();
            }
            let at = [offset(b"malloc"), offset(b"calloc"), offset(b"__malloc"), offset(b"_malloc_x")];
            assert_eq!(at.map(|at| search.has(at)), [true, false, true, true], "{size}");
            // A name that begins behind the bytes, and one of two halves.
            assert!(!search.has(offset(b"_x\0")) && !search.has(offset(b"mall\0")) && !search.has(0));
        }
    }

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(merged(vec![(5, 9), (0, 2), (2, 4), (6, 7)]), Some(vec![(0, 4), (5, 9)]));
        assert_eq!(merged((0..1 << 15).map(|i| (i * 2, i * 2 + 1)).collect()), None);
    }
}
