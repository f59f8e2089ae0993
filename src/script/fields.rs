//! Which fields are printed, by type of event: defaults, and `-F` as perf takes it.

use crate::abi::attr::event_type;
use crate::error::{Error, Result};

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields(u32);

impl Fields {
    /// Name of the thread.
    pub const COMM: Fields = Fields(1);
    /// Process id.
    pub const PID: Fields = Fields(1 << 1);
    /// Thread id.
    pub const TID: Fields = Fields(1 << 2);
    /// Time.
    pub const TIME: Fields = Fields(1 << 3);
    /// CPU.
    pub const CPU: Fields = Fields(1 << 4);
    /// Name of the event.
    pub const EVENT: Fields = Fields(1 << 5);
    /// Instruction pointer; with it the callchain.
    pub const IP: Fields = Fields(1 << 6);
    /// Symbol.
    pub const SYM: Fields = Fields(1 << 7);
    /// Offset in the symbol.
    pub const SYMOFF: Fields = Fields(1 << 8);
    /// DSO.
    pub const DSO: Fields = Fields(1 << 9);
    /// Data address.
    pub const ADDR: Fields = Fields(1 << 10);
    /// Period.
    pub const PERIOD: Fields = Fields(1 << 11);
    /// In which mode the CPU was, by a letter.
    pub const MISC: Fields = Fields(1 << 12);
    /// Where the data of a memory access came from.
    pub const DATA_SRC: Fields = Fields(1 << 17);
    /// How costly a memory access was.
    pub const WEIGHT: Fields = Fields(1 << 13);
    /// Latency of the instruction, in cycles.
    pub const INS_LAT: Fields = Fields(1 << 14);
    /// Cycles until the instruction retired.
    pub const RETIRE_LAT: Fields = Fields(1 << 15);
    /// Physical data address.
    pub const PHYS_ADDR: Fields = Fields(1 << 16);

    /// Whether all of `other` are in it.
    pub fn has(self, other: Fields) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether none is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// With those of `other`.
    #[must_use]
    pub const fn with(self, other: Fields) -> Fields {
        Fields(self.0 | other.0)
    }

    /// Without those of `other`.
    #[must_use]
    pub fn without(self, other: Fields) -> Fields {
        Fields(self.0 & !other.0)
    }
}

/// Fields that few recordings have: words that a sample has behind it, in this order, where its event shows them.
pub(super) const EXTRAS: [Fields; 6] =
    [Fields::MISC, Fields::DATA_SRC, Fields::WEIGHT, Fields::INS_LAT, Fields::RETIRE_LAT, Fields::PHYS_ADDR];

/// Names of fields that are printed.
const NAMES: [(&str, Fields); 18] = [
    ("comm", Fields::COMM),
    ("pid", Fields::PID),
    ("tid", Fields::TID),
    ("time", Fields::TIME),
    ("cpu", Fields::CPU),
    ("event", Fields::EVENT),
    ("ip", Fields::IP),
    ("sym", Fields::SYM),
    ("symoff", Fields::SYMOFF),
    ("dso", Fields::DSO),
    ("addr", Fields::ADDR),
    ("period", Fields::PERIOD),
    ("misc", Fields::MISC),
    ("data_src", Fields::DATA_SRC),
    ("weight", Fields::WEIGHT),
    ("ins_lat", Fields::INS_LAT),
    ("retire_lat", Fields::RETIRE_LAT),
    ("phys_addr", Fields::PHYS_ADDR),
];

/// Types of events that fields are chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Hardware.
    Hw,
    /// Software.
    Sw,
    /// Tracepoints.
    Trace,
    /// Generalized caches.
    Cache,
    /// Raw codes of the CPU's PMU.
    Raw,
    /// Breakpoints.
    Break,
    /// Other PMUs.
    Other,
}

const CLASSES: usize = 7;

/// Prefixes of `-F`.
const PREFIXES: [(&str, Class); 5] = [
    ("hw", Class::Hw),
    ("sw", Class::Sw),
    ("trace", Class::Trace),
    ("raw", Class::Raw),
    ("break", Class::Break),
];

impl Class {
    /// By the type word of an attr.
    pub fn of(event_type: u32) -> Class {
        match event_type {
            event_type::HARDWARE => Class::Hw,
            event_type::SOFTWARE => Class::Sw,
            event_type::TRACEPOINT => Class::Trace,
            event_type::HW_CACHE => Class::Cache,
            event_type::RAW => Class::Raw,
            event_type::BREAKPOINT => Class::Break,
            _ => Class::Other,
        }
    }
}

const BASE: Fields = Fields::COMM.with(Fields::TID).with(Fields::CPU).with(Fields::TIME).with(Fields::EVENT);
/// What tells where a sample was taken.
pub(super) const PLACE: Fields = Fields::IP.with(Fields::SYM).with(Fields::SYMOFF).with(Fields::DSO);
const USUAL: Fields = BASE.with(PLACE).with(Fields::PERIOD);
/// What PMUs tell of memory accesses.
const MEMORY: Fields = Fields::ADDR
    .with(Fields::DATA_SRC)
    .with(Fields::WEIGHT)
    .with(Fields::INS_LAT)
    .with(Fields::RETIRE_LAT)
    .with(Fields::PHYS_ADDR);

/// The fields of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is printed.
    pub fields: Fields,
    /// What the user named, and so must be there.
    pub named: Fields,
    /// Whether the user said anything about this class.
    pub set: bool,
}

/// The fields of every class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection([Choice; CLASSES]);

impl Default for Selection {
    fn default() -> Self {
        let of = |fields| Choice { fields, named: Fields::default(), set: false };
        let mut all = [of(USUAL); CLASSES];
        all[Class::Trace as usize] = of(BASE);
        all[Class::Raw as usize] = of(USUAL.with(MEMORY));
        Selection(all)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Set,
    Add,
    Remove,
}

impl Selection {
    /// The choice for a class.
    pub fn of(&self, class: Class) -> &Choice {
        &self.0[class as usize]
    }

    pub(super) fn of_mut(&mut self, class: Class) -> &mut Choice {
        &mut self.0[class as usize]
    }

    /// Applies one `-F`: `[TYPE:]FIELD[,FIELD…]`, or each with `+` or `-` before it. A field without a type goes to
    /// all types.
    pub fn apply(&mut self, text: &str) -> Result<()> {
        let (class, list) = match text.split_once(':') {
            Some((prefix, list)) => {
                let found = PREFIXES.iter().find(|(name, _)| *name == prefix);
                let class = found.map(|&(_, class)| class).ok_or_else(|| {
                    Error::usage(format!("no type of event is called {prefix}"))
                        .hint("types are hw, sw, trace, raw and break")
                })?;
                (Some(class), list)
            }
            None if text.is_empty() => {
                return Err(Error::usage("no fields for any type of event"));
            }
            None => (None, text),
        };
        let classes = || {
            let all =
                [Class::Hw, Class::Sw, Class::Trace, Class::Cache, Class::Raw, Class::Break, Class::Other];
            all.into_iter().filter(move |&c| class.is_none_or(|class| class == c))
        };
        if !list.contains(['+', '-']) {
            for class_of in classes() {
                let choice = self.of_mut(class_of);
                *choice = Choice { fields: Fields::default(), named: Fields::default(), set: true };
            }
        }
        let mut before = None;
        for item in list.split(',').filter(|item| !item.is_empty()) {
            let (change, name) = match item.split_at_checked(1) {
                Some(("+", name)) => (Change::Add, name),
                Some(("-", name)) => (Change::Remove, name),
                _ => (Change::Set, item),
            };
            if before.is_some_and(|before| (before == Change::Set) != (change == Change::Set)) {
                return Err(Error::usage("fields with + or - can't be mixed with fields without"));
            }
            before = Some(change);
            let field = field(name)?;
            for class in classes() {
                let choice = self.of_mut(class);
                choice.set = true;
                if change == Change::Remove {
                    choice.fields = choice.fields.without(field);
                    choice.named = choice.named.without(field);
                } else {
                    choice.fields = choice.fields.with(field);
                    choice.named = choice.named.with(field);
                }
            }
        }
        Ok(())
    }
}

fn field(name: &str) -> Result<Fields> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found.map(|&(_, field)| field).ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        Error::usage(format!("no field is called {name}")).hint(format!("fields are {}", names.join(", ")))
    })
}

/// The name of a field, for messages.
pub(super) fn name_of(field: Fields) -> &'static str {
    NAMES.iter().find(|(_, known)| *known == field).map_or("", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn selection(options: &[&str]) -> Selection {
        let mut selection = Selection::default();
        options.iter().for_each(|text| selection.apply(text).unwrap());
        selection
    }

    #[test]
    fn a_list_replaces_and_signs_change() {
        let set = selection(&["ip,sym"]);
        assert_eq!(set.of(Class::Hw).fields, Fields::IP.with(Fields::SYM));
        assert_eq!(set.of(Class::Trace).fields, Fields::IP.with(Fields::SYM));
        let changed = selection(&["+addr,-period"]);
        assert_eq!(changed.of(Class::Sw).fields, USUAL.with(Fields::ADDR).without(Fields::PERIOD));
        assert_eq!(changed.of(Class::Sw).named, Fields::ADDR);
        assert!(Selection::default().apply("comm,+ip").is_err());
        assert!(Selection::default().apply("bogus").is_err());
        assert!(Selection::default().apply("").is_err());
    }

    #[test]
    fn a_prefix_names_one_type() {
        let sw = selection(&["sw:comm,ip"]);
        assert_eq!(sw.of(Class::Sw).fields, Fields::COMM.with(Fields::IP));
        assert!(sw.of(Class::Sw).set && !sw.of(Class::Hw).set);
        assert_eq!(sw.of(Class::Hw), Selection::default().of(Class::Hw));
        assert_eq!(selection(&["trace:"]).of(Class::Trace).fields, Fields::default());
        assert!(Selection::default().apply("soft:comm").is_err());
    }
}
