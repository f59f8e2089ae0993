//! What some symbols have and most don't, such as ids and notes: beside the symbols, not in them.

use rustc_hash::FxHashMap;

use super::slot::DsoId;

/// A symbol, by its DSO and start. Holds for as long as the store of the DSO, through eviction and reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolKey {
    /// The DSO.
    pub dso: DsoId,
    /// First address, as the DSO's table counts.
    pub start: u64,
}

/// Values by symbol. Takes no memory until the first one.
///
/// A value that needs its symbol to stay in memory keeps a [`HeldSymbol`](super::HeldSymbol): then the DSO's
/// symbols are not evicted.
#[derive(Clone, Debug)]
pub struct SideTable<T>(FxHashMap<SymbolKey, T>);

impl<T> Default for SideTable<T> {
    fn default() -> Self {
        SideTable(FxHashMap::default())
    }
}

impl<T> SideTable<T> {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a symbol.
    pub fn get(&self, key: SymbolKey) -> Option<&T> {
        self.0.get(&key)
    }

    /// The value of a symbol, made if it has none.
    pub fn get_or_insert_with(&mut self, key: SymbolKey, make: impl FnOnce() -> T) -> &mut T {
        self.0.entry(key).or_insert_with(make)
    }

    /// Sets the value of a symbol; returns the one it had.
    pub fn insert(&mut self, key: SymbolKey, value: T) -> Option<T> {
        self.0.insert(key, value)
    }

    /// Takes the value of a symbol away.
    pub fn remove(&mut self, key: SymbolKey) -> Option<T> {
        self.0.remove(&key)
    }

    /// All values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (SymbolKey, &T)> {
        self.0.iter().map(|(&key, value)| (key, value))
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of the table, not of what values point to.
    pub fn memory(&self) -> usize {
        self.0.capacity() * size_of::<(SymbolKey, T)>()
    }

    /// Gives back spare capacity. Returns the bytes freed.
    pub fn shrink(&mut self) -> usize {
        let before = self.memory();
        self.0.shrink_to_fit();
        before.saturating_sub(self.memory())
    }
}
