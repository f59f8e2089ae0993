//! Feature section ids (`HEADER_*` in perf's `header.h`; simpleperf's begin at 128).

use super::open_enum;

/// Number of feature bits in the file header.
pub const FEATURE_BITS: u32 = 256;

open_enum! {
    /// A feature section's bit in the file header.
    Feature(u32) {
        /// Tracepoint formats.
        TRACING_DATA = 1,
        /// Build-ids of DSOs.
        BUILD_ID = 2,
        /// Host name.
        HOSTNAME = 3,
        /// Kernel release.
        OSRELEASE = 4,
        /// perf's version.
        VERSION = 5,
        /// Machine architecture.
        ARCH = 6,
        /// CPUs configured and on line.
        NRCPUS = 7,
        /// CPU model.
        CPUDESC = 8,
        /// CPU id.
        CPUID = 9,
        /// Memory, KiB.
        TOTAL_MEM = 10,
        /// perf's command line.
        CMDLINE = 11,
        /// Event names, attrs and ids.
        EVENT_DESC = 12,
        /// CPU topology.
        CPU_TOPOLOGY = 13,
        /// NUMA topology.
        NUMA_TOPOLOGY = 14,
        /// Branch stacks were recorded.
        BRANCH_STACK = 15,
        /// PMU names and types.
        PMU_MAPPINGS = 16,
        /// Event groups.
        GROUP_DESC = 17,
        /// Index of AUX data by file offset.
        AUXTRACE = 18,
        /// perf stat recording.
        STAT = 19,
        /// CPU caches.
        CACHE = 20,
        /// Time of the first and last sample, ns.
        SAMPLE_TIME = 21,
        /// Memory blocks.
        MEM_TOPOLOGY = 22,
        /// Resolution of the clock, ns.
        CLOCKID = 23,
        /// A directory's layout version.
        DIR_FORMAT = 24,
        /// BPF programs.
        BPF_PROG_INFO = 25,
        /// BPF type information.
        BPF_BTF = 26,
        /// zstd compression parameters.
        COMPRESSED = 27,
        /// Capabilities of the CPU PMU.
        CPU_PMU_CAPS = 28,
        /// Clock and wall time at one moment.
        CLOCK_DATA = 29,
        /// Hybrid CPU topology.
        HYBRID_TOPOLOGY = 30,
        /// Capabilities of each PMU.
        PMU_CAPS = 31,
        /// Scheduler domains.
        CPU_DOMAIN_INFO = 32,
        /// ELF machine and flags of the recorded processes.
        E_MACHINE = 33,
        /// Cache line size, bytes.
        CLN_SIZE = 34,
        /// simpleperf: file list with symbols.
        SIMPLEPERF_FILE = 128,
        /// simpleperf: key-value pairs.
        SIMPLEPERF_META_INFO = 129,
        /// simpleperf: debug unwind failures.
        SIMPLEPERF_DEBUG_UNWIND = 130,
        /// simpleperf: debug unwind file contents.
        SIMPLEPERF_DEBUG_UNWIND_FILE = 131,
        /// simpleperf: file list with symbols, second layout.
        SIMPLEPERF_FILE2 = 132,
        /// simpleperf: ETM branch lists.
        SIMPLEPERF_ETM_BRANCH_LIST = 133,
        /// simpleperf: init map.
        SIMPLEPERF_INIT_MAP = 134,
    }
}
