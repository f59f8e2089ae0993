//! Record types. Below 64 they come from the kernel (`enum perf_event_type` in `perf_event.h`), from 64 on
//! from perf itself (`enum perf_user_event_type` in libperf's `event.h`), from 32768 on from simpleperf.

use super::open_enum;

/// Bytes of a record header: u32 type, u16 misc, u16 size (the header included).
pub const HEADER_SIZE: usize = 8;

open_enum! {
    /// The type of a record, the first word of its header.
    RecordType(u32) {
        /// A mapping, without protection or file identity.
        MMAP = 1,
        /// Records that the ring buffer had no room for.
        LOST = 2,
        /// A thread's name; with the exec bit, a new program.
        COMM = 3,
        /// A thread ended.
        EXIT = 4,
        /// Sampling was throttled.
        THROTTLE = 5,
        /// Sampling went on.
        UNTHROTTLE = 6,
        /// A thread or process began.
        FORK = 7,
        /// Counter values of a thread that ended.
        READ = 8,
        /// A sample.
        SAMPLE = 9,
        /// A mapping with protection and either inode or build-id.
        MMAP2 = 10,
        /// AUX data became available.
        AUX = 11,
        /// A thread whose instructions are traced began to run.
        ITRACE_START = 12,
        /// Samples that were lost.
        LOST_SAMPLES = 13,
        /// A context switch.
        SWITCH = 14,
        /// A context switch seen from the CPU.
        SWITCH_CPU_WIDE = 15,
        /// Namespaces of a thread.
        NAMESPACES = 16,
        /// A kernel symbol that came or went.
        KSYMBOL = 17,
        /// A BPF program that came or went.
        BPF_EVENT = 18,
        /// A cgroup's id and path.
        CGROUP = 19,
        /// Kernel text was patched.
        TEXT_POKE = 20,
        /// Which hardware event an AUX output belongs to.
        AUX_OUTPUT_HW_ID = 21,
        /// The user part of a callchain that an earlier sample deferred.
        CALLCHAIN_DEFERRED = 22,
        /// An event attribute with its ids (pipe format).
        HEADER_ATTR = 64,
        /// A tracepoint type's name (old, unused).
        HEADER_EVENT_TYPE = 65,
        /// Tracing data; its payload follows the record.
        HEADER_TRACING_DATA = 66,
        /// The build-id of a DSO.
        HEADER_BUILD_ID = 67,
        /// Everything written so far is older than what comes after the next one.
        FINISHED_ROUND = 68,
        /// Ids with their CPU and thread.
        ID_INDEX = 69,
        /// The kind of AUX traces.
        AUXTRACE_INFO = 70,
        /// AUX data; its payload follows the record.
        AUXTRACE = 71,
        /// A decoder's error.
        AUXTRACE_ERROR = 72,
        /// Threads that were recorded.
        THREAD_MAP = 73,
        /// CPUs that were recorded.
        CPU_MAP = 74,
        /// Configuration of perf stat.
        STAT_CONFIG = 75,
        /// A count of perf stat.
        STAT = 76,
        /// A round of perf stat.
        STAT_ROUND = 77,
        /// Unit, scale, name or CPUs of an event.
        EVENT_UPDATE = 78,
        /// Conversion from TSC to perf time.
        TIME_CONV = 79,
        /// A feature section (pipe format).
        HEADER_FEATURE = 80,
        /// A zstd chunk of records.
        COMPRESSED = 81,
        /// The synthesized records are complete.
        FINISHED_INIT = 82,
        /// A zstd chunk of records, padded, with its size.
        COMPRESSED2 = 83,
        /// Metadata of a BPF program.
        BPF_METADATA = 84,
    }
}

impl RecordType {
    /// First type that perf itself emits rather than the kernel; such records have no sample id trailer.
    pub const USER_FIRST: u32 = 64;

    /// Whether the kernel emits it.
    pub fn is_kernel(self) -> bool {
        self.0 < Self::USER_FIRST
    }
}
