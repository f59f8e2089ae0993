//! The file header, event attributes and feature sections.
//!
//! A [`Header`] is what a recording says about itself, from whichever container: in a file it stands around the
//! data, in a pipe it comes as records at the head of the stream.

pub mod features;
mod file;
mod magic;

pub use file::{FileHeader, Section};
pub use magic::{Container, MAGIC, PIPE_HEADER_SIZE, detect};

use crate::abi::feature::{FEATURE_BITS, Feature};
use crate::bytes::ByteOrder;
use crate::evlist::{Attr, Evlist};

/// An attribute with its ids, as the recording has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrEntry {
    /// The attribute.
    pub attr: Attr,
    /// Ids of its counters.
    pub ids: Vec<u64>,
}

/// Which feature sections a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FeatureBits([u64; 4]);

impl FeatureBits {
    /// From the header's four words, bit 0 lowest.
    pub fn from_words(words: [u64; 4]) -> Self {
        FeatureBits(words)
    }

    /// The header's four words.
    pub fn words(&self) -> [u64; 4] {
        self.0
    }

    /// Whether the feature is there.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.get(feature.0 as usize / 64).is_some_and(|w| w >> (feature.0 % 64) & 1 == 1)
    }

    /// Adds a feature; ids from 256 on can't be said in a file and are left out.
    pub fn insert(&mut self, feature: Feature) {
        if let Some(w) = self.0.get_mut(feature.0 as usize / 64) {
            *w |= 1 << (feature.0 % 64);
        }
    }

    /// The features, ascending, which is the order of their sections' table.
    pub fn iter(&self) -> impl Iterator<Item = Feature> {
        let bits = *self;
        (0..FEATURE_BITS).map(Feature).filter(move |&f| bits.has(f))
    }
}

/// What a recording says about itself, whatever its container.
#[derive(Clone, Debug)]
pub struct Header {
    /// Byte order of everything.
    pub order: ByteOrder,
    /// Attributes with their ids.
    pub attrs: Vec<AttrEntry>,
    /// Feature sections: id and bytes, in the order in which they stand.
    pub features: Vec<(Feature, Vec<u8>)>,
}

impl Header {
    /// Nothing said yet.
    pub fn new(order: ByteOrder) -> Self {
        Header { order, attrs: Vec::new(), features: Vec::new() }
    }

    /// The bytes of a feature section.
    pub fn feature(&self, feature: Feature) -> Option<&[u8]> {
        self.features.iter().find(|(f, _)| *f == feature).map(|(_, b)| b.as_slice())
    }

    /// Sets a feature section in place, or adds it.
    pub fn set_feature(&mut self, feature: Feature, bytes: Vec<u8>) {
        match self.features.iter_mut().find(|(f, _)| *f == feature) {
            Some((_, old)) => *old = bytes,
            None => self.features.push((feature, bytes)),
        }
    }

    /// Removes a feature section; whether it was there.
    pub fn remove_feature(&mut self, feature: Feature) -> bool {
        let before = self.features.len();
        self.features.retain(|(f, _)| *f != feature);
        self.features.len() != before
    }

    /// A feature that is one string (u32 length, then the string with its NUL and padding).
    pub fn string_feature(&self, feature: Feature) -> Option<&[u8]> {
        let bytes = self.feature(feature)?;
        let len = self.order.u32(bytes, 0)? as usize;
        let rest = bytes.get(4..)?;
        Some(crate::bytes::until_nul(rest.get(..len.min(rest.len()))?))
    }

    /// The events, for parsing records.
    pub fn evlist(&self) -> Evlist {
        let mut evlist = Evlist::new(self.order);
        for entry in &self.attrs {
            evlist.push(entry.attr.clone(), entry.ids.clone());
        }
        evlist
    }
}
