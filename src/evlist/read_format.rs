//! Size of counter values in READ records and samples (`struct read_format` in `perf_event.h`).

use crate::abi::sample::read_format as bit;
use crate::bytes::ByteOrder;

/// How one event lays out its counter values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFormat(pub u64);

impl ReadFormat {
    fn has(self, bits: u64) -> usize {
        (self.0 & bits).count_ones() as usize
    }

    /// Whether a group's members are read together.
    pub fn is_group(self) -> bool {
        self.0 & bit::GROUP != 0
    }

    /// Bytes of the values that begin at `at` in `bytes`; `None` if they run past the end.
    pub fn size(self, bytes: &[u8], at: usize, order: ByteOrder) -> Option<usize> {
        let times = self.has(bit::TOTAL_TIME_ENABLED | bit::TOTAL_TIME_RUNNING);
        let value = 1 + self.has(bit::ID | bit::LOST);
        let words = if self.is_group() {
            let members = usize::try_from(order.u64(bytes, at)?).ok()?;
            members.checked_mul(value)?.checked_add(1 + times)?
        } else {
            value + times
        };
        let size = words.checked_mul(8)?;
        (at.checked_add(size)? <= bytes.len()).then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_with_ids_and_lost() {
        let mut bytes = Vec::new();
        ByteOrder::Little.put_u64(&mut bytes, 2);
        bytes.resize(8 + 8 + 2 * 24, 0);
        let format = ReadFormat(bit::GROUP | bit::ID | bit::LOST | bit::TOTAL_TIME_RUNNING);
        assert_eq!(format.size(&bytes, 0, ByteOrder::Little), Some(64));
        assert_eq!(format.size(&bytes[..63], 0, ByteOrder::Little), None);
    }

    #[test]
    fn a_hostile_member_count_is_refused() {
        let bytes = [0xff; 64];
        assert_eq!(ReadFormat(bit::GROUP).size(&bytes, 0, ByteOrder::Little), None);
    }
}
