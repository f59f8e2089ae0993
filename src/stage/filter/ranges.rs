//! Sets of numbers.

/// A set of numbers, made for asking it often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// From the first number on, this many more.
    One(u64, u64),
    /// Ranges with both ends, ascending and apart.
    Many(Box<[(u64, u64)]>),
}

impl Ranges {
    /// From ranges with both ends; those that end before they start are empty.
    pub fn new(ranges: impl IntoIterator<Item = (u64, u64)>) -> Ranges {
        let mut all: Vec<(u64, u64)> = ranges.into_iter().filter(|(from, to)| from <= to).collect();
        all.sort_unstable();
        all.dedup_by(|next, last| {
            let joins = next.0 <= last.1.saturating_add(1);
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        match all.as_slice() {
            &[(from, to)] => Ranges::One(from, to - from),
            _ => Ranges::Many(all.into()),
        }
    }

    /// Whether a number is in the set.
    #[inline]
    pub fn contains(&self, value: u64) -> bool {
        match self {
            Ranges::One(from, more) => value.wrapping_sub(*from) <= *more,
            Ranges::Many(all) => {
                let at = all.partition_point(|(_, to)| *to < value);
                all.get(at).is_some_and(|(from, _)| *from <= value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_is_in_the_set_if_it_is_in_a_range(
            ranges in prop::collection::vec((0u64..40, 0u64..40), 0..6),
            lift in prop::sample::select(vec![0, u64::MAX - 40]),
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(a, b)| (a + lift, b + lift)).collect();
            let set = Ranges::new(ranges.iter().copied());
            for value in lift..=lift + 40 {
                let expected = ranges.iter().any(|(a, b)| (*a..=*b).contains(&value));
                prop_assert_eq!(set.contains(value), expected, "{} in {:?}", value, set);
            }
        }
    }
}
