//! CPU_TOPOLOGY: which CPUs are siblings, and each CPU's core, socket and die.
//!
//! The section grew: sibling lists at first; then core and socket of each available CPU; then, on machines
//! with dies, die sibling lists and each CPU's die. Only its end tells which of these are there, and only
//! NRCPUS how many CPUs there are.

use super::reader::Reader;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// The section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTopology {
    /// CPU lists such as `0-3`, one per socket (since there are dies: per die).
    pub core_siblings: Vec<String>,
    /// CPU lists, one per core.
    pub thread_siblings: Vec<String>,
    /// CPU lists, one per socket; empty if the section has no dies.
    pub die_siblings: Vec<String>,
    /// By CPU number; empty in old recordings.
    pub cpus: Vec<CpuPlace>,
    /// Bytes at the end that could not be read because the number of CPUs is not known.
    pub unread: usize,
}

/// Where a CPU sits. Ids are the machine's own; -1 (all bits set) where the kernel did not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    /// Id of the core within its socket.
    pub core: u32,
    /// Id of the socket.
    pub socket: u32,
    /// Id of the die within its socket, if the section has dies.
    pub die: Option<u32>,
}

impl CpuTopology {
    /// Parses the section. `cpus` is the number of available CPUs as NRCPUS has it, if the recording has
    /// one; without it only the sibling lists can be read.
    /// Errors if a list or the table of CPUs is cut short.
    pub fn parse(section: &[u8], order: ByteOrder, cpus: Option<u32>) -> Result<CpuTopology> {
        let mut r = Reader::new(Feature::CPU_TOPOLOGY, section, order);
        let mut topology = CpuTopology {
            core_siblings: r.strings()?,
            thread_siblings: r.strings()?,
            ..CpuTopology::default()
        };
        if r.at_end() {
            return Ok(topology);
        }
        let Some(cpus) = cpus else {
            topology.unread = r.remaining();
            return Ok(topology);
        };
        for _ in 0..cpus {
            topology.cpus.push(CpuPlace { core: r.u32()?, socket: r.u32()?, die: None });
        }
        if r.at_end() {
            return Ok(topology);
        }
        topology.die_siblings = r.strings()?;
        for cpu in &mut topology.cpus {
            cpu.die = Some(r.u32()?);
        }
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::strings;
    use super::*;
    use crate::error::ErrorKind;

    fn lists(order: ByteOrder) -> Vec<u8> {
        let mut out = Vec::new();
        strings::emit_cmdline(&["0-1"], order, &mut out);
        strings::emit_cmdline(&["0", "1"], order, &mut out);
        out
    }

    fn words(order: ByteOrder, out: &mut Vec<u8>, words: &[u32]) {
        for &word in words {
            order.put_u32(out, word);
        }
    }

    #[test]
    fn each_generation_of_the_layout_is_read() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut section = lists(order);
            let first = CpuTopology::parse(&section, order, Some(2)).unwrap();
            assert_eq!(
                (first.core_siblings, first.thread_siblings),
                (vec!["0-1".into()], vec!["0".into(), "1".into()])
            );
            assert_eq!((first.cpus, first.die_siblings), (vec![], vec![]));

            words(order, &mut section, &[0, 3, 1, 3]);
            let second = CpuTopology::parse(&section, order, Some(2)).unwrap();
            let place = |core, die| CpuPlace { core, socket: 3, die };
            assert_eq!(second.cpus, [place(0, None), place(1, None)]);

            strings::emit_cmdline(&["0-1"], order, &mut section);
            words(order, &mut section, &[5, 6]);
            let third = CpuTopology::parse(&section, order, Some(2)).unwrap();
            assert_eq!(third.cpus, [place(0, Some(5)), place(1, Some(6))]);
            assert_eq!(third.die_siblings, ["0-1"]);
        }
    }

    #[test]
    fn without_nrcpus_the_lists_are_read_and_the_rest_is_counted() {
        let order = ByteOrder::Little;
        let mut section = lists(order);
        words(order, &mut section, &[0, 0, 1, 0]);
        let topology = CpuTopology::parse(&section, order, None).unwrap();
        assert_eq!((topology.thread_siblings.len(), topology.cpus.len(), topology.unread), (2, 0, 16));
    }

    #[test]
    fn a_false_number_of_cpus_ends_in_an_error() {
        let order = ByteOrder::Little;
        let mut section = lists(order);
        words(order, &mut section, &[0, 0]);
        let e = CpuTopology::parse(&section, order, Some(u32::MAX)).unwrap_err();
        assert_eq!((e.kind(), e.offset()), (ErrorKind::Truncated, Some(section.len() as u64)));
    }
}
