//! `struct perf_event_attr`: offsets of the fields that are read here, and the flag bits that change layouts.
//!
//! An attr keeps its own size and all its bytes; a field past its end reads as zero, as the kernel defines.

/// Size of the first published version (`PERF_ATTR_SIZE_VER0`).
pub const SIZE_VER0: usize = 64;
/// The largest attr this program takes; the largest known is 144 bytes, so this leaves room for many years.
pub const SIZE_MAX: usize = 4096;

/// Byte offsets of fields within the attr.
pub mod offset {
    /// u32 type of the event.
    pub const TYPE: usize = 0;
    /// u32 size of the attr in bytes.
    pub const SIZE: usize = 4;
    /// u64 type-specific configuration.
    pub const CONFIG: usize = 8;
    /// u64 period or frequency (Hz).
    pub const SAMPLE_PERIOD: usize = 16;
    /// u64 sample_type bits.
    pub const SAMPLE_TYPE: usize = 24;
    /// u64 read_format bits.
    pub const READ_FORMAT: usize = 32;
    /// u64 bit field of flags.
    pub const FLAGS: usize = 40;
    /// u32 wakeup events or watermark.
    pub const WAKEUP: usize = 48;
    /// u32 breakpoint type.
    pub const BP_TYPE: usize = 52;
    /// u64 breakpoint address, kprobe or uprobe function or path, or config1.
    pub const CONFIG1: usize = 56;
    /// u64 breakpoint length, kprobe address or probe offset, or config2.
    pub const CONFIG2: usize = 64;
    /// u64 branch_sample_type bits.
    pub const BRANCH_SAMPLE_TYPE: usize = 72;
    /// u64 mask of user registers.
    pub const SAMPLE_REGS_USER: usize = 80;
    /// u32 bytes of user stack asked for.
    pub const SAMPLE_STACK_USER: usize = 88;
    /// i32 clock id.
    pub const CLOCKID: usize = 92;
    /// u64 mask of interrupt registers.
    pub const SAMPLE_REGS_INTR: usize = 96;
    /// u32 AUX watermark.
    pub const AUX_WATERMARK: usize = 104;
    /// u16 callchain depth asked for.
    pub const SAMPLE_MAX_STACK: usize = 108;
    /// u32 AUX sample size.
    pub const AUX_SAMPLE_SIZE: usize = 112;
    /// u64 signal data.
    pub const SIG_DATA: usize = 120;
    /// u64 config3.
    pub const CONFIG3: usize = 128;
}

/// Bits of the flags word. The kernel declares it as a C bit field, so on a big-endian machine bit `n` of the
/// declaration is bit `63 - n` of the word; [`crate::evlist::Attr::flag`] takes care of that.
pub mod flag {
    /// Starts disabled.
    pub const DISABLED: u32 = 0;
    /// Children inherit it.
    pub const INHERIT: u32 = 1;
    /// No user space.
    pub const EXCLUDE_USER: u32 = 4;
    /// No kernel.
    pub const EXCLUDE_KERNEL: u32 = 5;
    /// MMAP records.
    pub const MMAP: u32 = 8;
    /// COMM records.
    pub const COMM: u32 = 9;
    /// `sample_period` is a frequency.
    pub const FREQ: u32 = 10;
    /// Starts at exec.
    pub const ENABLE_ON_EXEC: u32 = 12;
    /// FORK and EXIT records.
    pub const TASK: u32 = 13;
    /// MMAP records for data.
    pub const MMAP_DATA: u32 = 17;
    /// Other records end in a sample id trailer.
    pub const SAMPLE_ID_ALL: u32 = 18;
    /// No host.
    pub const EXCLUDE_HOST: u32 = 19;
    /// No guest.
    pub const EXCLUDE_GUEST: u32 = 20;
    /// MMAP2 records.
    pub const MMAP2: u32 = 23;
    /// `clockid` is set.
    pub const USE_CLOCKID: u32 = 25;
    /// Build-ids in MMAP2.
    pub const BUILD_ID: u32 = 34;
}

/// Values of the attr's type.
pub mod event_type {
    /// A generic hardware counter.
    pub const HARDWARE: u32 = 0;
    /// A software counter.
    pub const SOFTWARE: u32 = 1;
    /// A tracepoint.
    pub const TRACEPOINT: u32 = 2;
    /// A cache event.
    pub const HW_CACHE: u32 = 3;
    /// A raw PMU event.
    pub const RAW: u32 = 4;
    /// A breakpoint.
    pub const BREAKPOINT: u32 = 5;
}
