//! The binary interface between repipe and its plugins: the twin of `repipe_plugin.h`, where the meaning of every field
//! is told.
#![no_std]

use core::ffi::{c_char, c_void};
use core::mem::offset_of;

/// Another major version is another interface.
pub const ABI_MAJOR: u32 = 1;
/// Minor versions add at the end of structures.
pub const ABI_MINOR: u32 = 1;

/// Records come as they stand in the recording.
pub const ORDER_FILE: u32 = 0;
/// Records come by time.
pub const ORDER_TIME: u32 = 1;
/// Records come by time, and nothing is asked of addresses and threads. Since 1.1.
pub const ORDER_TIME_ALONE: u32 = 2;

/// Addresses are resolved.
pub const NEEDS_SYMBOLS: u64 = 1 << 0;
/// Callchains are asked for. Since 1.1.
pub const NEEDS_UNWIND: u64 = 1 << 1;
/// Feature sections are edited.
pub const EDITS_FEATURES: u64 = 1 << 2;

/// Sizes that structures had in version 1.0: those of any minor version have no less.
pub mod v1_0 {
    /// Bytes of [`Record`](super::Record).
    pub const RECORD: usize = 80;
    /// Bytes of [`Host`](super::Host).
    pub const HOST: usize = 104;
    /// Bytes of [`Open`](super::Open).
    pub const OPEN: usize = 40;
    /// Bytes of [`Batch`](super::Batch).
    pub const BATCH: usize = 32;
    /// Bytes of [`Plugin`](super::Plugin).
    pub const PLUGIN: usize = 144;
}

/// The record stays.
pub const KEEP: u8 = 0;
/// The record is left out.
pub const DROP: u8 = 1;
/// Other records go in its place.
pub const REPLACE: u8 = 2;

/// No value, in fields of 64 bits that may lack.
pub const NONE: u64 = u64::MAX;
/// The record's own cpumode.
pub const OWN_CPUMODE: u32 = u32::MAX;

/// Numbers of a sample's fields.
pub mod field {
    macro_rules! fields {
        ($($(#[$doc:meta])* $name:ident = $n:expr;)+) => { $($(#[$doc])* pub const $name: u32 = $n;)+ };
    }
    fields! {
        /// Counter values.
        READ = 0;
        /// Callchain, u64 entries.
        CALLCHAIN = 1;
        /// Raw data.
        RAW = 2;
        /// Branches, three u64 each.
        BRANCHES = 3;
        /// User registers.
        REGS_USER = 4;
        /// User stack.
        STACK_USER = 5;
        /// Registers at the interrupt.
        REGS_INTR = 6;
        /// Weight.
        WEIGHT = 7;
        /// Data source.
        DATA_SRC = 8;
        /// Transaction.
        TRANSACTION = 9;
        /// Physical address.
        PHYS_ADDR = 10;
        /// Cgroup.
        CGROUP = 11;
        /// Data page size.
        DATA_PAGE_SIZE = 12;
        /// Code page size.
        CODE_PAGE_SIZE = 13;
        /// AUX data.
        AUX = 14;
        /// Instruction pointer.
        IP = 15;
        /// Data address.
        ADDR = 16;
        /// Time.
        TIME = 17;
        /// Period.
        PERIOD = 18;
        /// Stream id.
        STREAM_ID = 19;
    }
}

/// A record.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the header tells of each field")]
pub struct Record {
    pub bytes: *const u8,
    pub len: u32,
    pub ty: u32,
    pub pos: u64,
    pub time: u64,
    pub id: u64,
    pub ip: u64,
    pub period: u64,
    pub pid: i32,
    pub tid: i32,
    pub cpu: i32,
    pub evsel: u32,
    pub misc: u16,
    pub cpumode: u8,
    pub reserved: [u8; 5],
}

/// Where an address lies.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the header tells of each field")]
pub struct Location {
    pub size: u32,
    pub found: u32,
    pub address: u64,
    pub map_start: u64,
    pub map_end: u64,
    pub map_pgoff: u64,
    pub dso: *const c_char,
    pub symbol: *const c_char,
    pub symbol_start: u64,
    pub symbol_end: u64,
    pub symbol_binding: u32,
    pub build_id_size: u32,
    pub build_id: [u8; 20],
    pub cpumode: u32,
    pub dso_path: *const c_char,
    pub dso_short_name: *const c_char,
    pub dso_id: u32,
    pub reserved: u32,
}

/// Where a field is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the header tells of each field")]
pub struct Field {
    pub offset: u32,
    pub len: u32,
    pub value: u64,
}

/// A function that takes bytes for a record.
pub type Put = unsafe extern "C" fn(*mut c_void, u32, *const u8, u64) -> i32;

/// What the host offers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the header tells of each field")]
pub struct Host {
    pub size: u32,
    pub abi_minor: u32,
    pub resolve: unsafe extern "C" fn(*mut c_void, u32, u32, u64, *mut Location) -> i32,
    pub comm: unsafe extern "C" fn(*mut c_void, u32) -> *const c_char,
    pub attr: unsafe extern "C" fn(*mut c_void, u32, *mut u32) -> *const u8,
    pub event_name: unsafe extern "C" fn(*mut c_void, u32) -> *const c_char,
    pub field: unsafe extern "C" fn(*mut c_void, u32, u32, *mut Field) -> i32,
    pub replace: Put,
    pub insert_before: Put,
    pub insert_after: Put,
    pub feature: unsafe extern "C" fn(*mut c_void, u32, *mut u64) -> *const u8,
    pub set_feature: Put,
    pub log: unsafe extern "C" fn(*mut c_void, u32, *const c_char),
    pub fail: unsafe extern "C" fn(*mut c_void, *const c_char),
    pub fail_at: Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char)>,
    pub progress: Option<unsafe extern "C" fn(*mut c_void, u64, u64)>,
    pub callchain: Option<unsafe extern "C" fn(*mut c_void, u32, *mut u32) -> *const u64>,
    pub unfinished: Option<unsafe extern "C" fn(*mut c_void, *const c_char, u32) -> i32>,
}

/// An argument.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the header tells of each field")]
pub struct Arg {
    pub key: *const c_char,
    pub value: *const c_char,
}

/// What `open` returns if its arguments are wrong; any other negative number says that it failed otherwise.
pub const USAGE: i32 = -2;

/// What `open` is told.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the header tells of each field")]
pub struct Open {
    pub size: u32,
    pub big_endian: u32,
    pub host: *const Host,
    pub ctx: *mut c_void,
    pub args: *const Arg,
    pub arg_count: u32,
    pub evsel_count: u32,
    pub granted: u64,
}

/// Records.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the header tells of each field")]
pub struct Batch {
    pub size: u32,
    pub count: u32,
    pub stride: u32,
    pub reserved: u32,
    pub records: *const Record,
    pub verdicts: *mut u8,
}

/// `open`.
pub type OpenHook = unsafe extern "C" fn(*const Open, *mut *mut c_void) -> i32;
/// `records`.
pub type RecordsHook = unsafe extern "C" fn(*mut c_void, *const Host, *mut c_void, *const Batch) -> i32;
/// `finish`, and `features`.
pub type FinishHook = unsafe extern "C" fn(*mut c_void, *const Host, *mut c_void) -> i32;
/// `close`.
pub type CloseHook = unsafe extern "C" fn(*mut c_void);
/// The one symbol, [`ENTRY`].
pub type Entry = unsafe extern "C" fn() -> *const Plugin;

/// Name of the one symbol.
pub const ENTRY: &str = "repipe_plugin";

/// What a plugin says of itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the header tells of each field")]
pub struct Plugin {
    pub abi_major: u32,
    pub abi_minor: u32,
    pub size: u32,
    pub record_size: u32,
    pub host_size: u32,
    pub order: u32,
    pub needs: u64,
    pub name: *const c_char,
    pub version: *const c_char,
    pub summary: *const c_char,
    pub description: *const c_char,
    pub license: *const c_char,
    pub record_types: [u64; 4],
    pub events: *const c_char,
    pub open: Option<OpenHook>,
    pub records: Option<RecordsHook>,
    pub finish: Option<FinishHook>,
    pub close: Option<CloseHook>,
    pub wishes: u64,
    pub features: Option<FinishHook>,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Record>() == 80);
    assert!(offset_of!(Record, pos) == 16);
    assert!(offset_of!(Record, pid) == 56);
    assert!(offset_of!(Record, misc) == 72);
    assert!(size_of::<Location>() == 128);
    assert!(offset_of!(Location, dso) == 40);
    assert!(offset_of!(Location, build_id) == 80);
    assert!(offset_of!(Location, dso_path) == 104);
    assert!(size_of::<Field>() == 16);
    assert!(size_of::<Host>() == 136);
    assert!(offset_of!(Host, fail) == 96);
    assert!(offset_of!(Host, fail_at) == v1_0::HOST);
    assert!(offset_of!(Host, callchain) == 120);
    assert!(offset_of!(Host, unfinished) == 128);
    assert!(size_of::<Arg>() == 16);
    assert!(size_of::<Open>() == 48);
    assert!(offset_of!(Open, granted) == v1_0::OPEN);
    assert!(size_of::<Batch>() == 32);
    assert!(size_of::<Plugin>() == 160);
    assert!(offset_of!(Plugin, record_types) == 72);
    assert!(offset_of!(Plugin, close) == 136);
    assert!(offset_of!(Plugin, wishes) == v1_0::PLUGIN);
    assert!(offset_of!(Plugin, features) == 152);
};
