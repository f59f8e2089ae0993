//! The threads of a machine and their address spaces.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::maps::Maps;
use super::thread::{SpaceId, Thread};
use crate::event::task::{Comm, Fork, Namespaces};

/// An exited thread outlives the round it ended in, and the next: records may come that late.
const ROUNDS_AFTER_EXIT: u64 = 2;
/// Of a recording without rounds, this many exited threads are kept.
const MOST_EXITED: usize = 1024;

struct Space {
    maps: Maps,
    users: u32,
}

/// The threads of a machine by tid, each with the address space of its process.
///
/// Only records that tell of a thread make one; looking one up does not.
#[derive(Default)]
pub struct Threads {
    by_tid: FxHashMap<i32, Thread>,
    spaces: Vec<Space>,
    free: Vec<SpaceId>,
    exited: VecDeque<Exited>,
    round: u64,
    serial: u64,
    // Whose space was asked for last: threads stay on a CPU for many samples.
    last: Option<(i32, i32, SpaceId)>,
}

struct Exited {
    tid: i32,
    serial: u64,
    round: u64,
}

impl Threads {
    /// The thread with this tid.
    pub fn get(&self, tid: i32) -> Option<&Thread> {
        self.by_tid.get(&tid)
    }

    /// The thread that a record names; `None` if the tid is another process's by now.
    pub fn of(&self, pid: i32, tid: i32) -> Option<&Thread> {
        self.by_tid.get(&tid).filter(|t| t.pid == pid || t.pid == -1 || pid == -1)
    }

    /// All threads, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.by_tid.values()
    }

    /// How many threads there are, those included that ended a short while ago.
    pub fn len(&self) -> usize {
        self.by_tid.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_tid.is_empty()
    }

    /// The maps of an address space.
    pub fn maps(&self, space: SpaceId) -> &Maps {
        &self.spaces[space.0 as usize].maps
    }

    /// The maps of an address space, to be changed or searched without locking.
    pub fn maps_mut(&mut self, space: SpaceId) -> &mut Maps {
        &mut self.spaces[space.0 as usize].maps
    }

    /// The address space that a sample of this thread ran in: the thread's, or if the thread is unknown its process's.
    #[inline]
    pub fn space_of(&mut self, pid: i32, tid: i32) -> Option<SpaceId> {
        match self.last {
            Some((last_pid, last_tid, space)) if (last_pid, last_tid) == (pid, tid) => Some(space),
            _ => {
                let thread = self.of(pid, tid).filter(|t| t.pid == pid || pid == -1);
                let space = thread.or_else(|| self.of(pid, pid))?.space;
                self.last = Some((pid, tid, space));
                Some(space)
            }
        }
    }

    fn new_space(&mut self) -> SpaceId {
        let space = self.free.pop().unwrap_or_else(|| {
            self.spaces.push(Space { maps: Maps::new(), users: 0 });
            SpaceId(self.spaces.len() as u32 - 1)
        });
        self.spaces[space.0 as usize].users = 1;
        space
    }

    fn share(&mut self, space: SpaceId) -> SpaceId {
        self.spaces[space.0 as usize].users += 1;
        space
    }

    fn release(&mut self, space: SpaceId) {
        let left = &mut self.spaces[space.0 as usize];
        left.users -= 1;
        if left.users == 0 {
            left.maps.clear();
            self.free.push(space);
        }
    }

    fn remove(&mut self, tid: i32) {
        self.last = None;
        if let Some(thread) = self.by_tid.remove(&tid) {
            self.release(thread.space);
        }
    }

    fn add(&mut self, pid: i32, tid: i32, space: SpaceId) {
        self.last = None;
        self.serial += 1;
        let comm = (pid == 0 && tid == 0).then(|| Arc::from(&b"swapper"[..]));
        let serial = self.serial;
        let thread =
            Thread { pid, tid, ppid: -1, comm, space, mount_namespace: None, has_exited: false, serial };
        self.by_tid.insert(tid, thread);
    }

    /// The address space of a thread that is made if it is not known. A known thread of another process has ended
    /// without our hearing of it.
    pub fn ensure(&mut self, pid: i32, tid: i32) -> SpaceId {
        match self.by_tid.get(&tid) {
            Some(thread) if thread.pid == pid || pid == -1 => return thread.space,
            Some(thread) if thread.pid == -1 => {
                let comm = thread.comm.clone();
                self.remove(tid);
                let space = self.ensure(pid, tid);
                if let Some(thread) = self.by_tid.get_mut(&tid) {
                    thread.comm = comm;
                }
                return space;
            }
            Some(_) => self.remove(tid),
            None => {}
        }
        let space = if pid == tid || pid == -1 {
            self.new_space()
        } else {
            let space = self.ensure(pid, pid);
            self.share(space)
        };
        self.add(pid, tid, space);
        space
    }

    /// A thread or process began.
    ///
    /// A thread shares the address space of its process; a process gets a copy of its parent's, unless the
    /// record is of a process that has called exec since.
    pub fn fork(&mut self, fork: &Fork) {
        let parent_space = self.ensure(fork.ppid, fork.ptid);
        // Held, because hostile records may fork a thread from itself.
        self.share(parent_space);
        let parent = self.by_tid.get(&fork.ptid);
        let (comm, mount_namespace) = parent.map_or((None, None), |t| (t.comm.clone(), t.mount_namespace));
        self.remove(fork.tid);
        let space = if fork.pid == fork.ppid {
            self.share(parent_space)
        } else if fork.pid == fork.tid {
            let space = self.new_space();
            if !fork.exec {
                self.copy_maps(parent_space, space);
            }
            space
        } else {
            let space = self.ensure(fork.pid, fork.pid);
            self.share(space)
        };
        self.add(fork.pid, fork.tid, space);
        if let Some(thread) = self.by_tid.get_mut(&fork.tid) {
            thread.ppid = fork.ppid;
            if thread.comm.is_none() {
                thread.comm = comm;
            }
            thread.mount_namespace = mount_namespace;
        }
        self.release(parent_space);
    }

    fn copy_maps(&mut self, from: SpaceId, to: SpaceId) {
        if let Ok([from, to]) = self.spaces.get_disjoint_mut([from.0 as usize, to.0 as usize]) {
            to.maps.set_e_machine(from.maps.e_machine());
            to.maps.get_mut().copy_from(from.maps.get_mut());
        }
    }

    /// A thread got a name; with exec, its address space is empty again.
    pub fn comm(&mut self, comm: &Comm<'_>) {
        let space = self.ensure(comm.pid, comm.tid);
        if let Some(thread) = self.by_tid.get_mut(&comm.tid) {
            thread.comm = Some(Arc::from(comm.comm));
        }
        if comm.exec {
            self.maps_mut(space).clear();
        }
    }

    /// A thread's namespaces became known.
    pub fn namespaces(&mut self, namespaces: &Namespaces) {
        self.ensure(namespaces.pid, namespaces.tid);
        if let Some(thread) = self.by_tid.get_mut(&namespaces.tid) {
            thread.mount_namespace = namespaces.links.get(Namespaces::MNT).copied();
        }
    }

    /// A thread ended. It is kept for two more rounds, or until its tid comes again.
    pub fn exit(&mut self, pid: i32, tid: i32) {
        let Some(thread) = self.by_tid.get_mut(&tid) else { return };
        if thread.pid != pid || thread.has_exited {
            return;
        }
        thread.has_exited = true;
        self.exited.push_back(Exited { tid, serial: thread.serial, round: self.round });
        if self.exited.len() > MOST_EXITED {
            self.forget_first();
        }
    }

    /// Everything up to the last round is known to have been seen.
    pub fn round(&mut self) {
        self.round += 1;
        while self.exited.front().is_some_and(|e| e.round + ROUNDS_AFTER_EXIT <= self.round) {
            self.forget_first();
        }
    }

    /// Lets go of exited threads whose round is over, of indexes, and of spare capacity.
    pub fn shrink(&mut self) {
        while self.exited.front().is_some_and(|e| e.round < self.round) {
            self.forget_first();
        }
        for space in &mut self.spaces {
            space.maps.get_mut().shrink();
        }
        self.by_tid.shrink_to_fit();
        self.exited.shrink_to_fit();
    }

    fn forget_first(&mut self) {
        let Some(Exited { tid, serial, .. }) = self.exited.pop_front() else { return };
        let Some(&Thread { pid, space, .. }) = self.by_tid.get(&tid).filter(|t| t.serial == serial) else {
            return;
        };
        // A leader that ended before its threads still stands for their address space.
        let users = self.spaces[space.0 as usize].users;
        if tid == pid && users > 1 {
            return;
        }
        self.remove(tid);
        let was_waiting = |leader: &Thread| {
            leader.has_exited && leader.space == space && !self.exited.iter().any(|e| e.tid == pid)
        };
        if tid != pid && users == 2 && self.by_tid.get(&pid).is_some_and(was_waiting) {
            self.remove(pid);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::session::dso::{Dso, DsoKind};
    use crate::session::map::{Extent, Map};

    fn fork(pid: i32, tid: i32, ppid: i32, ptid: i32) -> Fork {
        Fork { pid, ppid, tid, ptid, time: 0, exec: false }
    }

    fn comm(pid: i32, tid: i32, comm: &[u8], exec: bool) -> Comm<'_> {
        Comm { pid, tid, exec, comm }
    }

    fn add_map(threads: &mut Threads, pid: i32, start: u64) {
        let dso = Dso::detached(b"/lib/x", DsoKind::User);
        let map = Map::new(Extent { start, end: start + 0x1000, pgoff: 0 }, dso, 5, 2);
        let space = threads.ensure(pid, pid);
        threads.maps_mut(space).get_mut().fixup_overlap_and_insert(Arc::new(map));
    }

    fn maps_of(threads: &mut Threads, pid: i32, tid: i32) -> Option<usize> {
        let space = threads.space_of(pid, tid)?;
        Some(threads.maps_mut(space).get_mut().len())
    }

    #[test]
    fn threads_share_and_processes_copy() {
        let mut threads = Threads::default();
        threads.comm(&comm(10, 10, b"sh", true));
        add_map(&mut threads, 10, 0x1000);
        threads.fork(&fork(10, 11, 10, 10));
        threads.fork(&fork(20, 20, 10, 11));
        add_map(&mut threads, 10, 0x5000);
        assert_eq!(maps_of(&mut threads, 10, 11), Some(2));
        assert_eq!(maps_of(&mut threads, 20, 20), Some(1));
        assert_eq!(&**threads.get(20).unwrap().comm().unwrap(), b"sh");
        assert_eq!(threads.get(20).unwrap().ppid(), 10);

        threads.comm(&comm(20, 20, b"ls", true));
        assert_eq!((maps_of(&mut threads, 20, 20), maps_of(&mut threads, 10, 10)), (Some(0), Some(2)));
        // A thread that no record told of is its process's; an unknown process is nobody's.
        assert_eq!(maps_of(&mut threads, 10, 99), Some(2));
        assert_eq!((maps_of(&mut threads, 98, 99), threads.len()), (None, 3));
    }

    #[test]
    fn a_synthesized_fork_copies_no_maps() {
        let mut threads = Threads::default();
        add_map(&mut threads, 1, 0x1000);
        threads.fork(&Fork { exec: true, ..fork(2, 2, 1, 1) });
        assert_eq!(maps_of(&mut threads, 2, 2), Some(0));
    }

    #[test]
    fn a_reused_tid_is_a_new_thread() {
        let mut threads = Threads::default();
        threads.fork(&fork(10, 11, 10, 10));
        add_map(&mut threads, 10, 0x1000);
        // The exit of 11 and its fork as a process were lost.
        threads.comm(&comm(11, 11, b"new", false));
        assert_eq!(maps_of(&mut threads, 11, 11), Some(0));
        // And now the fork comes as well.
        threads.fork(&fork(11, 11, 10, 10));
        assert_eq!(maps_of(&mut threads, 11, 11), Some(1));
        // A sample of the thread that had the tid before is its process's.
        assert_eq!(threads.of(10, 11).map(Thread::tid), None);
        assert_eq!(maps_of(&mut threads, 10, 11), Some(1));
    }

    #[test]
    fn a_thread_without_a_pid_gets_one_later() {
        let mut threads = Threads::default();
        add_map(&mut threads, 7, 0x1000);
        threads.comm(&comm(-1, 8, b"x", false));
        assert_eq!(maps_of(&mut threads, -1, 8), Some(0));
        threads.ensure(7, 8);
        assert_eq!(maps_of(&mut threads, 7, 8), Some(1));
        assert_eq!(&**threads.get(8).unwrap().comm().unwrap(), b"x");
    }

    #[test]
    fn the_exited_are_kept_for_two_rounds() {
        let mut threads = Threads::default();
        add_map(&mut threads, 10, 0x1000);
        threads.fork(&fork(10, 11, 10, 10));
        threads.exit(10, 10);
        for _ in 0..5 {
            threads.round();
        }
        assert_eq!(maps_of(&mut threads, 10, 10), Some(1), "a thread of it still runs");
        threads.exit(10, 11);
        threads.shrink();
        threads.round();
        assert_eq!(maps_of(&mut threads, 10, 11), Some(1), "late records");
        threads.round();
        assert_eq!((threads.len(), threads.free.len()), (0, 1));
    }

    #[test]
    fn a_fork_storm_stays_small() {
        let mut threads = Threads::default();
        add_map(&mut threads, 1, 0x1000);
        for pid in 2..50_000 {
            threads.fork(&fork(pid, pid, 1, 1));
            threads.exit(pid, pid);
        }
        assert_eq!(threads.len(), 1 + MOST_EXITED);
        assert!(threads.spaces.len() <= 2 + MOST_EXITED);
    }

    #[test]
    fn a_thread_that_forks_itself_is_harmless() {
        let mut threads = Threads::default();
        add_map(&mut threads, 1, 0x1000);
        threads.fork(&fork(1, 1, 1, 1));
        assert_eq!(maps_of(&mut threads, 1, 1), Some(1));
        threads.fork(&fork(2, 1, 1, 1));
        threads.fork(&fork(-1, -1, -1, -1));
        threads.exit(-1, -1);
        threads.round();
        threads.round();
        assert_eq!(threads.len(), 2);
        let users: u32 = threads.spaces.iter().map(|s| s.users).sum();
        assert_eq!(users as usize, threads.len());
    }
}
