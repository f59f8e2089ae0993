//! A whole recording as a value: what the builder makes, the writer writes and the oracle reads.

use std::collections::BTreeMap;

use super::wire::Order;

/// Record types, by the numbers of `perf_event.h` and perf's `event.h`.
pub mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const UNTHROTTLE: u32 = 6;
    pub const FORK: u32 = 7;
    pub const READ: u32 = 8;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const AUX: u32 = 11;
    pub const ITRACE_START: u32 = 12;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const NAMESPACES: u32 = 16;
    pub const KSYMBOL: u32 = 17;
    pub const BPF_EVENT: u32 = 18;
    pub const CGROUP: u32 = 19;
    pub const TEXT_POKE: u32 = 20;
    pub const AUX_OUTPUT_HW_ID: u32 = 21;
    pub const CALLCHAIN_DEFERRED: u32 = 22;
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_EVENT_TYPE: u32 = 65;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const HEADER_BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const ID_INDEX: u32 = 69;
    pub const AUXTRACE_INFO: u32 = 70;
    pub const AUXTRACE: u32 = 71;
    pub const AUXTRACE_ERROR: u32 = 72;
    pub const THREAD_MAP: u32 = 73;
    pub const CPU_MAP: u32 = 74;
    pub const STAT_CONFIG: u32 = 75;
    pub const STAT: u32 = 76;
    pub const STAT_ROUND: u32 = 77;
    pub const EVENT_UPDATE: u32 = 78;
    pub const TIME_CONV: u32 = 79;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const FINISHED_INIT: u32 = 82;
    pub const COMPRESSED2: u32 = 83;
    pub const BPF_METADATA: u32 = 84;
}

/// Feature section ids.
pub mod feature {
    pub const TRACING_DATA: u32 = 1;
    pub const BUILD_ID: u32 = 2;
    pub const HOSTNAME: u32 = 3;
    pub const OSRELEASE: u32 = 4;
    pub const VERSION: u32 = 5;
    pub const ARCH: u32 = 6;
    pub const NRCPUS: u32 = 7;
    pub const CPUDESC: u32 = 8;
    pub const CPUID: u32 = 9;
    pub const TOTAL_MEM: u32 = 10;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const CPU_TOPOLOGY: u32 = 13;
    pub const NUMA_TOPOLOGY: u32 = 14;
    pub const BRANCH_STACK: u32 = 15;
    pub const PMU_MAPPINGS: u32 = 16;
    pub const GROUP_DESC: u32 = 17;
    pub const AUXTRACE: u32 = 18;
    pub const STAT: u32 = 19;
    pub const CACHE: u32 = 20;
    pub const SAMPLE_TIME: u32 = 21;
    pub const MEM_TOPOLOGY: u32 = 22;
    pub const CLOCKID: u32 = 23;
    pub const DIR_FORMAT: u32 = 24;
    pub const BPF_PROG_INFO: u32 = 25;
    pub const BPF_BTF: u32 = 26;
    pub const COMPRESSED: u32 = 27;
    pub const CPU_PMU_CAPS: u32 = 28;
    pub const CLOCK_DATA: u32 = 29;
    pub const HYBRID_TOPOLOGY: u32 = 30;
    pub const PMU_CAPS: u32 = 31;
}

/// Bits of `sample_type`.
pub mod st {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const REGS_INTR: u64 = 1 << 18;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const AUX: u64 = 1 << 20;
    pub const CGROUP: u64 = 1 << 21;
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
    /// Every bit of today's `perf_event.h`, with the newer of the two weights.
    pub const ALL: u64 = ((1 << 25) - 1) & !WEIGHT;
}

/// Bits of `read_format`.
pub mod rf {
    pub const TIME_ENABLED: u64 = 1;
    pub const TIME_RUNNING: u64 = 2;
    pub const ID: u64 = 4;
    pub const GROUP: u64 = 8;
    pub const LOST: u64 = 16;
}

/// Bits of an attr's flags word, as little-endian numbers them.
pub mod flag {
    pub const DISABLED: u64 = 1 << 0;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const TASK: u64 = 1 << 13;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const MMAP2: u64 = 1 << 23;
    pub const BUILD_ID: u64 = 1 << 34;
    pub const DEFER_CALLCHAIN: u64 = 1 << 39;
}

/// Bits of `branch_sample_type` that add words.
pub mod branch {
    pub const HW_INDEX: u64 = 1 << 17;
    pub const COUNTERS: u64 = 1 << 19;
}

/// Bits of a record's misc word.
pub mod misc {
    pub const KERNEL: u16 = 1;
    pub const USER: u16 = 2;
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    pub const BUILD_ID_SIZE: u16 = 1 << 15;
}

/// An attr with its ids; `raw` is as long as `raw.size` says, or longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    pub raw: Vec<u8>,
    pub ids: Vec<u64>,
}

/// An attr's flags word as a big-endian compiler lays out its bit fields: from the other end.
pub fn flags_big(word: u64) -> u64 {
    bitfield_big(word, &ATTR_FIELDS)
}

/// The reverse of [`flags_big`].
pub fn flags_little(word: u64) -> u64 {
    bitfield_little(word, &ATTR_FIELDS)
}

/// Widths of the attr's bit fields: all are one bit, but for `precise_ip`.
const ATTR_FIELDS: [u32; 63] = {
    let mut widths = [1; 63];
    widths[15] = 2;
    widths
};
/// Widths of a branch entry's bit fields: mispred, predicted, in_tx, abort, cycles, type, spec, new_type, priv, rest.
pub const BRANCH_FIELDS: [u32; 10] = [1, 1, 1, 1, 16, 4, 2, 4, 3, 31];

/// Little-endian layout of consecutive bit fields to the big-endian one.
pub fn bitfield_big(word: u64, widths: &[u32]) -> u64 {
    let (mut at, mut out) = (0, 0);
    for &w in widths {
        let v = word >> at & (u64::MAX >> (64 - w));
        at += w;
        out |= v << (64 - at);
    }
    out
}

/// Big-endian layout of consecutive bit fields to the little-endian one.
pub fn bitfield_little(word: u64, widths: &[u32]) -> u64 {
    let (mut at, mut out) = (0, 0);
    for &w in widths {
        let v = word >> (64 - at - w) & (u64::MAX >> (64 - w));
        out |= v << at;
        at += w;
    }
    out
}

impl Attr {
    fn word(&self, order: Order, at: usize) -> u64 {
        if self.raw.len() < at + 8 { 0 } else { order.u64(&self.raw, at) }
    }

    /// The bytes that the attr's own size counts; a file's entry may have more.
    pub fn counted(&self, order: Order) -> &[u8] {
        match order.u32(&self.raw, 4) as usize {
            0 => &self.raw,
            size => &self.raw[..size.min(self.raw.len())],
        }
    }

    pub fn sample_type(&self, order: Order) -> u64 {
        self.word(order, 24)
    }

    pub fn read_format(&self, order: Order) -> u64 {
        self.word(order, 32)
    }

    /// The flags with their bits at little-endian places.
    pub fn flags(&self, order: Order) -> u64 {
        let word = self.word(order, 40);
        match order {
            Order::Little => word,
            Order::Big => flags_little(word),
        }
    }

    pub fn branch_sample_type(&self, order: Order) -> u64 {
        self.word(order, 72)
    }

    pub fn regs_user(&self, order: Order) -> u64 {
        self.word(order, 80)
    }

    pub fn regs_intr(&self, order: Order) -> u64 {
        self.word(order, 96)
    }

    pub fn sample_id_all(&self, order: Order) -> bool {
        self.flags(order) & flag::SAMPLE_ID_ALL != 0
    }

    /// Bytes of the sample id trailer of records that are not samples.
    pub fn trailer_size(&self, order: Order) -> usize {
        if !self.sample_id_all(order) {
            return 0;
        }
        let bits = self.sample_type(order)
            & (st::TID | st::TIME | st::ID | st::STREAM_ID | st::CPU | st::IDENTIFIER);
        bits.count_ones() as usize * 8
    }
}

/// One record: header and body as `header.size` has them, and the payload that follows outside of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    pub bytes: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Record {
    pub fn kind(&self, order: Order) -> u32 {
        order.u32(&self.bytes, 0)
    }

    pub fn misc(&self, order: Order) -> u16 {
        order.u16(&self.bytes, 4)
    }

    pub fn body(&self) -> &[u8] {
        &self.bytes[8..]
    }

    pub fn len(&self) -> usize {
        self.bytes.len() + self.payload.len()
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[")?;
        for b in self.bytes.iter().take(96) {
            write!(f, "{b:02x}")?;
        }
        write!(f, "{} +{} payload]", if self.bytes.len() > 96 { "…" } else { "" }, self.payload.len())
    }
}

/// What the bytes stood in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Header of 104 bytes, attrs and feature sections beside the data.
    File,
    /// Header of 16 bytes; attrs and features are records.
    Pipe,
}

/// A recording. In a pipe, attrs and features stay empty until [`super::compare::normalise`] takes them from the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    pub order: Order,
    pub container: Container,
    pub attrs: Vec<Attr>,
    /// The `event_types` section of old files.
    pub event_types: Vec<u8>,
    pub features: BTreeMap<u32, Vec<u8>>,
    pub records: Vec<Record>,
}

impl Recording {
    pub fn kinds(&self) -> Vec<u32> {
        self.records.iter().map(|r| r.kind(self.order)).collect()
    }

    pub fn count(&self, kind: u32) -> usize {
        self.kinds().into_iter().filter(|&k| k == kind).count()
    }

    pub fn of_kind(&self, kind: u32) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |r| r.kind(self.order) == kind)
    }

    /// Finds the attr of a sample or of a trailer by its id, or the first attr where ids are not told.
    pub fn attr_of(&self, id: Option<u64>) -> Option<&Attr> {
        id.and_then(|id| self.attrs.iter().find(|a| a.ids.contains(&id))).or_else(|| self.attrs.first())
    }
}

/// One entry of a build-id table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuildId {
    pub misc: u16,
    pub pid: i32,
    pub id: Vec<u8>,
    pub name: String,
}

impl BuildId {
    /// Whether both name the same file and id. An entry that does not tell its id's size is padded with zeros, and
    /// nobody knows which of them belong to the id.
    pub fn agrees(&self, other: &BuildId) -> bool {
        let told = self.misc & other.misc & misc::BUILD_ID_SIZE != 0;
        let trimmed = |id: &[u8]| id[..id.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1)].to_vec();
        self.name == other.name
            && if told { self.id == other.id } else { trimmed(&self.id) == trimmed(&other.id) }
    }

    pub fn hex(&self) -> String {
        self.id.iter().map(|b| format!("{b:02x}")).collect()
    }
}
