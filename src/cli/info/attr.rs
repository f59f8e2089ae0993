//! Names for what an attr says: its event, its type, and the bits of its fields.

use crate::abi::attr::{event_type, flag, offset};
use crate::bytes::ByteOrder;
use crate::evlist::Attr;

/// Bit numbers of the flags in declaration order, and their names (`perf_event.h`). `precise_ip` takes two.
const FLAGS: &[(u32, &str)] = &[
    (0, "disabled"),
    (1, "inherit"),
    (2, "pinned"),
    (3, "exclusive"),
    (4, "exclude_user"),
    (5, "exclude_kernel"),
    (EXCLUDE_HV, "exclude_hv"),
    (7, "exclude_idle"),
    (8, "mmap"),
    (9, "comm"),
    (10, "freq"),
    (11, "inherit_stat"),
    (12, "enable_on_exec"),
    (13, "task"),
    (14, "watermark"),
    (17, "mmap_data"),
    (18, "sample_id_all"),
    (19, "exclude_host"),
    (20, "exclude_guest"),
    (21, "exclude_callchain_kernel"),
    (22, "exclude_callchain_user"),
    (23, "mmap2"),
    (24, "comm_exec"),
    (25, "use_clockid"),
    (26, "context_switch"),
    (27, "write_backward"),
    (28, "namespaces"),
    (29, "ksymbol"),
    (30, "bpf_event"),
    (31, "aux_output"),
    (32, "cgroup"),
    (33, "text_poke"),
    (34, "build_id"),
    (35, "inherit_thread"),
    (36, "remove_on_exec"),
    (37, "sigtrap"),
    (38, "defer_callchain"),
    (39, "defer_output"),
];
const EXCLUDE_HV: u32 = 6;
const PRECISE_IP: u32 = 15;

const SAMPLE_TYPE: &[&str] = &[
    "IP",
    "TID",
    "TIME",
    "ADDR",
    "READ",
    "CALLCHAIN",
    "ID",
    "CPU",
    "PERIOD",
    "STREAM_ID",
    "RAW",
    "BRANCH_STACK",
    "REGS_USER",
    "STACK_USER",
    "WEIGHT",
    "DATA_SRC",
    "IDENTIFIER",
    "TRANSACTION",
    "REGS_INTR",
    "PHYS_ADDR",
    "AUX",
    "CGROUP",
    "DATA_PAGE_SIZE",
    "CODE_PAGE_SIZE",
    "WEIGHT_STRUCT",
];

const READ_FORMAT: &[&str] = &["TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP", "LOST"];

const BRANCH_TYPE: &[&str] = &[
    "USER",
    "KERNEL",
    "HV",
    "ANY",
    "ANY_CALL",
    "ANY_RETURN",
    "IND_CALL",
    "ABORT_TX",
    "IN_TX",
    "NO_TX",
    "COND",
    "CALL_STACK",
    "IND_JUMP",
    "CALL",
    "NO_FLAGS",
    "NO_CYCLES",
    "TYPE_SAVE",
    "HW_INDEX",
    "PRIV_SAVE",
    "COUNTERS",
];

const HARDWARE: &[&str] = &[
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

const SOFTWARE: &[&str] = &[
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

const CACHES: &[&str] = &["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
/// What is counted of all accesses, and what of misses only.
const CACHE_OPS: &[(&str, &str)] =
    &[("loads", "load-misses"), ("stores", "store-misses"), ("prefetches", "prefetch-misses")];

/// Names of the `sample_type` bits that are set; a bit without a name shows as its number.
pub(super) fn sample_type(attr: &Attr) -> Vec<String> {
    bits(attr.sample_type(), SAMPLE_TYPE)
}

/// Names of the `read_format` bits that are set.
pub(super) fn read_format(attr: &Attr) -> Vec<String> {
    bits(attr.read_format(), READ_FORMAT)
}

/// Names of the `branch_sample_type` bits that are set.
pub(super) fn branch_sample_type(attr: &Attr) -> Vec<String> {
    bits(attr.branch_sample_type(), BRANCH_TYPE)
}

fn bits(word: u64, names: &[&str]) -> Vec<String> {
    let name =
        |bit: u32| names.get(bit as usize).map_or_else(|| format!("bit{bit}"), |&name| name.to_owned());
    (0..64).filter(|&bit| word >> bit & 1 == 1).map(name).collect()
}

/// Names of the flags that are set, `precise_ip` left out.
pub(super) fn flags(attr: &Attr) -> Vec<String> {
    let known = FLAGS.last().map_or(0, |last| last.0);
    let name = |bit: u32| match FLAGS.iter().find(|f| f.0 == bit) {
        Some(&(_, name)) => Some(name.to_owned()),
        None if bit > known => Some(format!("bit{bit}")),
        None => None,
    };
    (0..64).filter(|&bit| attr.flag(bit)).filter_map(name).collect()
}

/// How exact the instruction pointer is asked to be, 0 to 3.
pub(super) fn precise_ip(attr: &Attr) -> u8 {
    let (first, second) = (u8::from(attr.flag(PRECISE_IP)), u8::from(attr.flag(PRECISE_IP + 1)));
    match attr.order() {
        ByteOrder::Little => second << 1 | first,
        ByteOrder::Big => first << 1 | second,
    }
}

/// A name for the attr's type: one of the kernel's, or that of a PMU of the recording.
pub(super) fn type_name(attr: &Attr, pmu: impl Fn(u32) -> Option<String>) -> Option<String> {
    let name = match attr.event_type() {
        event_type::HARDWARE => "hardware",
        event_type::SOFTWARE => "software",
        event_type::TRACEPOINT => "tracepoint",
        event_type::HW_CACHE => "hw_cache",
        event_type::RAW => "raw",
        event_type::BREAKPOINT => "breakpoint",
        other => return pmu(other),
    };
    Some(name.to_owned())
}

/// A name for an event that the recording does not name, in perf's notation.
///
/// `tracepoint` gives `system:name` of a tracepoint id, `pmu` the name of a PMU type, as far as the recording
/// has them.
pub(in crate::cli) fn event_name(
    attr: &Attr,
    tracepoint: impl Fn(u64) -> Option<String>,
    pmu: impl Fn(u32) -> Option<String>,
) -> String {
    let config = attr.config();
    // The upper half of a hardware event's config is the type of the PMU that counts it.
    let low = config & 0xffff_ffff;
    let of =
        |names: &[&str]| usize::try_from(low).ok().and_then(|i| names.get(i)).map(|&name| name.to_owned());
    let base = match attr.event_type() {
        event_type::HARDWARE => of(HARDWARE).unwrap_or_else(|| format!("unknown-hardware-{low:#x}")),
        event_type::SOFTWARE => of(SOFTWARE).unwrap_or_else(|| format!("unknown-software-{low:#x}")),
        event_type::TRACEPOINT => {
            return tracepoint(config).unwrap_or_else(|| format!("unknown-tracepoint-{config}"));
        }
        event_type::HW_CACHE => cache_event(low).unwrap_or_else(|| format!("unknown-cache-{low:#x}")),
        event_type::RAW => format!("raw {config:#x}"),
        event_type::BREAKPOINT => breakpoint(attr),
        other => {
            let name = pmu(other).unwrap_or_else(|| format!("unknown-type-{other}"));
            return format!("{name}/config={config:#x}/{}", modifiers(attr));
        }
    };
    match modifiers(attr) {
        letters if letters.is_empty() => base,
        letters => format!("{base}:{letters}"),
    }
}

fn cache_event(config: u64) -> Option<String> {
    let byte = |shift: u32| (config >> shift & 0xff) as usize;
    let cache = CACHES.get(byte(0))?;
    let (all, misses) = CACHE_OPS.get(byte(8))?;
    match byte(16) {
        0 => Some(format!("{cache}-{all}")),
        1 => Some(format!("{cache}-{misses}")),
        _ => None,
    }
}

fn breakpoint(attr: &Attr) -> String {
    let access = attr.u32(offset::BP_TYPE);
    let letters: String =
        [(1, 'r'), (2, 'w'), (4, 'x')].iter().filter(|(bit, _)| access & bit != 0).map(|&(_, c)| c).collect();
    format!("mem:{:#x}:{letters}", attr.u64(offset::CONFIG1))
}

/// Letters: whom it counts, if not everybody, and how exactly.
fn modifiers(attr: &Attr) -> String {
    let excluded = [(flag::EXCLUDE_KERNEL, 'k'), (flag::EXCLUDE_USER, 'u'), (EXCLUDE_HV, 'h')]
        .map(|(bit, c)| (attr.flag(bit), c));
    let mut letters = String::new();
    let some_mode = excluded.iter().any(|e| e.0);
    if some_mode {
        letters.extend(excluded.iter().filter(|e| !e.0).map(|e| e.1));
    }
    let precise = precise_ip(attr);
    letters.extend(std::iter::repeat_n('p', precise.into()));
    // An event with modifiers of its own leaves guests out unless told otherwise.
    let guests_out_by_default = some_mode || precise != 0;
    let (host, guest) = (attr.flag(flag::EXCLUDE_HOST), attr.flag(flag::EXCLUDE_GUEST));
    if host || guest == guests_out_by_default {
        letters.extend([(host, 'H'), (guest, 'G')].iter().filter(|e| !e.0).map(|e| e.1));
    }
    letters
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

    fn attr(order: ByteOrder, event_type: u32, config: u64, flag_bits: &[u32]) -> Attr {
        let mut bytes = vec![0; 136];
        order.set_u32(&mut bytes, offset::TYPE, event_type).unwrap();
        order.set_u64(&mut bytes, offset::CONFIG, config).unwrap();
        let word = flag_bits
            .iter()
            .fold(0u64, |word, &bit| word | 1 << if order == ByteOrder::Little { bit } else { 63 - bit });
        order.set_u64(&mut bytes, offset::FLAGS, word).unwrap();
        Attr::new(&bytes, order)
    }

    fn name(attr: &Attr) -> String {
        let tracepoint = |id| (id == 318).then(|| "sched:sched_switch".to_owned());
        let pmu = |t| (t == 8).then(|| "intel_pt".to_owned());
        event_name(attr, tracepoint, pmu)
    }

    #[test]
    fn events_are_named_in_perfs_notation() {
        const GUEST: u32 = flag::EXCLUDE_GUEST;
        for order in ORDERS {
            for (event_type, config, flag_bits, expected) in [
                (0, 0, &[GUEST][..], "cycles"),
                (0, 4 << 32 | 1, &[GUEST], "instructions"),
                (0, 0, &[5, EXCLUDE_HV], "cycles:u"),
                (0, 0, &[4, EXCLUDE_HV], "cycles:k"),
                (1, 9, &[], "dummy:HG"),
                (1, 99, &[GUEST], "unknown-software-0x63"),
                (2, 318, &[], "sched:sched_switch"),
                (2, 1, &[], "unknown-tracepoint-1"),
                (3, 0x1_0000, &[GUEST], "L1-dcache-load-misses"),
                (3, 0x0103, &[GUEST], "dTLB-stores"),
                (3, 0x2_0000, &[GUEST], "unknown-cache-0x20000"),
                (4, 0x1c2, &[GUEST], "raw 0x1c2"),
                (5, 0, &[GUEST], "mem:0x0:"),
                (8, 0x300, &[5], "intel_pt/config=0x300/uh"),
                (77, 1, &[GUEST], "unknown-type-77/config=0x1/"),
            ] {
                assert_eq!(name(&attr(order, event_type, config, flag_bits)), expected);
            }
        }
    }

    #[test]
    fn precise_ip_is_two_bits_in_either_order() {
        for (value, little, big) in [(1, 15, 16), (2, 16, 15)] {
            let of = |order, bit| attr(order, 0, 0, &[bit]);
            assert_eq!(precise_ip(&of(ByteOrder::Little, little)), value);
            assert_eq!(precise_ip(&of(ByteOrder::Big, big)), value);
        }
        assert_eq!(name(&attr(ByteOrder::Big, 0, 0, &[15, 16, flag::EXCLUDE_GUEST])), "cycles:pppH");
    }

    #[test]
    fn bits_without_a_name_show_as_numbers() {
        for order in ORDERS {
            assert_eq!(
                flags(&attr(order, 0, 0, &[0, 18, 39, 50])),
                ["disabled", "sample_id_all", "defer_output", "bit50"]
            );
            let mut bytes = vec![0; 64];
            order.set_u64(&mut bytes, offset::SAMPLE_TYPE, 1 | 1 << 24 | 1 << 60).unwrap();
            order.set_u64(&mut bytes, offset::READ_FORMAT, 0b1_0100).unwrap();
            let attr = Attr::new(&bytes, order);
            assert_eq!(sample_type(&attr), ["IP", "WEIGHT_STRUCT", "bit60"]);
            assert_eq!(read_format(&attr), ["ID", "LOST"]);
            assert!(branch_sample_type(&attr).is_empty());
        }
    }

    #[test]
    fn types_of_the_kernel_and_of_pmus_have_names() {
        let pmu = |t| (t == 8).then(|| "intel_pt".to_owned());
        assert_eq!(type_name(&attr(ByteOrder::Big, 3, 0, &[]), pmu).as_deref(), Some("hw_cache"));
        assert_eq!(type_name(&attr(ByteOrder::Big, 8, 0, &[]), pmu).as_deref(), Some("intel_pt"));
        assert_eq!(type_name(&attr(ByteOrder::Big, 9, 0, &[]), pmu), None);
    }
}
