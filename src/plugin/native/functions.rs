//! The functions that a plugin may call, as C has them.

use super::host::{Ctx, LOG_MOST, Logged, Phase, SECTION_MOST, Where};
use super::unfinished::{self};
use crate::abi::feature::Feature;
use repipe_plugin_abi as abi;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;

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
