//! An event attribute with all its bytes, known or not.

use crate::abi::attr::{SIZE_VER0, offset};
use crate::bytes::ByteOrder;

/// `struct perf_event_attr` as the recording has it: its own size, all its bytes, its own byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    bytes: Vec<u8>,
    order: ByteOrder,
}

impl Attr {
    /// From exactly the attr's bytes. A size word of 0 means the first published size, as perf takes it.
    pub fn new(bytes: &[u8], order: ByteOrder) -> Self {
        Attr { bytes: bytes.to_vec(), order }
    }

    /// All bytes, as they stand in the recording.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The byte order of [`Attr::bytes`].
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// u32 at a byte offset (see [`crate::abi::attr::offset`]); 0 past the end.
    pub fn u32(&self, at: usize) -> u32 {
        self.order.u32(&self.bytes, at).unwrap_or(0)
    }

    /// u64 at a byte offset; 0 past the end.
    pub fn u64(&self, at: usize) -> u64 {
        self.order.u64(&self.bytes, at).unwrap_or(0)
    }

    /// Overwrites a u64; `None` if the attr is too short to have it.
    pub fn set_u64(&mut self, at: usize, value: u64) -> Option<()> {
        self.order.set_u64(&mut self.bytes, at, value)
    }

    /// The size that the attr states, in bytes.
    pub fn stated_size(&self) -> usize {
        match self.u32(offset::SIZE) {
            0 => SIZE_VER0,
            n => n as usize,
        }
    }

    /// Type of the event (see [`crate::abi::attr::event_type`]).
    pub fn event_type(&self) -> u32 {
        self.u32(offset::TYPE)
    }

    /// Type-specific configuration.
    pub fn config(&self) -> u64 {
        self.u64(offset::CONFIG)
    }

    /// Which fields samples have (see [`crate::abi::sample`]).
    pub fn sample_type(&self) -> u64 {
        self.u64(offset::SAMPLE_TYPE)
    }

    /// How counter values are laid out (see [`crate::abi::sample::read_format`]).
    pub fn read_format(&self) -> u64 {
        self.u64(offset::READ_FORMAT)
    }

    /// How branch stacks are laid out (see [`crate::abi::sample::branch`]).
    pub fn branch_sample_type(&self) -> u64 {
        self.u64(offset::BRANCH_SAMPLE_TYPE)
    }

    /// Whether a bit of the flags is set, by its number in declaration order
    /// (see [`crate::abi::attr::flag`]). The field is a C bit field, which big-endian compilers lay out from the
    /// most significant bit.
    pub fn flag(&self, bit: u32) -> bool {
        let word = self.u64(offset::FLAGS);
        let shift = match self.order {
            ByteOrder::Little => bit,
            ByteOrder::Big => 63 - bit.min(63),
        };
        word >> shift & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::attr::flag;

    #[test]
    fn short_attrs_read_as_zero_past_their_end() {
        let attr = Attr::new(&[0; 64], ByteOrder::Little);
        assert_eq!(attr.branch_sample_type(), 0);
        assert_eq!(attr.stated_size(), 64);
    }

    #[test]
    fn flags_are_a_bit_field_in_both_orders() {
        let mut little = vec![0; 64];
        little[offset::FLAGS + 2] = 1 << 2; // bit 18
        let mut big = vec![0; 64];
        big[offset::FLAGS + 2] = 0x80 >> 2;
        assert!(Attr::new(&little, ByteOrder::Little).flag(flag::SAMPLE_ID_ALL));
        assert!(Attr::new(&big, ByteOrder::Big).flag(flag::SAMPLE_ID_ALL));
        assert!(!Attr::new(&big, ByteOrder::Big).flag(flag::MMAP2));
    }
}
