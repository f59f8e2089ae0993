//! perf's dlfilter ABI, written down anew: names, order and sizes of its structures (`perf_dlfilter.h` of perf 6.12).
//!
//! Filters of perf before 6.0 were built with a sample of 200 bytes and a location of 80; both are beginnings of these.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

/// What a filter is told of a sample; fields that the event does not have hold perf's defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub size: u32,
    pub ins_lat: u16,
    pub p_stage_cyc: u16,
    pub ip: u64,
    pub pid: i32,
    pub tid: i32,
    pub time: u64,
    pub addr: u64,
    pub id: u64,
    pub stream_id: u64,
    pub period: u64,
    pub weight: u64,
    pub transaction: u64,
    pub insn_cnt: u64,
    pub cyc_cnt: u64,
    pub cpu: i32,
    pub flags: u32,
    pub data_src: u64,
    pub phys_addr: u64,
    pub data_page_size: u64,
    pub code_page_size: u64,
    pub cgroup: u64,
    pub cpumode: u8,
    pub addr_correlates_sym: u8,
    pub misc: u16,
    pub raw_size: u32,
    pub raw_data: *const c_void,
    pub brstack_nr: u64,
    pub brstack: *const c_void,
    pub raw_callchain_nr: u64,
    pub raw_callchain: *const u64,
    pub event: *const c_char,
    pub machine_pid: i32,
    pub vcpu: i32,
}

/// Where an address lies.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Location {
    pub size: u32,
    pub symoff: u32,
    pub sym: *const c_char,
    pub addr: u64,
    pub sym_start: u64,
    pub sym_end: u64,
    pub dso: *const c_char,
    pub sym_binding: u8,
    pub is_64_bit: u8,
    pub is_kernel_ip: u8,
    pub buildid_size: u32,
    pub buildid: *const u8,
    pub filtered: u8,
    pub comm: *const c_char,
    pub private: *mut c_void,
}

/// The functions that the host offers, in the place that the filter keeps for them.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Functions {
    pub resolve_ip: unsafe extern "C" fn(*mut c_void) -> *const Location,
    pub resolve_addr: unsafe extern "C" fn(*mut c_void) -> *const Location,
    pub args: unsafe extern "C" fn(*mut c_void, *mut c_int) -> *mut *mut c_char,
    pub resolve_address: unsafe extern "C" fn(*mut c_void, u64, *mut Location) -> i32,
    pub insn: unsafe extern "C" fn(*mut c_void, *mut u32) -> *const u8,
    pub srcline: unsafe extern "C" fn(*mut c_void, *mut u32) -> *const c_char,
    pub attr: unsafe extern "C" fn(*mut c_void) -> *const c_void,
    pub object_code: unsafe extern "C" fn(*mut c_void, u64, *mut c_void, u32) -> i32,
    pub al_cleanup: unsafe extern "C" fn(*mut c_void, *mut Location),
    pub reserved: [*const c_void; 119],
}

pub(super) type Start = unsafe extern "C" fn(*mut *mut c_void, *mut c_void) -> c_int;
pub(super) type Stop = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
pub(super) type Filter = unsafe extern "C" fn(*mut c_void, *const Sample, *mut c_void) -> c_int;
pub(super) type Description = unsafe extern "C" fn(*mut *const c_char) -> *const c_char;

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Sample>() == 208);
    assert!(offset_of!(Sample, ip) == 8);
    assert!(offset_of!(Sample, time) == 24);
    assert!(offset_of!(Sample, weight) == 64);
    assert!(offset_of!(Sample, cpu) == 96);
    assert!(offset_of!(Sample, data_src) == 104);
    assert!(offset_of!(Sample, cpumode) == 144);
    assert!(offset_of!(Sample, misc) == 146);
    assert!(offset_of!(Sample, raw_data) == 152);
    assert!(offset_of!(Sample, raw_callchain_nr) == 176);
    assert!(offset_of!(Sample, event) == 192);
    assert!(offset_of!(Sample, machine_pid) == 200);
    assert!(size_of::<Location>() == 88);
    assert!(offset_of!(Location, sym) == 8);
    assert!(offset_of!(Location, dso) == 40);
    assert!(offset_of!(Location, sym_binding) == 48);
    assert!(offset_of!(Location, buildid_size) == 52);
    assert!(offset_of!(Location, filtered) == 64);
    assert!(offset_of!(Location, comm) == 72);
    assert!(offset_of!(Location, private) == 80);
    assert!(size_of::<Functions>() == 1024);
};
