//! From name to symbol: positions sorted by name, made when first asked for.

use std::sync::{Arc, PoisonError};

use super::SymbolTable;
use crate::symbol::memory::{self, OutOfMemory};
use crate::symbol::sym::Symbol;

impl SymbolTable {
    /// The lowest symbol of that name, or else the lowest whose name without its `@@VERSION` is that.
    pub fn find_by_name(&self, name: &[u8]) -> Option<&Symbol> {
        let index = self.by_name().ok()?;
        let exact = index.partition_point(|&at| self.name_at(at) < name);
        if let Some(&at) = index.get(exact).filter(|&&at| self.name_at(at) == name) {
            return self.symbol_at(at);
        }
        let versioned = [name, b"@@"].concat();
        let from = index.partition_point(|&at| self.name_at(at) < versioned.as_slice());
        let with_prefix = index.iter().skip(from).take_while(|&&at| self.name_at(at).starts_with(&versioned));
        with_prefix.filter_map(|&at| self.symbol_at(at)).min_by_key(|s| s.start)
    }

    /// Sorts by name, if that has not been done.
    pub fn sort_by_name(&self) -> Result<(), OutOfMemory> {
        self.by_name().map(drop)
    }

    fn by_name(&self) -> Result<Arc<[u32]>, OutOfMemory> {
        let read = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &*read {
            return Ok(index.clone());
        }
        drop(read);
        let mut index = Vec::new();
        memory::reserve(&mut index, self.len())?;
        index.extend((0..self.len()).map_while(|i| u32::try_from(i).ok()));
        // Stable: of one name and address, the first inserted comes first.
        let start = |at| self.symbol_at(at).map(|s| s.start);
        index.sort_by(|&a, &b| self.name_at(a).cmp(self.name_at(b)).then_with(|| start(a).cmp(&start(b))));
        let mut slot = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        Ok(slot.get_or_insert_with(|| index.into()).clone())
    }

    pub(super) fn forget_names(&mut self) {
        *self.by_name.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn symbol_at(&self, at: u32) -> Option<&Symbol> {
        let at = at as usize;
        self.symbols.get(at).or_else(|| self.tail.get(at.checked_sub(self.symbols.len())?))
    }

    fn name_at(&self, at: u32) -> &[u8] {
        self.symbol_at(at).map(|s| self.name(s)).unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::symbol::sym::{SymbolBinding, SymbolType};

    #[test]
    fn by_name_and_by_default_version() {
        let mut t = SymbolTable::new();
        for (start, name) in [(30, "b"), (10, "c@@V2"), (20, "b"), (40, "c@V1"), (50, "a")] {
            t.insert(start, start + 1, SymbolBinding::GLOBAL, SymbolType::FUNC, name.as_bytes()).unwrap();
        }
        let start = |t: &SymbolTable, name: &str| t.find_by_name(name.as_bytes()).map(|s| s.start);
        assert_eq!(start(&t, "b"), Some(20));
        assert_eq!(start(&t, "c"), Some(10));
        assert_eq!(start(&t, "c@V1"), Some(40));
        assert_eq!(start(&t, "d"), None);
        assert!(t.shrink() >= 5 * 4);
        assert_eq!(t.shrink(), 0);
        t.insert(60, 61, SymbolBinding::GLOBAL, SymbolType::FUNC, b"d").unwrap();
        assert_eq!(start(&t, "d"), Some(60));
    }
}
