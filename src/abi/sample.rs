//! Bits of `sample_type`, `read_format` and `branch_sample_type` (`perf_event.h`).

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident = $bit:expr;)+) => { $($(#[$doc])* pub const $name: u64 = 1 << $bit;)+ };
}

bits! {
    /// Instruction pointer.
    IP = 0;
    /// Process and thread id.
    TID = 1;
    /// Time stamp, ns of the recording's clock.
    TIME = 2;
    /// Data address.
    ADDR = 3;
    /// Counter values.
    READ = 4;
    /// Callchain.
    CALLCHAIN = 5;
    /// Event id.
    ID = 6;
    /// CPU.
    CPU = 7;
    /// Period.
    PERIOD = 8;
    /// Stream id.
    STREAM_ID = 9;
    /// Raw data of a tracepoint or PMU.
    RAW = 10;
    /// Branch stack.
    BRANCH_STACK = 11;
    /// User registers.
    REGS_USER = 12;
    /// User stack.
    STACK_USER = 13;
    /// Weight, one word.
    WEIGHT = 14;
    /// Data source.
    DATA_SRC = 15;
    /// Event id at a fixed place: first in samples, last in other records.
    IDENTIFIER = 16;
    /// Transaction flags.
    TRANSACTION = 17;
    /// Registers at the interrupt.
    REGS_INTR = 18;
    /// Physical data address.
    PHYS_ADDR = 19;
    /// AUX data snapshot.
    AUX = 20;
    /// Cgroup id.
    CGROUP = 21;
    /// Page size of the data address.
    DATA_PAGE_SIZE = 22;
    /// Page size of the code address.
    CODE_PAGE_SIZE = 23;
    /// Weight in three parts, in one word.
    WEIGHT_STRUCT = 24;
}
/// First bit of `sample_type` that is not known here.
pub const FIRST_UNKNOWN: u64 = 1 << 25;

/// Bits of `read_format`.
pub mod read_format {
    bits! {
        /// Time enabled.
        TOTAL_TIME_ENABLED = 0;
        /// Time running.
        TOTAL_TIME_RUNNING = 1;
        /// An id beside each value.
        ID = 2;
        /// All members of the group.
        GROUP = 3;
        /// Lost records beside each value.
        LOST = 4;
    }
}

/// Bits of `branch_sample_type` that change the layout.
pub mod branch {
    bits! {
        /// The hardware index precedes the entries.
        HW_INDEX = 17;
        /// A counters word per entry follows all entries.
        COUNTERS = 19;
    }
}
