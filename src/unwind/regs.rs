//! Registers of a sample, by perf's numbers (`perf_regs.h` of x86 and arm64).

use crate::bytes::ByteOrder;

/// User registers as a sample has them: a word for each bit of the mask, lowest first.
#[derive(Clone, Copy, Debug)]
pub struct Registers<'a> {
    /// `sample_regs_user` of the event.
    pub mask: u64,
    /// The words.
    pub words: &'a [u8],
    /// Byte order of the recording.
    pub order: ByteOrder,
}

/// What unwinding begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
    /// Link register, where there is one.
    pub lr: u64,
}

impl Registers<'_> {
    /// A register by its number.
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(number)?;
        if self.mask & bit == 0 {
            return None;
        }
        let index = (self.mask & (bit - 1)).count_ones() as usize;
        self.order.u64(self.words, index * 8)
    }

    pub(super) fn x86_64(&self) -> Option<Start> {
        const BP: u32 = 6;
        const SP: u32 = 7;
        const IP: u32 = 8;
        Some(Start { pc: self.get(IP)?, sp: self.get(SP)?, fp: self.get(BP).unwrap_or(0), lr: 0 })
    }

    pub(super) fn arm64(&self) -> Option<Start> {
        const FP: u32 = 29;
        const LR: u32 = 30;
        const SP: u32 = 31;
        const PC: u32 = 32;
        let (pc, sp) = (self.get(PC)?, self.get(SP)?);
        Some(Start { pc, sp, fp: self.get(FP).unwrap_or(0), lr: self.get(LR).unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_the_order_of_the_masks_bits() {
        let words: Vec<u8> = [10u64, 11, 12, 13].iter().flat_map(|w| w.to_le_bytes()).collect();
        let regs = Registers { mask: 1 | 1 << 6 | 1 << 7 | 1 << 8, words: &words, order: ByteOrder::Little };
        assert_eq!(regs.x86_64(), Some(Start { pc: 13, sp: 12, fp: 11, lr: 0 }));
        assert_eq!((regs.get(1), regs.get(63), regs.get(200)), (None, None, None));
        assert_eq!(regs.arm64(), None);
        let cut = Registers { words: &words[..24], ..regs };
        assert_eq!(cut.x86_64(), None);
    }
}
