//! Where an address lies.

use std::sync::Arc;

use super::map::Map;
use super::maps::{Found, MapArray};
use crate::abi::misc::CpuMode;

/// The address spaces that the addresses of a thread's samples lie in, held for as long as it takes to resolve
/// some: a look-up costs a few nanoseconds and takes no lock.
pub struct View<'a> {
    pub(super) is_guest: bool,
    pub(super) kernel_start: u64,
    pub(super) single_address_space: bool,
    pub(super) kernel: &'a mut MapArray,
    pub(super) user: Option<&'a mut MapArray>,
}

impl View<'_> {
    /// The maps that addresses of a cpumode lie in: none for a hypervisor, for no cpumode at all, and for a guest's
    /// modes on the host and the other way round.
    #[inline]
    pub fn maps(&mut self, cpumode: CpuMode) -> Option<&mut MapArray> {
        match (cpumode, self.is_guest) {
            (CpuMode::User, false) | (CpuMode::GuestUser, true) => self.user.as_deref_mut(),
            (CpuMode::Kernel, false) | (CpuMode::GuestKernel, true) => Some(self.kernel),
            _ => None,
        }
    }

    /// Versions of the kernel's and the user's maps, the latter 0 without a process, to key what is remembered of them.
    #[inline]
    pub fn epochs(&self) -> (u64, u64) {
        (self.kernel.epoch(), self.user.as_ref().map_or(0, |user| user.epoch()))
    }

    /// As [`View::epochs`], but a process that forked has its parent's until either's maps change: for what follows from
    /// the maps alone, and not from their hit flags.
    #[inline]
    pub fn contents(&self) -> (u64, u64) {
        (self.kernel.contents(), self.user.as_ref().map_or(0, |user| user.contents()))
    }

    /// The map of an address of this cpumode.
    #[inline]
    pub fn find(&mut self, cpumode: CpuMode, ip: u64) -> Option<Found<'_>> {
        self.maps(cpumode)?.find(ip)
    }

    /// As [`View::find`], but an address that has no map may be the other side's: for data addresses and branch
    /// targets, which need not be of the cpumode that their sample ran in. Gives the cpumode that fits.
    pub fn find_fallback(&mut self, cpumode: CpuMode, addr: u64) -> Option<(CpuMode, Found<'_>)> {
        let mode = match self.find(cpumode, addr) {
            Some(_) => cpumode,
            None => self.addr_cpumode(cpumode, addr),
        };
        self.find(mode, addr).map(|found| (mode, found))
    }

    /// The cpumode that an address is of, by where the kernel's addresses begin.
    pub fn addr_cpumode(&self, cpumode: CpuMode, addr: u64) -> CpuMode {
        let is_kernel = addr >= self.kernel_start;
        match cpumode {
            _ if self.single_address_space => cpumode,
            CpuMode::Kernel | CpuMode::User if is_kernel => CpuMode::Kernel,
            CpuMode::Kernel | CpuMode::User => CpuMode::User,
            CpuMode::GuestKernel | CpuMode::GuestUser if is_kernel => CpuMode::GuestKernel,
            CpuMode::GuestKernel | CpuMode::GuestUser => CpuMode::GuestUser,
            other => other,
        }
    }

    /// Sets the hit flag of a map that was just found for this cpumode; true if it was not set.
    pub fn mark_hit(&mut self, cpumode: CpuMode, index: usize) -> bool {
        self.maps(cpumode).is_some_and(|maps| maps.mark_hit(index))
    }

    /// The location of an address.
    pub fn resolve(&mut self, cpumode: CpuMode, ip: u64) -> AddrLocation {
        let map = self.find(cpumode, ip).map(|found| Arc::clone(found.map));
        let addr = map.as_ref().map_or(ip, |map| map.map_ip(ip));
        AddrLocation { cpumode, ip, addr, map }
    }

    /// The location of an address that need not be of its sample's cpumode: see [`View::find_fallback`].
    pub fn resolve_fallback(&mut self, cpumode: CpuMode, addr: u64) -> AddrLocation {
        let mode = self.find_fallback(cpumode, addr).map(|(mode, _)| mode);
        self.resolve(mode.unwrap_or_else(|| self.addr_cpumode(cpumode, addr)), addr)
    }
}

/// Where an address lies; owns what it tells of, so it may be handed to another thread.
#[derive(Clone, Debug)]
pub struct AddrLocation {
    /// Who ran.
    pub cpumode: CpuMode,
    /// The address as recorded.
    pub ip: u64,
    /// The address in the map's DSO; as recorded if there is no map.
    pub addr: u64,
    /// The map.
    pub map: Option<Arc<Map>>,
}

impl AddrLocation {
    /// The letter that perf shows: `k`ernel, `.` user, `g`uest kernel, guest `u`ser, `H`ypervisor or unknown.
    pub fn level(&self) -> char {
        match self.cpumode {
            CpuMode::Kernel => 'k',
            CpuMode::User => '.',
            CpuMode::GuestKernel => 'g',
            CpuMode::GuestUser => 'u',
            _ => 'H',
        }
    }
}
