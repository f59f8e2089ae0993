//! Bits of a record header's misc word (`PERF_RECORD_MISC_*` in `perf_event.h`).

/// Mask of the cpumode.
pub const CPUMODE_MASK: u16 = 7;
/// The process wide map time-out bit of a MMAP that perf synthesized from /proc.
pub const PROC_MAP_PARSE_TIMEOUT: u16 = 1 << 12;
/// MMAP: data rather than code.
pub const MMAP_DATA: u16 = 1 << 13;
/// COMM: the thread called exec.
pub const COMM_EXEC: u16 = 1 << 13;
/// FORK: perf synthesized it; the child does not share its parent's maps.
pub const FORK_EXEC: u16 = 1 << 13;
/// SWITCH: the thread leaves the CPU.
pub const SWITCH_OUT: u16 = 1 << 13;
/// SAMPLE: the instruction pointer is exact.
pub const EXACT_IP: u16 = 1 << 14;
/// SWITCH: the thread was preempted.
pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// MMAP2: a build-id stands where device, inode and generation would.
pub const MMAP_BUILD_ID: u16 = 1 << 14;
/// HEADER_BUILD_ID: the byte after the id's 20 is its length.
pub const BUILD_ID_SIZE: u16 = 1 << 15;

/// Who ran when a record was made; decides which address space an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuMode {
    /// Not said.
    Unknown,
    /// The host's kernel.
    Kernel,
    /// A process of the host.
    User,
    /// The hypervisor.
    Hypervisor,
    /// A guest's kernel.
    GuestKernel,
    /// A process of a guest.
    GuestUser,
    /// A value that `perf_event.h` does not name.
    Other(u16),
}

impl CpuMode {
    /// From a record's misc word.
    pub fn from_misc(misc: u16) -> CpuMode {
        match misc & CPUMODE_MASK {
            0 => CpuMode::Unknown,
            1 => CpuMode::Kernel,
            2 => CpuMode::User,
            3 => CpuMode::Hypervisor,
            4 => CpuMode::GuestKernel,
            5 => CpuMode::GuestUser,
            other => CpuMode::Other(other),
        }
    }

    /// The bits of the misc word.
    pub fn bits(self) -> u16 {
        match self {
            CpuMode::Unknown => 0,
            CpuMode::Kernel => 1,
            CpuMode::User => 2,
            CpuMode::Hypervisor => 3,
            CpuMode::GuestKernel => 4,
            CpuMode::GuestUser => 5,
            CpuMode::Other(other) => other & CPUMODE_MASK,
        }
    }
}

/// Values at or above this in a callchain are context markers (`PERF_CONTEXT_MAX`).
pub const CONTEXT_MAX: u64 = -4095i64 as u64;
/// What follows ran in the hypervisor.
pub const CONTEXT_HV: u64 = -32i64 as u64;
/// What follows ran in the kernel.
pub const CONTEXT_KERNEL: u64 = -128i64 as u64;
/// What follows ran in user space.
pub const CONTEXT_USER: u64 = -512i64 as u64;
/// The user part follows in a CALLCHAIN_DEFERRED record; the next word is its cookie.
pub const CONTEXT_USER_DEFERRED: u64 = -640i64 as u64;
/// What follows ran in a guest.
pub const CONTEXT_GUEST: u64 = -2048i64 as u64;
/// What follows ran in a guest's kernel.
pub const CONTEXT_GUEST_KERNEL: u64 = -2176i64 as u64;
/// What follows ran in a guest's user space.
pub const CONTEXT_GUEST_USER: u64 = -2560i64 as u64;
