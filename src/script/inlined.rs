//! What was inlined at an address: lists of symbols, each list once.

use rustc_hash::FxHashMap;

use super::batch::Batch;
use super::resolve::{ENTRY, Names};
use crate::session::{Dso, DsoKind};
use crate::symbol::inlines::{Inlined, Inlines};
use crate::symbol::tables::Symbols;
use crate::symbol::{self};

/// Lists of the numbers of symbols, the innermost first, and where they come from.
#[derive(Default)]
pub(super) struct Lists {
    /// By DSO; `None` within if it has no debug information.
    sources: FxHashMap<u32, Option<Box<Inlines>>>,
    /// Where each list is, by its numbers.
    places: FxHashMap<Box<[u32]>, u32>,
    /// The lists, each behind its length. The first, which is at 0, is never asked for.
    lists: Vec<u32>,
    found: Vec<Inlined>,
    numbers: Vec<u32>,
}

impl Lists {
    /// A list that [`Lists::find`] gave out.
    #[inline]
    pub fn get(&self, list: u32) -> &[u32] {
        let at = list as usize;
        let len = self.lists.get(at).map_or(0, |&len| len as usize);
        self.lists.get(at + 1..at + 1 + len).unwrap_or_default()
    }

    /// What was inlined at an offset of a DSO's file: a list, 0 if there is nothing.
    pub fn find(
        &mut self,
        symbols: &Symbols,
        dso: &Dso,
        offset: u64,
        names: &mut Names,
        batch: &mut Batch,
    ) -> u32 {
        if dso.kind() != DsoKind::User {
            return 0;
        }
        let id = dso.id().0;
        let source = self.sources.entry(id).or_insert_with(|| {
            let source = symbols.source(symbol::DsoKind::User, dso);
            Inlines::load(&source, symbols.options()).map(Box::new)
        });
        let Some(source) = source else { return 0 };
        source.find(offset, &mut self.found);
        if self.found.is_empty() {
            return 0;
        }
        self.numbers.clear();
        for &inlined in &self.found {
            let key = (id, inlined.origin as u64, ENTRY);
            let number = names.known(key).unwrap_or_else(|| {
                let name = source.name(inlined, symbols.options().demangle);
                name.map_or(0, |name| names.number(key, &name, batch))
            });
            self.numbers.push(number);
        }
        if let Some(&list) = self.places.get(&*self.numbers) {
            return list;
        }
        if self.lists.is_empty() {
            self.lists.push(0);
        }
        let Ok(list) = u32::try_from(self.lists.len()) else { return 0 };
        self.lists.push(self.numbers.len() as u32);
        self.lists.extend_from_slice(&self.numbers);
        self.places.insert(self.numbers.as_slice().into(), list);
        list
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        let sources: usize = self.sources.values().flatten().map(|source| source.memory()).sum();
        // Each list is there twice.
        sources + self.lists.capacity() * 8 + self.places.capacity() * 24
    }

    /// Lets go of what comes back when it is asked for; of the lists too if the numbers in them are void.
    pub fn shrink(&mut self, forget: bool) {
        self.sources.values_mut().flatten().for_each(|source| source.shrink());
        if forget {
            *self = Lists::default();
        }
    }
}
