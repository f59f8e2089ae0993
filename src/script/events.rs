//! The recording's events as they are shown: names, and which fields each prints.

use std::sync::Arc;

use super::fields::{Class, Fields, PLACE, Selection, name_of};
use crate::abi::attr::event_type;
use crate::abi::feature::Feature;
use crate::abi::sample as s;
use crate::error::{Error, Result};
use crate::evlist::Attr;
use crate::header::features::event_desc::EventDesc;
use crate::header::{AttrEntry, Header};

/// Software events whose data address is one of code that symbols are shown for: page faults of all kinds.
const PAGE_FAULTS: [u64; 3] = [2, 5, 6];

/// An event as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub name: String,
    pub fields: Fields,
    /// Whether its samples have callchains.
    pub has_callchain: bool,
    /// Whether symbol and DSO of the data address are shown.
    pub addr_has_symbol: bool,
}

/// All events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Events {
    pub list: Vec<Event>,
    /// Width that names are padded to.
    pub width: usize,
    /// Whether callchains are shown.
    pub callchains: bool,
}

/// Gives a name to an event that the recording does not name.
pub type NameOf = fn(&Attr) -> String;

impl Events {
    /// From what the recording says of its events. Errors if the user asked for what no event has.
    pub fn new(header: &Header, mut selection: Selection, callchains: bool, name: NameOf) -> Result<Events> {
        let attrs = &header.attrs;
        let callchains = callchains && attrs.iter().any(|a| a.attr.sample_type() & s::CALLCHAIN != 0);
        let names = names(header, name);
        for class in
            [Class::Hw, Class::Sw, Class::Trace, Class::Cache, Class::Raw, Class::Break, Class::Other]
        {
            // perf goes by the first event of a type.
            let first = attrs.iter().zip(&names).find(|(a, _)| Class::of(a.attr.event_type()) == class);
            check(class, first, &mut selection)?;
        }
        let has_chain = |a: &AttrEntry| a.attr.sample_type() & s::CALLCHAIN != 0;
        let tracepoints_have =
            attrs.iter().any(|a| Class::of(a.attr.event_type()) == Class::Trace && has_chain(a));
        let traces = selection.of_mut(Class::Trace);
        if callchains && tracepoints_have && !traces.set {
            traces.fields = traces.fields.with(PLACE);
        }
        let event = |(entry, name): (&AttrEntry, String)| Event {
            name,
            fields: selection.of(Class::of(entry.attr.event_type())).fields,
            has_callchain: callchains && has_chain(entry),
            addr_has_symbol: entry.attr.event_type() == event_type::SOFTWARE
                && PAGE_FAULTS.contains(&entry.attr.config()),
        };
        let list: Vec<Event> = attrs.iter().zip(names).map(event).collect();
        let width = list.iter().map(|e| e.name.len()).max().unwrap_or(0);
        Ok(Events { list, width, callchains })
    }

    /// Errors if the first event of any type has no CPU in its samples, so that they can't be chosen by it.
    pub fn require_cpu(&self, header: &Header) -> Result<()> {
        let mut seen = Vec::new();
        for (entry, event) in header.attrs.iter().zip(&self.list) {
            let class = Class::of(entry.attr.event_type());
            if !seen.contains(&class) {
                seen.push(class);
                if class != Class::Other && entry.attr.sample_type() & s::CPU == 0 {
                    return Err(Error::usage(format!(
                        "samples of {} have no CPU, so they can't be chosen by it",
                        event.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Whether any event shows one of the fields.
    pub fn any(&self, field: Fields) -> bool {
        self.list.iter().any(|event| event.fields.has(field))
    }
}

/// Drops fields that the events of a class don't have, unless the user named them.
fn check(class: Class, first: Option<(&AttrEntry, &String)>, selection: &mut Selection) -> Result<()> {
    let choice = selection.of_mut(class);
    let Some((entry, name)) = first else { return Ok(()) };
    let needs = [
        (Fields::IP, s::IP),
        (Fields::ADDR, s::ADDR),
        (Fields::PID, s::TID),
        (Fields::TID, s::TID),
        (Fields::TIME, s::TIME),
        (Fields::CPU, s::CPU),
        (Fields::DATA_SRC, s::DATA_SRC),
        (Fields::WEIGHT, s::WEIGHT | s::WEIGHT_STRUCT),
        (Fields::INS_LAT, s::WEIGHT_STRUCT),
        (Fields::RETIRE_LAT, s::WEIGHT_STRUCT),
        (Fields::PHYS_ADDR, s::PHYS_ADDR),
    ];
    for (field, bits) in needs {
        if choice.fields.has(field) && entry.attr.sample_type() & bits == 0 {
            if choice.named.has(field) {
                return Err(Error::usage(format!(
                    "samples of {name} have no {}, so it can't be shown",
                    name_of(field)
                )));
            }
            choice.fields = choice.fields.without(field);
        }
    }
    let fields = choice.fields;
    if fields.has(Fields::SYMOFF) && !fields.has(Fields::SYM) {
        return Err(Error::usage("offsets in symbols are asked for, but not sym"));
    }
    Ok(())
}

/// Names by EVENT_DESC, or else by the attr.
fn names(header: &Header, name: NameOf) -> Vec<String> {
    let described = header
        .feature(Feature::EVENT_DESC)
        .and_then(|section| EventDesc::parse(section, header.order).ok())
        .map(|desc| desc.events)
        .unwrap_or_default();
    // By id where events have ids: the order need not be the same.
    let by_id = |entry: &AttrEntry| {
        let first = entry.ids.first()?;
        described.iter().find(|d| d.ids.contains(first))
    };
    let of = |(index, entry): (usize, &AttrEntry)| {
        let found = by_id(entry).or_else(|| described.get(index).filter(|_| entry.ids.is_empty()));
        match found {
            Some(event) if !event.name.is_empty() => String::from_utf8_lossy(event.name).into_owned(),
            _ => name(&entry.attr),
        }
    };
    header.attrs.iter().enumerate().map(of).collect()
}

/// Shared with the printer.
pub(super) type Shared = Arc<Events>;
