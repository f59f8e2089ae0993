//! What is known of ranges of addresses, of the address spaces that were asked about last.
//!
//! Samples of several CPUs take turns, so a few address spaces are in use at a time. In each, a few ranges hold almost all
//! that is asked: the code of the program, and what lies between it and the libraries. Where code is built without
//! frame pointers, half of a callchain may be data that points into gaps.

/// How many address spaces, each for one question, are kept.
const SPACES: usize = 128;
/// Ranges that are kept of each with the answer no, and with yes: a library has some maps.
const RANGES: usize = 5;
const MEANT: usize = 3;

/// Ranges by address space and question.
pub struct Settled {
    spaces: Box<[(u64, u32, Ranges)]>,
}

impl Default for Settled {
    fn default() -> Self {
        Settled { spaces: vec![(0, 0, Ranges::NONE); SPACES].into() }
    }
}

impl Settled {
    /// What is known of the version of an address space, none of which is 0.
    #[inline]
    pub fn ranges(&self, epoch: u64, question: u32) -> &Ranges {
        match self.spaces.get(place(epoch, question)) {
            Some((of, asked, ranges)) if (*of, *asked) == (epoch, question) => ranges,
            _ => &Ranges::NONE,
        }
    }

    /// Notes a range.
    pub fn put(&mut self, epoch: u64, question: u32, range: (u64, u64), answer: bool) {
        let Some(space) = self.spaces.get_mut(place(epoch, question)) else { return };
        if (space.0, space.1) != (epoch, question) {
            *space = (epoch, question, Ranges::NONE);
        }
        space.2.put(range, answer);
    }
}

/// Versions are numbered one after the other.
#[inline]
fn place(epoch: u64, question: u32) -> usize {
    (epoch as usize).wrapping_add(question as usize * 7) % SPACES
}

/// Ranges whose answer is known, as starts and lengths. Mostly it is no, of most of an address space.
#[derive(Clone, Copy)]
pub struct Ranges {
    no: [(u64, u64); RANGES],
    yes: [(u64, u64); MEANT],
}

impl Ranges {
    /// Nothing is known.
    pub const NONE: Ranges = Ranges { no: [(0, 0); RANGES], yes: [(0, 0); MEANT] };
    /// The answer is no, whatever is asked.
    pub const NOTHING: Ranges = Ranges { no: [(0, u64::MAX); RANGES], yes: [(0, 0); MEANT] };

    /// The answer of an address, if it is known.
    #[inline(always)]
    pub fn answer(&self, ip: u64) -> Option<bool> {
        // Which range it is can't be foretold, so all are compared.
        let within = |ranges: &[(u64, u64)]| {
            ranges.iter().fold(false, |any, &(start, len)| any | (ip.wrapping_sub(start) < len))
        };
        if within(&self.no) {
            return Some(false);
        }
        within(&self.yes).then_some(true)
    }

    fn put(&mut self, (start, end): (u64, u64), answer: bool) {
        let ranges = if answer { &mut self.yes[..] } else { &mut self.no[..] };
        ranges.rotate_right(1);
        if let Some(first) = ranges.first_mut() {
            *first = (start, end.saturating_sub(start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_several_spaces_are_kept_apart() {
        let mut settled = Settled::default();
        assert_eq!(settled.ranges(5, 0).answer(0), None);
        settled.put(5, 0, (10, 20), false);
        settled.put(5, 0, (20, 30), true);
        settled.put(6, 0, (10, 20), true);
        settled.put(5, 1, (10, 20), true);
        let answers =
            |epoch, question| [9, 10, 19, 20, 29, 30].map(|ip| settled.ranges(epoch, question).answer(ip));
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(answers(5, 0), [None, no, no, yes, yes, None]);
        assert_eq!(answers(6, 0), [None, yes, yes, None, None, None]);
        assert_eq!(answers(5, 1), answers(6, 0));
        assert_eq!(answers(5 + SPACES as u64, 0), [None; 6]);
    }

    #[test]
    fn of_more_ranges_the_last_are_kept_and_another_version_begins_anew() {
        let mut settled = Settled::default();
        for i in 0..=RANGES as u64 {
            settled.put(1, 0, (i * 10, i * 10 + 10), false);
        }
        let answers: Vec<_> = (0..=RANGES as u64).map(|i| settled.ranges(1, 0).answer(i * 10 + 5)).collect();
        assert_eq!(answers[0], None);
        assert!(answers[1..].iter().all(|answer| *answer == Some(false)));
        settled.put(1 + SPACES as u64, 0, (0, 1), false);
        assert_eq!(settled.ranges(1, 0).answer(15), None);
        assert_eq!(Ranges::NOTHING.answer(u64::MAX - 1), Some(false));
    }
}
