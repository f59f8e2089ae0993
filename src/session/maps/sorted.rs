//! A sorted array of maps, and how one map goes over others.

use std::sync::Arc;

use crate::session::map::Map;

/// A map in an array, with its range beside it so that bisecting touches the array alone.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) map: Arc<Map>,
    /// Of this address space, not of the map, which others share.
    pub(super) hit: bool,
}

impl Entry {
    pub(super) fn new(map: Arc<Map>) -> Entry {
        Entry { start: map.start(), end: map.end(), map, hit: false }
    }

    fn overlaps(&self, other: &Entry) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// What is left of the map between `start` and `end`, which lie in it; the map itself if that is all of it.
    fn piece(&self, start: u64, end: u64) -> Entry {
        if start == self.start && end == self.end {
            return self.clone();
        }
        Entry { start, end, map: Arc::new(self.map.cut(start, end)), ..*self }
    }
}

/// How many neighbours [`Sorted::around`] asks on either side.
const AROUND: usize = 16;

/// Maps in order of their starts; of equal starts, the one that came first stands first.
#[derive(Clone, Default)]
pub(super) struct Sorted {
    pub(super) entries: Vec<Entry>,
    /// Whether maps may overlap, which only plain inserts and mutations make them do. Bisecting by end
    /// relies on this being false.
    pub(super) overlapping: bool,
    /// Whether another address space holds, or has held, this array, so that its maps may sit in others too.
    pub(super) forked: bool,
}

impl Sorted {
    /// The entry that contains `ip`; where maps overlap, the one that starts last.
    #[inline]
    pub(super) fn find(&self, ip: u64) -> Option<usize> {
        let after = self.entries.partition_point(|e| e.start <= ip);
        let candidates = self.entries.get(..after)?;
        if self.overlapping {
            return candidates.iter().rposition(|e| ip < e.end);
        }
        (ip < candidates.last()?.end).then_some(after - 1)
    }

    /// A range around an address that, besides the map at the address, has only maps which are like it. It ends before the
    /// next of others, or where enough were asked; where maps overlap, it is the address alone.
    pub(super) fn around(&self, ip: u64, mut is_like: impl FnMut(&Map, bool) -> bool) -> (u64, u64) {
        if self.overlapping {
            return (ip, ip.saturating_add(1));
        }
        let next = self.entries.partition_point(|e| e.start <= ip);
        let (before, after) = self.entries.split_at(next);
        let here = before.last().filter(|e| ip < e.end);
        let before = before.get(..before.len() - usize::from(here.is_some())).unwrap_or_default();
        // One more than are asked bounds the range in any case.
        let unlike_after = after.iter().take(AROUND).position(|e| !is_like(&e.map, e.hit)).unwrap_or(AROUND);
        let unlike_before =
            before.iter().rev().take(AROUND).position(|e| !is_like(&e.map, e.hit)).unwrap_or(AROUND);
        let end = after.get(unlike_after).map_or(u64::MAX, |e| e.start);
        let start = before.iter().rev().nth(unlike_before).map_or(0, |e| e.end);
        (start, end)
    }

    /// Where `map` itself sits.
    pub(super) fn position(&self, map: &Arc<Map>) -> Option<usize> {
        let start = map.start();
        let first = self.entries.partition_point(|e| e.start < start);
        let same_start = self.entries.get(first..)?.iter().take_while(|e| e.start == start);
        same_start.enumerate().find(|(_, e)| Arc::ptr_eq(&e.map, map)).map(|(i, _)| first + i)
    }

    /// Whether a map that starts at `start` may be pushed at the end: past all others, of which there are some.
    pub(super) fn ends_before(&self, start: u64) -> bool {
        !self.overlapping && self.entries.last().is_some_and(|last| last.end <= start)
    }

    /// Adds a map beside those that are there.
    pub(super) fn insert(&mut self, new: Entry) {
        let at = self.entries.partition_point(|e| e.start <= new.start);
        let crowded = |e: Option<&Entry>| e.is_some_and(|e| e.overlaps(&new));
        self.overlapping |=
            crowded(at.checked_sub(1).and_then(|i| self.entries.get(i))) || crowded(self.entries.get(at));
        self.entries.insert(at, new);
    }

    /// Adds many at once.
    pub(super) fn extend(&mut self, new: Vec<Entry>) {
        self.entries.extend(new);
        self.restore();
    }

    /// Sorts after entries moved, and looks anew whether any overlap. The sort is stable and finds runs.
    pub(super) fn restore(&mut self) {
        self.entries.sort_by_key(|e| e.start);
        // A map that ends before it starts would mislead the bisection by end just as an overlap does. An empty one
        // lies on the edge of what goes over it, so whether that covers it would hang on how it was cut before.
        self.overlapping = self.entries.iter().any(|e| e.end <= e.start)
            || self.entries.iter().zip(self.entries.iter().skip(1)).any(|(a, b)| b.start < a.end);
    }

    /// Lays a map over those that are there: what it covers of them goes, what sticks out stays.
    pub(super) fn overlay(&mut self, new: Entry) {
        if self.overlapping {
            return self.overlay_on_overlapping(new);
        }
        let first = self.entries.partition_point(|e| e.end <= new.start);
        match self.entries.get_mut(first) {
            Some(old) if old.start < new.end => {
                // Most often the new map has the old one's very range: a file mapped again at its place.
                if old.start >= new.start && old.end == new.end {
                    *old = new;
                    return;
                }
            }
            _ => return self.entries.insert(first, new),
        }
        let covered = self.entries.iter().skip(first).take_while(|e| e.start < new.end);
        let last = first + covered.clone().count();
        let before = covered.clone().next().filter(|e| e.start < new.start);
        let before = before.map(|e| e.piece(e.start, new.start));
        let after = covered.last().filter(|e| e.end > new.end).map(|e| e.piece(new.end, e.end));
        self.entries.splice(first..last, before.into_iter().chain([new]).chain(after));
    }

    fn overlay_on_overlapping(&mut self, new: Entry) {
        let mut kept = Vec::with_capacity(self.entries.len() + 2);
        for old in self.entries.drain(..) {
            if !old.overlaps(&new) {
                kept.push(old);
                continue;
            }
            if old.start < new.start {
                kept.push(old.piece(old.start, new.start));
            }
            if old.end > new.end {
                kept.push(old.piece(new.end, old.end));
            }
        }
        kept.push(new);
        self.entries = kept;
        self.restore();
    }

    /// Lays many maps over those that are there, each over the ones before it, in O((n + k) log k).
    pub(super) fn overlay_all(&mut self, mut new: Vec<Entry>) {
        if self.overlapping {
            return new.into_iter().for_each(|e| self.overlay_on_overlapping(e));
        }
        flatten(&mut new);
        self.entries = merge_over(std::mem::take(&mut self.entries), new);
    }

    /// The parts of a map's range that no map covers.
    pub(super) fn gaps(&self, new: &Entry) -> Vec<Entry> {
        let mut gaps = Vec::new();
        let mut from = new.start;
        for old in self.entries.iter().filter(|e| e.overlaps(new)) {
            if old.start > from {
                gaps.push(new.piece(from, old.start));
            }
            from = from.max(old.end);
        }
        if from < new.end {
            gaps.push(new.piece(from, new.end));
        }
        gaps
    }
}

/// Sorts maps that lie over each other in the order given, cutting the lower ones.
fn flatten(entries: &mut Vec<Entry>) {
    const FEW: usize = 32;
    // Recordings have long runs: what is already mapped comes from the bottom up, new maps from the top down.
    let disjoint = |a: &Entry, b: &Entry| a.end <= b.start;
    if entries.is_sorted_by(disjoint) {
        return;
    }
    if entries.is_sorted_by(|a, b| disjoint(b, a)) {
        return entries.reverse();
    }
    if entries.len() <= FEW {
        let mut sorted = Sorted { entries: Vec::with_capacity(entries.len()), ..Sorted::default() };
        for entry in entries.drain(..) {
            sorted.overlay(entry);
        }
        *entries = sorted.entries;
        return;
    }
    let mut upper = entries.split_off(entries.len() / 2);
    let mut lower = std::mem::take(entries);
    flatten(&mut lower);
    flatten(&mut upper);
    *entries = merge_over(lower, upper);
}

/// Merges two sorted arrays without overlaps, cutting the lower one's maps where the upper one's lie.
fn merge_over(mut lower: Vec<Entry>, upper: Vec<Entry>) -> Vec<Entry> {
    if lower.is_empty() {
        return upper;
    }
    if let (Some(last), Some(first)) = (lower.last(), upper.first())
        && last.end <= first.start
    {
        lower.extend(upper);
        return lower;
    }
    let mut merged = Vec::with_capacity(lower.len() + upper.len());
    let mut lower = lower.into_iter();
    let mut current = lower.next();
    for over in upper {
        while let Some(old) = current.take_if(|old| old.start < over.end) {
            if old.end <= over.start {
                merged.push(old);
                current = lower.next();
                continue;
            }
            if old.start < over.start {
                merged.push(old.piece(old.start, over.start));
            }
            if old.end > over.end {
                current = Some(old.piece(over.end, old.end));
                break;
            }
            current = lower.next();
        }
        merged.push(over);
    }
    merged.extend(current);
    merged.extend(lower);
    merged
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::session::dso::{Dso, DsoKind};
    use crate::session::map::Extent;

    /// Maps, and whether each is hit.
    fn array(ranges: &[(u64, u64, bool)]) -> Sorted {
        let dso = Dso::detached(b"a", DsoKind::User);
        let map = |start, end| Map::new(Extent { start, end, pgoff: 0 }, Arc::clone(&dso), 5, 2);
        let entry = |&(start, end, hit)| Entry { hit, ..Entry::new(Arc::new(map(start, end))) };
        Sorted { entries: ranges.iter().map(entry).collect(), ..Sorted::default() }
    }

    #[test]
    fn around_an_address_are_only_maps_that_are_like_it() {
        let maps = array(&[(10, 20, false), (30, 40, true), (40, 50, true), (60, 70, false), (80, 90, true)]);
        let hit = |_: &Map, hit: bool| hit;
        // In a map that is hit, in a gap between such and another, in one that is not.
        assert_eq!(maps.around(35, hit), (20, 60));
        assert_eq!(maps.around(55, hit), (20, 60));
        assert_eq!(maps.around(65, hit), (20, u64::MAX));
        assert_eq!(maps.around(5, hit), (0, 10));
        assert_eq!(maps.around(95, hit), (70, u64::MAX));
        assert_eq!(maps.around(35, |_, _| false), (20, 40));
        assert_eq!(maps.around(45, |_, _| false), (40, 60));
        assert_eq!(maps.around(25, |_, _| true), (0, u64::MAX));
        assert_eq!(array(&[]).around(7, hit), (0, u64::MAX));
    }

    #[test]
    fn around_goes_some_maps_far_and_nowhere_where_maps_overlap() {
        let many: Vec<_> = (0..100).map(|i| (i * 10, i * 10 + 10, true)).collect();
        let far = AROUND as u64 * 10;
        assert_eq!(array(&many).around(505, |_, hit| hit), (500 - far, 510 + far));
        let overlapping = Sorted { overlapping: true, ..array(&[(10, 20, true), (15, 30, true)]) };
        assert_eq!(overlapping.around(17, |_, hit| hit), (17, 18));
    }
}
