//! Which maps the addresses of samples lie in.
//!
//! Most addresses were seen before. What has been dealt with is remembered as ranges of an address space, so that a
//! look-up is left only for the rest. For samples with a dumped stack, every word
//! of it that points into an executable map counts, which is a safe superset of what unwinding would touch.

use crate::abi::misc::{
    CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER, CONTEXT_HV, CONTEXT_KERNEL, CONTEXT_MAX,
    CONTEXT_USER, CONTEXT_USER_DEFERRED, CpuMode,
};
use crate::abi::sample as s;
use crate::bytes::ByteOrder;
use crate::error::Result;
use crate::event::mmap::PROT_EXEC;
use crate::event::{Record, sample};
use crate::evlist::{RecentEvents, SampleLayout};
use crate::session::{MachinePid, Map, Session, View};

use super::super::settled::Settled;
use super::{BuildIds, Context, Style, is_32_bit_vdso};

/// Addresses that need no further look.
#[derive(Default)]
pub(super) struct Hits {
    /// Ranges that have been dealt with.
    settled: Settled,
    recent_events: RecentEvents,
    /// Maps met in the sample at hand that have not been dealt with: cpumode, index and map.
    found: Vec<Hit>,
}

/// A map that a sample hit for the first time.
pub(super) struct Hit {
    pub mode: CpuMode,
    pub map: std::sync::Arc<Map>,
}

impl Hits {
    /// One address of a cpumode.
    #[inline]
    fn address(&mut self, view: &mut View<'_>, epochs: Epochs, mode: CpuMode, ip: u64, per_map: bool) {
        let epoch = match mode {
            CpuMode::Kernel | CpuMode::GuestKernel => epochs.kernel,
            CpuMode::User | CpuMode::GuestUser if epochs.user != 0 => epochs.user,
            _ => return,
        };
        if self.settled.ranges(epoch, 0).answer(ip).is_some() {
            return;
        }
        self.look_up(view, mode, ip, epoch, per_map);
    }

    #[inline(never)]
    fn look_up(&mut self, view: &mut View<'_>, mode: CpuMode, ip: u64, epoch: u64, per_map: bool) {
        let dealt_with = |map: &Map, hit: bool| if per_map { hit } else { map.dso().is_hit() };
        let Some(found) = view.find(mode, ip) else {
            if let Some(maps) = view.maps(mode) {
                self.settled.put(epoch, 0, maps.around(ip, dealt_with), false);
            }
            return;
        };
        let (index, start) = (found.index, found.map.start());
        let new = !dealt_with(found.map, found.hit);
        if new && !is_32_bit_vdso(found.map.dso(), start) {
            self.found.push(Hit { mode, map: found.map.clone() });
            found.map.dso().mark_hit();
        }
        if new && per_map {
            view.mark_hit(mode, index);
        }
        if let Some(maps) = view.maps(mode) {
            self.settled.put(epoch, 0, maps.around(ip, dealt_with), false);
        }
    }
}

/// Versions of the two address spaces of a sample, which key what is remembered.
#[derive(Clone, Copy)]
struct Epochs {
    kernel: u64,
    user: u64,
}

/// The cpumode that a context marker of a callchain announces.
fn context_mode(marker: u64) -> CpuMode {
    match marker {
        CONTEXT_KERNEL => CpuMode::Kernel,
        CONTEXT_USER => CpuMode::User,
        CONTEXT_HV => CpuMode::Hypervisor,
        CONTEXT_GUEST | CONTEXT_GUEST_KERNEL => CpuMode::GuestKernel,
        CONTEXT_GUEST_USER => CpuMode::GuestUser,
        _ => CpuMode::Unknown,
    }
}

/// What of a sample is looked at.
struct Looker<'h, 'v> {
    hits: &'h mut Hits,
    view: View<'v>,
    epochs: Epochs,
    per_map: bool,
}

impl<'h, 'v> Looker<'h, 'v> {
    #[inline]
    fn new(
        hits: &'h mut Hits,
        session: &'v mut Session,
        machine: MachinePid,
        pid: i32,
        tid: i32,
        per_map: bool,
    ) -> Self {
        let view = session.view(machine, pid, tid);
        // Hit flags of maps are the process's own.
        let epochs = if per_map { view.epochs() } else { view.contents() };
        Looker { hits, view, epochs: Epochs { kernel: epochs.0, user: epochs.1 }, per_map }
    }

    #[inline]
    fn address(&mut self, mode: CpuMode, ip: u64) {
        self.hits.address(&mut self.view, self.epochs, mode, ip, self.per_map);
    }

    #[inline]
    fn callchain(&mut self, mut mode: CpuMode, entries: &[u8], order: ByteOrder) {
        let mut cookie = false;
        for entry in entries.chunks_exact(8) {
            let ip = order.u64(entry, 0).unwrap_or(0);
            if cookie {
                cookie = false;
            } else if ip >= CONTEXT_MAX {
                mode = context_mode(ip);
                cookie = ip == CONTEXT_USER_DEFERRED;
            } else {
                self.address(mode, ip);
            }
        }
    }

    /// Words of 4 or 8 bytes that may be return addresses, of which the bits of `mask` are the address.
    fn words(&mut self, words: &[u8], order: ByteOrder, width: usize, mask: u64) {
        let Some(user) = self.view.maps(CpuMode::User) else { return };
        let per_map = self.per_map;
        let Some((low, high)) = user.bounds_where(|map, hit| {
            let new = if per_map { !hit } else { !map.dso().is_hit() };
            new && map.prot() & PROT_EXEC != 0
        }) else {
            return;
        };
        for word in words.chunks_exact(width) {
            let ip = order.u64(word, 0).or_else(|| order.u32(word, 0).map(u64::from)).unwrap_or(0) & mask;
            if low <= ip && ip < high {
                let executable =
                    self.view.find(CpuMode::User, ip).is_some_and(|f| f.map.prot() & PROT_EXEC != 0);
                if executable {
                    self.address(CpuMode::User, ip);
                }
            }
        }
    }
}

/// The ABI word of registers of a 32-bit process (`PERF_SAMPLE_REGS_ABI_32`).
const REGS_ABI_32: u64 = 1;
/// `EM_AARCH64`, where the upper bits of a saved return address may be its signature.
const EM_AARCH64: u16 = 183;
/// Address bits below the signature.
const UNSIGNED: u64 = (1 << 48) - 1;

/// Fields, besides ip and callchain, that hold addresses of code.
const MORE: u64 = s::BRANCH_STACK | s::REGS_USER | s::STACK_USER;

impl BuildIds {
    /// Marks what a sample hits, and puts what is new before it.
    pub(super) fn sample(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<()> {
        let evlist = cx.evlist;
        let Some(layout) = self.hits.recent_events.layout(evlist, record.bytes) else { return Ok(()) };
        let order = record.order;
        let word = |at: Option<usize>| at.and_then(|at| order.u64(record.bytes, at));
        let id = |at: usize| order.u32(record.bytes, at).map_or(-1, u32::cast_signed);
        let (pid, tid) = layout.tid.map_or((-1, -1), |at| (id(at), id(at + 4)));
        let mode = record.cpumode();
        let machine = cx.session.machine_of(mode, None, pid);
        let per_map = self.style == Style::Mmap2BuildIds;
        let arch = cx.session.machines().host().arch().e_machine;
        let mask = if arch == EM_AARCH64 { UNSIGNED } else { u64::MAX };
        let mut looker = Looker::new(&mut self.hits, cx.session, machine, pid, tid, per_map);
        if let Some(ip) = word(layout.ip) {
            looker.address(mode, ip);
        }
        if let Some(range) = sample::callchain(record, layout)? {
            looker.callchain(mode, record.bytes.get(range).unwrap_or_default(), order);
        }
        if per_map && let Some(addr) = word(layout.addr) {
            looker.address(looker.view.addr_cpumode(mode, addr), addr);
        }
        if layout.has(MORE) {
            more(&mut looker, record, layout, mode, mask)?;
        }
        if !self.hits.found.is_empty() {
            self.put_found(record, layout, cx);
        }
        Ok(())
    }

    /// The user part of a callchain that came later (record type 22): u64 cookie, u64 count, the addresses.
    pub(super) fn deferred(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<()> {
        let Some(trailer) = cx.evlist.trailer_of(record.bytes) else { return Ok(()) };
        let (body, tail) = record.split_trailer(trailer);
        let order = record.order;
        let id = |at: usize| order.u32(tail, at).map_or(-1, u32::cast_signed);
        let (pid, tid) = trailer.tid.map_or((-1, -1), |at| (id(at), id(at + 4)));
        let count = order.u64(body, 8).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let entries = count.checked_mul(8).and_then(|n| body.get(16..16usize.checked_add(n)?));
        let entries = entries.ok_or_else(|| record.error("callchain runs past the end of the record"))?;
        let machine = cx.session.machine_of(CpuMode::User, None, pid);
        let per_map = self.style == Style::Mmap2BuildIds;
        let mut looker = Looker::new(&mut self.hits, cx.session, machine, pid, tid, per_map);
        looker.callchain(CpuMode::User, entries, order);
        let found = std::mem::take(&mut self.hits.found);
        for hit in found {
            match self.style {
                Style::Mmap2BuildIds => self.put_map(&hit, pid, tail, record, cx),
                _ => self.announce(hit.map.dso(), record, cx),
            }
        }
        Ok(())
    }

    #[cold]
    fn put_found(&mut self, record: Record<'_>, layout: &SampleLayout, cx: &mut Context<'_>) {
        let found = std::mem::take(&mut self.hits.found);
        for hit in &found {
            match self.style {
                Style::Mmap2BuildIds => {
                    let (pid, trailer) = super::maps::trailer_of_sample(record, layout, cx.evlist);
                    self.put_map(hit, pid, &trailer, record, cx);
                }
                _ => self.announce(hit.map.dso(), record, cx),
            }
        }
        self.hits.found = found;
        self.hits.found.clear();
    }
}

/// Branches, registers and stack.
#[cold]
#[inline(never)]
fn more(
    looker: &mut Looker<'_, '_>,
    record: Record<'_>,
    layout: &SampleLayout,
    mode: CpuMode,
    mask: u64,
) -> Result<()> {
    let fields = sample::fields(record, layout)?;
    let bytes = |range: std::ops::Range<usize>| record.bytes.get(range).unwrap_or_default();
    if let Some(range) = fields.branches {
        for branch in bytes(range).chunks_exact(24) {
            for at in [0, 8] {
                let ip = record.order.u64(branch, at).unwrap_or(0);
                let side = looker.view.addr_cpumode(mode, ip);
                looker.address(side, ip);
            }
        }
    }
    if let Some(stack) = fields.stack_user.filter(|s| !s.is_empty()) {
        let (abi, regs) = fields.regs_user.unwrap_or_default();
        let width = if abi == REGS_ABI_32 { 4 } else { 8 };
        looker.words(bytes(regs), record.order, 8, mask);
        looker.words(bytes(stack), record.order, width, mask);
    }
    Ok(())
}
