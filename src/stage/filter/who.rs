//! Whose addresses a sample has.

use super::sample::Sample;
use crate::abi::misc::CpuMode;
use crate::session::{MachinePid, Session, Thread};

/// Threads that are kept in mind; samples of several CPUs take turns.
const RECENT: usize = 8;

/// Whose addresses are looked up.
#[derive(Clone, Copy)]
pub struct Who {
    guest: bool,
    /// The machine.
    pub machine: MachinePid,
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    kernel: u64,
    user: u64,
}

impl Who {
    fn of(mode: CpuMode, pid: i32, tid: i32, session: &mut Session) -> Who {
        let machine = session.machine_of(mode, None, pid);
        let (kernel, mut user) = session.view(machine, pid, tid).contents();
        // What a process does after its end, it does in the kernel; perf has forgotten its maps.
        if pid == tid && session.thread(machine, pid, tid).is_some_and(Thread::has_exited) {
            user = 0;
        }
        Who { guest: is_guest(mode), machine, pid, tid, kernel, user }
    }

    /// Version of the maps that addresses of a cpumode lie in; 0 if there are none.
    #[inline]
    pub fn epoch(&self, mode: CpuMode) -> u64 {
        match mode {
            CpuMode::Kernel | CpuMode::GuestKernel => self.kernel,
            CpuMode::User | CpuMode::GuestUser => self.user,
            _ => 0,
        }
    }
}

/// Whether a cpumode is one of a guest.
pub fn is_guest(mode: CpuMode) -> bool {
    matches!(mode, CpuMode::GuestKernel | CpuMode::GuestUser)
}

/// Whose addresses were looked up last, by thread id.
#[derive(Default)]
pub struct RecentWho {
    recent: [Option<Who>; RECENT],
}

impl RecentWho {
    /// Whose the addresses of a sample are.
    #[inline]
    pub fn of(&mut self, sample: &Sample<'_>, session: &mut Session) -> Who {
        let (pid, tid) = sample.ids();
        let mode = sample.record.cpumode();
        let is_known = |who: &Who| (who.pid, who.tid, who.guest) == (pid, tid, is_guest(mode));
        match self.recent.get_mut(tid.cast_unsigned() as usize % RECENT) {
            Some(Some(who)) if is_known(who) => *who,
            Some(place) => *place.insert(Who::of(mode, pid, tid, session)),
            None => Who::of(mode, pid, tid, session),
        }
    }

    /// Threads or maps have changed.
    #[inline]
    pub fn forget(&mut self) {
        self.recent.fill(None);
    }
}
