//! The host that a harness plays: answers from what the test has set.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null;

use repipe_plugin_abi as abi;

use super::super::record::Order;
use super::super::{SAMPLE, field};
use super::records::{CHAIN, IP, PERIOD, Sample, TIME};

#[derive(Default)]
pub(super) struct State {
    pub(super) record: Option<abi::Record>,
    pub(super) is_open: bool,
    pub(super) out: [Vec<u8>; 3],
    pub(super) failure: Option<String>,
    pub(super) log: Vec<String>,
    pub(super) comm: Option<CString>,
    pub(super) symbol: Option<CString>,
    pub(super) dso: CString,
    pub(super) features: BTreeMap<u32, Vec<u8>>,
    pub(super) chain: Vec<u64>,
    pub(super) unfinished: Vec<String>,
}

/// Bytes of the host's table, so that a table of an older host can be made of it.
pub(super) type Table = [u64; size_of::<abi::Host>() / 8];

/// The table of a host of a minor version: what that does not have is no pointer.
pub(super) fn table(minor: u32) -> Box<Table> {
    let mut host = HOST;
    host.abi_minor = minor;
    let size = if minor == 0 { abi::v1_0::HOST } else { size_of::<abi::Host>() };
    host.size = size as u32;
    let mut table = Box::new([u64::MAX / 3; size_of::<abi::Host>() / 8]);
    // SAFETY: both are that large.
    unsafe { (&raw const host).cast::<u8>().copy_to_nonoverlapping(table.as_mut_ptr().cast(), size) };
    table
}

pub(super) fn split(mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let size = Order::Little.u16(bytes, 6).map(usize::from).filter(|&size| size >= 8 && size % 8 == 0);
        let (one, rest) = size.and_then(|size| bytes.split_at_checked(size)).ok_or("no whole records")?;
        records.push(one.to_vec());
        bytes = rest;
    }
    Ok(records)
}

/// # Safety
/// `ctx` is what the plugin was given, or null.
unsafe fn state<'a>(ctx: *mut c_void) -> Option<&'a mut State> {
    // SAFETY: the harness made it from its box, and uses it not while the plugin runs.
    unsafe { ctx.cast::<State>().as_mut() }.filter(|state| state.is_open)
}

unsafe extern "C" fn resolve(ctx: *mut c_void, _: u32, _: u32, address: u64, to: *mut abi::Location) -> i32 {
    // SAFETY: called by the SDK, which gives a whole structure.
    let (Some(state), Some(to)) = (unsafe { state(ctx) }, unsafe { to.as_mut() }) else { return -1 };
    if state.record.is_none() {
        return -1;
    }
    to.found = u32::from(!state.dso.is_empty());
    to.address = address;
    (to.map_start, to.map_end) = (0, u64::MAX);
    to.dso = state.dso.as_ptr();
    (to.dso_path, to.dso_short_name, to.dso_id) = (to.dso, to.dso, 0);
    to.symbol = state.symbol.as_ref().map_or(null(), |symbol| symbol.as_ptr());
    to.symbol_end = u64::MAX;
    0
}

unsafe extern "C" fn comm_of(ctx: *mut c_void, _: u32) -> *const c_char {
    // SAFETY: called by the SDK.
    unsafe { state(ctx) }.and_then(|state| state.comm.as_ref()).map_or(null(), |comm| comm.as_ptr())
}

/// The attr of cycles, with the fields that [`Sample`] has.
const ATTR: [u8; 128] = {
    // ip, tid, time, callchain, cpu, period.
    const SAMPLE_TYPE: u16 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 7 | 1 << 8;
    let mut attr = [0; 128];
    attr[4] = 128;
    attr[24] = SAMPLE_TYPE.to_le_bytes()[0];
    attr[25] = SAMPLE_TYPE.to_le_bytes()[1];
    attr
};

unsafe extern "C" fn attr(_: *mut c_void, evsel: u32, size: *mut u32) -> *const u8 {
    // SAFETY: called by the SDK, which gives a place.
    let Some(size) = (unsafe { size.as_mut() }).filter(|_| evsel == 0) else { return null() };
    *size = ATTR.len() as u32;
    ATTR.as_ptr()
}

unsafe extern "C" fn event_name(_: *mut c_void, evsel: u32) -> *const c_char {
    if evsel == 0 { c"cycles".as_ptr() } else { null() }
}

unsafe extern "C" fn field_of(ctx: *mut c_void, _: u32, which: u32, to: *mut abi::Field) -> i32 {
    // SAFETY: called by the SDK, which gives a place.
    let (Some(state), Some(to)) = (unsafe { state(ctx) }, unsafe { to.as_mut() }) else { return -1 };
    let Some(record) = state.record.filter(|record| record.ty == SAMPLE) else { return -1 };
    let (offset, len, value) = match which {
        field::IP => (IP, 8, record.ip),
        field::TIME => (TIME, 8, record.time),
        field::PERIOD => (PERIOD, 8, record.period),
        field::CALLCHAIN => (CHAIN, record.len as usize - CHAIN, 0),
        _ => return -1,
    };
    *to = abi::Field { offset: offset as u32, len: len as u32, value };
    0
}

/// # Safety
/// As the interface says.
unsafe fn put(ctx: *mut c_void, place: usize, bytes: *const u8, len: u64) -> i32 {
    // SAFETY: called by the SDK, which gives a slice's parts.
    let Some(state) = (unsafe { state(ctx) }).filter(|state| state.record.is_some()) else { return -1 };
    // SAFETY: as above.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len as usize) };
    state.out.get_mut(place).map_or(-1, |out| {
        out.extend_from_slice(bytes);
        0
    })
}

unsafe extern "C" fn insert_before(ctx: *mut c_void, _: u32, bytes: *const u8, len: u64) -> i32 {
    // SAFETY: called by the SDK.
    unsafe { put(ctx, 0, bytes, len) }
}

unsafe extern "C" fn replace(ctx: *mut c_void, _: u32, bytes: *const u8, len: u64) -> i32 {
    // SAFETY: called by the SDK.
    unsafe { put(ctx, 1, bytes, len) }
}

unsafe extern "C" fn insert_after(ctx: *mut c_void, _: u32, bytes: *const u8, len: u64) -> i32 {
    // SAFETY: called by the SDK.
    unsafe { put(ctx, 2, bytes, len) }
}

unsafe extern "C" fn feature(ctx: *mut c_void, id: u32, len: *mut u64) -> *const u8 {
    // SAFETY: called by the SDK, which gives a place.
    let (Some(state), Some(len)) = (unsafe { state(ctx) }, unsafe { len.as_mut() }) else { return null() };
    state.features.get(&id).map_or(null(), |bytes| {
        *len = bytes.len() as u64;
        bytes.as_ptr()
    })
}

unsafe extern "C" fn set_feature(ctx: *mut c_void, id: u32, bytes: *const u8, len: u64) -> i32 {
    // SAFETY: called by the SDK.
    let Some(state) = (unsafe { state(ctx) }) else { return -1 };
    if bytes.is_null() {
        state.features.remove(&id);
    } else {
        // SAFETY: a slice's parts.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, len as usize) };
        state.features.insert(id, bytes.to_vec());
    }
    0
}

fn text(pointer: *const c_char) -> String {
    // SAFETY: a C string of the SDK's.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn log(ctx: *mut c_void, _: u32, line: *const c_char) {
    // SAFETY: called by the SDK.
    if let Some(state) = unsafe { state(ctx) } {
        state.log.push(text(line));
    }
}

unsafe extern "C" fn fail_at(ctx: *mut c_void, record: u32, why: *const c_char) {
    // SAFETY: called by the SDK.
    if let Some(state) = unsafe { state(ctx) }.filter(|_| record == 0) {
        state.failure = Some(text(why));
    }
}

unsafe extern "C" fn progress(ctx: *mut c_void, done: u64, total: u64) {
    // SAFETY: called by the SDK.
    if let Some(state) = unsafe { state(ctx) } {
        state.log.push(format!("{done} of {total}"));
    }
}

unsafe extern "C" fn callchain(ctx: *mut c_void, _: u32, count: *mut u32) -> *const u64 {
    // SAFETY: called by the SDK, which gives a place.
    let (Some(state), Some(count)) = (unsafe { state(ctx) }, unsafe { count.as_mut() }) else {
        return null();
    };
    let Some(record) = state.record.filter(|record| record.ty == SAMPLE) else { return null() };
    // SAFETY: the record's bytes are there while it is shown.
    let bytes = unsafe { std::slice::from_raw_parts(record.bytes, record.len as usize) };
    state.chain = Sample::parse(bytes).map(|sample| sample.callchain).unwrap_or_default();
    *count = state.chain.len() as u32;
    state.chain.as_ptr()
}

unsafe extern "C" fn unfinished(ctx: *mut c_void, path: *const c_char, is: u32) -> i32 {
    // SAFETY: called by the SDK.
    let Some(state) = (unsafe { state(ctx) }) else { return -1 };
    let path = text(path);
    state.unfinished.retain(|other| *other != path);
    if is != 0 {
        state.unfinished.push(path);
    }
    0
}

unsafe extern "C" fn fail(ctx: *mut c_void, why: *const c_char) {
    // SAFETY: called by the SDK.
    if let Some(state) = unsafe { state(ctx) } {
        state.failure = Some(text(why));
    }
}

static HOST: abi::Host = abi::Host {
    size: size_of::<abi::Host>() as u32,
    abi_minor: abi::ABI_MINOR,
    resolve,
    comm: comm_of,
    attr,
    event_name,
    field: field_of,
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
    unfinished: Some(unfinished),
};
