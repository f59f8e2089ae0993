//! The lazy index: of a whole ELF symbol table, 16 bytes per address; of a symbol that is hit, all of it.
//!
//! Built from attributes alone. Names stay in the file, which is kept open, and one is read and demangled when
//! an address in its range is first looked up. Symbols at one address that only their names can tell apart stay
//! side by side until then.

mod build;
mod by_name;
mod entry;
mod load;
mod slots;

use std::borrow::Cow;
use std::sync::RwLock;
use std::sync::atomic::Ordering;

pub use build::NotCompact;
pub(in crate::symbol) use load::load;

use super::demangle::{Demangle, demangle};
use super::file::StringTable;
use super::name_search::NameSearch;
use super::nesting::Nesting;
use super::plt;
use super::recent::Recent;
use super::sym::Symbol;
use super::{choose, memory};
use by_name::ByName;
use entry::{Entry, Source};
use slots::Slots;

/// A compact index over the symbols of a user-space ELF file.
pub struct LazyIndex {
    /// Sorted by start, then by order of insertion.
    entries: Vec<Entry>,
    /// Every [`STRIDE`]th entry's key, for a first search that stays in the cache.
    sample: Vec<u64>,
    /// By first entry of a group.
    nesting: Nesting,
    recent: Recent,
    names: Names,
    slots: Slots,
    by_name: RwLock<Option<std::sync::Arc<ByName>>>,
}

/// Entries per sampled key.
const STRIDE: usize = 64;

/// Where names come from.
pub(in crate::symbol) struct Names {
    /// Those of `.symtab` and `.dynsym`, then those that `.plt` and `.plt.got` relocations name.
    tables: [Option<StringTable>; 4],
    demangle: Demangle,
}

impl Names {
    /// The name as shown; `None` if the file can't be read any more.
    fn shown(&self, entry: &Entry, name: u32) -> Option<Box<[u8]>> {
        let table = |i: usize| self.tables.get(i).and_then(Option::as_ref);
        let read = |i: usize| {
            let raw = table(i).map_or(Ok(Vec::new()), |t| t.name(name)).ok()?;
            Some(demangle(&raw, self.demangle).map_or(raw, String::into_bytes))
        };
        let slot = |target: Vec<u8>| match target.is_empty() {
            true => plt::unnamed_slot(entry.start()),
            false => plt::slot_name(&target),
        };
        let shown = match entry.source() {
            Source::Symtab => read(0)?,
            Source::Dynsym => read(1)?,
            Source::PltSymtab => plt::slot_name(&read(0)?),
            Source::PltDynsym => plt::slot_name(&read(1)?),
            Source::PltTarget => slot(read(2)?),
            Source::PltGotTarget => slot(read(3)?),
            Source::PltOffset => plt::unnamed_slot(entry.start()),
            Source::PltHeader => plt::HEADER.to_vec(),
        };
        Some(shown.into())
    }
}

impl LazyIndex {
    /// The symbol whose range has the address; of several, the innermost.
    #[inline]
    pub fn find(&self, addr: u64) -> Option<&Symbol> {
        self.materialize(self.group_with(addr)?)
    }

    /// Where the symbol whose range has the address is: its first entry, start and end. Makes none.
    #[inline]
    pub(in crate::symbol) fn locate(&self, addr: u64) -> Option<(usize, u64, u64)> {
        let group = self.group_with(addr)?;
        self.entries.get(group).map(|entry| (group, entry.start(), entry.end()))
    }

    /// The name of the symbol that begins with an entry; of a symbol that was not made it is read, and not kept.
    pub(in crate::symbol) fn name_of(&self, group: usize) -> Option<Cow<'_, [u8]>> {
        let made = || Some(Cow::Borrowed(self.slots.get(self.entries.get(group)?.slot()?)?.1));
        made().or_else(|| Some(Cow::Owned(self.choose(group)?.1.into_vec()))).or_else(made)
    }

    #[inline]
    fn group_with(&self, addr: u64) -> Option<usize> {
        let mut group = self.group_of(self.last_at_or_before(addr)?);
        loop {
            // All of a group have one size, so the first answers whether a name has to be read.
            let entry = self.entries.get(group)?;
            if entry.contains(addr) {
                return Some(group);
            }
            if !entry.is_enclosed() {
                return None;
            }
            group = self.nesting.outer(u32::try_from(group).ok()?)? as usize;
        }
    }

    /// Index of the last entry that starts at or before the address.
    #[inline]
    fn last_at_or_before(&self, addr: u64) -> Option<usize> {
        let key = Entry::last_key_at(addr)?;
        let starts_by = |at: usize| self.entries.get(at).is_some_and(|e| e.key() <= key);
        if let Some(at) = self.recent.get(addr)
            && starts_by(at)
            && !starts_by(at + 1)
        {
            return Some(at);
        }
        let block = self.sample.partition_point(|&k| k <= key).checked_sub(1)?;
        let from = block * STRIDE;
        let entries = self.entries.get(from..(from + STRIDE).min(self.entries.len()))?;
        let at = from + entries.partition_point(|e| e.key() <= key).checked_sub(1)?;
        self.recent.put(addr, at, self.entries.len());
        Some(at)
    }

    /// The first entry of the group that has the entry.
    fn group_of(&self, mut at: usize) -> usize {
        while at > 0 && self.entries.get(at).is_some_and(Entry::is_alias) {
            at -= 1;
        }
        at
    }

    /// The entries of the group that begins at an entry.
    fn group(&self, first: usize) -> &[Entry] {
        let rest = self.entries.get(first..).unwrap_or_default();
        let len = 1 + rest.iter().skip(1).take_while(|e| e.is_alias()).count();
        rest.get(..len).unwrap_or_default()
    }

    /// The group's symbol, made now if nobody has asked for it before. The name is read outside of any lock;
    /// when two threads race for it, one symbol is kept and both get that one.
    fn materialize(&self, first: usize) -> Option<&Symbol> {
        let entry = self.entries.get(first)?;
        let slot = match entry.slot() {
            Some(slot) => slot,
            None => match self.choose(first) {
                Some((winner, name)) => self.slots.publish(entry, winner, name)?,
                // The file can't be read any more; or another thread has just published.
                None => entry.slot()?,
            },
        };
        self.slots.get(slot).map(|(symbol, _)| symbol)
    }

    /// The best of a group, and its name; `None` once the group's symbol is published.
    fn choose(&self, first: usize) -> Option<(&Entry, Box<[u8]>)> {
        let mut best: Option<(&Entry, Box<[u8]>)> = None;
        for entry in self.group(first) {
            let Some(name) = self.names.shown(entry, entry.name()?) else { continue };
            if best.as_ref().is_none_or(|(_, so_far)| choose::second_is_better(so_far, &name)) {
                best = Some((entry, name));
            }
        }
        best
    }

    /// The name of a symbol that this index gave out.
    pub fn name(&self, symbol: &Symbol) -> &[u8] {
        self.slots.get(symbol.name).map(|(_, name)| name).unwrap_or_default()
    }

    /// The lowest symbol of that name, or else the lowest whose name without its `@@VERSION` is that.
    pub fn find_by_name(&self, name: &[u8]) -> Option<&Symbol> {
        let index = self.by_name()?;
        let mut versioned = None;
        for group in index.candidates(name) {
            let Some(symbol) = self.materialize(group) else { continue };
            let found = self.name(symbol);
            if found == name {
                return Some(symbol);
            }
            if by_name::without_version(found) == name {
                versioned = versioned.or(Some(symbol));
            }
        }
        versioned
    }

    /// Where symbols are that may have one of these bytes in their names and are shown by a name that is meant; `None` if
    /// the file can't be read any more.
    pub fn ranges_of(
        &self,
        parts: &[Box<[u8]>],
        is_meant: impl Fn(&[u8]) -> bool,
    ) -> Option<Vec<(u64, u64)>> {
        let mut ranges = Vec::new();
        for part in parts {
            let mut searches: [NameSearch<'_>; 4] = std::array::from_fn(|_| NameSearch::new(part));
            for (table, search) in self.names.tables.iter().zip(&mut searches) {
                table.as_ref().map_or(Ok(()), |table| table.search(search)).ok()?;
            }
            let may = |entry: &Entry| match (entry.slot(), entry.name()) {
                (Some(slot), _) => {
                    self.slots.get(slot).is_none_or(|(_, name)| memchr::memmem::find(name, part).is_some())
                }
                (None, Some(name)) => match entry.source() {
                    Source::Symtab | Source::PltSymtab => searches[0].has(name),
                    Source::Dynsym | Source::PltDynsym => searches[1].has(name),
                    Source::PltTarget => searches[2].has(name),
                    Source::PltGotTarget => searches[3].has(name),
                    Source::PltOffset | Source::PltHeader => false,
                },
                // Published a moment ago.
                (None, None) => true,
            };
            for first in self.groups().filter(|&first| self.group(first).iter().any(may)) {
                let entry = self.entries.get(first)?;
                if !is_meant(&self.name_of(first)?) {
                    continue;
                }
                memory::push(&mut ranges, (entry.start(), entry.end().max(entry.start() + 1))).ok()?;
            }
        }
        Some(ranges)
    }

    fn by_name(&self) -> Option<std::sync::Arc<ByName>> {
        let read = self.by_name.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(index) = &*read {
            return Some(index.clone());
        }
        drop(read);
        // Built outside of the lock: names are read from the file. A racing thread's is as good.
        let built = ByName::build(self.groups().filter_map(|first| {
            let made = || Some(self.slots.get(self.entries.get(first)?.slot()?)?.1.into());
            Some((first, made().or_else(|| Some(self.choose(first)?.1)).or_else(made)?))
        }))
        .ok()?;
        let mut slot = self.by_name.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        Some(slot.get_or_insert_with(|| std::sync::Arc::new(built)).clone())
    }

    fn groups(&self) -> impl Iterator<Item = usize> {
        self.entries.iter().enumerate().filter(|(_, e)| !e.is_alias()).map(|(i, _)| i)
    }

    /// All symbols by address, each of which is made.
    pub fn iter(&self) -> impl Iterator<Item = &Symbol> {
        self.groups().filter_map(|first| self.materialize(first))
    }

    /// Start and end of every symbol by address, without making any.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.groups().filter_map(|first| self.entries.get(first)).map(|e| (e.start(), e.end()))
    }

    /// Number of addresses that have a symbol.
    pub fn len(&self) -> usize {
        self.groups().count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many symbols have been made.
    pub fn materialized(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        let by_name = self.by_name.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let files: usize = self.names.tables.iter().flatten().map(|t| t.file().memory()).max().unwrap_or(0);
        memory::buffer(&self.entries)
            + memory::buffer(&self.sample)
            + self.nesting.memory()
            + self.recent.memory()
            + self.slots.memory()
            + by_name.as_ref().map_or(0, |index| index.memory())
            + files
    }

    /// Drops the index by name, which comes back when next needed. Returns the bytes freed.
    pub fn shrink(&self) -> usize {
        // Called when memory is short, perhaps by a thread that holds the lock further up: never wait.
        let Ok(mut by_name) = self.by_name.try_write() else { return 0 };
        by_name.take().map_or(0, |index| index.memory())
    }
}

impl Entry {
    /// Whether the entry's slot has been published.
    fn slot(&self) -> Option<u32> {
        Entry::as_slot(self.name_or_slot.load(Ordering::Acquire))
    }

    /// Offset of the name, unless the slot has taken its place.
    fn name(&self) -> Option<u32> {
        let raw = self.name_or_slot.load(Ordering::Acquire);
        Entry::as_slot(raw).is_none().then_some(raw)
    }
}
