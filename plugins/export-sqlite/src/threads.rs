//! Threads and their names over time, told apart as perf tells them apart.

use rusqlite::params;
use rustc_hash::FxHashMap;

use crate::HOST_MACHINE;
use crate::database::{Database, Row};

/// A name that a thread has had.
#[derive(Clone, Debug)]
struct Comm {
    /// Its row; 0 before it has one.
    id: Row,
    name: Box<[u8]>,
    start: u64,
    exec: bool,
}

#[derive(Clone, Debug)]
struct Thread {
    /// Its row; 0 before it has one.
    id: Row,
    pid: i32,
    tid: i32,
    /// Whether a record has given it a name.
    named: bool,
    /// The oldest first, never empty; only those that can still be asked for.
    comms: Vec<Comm>,
}

impl Thread {
    fn new(pid: i32, tid: i32) -> Thread {
        let name = format!(":{tid}").into_bytes().into();
        Thread { id: 0, pid, tid, named: false, comms: vec![Comm { id: 0, name, start: 0, exec: false }] }
    }

    fn set_comm(&mut self, name: &[u8], start: u64, exec: bool) {
        if !std::mem::replace(&mut self.named, true) {
            // What stood in for a name until now.
            if let Some(comm) = self.comms.last_mut() {
                (comm.name, comm.start) = (name.into(), start);
                comm.exec |= exec;
            }
            return;
        }
        self.comms.push(Comm { id: 0, name: name.into(), start, exec });
        let (last, of_exec) = (self.comms.len() - 1, self.comms.iter().rposition(|comm| comm.exec));
        let mut at = 0..;
        self.comms.retain(|_| at.next().is_some_and(|at| at < 2 || at == last || Some(at) == of_exec));
    }

    /// Which of its names is the one that its process goes by: that of its last exec. Without one the oldest, but for one
    /// that a process had from its parent before its own was read.
    fn exec_comm(&self) -> usize {
        let oldest_is_parents = self.comms.first().is_some_and(|comm| comm.start == 0)
            && self.comms.len() > 1
            && self.pid == self.tid;
        self.comms.iter().rposition(|comm| comm.exec).unwrap_or(usize::from(oldest_is_parents))
    }
}

/// Rows of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// Row of the thread.
    pub thread: Row,
    /// Row of the name of its process.
    pub comm: Row,
    /// Whether it is the idle task.
    pub is_idle: bool,
}

/// All threads, by thread id.
pub struct Threads {
    threads: FxHashMap<i32, Thread>,
    count: Row,
    /// Whether names given by exec are told from others.
    exec: bool,
}

impl Threads {
    /// The idle task alone; `exec` says whether the kernel tells names given by exec from others.
    pub fn new(exec: bool) -> Threads {
        let mut idle = Thread::new(0, 0);
        idle.set_comm(b"swapper", 0, false);
        Threads { threads: FxHashMap::from_iter([(0, idle)]), count: 0, exec }
    }

    fn find_or_new(&mut self, pid: i32, tid: i32) -> &mut Thread {
        let thread = self.threads.entry(tid).or_insert_with(|| Thread::new(pid, tid));
        if thread.pid == -1 {
            thread.pid = pid;
        }
        thread
    }

    /// A thread got a name.
    pub fn comm(&mut self, pid: i32, tid: i32, name: &[u8], time: u64, exec: bool) {
        self.exec |= exec;
        self.find_or_new(pid, tid).set_comm(name, time, exec);
    }

    /// A thread, given by its process and itself, began; it has its parent's name at first.
    pub fn fork(&mut self, child: (i32, i32), parent: (i32, i32), time: u64) {
        if self.find_or_new(parent.0, parent.1).pid != parent.0 {
            self.threads.insert(parent.1, Thread::new(parent.0, parent.1));
        }
        let name = self.threads.get(&parent.1).filter(|parent| parent.named);
        let name = name.and_then(|parent| parent.comms.last()).map(|comm| comm.name.clone());
        let mut thread = Thread::new(child.0, child.1);
        if let Some(name) = name {
            thread.set_comm(&name, time, false);
        }
        self.threads.insert(child.1, thread);
    }

    /// Rows of a thread that a sample is of.
    pub fn of(&mut self, db: &mut Database, pid: i32, tid: i32) -> Result<Who, String> {
        let pid = self.find_or_new(pid, tid).pid;
        let mut comm = 0;
        let mut main = 0;
        if (pid != -1 || tid == -1) && self.threads.contains_key(&pid) {
            main = self.row(db, pid, None)?.0;
            let by_exec = self.exec;
            let row = |thread: &Thread| if by_exec { thread.exec_comm() } else { thread.comms.len() - 1 };
            comm = self.comm_row(db, pid, row, true)?;
        }
        let (thread, is_new) = match pid == tid {
            true => (main, false),
            false => self.row(db, tid, Some(main))?,
        };
        if is_new && comm != 0 {
            db.comm_thread(comm, thread)?;
        }
        self.comm_row(db, tid, |thread| thread.comms.len() - 1, false)?;
        Ok(Who { thread, comm, is_idle: pid == 0 && tid == 0 })
    }

    /// Rows of a thread, if a record has told of it.
    pub fn known(&mut self, db: &mut Database, pid: i32, tid: i32) -> Result<Option<Who>, String> {
        match self.threads.get(&tid) {
            Some(thread) if thread.named => self.of(db, pid, tid).map(Some),
            _ => Ok(None),
        }
    }

    /// The row of a thread, and whether it is new; without a main thread it is its own.
    fn row(&mut self, db: &Database, tid: i32, main: Option<Row>) -> Result<(Row, bool), String> {
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok((0, false)) };
        if thread.id != 0 {
            return Ok((thread.id, false));
        }
        self.count += 1;
        thread.id = self.count;
        db.insert(
            "INSERT INTO threads VALUES (?, ?, ?, ?, ?)",
            params![thread.id, HOST_MACHINE, main.unwrap_or(thread.id), thread.pid, thread.tid],
        )?;
        Ok((thread.id, true))
    }

    /// The row of one of a thread's names.
    fn comm_row(
        &mut self,
        db: &mut Database,
        tid: i32,
        which: impl Fn(&Thread) -> usize,
        of_process: bool,
    ) -> Result<Row, String> {
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(0) };
        let (at, of) = (which(thread), thread.id);
        let Some(comm) = thread.comms.get_mut(at) else { return Ok(0) };
        if comm.id != 0 {
            return Ok(comm.id);
        }
        comm.id = db.next_comm();
        db.insert(
            "INSERT INTO comms (id, comm, c_thread_id, c_time, exec_flag) VALUES (?, ?, ?, ?, ?)",
            params![comm.id, String::from_utf8_lossy(&comm.name), of, comm.start.cast_signed(), comm.exec],
        )?;
        if of_process {
            db.comm_thread(comm.id, of)?;
        }
        Ok(comm.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(thread: &Thread) -> Vec<(String, u64)> {
        thread
            .comms
            .iter()
            .map(|comm| (String::from_utf8_lossy(&comm.name).into_owned(), comm.start))
            .collect()
    }

    #[test]
    fn a_process_goes_by_the_name_of_its_last_exec() {
        let mut thread = Thread::new(7, 7);
        assert_eq!((names(&thread), thread.exec_comm()), (vec![(":7".into(), 0)], 0));
        // The first name takes the place of the stand-in.
        thread.set_comm(b"shell", 0, false);
        assert_eq!((names(&thread), thread.exec_comm()), (vec![("shell".into(), 0)], 0));
        // Of a process, one from before the recording began may be its parent's.
        thread.set_comm(b"perf-exec", 0, false);
        assert_eq!(thread.exec_comm(), 1);
        assert_eq!(Thread { pid: 6, ..thread.clone() }.exec_comm(), 0);
        thread.set_comm(b"ls", 5, true);
        thread.set_comm(b"renamed", 6, false);
        assert_eq!(thread.exec_comm(), 2);
        for n in 7..1000 {
            thread.set_comm(b"again", n, false);
        }
        let kept = [("shell", 0), ("perf-exec", 0), ("ls", 5), ("again", 999)];
        assert_eq!(names(&thread), kept.map(|(name, start)| (name.to_owned(), start)));
        assert_eq!(thread.exec_comm(), 2);
    }

    #[test]
    fn a_child_has_its_parents_name_and_takes_the_place_of_an_older_thread() {
        let mut threads = Threads::new(false);
        threads.comm(5, 5, b"parent", 10, false);
        threads.comm(6, 6, b"old", 10, false);
        threads.fork((6, 6), (5, 5), 20);
        assert_eq!(threads.threads.get(&6).map(names), Some(vec![("parent".into(), 20)]));
        // One that is said to be the parent but is of another process is gone.
        threads.fork((8, 8), (9, 5), 30);
        assert_eq!(threads.threads.get(&8).map(names), Some(vec![(":8".into(), 0)]));
        assert_eq!(threads.threads.get(&5).map(|thread| thread.pid), Some(9));
    }
}
