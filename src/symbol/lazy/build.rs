//! Builds the index: sort, drop copies, find ends, drop the losers at each address, add the PLT.

use std::io;
use std::sync::RwLock;

use super::entry::{Entry, Source};
use super::slots::Slots;
use super::{LazyIndex, Names, STRIDE};
use crate::symbol::LoadError;
use crate::symbol::choose::{last_end, rank, second_is_better};
use crate::symbol::demangle::Demangle;
use crate::symbol::file::StringTable;
use crate::symbol::memory::{self, OutOfMemory};
use crate::symbol::nesting::Nesting;
use crate::symbol::plt::{Plt, PltName};
use crate::symbol::recent::Recent;
use crate::symbol::sym::{SymbolBinding, SymbolType};
use crate::symbol::symtab::RawSymbol;

/// Most symbols at one address that are left to be told apart when they are hit.
const MAX_GROUP: usize = 16;

/// The table can't be indexed in 16 bytes an entry, or at all.
#[derive(Debug, thiserror::Error)]
pub enum NotCompact {
    /// An address of 48 bits or more, a range of 4 GiB or a string table of 2 GiB: to be loaded eagerly.
    #[error("symbols do not fit a compact index")]
    TooWide,
    /// Reading failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Memory could not be had.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

/// The string tables that names come from.
#[derive(Default)]
pub(in crate::symbol) struct Tables {
    pub symtab: Option<StringTable>,
    pub dynsym: Option<StringTable>,
    pub plt: Option<StringTable>,
    pub plt_got: Option<StringTable>,
}

/// An index being built.
pub(in crate::symbol) struct Builder {
    entries: Vec<Entry>,
    names: Names,
}

impl Builder {
    pub fn new(tables: Tables, demangle: Demangle, expected: usize) -> Result<Self, NotCompact> {
        let mut entries = Vec::new();
        memory::reserve(&mut entries, expected)?;
        let tables = [tables.symtab, tables.dynsym, tables.plt, tables.plt_got];
        Ok(Builder { entries, names: Names { tables, demangle } })
    }

    /// Adds a symbol of `.symtab` or `.dynsym`; all of the first come before those of the second.
    pub fn add(&mut self, raw: RawSymbol, source: Source) -> Result<(), NotCompact> {
        let entry = Entry::new(raw.start, raw.size, raw.binding, raw.kind, source, raw.name);
        Ok(memory::push(&mut self.entries, entry.ok_or(NotCompact::TooWide)?)?)
    }

    /// Sorts, finds ends, and keeps at each address what attributes can't rule out.
    pub fn settle(&mut self) -> Result<(), NotCompact> {
        self.entries.sort_by_key(Entry::start);
        self.fixup_end()?;
        self.drop_copies().map_err(|e| self.io(e))?;
        self.fixup_duplicate().map_err(|e| self.io(e))?;
        Ok(())
    }

    /// Whether no symbol has been added.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn io(&self, e: io::Error) -> NotCompact {
        let path = self.names.tables.iter().flatten().next().map(|t| t.file().path().to_path_buf());
        NotCompact::Load(LoadError::io(path.unwrap_or_default(), e))
    }

    /// Drops `.dynsym` entries that `.symtab` has with the same name, range and attributes.
    fn drop_copies(&mut self) -> io::Result<()> {
        let mut wanted = [Vec::new(), Vec::new()];
        for_groups(&self.entries, |group| {
            let dynsym = group.iter().any(|e| e.source() == Source::Dynsym);
            if dynsym && group.iter().any(|e| e.source() == Source::Symtab) {
                for e in group {
                    if let Some(list) = wanted.get_mut(e.source() as usize) {
                        list.extend(e.name());
                    }
                }
            }
        });
        let [symtab, dynsym] = wanted;
        let symtab = self.hashes(0, symtab)?;
        let dynsym = self.hashes(1, dynsym)?;
        let hash = |hashes: &[(u32, u64)], e: &Entry| {
            let at = hashes.binary_search_by_key(&e.name()?, |&(name, _)| name).ok()?;
            hashes.get(at).map(|&(_, hash)| hash)
        };
        let mut copies = Vec::new();
        let mut at = 0;
        for_groups(&self.entries, |group| {
            for (i, e) in group.iter().enumerate().filter(|(_, e)| e.source() == Source::Dynsym) {
                let same = |other: &&Entry| {
                    other.source() == Source::Symtab
                        && (other.len(), other.kind(), other.binding()) == (e.len(), e.kind(), e.binding())
                };
                let mine = hash(&dynsym, e);
                if mine.is_some()
                    && group.iter().take(MAX_GROUP).filter(same).any(|o| hash(&symtab, o) == mine)
                {
                    copies.push(at + i);
                }
            }
            at += group.len();
        });
        let (mut i, mut copies) = (0, copies.into_iter().peekable());
        self.entries.retain(|_| {
            let copy = copies.next_if_eq(&i).is_some();
            i += 1;
            !copy
        });
        Ok(())
    }

    /// Hashes of the names at these offsets of a string table, sorted by offset: the table is passed over once.
    fn hashes(&self, table: usize, mut offsets: Vec<u32>) -> io::Result<Vec<(u32, u64)>> {
        offsets.sort_unstable();
        offsets.dedup();
        let Some(table) = self.names.tables.get(table).and_then(Option::as_ref) else {
            return Ok(Vec::new());
        };
        let mut reader = table.reader();
        let hash = |name: &[u8]| {
            use std::hash::Hasher;
            let mut hasher = rustc_hash::FxHasher::default();
            hasher.write(name);
            hasher.write_usize(name.len());
            hasher.finish()
        };
        offsets.into_iter().map(|at| Ok((at, hash(reader.name(at)?)))).collect()
    }

    /// Symbols without a size end where the next begins, in whichever table. Of aliases in one table, it is the
    /// last that gets an end.
    fn fixup_end(&mut self) -> Result<(), NotCompact> {
        let (mut next, mut above): (Option<(u64, Source)>, Option<u64>) = (None, None);
        for entry in self.entries.iter_mut().rev() {
            let here = (entry.start(), entry.source());
            if let Some((start, _)) = next.filter(|&(start, _)| start > here.0) {
                above = Some(start);
            }
            if entry.len() == 0 && next != Some(here) {
                entry.set_end(above.unwrap_or_else(|| last_end(here.0))).ok_or(NotCompact::TooWide)?;
            }
            next = Some(here);
        }
        Ok(())
    }

    /// Keeps the best at each address; those that only names can tell apart stay, as a group of aliases.
    fn fixup_duplicate(&mut self) -> io::Result<()> {
        let mut keep = vec![true; self.entries.len()];
        let mut first = 0;
        while let Some(start) = self.entries.get(first).map(Entry::start) {
            let rest = self.entries.get(first..).unwrap_or_default();
            let len = rest.iter().take_while(|e| e.start() == start).count();
            if len > 1 {
                self.settle_group(first, len, keep.get_mut(first..first + len).unwrap_or_default())?;
            }
            first += len;
        }
        let mut keep = keep.into_iter();
        self.entries.retain(|_| keep.next().unwrap_or(true));
        Ok(())
    }

    fn settle_group(&mut self, first: usize, len: usize, keep: &mut [bool]) -> io::Result<()> {
        let group = self.entries.get_mut(first..first + len).unwrap_or_default();
        let rank_of = |e: &Entry| rank(e.len() > 0, e.binding());
        let best = group.iter().map(rank_of).max().unwrap_or(0);
        if group.iter().any(|e| e.kind() == SymbolType::GNU_IFUNC) {
            return settle_with_ifunc(&self.names, group, keep);
        }
        let mut len = None;
        let (mut same_len, mut kept) = (true, 0);
        for (e, keep) in group.iter().zip(keep.iter_mut()) {
            *keep = rank_of(e) == best;
            if *keep {
                kept += 1;
                same_len &= *len.get_or_insert(e.len()) == e.len();
            }
        }
        if kept > MAX_GROUP || !same_len {
            // Names are needed now: a group must be small, and answer whether it contains an address.
            let mut winner: Option<(usize, Box<[u8]>)> = None;
            for (i, e) in group.iter().enumerate().filter(|(i, _)| keep.get(*i) == Some(&true)) {
                let name = self.names.shown(e, e.name().unwrap_or(0)).unwrap_or_default();
                if winner.as_ref().is_none_or(|(_, best)| second_is_better(best, &name)) {
                    winner = Some((i, name));
                }
            }
            let winner = winner.map_or(0, |(i, _)| i);
            keep.iter_mut().enumerate().for_each(|(i, keep)| *keep = i == winner);
            return Ok(());
        }
        let kept = group.iter_mut().zip(keep.iter()).filter(|(_, keep)| **keep);
        kept.skip(1).for_each(|(e, _)| e.set_alias(true));
        Ok(())
    }

    /// Adds symbols for the PLT.
    pub fn add_plt(&mut self, plt: &Plt) -> Result<(), NotCompact> {
        let Some(start) = plt.start else { return Ok(()) };
        // The last symbol before the PLT has been stretched over it if it had no size.
        if let Some(group) = self.group_at(start) {
            for entry in self.entries.get_mut(group).unwrap_or_default() {
                if entry.start() < start && entry.end() > start {
                    entry.set_end(start).ok_or(NotCompact::TooWide)?;
                }
            }
        }
        let mut added = Vec::new();
        for slot in &plt.slots {
            let (source, name) = match slot.name {
                PltName::Header => (Source::PltHeader, 0),
                PltName::Target(name) => (Source::PltTarget, name),
                PltName::GotTarget(name) => (Source::PltGotTarget, name),
                PltName::Ifunc(at) => self.ifunc(at).unwrap_or((Source::PltOffset, 0)),
                PltName::Offset => (Source::PltOffset, 0),
            };
            let entry =
                Entry::new(slot.start, slot.size, SymbolBinding::GLOBAL, SymbolType::FUNC, source, name);
            memory::push(&mut added, entry.ok_or(NotCompact::TooWide)?)?;
        }
        memory::reserve(&mut self.entries, added.len())?;
        self.entries.append(&mut added);
        self.entries.sort_by_key(Entry::start);
        Ok(())
    }

    /// The IFUNC, or what won over one, that starts at the address.
    fn ifunc(&self, at: u64) -> Option<(Source, u32)> {
        let entry = self.entries.get(self.entries.partition_point(|e| e.start() < at))?;
        let is_ifunc = entry.kind() == SymbolType::GNU_IFUNC || entry.is_ifunc_alias();
        if entry.start() != at || !is_ifunc {
            return None;
        }
        let source = match entry.source() {
            Source::Symtab => Source::PltSymtab,
            Source::Dynsym => Source::PltDynsym,
            _ => return None,
        };
        Some((source, entry.name()?))
    }

    /// The innermost group whose range has the address.
    fn group_at(&self, addr: u64) -> Option<std::ops::Range<usize>> {
        let end = self.entries.partition_point(|e| e.start() <= addr);
        let hit = self.entries.get(..end)?.iter().rposition(|e| e.contains(addr))?;
        let first = (0..=hit).rev().find(|&i| self.entries.get(i).is_some_and(|e| !e.is_alias()))?;
        Some(first..hit + 1)
    }

    /// The finished index.
    pub fn finish(mut self) -> Result<LazyIndex, NotCompact> {
        let nesting = self.nesting()?;
        self.names.tables.iter().flatten().for_each(|table| table.file().settle_down());
        self.entries.shrink_to_fit();
        let mut sample = Vec::new();
        memory::reserve(&mut sample, self.entries.len().div_ceil(STRIDE))?;
        sample.extend(self.entries.iter().step_by(STRIDE).map(Entry::key));
        Ok(LazyIndex {
            entries: self.entries,
            sample,
            nesting,
            recent: Recent::default(),
            names: self.names,
            slots: Slots::new(),
            by_name: RwLock::new(None),
        })
    }

    /// Finds and marks groups that lie within an earlier one.
    fn nesting(&mut self) -> Result<Nesting, NotCompact> {
        let mut nesting = Nesting::default();
        let mut previous = None;
        for (i, entry) in self.entries.iter().enumerate().filter(|(_, e)| !e.is_alias()) {
            let i = u32::try_from(i).map_err(|_| NotCompact::TooWide)?;
            let end_of = |at: u32| self.entries.get(at as usize).map_or(0, Entry::end);
            nesting.push(previous, i, entry.start(), end_of)?;
            previous = Some(i);
        }
        nesting.shrink();
        for at in nesting.inner() {
            if let Some(entry) = self.entries.get_mut(at as usize) {
                entry.set_enclosed();
            }
        }
        Ok(nesting)
    }
}

/// Duplicates at an address where one is an IFUNC: the winner of a pair is marked if the loser is one. All
/// names are read now, since PLT slots are named after whatever wins here.
fn settle_with_ifunc(names: &Names, group: &mut [Entry], keep: &mut [bool]) -> io::Result<()> {
    keep.fill(false);
    let mut best = 0;
    for next in 1..group.len() {
        let (Some(a), Some(b)) = (group.get(best), group.get(next)) else { break };
        let (rank_a, rank_b) = (rank(a.len() > 0, a.binding()), rank(b.len() > 0, b.binding()));
        let next_wins = rank_b > rank_a
            || rank_b == rank_a && {
                let name = |e: &Entry| names.shown(e, e.name().unwrap_or(0)).unwrap_or_default();
                second_is_better(&name(a), &name(b))
            };
        let (winner, loser) = if next_wins { (next, best) } else { (best, next) };
        let loser_is_ifunc = group.get(loser).is_some_and(|e| e.kind() == SymbolType::GNU_IFUNC);
        if loser_is_ifunc && let Some(e) = group.get_mut(winner) {
            e.set_ifunc_alias();
        }
        best = winner;
    }
    if let Some(keep) = keep.get_mut(best) {
        *keep = true;
    }
    Ok(())
}

/// Calls `each` with every run of entries of one start.
fn for_groups(entries: &[Entry], each: impl FnMut(&[Entry])) {
    entries.chunk_by(|a, b| a.start() == b.start()).for_each(each);
}
