#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
//! Maps against a naive list of intervals, and under racing look-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;

use super::{MapArray, Maps};
use crate::session::dso::{Dso, DsoKind};
use crate::session::map::{Extent, Map};

fn dso(name: &str) -> Arc<Dso> {
    Dso::detached(name.as_bytes(), DsoKind::User)
}

fn map(start: u64, end: u64, dso: &Arc<Dso>) -> Arc<Map> {
    Arc::new(Map::new(Extent { start, end, pgoff: start + 0x1000 }, Arc::clone(dso), 5, 2))
}

/// What an address space holds, as the model sees it and as the array tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interval {
    start: u64,
    end: u64,
    pgoff: u64,
    dso: Vec<u8>,
    hit: bool,
}

impl Interval {
    fn of(map: &Map, hit: bool) -> Interval {
        let Extent { start, end, pgoff } = map.extent();
        Interval { start, end, pgoff, dso: map.dso().name().to_vec(), hit }
    }

    fn part(&self, start: u64, end: u64) -> Interval {
        Interval { start, end, pgoff: self.pgoff + (start - self.start), ..self.clone() }
    }

    /// What of it lies outside `cover`.
    fn without(&self, cover: &Interval) -> Vec<Interval> {
        if cover.end <= self.start || self.end <= cover.start {
            return vec![self.clone()];
        }
        let left = self.part(self.start, cover.start.clamp(self.start, self.end));
        let right = self.part(cover.end.clamp(self.start, self.end), self.end);
        [left, right].into_iter().filter(|i| i.start < i.end).collect()
    }
}

#[derive(Clone, Default)]
struct Model(Vec<Interval>);

impl Model {
    fn add(&mut self, new: impl IntoIterator<Item = Interval>) {
        self.0.extend(new);
        self.0.sort_by_key(|i| i.start);
    }

    fn overlay(&mut self, new: Interval) {
        self.0 = self.0.iter().flat_map(|old| old.without(&new)).collect();
        self.add([new]);
    }

    fn merge_in(&mut self, new: Interval) {
        let mut parts = vec![new];
        for old in &self.0 {
            parts = parts.iter().flat_map(|part| part.without(old)).collect();
        }
        self.add(parts);
    }

    fn find(&self, ip: u64) -> Option<usize> {
        self.0.iter().rposition(|i| i.start <= ip && ip < i.end)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Overlay(u64, u64),
    MergeIn(u64, u64),
    /// Many overlays of the same size, each a step further: up, down, or onto each other.
    Burst {
        from: u64,
        step: i64,
        size: u64,
        count: u64,
    },
    Remove(usize),
    Mutate(usize, u64, u64),
    Find(u64),
    MarkHit(u64),
    Fork,
    /// The maps of another address space, laid over those that are there.
    TakeOver(usize),
    Clear,
    Switch(usize),
}

fn op(overlaps: bool) -> impl Strategy<Value = Op> {
    let range = || (0..600u64, 1..60u64);
    prop_oneof![
        4 => range().prop_map(move |(s, n)| if overlaps { Op::Insert(s, n) } else { Op::Overlay(s, n) }),
        8 => range().prop_map(|(s, n)| Op::Overlay(s, n)),
        2 => (0..600u64, 1..200u64).prop_map(|(s, n)| Op::MergeIn(s, n)),
        2 => (200..400u64, -7..8i64, 1..12u64, 1..90u64)
            .prop_map(|(from, step, size, count)| Op::Burst { from: from * 3, step, size, count }),
        2 => any::<usize>().prop_map(Op::Remove),
        1 => (any::<usize>(), 0..600u64, 0..60u64)
            .prop_map(move |(i, s, n)| if overlaps { Op::Mutate(i, s, n) } else { Op::Find(s) }),
        6 => (0..700u64).prop_map(Op::Find),
        3 => (0..700u64).prop_map(Op::MarkHit),
        2 => Just(Op::Fork),
        1 => any::<usize>().prop_map(Op::TakeOver),
        1 => Just(Op::Clear),
        2 => any::<usize>().prop_map(Op::Switch),
    ]
}

fn contents(array: &mut MapArray) -> Vec<Interval> {
    array.iter().map(|f| Interval::of(f.map, f.hit)).collect()
}

fn take_over(spaces: &mut [(MapArray, Model)], at: usize, from: usize) {
    let from = from % spaces.len();
    if from == at {
        return;
    }
    let [(array, model), (parent, its_model)] = spaces.get_disjoint_mut([at, from]).unwrap();
    array.copy_from(parent);
    if model.0.is_empty() {
        *model = its_model.clone();
    } else {
        let covering = its_model.0.iter().filter(|i| i.start < i.end);
        covering.for_each(|i| model.overlay(i.clone()));
    }
}

fn run(ops: Vec<Op>) {
    let mut spaces = vec![(MapArray::default(), Model::default())];
    let mut at = 0;
    for (serial, op) in ops.into_iter().enumerate() {
        let dso = dso(&format!("{serial:03}"));
        if let Op::TakeOver(i) = op {
            take_over(&mut spaces, at, i);
            continue;
        }
        let (array, model) = &mut spaces[at];
        let len = model.0.len();
        let new = |start, size| {
            let new = map(start, start + size, &dso);
            (Arc::clone(&new), Interval::of(&new, false))
        };
        match op {
            Op::Insert(start, size) => {
                let (map, interval) = new(start, size);
                array.insert(map);
                model.add([interval]);
            }
            Op::Overlay(start, size) => {
                let (map, interval) = new(start, size);
                array.fixup_overlap_and_insert(map);
                model.overlay(interval);
            }
            Op::MergeIn(start, size) => {
                let (map, interval) = new(start, size);
                array.merge_in(map);
                model.merge_in(interval);
            }
            Op::Burst { from, step, size, count } => {
                for i in 0..count {
                    let (map, interval) = new(from.saturating_add_signed(step * i as i64), size);
                    array.fixup_overlap_and_insert(Arc::into_inner(map).unwrap());
                    model.overlay(interval);
                }
            }
            Op::Remove(i) if len > 0 => {
                let map = Arc::clone(array.iter().nth(i % len).unwrap().map);
                assert!(array.remove(&map) && !array.remove(&map));
                model.0.remove(i % len);
            }
            Op::Mutate(i, start, size) if len > 0 => {
                let map = Arc::clone(array.iter().nth(i % len).unwrap().map);
                let moved = Extent { start, end: start + size, pgoff: 7 };
                let now = array.mutate_mapping(&map, |extent| *extent = moved).unwrap();
                assert_eq!(now.extent(), moved);
                let old = model.0[i % len].clone();
                // In its place, as the sort is stable.
                model.0[i % len] = Interval { start, end: start + size, pgoff: 7, ..old };
                model.add([]);
            }
            Op::Find(ip) => {
                let found = array.find(ip).map(|f| (f.index, Interval::of(f.map, f.hit)));
                assert_eq!(found, model.find(ip).map(|i| (i, model.0[i].clone())), "at {ip}");
            }
            Op::MarkHit(ip) => {
                if let Some(index) = array.find(ip).map(|f| f.index) {
                    assert_eq!(array.mark_hit(index), !model.0[index].hit);
                    model.0[index].hit = true;
                }
            }
            Op::Fork => {
                let mut child = MapArray::default();
                child.copy_from(array);
                assert_eq!(child.is_empty(), model.0.is_empty());
                let model = model.clone();
                spaces.push((child, model));
            }
            Op::Clear => {
                array.clear();
                model.0.clear();
                assert!(array.is_empty());
            }
            Op::Switch(i) => at = i % spaces.len(),
            Op::Remove(_) | Op::Mutate(..) | Op::TakeOver(_) => {}
        }
    }
    for (array, model) in &mut spaces {
        assert_eq!(contents(array), model.0);
        let maps: Vec<_> = array.iter().map(|f| Arc::clone(f.map)).collect();
        for pair in maps.windows(2) {
            assert!(Arc::ptr_eq(array.find_next(&pair[0]).unwrap(), &pair[1]));
        }
        for map in &maps {
            let named = array.find_by_name(map.dso().name()).unwrap();
            assert_eq!(named.dso().name(), map.dso().name());
            assert!(named.start() <= map.start());
        }
        assert!(array.find_by_name(b"no such").is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_naive_list(ops in prop::collection::vec(op(false), 1..120)) {
        run(ops);
    }

    #[test]
    fn agrees_with_a_naive_list_where_maps_overlap(ops in prop::collection::vec(op(true), 1..120)) {
        run(ops);
    }
}

#[test]
fn what_covers_an_emptied_map_removes_it() {
    let empty = || vec![Op::Insert(0, 1), Op::Mutate(0, 578, 0)];
    for count in [1, 2, 34, 90] {
        for step in [-1, 0, 1] {
            run(empty()
                .into_iter()
                .chain([Op::Burst { from: 577, step, size: 2, count }, Op::Find(578)])
                .collect());
        }
        // Downwards, so that an edge comes to lie where the empty map is.
        let from = 576 + count;
        run(empty()
            .into_iter()
            .chain([Op::Burst { from, step: -1, size: 2, count }, Op::Find(578)])
            .collect());
    }

    let (parent, child) = (Maps::new(), Maps::new());
    let (low, high) = (dso("low"), dso("high"));
    let emptied = map(10, 20, &high);
    parent.insert(Arc::clone(&emptied));
    parent.mutate_mapping(&emptied, |extent| extent.end = 10);
    child.insert(map(0, 100, &low));
    child.copy_from(&parent);
    let ends: Vec<_> = child.handles().iter().map(|m| (m.start(), m.end())).collect();
    assert_eq!(ends, [(0, 100)]);
}

#[test]
fn order_of_insertion_is_no_matter() {
    let file = dso("/lib/x");
    let extents = |maps: &Maps| maps.handles().iter().map(|m| m.extent()).collect::<Vec<_>>();
    for count in [1, 5, 40, 1000] {
        let (up, down) = (Maps::new(), Maps::new());
        for i in 0..count {
            up.insert(map(i * 16, i * 16 + 16, &file));
            down.fixup_overlap_and_insert(map((count - 1 - i) * 16, (count - i) * 16, &file));
        }
        assert_eq!(up.len() as u64, count);
        assert_eq!(extents(&up), extents(&down));
        assert_eq!(down.find(16 * count - 1).unwrap().start(), 16 * (count - 1));
        assert!(down.find(16 * count).is_none() && !up.equal(&down));
    }
}

#[test]
fn both_sides_of_an_overlap_survive_a_cut() {
    let (low, high) = (dso("low"), dso("high"));
    let shape = |maps: &Maps| {
        maps.handles()
            .iter()
            .map(|m| (m.start(), m.end(), m.pgoff(), m.dso().short_name()[0]))
            .collect::<Vec<_>>()
    };
    let over = Maps::new();
    over.insert(map(0, 100, &low));
    over.fixup_overlap_and_insert(map(40, 60, &high));
    assert_eq!(shape(&over), [(0, 40, 0x1000, b'l'), (40, 60, 0x1028, b'h'), (60, 100, 0x103c, b'l')]);

    let under = Maps::new();
    under.insert(map(40, 60, &high));
    under.merge_in(map(0, 100, &low));
    assert_eq!(shape(&under), shape(&over));
}

#[test]
fn a_fork_shares_until_either_changes() {
    let file = dso("/lib/x");
    let (parent, child) = (Maps::new(), Maps::new());
    parent.set_e_machine(62);
    parent.insert(map(0, 16, &file));
    parent.insert(map(32, 48, &file));
    child.copy_from(&parent);
    assert!(child.equal(&parent) && child.contents() == parent.contents() && child.e_machine() == 62);
    assert_ne!(child.epoch(), parent.epoch());

    let before = child.contents();
    child.fixup_overlap_and_insert(map(8, 40, &file));
    assert_ne!(child.contents(), before);
    assert_eq!((parent.contents(), parent.len(), child.len()), (before, 2, 3));
    assert_eq!(parent.find(8).unwrap().end(), 16);

    // Over maps that are there, the parent's maps lie on top.
    let late = Maps::new();
    late.insert(map(8, 24, &dso("early")));
    late.copy_from(&parent);
    let ends: Vec<_> = late.handles().iter().map(|m| (m.start(), m.end())).collect();
    assert_eq!(ends, [(0, 16), (16, 24), (32, 48)]);

    // A map that both hold moves in one of them only.
    let shared = parent.first().unwrap();
    let grandchild = Maps::new();
    grandchild.copy_from(&parent);
    let moved = grandchild.mutate_mapping(&shared, |extent| extent.start = 4).unwrap();
    assert_eq!((moved.start(), shared.start()), (4, 0));
    assert!(grandchild.find(0).is_none() && parent.find(0).is_some());
}

#[test]
fn epochs_change_with_the_set_of_maps_and_only_then() {
    let file = dso("/lib/x");
    let maps = Maps::new();
    let mut seen = vec![maps.epoch()];
    let mut changed = |maps: &Maps| {
        let now = [maps.epoch(), maps.contents()];
        assert!(now.iter().all(|number| *number != 0 && !seen.contains(number)));
        seen.extend(now);
    };
    maps.insert(map(0, 16, &file));
    changed(&maps);
    let first = maps.first().unwrap();
    maps.mutate_mapping(&first, |extent| extent.end = 12);
    changed(&maps);
    assert!(maps.remove(&first) && !maps.remove(&first));
    changed(&maps);
    maps.merge_in(map(0, 16, &file));
    changed(&maps);
    let settled = maps.epoch();
    maps.merge_in(map(0, 16, &file));
    assert!(maps.find(3).is_some() && maps.epoch() == settled);
}

#[test]
fn maps_that_hide_each_other_do_not_pile_up() {
    let file = dso("/lib/x");
    let mut array = MapArray::default();
    for _ in 0..10_000 {
        array.fixup_overlap_and_insert(map(0, 16, &file));
    }
    assert!(Arc::strong_count(&file) < 200, "{}", Arc::strong_count(&file));
    assert_eq!(array.len(), 1);
}

#[test]
fn load_maps_may_move_maps_and_loads_each_once() {
    let file = dso("kernel");
    let maps = Maps::new();
    for i in 0..100 {
        maps.insert(map(i * 100, i * 100 + 10, &file));
    }
    let loaded = AtomicU64::new(0);
    maps.load_maps(4, |map| {
        loaded.fetch_add(1 + map.start(), Relaxed);
        // Moving each past the others changes their order while others load.
        maps.mutate_mapping(map, |e| (e.start, e.end) = (100_000 - e.start, 100_050 - e.start)).unwrap();
    });
    assert_eq!(loaded.into_inner(), 100 + (0..100).map(|i| i * 100).sum::<u64>());
    let starts: Vec<u64> = maps.handles().iter().map(|m| m.start()).collect();
    assert_eq!(starts, (1..=100).map(|i| 90_000 + i * 100).collect::<Vec<_>>());
}

/// Ends the readers also when the writer panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn look_ups_race_mutations() {
    const MAPS: u64 = 64;
    let file = dso("/lib/x");
    let maps = Maps::new();
    for i in (0..MAPS).rev() {
        maps.insert(map(i * 1000, i * 1000 + 500, &file));
    }
    let stop = AtomicBool::new(false);
    let found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (maps, stop, found) = (&maps, &stop, &found);
            scope.spawn(move || {
                let mut i = reader;
                while !stop.load(Relaxed) {
                    i = (i + 7) % MAPS;
                    // The middle of each map is in it whatever the writers do.
                    let map = maps.find(i * 1000 + 250).expect("a map that never goes");
                    // Its start moves by multiples of 8 and its pgoff with it, so the offset stays.
                    assert_eq!(map.map_ip(i * 1000 + 250), i * 1000 + 250 + 0x1000);
                    assert!(maps.find(i * 1000 + 999).is_none());
                    // Readers race to draw them: never 0, and never back.
                    let epoch = maps.epoch();
                    assert!(epoch != 0 && maps.contents() != 0 && maps.epoch() >= epoch);
                    assert!(maps.find_by_name(b"/lib/x").is_some());
                    found.fetch_add(1, Relaxed);
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        let mut round = 0;
        while round < 2000 || found.load(Relaxed) < 20_000 {
            round += 1;
            let handle = maps.find((round * 13 % MAPS) * 1000 + 250).unwrap();
            maps.mutate_mapping(&handle, |e| {
                let start = e.start / 1000 * 1000 + round * 8 % 240;
                e.pgoff = e.pgoff.wrapping_add(start).wrapping_sub(e.start);
                e.start = start;
            });
            let guest = map(70_000 + round % 9 * 100, 70_100 + round % 9 * 100, &file);
            maps.fixup_overlap_and_insert(Arc::clone(&guest));
            if round % 3 == 0 {
                maps.remove(&guest);
            }
            let child = Maps::new();
            if round % 50 == 0 {
                child.copy_from(&maps);
                assert!(child.len() as u64 >= MAPS);
            }
        }
    });
    assert!(maps.handles().is_sorted_by_key(|m| m.start()));
}
