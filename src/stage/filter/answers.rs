//! Answers to questions of places, remembered by address and by range.

const SLOTS_BITS: u32 = 14;
/// How many slots there are.
pub const SLOTS: usize = 1 << SLOTS_BITS;
/// Ranges that are kept of an address space.
const SETTLED: usize = 6;
/// Questions whose answers are remembered.
const REMEMBERED: u32 = 32;

/// Answers to the first questions, a bit each.
#[derive(Clone, Copy, Default)]
pub struct Answers {
    known: u32,
    yes: u32,
}

impl Answers {
    /// The answer, if it is known.
    #[inline]
    pub fn get(self, question: u32) -> Option<bool> {
        let bit = bit(question);
        (self.known & bit != 0).then_some(self.yes & bit != 0)
    }

    /// Notes an answer.
    pub fn set(&mut self, question: u32, yes: bool) {
        self.known |= bit(question);
        if yes {
            self.yes |= bit(question);
        }
    }
}

/// None for questions that are not remembered.
#[inline]
fn bit(question: u32) -> u32 {
    if question < REMEMBERED { 1 << question } else { 0 }
}

/// Answers of an address of an address space.
#[derive(Clone, Copy, Default)]
pub struct Slot {
    /// Address or page.
    pub at: u64,
    /// Version of the address space; 0 if the slot is free.
    pub epoch: u64,
    /// Its answers.
    pub answers: Answers,
}

impl Slot {
    /// Notes an answer of an address.
    pub fn put(&mut self, at: u64, epoch: u64, question: u32, answer: bool) {
        if (self.at, self.epoch) != (at, epoch) {
            *self = Slot { at, epoch, answers: Answers::default() };
        }
        self.answers.set(question, answer);
    }
}

/// Ranges of an address space that were asked for last and have no place that is meant, by question: of most places
/// that is so.
#[derive(Default)]
pub struct Settled {
    epoch: u64,
    /// Start and length.
    ranges: Vec<[(u64, u64); SETTLED]>,
}

impl Settled {
    /// Whether the answer is no.
    #[inline]
    pub fn is_no(&self, epoch: u64, ip: u64, question: u32) -> bool {
        let within = |&(start, len): &(u64, u64)| ip.wrapping_sub(start) < len;
        self.epoch == epoch
            && self.ranges.get(question as usize).is_some_and(|ranges| ranges.iter().any(within))
    }

    /// Notes a range whose answer is no.
    pub fn put(&mut self, epoch: u64, (start, end): (u64, u64), question: u32) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.ranges.clear();
        }
        if question >= REMEMBERED {
            return;
        }
        let index = question as usize;
        if self.ranges.len() <= index {
            self.ranges.resize(index + 1, Default::default());
        }
        if let Some(ranges) = self.ranges.get_mut(index) {
            ranges.rotate_right(1);
            if let Some(first) = ranges.first_mut() {
                *first = (start, end.saturating_sub(start));
            }
        }
    }
}

/// Where an address of an address space is kept.
#[inline]
pub fn slot_of(at: u64, epoch: u64) -> usize {
    let hash = (at ^ epoch.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - SLOTS_BITS)) as usize
}
