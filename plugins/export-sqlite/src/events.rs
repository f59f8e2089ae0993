//! Events: their rows, and what their samples have.

use repipe_plugin::{Host, Order, field};
use rusqlite::params;

use crate::database::{Database, Row};

/// Bits of `perf_event_attr.sample_type`.
const ADDR: u64 = 1 << 3;
const WEIGHT: u64 = 1 << 14;
const DATA_SRC: u64 = 1 << 15;
const TRANSACTION: u64 = 1 << 17;
const WEIGHT_STRUCT: u64 = 1 << 24;

/// Where the flags of an attr are, and the number of that flag.
const FLAGS: usize = 40;
const COMM_EXEC: u32 = 24;

/// What perf has for a data source where none was recorded: each part not available.
const NO_DATA_SRC: u64 = 0x1e_0508_0021;

/// Types of events and, of software events, the page faults, of hardware events the bit by which perf knows branches.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const PAGE_FAULTS: [u64; 3] = [2, 5, 6];
const BRANCHES: u64 = 4;

/// An event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    /// Its row.
    pub id: Row,
    sample_type: u64,
    correlates: bool,
}

impl Event {
    /// Whether its samples have an address besides the instruction's.
    pub fn has_addr(&self) -> bool {
        self.sample_type & ADDR != 0
    }

    /// Whether that address is one in a DSO: that of a page fault, or where a branch went.
    pub fn addr_is_code_or_data(&self) -> bool {
        self.has_addr() && self.correlates
    }

    fn word(&self, bits: u64, which: u32, host: &mut Host<'_>) -> Option<u64> {
        if self.sample_type & bits == 0 {
            return None;
        }
        host.field(which).map(|field| field.value)
    }

    /// The weight; 0 without.
    pub fn weight(&self, host: &mut Host<'_>) -> u64 {
        let word = self.word(WEIGHT | WEIGHT_STRUCT, field::WEIGHT, host).unwrap_or(0);
        // Of the three weights of the later layout, it is the one of 32 bits.
        if self.sample_type & WEIGHT_STRUCT != 0 { word & u64::from(u32::MAX) } else { word }
    }

    /// Flags of a transaction; 0 without.
    pub fn transaction(&self, host: &mut Host<'_>) -> u64 {
        self.word(TRANSACTION, field::TRANSACTION, host).unwrap_or(0)
    }

    /// Where data came from.
    pub fn data_src(&self, host: &mut Host<'_>) -> u64 {
        self.word(DATA_SRC, field::DATA_SRC, host).unwrap_or(NO_DATA_SRC)
    }
}

/// Whether some event known so far asks that COMM says whether it is of an exec.
pub fn tells_exec(host: &mut Host<'_>) -> bool {
    let order = host.order();
    // Bit-fields begin at the other end of the word in the other byte order.
    let bit = if order == Order::Big { 63 - COMM_EXEC } else { COMM_EXEC };
    let flags = (0..).map_while(|index| host.attr(index).map(|attr| order.u64(attr, FLAGS).unwrap_or(0)));
    flags.fold(0, |all, flags| all | flags) >> bit & 1 == 1
}

/// Events by their index, those that had samples.
#[derive(Default)]
pub struct Events {
    known: Vec<Option<Event>>,
    count: Row,
}

impl Events {
    /// An event; its row goes in with its first sample.
    pub fn event(&mut self, db: &Database, index: u32, host: &mut Host<'_>) -> Result<Event, String> {
        let at = index as usize;
        if let Some(Some(event)) = self.known.get(at) {
            return Ok(*event);
        }
        let order = host.order();
        let attr = host.attr(index).ok_or("a sample of no event")?;
        let word = |at| order.u64(attr, at).unwrap_or(0);
        let (config, period, sample_type) = (word(8), word(16), word(24));
        let correlates = match order.u32(attr, 0) {
            Some(SOFTWARE) => PAGE_FAULTS.contains(&config),
            Some(HARDWARE) => config & BRANCHES != 0 && period == 1,
            _ => false,
        };
        self.count += 1;
        let event = Event { id: self.count, sample_type, correlates };
        let name = String::from_utf8_lossy(host.event_name(index).unwrap_or_default()).into_owned();
        db.insert("INSERT INTO selected_events VALUES (?, ?)", params![event.id, name])?;
        // The host has an event of that index, so there are not many more.
        if self.known.len() <= at {
            self.known.resize(at + 1, None);
        }
        self.known.get_mut(at).into_iter().for_each(|known| *known = Some(event));
        Ok(event)
    }
}
