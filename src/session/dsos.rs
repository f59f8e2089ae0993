//! The DSOs of a session, each once.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};

use super::dso::{Dso, DsoId, DsoKind, Identity, MachinePid};

/// What tells two DSOs apart; borrows the name, so that looking one up copies nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DsoKey<'a> {
    /// The machine it is of.
    pub machine: MachinePid,
    /// The name as recorded.
    pub name: &'a [u8],
    /// What kind of thing it is.
    pub kind: DsoKind,
    /// What tells it apart from others of the same name.
    pub identity: Identity,
}

/// The DSOs of a session, each once: by build-id and name where the record of a map had an id, by name, device,
/// inode and generation where it had those, else by name.
///
/// The name is always part of it: one image under two paths is two DSOs, since readers look build-ids up by path.
#[derive(Default)]
pub struct Dsos {
    all: Vec<Slot>,
    // Most recent DSO of each hash; the others hang off it by `Slot::next`.
    by_key: FxHashMap<u64, u32>,
    by_name: FxHashMap<u64, u32>,
    // The DSO last seen at each value of a hash that is quick to compute and easy to make collide: most maps are
    // of few files, and hashing whole paths was a third of the cost of a MMAP2 record.
    recent: Vec<u32>,
}

/// log2 of the number of recently seen DSOs that are kept.
const RECENT_BITS: u32 = 12;

struct Slot {
    // None once `shrink` let go of it; its id is not given again.
    dso: Option<Arc<Dso>>,
    next: Option<u32>,
    next_of_name: Option<u32>,
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A place among the recently seen.
fn recent_index(key: &DsoKey<'_>) -> usize {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let identity = match &key.identity {
        Identity::Name => 0,
        Identity::File(file) => file.ino,
        Identity::BuildId(id) => id.as_bytes().first_chunk().map_or(0, |b| u64::from_ne_bytes(*b)),
        Identity::Process(pid) => u64::from(pid.unsigned_abs()),
    };
    let end_of_name = key.name.last_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
    let mixed = (identity ^ end_of_name.rotate_left(7)).wrapping_mul(GOLDEN_RATIO);
    (mixed >> (u64::BITS - RECENT_BITS)) as usize
}

impl DsoKey<'_> {
    fn is_of(&self, dso: &Dso) -> bool {
        dso.name() == self.name
            && dso.identity() == self.identity
            && dso.kind() == self.kind
            && dso.machine() == self.machine
    }
}

impl Dsos {
    /// The DSO of `key`, made if it is new; `pid` is the process that has it mapped, or -1.
    pub fn intern(&mut self, key: &DsoKey<'_>, pid: i32) -> &Arc<Dso> {
        let recent = recent_index(key);
        let index = match self.recent.get(recent) {
            Some(&index) if self.at(index).is_some_and(|dso| key.is_of(dso)) => index,
            _ => {
                let hash = hash_of(key);
                let head = self.by_key.get(&hash).copied();
                let index = self.in_chain(head, key).unwrap_or_else(|| self.push(key, hash, head));
                self.recent.resize(1 << RECENT_BITS, u32::MAX);
                self.recent[recent] = index;
                index
            }
        };
        self.all[index as usize].dso.get_or_insert_with(|| {
            let id = DsoId(index);
            Arc::new(Dso::new(id, key.machine, key.name, key.kind, key.identity, pid))
        })
    }

    fn at(&self, index: u32) -> Option<&Arc<Dso>> {
        self.all.get(index as usize)?.dso.as_ref()
    }

    fn in_chain(&self, head: Option<u32>, key: &DsoKey<'_>) -> Option<u32> {
        let next = |&index: &u32| self.all.get(index as usize)?.next;
        let mut chain = std::iter::successors(head, next);
        chain.find(|&index| self.at(index).is_some_and(|dso| key.is_of(dso)))
    }

    /// A slot whose DSO is yet to be made.
    #[cold]
    fn push(&mut self, key: &DsoKey<'_>, hash: u64, next: Option<u32>) -> u32 {
        // A DSO comes from a record of at least 40 bytes, so a u32 holds any count that fits in memory.
        let index = self.all.len() as u32;
        self.by_key.insert(hash, index);
        let next_of_name = self.by_name.insert(hash_of(key.name), index);
        self.all.push(Slot { dso: None, next, next_of_name });
        index
    }

    /// The DSO of an id of this session.
    pub fn get(&self, id: DsoId) -> Option<&Arc<Dso>> {
        self.at(id.0)
    }

    /// Every DSO whose recorded name is `name`, the latest first.
    pub fn named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a Arc<Dso>> {
        let slot = |index: Option<u32>| self.all.get(index? as usize);
        let head = slot(self.by_name.get(&hash_of(name)).copied());
        std::iter::successors(head, move |s| slot(s.next_of_name))
            .filter_map(|s| s.dso.as_ref())
            .filter(move |dso| dso.name() == name)
    }

    /// All of them in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Dso>> {
        self.all.iter().filter_map(|slot| slot.dso.as_ref())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Lets go of the DSOs that nobody else holds, unless a sample touched them, and of spare capacity. If such a DSO
    /// comes again it is another one, with another id.
    pub fn shrink(&mut self) {
        for slot in &mut self.all {
            slot.dso.take_if(|dso| Arc::strong_count(dso) == 1 && !dso.is_hit());
        }
        self.all.shrink_to_fit();
        self.recent = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::abi::build_id::BuildId;
    use crate::session::dso::{FileId, HOST};

    fn key<'a>(name: &'a [u8], identity: Identity) -> DsoKey<'a> {
        DsoKey { machine: HOST, name, kind: DsoKind::User, identity }
    }

    #[test]
    fn same_key_same_dso() {
        let mut dsos = Dsos::default();
        let file = |ino| Identity::File(FileId { maj: 8, min: 1, ino, ino_generation: 0 });
        let id = |b: u8| Identity::BuildId(BuildId::from_bytes(&[b; 20]).unwrap());
        let keys = [
            key(b"/a", file(1)),
            key(b"/a", file(2)),
            key(b"/b", file(1)),
            key(b"/a", Identity::Name),
            key(b"/a", id(1)),
            key(b"/a", id(2)),
            key(b"/b", id(1)),
            DsoKey { machine: 0, ..key(b"/a", file(1)) },
            DsoKey { kind: DsoKind::Module, ..key(b"/a", Identity::Name) },
        ];
        for round in 0..2 {
            for (i, key) in keys.iter().enumerate() {
                assert_eq!(dsos.intern(key, round).id(), DsoId(i as u32));
            }
        }
        assert_eq!(dsos.len(), keys.len());
        assert!(dsos.iter().all(|dso| dso.first_pid() == 0));
        assert_eq!(dsos.named(b"/b").map(|dso| dso.id().0).collect::<Vec<_>>(), [6, 2]);
        assert_eq!(dsos.get(DsoId(4)).unwrap().build_id(), BuildId::from_bytes(&[1; 20]));
        assert!(dsos.get(DsoId(99)).is_none());
    }

    #[test]
    fn shrinking_lets_go_of_what_nobody_holds() {
        let mut dsos = Dsos::default();
        let held = Arc::clone(dsos.intern(&key(b"/held", Identity::Name), 1));
        dsos.intern(&key(b"/hit", Identity::Name), 1).mark_hit();
        dsos.intern(&key(b"/gone", Identity::Name), 1);
        dsos.shrink();
        assert_eq!(dsos.iter().map(|dso| dso.name()).collect::<Vec<_>>(), [&b"/held"[..], b"/hit"]);
        assert!(Arc::ptr_eq(dsos.intern(&key(b"/held", Identity::Name), 1), &held));
        assert_eq!(dsos.named(b"/gone").count(), 0);
        assert_eq!(dsos.intern(&key(b"/gone", Identity::Name), 1).id(), DsoId(3));
        assert_eq!((dsos.named(b"/gone").count(), dsos.len()), (1, 3));
    }

    #[test]
    fn executable_memory_without_a_file_is_a_jit_symbol_file() {
        let mut dsos = Dsos::default();
        let dso = dsos.intern(&key(b"//anon", Identity::Process(42)), 42);
        assert_eq!(dso.long_name(), b"/tmp/perf-42.map");
        assert_eq!((dso.name(), dso.perf_map_pid()), (&b"//anon"[..], Some(42)));
    }
}
