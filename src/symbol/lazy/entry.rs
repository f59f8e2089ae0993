//! One entry of the index, in 16 bytes.

use std::sync::atomic::AtomicU32;

use crate::symbol::sym::{SymbolBinding, SymbolType};

/// Where an entry's name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::symbol) enum Source {
    /// The string table of `.symtab`.
    Symtab = 0,
    /// The string table of `.dynsym`.
    Dynsym = 1,
    /// A PLT slot of an IFUNC that `.symtab` names.
    PltSymtab = 2,
    /// A PLT slot of an IFUNC that `.dynsym` names.
    PltDynsym = 3,
    /// A PLT slot, named by the string table that belongs to the PLT's relocations.
    PltTarget = 4,
    /// A slot of `.plt.got`, named by the string table that belongs to `.rela.dyn`.
    PltGotTarget = 5,
    /// A PLT slot whose target has no name.
    PltOffset = 6,
    /// The start of the PLT.
    PltHeader = 7,
}

/// A symbol's range and attributes, and the place of its name or, once it has been hit, of the symbol made.
#[derive(Debug)]
pub(in crate::symbol) struct Entry {
    /// Start in the upper 48 bits; below it type (4 bits), binding (4), source (3), flags.
    key: u64,
    len: u32,
    /// Offset in the string table; or, with the top bit set, the slot of the symbol.
    pub(super) name_or_slot: AtomicU32,
}

const _: () = assert!(size_of::<Entry>() <= 16);

const START_SHIFT: u32 = 16;
const START_LIMIT: u64 = 1 << 48;
const KIND_SHIFT: u32 = 0;
const BINDING_SHIFT: u32 = 4;
const SOURCE_SHIFT: u32 = 8;
/// Not the first of those that share its start.
const ALIAS: u64 = 1 << 11;
/// Within the range of an earlier group.
const ENCLOSED: u64 = 1 << 12;
/// Won over an IFUNC at its address.
const IFUNC_ALIAS: u64 = 1 << 13;
const SLOT: u32 = 1 << 31;

impl Entry {
    /// An entry, or `None` if a value needs more bits than there are.
    pub fn new(
        start: u64,
        size: u64,
        binding: SymbolBinding,
        kind: SymbolType,
        source: Source,
        name: u32,
    ) -> Option<Entry> {
        let len = u32::try_from(size).ok()?;
        if start >= START_LIMIT || name & SLOT != 0 {
            return None;
        }
        let key = start << START_SHIFT
            | u64::from(kind.0 & 0xf) << KIND_SHIFT
            | u64::from(binding.0 & 0xf) << BINDING_SHIFT
            | (source as u64) << SOURCE_SHIFT;
        Some(Entry { key, len, name_or_slot: AtomicU32::new(name) })
    }

    /// A key no smaller than that of any entry at the address; `None` if entries never start that high, in
    /// which case none contains it either.
    #[inline]
    pub fn last_key_at(addr: u64) -> Option<u64> {
        (addr < START_LIMIT).then_some(addr << START_SHIFT | 0xffff)
    }

    /// What the search compares: starts first.
    #[inline]
    pub fn key(&self) -> u64 {
        self.key
    }

    #[inline]
    pub fn start(&self) -> u64 {
        self.key >> START_SHIFT
    }

    #[inline]
    pub fn end(&self) -> u64 {
        self.start() + u64::from(self.len)
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Moves the end; `None` if that is too far from the start.
    pub fn set_end(&mut self, end: u64) -> Option<()> {
        self.len = u32::try_from(end.checked_sub(self.start())?).ok()?;
        Some(())
    }

    #[inline]
    pub fn contains(&self, addr: u64) -> bool {
        addr < self.end() || (self.len == 0 && addr == self.start())
    }

    pub fn kind(&self) -> SymbolType {
        SymbolType((self.key >> KIND_SHIFT & 0xf) as u8)
    }

    pub fn binding(&self) -> SymbolBinding {
        SymbolBinding((self.key >> BINDING_SHIFT & 0xf) as u8)
    }

    pub fn source(&self) -> Source {
        match self.key >> SOURCE_SHIFT & 7 {
            0 => Source::Symtab,
            1 => Source::Dynsym,
            2 => Source::PltSymtab,
            3 => Source::PltDynsym,
            4 => Source::PltTarget,
            5 => Source::PltGotTarget,
            6 => Source::PltOffset,
            _ => Source::PltHeader,
        }
    }

    #[inline]
    pub fn is_alias(&self) -> bool {
        self.key & ALIAS != 0
    }

    pub fn set_alias(&mut self, alias: bool) {
        self.set(ALIAS, alias);
    }

    #[inline]
    pub fn is_enclosed(&self) -> bool {
        self.key & ENCLOSED != 0
    }

    pub fn set_enclosed(&mut self) {
        self.set(ENCLOSED, true);
    }

    pub fn is_ifunc_alias(&self) -> bool {
        self.key & IFUNC_ALIAS != 0
    }

    pub fn set_ifunc_alias(&mut self) {
        self.set(IFUNC_ALIAS, true);
    }

    fn set(&mut self, flag: u64, on: bool) {
        self.key = if on { self.key | flag } else { self.key & !flag };
    }

    /// The slot in a value of `name_or_slot`, if it has one.
    #[inline]
    pub(super) fn as_slot(raw: u32) -> Option<u32> {
        (raw & SLOT != 0).then_some(raw & !SLOT)
    }

    /// The value of `name_or_slot` for a slot.
    pub(super) fn of_slot(slot: u32) -> u32 {
        slot | SLOT
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        let mut e = Entry::new(
            0xffff_ffff_fff0,
            0xffff_ffff,
            SymbolBinding::UNIQUE,
            SymbolType::GNU_IFUNC,
            Source::PltOffset,
            0x7fff_ffff,
        )
        .unwrap();
        e.set_alias(true);
        e.set_enclosed();
        assert_eq!((e.start(), e.end()), (0xffff_ffff_fff0, 0xffff_ffff_fff0 + 0xffff_ffff));
        assert_eq!((e.binding(), e.kind()), (SymbolBinding::UNIQUE, SymbolType::GNU_IFUNC));
        assert_eq!(e.source(), Source::PltOffset);
        assert!(e.is_alias() && e.is_enclosed() && !e.is_ifunc_alias());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let new = |start, size, name| {
            Entry::new(start, size, SymbolBinding::GLOBAL, SymbolType::FUNC, Source::Symtab, name)
        };
        assert!(new(1 << 48, 0, 0).is_none());
        assert!(new(0, 1 << 32, 0).is_none());
        assert!(new(0, 0, 1 << 31).is_none());
        assert!(new(0, 8, 1).unwrap().set_end(1 << 33).is_none());
    }
}
