//! The machines of a recording: the host, and guests by the pid that runs them.

use rustc_hash::FxHashMap;

use super::dso::{DEFAULT_GUEST, HOST, MachinePid};
use super::machine::{Arch, Machine};
use crate::abi::misc::CpuMode;

/// The host and its guests.
pub struct Machines {
    host: Machine,
    guests: FxHashMap<MachinePid, Machine>,
}

impl Machines {
    pub(super) fn new(arch: Arch) -> Machines {
        Machines { host: Machine::new(HOST, arch), guests: FxHashMap::default() }
    }

    /// The machine that was recorded.
    pub fn host(&self) -> &Machine {
        &self.host
    }

    /// As [`Machines::host`], to be changed.
    pub fn host_mut(&mut self) -> &mut Machine {
        &mut self.host
    }

    /// The machine of this pid.
    pub fn get(&self, pid: MachinePid) -> Option<&Machine> {
        if pid == HOST { Some(&self.host) } else { self.guests.get(&pid) }
    }

    /// As [`Machines::get`], to be changed.
    #[inline]
    pub fn get_mut(&mut self, pid: MachinePid) -> Option<&mut Machine> {
        if pid == HOST { Some(&mut self.host) } else { self.guests.get_mut(&pid) }
    }

    /// The machine of this pid, made if it is new.
    pub fn ensure(&mut self, pid: MachinePid) -> &mut Machine {
        if pid == HOST {
            return &mut self.host;
        }
        let arch = self.host.arch();
        self.guests.entry(pid).or_insert_with(|| Machine::new(pid, arch))
    }

    /// All of them, the host first, guests by pid.
    pub fn iter(&self) -> impl Iterator<Item = &Machine> {
        let mut guests: Vec<_> = self.guests.values().collect();
        guests.sort_by_key(|guest| guest.pid());
        std::iter::once(&self.host).chain(guests)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Machine> {
        std::iter::once(&mut self.host).chain(self.guests.values_mut())
    }

    /// Lets go of what can be had again: see [`Session::shrink`](super::Session::shrink).
    pub fn shrink(&mut self) {
        self.iter_mut().for_each(Machine::shrink);
    }

    /// The machine that a record is of: the host, unless its cpumode is a guest's. The guest is the one that the id
    /// table names (`machine_pid`), else the one that the process `pid` runs, else the default one.
    #[inline]
    pub fn pid_of(&self, cpumode: CpuMode, machine_pid: Option<MachinePid>, pid: i32) -> MachinePid {
        match cpumode {
            CpuMode::GuestKernel | CpuMode::GuestUser => match machine_pid {
                Some(named) if named != 0 => named,
                _ if self.guests.contains_key(&pid) => pid,
                _ => DEFAULT_GUEST,
            },
            _ => HOST,
        }
    }
}
