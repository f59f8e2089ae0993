//! The sorted table: every symbol with its name, for what is loaded eagerly.
//!
//! An array sorted by start, where equal starts keep the order they were inserted in. Symbols that come out of
//! order go to a small sorted tail, merged into the array when it passes the square root of its length, so that
//! inserting in any order costs no more than that per symbol.

mod by_name;
mod fixup;

use std::sync::RwLock;

use super::memory::{self, OutOfMemory};
use super::name_search::NameSearch;
use super::nesting::Nesting;
use super::recent::Recent;
use super::sym::{Symbol, SymbolBinding, SymbolType};
use crate::bytes::until_nul;
pub use fixup::EndRule;

/// A sorted array of symbols with their names.
#[derive(Default)]
pub struct SymbolTable {
    /// Sorted by start, then by order of insertion, unless `unsorted`.
    symbols: Vec<Symbol>,
    /// Inserted later than all of `symbols`; sorted likewise.
    tail: Vec<Symbol>,
    /// Symbols have been appended without regard to order.
    unsorted: bool,
    nesting: Nesting,
    recent: Recent,
    /// Names one after the other, each with a NUL behind it. A name that the one before ends in is not there again.
    names: Vec<u8>,
    /// Start of the last of them.
    last_name: usize,
    by_name: RwLock<Option<std::sync::Arc<[u32]>>>,
    /// Number of the ELF table that symbols are pushed from.
    origin: u8,
    /// Symbols that started as an IFUNC, or won over one. Only while loading.
    ifuncs: rustc_hash::FxHashSet<u64>,
}

impl SymbolTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for as many symbols.
    pub fn reserve(&mut self, symbols: usize, name_bytes: usize) -> Result<(), OutOfMemory> {
        memory::reserve(&mut self.symbols, symbols)?;
        memory::reserve(&mut self.names, name_bytes)
    }

    /// Appends a symbol in any order; [`SymbolTable::sort`] must follow before anything is looked up.
    pub fn push(
        &mut self,
        start: u64,
        end: u64,
        binding: SymbolBinding,
        kind: SymbolType,
        name: &[u8],
    ) -> Result<(), OutOfMemory> {
        let symbol = Symbol { start, end, name: self.add_name(name)?, binding, kind, origin: self.origin };
        self.unsorted |= self.symbols.last().is_some_and(|last| last.start > start);
        memory::push(&mut self.symbols, symbol)
    }

    /// Tells that what is pushed from now on is of another ELF table. Of symbols without a size at one address,
    /// the last of each table gets an end.
    pub fn begin_table(&mut self) {
        self.origin = self.origin.saturating_add(1);
    }

    /// Sorts what was pushed. The sort is stable and takes advantage of runs that are in order already.
    pub fn sort(&mut self) -> Result<(), OutOfMemory> {
        if self.unsorted {
            self.symbols.sort_by_key(|s| s.start);
            self.unsorted = false;
        }
        self.renest()
    }

    /// Inserts a symbol in its place, behind others of the same start.
    pub fn insert(
        &mut self,
        start: u64,
        end: u64,
        binding: SymbolBinding,
        kind: SymbolType,
        name: &[u8],
    ) -> Result<(), OutOfMemory> {
        let symbol = Symbol { start, end, name: self.add_name(name)?, binding, kind, origin: self.origin };
        self.forget_names();
        let in_order = self.symbols.last().is_none_or(|last| last.start <= start);
        if in_order && self.tail.is_empty() {
            let at = index(self.symbols.len())?;
            memory::push(&mut self.symbols, symbol)?;
            let end_of = |i: u32| self.symbols.get(i as usize).map_or(0, |s| s.end);
            self.nesting.push(at.checked_sub(1), at, start, end_of)?;
            return Ok(());
        }
        let at = self.tail.partition_point(|s| s.start <= start);
        memory::reserve(&mut self.tail, 1)?;
        self.tail.insert(at, symbol);
        if self.tail.len() > self.symbols.len().isqrt().max(16) {
            self.merge()?;
        }
        Ok(())
    }

    /// Merges the tail into the array.
    fn merge(&mut self) -> Result<(), OutOfMemory> {
        if self.tail.is_empty() {
            return Ok(());
        }
        memory::reserve(&mut self.symbols, self.tail.len())?;
        self.symbols.append(&mut self.tail);
        // Two sorted runs: the stable sort merges them.
        self.symbols.sort_by_key(|s| s.start);
        self.renest()
    }

    /// Finds anew which symbols lie within others.
    fn renest(&mut self) -> Result<(), OutOfMemory> {
        self.nesting = Nesting::default();
        let end_of = |i: u32| self.symbols.get(i as usize).map_or(0, |s| s.end);
        for (i, symbol) in self.symbols.iter().enumerate() {
            let i = index(i)?;
            self.nesting.push(i.checked_sub(1), i, symbol.start, end_of)?;
        }
        Ok(())
    }

    fn add_name(&mut self, name: &[u8]) -> Result<u32, OutOfMemory> {
        let name = until_nul(name);
        // Kernels have `__pfx_f` before each `f`.
        let last = self.names.get(self.last_name..self.names.len().saturating_sub(1)).unwrap_or_default();
        if !self.names.is_empty() && last.ends_with(name) {
            return index(self.names.len() - 1 - name.len());
        }
        let at = index(self.names.len())?;
        memory::reserve_amortized(&mut self.names, name.len() + 1)?;
        self.last_name = self.names.len();
        self.names.extend_from_slice(name);
        self.names.push(0);
        Ok(at)
    }

    /// Where symbols are that have one of these bytes in their names, of which one is meant.
    pub fn ranges_of(
        &self,
        parts: &[Box<[u8]>],
        is_meant: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<(u64, u64)>, OutOfMemory> {
        let mut ranges = Vec::new();
        for part in parts {
            let search = NameSearch::over(part, &self.names)?;
            let found = self.iter().filter(|symbol| search.has(symbol.name));
            for symbol in found.filter(|symbol| is_meant(self.name(symbol))) {
                memory::push(&mut ranges, (symbol.start, symbol.end.max(symbol.start.saturating_add(1))))?;
            }
        }
        Ok(ranges)
    }

    /// Keeps the symbols whose names are wanted, at addresses that are `by` higher (wrapping). Names of the others
    /// stay in memory until the table goes. [`SymbolTable::sort`] must follow.
    pub(super) fn keep_moved(&mut self, by: u64, mut is_wanted: impl FnMut(&[u8]) -> bool) {
        let names = &self.names;
        self.symbols.retain_mut(|symbol| {
            (symbol.start, symbol.end) = (symbol.start.wrapping_add(by), symbol.end.wrapping_add(by));
            is_wanted(until_nul(names.get(symbol.name as usize..).unwrap_or_default()))
        });
        self.forget_names();
        self.unsorted = true;
    }

    /// The name of a symbol of this table.
    pub fn name(&self, symbol: &Symbol) -> &[u8] {
        until_nul(self.names.get(symbol.name as usize..).unwrap_or_default())
    }

    /// The symbol whose range has the address; of several, the innermost, and of those at one start the last.
    #[inline]
    pub fn find(&self, addr: u64) -> Option<&Symbol> {
        let found = self.find_sorted(addr);
        if self.tail.is_empty() {
            return found;
        }
        let upto = self.tail.partition_point(|s| s.start <= addr);
        let newer = self.tail.get(..upto)?.iter().rev().find(|s| s.contains(addr));
        match (found, newer) {
            (Some(old), Some(new)) if old.start > new.start => Some(old),
            (old, new) => new.or(old),
        }
    }

    #[inline]
    fn last_at_or_before(&self, addr: u64) -> Option<usize> {
        let starts_by = |at: usize| self.symbols.get(at).is_some_and(|s| s.start <= addr);
        if let Some(at) = self.recent.get(addr)
            && starts_by(at)
            && !starts_by(at + 1)
        {
            return Some(at);
        }
        let at = self.symbols.partition_point(|s| s.start <= addr).checked_sub(1)?;
        self.recent.put(addr, at, self.symbols.len());
        Some(at)
    }

    fn find_sorted(&self, addr: u64) -> Option<&Symbol> {
        let mut at = self.last_at_or_before(addr)?;
        loop {
            let symbol = self.symbols.get(at)?;
            if symbol.contains(addr) {
                return Some(symbol);
            }
            at = self.nesting.outer(u32::try_from(at).ok()?)? as usize;
        }
    }

    /// All symbols by address. Those of a tail that was not merged come after the others.
    pub fn iter(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().chain(&self.tail)
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.symbols.len() + self.tail.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        let by_name = self.by_name.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        memory::buffer(&self.symbols)
            + memory::buffer(&self.tail)
            + memory::buffer(&self.names)
            + self.nesting.memory()
            + self.recent.memory()
            + by_name.as_ref().map_or(0, |index| size_of_val(&**index))
    }

    /// Drops the index by name, which comes back when next needed. Returns the bytes freed.
    pub fn shrink(&self) -> usize {
        // Called when memory is short, perhaps by a thread that holds the lock further up: never wait.
        let Ok(mut by_name) = self.by_name.try_write() else { return 0 };
        by_name.take().map_or(0, |index| size_of_val(&*index))
    }

    /// Ends loading: merges the tail and gives back spare capacity.
    pub fn finish(&mut self) -> Result<(), OutOfMemory> {
        self.merge()?;
        self.ifuncs = Default::default();
        self.symbols.shrink_to_fit();
        self.tail.shrink_to_fit();
        self.names.shrink_to_fit();
        self.nesting.shrink();
        Ok(())
    }
}

fn index(i: usize) -> Result<u32, OutOfMemory> {
    u32::try_from(i).map_err(|_| OutOfMemory)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn table(symbols: &[(u64, u64, &str)]) -> SymbolTable {
        let mut t = SymbolTable::new();
        for &(start, end, name) in symbols {
            t.insert(start, end, SymbolBinding::GLOBAL, SymbolType::FUNC, name.as_bytes()).unwrap();
        }
        t
    }

    fn found(t: &SymbolTable, addr: u64) -> Option<&str> {
        t.find(addr).map(|s| std::str::from_utf8(t.name(s)).unwrap())
    }

    #[test]
    fn nested_symbols_resolve_to_the_innermost() {
        let t = table(&[(0, 100, "outer"), (10, 40, "middle"), (20, 30, "inner"), (50, 60, "second")]);
        for (addr, want) in [
            (5, Some("outer")),
            (15, Some("middle")),
            (25, Some("inner")),
            (35, Some("middle")),
            (45, Some("outer")),
            (55, Some("second")),
            (70, Some("outer")),
            (100, None),
        ] {
            assert_eq!(found(&t, addr), want, "{addr}");
        }
    }

    #[test]
    fn equal_starts_keep_the_order_of_insertion() {
        let t = table(&[(10, 20, "b"), (0, 5, "a"), (10, 20, "c"), (10, 15, "d")]);
        assert_eq!(found(&t, 12), Some("d"));
        assert_eq!(found(&t, 17), Some("c"));
    }

    #[test]
    fn a_symbol_without_a_size_is_found_at_its_start_alone() {
        let t = table(&[(10, 10, "point")]);
        assert_eq!((found(&t, 10), found(&t, 11)), (Some("point"), None));
    }

    #[test]
    fn long_names_come_back() {
        let long = "x".repeat(70_000);
        let t = table(&[(0, 1, ""), (1, 2, &long), (2, 3, "y")]);
        assert_eq!(t.name(t.find(0).unwrap()), b"");
        assert_eq!(found(&t, 1), Some(&*long));
        assert_eq!(found(&t, 2), Some("y"));
    }

    /// Any order of insertion finds what a plain list finds.
    #[test]
    fn insertion_in_any_order_agrees_with_a_list() {
        let mut state = 12345u64;
        let mut next = move |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        let list: Vec<(u64, u64, String)> = (0..2000)
            .map(|i| {
                let start = next(5000);
                (start, start + next(40), format!("s{i}"))
            })
            .collect();
        let mut t = SymbolTable::new();
        for (i, (start, end, name)) in list.iter().enumerate() {
            t.insert(*start, *end, SymbolBinding::LOCAL, SymbolType::FUNC, name.as_bytes()).unwrap();
            if i % 97 != 0 {
                continue;
            }
            for addr in (0..5100).step_by(7) {
                let hit = |s: &(u64, u64, String)| s.0 <= addr && (addr < s.1 || addr == s.0 && s.0 == s.1);
                let inserted = list.get(..=i).unwrap();
                let mut want = None;
                for s in inserted.iter().filter(|s| hit(s)) {
                    if want.is_none_or(|w: &(u64, u64, String)| s.0 >= w.0) {
                        want = Some(s);
                    }
                }
                assert_eq!(found(&t, addr), want.map(|w| &*w.2), "address {addr} after {i}");
            }
        }
        let starts: Vec<u64> = {
            t.finish().unwrap();
            t.iter().map(|s| s.start).collect()
        };
        assert!(starts.is_sorted() && starts.len() == list.len());
    }
}
