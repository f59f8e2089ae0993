//! From name to entry, 8 bytes per symbol, made when first asked for.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::symbol::memory::{self, OutOfMemory};

/// Hashes of names without versions, sorted, each with the first entry of its group.
pub(in crate::symbol) struct ByName(Vec<(u32, u32)>);

impl ByName {
    pub(super) fn build(names: impl Iterator<Item = (usize, Box<[u8]>)>) -> Result<Self, OutOfMemory> {
        let mut index = Vec::new();
        for (at, name) in names {
            let Ok(at) = u32::try_from(at) else { break };
            memory::push(&mut index, (hash(without_version(&name)), at))?;
        }
        index.sort_unstable();
        index.shrink_to_fit();
        Ok(ByName(index))
    }

    /// Entries that may have the name, by address.
    pub(super) fn candidates(&self, name: &[u8]) -> impl Iterator<Item = usize> {
        // A name asked for may itself have a version.
        let key = hash(without_version(name));
        let from = self.0.partition_point(|&(h, _)| h < key);
        self.0.iter().skip(from).take_while(move |&&(h, _)| h == key).map(|&(_, at)| at as usize)
    }

    pub(super) fn memory(&self) -> usize {
        memory::buffer(&self.0)
    }
}

/// The name up to the `@@` of its default version.
pub(in crate::symbol) fn without_version(name: &[u8]) -> &[u8] {
    let end = name.windows(2).position(|w| w == b"@@").unwrap_or(name.len());
    name.get(..end).unwrap_or_default()
}

fn hash(name: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    let h = hasher.finish();
    (h ^ h >> 32) as u32
}
