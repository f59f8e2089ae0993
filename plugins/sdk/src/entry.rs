//! From the hooks of the interface to the trait.
#![expect(unsafe_code, reason = "called through the interface")]

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use repipe_plugin_abi as abi;

use super::args::{Args, OpenError};
use super::host::{Host, own};
use super::record::{Order, Record};
use super::{Info, Plugin, Verdict};

/// A plugin's descriptor; made by [`crate::export!`].
pub struct Descriptor(abi::Plugin);

// SAFETY: its pointers are to constants.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// For the host.
    pub fn get(&self) -> *const abi::Plugin {
        &raw const self.0
    }
}

/// The descriptor of a plugin.
pub const fn descriptor<P: Plugin>() -> Descriptor {
    let info = P::INFO;
    Descriptor(abi::Plugin {
        abi_major: abi::ABI_MAJOR,
        abi_minor: abi::ABI_MINOR,
        size: size_of::<abi::Plugin>() as u32,
        record_size: size_of::<abi::Record>() as u32,
        host_size: size_of::<abi::Host>() as u32,
        order: match (info.by_time, info.session || info.symbols || info.unwind) {
            (false, _) => abi::ORDER_FILE,
            (true, true) => abi::ORDER_TIME,
            (true, false) => abi::ORDER_TIME_ALONE,
        },
        needs: needs(&info),
        name: info.name.as_ptr(),
        version: info.version.as_ptr(),
        summary: info.summary.as_ptr(),
        description: info.description.as_ptr(),
        license: info.license.as_ptr(),
        record_types: types(info.record_types),
        events: info.events.as_ptr(),
        open: Some(open::<P>),
        records: Some(records::<P>),
        finish: Some(finish::<P>),
        close: Some(close::<P>),
        wishes: 0,
        features: if info.follows_features { Some(features::<P>) } else { None },
    })
}

const fn needs(info: &Info) -> u64 {
    (if info.symbols { abi::NEEDS_SYMBOLS } else { 0 })
        | (if info.unwind { abi::NEEDS_UNWIND } else { 0 })
        | (if info.edits_features { abi::EDITS_FEATURES } else { 0 })
}

const fn types(wanted: &[u32]) -> [u64; 4] {
    let mut bits = [0; 4];
    let mut rest = wanted;
    while let [ty, others @ ..] = rest {
        let bit = if *ty > 255 { 255 } else { *ty };
        bits[bit as usize / 64] |= 1 << (bit % 64);
        rest = others;
    }
    bits
}

struct State<P> {
    plugin: P,
    order: Order,
}

/// Runs a hook: an error or a panic becomes a message, which names the record at hand if there is one, and -1.
fn guard(
    host: Option<Host<'_>>,
    at_record: bool,
    hook: impl FnOnce(&mut Host<'_>) -> Result<(), String>,
) -> i32 {
    let Some(mut host) = host else { return -1 };
    let why = match catch_unwind(AssertUnwindSafe(|| hook(&mut host))) {
        Ok(Ok(())) => return 0,
        Ok(Err(why)) => why,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            format!("panicked: {}", text.unwrap_or_default())
        }
    };
    host.fail(&why, at_record);
    -1
}

unsafe extern "C" fn open<P: Plugin>(told: *const abi::Open, data: *mut *mut c_void) -> i32 {
    // SAFETY: called by the host with what the interface says.
    let told = unsafe { own(told, abi::v1_0::OPEN) };
    // SAFETY: as above.
    let (Some(told), Some(data)) = (told, unsafe { data.as_mut() }) else { return -1 };
    let order = if told.big_endian != 0 { Order::Big } else { Order::Little };
    // SAFETY: as above.
    let host = unsafe { Host::new(told.host, told.ctx, order) };
    let args = if told.arg_count == 0 || told.args.is_null() {
        &[]
    } else {
        // SAFETY: the host says that there are so many.
        unsafe { std::slice::from_raw_parts(told.args, told.arg_count as usize) }
    };
    let text = |p: *const std::ffi::c_char| {
        // SAFETY: null, or a C string of the host's.
        (!p.is_null()).then(|| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned())
    };
    let args = Args(args.iter().map(|arg| (text(arg.key).unwrap_or_default(), text(arg.value))).collect());
    let mut is_usage = false;
    let code = guard(host, false, |host| {
        let plugin = P::open(&args, host).map_err(|e| {
            is_usage = matches!(e, OpenError::Usage(_));
            e.to_string()
        })?;
        *data = Box::into_raw(Box::new(State { plugin, order })).cast();
        Ok(())
    });
    if is_usage { abi::USAGE } else { code }
}

unsafe extern "C" fn records<P: Plugin>(
    data: *mut c_void,
    host: *const abi::Host,
    ctx: *mut c_void,
    batch: *const abi::Batch,
) -> i32 {
    // SAFETY: `data` is what `open` made; the host calls one hook at a time.
    let state = unsafe { data.cast::<State<P>>().as_mut() };
    // SAFETY: called by the host with what the interface says.
    let batch = unsafe { own(batch, abi::v1_0::BATCH) };
    let (Some(state), Some(batch)) = (state, batch) else { return -1 };
    if (batch.stride as usize) < size_of::<abi::Record>() {
        return -1;
    }
    // SAFETY: called by the host with what the interface says.
    let host = unsafe { Host::new(host, ctx, state.order) };
    guard(host, true, |host| {
        for index in 0..batch.count as usize {
            host.at(index as u32);
            // SAFETY: there are `count` records, `stride` bytes apart, each with its bytes, and as many verdicts.
            let (told, verdict) = unsafe {
                let told = batch.records.cast::<u8>().add(index * batch.stride as usize);
                (&*told.cast::<abi::Record>(), &mut *batch.verdicts.add(index))
            };
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(told.bytes, told.len as usize) };
            let record = Record { bytes, told, order: state.order };
            *verdict = match state.plugin.record(&record, host)? {
                Verdict::Keep => abi::KEEP,
                Verdict::Drop => abi::DROP,
                Verdict::Replace => abi::REPLACE,
            };
        }
        Ok(())
    })
}

unsafe extern "C" fn features<P: Plugin>(data: *mut c_void, host: *const abi::Host, ctx: *mut c_void) -> i32 {
    // SAFETY: `data` is what `open` made; the host calls one hook at a time.
    let Some(state) = (unsafe { data.cast::<State<P>>().as_mut() }) else { return -1 };
    // SAFETY: called by the host with what the interface says.
    let host = unsafe { Host::new(host, ctx, state.order) };
    guard(host, false, |host| state.plugin.features(host))
}

unsafe extern "C" fn finish<P: Plugin>(data: *mut c_void, host: *const abi::Host, ctx: *mut c_void) -> i32 {
    // SAFETY: `data` is what `open` made; the host calls one hook at a time.
    let Some(state) = (unsafe { data.cast::<State<P>>().as_mut() }) else { return -1 };
    // SAFETY: called by the host with what the interface says.
    let host = unsafe { Host::new(host, ctx, state.order) };
    guard(host, false, |host| state.plugin.finish(host))
}

unsafe extern "C" fn close<P: Plugin>(data: *mut c_void) {
    if !data.is_null() {
        // SAFETY: from a box in `open`; the host closes once. A panic in a destructor must not leave this function.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(data.cast::<State<P>>()) })));
    }
}
