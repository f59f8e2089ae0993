//! Names of events, as plugins are told them, and the events of samples.

use crate::abi::feature::Feature;
use crate::evlist::{Attr, Evlist};
use crate::header::Header;
use crate::header::features::event_desc::EventDesc;

/// Gives a name to an event that the recording does not name.
pub type NameOf = fn(&Attr) -> String;

/// Names of the recording's events.
#[derive(Clone)]
pub struct EventNames {
    described: Vec<Option<String>>,
    fallback: NameOf,
}

impl EventNames {
    /// No names of the recording's own.
    pub fn new(fallback: NameOf) -> Self {
        EventNames { described: Vec::new(), fallback }
    }

    /// Takes the names that the recording gives.
    pub fn begin(&mut self, header: &Header) {
        let described = header
            .feature(Feature::EVENT_DESC)
            .and_then(|section| EventDesc::parse(section, header.order).ok())
            .map(|desc| desc.events)
            .unwrap_or_default();
        let name_of = |(index, ids): (usize, &Vec<u64>)| {
            // By id where events have ids: the order need not be the same.
            let found = match ids.first() {
                Some(id) => described.iter().find(|event| event.ids.contains(id)),
                None => described.get(index),
            };
            let name = found.map(|event| event.name).filter(|name| !name.is_empty())?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        self.described = header.attrs.iter().map(|entry| &entry.ids).enumerate().map(name_of).collect();
    }

    /// The name of an event by its index.
    pub fn name(&self, evlist: &Evlist, index: usize) -> String {
        let evsel = evlist.evsels().get(index);
        let told = evsel.and_then(|evsel| evsel.name.clone());
        let described = || self.described.get(index).cloned().flatten();
        told.or_else(described)
            .or_else(|| evsel.map(|evsel| (self.fallback)(&evsel.attr)))
            .unwrap_or_default()
    }
}
