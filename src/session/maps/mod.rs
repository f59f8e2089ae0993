//! The maps of an address space behind a lock.

mod array;
mod sorted;
#[cfg(test)]
mod tests;
mod version;

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use self::array::{Found, MapArray, NewMap};
use super::map::{Extent, Map};
use crate::data::parallel::on_threads;

/// The maps of an address space, for many readers.
///
/// No method runs its caller's code under a lock, but for the change of [`Maps::mutate_mapping`], which must not
/// come back here. Nor does any take a second lock while it holds one. So a reader that loads what a map stands
/// for, and then has to move the map, can not wait for itself.
///
/// Who holds the address space alone skips the lock: [`Maps::get_mut`].
#[derive(Default)]
pub struct Maps {
    array: RwLock<MapArray>,
    e_machine: AtomicU16,
}

impl Maps {
    /// No maps.
    pub fn new() -> Maps {
        Maps::default()
    }

    /// The array without locking.
    #[inline]
    pub fn get_mut(&mut self) -> &mut MapArray {
        self.array.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    // A panic under the lock leaves an array whose worst fault is a map too few: not a reason to panic again.
    fn read(&self) -> RwLockReadGuard<'_, MapArray> {
        self.array.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, MapArray> {
        self.array.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer under the read lock or, if sorting must come first, under the write lock.
    fn ask<T>(
        &self,
        is_ready: impl FnOnce(&MapArray) -> bool,
        prepare: impl FnOnce(&mut MapArray),
        answer: impl FnOnce(&MapArray) -> T,
    ) -> T {
        {
            let array = self.read();
            if is_ready(&array) {
                return answer(&array);
            }
        }
        let mut array = self.write();
        prepare(&mut array);
        answer(&array)
    }

    fn ask_sorted<T>(&self, answer: impl FnOnce(&MapArray) -> T) -> T {
        self.ask(MapArray::is_sorted, MapArray::sort, answer)
    }

    /// The machine the address space's code is for, `EM_*` of `elf.h`; 0 while unknown.
    pub fn e_machine(&self) -> u16 {
        self.e_machine.load(Relaxed)
    }

    /// Sets the machine of the address space's code, `EM_*` of `elf.h`.
    pub fn set_e_machine(&self, e_machine: u16) {
        self.e_machine.store(e_machine, Relaxed);
    }

    /// See [`MapArray::epoch`].
    pub fn epoch(&self) -> u64 {
        self.read().epoch()
    }

    /// See [`MapArray::contents`].
    pub fn contents(&self) -> u64 {
        self.read().contents()
    }

    /// See [`MapArray::insert`].
    pub fn insert(&self, map: impl Into<NewMap>) {
        self.write().insert(map);
    }

    /// See [`MapArray::fixup_overlap_and_insert`].
    pub fn fixup_overlap_and_insert(&self, map: impl Into<NewMap>) {
        self.write().fixup_overlap_and_insert(map);
    }

    /// See [`MapArray::merge_in`].
    pub fn merge_in(&self, map: Arc<Map>) {
        self.write().merge_in(map);
    }

    /// See [`MapArray::remove`].
    pub fn remove(&self, map: &Arc<Map>) -> bool {
        self.write().remove(map)
    }

    /// Forgets all maps and the machine, as exec does.
    pub fn clear(&mut self) {
        self.get_mut().clear();
        self.set_e_machine(0);
    }

    /// The map at an address.
    pub fn find(&self, ip: u64) -> Option<Arc<Map>> {
        self.ask_sorted(|a| a.at(ip).cloned())
    }

    /// A map whose DSO has this recorded name; of several, the lowest.
    pub fn find_by_name(&self, name: &[u8]) -> Option<Arc<Map>> {
        self.ask(MapArray::is_sorted_by_name, MapArray::sort_by_name, |a| a.named(name).cloned())
    }

    /// The map after one that is here.
    pub fn find_next(&self, map: &Arc<Map>) -> Option<Arc<Map>> {
        self.ask_sorted(|a| a.after(map).cloned())
    }

    /// The map with the lowest start.
    pub fn first(&self) -> Option<Arc<Map>> {
        self.ask_sorted(|a| a.iter_sorted().next().map(|f| Arc::clone(f.map)))
    }

    /// Whether there is no map.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// How many maps there are.
    pub fn len(&self) -> usize {
        self.ask_sorted(|a| a.iter_sorted().len())
    }

    /// Handles of all maps, by start.
    pub fn handles(&self) -> Vec<Arc<Map>> {
        self.ask_sorted(|a| a.iter_sorted().map(|f| Arc::clone(f.map)).collect())
    }

    /// See [`MapArray::shrink`].
    pub fn shrink(&self) {
        self.write().shrink();
    }

    /// Whether both hold the same maps: the same handles, as a fork and its parent do.
    pub fn equal(&self, other: &Maps) -> bool {
        let (ours, theirs) = (self.handles(), other.handles());
        ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// Takes over the maps and the machine of the address space that this one forks from.
    pub fn copy_from(&self, parent: &Maps) {
        self.set_e_machine(parent.e_machine());
        let shared = parent.write().share();
        if let (Some(sorted), contents) = shared {
            self.write().take_over(sorted, contents);
        }
    }

    /// Changes start, end or pgoff of a map that is here: the only way to move a map that sits in an array.
    ///
    /// Holds the write lock, runs `change`, and marks the array unsorted before it lets go, so that no look-up
    /// bisects over stale order. Returns the map that now sits here, which is `map` itself unless address spaces that
    /// forked from this one may hold it too; then they keep it, and here a changed copy takes its place. `None` if
    /// `map` is not here.
    pub fn mutate_mapping(&self, map: &Arc<Map>, change: impl FnOnce(&mut Extent)) -> Option<Arc<Map>> {
        self.write().mutate_mapping(map, change)
    }

    /// Runs `load` for every map, on up to `threads` threads, outside any lock; so `load` may call
    /// [`Maps::mutate_mapping`]. To be done before records flow if kernel addresses may be resolved.
    pub fn load_maps(&self, threads: usize, load: impl Fn(&Arc<Map>) + Sync) {
        let handles = self.handles();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(map) = handles.get(next.fetch_add(1, Relaxed)) {
                load(map);
            }
        };
        on_threads(threads.min(handles.len()), work);
    }
}
