//! What the functions that a plugin may call answer from.

use std::cell::RefCell;
use std::ffi::c_char;
use std::ptr::null;
use std::rc::Rc;

use repipe_plugin_abi as abi;
use repipe_plugin_abi::field as f;

use super::callchain::Chains;
use super::progress::Progress;
use super::unfinished::Unfinished;
use crate::abi::feature::Feature;
use crate::abi::misc::CpuMode;
use crate::event::{Record, sample};
use crate::evlist::{Evlist, Evsel};
use crate::plugin::events::EventNames;
use crate::plugin::resolve::{Place, Resolver, Whose};
use crate::plugin::strings::Strings;
use crate::session::Session;

/// Bytes that may go before, behind or in the place of one record: no recording needs more, so more is an endless loop.
const MOST: usize = 1 << 20;
/// More than any feature section is; bounds what a plugin makes the host look at and keep.
pub(super) const SECTION_MOST: usize = 1 << 30;
/// Bytes of messages that are kept.
pub(super) const LOG_MOST: usize = 1 << 16;

/// Which hook is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// None: nothing can be asked or given.
    Idle,
    /// `open`: events, features.
    Open,
    /// `records`: everything.
    Records,
    /// `finish`: events, features.
    Finish,
}

/// What goes where around the record at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Before,
    Instead,
    After,
}

/// What is to go around a record.
pub(super) struct Gift {
    record: u32,
    place: Where,
    bytes: Vec<u8>,
}

/// A line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Whether something may be wrong.
    pub is_warning: bool,
    /// The line.
    pub line: String,
}

/// What stands behind a plugin's `ctx`. Only reached through the raw pointer that the plugin is given: while a hook runs,
/// nobody holds a reference.
pub(super) struct Ctx {
    pub phase: Phase,
    /// Valid in [`Phase::Records`] alone.
    pub session: *mut Session,
    /// The records at hand, as many as `count` says; their bytes are valid in [`Phase::Records`] alone.
    pub told: Vec<abi::Record>,
    pub count: usize,
    pub verdicts: Vec<u8>,
    pub given: Vec<Gift>,
    /// Valid in any phase but [`Phase::Idle`].
    pub evlist: *const Evlist,
    pub names: EventNames,
    pub strings: Strings,
    pub resolver: Rc<RefCell<Resolver>>,
    pub progress: Progress,
    pub unfinished: Unfinished,
    /// Callchains, if the plugin has said that it asks for them.
    pub chains: Option<Chains>,
    pub failure: Option<String>,
    /// At which record, if the plugin or the host knows.
    pub failed_at: Option<u32>,
    pub log: Vec<Logged>,
    pub(super) logged: usize,
    /// Whether it has said that it edits feature sections.
    pub edits_features: bool,
    /// Feature sections of the input.
    pub features: Vec<(Feature, Vec<u8>)>,
    /// What becomes of them; `None` leaves one out.
    pub edits: Vec<(Feature, Option<Vec<u8>>)>,
}

/// A record that says nothing.
pub(super) const NO_RECORD: abi::Record = abi::Record {
    bytes: null(),
    len: 0,
    ty: 0,
    pos: 0,
    time: abi::NONE,
    id: abi::NONE,
    ip: 0,
    period: 0,
    pid: -1,
    tid: -1,
    cpu: -1,
    evsel: u32::MAX,
    misc: 0,
    cpumode: 0,
    reserved: [0; 5],
};

impl Ctx {
    pub fn new(names: EventNames, resolver: Rc<RefCell<Resolver>>) -> Self {
        Ctx {
            phase: Phase::Idle,
            session: std::ptr::null_mut(),
            told: Vec::new(),
            count: 0,
            verdicts: Vec::new(),
            given: Vec::new(),
            evlist: null(),
            names,
            strings: Strings::default(),
            resolver,
            progress: Progress::default(),
            unfinished: Unfinished::default(),
            chains: None,
            failure: None,
            failed_at: None,
            log: Vec::new(),
            logged: 0,
            edits_features: false,
            features: Vec::new(),
            edits: Vec::new(),
        }
    }

    /// What was given to go at a place around a record.
    pub fn given_for(&self, record: u32, place: Where) -> Option<&[u8]> {
        let gift = self.given.iter().find(|gift| gift.record == record && gift.place == place)?;
        Some(&gift.bytes)
    }

    pub(super) fn evlist(&self) -> Option<&Evlist> {
        if self.phase == Phase::Idle {
            return None;
        }
        // SAFETY: in a hook the pointer is null or the events that the caller lent for the time of the call.
        unsafe { self.evlist.as_ref() }
    }

    pub(super) fn session(&mut self) -> Option<&mut Session> {
        if self.phase != Phase::Records {
            return None;
        }
        // SAFETY: in this phase the pointer is the caller's exclusive reference, lent for the time of the call.
        unsafe { self.session.as_mut() }
    }

    /// A record at hand.
    pub(super) fn told(&self, record: u32) -> Option<&abi::Record> {
        self.told.get(..self.count)?.get(record as usize).filter(|_| self.phase == Phase::Records)
    }

    /// A record at hand with its event, if it is a sample.
    pub(super) fn sample(&self, record: u32) -> Option<(Record<'_>, &Evsel)> {
        let told = self.told(record)?;
        let evlist = self.evlist()?;
        // SAFETY: in this phase the pointer is to the record's bytes, which the caller lent for the time of the call.
        let bytes = unsafe { std::slice::from_raw_parts(told.bytes, told.len as usize) };
        let record = Record { bytes, order: evlist.order(), pos: told.pos };
        Some((record, evlist.evsels().get(told.evsel as usize)?))
    }

    pub(super) fn place(&mut self, record: u32, cpumode: u32, address: u64) -> Option<Place> {
        let told = self.told(record)?;
        let (pid, tid, own) = (told.pid, told.tid, CpuMode::from_misc(told.misc));
        let (mode, fallback) = match u16::try_from(cpumode) {
            Ok(mode) => (CpuMode::from_misc(mode), false),
            Err(_) => (own, true),
        };
        let resolver = Rc::clone(&self.resolver);
        let session = self.session()?;
        let whose = Whose { machine: session.machine_of(own, None, pid), pid, tid };
        Some(resolver.borrow_mut().place(session, whose, mode, address, fallback))
    }

    pub(super) fn locate(&mut self, record: u32, cpumode: u32, address: u64) -> Option<abi::Location> {
        let place = self.place(record, cpumode, address)?;
        let mut to = abi::Location {
            size: 0,
            found: u32::from(place.map.is_some()),
            address: place.addr,
            map_start: 0,
            map_end: 0,
            map_pgoff: 0,
            dso: null(),
            symbol: null(),
            symbol_start: 0,
            symbol_end: 0,
            symbol_binding: 0,
            build_id_size: 0,
            build_id: [0; 20],
            cpumode: u32::from(place.mode.bits()),
            dso_path: null(),
            dso_short_name: null(),
            dso_id: u32::MAX,
            reserved: 0,
        };
        if let Some(map) = &place.map {
            (to.map_start, to.map_end, to.map_pgoff) = (map.start(), map.end(), map.pgoff());
            let dso = map.dso();
            to.dso = self.strings.pointer(dso.shown_name());
            to.dso_path = self.strings.pointer(dso.long_name());
            to.dso_short_name = match dso.perf_map_pid() {
                Some(pid) => self.strings.pointer(format!("[JIT] tid {pid}").as_bytes()),
                None => self.strings.pointer(dso.short_name()),
            };
            to.dso_id = dso.id().0;
            if let Some(id) = self.resolver.borrow_mut().build_id(map.dso()) {
                let bytes = id.as_bytes();
                to.build_id_size = bytes.len().min(to.build_id.len()) as u32;
                to.build_id.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            }
        }
        if let Some(symbol) = &place.symbol {
            to.symbol = self.strings.pointer(&symbol.name);
            (to.symbol_start, to.symbol_end) = (symbol.start, symbol.end);
            to.symbol_binding = u32::from(symbol.binding);
        }
        Some(to)
    }

    pub(super) fn comm(&mut self, record: u32) -> *const c_char {
        let Some(told) = self.told(record) else { return null() };
        let (pid, tid, own) = (told.pid, told.tid, CpuMode::from_misc(told.misc));
        let comm = self.session().and_then(|session| {
            let machine = session.machine_of(own, None, pid);
            session.thread(machine, pid, tid)?.comm().cloned()
        });
        comm.map_or(null(), |comm| self.strings.pointer(&comm))
    }

    pub(super) fn field(&self, record: u32, which: u32) -> Option<abi::Field> {
        let (record, evsel) = self.sample(record)?;
        let layout = &evsel.layout;
        let word = |at: usize| abi::Field {
            offset: at as u32,
            len: 8,
            value: record.order.u64(record.bytes, at).unwrap_or(0),
        };
        match which {
            f::IP => return layout.ip.map(word),
            f::ADDR => return layout.addr.map(word),
            f::TIME => return layout.time.map(word),
            f::PERIOD => return layout.period.map(word),
            f::STREAM_ID => return layout.stream_id.map(word),
            _ => {}
        }
        let fields = sample::fields(record, layout).ok()?;
        let range = |range: std::ops::Range<usize>| abi::Field {
            offset: range.start as u32,
            len: range.len() as u32,
            value: 0,
        };
        let regs = |(abi, at): (u64, std::ops::Range<usize>)| abi::Field { value: abi, ..range(at) };
        match which {
            f::READ => fields.read.map(range),
            f::CALLCHAIN => fields.callchain.map(range),
            f::RAW => fields.raw.map(range),
            f::BRANCHES => fields.branches.map(range),
            f::REGS_USER => fields.regs_user.map(regs),
            f::STACK_USER => fields.stack_user.map(range),
            f::REGS_INTR => fields.regs_intr.map(regs),
            f::WEIGHT => fields.weight.map(word),
            f::DATA_SRC => fields.data_src.map(word),
            f::TRANSACTION => fields.transaction.map(word),
            f::PHYS_ADDR => fields.phys_addr.map(word),
            f::CGROUP => fields.cgroup.map(word),
            f::DATA_PAGE_SIZE => fields.data_page_size.map(word),
            f::CODE_PAGE_SIZE => fields.code_page_size.map(word),
            f::AUX => fields.aux.map(range),
            _ => None,
        }
    }

    pub(super) fn callchain(&mut self, record: u32) -> Option<&[u64]> {
        let told = self.told(record)?;
        let (pid, tid, own) = (told.pid, told.tid, CpuMode::from_misc(told.misc));
        let mut chains = self.chains.take()?;
        // SAFETY: a record is at hand, so the pointer is null or the caller's exclusive reference, lent for the time of
        // the call.
        let session = unsafe { self.session.as_mut() };
        let found = session.zip(self.sample(record)).and_then(|(session, (record, evsel))| {
            let whose = Whose { machine: session.machine_of(own, None, pid), pid, tid };
            chains.find(session, whose, record, &evsel.layout)
        });
        self.chains.insert(chains).entries().filter(|_| found.is_some())
    }

    pub(super) fn give(&mut self, record: u32, place: Where, bytes: &[u8]) -> i32 {
        if self.told(record).is_none() {
            return -1;
        }
        let known = self.given.iter().rposition(|gift| gift.record == record && gift.place == place);
        let at = known.unwrap_or_else(|| {
            self.given.push(Gift { record, place, bytes: Vec::new() });
            self.given.len() - 1
        });
        let Some(gift) = self.given.get_mut(at) else { return -1 };
        if gift.bytes.len() + bytes.len() > MOST {
            self.failure.get_or_insert_with(|| format!("gives more than {MOST} bytes for one record"));
            self.failed_at = Some(record);
            return -1;
        }
        gift.bytes.extend_from_slice(bytes);
        0
    }

    pub(super) fn feature(&self, feature: Feature) -> Option<&[u8]> {
        if self.phase == Phase::Idle {
            return None;
        }
        if let Some((_, edited)) = self.edits.iter().rev().find(|(id, _)| *id == feature) {
            return edited.as_deref();
        }
        self.features.iter().find(|(id, _)| *id == feature).map(|(_, bytes)| bytes.as_slice())
    }
}
