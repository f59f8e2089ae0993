//! The maps of one address space, for one owner: lazily sorted, shared with forks until changed.

use std::sync::Arc;

use super::sorted::{Entry, Sorted};
use super::version::Version;
use crate::session::map::{Extent, Map};

/// Below this many, maps that wait are put in their places one by one rather than all at once.
const FEW: usize = 32;
/// Room for this many maps is kept for the next program when an address space is cleared.
const MOST_KEPT: usize = 256;

/// What a look-up found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The map.
    pub map: &'a Arc<Map>,
    /// Its place in the array, valid until the array changes: for [`MapArray::mark_hit`].
    pub index: usize,
    /// Whether [`MapArray::mark_hit`] was called for it, in this address space or, before the fork, in the
    /// one it forked from.
    pub hit: bool,
}

/// The maps of one address space. [`Maps`](super::Maps) puts a lock around it.
///
/// Inserting appends to a tail, whatever the order; the tail goes into its places in the array at the next
/// look-up, so a process that no sample touches never sorts. The array is shared with forked address spaces
/// until one of them changes.
#[derive(Default)]
pub struct MapArray {
    sorted: Option<Arc<Sorted>>,
    tail: Vec<Waiting>,
    by_name: Option<Vec<u32>>,
    last_found: usize,
    epoch: Version,
    contents: Version,
}

/// A map to be added: one that others hold already, or one that is made into a handle only if an address of this address
/// space is ever looked for.
pub enum NewMap {
    /// Held already.
    Shared(Arc<Map>),
    /// Not held by anybody.
    Own(Map),
}

impl From<Arc<Map>> for NewMap {
    fn from(map: Arc<Map>) -> NewMap {
        NewMap::Shared(map)
    }
}

impl From<Map> for NewMap {
    fn from(map: Map) -> NewMap {
        NewMap::Own(map)
    }
}

/// A map that is not yet in its place.
struct Waiting {
    map: NewMap,
    /// Whether it cuts what lies under it, rather than lying beside it.
    cuts: bool,
}

impl Waiting {
    fn into_entry(self) -> Entry {
        Entry::new(match self.map {
            NewMap::Shared(map) => map,
            NewMap::Own(map) => Arc::new(map),
        })
    }
}

impl MapArray {
    fn entries(&self) -> &[Entry] {
        self.sorted.as_deref().map_or(&[], |s| &s.entries)
    }

    fn changed(&mut self) {
        self.epoch.renew();
        self.contents.renew();
        self.by_name = None;
    }

    fn append(&mut self, map: NewMap, cuts: bool) {
        let Extent { start, end, .. } = match &map {
            NewMap::Shared(map) => map.extent(),
            NewMap::Own(map) => map.extent(),
        };
        if start >= end {
            return;
        }
        self.changed();
        let new = Waiting { map, cuts };
        if self.tail.is_empty()
            && let Some(sorted) = self.sorted.as_mut().and_then(Arc::get_mut)
            && sorted.ends_before(start)
        {
            return sorted.entries.push(new.into_entry());
        }
        self.tail.push(new);
        // Without a look-up, maps that lie over each other would pile up; this keeps them within twice what
        // is visible, at a cost of O(log n) per insert.
        if self.tail.len() >= 2 * FEW && self.tail.len() > self.entries().len() {
            self.sort();
        }
    }

    /// Adds a map beside those that are there, in O(1). Where maps overlap, look-ups find the one that starts last.
    /// An empty range is ignored.
    pub fn insert(&mut self, map: impl Into<NewMap>) {
        self.append(map.into(), false);
    }

    /// Adds a map over those that are there, in O(1): what it covers of them goes, what sticks out stays.
    /// An empty range is ignored.
    pub fn fixup_overlap_and_insert(&mut self, map: impl Into<NewMap>) {
        self.append(map.into(), true);
    }

    /// Adds a map under those that are there: only the gaps between them get parts of it.
    ///
    /// The outcome is that of laying the map over the others and then the others over it.
    pub fn merge_in(&mut self, map: Arc<Map>) {
        self.sort();
        let new = Entry::new(map);
        let gaps = match &self.sorted {
            _ if new.start >= new.end => return,
            Some(sorted) => sorted.gaps(&new),
            None => vec![new],
        };
        if !gaps.is_empty() {
            self.changed();
            Arc::make_mut(self.sorted.get_or_insert_default()).extend(gaps);
        }
    }

    /// Whether the array is sorted and nothing waits to go into it.
    pub fn is_sorted(&self) -> bool {
        self.tail.is_empty()
    }

    /// Puts what waits into its place.
    pub fn sort(&mut self) {
        if !self.tail.is_empty() {
            self.settle();
        }
    }

    #[cold]
    fn settle(&mut self) {
        self.by_name = None;
        let sorted = Arc::make_mut(self.sorted.get_or_insert_default());
        // Few, or few for the moves they cause.
        let is_first = sorted.entries.is_empty();
        if !is_first && self.tail.len() <= FEW && (self.tail.len() <= 2 || sorted.entries.len() < 64 * FEW) {
            sorted.entries.reserve(self.tail.len());
            for new in self.tail.drain(..) {
                let cuts = new.cuts;
                let entry = new.into_entry();
                if cuts { sorted.overlay(entry) } else { sorted.insert(entry) }
            }
            return;
        }
        let mut tail = self.tail.drain(..).peekable();
        while let Some(cuts) = tail.peek().map(|new| new.cuts) {
            let mut run = Vec::with_capacity(tail.len());
            run.extend(std::iter::from_fn(|| tail.next_if(|new| new.cuts == cuts).map(Waiting::into_entry)));
            if cuts { sorted.overlay_all(run) } else { sorted.extend(run) }
        }
    }

    /// The map at an address.
    #[inline]
    pub fn find(&mut self, ip: u64) -> Option<Found<'_>> {
        self.sort();
        let sorted = self.sorted.as_deref()?;
        let index = match sorted.entries.get(self.last_found) {
            Some(e) if e.start <= ip && ip < e.end && !sorted.overlapping => self.last_found,
            _ => {
                let index = sorted.find(ip)?;
                self.last_found = index;
                index
            }
        };
        self.found(index)
    }

    /// The range around an address in which there is no map, for an address that has none.
    pub fn gap(&mut self, ip: u64) -> (u64, u64) {
        self.around(ip, |_, _| false)
    }

    /// A range around an address that, besides the map at the address, has no maps or such that are like it, given each
    /// and its hit flag. It need not be the widest.
    pub fn around(&mut self, ip: u64, is_like: impl FnMut(&Map, bool) -> bool) -> (u64, u64) {
        self.sort();
        self.sorted.as_deref().map_or((0, u64::MAX), |sorted| sorted.around(ip, is_like))
    }

    /// The lowest start and highest end of the maps that `wanted` picks, given each map and its hit flag.
    pub fn bounds_where(&mut self, mut wanted: impl FnMut(&Map, bool) -> bool) -> Option<(u64, u64)> {
        self.sort();
        let picked = self.entries().iter().filter(|e| wanted(&e.map, e.hit));
        picked.fold(None, |bounds, e| match bounds {
            None => Some((e.start, e.end)),
            Some((low, high)) => Some((low.min(e.start), high.max(e.end))),
        })
    }

    fn found(&self, index: usize) -> Option<Found<'_>> {
        self.entries().get(index).map(|e| Found { map: &e.map, index, hit: e.hit })
    }

    /// As [`MapArray::find`], for an array that is sorted.
    pub(super) fn at(&self, ip: u64) -> Option<&Arc<Map>> {
        let index = self.sorted.as_deref()?.find(ip)?;
        self.entries().get(index).map(|e| &e.map)
    }

    /// Sets the hit flag of the map at `index`, which a look-up gave and nothing has changed since; true if it
    /// was not set. A fork that shares the array gets the flags of before.
    pub fn mark_hit(&mut self, index: usize) -> bool {
        let Some(false) = self.entries().get(index).map(|e| e.hit) else { return false };
        let entries = self.sorted.as_mut().map(|s| &mut Arc::make_mut(s).entries);
        if let Some(entry) = entries.and_then(|e| e.get_mut(index)) {
            entry.hit = true;
        }
        true
    }

    /// The map after one that is in the array.
    pub fn find_next(&mut self, map: &Arc<Map>) -> Option<&Arc<Map>> {
        self.sort();
        self.after(map)
    }

    /// As [`MapArray::find_next`], for an array that is sorted.
    pub(super) fn after(&self, map: &Arc<Map>) -> Option<&Arc<Map>> {
        let index = self.sorted.as_deref()?.position(map)?;
        self.entries().get(index + 1).map(|e| &e.map)
    }

    /// The map with the lowest start.
    pub fn first(&mut self) -> Option<&Arc<Map>> {
        self.sort();
        self.entries().first().map(|e| &e.map)
    }

    /// A map whose DSO has this recorded name; of several, the lowest.
    pub fn find_by_name(&mut self, name: &[u8]) -> Option<&Arc<Map>> {
        self.sort_by_name();
        self.named(name)
    }

    pub(super) fn sort_by_name(&mut self) {
        self.sort();
        if self.by_name.is_none() {
            let entries = self.entries();
            // The session ends long before an array holds 2^32 maps of 32 bytes.
            let mut order: Vec<u32> = (0..entries.len() as u32).collect();
            order.sort_by_key(|&i| entries.get(i as usize).map(|e| e.map.dso().name()));
            self.by_name = Some(order);
        }
    }

    pub(super) fn is_sorted_by_name(&self) -> bool {
        self.is_sorted() && self.by_name.is_some()
    }

    /// As [`MapArray::find_by_name`], for an array that is sorted by name.
    pub(super) fn named(&self, name: &[u8]) -> Option<&Arc<Map>> {
        let order = self.by_name.as_ref()?;
        let map = |i: &u32| self.entries().get(*i as usize).map(|e| &e.map);
        let at = order.partition_point(|i| map(i).is_some_and(|m| m.dso().name() < name));
        order.get(at).and_then(map).filter(|m| m.dso().name() == name)
    }

    /// Takes out one map; false if it is not there.
    pub fn remove(&mut self, map: &Arc<Map>) -> bool {
        self.sort();
        let Some(index) = self.sorted.as_deref().and_then(|s| s.position(map)) else { return false };
        self.changed();
        if let Some(sorted) = &mut self.sorted {
            let sorted = Arc::make_mut(sorted);
            sorted.entries.remove(index);
            if sorted.overlapping {
                sorted.restore();
            }
        }
        true
    }

    /// Changes the range of a map that sits in the array. Returns the map that now sits there: `map` itself, or
    /// a copy if address spaces that forked from this one may hold `map` too; `None` if it is not there.
    pub fn mutate_mapping(&mut self, map: &Arc<Map>, change: impl FnOnce(&mut Extent)) -> Option<Arc<Map>> {
        self.sort();
        let index = self.sorted.as_deref()?.position(map)?;
        self.changed();
        let sorted = Arc::make_mut(self.sorted.as_mut()?);
        let entry = sorted.entries.get_mut(index)?;
        let mut extent = map.extent();
        change(&mut extent);
        if sorted.forked {
            entry.map = Arc::new(map.cut(extent.start, extent.end));
        }
        entry.map.set_extent(extent);
        (entry.start, entry.end) = (extent.start, extent.end);
        let changed = Arc::clone(&entry.map);
        sorted.restore();
        Some(changed)
    }

    /// Forgets all maps, as exec does.
    pub fn clear(&mut self) {
        self.changed();
        self.tail.clear();
        self.tail.shrink_to(MOST_KEPT);
        match self.sorted.as_mut().map(Arc::get_mut) {
            // One large process must not make every later one in its slot large.
            Some(Some(sorted)) if sorted.entries.capacity() <= MOST_KEPT => {
                sorted.entries.clear();
                (sorted.overlapping, sorted.forked) = (false, false);
            }
            _ => self.sorted = None,
        }
    }

    /// Takes over the maps of the address space that this one forks from, in O(1); over any that are here.
    pub fn copy_from(&mut self, parent: &mut MapArray) {
        let (Some(sorted), contents) = parent.share() else { return };
        self.take_over(sorted, contents);
    }

    /// The sorted array and the number of its contents, to be shared.
    pub(super) fn share(&mut self) -> (Option<Arc<Sorted>>, u64) {
        self.sort();
        if let Some(sorted) = self.sorted.as_mut().filter(|s| !s.forked) {
            Arc::make_mut(sorted).forked = true;
        }
        (self.sorted.clone(), self.contents())
    }

    pub(super) fn take_over(&mut self, sorted: Arc<Sorted>, contents: u64) {
        if self.is_empty() {
            self.sorted = Some(sorted);
            self.by_name = None;
            self.epoch.renew();
            self.contents.set(contents);
            return;
        }
        self.changed();
        self.sort();
        let own = Arc::make_mut(self.sorted.get_or_insert_default());
        own.forked = true;
        // What a mutation left empty covers nothing.
        own.overlay_all(sorted.entries.iter().filter(|e| e.start < e.end).cloned().collect());
    }

    /// Lets go of the index by name and of spare capacity.
    pub fn shrink(&mut self) {
        self.sort();
        self.by_name = None;
        self.tail = Vec::new();
        // What a fork shares is not worth a copy.
        if let Some(sorted) = self.sorted.as_mut().and_then(Arc::get_mut) {
            sorted.entries.shrink_to_fit();
        }
    }

    /// How many maps there are.
    pub fn len(&mut self) -> usize {
        self.sort();
        self.entries().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.entries().is_empty()
    }

    /// The maps by start.
    pub fn iter(&mut self) -> impl DoubleEndedIterator<Item = Found<'_>> + ExactSizeIterator {
        self.sort();
        self.iter_sorted()
    }

    /// As [`MapArray::iter`], for an array that is sorted.
    pub(super) fn iter_sorted(&self) -> impl DoubleEndedIterator<Item = Found<'_>> + ExactSizeIterator {
        let entries = self.entries().iter().enumerate();
        entries.map(|(index, e)| Found { map: &e.map, index, hit: e.hit })
    }

    /// A number that stands for this address space with this very set of maps: whenever a map comes, goes or moves it
    /// becomes one that no address space had before. Never 0.
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// As [`MapArray::epoch`], but a fork keeps its parent's number until either changes: for what follows from the maps
    /// alone, such as an unwinder, and not from their hit flags.
    pub fn contents(&self) -> u64 {
        self.contents.get()
    }
}
