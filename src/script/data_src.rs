//! Where the data of a memory access came from, in words (`union perf_mem_data_src` of `linux/perf_event.h`).

use std::fmt::Write;

/// Longest text, number and words, as perf has it: what is longer, which no CPU tells, is cut.
const LONGEST: usize = 99;

const OPERATIONS: [&str; 5] = ["N/A", "LOAD", "STORE", "PFETCH", "EXEC"];
/// By bit, from the fourth on: those before say not available, hit and miss.
const LEVELS: [&str; 11] = [
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];
/// By number, which newer kernels give instead of bits; 0 and the last are none.
const LEVEL_NUMBERS: [&str; 15] = [
    "",
    "L1",
    "L2",
    "L3",
    "L4",
    "L2 MHB",
    "Memory-side Cache",
    "",
    "Uncached",
    "CXL",
    "I/O",
    "Any cache",
    "LFB/MAB",
    "RAM",
    "PMEM",
];
const HOPS: [&str; 5] = ["N/A", "core, same node", "node, same socket", "socket, same board", "board"];
const SNOOPS: [&str; 5] = ["N/A", "None", "Hit", "Miss", "HitM"];
const MORE_SNOOPS: [&str; 2] = ["Fwd", "Peer"];
const TLBS: [&str; 4] = ["L1", "L2", "Walker", "Fault"];

/// A data source as `perf script` shows it: the number, and what it says.
pub(super) fn describe(value: u64) -> String {
    let bits = |from: u32, count: u32| value >> from & ((1 << count) - 1);
    let mut out = String::with_capacity(LONGEST);
    // Writing into a string can't fail.
    let _ = write!(out, "{value:16x} |OP ");
    let operation = OPERATIONS.iter().enumerate().find(|(bit, _)| bits(0, 5) >> bit & 1 != 0);
    out.push_str(operation.map_or("No", |(_, name)| name));
    out.push_str("|LVL ");
    level(&mut out, bits(5, 14), bits(33, 4), bits(37, 1) != 0, bits(43, 3));
    out.push_str("|SNP ");
    let snoops = (0u32..).zip(SNOOPS).filter(|(bit, _)| bits(19, 5) >> bit & 1 != 0);
    let more = (0u32..).zip(MORE_SNOOPS).filter(|(bit, _)| bits(38, 2) >> bit & 1 != 0);
    either(&mut out, snoops.chain(more).map(|(_, name)| name));
    out.push_str("|TLB ");
    let tlb = bits(26, 7);
    let unknown = (tlb & 1 != 0).then_some("N/A");
    let names = (3u32..).zip(TLBS).filter(|(bit, _)| tlb >> bit & 1 != 0).map(|(_, name)| name);
    either(&mut out, unknown.into_iter().chain(names));
    for (bit, name) in [(1, " hit"), (2, " miss")] {
        out.push_str(if tlb >> bit & 1 != 0 { name } else { "" });
    }
    out.push_str("|LCK ");
    out.push_str(match bits(24, 2) {
        0 => "No",
        2 => "Yes",
        _ => "N/A",
    });
    out.push_str("|BLK ");
    let blocked = bits(40, 3);
    if blocked == 0 || blocked & 1 != 0 {
        out.push_str(" N/A");
    } else {
        out.push_str(if blocked & 2 != 0 { " Data" } else { "" });
        out.push_str(if blocked & 4 != 0 { " Addr" } else { "" });
    }
    out.truncate(LONGEST);
    out
}

fn level(out: &mut String, bits: u64, number: u64, remote: bool, hops: u64) {
    let by_bit = (3u32..).zip(LEVELS).filter(|(bit, _)| bits >> bit & 1 != 0).map(|(_, name)| name);
    let hit = match (bits >> 1 & 1, bits >> 2 & 1) {
        (1, _) => " hit",
        (_, 1) => " miss",
        // perf leaves the place of it.
        _ => " ",
    };
    if (1..15).contains(&number) {
        out.push_str(if remote { "Remote " } else { "" });
        if hops != 0 {
            out.push_str(HOPS.get(hops as usize).unwrap_or(&"(null)"));
            out.push(' ');
        }
        match LEVEL_NUMBERS.get(number as usize) {
            Some(name) if !name.is_empty() => out.push_str(name),
            _ => {
                let _ = write!(out, "Unknown level {number}");
            }
        }
        out.push_str(hit);
    } else if bits >> 3 != 0 {
        either(out, by_bit);
        out.push_str(hit);
    } else {
        out.push_str("N/A");
    }
}

/// The names with "or" between them.
fn either<'n>(out: &mut String, names: impl Iterator<Item = &'n str>) {
    let start = out.len();
    for name in names {
        out.push_str(if out.len() > start { " or " } else { "" });
        out.push_str(name);
    }
    if out.len() == start {
        out.push_str("N/A");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_perf_has_them() {
        for (value, words) in [
            (0x0a62_0000_0000, "|OP No|LVL Remote core, same node L1 |SNP Fwd|TLB N/A|LCK No|BLK  Data"),
            (
                0x06d0_1a10_0004,
                "|OP STORE|LVL Uncached |SNP None or Fwd or Peer|TLB N/A hit miss|LCK Yes|BLK  Data",
            ),
            (0x0118_6810_0242, "|OP LOAD|LVL LFB/MAB hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A"),
            (0x02d4_0000_0088, "|OP PFETCH|LVL I/O miss|SNP Fwd or Peer|TLB N/A|LCK No|BLK  Data"),
            (0x001e_0508_0021, "|OP N/A|LVL N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A"),
            (0, "|OP No|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  N/A"),
        ] {
            assert_eq!(describe(value), format!("{value:16x} {words}"));
        }
        let all = "|OP No|LVL L1 or LFB/MAB or L2 or L3 or Local RAM or Remote RAM (1 hop) or Remote ";
        assert_eq!(describe(0x03ff_ffff_ff00), format!("     3ffffffff00 {all}"));
        assert_eq!(describe(u64::MAX).len(), LONGEST);
    }
}
