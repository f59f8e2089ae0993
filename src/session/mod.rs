//! What the recording says of machines, threads, maps and DSOs as of a moment.
//!
//! Records are given to a [`Session`] in time order, each before the stages see it. Stages then ask where the
//! addresses of a sample lie: [`Session::view`], then [`View::find`] for each address.

pub mod addr_location;
mod apply;
pub mod build_id;
pub mod dso;
pub mod dsos;
pub mod machine;
pub mod machines;
pub mod map;
pub mod maps;
#[cfg(test)]
mod tests;
pub mod thread;
pub mod threads;

use std::sync::Arc;

pub use self::addr_location::{AddrLocation, View};
pub use self::dso::{Dso, DsoId, DsoKind, HOST, MachinePid};
pub use self::machine::{Arch, Machine};
pub use self::map::Map;
pub use self::maps::Maps;
pub use self::thread::{SpaceId, Thread};

use self::dsos::Dsos;
use self::machines::Machines;
use crate::abi::misc::CpuMode;
use crate::event::ksymbol::Ksymbol;
use crate::event::mmap::Mmap;
use crate::event::task::{Comm, Fork, Namespaces};

/// The state of a recording as of a moment: machines with their threads and maps, and the DSOs of all.
///
/// Whose record it is, [`Session::machine_of`] tells; nearly always it is the [`HOST`].
pub struct Session {
    machines: Machines,
    dsos: Dsos,
    vacant: Machine,
    keeps_maps_on_exec: bool,
}

impl Session {
    /// A session of a recording made on this architecture.
    pub fn new(arch: Arch) -> Session {
        Session {
            machines: Machines::new(arch),
            dsos: Dsos::default(),
            vacant: Machine::new(HOST, arch),
            keeps_maps_on_exec: false,
        }
    }

    /// Sets the architecture once it is known, as in pipes, where the ARCH section comes late.
    pub fn set_arch(&mut self, arch: Arch) {
        self.machines.iter_mut().for_each(|machine| machine.set_arch(arch));
    }

    /// The machines.
    pub fn machines(&self) -> &Machines {
        &self.machines
    }

    /// As [`Session::machines`], to be changed.
    pub fn machines_mut(&mut self) -> &mut Machines {
        &mut self.machines
    }

    /// The DSOs of all machines.
    pub fn dsos(&self) -> &Dsos {
        &self.dsos
    }

    /// As [`Session::dsos`], to be added to.
    pub fn dsos_mut(&mut self) -> &mut Dsos {
        &mut self.dsos
    }

    /// See [`Machines::pid_of`].
    #[inline]
    pub fn machine_of(&self, cpumode: CpuMode, machine_pid: Option<MachinePid>, pid: i32) -> MachinePid {
        self.machines.pid_of(cpumode, machine_pid, pid)
    }

    /// The address spaces that samples of a thread resolve in; empty ones if the machine is unknown. Makes no thread
    /// that no record told of.
    #[inline]
    pub fn view(&mut self, machine: MachinePid, pid: i32, tid: i32) -> View<'_> {
        match self.machines.get_mut(machine) {
            Some(machine) => machine.view(pid, tid),
            None => self.vacant.view(pid, tid),
        }
    }

    /// The thread of a sample.
    pub fn thread(&self, machine: MachinePid, pid: i32, tid: i32) -> Option<&Thread> {
        self.machines.get(machine)?.threads().of(pid, tid)
    }

    /// The maps of the process that a sample's thread is of, for readers on other threads.
    pub fn maps_of(&mut self, machine: MachinePid, pid: i32, tid: i32) -> Option<&Maps> {
        let threads = self.machines.get_mut(machine)?.threads_mut();
        let space = threads.space_of(pid, tid)?;
        Some(threads.maps(space))
    }

    /// The DSO of a MMAP or MMAP2 record, without adding the map.
    pub fn dso_of(&mut self, machine: MachinePid, mmap: &Mmap<'_>) -> &Arc<Dso> {
        self.machines.ensure(machine).intern(&mut self.dsos, mmap)
    }

    /// MMAP or MMAP2: a map came. Returns its DSO.
    pub fn mmap(&mut self, machine: MachinePid, mmap: &Mmap<'_>) -> &Arc<Dso> {
        self.machines.ensure(machine).mmap(&mut self.dsos, mmap)
    }

    /// From now on the maps of before stay after exec until others lie over them, as perf has it: in the kernel's part
    /// of exec, samples still have user addresses of the program before.
    pub fn keep_maps_on_exec(&mut self) {
        self.keeps_maps_on_exec = true;
    }

    /// COMM: a thread got a name, and with exec an empty address space.
    pub fn comm(&mut self, machine: MachinePid, comm: &Comm<'_>) {
        let comm = Comm { exec: comm.exec && !self.keeps_maps_on_exec, ..*comm };
        self.machines.ensure(machine).threads_mut().comm(&comm);
    }

    /// FORK: a thread or process began.
    pub fn fork(&mut self, machine: MachinePid, fork: &Fork) {
        self.machines.ensure(machine).threads_mut().fork(fork);
    }

    /// EXIT: a thread ended.
    pub fn exit(&mut self, machine: MachinePid, exit: &Fork) {
        self.machines.ensure(machine).threads_mut().exit(exit.pid, exit.tid);
    }

    /// NAMESPACES: a thread's namespaces became known.
    pub fn namespaces(&mut self, machine: MachinePid, namespaces: &Namespaces) {
        self.machines.ensure(machine).threads_mut().namespaces(namespaces);
    }

    /// KSYMBOL: code that the kernel made at run time came or went. Returns its map if it came.
    pub fn ksymbol(&mut self, machine: MachinePid, ksymbol: &Ksymbol<'_>) -> Option<Arc<Map>> {
        self.machines.ensure(machine).ksymbol(&mut self.dsos, ksymbol)
    }

    /// A round of the input is over: what ended two rounds ago is forgotten.
    pub fn round(&mut self) {
        self.machines.iter_mut().for_each(|machine| machine.threads_mut().round());
    }

    /// Lets go of memory that can be had again: indexes by name, spare capacity, exited threads whose round is over, and
    /// then the DSOs that nobody holds and no sample touched.
    pub fn shrink(&mut self) {
        self.machines.shrink();
        self.dsos.shrink();
    }

    /// Runs `load` for every kernel map of every machine on up to `threads` threads, outside any lock. To be done
    /// before the first record by whoever may resolve kernel addresses: see [`Maps::load_maps`].
    pub fn load_maps(&self, threads: usize, load: impl Fn(&Machine, &Arc<Map>) + Sync) {
        for machine in self.machines.iter() {
            machine.kernel_maps().load_maps(threads, |map| load(machine, map));
        }
    }
}
