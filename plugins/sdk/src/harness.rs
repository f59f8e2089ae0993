//! Runs a plugin on records that a test builds, without repipe: through the same interface, with a host that answers from
//! what the test sets.
#![expect(unsafe_code, reason = "plays the host of the interface")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

use repipe_plugin_abi as abi;

use super::record::Order;
use super::{Plugin, descriptor, field};

/// A sample to be built: pid, tid, time, CPU, period and a callchain, as `perf record -g --sample-cpu` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the fields are")]
pub struct Sample {
    pub ip: u64,
    pub pid: i32,
    pub tid: i32,
    pub time: u64,
    pub cpu: i32,
    pub period: u64,
    pub evsel: u32,
    pub callchain: Vec<u64>,
}

impl Default for Sample {
    fn default() -> Self {
        Sample { ip: 0x1000, pid: 1, tid: 1, time: 1, cpu: 0, period: 1, evsel: 0, callchain: Vec::new() }
    }
}

const IP: usize = 8;
const TIME: usize = 24;
const PERIOD: usize = 40;
const CHAIN: usize = 56;

impl Sample {
    /// As a record, in little-endian order.
    pub fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend(self.ip.to_le_bytes());
        body.extend(self.pid.to_le_bytes());
        body.extend(self.tid.to_le_bytes());
        body.extend(self.time.to_le_bytes());
        body.extend(self.cpu.to_le_bytes());
        body.extend([0; 4]);
        body.extend(self.period.to_le_bytes());
        body.extend((self.callchain.len() as u64).to_le_bytes());
        body.extend(self.callchain.iter().flat_map(|ip| ip.to_le_bytes()));
        record(super::SAMPLE, 2, &body)
    }

    /// From a record that [`Sample::bytes`] could have made.
    pub fn parse(bytes: &[u8]) -> Option<Sample> {
        let order = Order::Little;
        let half = |at| order.u32(bytes, at).map(u32::cast_signed);
        let count = usize::try_from(order.u64(bytes, CHAIN - 8)?).ok()?;
        let callchain: Option<_> = (0..count).map(|n| order.u64(bytes, CHAIN + n * 8)).collect();
        Some(Sample {
            ip: order.u64(bytes, IP)?,
            pid: half(16)?,
            tid: half(20)?,
            time: order.u64(bytes, TIME)?,
            cpu: half(32)?,
            period: order.u64(bytes, PERIOD)?,
            evsel: 0,
            callchain: callchain?,
        })
    }
}

/// A record of a type, with a misc word and a body, in little-endian order.
pub fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend(misc.to_le_bytes());
    out.extend(((body.len() + 8) as u16).to_le_bytes());
    out.extend_from_slice(body);
    out
}

/// A COMM record of a thread.
pub fn comm(pid: i32, name: &str) -> Vec<u8> {
    let mut body = [pid.to_le_bytes(), pid.to_le_bytes()].concat();
    body.extend_from_slice(name.as_bytes());
    body.resize(8 + (name.len() + 1).next_multiple_of(8), 0);
    record(super::COMM, 0, &body)
}

/// A MMAP2 record of a path, at an address.
pub fn mmap2(pid: i32, start: u64, path: &str) -> Vec<u8> {
    let mut body = [pid.to_le_bytes(), pid.to_le_bytes()].concat();
    body.extend([start, 0x1000, 0].iter().flat_map(|word| word.to_le_bytes()));
    body.extend([0; 24]);
    body.extend([5u32, 2].iter().flat_map(|word| word.to_le_bytes()));
    body.extend_from_slice(path.as_bytes());
    body.resize(64 + (path.len() + 1).next_multiple_of(8), 0);
    record(super::MMAP2, 2, &body)
}

#[derive(Default)]
struct State {
    record: Option<abi::Record>,
    is_open: bool,
    out: [Vec<u8>; 3],
    failure: Option<String>,
    log: Vec<String>,
    comm: Option<CString>,
    symbol: Option<CString>,
    dso: CString,
    features: BTreeMap<u32, Vec<u8>>,
    chain: Vec<u64>,
    unfinished: Vec<String>,
}

/// Bytes of the host's table, so that a table of an older host can be made of it.
type Table = [u64; size_of::<abi::Host>() / 8];

/// The table of a host of a minor version: what that does not have is no pointer.
fn table(minor: u32) -> Box<Table> {
    let mut host = HOST;
    host.abi_minor = minor;
    let size = if minor == 0 { abi::v1_0::HOST } else { size_of::<abi::Host>() };
    host.size = size as u32;
    let mut table = Box::new([u64::MAX / 3; size_of::<abi::Host>() / 8]);
    // SAFETY: both are that large.
    unsafe { (&raw const host).cast::<u8>().copy_to_nonoverlapping(table.as_mut_ptr().cast(), size) };
    table
}

/// A plugin that is being run.
pub struct Harness<P: Plugin> {
    state: Box<State>,
    table: Box<Table>,
    data: *mut c_void,
    plugin: abi::Plugin,
    of: PhantomData<P>,
}

impl<P: Plugin> Harness<P> {
    /// Opens the plugin with arguments.
    pub fn open(args: &[(&str, Option<&str>)]) -> Result<Self, String> {
        Self::open_with(args, &[])
    }

    /// Opens the plugin with arguments, on a recording with feature sections.
    pub fn open_with(args: &[(&str, Option<&str>)], features: &[(u32, &[u8])]) -> Result<Self, String> {
        Self::open_on(abi::ABI_MINOR, args, features)
    }

    /// The same, on a host of a minor version: with 0, one that has only what version 1.0 had.
    pub fn open_on(
        minor: u32,
        args: &[(&str, Option<&str>)],
        features: &[(u32, &[u8])],
    ) -> Result<Self, String> {
        let of = descriptor::<P>();
        // SAFETY: a descriptor of ours.
        let plugin = unsafe { of.get().read() };
        let state = State {
            is_open: true,
            features: features.iter().map(|(id, bytes)| (*id, bytes.to_vec())).collect(),
            ..State::default()
        };
        let mut run = Harness {
            state: Box::new(state),
            table: table(minor),
            data: null_mut(),
            plugin,
            of: PhantomData,
        };
        let text = |text: &str| CString::new(text).unwrap_or_default();
        let args: Vec<_> = args.iter().map(|(key, value)| (text(key), value.map(text))).collect();
        let args: Vec<abi::Arg> = args
            .iter()
            .map(|(key, value)| abi::Arg {
                key: key.as_ptr(),
                value: value.as_ref().map_or(null(), |value| value.as_ptr()),
            })
            .collect();
        let told = abi::Open {
            size: if minor == 0 { abi::v1_0::OPEN } else { size_of::<abi::Open>() } as u32,
            big_endian: 0,
            host: run.host(),
            ctx: run.ctx(),
            args: args.as_ptr(),
            arg_count: args.len() as u32,
            evsel_count: 1,
            granted: run.plugin.needs,
        };
        let open = run.plugin.open.ok_or("no open")?;
        // SAFETY: as the interface says.
        let code = unsafe { open(&raw const told, &raw mut run.data) };
        run.result(code)?;
        Ok(run)
    }

    fn host(&self) -> *const abi::Host {
        self.table.as_ptr().cast()
    }

    fn ctx(&mut self) -> *mut c_void {
        (&raw mut *self.state).cast()
    }

    fn result(&mut self, code: i32) -> Result<(), String> {
        match self.state.failure.take() {
            Some(why) => Err(why),
            None if code < 0 => Err(format!("returned {code}")),
            None => Ok(()),
        }
    }

    /// Sets the name that threads have from now on.
    pub fn set_comm(&mut self, comm: &str) {
        self.state.comm = CString::new(comm).ok();
    }

    /// Sets the DSO and the symbol in which all addresses lie from now on.
    pub fn set_location(&mut self, dso: &str, symbol: Option<&str>) {
        self.state.dso = CString::new(dso).unwrap_or_default();
        self.state.symbol = symbol.and_then(|symbol| CString::new(symbol).ok());
    }

    /// Shows it a sample; the records that leave.
    pub fn sample(&mut self, sample: &Sample) -> Result<Vec<Vec<u8>>, String> {
        let bytes = sample.bytes();
        self.show(abi::Record {
            bytes: bytes.as_ptr(),
            len: bytes.len() as u32,
            ty: super::SAMPLE,
            pos: 0,
            time: sample.time,
            id: abi::NONE,
            ip: sample.ip,
            period: sample.period,
            pid: sample.pid,
            tid: sample.tid,
            cpu: sample.cpu,
            evsel: sample.evsel,
            misc: 2,
            cpumode: 2,
            reserved: [0; 5],
        })
    }

    /// Shows it any record; the records that leave.
    pub fn record(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.show(abi::Record {
            bytes: bytes.as_ptr(),
            len: bytes.len() as u32,
            ty: Order::Little.u32(bytes, 0).ok_or("no header")?,
            pos: 0,
            time: abi::NONE,
            id: abi::NONE,
            ip: 0,
            period: 0,
            pid: -1,
            tid: -1,
            cpu: -1,
            evsel: u32::MAX,
            misc: Order::Little.u16(bytes, 4).unwrap_or(0),
            cpumode: (Order::Little.u16(bytes, 4).unwrap_or(0) & 7) as u8,
            reserved: [0; 5],
        })
    }

    fn show(&mut self, told: abi::Record) -> Result<Vec<Vec<u8>>, String> {
        // SAFETY: the record's bytes are borrowed by the caller of this function.
        let own = unsafe { std::slice::from_raw_parts(told.bytes, told.len as usize) };
        let bits = self.plugin.record_types;
        let wanted =
            bits == [0; 4] || bits.get(told.ty as usize / 64).is_some_and(|w| w >> (told.ty % 64) & 1 == 1);
        if !wanted {
            return Ok(vec![own.to_vec()]);
        }
        self.state.record = Some(told);
        self.state.out = Default::default();
        let mut verdict = abi::KEEP;
        let batch = abi::Batch {
            size: size_of::<abi::Batch>() as u32,
            count: 1,
            stride: size_of::<abi::Record>() as u32,
            reserved: 0,
            records: &raw const told,
            verdicts: &raw mut verdict,
        };
        let records = self.plugin.records.ok_or("no hook")?;
        let (data, host, ctx) = (self.data, self.host(), self.ctx());
        // SAFETY: as the interface says.
        let code = unsafe { records(data, host, ctx, &raw const batch) };
        self.state.record = None;
        self.result(code)?;
        let [before, instead, after] = std::mem::take(&mut self.state.out);
        let middle = match verdict {
            abi::KEEP => own,
            abi::DROP => &[],
            _ => &instead,
        };
        split(&[&before, middle, &after].concat())
    }

    /// Files that it has begun to write and has not completed.
    pub fn unfinished(&self) -> &[String] {
        &self.state.unfinished
    }

    /// Ends the run: the feature sections as they are then, and what the plugin had to say.
    #[expect(clippy::type_complexity, reason = "a pair of what is left")]
    pub fn finish(mut self) -> Result<(BTreeMap<u32, Vec<u8>>, Vec<String>), String> {
        let (data, host, ctx) = (self.data, self.host(), self.ctx());
        if let Some(finish) = self.plugin.finish {
            // SAFETY: as the interface says.
            let code = unsafe { finish(data, host, ctx) };
            self.result(code)?;
        }
        Ok((std::mem::take(&mut self.state.features), std::mem::take(&mut self.state.log)))
    }
}

impl<P: Plugin> Drop for Harness<P> {
    fn drop(&mut self) {
        self.state.is_open = false;
        if let Some(close) = self.plugin.close.filter(|_| !self.data.is_null()) {
            // SAFETY: as the interface says.
            unsafe { close(self.data) };
        }
    }
}

fn split(mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
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
    let Some(record) = state.record.filter(|record| record.ty == super::SAMPLE) else { return -1 };
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
    let Some(record) = state.record.filter(|record| record.ty == super::SAMPLE) else { return null() };
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::super::edit;
    use super::super::{Args, Host, Info, OpenError, Record, Verdict};
    use super::*;

    /// Cuts callchains, renames, and panics when told to.
    struct Cut(usize);

    impl Plugin for Cut {
        const INFO: Info = Info { symbols: true, ..Info::new(c"cut", c"1") };

        fn open(args: &Args, _: &mut Host<'_>) -> Result<Self, OpenError> {
            Ok(Cut(args.number("n")?.ok_or("n=N")?))
        }

        fn record(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<Verdict, String> {
            if record.tid() == 666 {
                panic!("no {}", record.tid());
            }
            if let Some(name) = edit::name(record) {
                let new = [b"new-", name].concat();
                host.replace(&edit::with_name(record, &new)?)?;
                return Ok(Verdict::Replace);
            }
            let Some(mut sample) = edit::Sample::of(record, host) else { return Ok(Verdict::Keep) };
            let chain = sample.callchain().unwrap();
            sample.set_callchain(chain.get(..self.0).unwrap_or(&chain));
            assert!(sample.set_ip(0x77) && sample.set_period(5) && !sample.set_addr(1));
            host.replace(&sample.into_bytes()?)?;
            let place = host.resolve(record.ip()).unwrap();
            host.insert_after(&comm(7, &String::from_utf8(place.symbol.unwrap().0).unwrap()))?;
            Ok(Verdict::Replace)
        }
    }

    #[test]
    fn a_plugin_edits_samples_and_names_and_its_panic_is_an_error() {
        assert_eq!(Harness::<Cut>::open(&[]).err(), Some("n=N".into()));
        let mut run = Harness::<Cut>::open(&[("n", Some("2"))]).unwrap();
        run.set_location("/bin/x", Some("main"));
        let sample = Sample { callchain: vec![1, 2, 3], ..Sample::default() };
        let out = run.sample(&sample).unwrap();
        let expected = Sample { ip: 0x77, period: 5, callchain: vec![1, 2], ..sample.clone() };
        assert_eq!(out, [expected.bytes(), comm(7, "main")]);
        assert_eq!(Sample::parse(out.first().unwrap()), Some(expected));
        assert_eq!(run.record(&comm(7, "sh")).unwrap(), [comm(7, "new-sh")]);
        assert_eq!(run.record(&mmap2(7, 0x1000, "/x")).unwrap(), [mmap2(7, 0x1000, "new-/x")]);
        assert_eq!(run.sample(&Sample { tid: 666, ..sample }), Err("panicked: no 666".into()));
    }
    /// Asks for what hosts have since version 1.1.
    struct Late;

    impl Plugin for Late {
        const INFO: Info = Info { unwind: true, ..Info::new(c"late", c"1") };

        fn open(_: &Args, host: &mut Host<'_>) -> Result<Self, OpenError> {
            host.progress(1, 2);
            Ok(Late)
        }

        fn record(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<Verdict, String> {
            let chain = host.callchain().map(<[u64]>::to_vec);
            host.log(&format!("{chain:?}"));
            if record.tid() == 7 { Err("no 7".into()) } else { Ok(Verdict::Keep) }
        }
    }

    #[test]
    fn what_a_later_version_added_is_not_used_on_an_older_host() {
        let sample = Sample { callchain: vec![1, 2], ..Sample::default() };
        for (minor, log) in [(0, vec!["None"]), (abi::ABI_MINOR, vec!["1 of 2", "Some([1, 2])"])] {
            // Behind the table of the older host stands what is no pointer.
            let mut run = Harness::<Late>::open_on(minor, &[], &[]).unwrap();
            assert_eq!(run.sample(&sample).unwrap(), [sample.bytes()]);
            assert_eq!(run.finish().unwrap().1, log);
            let mut run = Harness::<Late>::open_on(minor, &[], &[]).unwrap();
            assert_eq!(run.sample(&Sample { tid: 7, ..sample.clone() }), Err("no 7".into()));
        }
    }
}
