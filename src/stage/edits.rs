//! What stages change: verdicts by position.
//!
//! Records are visited by time but leave in the input's order, so a change is kept by the position that it applies
//! to until everything before that position has been visited.

use std::ops::Range;

/// A change at a position of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Stream position before which `bytes` go.
    pub pos: u64,
    /// Bytes of the input that are left out from `pos` on.
    pub skip: u64,
    /// Bytes to put there, as a range of the arena.
    pub bytes: Range<usize>,
}

/// The changes not written yet.
#[derive(Debug, Default)]
pub struct Edits {
    arena: Vec<u8>,
    list: Vec<Edit>,
    sorted: bool,
}

impl Edits {
    /// Leaves out `size` bytes from `pos` on.
    pub fn drop_record(&mut self, pos: u64, size: u64) {
        self.add(pos, size, self.arena.len());
    }

    /// Puts what `make` appends before position `pos`.
    pub fn insert<R>(&mut self, pos: u64, make: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.replace(pos, 0, make)
    }

    /// Puts what `make` appends in the place of `size` bytes from `pos` on.
    pub fn replace<R>(&mut self, pos: u64, size: u64, make: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let start = self.arena.len();
        let made = make(&mut self.arena);
        self.add(pos, size, start);
        made
    }

    fn add(&mut self, pos: u64, skip: u64, start: usize) {
        if let Some(last) = self.list.last_mut() {
            // What is left out on end is one change: a filter may leave out nearly all.
            let is_drop = |skip: u64, bytes: &Range<usize>| skip > 0 && bytes.is_empty();
            if is_drop(last.skip, &last.bytes)
                && is_drop(skip, &(start..self.arena.len()))
                && last.pos.checked_add(last.skip) == Some(pos)
            {
                last.skip = last.skip.saturating_add(skip);
                return;
            }
            self.sorted &= last.pos <= pos;
        } else {
            self.sorted = true;
        }
        self.list.push(Edit { pos, skip, bytes: start..self.arena.len() });
    }

    /// Bytes that wait.
    pub fn pending(&self) -> usize {
        self.arena.len() + self.list.len() * size_of::<Edit>()
    }

    /// What goes before or in the place of the record at a position.
    pub fn bytes_at(&self, pos: u64) -> Vec<u8> {
        let mut found: Vec<&Edit> = self.list.iter().filter(|e| e.pos == pos).collect();
        found.sort_by_key(|e| e.skip > 0);
        let bytes = found.into_iter().map(|e| self.arena.get(e.bytes.clone()).unwrap_or_default());
        bytes.flatten().copied().collect()
    }

    /// Takes the changes before `end` in their order, calling `f` with each and its bytes. Of several at one position
    /// insertions come first, in the order in which they were made.
    pub fn take_until<E>(
        &mut self,
        end: u64,
        mut f: impl FnMut(&Edit, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.list.is_empty() {
            return Ok(());
        }
        if !self.sorted {
            self.list.sort_by_key(|e| (e.pos, e.skip > 0));
            self.sorted = true;
        }
        let taken = self.list.partition_point(|e| e.pos < end);
        for edit in self.list.iter().take(taken) {
            f(edit, self.arena.get(edit.bytes.clone()).unwrap_or_default())?;
        }
        self.list.drain(..taken);
        if self.list.is_empty() {
            self.arena.clear();
        } else {
            self.compact();
        }
        Ok(())
    }

    /// Gives back arena space when most of it is used up by changes that are out.
    fn compact(&mut self) {
        const WORTH: usize = 1 << 20;
        let live: usize = self.list.iter().map(|e| e.bytes.len()).sum();
        if self.arena.len() < WORTH || live > self.arena.len() / 2 {
            return;
        }
        let mut arena = Vec::with_capacity(live);
        for edit in &mut self.list {
            let start = arena.len();
            arena.extend_from_slice(self.arena.get(edit.bytes.clone()).unwrap_or_default());
            edit.bytes = start..arena.len();
        }
        self.arena = arena;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_on_end_is_one_change() {
        let mut edits = Edits::default();
        edits.drop_record(0, 8);
        edits.drop_record(8, 16);
        edits.drop_record(32, 8);
        edits.insert(40, |out| out.extend_from_slice(b"x"));
        edits.drop_record(40, 8);
        // Made while the records before were visited late: it stands among what is left out.
        edits.insert(8, |out| out.extend_from_slice(b"y"));
        let mut seen = Vec::new();
        edits
            .take_until(u64::MAX, |e, bytes| {
                seen.push((e.pos, e.skip, bytes.len()));
                Ok::<_, ()>(())
            })
            .ok();
        assert_eq!(seen, [(0, 24, 0), (8, 0, 1), (32, 8, 0), (40, 0, 1), (40, 8, 0)]);
    }

    #[test]
    fn changes_come_by_position_and_insertions_first() {
        let mut edits = Edits::default();
        edits.replace(8, 16, |out| out.extend_from_slice(b"R"));
        edits.insert(8, |out| out.extend_from_slice(b"1"));
        edits.insert(8, |out| out.extend_from_slice(b"2"));
        edits.drop_record(0, 8);
        edits.insert(100, |out| out.extend_from_slice(b"later"));
        let mut seen = Vec::new();
        edits
            .take_until(50, |e, bytes| {
                seen.push((e.pos, e.skip, bytes.to_vec()));
                Ok::<_, ()>(())
            })
            .ok();
        assert_eq!(
            seen,
            [(0, 8, vec![]), (8, 0, b"1".to_vec()), (8, 0, b"2".to_vec()), (8, 16, b"R".to_vec())]
        );
        let mut rest = Vec::new();
        edits
            .take_until(u64::MAX, |_, bytes| {
                rest.extend_from_slice(bytes);
                Ok::<_, ()>(())
            })
            .ok();
        assert_eq!(rest, b"later");
    }
}
