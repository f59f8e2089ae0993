//! NUMA_TOPOLOGY: nodes with their memory and CPUs; MEM_TOPOLOGY: which memory blocks belong to which node.

use super::reader::Reader;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// A node of NUMA_TOPOLOGY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNode {
    /// Number of the node.
    pub node: u32,
    /// Memory, KiB.
    pub total: u64,
    /// Memory free when the recording began, KiB.
    pub free: u64,
    /// CPU list such as `0-3`.
    pub cpus: String,
}

/// Parses NUMA_TOPOLOGY. Errors if the nodes announced are not all there.
pub fn parse_numa(section: &[u8], order: ByteOrder) -> Result<Vec<NumaNode>> {
    let mut r = Reader::new(Feature::NUMA_TOPOLOGY, section, order);
    let n = r.count(24)?;
    (0..n)
        .map(|_| Ok(NumaNode { node: r.u32()?, total: r.u64()?, free: r.u64()?, cpus: r.string()? }))
        .collect()
}

/// MEM_TOPOLOGY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemTopology {
    /// Version of the layout, 1 so far.
    pub version: u64,
    /// Bytes of a memory block.
    pub block_size: u64,
    /// Nodes with their blocks.
    pub nodes: Vec<MemNode>,
}

/// A node of [`MemTopology`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemNode {
    /// Number of the node.
    pub node: u64,
    /// Bits of the bitmap.
    pub bits: u64,
    /// Bit `n` of word `n / 64`: block `n` belongs to the node.
    pub blocks: Vec<u64>,
}

impl MemNode {
    /// How many blocks the node has.
    pub fn block_count(&self) -> u64 {
        self.blocks.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

impl MemTopology {
    /// Parses the section. Errors if a bitmap is cut short.
    ///
    /// A node's number of bits stands twice: with the node, and before the bitmap; the latter counts.
    pub fn parse(section: &[u8], order: ByteOrder) -> Result<MemTopology> {
        let mut r = Reader::new(Feature::MEM_TOPOLOGY, section, order);
        let (version, block_size) = (r.u64()?, r.u64()?);
        let n = r.count64(24)?;
        let mut nodes = Vec::new();
        for _ in 0..n {
            let (node, _, at, bits) = (r.u64()?, r.u64()?, r.position(), r.u64()?);
            let words = bits.div_ceil(64);
            if words > r.remaining() as u64 / 8 {
                return Err(r.corrupt(at, format!("bitmap of {bits} bits, {} bytes left", r.remaining())));
            }
            nodes.push(MemNode { node, bits, blocks: (0..words).map(|_| r.u64()).collect::<Result<_>>()? });
        }
        Ok(MemTopology { version, block_size, nodes })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::strings;
    use super::*;

    #[test]
    fn numa_nodes_carry_memory_and_cpus() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut section = Vec::new();
            order.put_u32(&mut section, 2);
            for node in 0..2 {
                order.put_u32(&mut section, node);
                order.put_u64(&mut section, 1000 + u64::from(node));
                order.put_u64(&mut section, 10);
                strings::emit(b"0-3", order, &mut section);
            }
            let nodes = parse_numa(&section, order).unwrap();
            assert_eq!(nodes.len(), 2);
            assert_eq!(nodes[1], NumaNode { node: 1, total: 1001, free: 10, cpus: "0-3".into() });
            assert_eq!(
                parse_numa(&section[..section.len() - 1], order).unwrap_err().offset(),
                Some(4 + 88 + 24)
            );
        }
    }

    #[test]
    fn memory_blocks_are_a_bitmap_of_64_bit_words() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut section = Vec::new();
            for word in [1, 0x800_0000, 1, 0, 65, 65, 0b1011, 1] {
                order.put_u64(&mut section, word);
            }
            let memory = MemTopology::parse(&section, order).unwrap();
            assert_eq!((memory.version, memory.block_size), (1, 128 << 20));
            assert_eq!(memory.nodes, [MemNode { node: 0, bits: 65, blocks: vec![0b1011, 1] }]);
            assert_eq!(memory.nodes[0].block_count(), 4);
            order.set_u64(&mut section, 40, u64::MAX).unwrap();
            assert_eq!(MemTopology::parse(&section, order).unwrap_err().offset(), Some(40));
        }
    }
}
