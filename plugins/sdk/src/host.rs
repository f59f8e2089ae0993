//! What the host offers, safely.
#![expect(unsafe_code, reason = "calls through the host's table")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::null;

use repipe_plugin_abi as abi;

use super::record::Order;

/// The host, for the time of a call.
pub struct Host<'a> {
    /// Of an older host, as much as that has.
    table: abi::Host,
    ctx: *mut c_void,
    order: Order,
    /// Index of the record at hand.
    record: u32,
    lent: PhantomData<&'a mut ()>,
}

/// Where a field of the sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the record's start.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
    /// Its value, if it is a word; of registers their ABI.
    pub value: u64,
}

/// Where an address lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The address within the DSO's file.
    pub address: u64,
    /// First address of the map.
    pub map_start: u64,
    /// First address past it.
    pub map_end: u64,
    /// Name of the DSO as recorded.
    pub dso: Vec<u8>,
    /// Build-id, if known.
    pub build_id: Vec<u8>,
    /// Name of the symbol and the distance from its start, if there is one.
    pub symbol: Option<(Vec<u8>, u64)>,
}

/// Where an address lies, without a copy of any name: what [`Location`] has and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'h> {
    /// The address within the DSO's file.
    pub address: u64,
    /// The same for the same DSO in this run; all ones with a host that does not tell.
    pub dso_id: u32,
    /// Name of the DSO as recorded.
    pub dso: &'h [u8],
    /// Its path: of modules the file, of JITed code the file of its symbols.
    pub dso_path: &'h [u8],
    /// Its short name: mostly the last part of its path, of modules the name in brackets.
    pub dso_short_name: &'h [u8],
    /// Build-id, if known.
    pub build_id: BuildId,
    /// The symbol, if there is one.
    pub symbol: Option<Symbol<'h>>,
}

/// A symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'h> {
    /// Name as shown.
    pub name: &'h [u8],
    /// First address within the DSO's file.
    pub start: u64,
    /// First address past it.
    pub end: u64,
    /// `STB_*`.
    pub binding: u32,
}

/// A build-id of at most 20 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildId {
    bytes: [u8; 20],
    size: u32,
}

impl BuildId {
    /// Its bytes; none if it is not known.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.size as usize).unwrap_or_default()
    }
}

impl<'a> Host<'a> {
    /// # Safety
    /// `table` and `ctx` are what the host gave for the call at hand.
    pub(crate) unsafe fn new(table: *const abi::Host, ctx: *mut c_void, order: Order) -> Option<Host<'a>> {
        // SAFETY: the caller says so; every version's table begins with its size, and has what 1.0 has.
        let table = unsafe { own(table, abi::v1_0::HOST) }?;
        Some(Host { table, ctx, order, record: 0, lent: PhantomData })
    }

    /// Takes the record of an index in hand.
    pub(crate) fn at(&mut self, record: u32) {
        self.record = record;
    }

    /// Byte order of the recording.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Where an address of the record's thread lies; `None` without a map.
    pub fn resolve(&mut self, address: u64) -> Option<Location> {
        let to = self.location(abi::OWN_CPUMODE, address)?;
        let symbol = text(to.symbol).map(|name| (name.to_vec(), to.address.wrapping_sub(to.symbol_start)));
        Some(Location {
            address: to.address,
            map_start: to.map_start,
            map_end: to.map_end,
            dso: text(to.dso).unwrap_or_default().to_vec(),
            build_id: to.build_id.get(..to.build_id_size as usize).unwrap_or_default().to_vec(),
            symbol,
        })
    }

    /// The same, of the maps of a cpumode alone if one is given; names are not copied.
    pub fn place(&mut self, cpumode: Option<u8>, address: u64) -> Option<Place<'_>> {
        let to = self.location(cpumode.map_or(abi::OWN_CPUMODE, u32::from), address)?;
        let dso = text(to.dso).unwrap_or_default();
        Some(Place {
            address: to.address,
            dso_id: to.dso_id,
            dso,
            dso_path: text(to.dso_path).unwrap_or(dso),
            dso_short_name: text(to.dso_short_name).unwrap_or(dso),
            build_id: BuildId { bytes: to.build_id, size: to.build_id_size },
            symbol: text(to.symbol).map(|name| Symbol {
                name,
                start: to.symbol_start,
                end: to.symbol_end,
                binding: to.symbol_binding,
            }),
        })
    }

    fn location(&mut self, cpumode: u32, address: u64) -> Option<abi::Location> {
        let mut to = abi::Location {
            size: size_of::<abi::Location>() as u32,
            found: 0,
            address: 0,
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
            cpumode: 0,
            dso_path: null(),
            dso_short_name: null(),
            dso_id: u32::MAX,
            reserved: 0,
        };
        // SAFETY: a function of the host's with its ctx, and a structure of the size it states.
        let code = unsafe { (self.table.resolve)(self.ctx, self.record, cpumode, address, &raw mut to) };
        (code == 0 && to.found != 0).then_some(to)
    }

    /// Name of the record's thread.
    pub fn comm(&mut self) -> Option<&[u8]> {
        // SAFETY: a function of the host's with its ctx; the text is valid until the hook returns.
        text(unsafe { (self.table.comm)(self.ctx, self.record) })
    }

    /// Name of an event by its index.
    pub fn event_name(&mut self, evsel: u32) -> Option<&[u8]> {
        // SAFETY: a function of the host's with its ctx; the text is valid until the hook returns.
        text(unsafe { (self.table.event_name)(self.ctx, evsel) })
    }

    /// Attribute of an event by its index, in the recording's byte order.
    pub fn attr(&mut self, evsel: u32) -> Option<&[u8]> {
        let mut size = 0;
        // SAFETY: a function of the host's with its ctx, and a place for the size.
        let bytes = unsafe { (self.table.attr)(self.ctx, evsel, &raw mut size) };
        // SAFETY: null, or that many bytes, valid until the hook returns.
        (!bytes.is_null()).then(|| unsafe { std::slice::from_raw_parts(bytes, size as usize) })
    }

    /// Where a field of the sample is: see [`crate::field`].
    pub fn field(&mut self, field: u32) -> Option<Field> {
        let mut to = abi::Field::default();
        // SAFETY: a function of the host's with its ctx, and a place for the field.
        let code = unsafe { (self.table.field)(self.ctx, self.record, field, &raw mut to) };
        (code == 0).then_some(Field { offset: to.offset as usize, len: to.len as usize, value: to.value })
    }

    fn put(&mut self, put: abi::Put, number: u32, bytes: &[u8]) -> Result<(), String> {
        // SAFETY: a function of the host's with its ctx, and bytes with their length.
        match unsafe { put(self.ctx, number, bytes.as_ptr(), bytes.len() as u64) } {
            0 => Ok(()),
            _ => Err("the host does not take this now, or no more of it".into()),
        }
    }

    /// What goes in the record's place with [`crate::Verdict::Replace`]: whole records.
    pub fn replace(&mut self, records: &[u8]) -> Result<(), String> {
        self.put(self.table.replace, self.record, records)
    }

    /// Whole records to go before the record.
    pub fn insert_before(&mut self, records: &[u8]) -> Result<(), String> {
        self.put(self.table.insert_before, self.record, records)
    }

    /// Whole records to go behind the record.
    pub fn insert_after(&mut self, records: &[u8]) -> Result<(), String> {
        self.put(self.table.insert_after, self.record, records)
    }

    /// A feature section (`HEADER_*`) as it is.
    pub fn feature(&mut self, feature: u32) -> Option<&[u8]> {
        let mut len = 0;
        // SAFETY: a function of the host's with its ctx, and a place for the length.
        let bytes = unsafe { (self.table.feature)(self.ctx, feature, &raw mut len) };
        // SAFETY: null, or that many bytes, valid until the hook returns.
        (!bytes.is_null()).then(|| unsafe { std::slice::from_raw_parts(bytes, len as usize) })
    }

    /// Puts another section in its place, or none. Takes [`crate::Info::edits_features`].
    pub fn set_feature(&mut self, feature: u32, bytes: Option<&[u8]>) -> Result<(), String> {
        if let Some(bytes) = bytes {
            return self.put(self.table.set_feature, feature, bytes);
        }
        // SAFETY: a function of the host's with its ctx; null means none.
        match unsafe { (self.table.set_feature)(self.ctx, feature, null(), 0) } {
            0 => Ok(()),
            _ => Err("the host does not let this section go".into()),
        }
    }

    /// A warning for the user.
    pub fn log(&mut self, line: &str) {
        self.tell(0, line);
    }

    /// A line for the user that is no warning.
    pub fn note(&mut self, line: &str) {
        self.tell(1, line);
    }

    fn tell(&mut self, level: u32, line: &str) {
        let line = c_string(line);
        // SAFETY: a function of the host's with its ctx, and a C string.
        unsafe { (self.table.log)(self.ctx, level, line.as_ptr()) };
    }

    /// Tells the user how far the plugin is with something that takes long. A host before 1.1 does not.
    pub fn progress(&mut self, done: u64, total: u64) {
        if let Some(progress) = self.table.progress {
            // SAFETY: a function of the host's with its ctx.
            unsafe { progress(self.ctx, done, total) };
        }
    }

    /// The sample's callchain, context markers among it; its user part is unwound where there is a copy of the stack
    /// instead. `None` without [`crate::Info::unwind`], with a host before 1.1, and if the sample has neither.
    pub fn callchain(&mut self) -> Option<&[u64]> {
        let mut count = 0;
        // SAFETY: a function of the host's with its ctx, and a place for the number.
        let entries = unsafe { self.table.callchain?(self.ctx, self.record, &raw mut count) };
        // SAFETY: null, or that many entries, valid until the hook returns.
        (!entries.is_null()).then(|| unsafe { std::slice::from_raw_parts(entries, count as usize) })
    }

    /// Says that the plugin has begun to write a file, which is to be removed if a signal ends the run. A host before 1.1
    /// does not.
    pub fn unfinished(&mut self, path: &Path) {
        self.tell_unfinished(path, 1);
    }

    /// Says that such a file is complete, has another name or is gone.
    pub fn finished(&mut self, path: &Path) {
        self.tell_unfinished(path, 0);
    }

    fn tell_unfinished(&mut self, path: &Path, is: u32) {
        if let (Some(tell), Ok(path)) =
            (self.table.unfinished, CString::new(path.as_os_str().as_encoded_bytes()))
        {
            // SAFETY: a function of the host's with its ctx, and a C string.
            unsafe { tell(self.ctx, path.as_ptr(), is) };
        }
    }

    pub(crate) fn fail(&mut self, why: &str, at_record: bool) {
        let why = c_string(why);
        match self.table.fail_at.filter(|_| at_record) {
            // SAFETY: a function of the host's with its ctx, and a C string.
            Some(fail_at) => unsafe { fail_at(self.ctx, self.record, why.as_ptr()) },
            // SAFETY: as above.
            None => unsafe { (self.table.fail)(self.ctx, why.as_ptr()) },
        }
    }
}

/// A copy of a structure of the host's, which may be of an older version and so smaller, or of a later one: what that does
/// not have is zero. `None` if it has less than version 1.0 had.
///
/// # Safety
/// `there` is null or such a structure, which begins with its size; zero is a value for all that has been added since
/// it had `least` bytes.
pub(crate) unsafe fn own<T>(there: *const T, least: usize) -> Option<T> {
    if there.is_null() {
        return None;
    }
    // SAFETY: the caller says that it begins with its size.
    let size = unsafe { there.cast::<u32>().read() } as usize;
    if size < least {
        return None;
    }
    let mut here = MaybeUninit::<T>::zeroed();
    // SAFETY: the structure has as many bytes as it says, and so has the copy.
    unsafe {
        there.cast::<u8>().copy_to_nonoverlapping(here.as_mut_ptr().cast(), size.min(size_of::<T>()));
    }
    // SAFETY: all that 1.0 had has been copied, and the rest may be zero.
    Some(unsafe { here.assume_init() })
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

fn text<'a>(pointer: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: null, or a C string of the host's that is valid until the hook returns.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_bytes())
}
