//! The functions that a dlfilter may call, and what they answer from.

use std::cell::RefCell;
use std::ffi::{CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::abi::{Functions, Location, Sample};
use super::sample::{ATTR_WORDS, Words, native_attr};
use crate::abi::misc::CpuMode;
use crate::evlist::Evlist;
use crate::plugin::resolve::{Place, Resolver, Whose};
use crate::plugin::strings::Strings;
use crate::session::{DsoKind, HOST, Map, Session};

/// Longest instruction of x86, bytes.
const INSN_MAX: usize = 15;
/// Size of a location as filters of old know it.
const OLD_LOCATION: usize = 80;
/// `EM_X86_64` of `elf.h`.
const X86_64: u16 = 62;
/// `EM_386` of `elf.h`.
const I386: u16 = 3;

/// What the filter is being called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing: nobody should be asking.
    Idle,
    /// `start` or `stop`, where arguments alone are to be had.
    Edge,
    /// A sample.
    Sample,
}

/// What stands behind a filter's `ctx`.
///
/// Only ever reached through the raw pointer that the filter is given: while it runs, nobody holds a reference.
pub(super) struct Host {
    args: Vec<CString>,
    argv: Vec<*mut c_char>,
    pub phase: Phase,
    /// Of each event the sample that the filter is told, with what was last filled in.
    pub samples: Vec<Sample>,
    pub words: Words,
    pub event: usize,
    /// The session and the events; valid in [`Phase::Sample`] alone.
    pub session: *mut Session,
    pub evlist: *const Evlist,
    pub strings: Strings,
    resolver: Rc<RefCell<Resolver>>,
    ip: Location,
    addr: Location,
    /// The map of `ip`, once looked up.
    map: Option<Option<Arc<Map>>>,
    insn: [u8; INSN_MAX],
    attr: [u64; ATTR_WORDS],
    ids: FxHashMap<u32, Box<[u8]>>,
}

/// A location that says nothing; `size` 0 means that it has not been asked for.
const NOWHERE: Location = Location {
    size: 0,
    symoff: 0,
    sym: null(),
    addr: 0,
    sym_start: 0,
    sym_end: 0,
    dso: null(),
    sym_binding: 0,
    is_64_bit: 0,
    is_kernel_ip: 0,
    buildid_size: 0,
    buildid: null(),
    filtered: 0,
    comm: null(),
    private: null_mut(),
};

impl Host {
    pub fn new(args: &[OsString], resolver: Rc<RefCell<Resolver>>) -> Self {
        let args: Vec<CString> =
            args.iter().map(|arg| CString::new(arg.as_bytes()).unwrap_or_default()).collect();
        let argv = args.iter().map(|arg| arg.as_ptr().cast_mut()).chain([null_mut()]).collect();
        Host {
            args,
            argv,
            phase: Phase::Idle,
            samples: Vec::new(),
            words: Words::default(),
            event: 0,
            session: null_mut(),
            evlist: null(),
            strings: Strings::default(),
            resolver,
            ip: NOWHERE,
            addr: NOWHERE,
            map: None,
            insn: [0; INSN_MAX],
            attr: [0; ATTR_WORDS],
            ids: FxHashMap::default(),
        }
    }

    /// Forgets what was answered for the last sample.
    #[inline]
    pub fn next_sample(&mut self) {
        self.phase = Phase::Sample;
        self.ip.size = 0;
        self.addr.size = 0;
        self.map = None;
    }

    /// The session. Only in [`Phase::Sample`].
    fn session(&mut self) -> Option<&mut Session> {
        if self.phase != Phase::Sample {
            return None;
        }
        // SAFETY: in this phase the pointer is the caller's exclusive reference, which it lent for the time of the call
        // and does not use before the call returns; it is null or valid.
        unsafe { self.session.as_mut() }
    }

    /// What is asked of the sample at hand: nothing, before there is one.
    fn of_sample<T: Default>(&self, what: impl FnOnce(&Sample) -> T) -> T {
        self.samples.get(self.event).map(what).unwrap_or_default()
    }

    fn ip(&self) -> u64 {
        self.of_sample(|sample| sample.ip)
    }

    fn whose(&mut self) -> Whose {
        let (pid, tid) = self.of_sample(|sample| (sample.pid, sample.tid));
        let mode = self.mode();
        let machine = self.session().map_or(HOST, |session| session.machine_of(mode, None, pid));
        Whose { machine, pid, tid }
    }

    fn mode(&self) -> CpuMode {
        CpuMode::from_misc(self.of_sample(|sample| sample.misc))
    }

    fn place(&mut self, ip: u64, fallback: bool) -> Option<Place> {
        let (whose, mode) = (self.whose(), self.mode());
        let resolver = Rc::clone(&self.resolver);
        let session = self.session()?;
        Some(resolver.borrow_mut().place(session, whose, mode, ip, fallback))
    }

    fn is_kernel(&mut self, machine: i32, address: u64) -> bool {
        self.session()
            .and_then(|session| session.machines().get(machine))
            .is_some_and(|machine| address >= machine.kernel_start())
    }

    fn location(&mut self, place: &Place, address: u64) -> Location {
        let mut al = NOWHERE;
        al.size = size_of::<Location>() as u32;
        al.addr = place.addr;
        let machine = self.whose().machine;
        al.is_kernel_ip = u8::from(self.is_kernel(machine, address));
        if let Some(map) = &place.map {
            let dso = map.dso();
            al.dso = self.strings.pointer(dso.shown_name());
            let (is_64, id) = {
                let mut resolver = self.resolver.borrow_mut();
                (resolver.is_64_bit(dso), resolver.build_id(dso))
            };
            al.is_64_bit = u8::from(is_64);
            if let Some(id) = id {
                let bytes = self.ids.entry(dso.id().0).or_insert_with(|| id.as_bytes().into());
                al.buildid = bytes.as_ptr();
                al.buildid_size = bytes.len() as u32;
            }
        }
        if let Some(symbol) = &place.symbol {
            al.sym = self.strings.pointer(&symbol.name);
            al.sym_start = symbol.start;
            al.sym_end = symbol.end;
            al.sym_binding = symbol.binding;
            al.symoff = place.addr.wrapping_sub(symbol.start) as u32;
        }
        al
    }

    fn resolve_ip(&mut self) -> *const Location {
        if self.phase != Phase::Sample {
            return null();
        }
        if self.ip.size == 0 {
            let ip = self.ip();
            let Some(place) = self.place(ip, false) else { return null() };
            let mut al = self.location(&place, ip);
            let whose = self.whose();
            let comm = self
                .session()
                .and_then(|session| session.thread(whose.machine, whose.pid, whose.tid))
                .and_then(|thread| thread.comm().cloned());
            al.comm = match comm {
                Some(comm) => self.strings.pointer(&comm),
                // What perf calls a thread that nothing gave a name.
                None => self.strings.pointer(format!(":{}", whose.tid).as_bytes()),
            };
            self.map = Some(place.map);
            self.ip = al;
        }
        &raw const self.ip
    }

    fn resolve_addr(&mut self) -> *const Location {
        if self.phase != Phase::Sample || self.of_sample(|sample| sample.addr_correlates_sym) == 0 {
            return null();
        }
        if self.addr.size == 0 {
            let addr = self.of_sample(|sample| sample.addr);
            let Some(place) = self.place(addr, true) else { return null() };
            self.addr = self.location(&place, addr);
        }
        &raw const self.addr
    }

    fn resolve_address(&mut self, address: u64) -> Option<Location> {
        let place = self.place(address, true)?;
        let mut al = self.location(&place, address);
        // Something to be cleaned up; what it leads to lives as long as the filter.
        al.private = (&raw mut self.ip).cast();
        Some(al)
    }

    /// The map of the instruction pointer.
    fn map(&mut self) -> Option<Arc<Map>> {
        if self.map.is_none() {
            let ip = self.ip();
            self.map = Some(self.place(ip, false)?.map);
        }
        self.map.clone().flatten()
    }

    fn insn(&mut self) -> Option<(*const u8, u32)> {
        let ip = self.ip();
        self.session()?;
        let map = self.map()?;
        let resolver = Rc::clone(&self.resolver);
        let mut resolver = resolver.borrow_mut();
        let bits = match resolver.e_machine(map.dso())? {
            X86_64 => 64,
            I386 => 32,
            // perf tells instructions apart on x86 alone.
            _ => return None,
        };
        let read = resolver.code(&map, ip, &mut self.insn)?;
        let code = self.insn.get(..read)?;
        let mut decoder = iced_x86::Decoder::with_ip(bits, code, ip, iced_x86::DecoderOptions::NONE);
        let insn = decoder.decode();
        (!insn.is_invalid()).then(|| (self.insn.as_ptr(), insn.len() as u32))
    }

    fn srcline(&mut self) -> Option<(*const c_char, u32)> {
        let ip = self.ip();
        self.session()?;
        let map = self.map()?;
        let (file, line) = self.resolver.borrow_mut().line(&map, ip)?;
        Some((self.strings.pointer(file.as_bytes()), line))
    }

    fn attr(&mut self) -> *const c_void {
        if self.phase != Phase::Sample {
            return null();
        }
        // SAFETY: in this phase the pointer is null or the events that the caller lent for the time of the call.
        let Some(evlist) = (unsafe { self.evlist.as_ref() }) else { return null() };
        let Some(evsel) = evlist.evsels().get(self.event) else { return null() };
        self.attr = native_attr(evsel.attr.bytes(), evsel.attr.order());
        self.attr.as_ptr().cast()
    }

    fn object_code(&mut self, ip: u64, buf: &mut [u8]) -> Option<usize> {
        self.session()?;
        let machine = self.whose().machine;
        let own = self.map().filter(|map| map.contains(ip));
        let same_side = own.is_some() && {
            let sample_ip = self.ip();
            self.is_kernel(machine, ip) == self.is_kernel(machine, sample_ip)
        };
        let map = if same_side { own? } else { self.place(ip, true)?.map? };
        if map.dso().kind() != DsoKind::User {
            return None;
        }
        self.resolver.borrow_mut().code(&map, ip, buf)
    }
}

/// The host that a filter's `ctx` stands for.
///
/// # Safety
/// `ctx` is null or what the filter was given, and the filter is in a call that the host made.
unsafe fn host<'a>(ctx: *mut c_void) -> Option<&'a mut Host> {
    // SAFETY: the pointer came from the host's own box, which outlives the filter, and while the filter runs the host
    // itself holds no reference to it.
    unsafe { ctx.cast::<Host>().as_mut() }
}

unsafe extern "C" fn resolve_ip(ctx: *mut c_void) -> *const Location {
    // SAFETY: called by a filter with its `ctx`.
    unsafe { host(ctx) }.map_or(null(), Host::resolve_ip)
}

unsafe extern "C" fn resolve_addr(ctx: *mut c_void) -> *const Location {
    // SAFETY: called by a filter with its `ctx`.
    unsafe { host(ctx) }.map_or(null(), Host::resolve_addr)
}

unsafe extern "C" fn args(ctx: *mut c_void, count: *mut c_int) -> *mut *mut c_char {
    // SAFETY: called by a filter with its `ctx`, and null or a place for an int.
    let (Some(host), Some(count)) = (unsafe { host(ctx) }, unsafe { count.as_mut() }) else {
        return null_mut();
    };
    *count = 0;
    if host.phase == Phase::Idle {
        return null_mut();
    }
    *count = c_int::try_from(host.args.len()).unwrap_or(c_int::MAX);
    host.argv.as_mut_ptr()
}

unsafe extern "C" fn resolve_address(ctx: *mut c_void, address: u64, to: *mut Location) -> i32 {
    // SAFETY: called by a filter with its `ctx`.
    let Some(host) = (unsafe { host(ctx) }) else { return -1 };
    if to.is_null() || host.phase != Phase::Sample {
        return -1;
    }
    // SAFETY: not null, and every generation of the structure begins with its size.
    let size = unsafe { (&raw const (*to).size).read() };
    let take = (size as usize).min(size_of::<Location>());
    if take < size_of::<u32>() {
        return -1;
    }
    let Some(mut al) = host.resolve_address(address) else { return -1 };
    al.size = size;
    // SAFETY: the filter says that its structure has that many bytes; they do not overlap with a local.
    unsafe { (&raw const al).cast::<u8>().copy_to_nonoverlapping(to.cast(), take) };
    0
}

unsafe extern "C" fn insn(ctx: *mut c_void, length: *mut u32) -> *const u8 {
    // SAFETY: called by a filter with its `ctx`, and null or a place for the length.
    let (Some(host), Some(length)) = (unsafe { host(ctx) }, unsafe { length.as_mut() }) else {
        return null();
    };
    let Some((code, len)) = host.insn() else { return null() };
    *length = len;
    code
}

unsafe extern "C" fn srcline(ctx: *mut c_void, number: *mut u32) -> *const c_char {
    // SAFETY: called by a filter with its `ctx`, and null or a place for the number.
    let (Some(host), Some(number)) = (unsafe { host(ctx) }, unsafe { number.as_mut() }) else {
        return null();
    };
    let Some((file, line)) = host.srcline() else { return null() };
    *number = line;
    file
}

unsafe extern "C" fn attr(ctx: *mut c_void) -> *const c_void {
    // SAFETY: called by a filter with its `ctx`.
    unsafe { host(ctx) }.map_or(null(), Host::attr)
}

unsafe extern "C" fn object_code(ctx: *mut c_void, ip: u64, to: *mut c_void, len: u32) -> i32 {
    /// More than any filter asks for at once; bounds what is set aside.
    const MOST: u32 = 1 << 20;
    // SAFETY: called by a filter with its `ctx`.
    let Some(host) = (unsafe { host(ctx) }) else { return -1 };
    if to.is_null() {
        return -1;
    }
    // Read into a buffer of ours: the filter's need not be initialised.
    let mut buf = vec![0; len.min(MOST) as usize];
    let Some(read) = host.object_code(ip, &mut buf) else { return -1 };
    let read = read.min(buf.len());
    // SAFETY: the filter says that there is room for `len` bytes, and `read` is no more.
    unsafe { buf.as_ptr().copy_to_nonoverlapping(to.cast(), read) };
    i32::try_from(read).unwrap_or(-1)
}

unsafe extern "C" fn al_cleanup(_ctx: *mut c_void, al: *mut Location) {
    if al.is_null() {
        return;
    }
    // SAFETY: not null, and every generation of the structure begins with its size.
    let size = unsafe { (&raw const (*al).size).read() };
    if size as usize > OLD_LOCATION {
        // SAFETY: the filter says that its structure reaches past this field.
        unsafe { (&raw mut (*al).private).write(null_mut()) };
    }
}

/// What a filter finds in its `perf_dlfilter_fns`.
pub(super) const FUNCTIONS: Functions = Functions {
    resolve_ip,
    resolve_addr,
    args,
    resolve_address,
    insn,
    srcline,
    attr,
    object_code,
    al_cleanup,
    reserved: [null(); 119],
};
