//! A DSO's hold on its symbols: loaded when first wanted, evicted as a whole, loaded again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::LoadError;
use super::dso::DsoSymbols;
use super::load;
use super::source::{LoadOptions, SymbolSource};
use crate::data::parallel::on_threads;

/// The symbols of one DSO as it holds them.
///
/// Whoever uses symbols holds the table they are in. A table that nobody else holds may be evicted, whole;
/// the next one who asks gets it loaded again, from the same places, with the same symbols.
pub struct DsoSlot {
    source: SymbolSource,
    state: RwLock<State>,
    /// Held while loading, so that it happens once; never together with `state` for longer than a look.
    loading: Mutex<()>,
}

enum State {
    Unloaded,
    Loaded(Arc<DsoSymbols>),
    /// Given, not loaded from the source: can't be loaded again.
    Given(Arc<DsoSymbols>),
    Failed(Arc<LoadError>),
}

impl State {
    fn result(&self) -> Option<Result<Arc<DsoSymbols>, Arc<LoadError>>> {
        match self {
            State::Unloaded => None,
            State::Loaded(symbols) | State::Given(symbols) => Some(Ok(symbols.clone())),
            State::Failed(e) => Some(Err(e.clone())),
        }
    }
}

impl DsoSlot {
    /// A DSO whose symbols are not loaded.
    pub fn new(source: SymbolSource) -> Self {
        DsoSlot { source, state: RwLock::new(State::Unloaded), loading: Mutex::new(()) }
    }

    /// What is known of the DSO.
    pub fn source(&self) -> &SymbolSource {
        &self.source
    }

    /// The symbols, loaded now if they are not. A failure is remembered.
    pub fn get(&self, options: &LoadOptions) -> Result<Arc<DsoSymbols>, Arc<LoadError>> {
        if let Some(result) = self.read() {
            return result;
        }
        let _loading: MutexGuard<'_, ()> = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = self.read() {
            return result;
        }
        let loaded = load(&self.source, options).map(Arc::new).map_err(Arc::new);
        let state = match &loaded {
            Ok(symbols) => State::Loaded(symbols.clone()),
            Err(e) => State::Failed(e.clone()),
        };
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        loaded
    }

    /// The symbols if they are loaded.
    pub fn loaded(&self) -> Option<Arc<DsoSymbols>> {
        self.read()?.ok()
    }

    fn read(&self) -> Option<Result<Arc<DsoSymbols>, Arc<LoadError>>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).result()
    }

    /// Sets symbols that come from elsewhere, such as a module's from kallsyms. They are not evicted. Those
    /// that were there go with their last holder.
    pub fn give(&self, symbols: Arc<DsoSymbols>) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Given(symbols);
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.loaded().map_or(0, |symbols| symbols.memory())
    }

    /// Drops what can be made again at little cost. Returns the bytes freed.
    pub fn shrink(&self) -> usize {
        // Never waits: called when memory is short, perhaps by a thread further up that holds the lock.
        let Ok(state) = self.state.try_read() else { return 0 };
        match &*state {
            State::Loaded(symbols) | State::Given(symbols) => symbols.shrink(),
            _ => 0,
        }
    }

    /// Drops the symbols if nobody holds them. Returns the bytes freed.
    pub fn evict(&self) -> usize {
        let Ok(mut state) = self.state.try_write() else { return 0 };
        match &*state {
            // Under the write lock, nobody can become a holder.
            State::Loaded(symbols) if Arc::strong_count(symbols) == 1 => {
                let freed = symbols.memory();
                *state = State::Unloaded;
                freed
            }
            _ => 0,
        }
    }
}

/// Number of a DSO in a [`SymbolStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DsoId(pub u32);

/// The DSOs of a session and the options that their symbols are loaded with.
pub struct SymbolStore {
    options: LoadOptions,
    slots: RwLock<Vec<Arc<DsoSlot>>>,
}

impl SymbolStore {
    /// A store without DSOs.
    pub fn new(options: LoadOptions) -> Self {
        SymbolStore { options, slots: RwLock::new(Vec::new()) }
    }

    /// The options that symbols are loaded with.
    pub fn options(&self) -> &LoadOptions {
        &self.options
    }

    /// Adds a DSO; nothing is loaded.
    pub fn add(&self, source: SymbolSource) -> DsoId {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let id = DsoId(u32::try_from(slots.len()).unwrap_or(u32::MAX));
        slots.push(Arc::new(DsoSlot::new(source)));
        id
    }

    /// A DSO.
    pub fn slot(&self, id: DsoId) -> Option<Arc<DsoSlot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).get(id.0 as usize).cloned()
    }

    /// The symbols of a DSO, loaded now if they are not; `None` if there is no such DSO.
    pub fn get(&self, id: DsoId) -> Option<Result<Arc<DsoSymbols>, Arc<LoadError>>> {
        // No lock is held while loading.
        let slot = self.slot(id)?;
        Some(slot.get(&self.options))
    }

    /// Loads the symbols of some DSOs on as many threads.
    pub fn load_all(&self, ids: &[DsoId], threads: usize) {
        let next = std::sync::atomic::AtomicUsize::new(0);
        on_threads(threads.min(ids.len()), || {
            while let Some(&id) = ids.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                // Whoever looks the symbols up gets the error.
                let _ = self.get(id);
            }
        });
    }

    /// Bytes of memory in use by all symbols.
    pub fn memory(&self) -> usize {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.iter().map(|slot| slot.memory()).sum()
    }

    /// Drops indexes by name, and the symbols of every DSO that nobody holds. Returns the bytes freed.
    pub fn shrink(&self) -> usize {
        let Ok(slots) = self.slots.try_read() else { return 0 };
        slots.iter().map(|slot| slot.shrink() + slot.evict()).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::DsoKind;
    use super::super::test_elf::TestElf;
    use super::*;

    fn store(dir: &std::path::Path) -> (SymbolStore, DsoId) {
        let mut elf = TestElf::new();
        for i in 0..100u64 {
            elf.function(&format!("f{i}"), 0x1000 + i * 16, 16);
        }
        let path = dir.join("lib.so");
        std::fs::write(&path, elf.build()).unwrap();
        let options = LoadOptions { buildid_dir: None, ..LoadOptions::default() };
        let store = SymbolStore::new(options);
        let id = store.add(SymbolSource::new(DsoKind::User, path, None));
        (store, id)
    }

    #[test]
    fn held_symbols_stay_and_others_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let (store, id) = store(dir.path());
        assert_eq!((store.memory(), store.shrink()), (0, 0));
        let table = store.get(id).unwrap().unwrap();
        let held = table.find(0x1025).unwrap().hold(&table).unwrap();
        table.find_by_name(b"f7").unwrap();
        let full = store.memory();
        // The index by name goes; the table stays, since it is held.
        assert_eq!(store.shrink(), 100 * 8);
        assert_eq!(store.memory(), full - 800);
        drop(table);
        assert_eq!(store.shrink(), 0);
        assert_eq!(held.get().name(), b"f2");
        drop(held);
        assert_eq!(store.shrink(), full - 800);
        assert_eq!(store.memory(), 0);
        let again = store.get(id).unwrap().unwrap();
        assert_eq!(again.find(0x1025).unwrap().name(), b"f2");
        assert_eq!(again.len(), 100);
        assert!(again.find_by_name(b"f99").is_some());
    }

    #[test]
    fn given_symbols_are_not_evicted() {
        let dir = tempfile::tempdir().unwrap();
        let (store, id) = store(dir.path());
        let table = store.get(id).unwrap().unwrap();
        let nowhere = store.add(SymbolSource::new(DsoKind::KernelModule, "[m]", None));
        let error = store.get(nowhere).unwrap().err().unwrap();
        assert!(matches!(*error, LoadError::NotFound(_)), "{error}");
        store.slot(nowhere).unwrap().give(table);
        store.shrink();
        assert!(store.get(nowhere).unwrap().is_ok());
        assert!(store.slot(id).unwrap().loaded().is_some(), "held by the other");
    }

    #[test]
    fn loading_on_threads_happens_once() {
        let dir = tempfile::tempdir().unwrap();
        let (store, id) = store(dir.path());
        let ids = [id; 32];
        store.load_all(&ids, 4);
        let table = store.slot(id).unwrap().loaded().unwrap();
        assert!(Arc::ptr_eq(&table, &store.get(id).unwrap().unwrap()));
    }
}
