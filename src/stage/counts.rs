//! Records counted by type.

use std::collections::BTreeMap;

use crate::abi::record::RecordType;

/// Types that have a place of their own.
const KNOWN: usize = 128;

/// How many records of each type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    known: [u64; KNOWN],
    other: BTreeMap<u32, u64>,
}

impl Default for Counts {
    fn default() -> Self {
        Counts { known: [0; KNOWN], other: BTreeMap::new() }
    }
}

impl Counts {
    /// Counts one record.
    #[inline]
    pub fn add(&mut self, ty: RecordType) {
        match self.known.get_mut(ty.0 as usize) {
            Some(n) => *n += 1,
            None => self.add_other(ty),
        }
    }

    #[cold]
    fn add_other(&mut self, ty: RecordType) {
        // Hostile bytes may have any number of types; what is beyond a thousand is counted as one.
        const MOST: usize = 1000;
        let key = if self.other.len() < MOST || self.other.contains_key(&ty.0) { ty.0 } else { u32::MAX };
        *self.other.entry(key).or_insert(0) += 1;
    }

    /// Adds what another counted.
    pub fn add_all(&mut self, other: &Counts) {
        for (known, n) in self.known.iter_mut().zip(other.known) {
            *known += n;
        }
        for (ty, n) in &other.other {
            *self.other.entry(*ty).or_insert(0) += n;
        }
    }

    /// Records of one type.
    pub fn get(&self, ty: RecordType) -> u64 {
        match self.known.get(ty.0 as usize) {
            Some(&n) => n,
            None => self.other.get(&ty.0).copied().unwrap_or(0),
        }
    }

    /// All types seen, ascending, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (RecordType, u64)> {
        let known =
            self.known.iter().enumerate().filter(|(_, n)| **n > 0).map(|(t, n)| (RecordType(t as u32), *n));
        known.chain(self.other.iter().map(|(t, n)| (RecordType(*t), *n)))
    }

    /// All records.
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, n)| n).sum()
    }
}
