//! The functions that a plugin may call, and what they answer from.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;
use std::rc::Rc;

use repipe_plugin_abi as abi;
use repipe_plugin_abi::field as f;

use super::callchain::Chains;
use super::progress::Progress;
use super::unfinished::{self, Unfinished};
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
const SECTION_MOST: usize = 1 << 30;
/// Bytes of messages that are kept.
const LOG_MOST: usize = 1 << 16;

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
    logged: usize,
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

    fn evlist(&self) -> Option<&Evlist> {
        if self.phase == Phase::Idle {
            return None;
        }
        // SAFETY: in a hook the pointer is null or the events that the caller lent for the time of the call.
        unsafe { self.evlist.as_ref() }
    }

    fn session(&mut self) -> Option<&mut Session> {
        if self.phase != Phase::Records {
            return None;
        }
        // SAFETY: in this phase the pointer is the caller's exclusive reference, lent for the time of the call.
        unsafe { self.session.as_mut() }
    }

    /// A record at hand.
    fn told(&self, record: u32) -> Option<&abi::Record> {
        self.told.get(..self.count)?.get(record as usize).filter(|_| self.phase == Phase::Records)
    }

    /// A record at hand with its event, if it is a sample.
    fn sample(&self, record: u32) -> Option<(Record<'_>, &Evsel)> {
        let told = self.told(record)?;
        let evlist = self.evlist()?;
        // SAFETY: in this phase the pointer is to the record's bytes, which the caller lent for the time of the call.
        let bytes = unsafe { std::slice::from_raw_parts(told.bytes, told.len as usize) };
        let record = Record { bytes, order: evlist.order(), pos: told.pos };
        Some((record, evlist.evsels().get(told.evsel as usize)?))
    }

    fn place(&mut self, record: u32, cpumode: u32, address: u64) -> Option<Place> {
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

    fn locate(&mut self, record: u32, cpumode: u32, address: u64) -> Option<abi::Location> {
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

    fn comm(&mut self, record: u32) -> *const c_char {
        let Some(told) = self.told(record) else { return null() };
        let (pid, tid, own) = (told.pid, told.tid, CpuMode::from_misc(told.misc));
        let comm = self.session().and_then(|session| {
            let machine = session.machine_of(own, None, pid);
            session.thread(machine, pid, tid)?.comm().cloned()
        });
        comm.map_or(null(), |comm| self.strings.pointer(&comm))
    }

    fn field(&self, record: u32, which: u32) -> Option<abi::Field> {
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

    fn callchain(&mut self, record: u32) -> Option<&[u64]> {
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

    fn give(&mut self, record: u32, place: Where, bytes: &[u8]) -> i32 {
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

    fn feature(&self, feature: Feature) -> Option<&[u8]> {
        if self.phase == Phase::Idle {
            return None;
        }
        if let Some((_, edited)) = self.edits.iter().rev().find(|(id, _)| *id == feature) {
            return edited.as_deref();
        }
        self.features.iter().find(|(id, _)| *id == feature).map(|(_, bytes)| bytes.as_slice())
    }
}

/// The host that a plugin's `ctx` stands for.
///
/// # Safety
/// `ctx` is null or what the plugin was given.
pub(super) unsafe fn ctx<'a>(ctx: *mut c_void) -> Option<&'a mut Ctx> {
    // SAFETY: the pointer came from the host's own box, which outlives the plugin, and while a hook runs the host itself
    // holds no reference to it.
    unsafe { ctx.cast::<Ctx>().as_mut() }
}

/// Bytes that a plugin gives; `None` for a null pointer or more than could be meant.
///
/// # Safety
/// `bytes` is null or readable for `len` bytes.
unsafe fn given<'a>(bytes: *const u8, len: u64) -> Option<&'a [u8]> {
    let len = usize::try_from(len).ok().filter(|&len| len <= SECTION_MOST)?;
    // SAFETY: the plugin says so.
    (!bytes.is_null()).then(|| unsafe { std::slice::from_raw_parts(bytes, len) })
}

unsafe extern "C" fn resolve(
    host: *mut c_void,
    record: u32,
    cpumode: u32,
    address: u64,
    to: *mut abi::Location,
) -> i32 {
    // SAFETY: called by a plugin with its `ctx`.
    let Some(host) = (unsafe { ctx(host) }) else { return -1 };
    if to.is_null() {
        return -1;
    }
    // SAFETY: not null, and the structure begins with its size.
    let size = unsafe { (&raw const (*to).size).read() };
    let take = (size as usize).min(size_of::<abi::Location>());
    if take < size_of::<u64>() {
        return -1;
    }
    let Some(mut location) = host.locate(record, cpumode, address) else { return -1 };
    location.size = size;
    // SAFETY: the plugin says that its structure has that many bytes; they do not overlap with a local.
    unsafe { (&raw const location).cast::<u8>().copy_to_nonoverlapping(to.cast(), take) };
    0
}

unsafe extern "C" fn comm(host: *mut c_void, record: u32) -> *const c_char {
    // SAFETY: called by a plugin with its `ctx`.
    unsafe { ctx(host) }.map_or(null(), |host| host.comm(record))
}

unsafe extern "C" fn attr(host: *mut c_void, evsel: u32, size: *mut u32) -> *const u8 {
    // SAFETY: called by a plugin with its `ctx`.
    let Some(host) = (unsafe { ctx(host) }) else { return null() };
    let Some(evsel) = host.evlist().and_then(|evlist| evlist.evsels().get(evsel as usize)) else {
        return null();
    };
    let bytes = evsel.attr.bytes();
    // SAFETY: null, or a place for the size.
    if let Some(size) = unsafe { size.as_mut() } {
        *size = bytes.len() as u32;
    }
    bytes.as_ptr()
}

unsafe extern "C" fn event_name(host: *mut c_void, evsel: u32) -> *const c_char {
    // SAFETY: called by a plugin with its `ctx`.
    let Some(host) = (unsafe { ctx(host) }) else { return null() };
    let name = host
        .evlist()
        .filter(|evlist| (evsel as usize) < evlist.evsels().len())
        .map(|evlist| host.names.name(evlist, evsel as usize));
    name.map_or(null(), |name| host.strings.pointer(name.as_bytes()))
}

unsafe extern "C" fn field(host: *mut c_void, record: u32, which: u32, to: *mut abi::Field) -> i32 {
    // SAFETY: called by a plugin with its `ctx`, and null or a place for the field.
    let (Some(host), Some(to)) = (unsafe { ctx(host) }, unsafe { to.as_mut() }) else { return -1 };
    match host.field(record, which) {
        Some(field) => {
            *to = field;
            0
        }
        None => -1,
    }
}

/// # Safety
/// As [`ctx`] and [`given`].
unsafe fn put(host: *mut c_void, record: u32, to: Where, bytes: *const u8, len: u64) -> i32 {
    // SAFETY: called by a plugin with its `ctx` and bytes of its own.
    match (unsafe { ctx(host) }, unsafe { given(bytes, len) }) {
        (Some(host), Some(bytes)) => host.give(record, to, bytes),
        _ => -1,
    }
}

unsafe extern "C" fn replace(host: *mut c_void, record: u32, bytes: *const u8, len: u64) -> i32 {
    // SAFETY: as the plugin says.
    unsafe { put(host, record, Where::Instead, bytes, len) }
}

unsafe extern "C" fn insert_before(host: *mut c_void, record: u32, bytes: *const u8, len: u64) -> i32 {
    // SAFETY: as the plugin says.
    unsafe { put(host, record, Where::Before, bytes, len) }
}

unsafe extern "C" fn insert_after(host: *mut c_void, record: u32, bytes: *const u8, len: u64) -> i32 {
    // SAFETY: as the plugin says.
    unsafe { put(host, record, Where::After, bytes, len) }
}

unsafe extern "C" fn feature(host: *mut c_void, feature: u32, len: *mut u64) -> *const u8 {
    // SAFETY: called by a plugin with its `ctx`, and null or a place for the length.
    let (Some(host), Some(len)) = (unsafe { ctx(host) }, unsafe { len.as_mut() }) else { return null() };
    let Some(bytes) = host.feature(Feature(feature)) else { return null() };
    *len = bytes.len() as u64;
    bytes.as_ptr()
}

unsafe extern "C" fn set_feature(host: *mut c_void, feature: u32, bytes: *const u8, len: u64) -> i32 {
    // SAFETY: called by a plugin with its `ctx`.
    let Some(host) = (unsafe { ctx(host) }).filter(|host| host.phase != Phase::Idle) else { return -1 };
    if !host.edits_features || len > SECTION_MOST as u64 || feature >= crate::abi::feature::FEATURE_BITS {
        return -1;
    }
    // SAFETY: bytes of the plugin's own, or null for none.
    let bytes = unsafe { given(bytes, len) }.map(<[u8]>::to_vec);
    host.edits.retain(|(id, _)| *id != Feature(feature));
    host.edits.push((Feature(feature), bytes));
    0
}

/// # Safety
/// `text` is null or a C string.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::from("no reason given");
    }
    // SAFETY: not null; the plugin says that it ends in a NUL.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn log(host: *mut c_void, level: u32, line: *const c_char) {
    // SAFETY: called by a plugin with its `ctx` and a C string or null.
    let (Some(host), line) = (unsafe { ctx(host) }, unsafe { text(line) }) else { return };
    if host.phase != Phase::Idle && host.logged < LOG_MOST {
        host.logged += line.len() + 1;
        host.log.push(Logged { is_warning: level == 0, line });
    }
}

unsafe extern "C" fn fail_at(host: *mut c_void, record: u32, why: *const c_char) {
    // SAFETY: called by a plugin with its `ctx` and a C string or null.
    let (Some(host), why) = (unsafe { ctx(host) }, unsafe { text(why) }) else { return };
    if host.phase != Phase::Idle {
        host.failure = Some(why);
        host.failed_at = Some(record);
    }
}

unsafe extern "C" fn progress(host: *mut c_void, done: u64, total: u64) {
    // SAFETY: called by a plugin with its `ctx`.
    if let Some(host) = unsafe { ctx(host) }.filter(|host| host.phase != Phase::Idle) {
        host.progress.show(done, total);
    }
}

unsafe extern "C" fn callchain(host: *mut c_void, record: u32, count: *mut u32) -> *const u64 {
    // SAFETY: called by a plugin with its `ctx`, and null or a place for the number.
    let (Some(host), Some(count)) = (unsafe { ctx(host) }, unsafe { count.as_mut() }) else { return null() };
    let Some(chain) = host.callchain(record) else { return null() };
    *count = chain.len() as u32;
    chain.as_ptr()
}

unsafe extern "C" fn fail(host: *mut c_void, why: *const c_char) {
    // SAFETY: called by a plugin with its `ctx` and a C string or null.
    let (Some(host), why) = (unsafe { ctx(host) }, unsafe { text(why) }) else { return };
    if host.phase != Phase::Idle {
        host.failure = Some(why);
    }
}

/// What plugins are given.
pub(super) static HOST: abi::Host = abi::Host {
    size: size_of::<abi::Host>() as u32,
    abi_minor: abi::ABI_MINOR,
    resolve,
    comm,
    attr,
    event_name,
    field,
    replace,
    insert_before,
    insert_after,
    feature,
    set_feature,
    log,
    fail,
    fail_at: Some(fail_at),
    progress: Some(progress),
    callchain: Some(callchain),
    unfinished: Some(unfinished::function),
};
