//! Names of threads and of places in the code, looked up when a filter asks and remembered.
//!
//! Mostly all addresses of a map have the same answer: to questions of DSOs always, and to one of a symbol if the DSO has
//! none of that name. So the ranges asked for last are kept with their answers, maps and the gaps between them. Other
//! answers are kept by address and version of the address space; where no question is of a symbol, by page, if a map
//! covers it whole. Answers to questions of DSOs are kept by DSO besides, and those to questions of symbols by address
//! within the DSO, since many processes have it mapped.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::answers::{Answers, SLOTS, Settled, Slot, slot_of};
use super::program::{Names, Place, Wanted};
use super::sample::Sample;
use crate::abi::misc::CpuMode;
use crate::header::features::build_ids::BuildIdEntry;
use crate::session::dso::DEFAULT_GUEST;
use crate::session::{Dso, HOST, MachinePid, Map, Session, Thread};
use crate::symbol::LoadOptions;
use crate::symbol::tables::Symbols;

const PAGE: u32 = 12;

/// Whose addresses are looked up.
#[derive(Clone, Copy)]
pub struct Who {
    guest: bool,
    machine: MachinePid,
    pid: i32,
    tid: i32,
    kernel: u64,
    user: u64,
}

impl Who {
    fn of(mode: CpuMode, pid: i32, tid: i32, session: &mut Session) -> Who {
        let machine = session.machine_of(mode, None, pid);
        let (kernel, mut user) = session.view(machine, pid, tid).epochs();
        // What a process does after its end, it does in the kernel; perf has forgotten its maps.
        if pid == tid && session.thread(machine, pid, tid).is_some_and(Thread::has_exited) {
            user = 0;
        }
        Who { guest: is_guest(mode), machine, pid, tid, kernel, user }
    }

    #[inline]
    fn epoch(&self, mode: CpuMode) -> u64 {
        match mode {
            CpuMode::Kernel | CpuMode::GuestKernel => self.kernel,
            CpuMode::User | CpuMode::GuestUser => self.user,
            _ => 0,
        }
    }
}

fn is_guest(mode: CpuMode) -> bool {
    matches!(mode, CpuMode::GuestKernel | CpuMode::GuestUser)
}

/// A question to a place.
#[derive(Clone, Copy)]
pub struct Question<'q> {
    /// What is asked for.
    pub of: Place,
    /// What it is compared with.
    pub wanted: &'q Wanted,
    /// The question's number within its program.
    pub number: u32,
}

/// Start and end of what is meant, in the addresses of a table of symbols; sorted.
type Ranges = Vec<(u64, u64)>;

/// A thread (machine, pid, tid), and its name.
type Asked = ((MachinePid, i32, i32), Option<Arc<[u8]>>);

/// What is remembered.
pub struct Places {
    /// Of the kernel, and of the process whose addresses were looked up last.
    kernel: Settled,
    user: Settled,
    slots: Box<[Slot]>,
    /// By address in the DSO instead, with the DSO in the place of the address space.
    in_dso: Box<[Slot]>,
    by_page: bool,
    dsos: Vec<Answers>,
    /// By DSO and question: where in its table symbols are that may be meant, if that is known.
    ranges: FxHashMap<(u32, u32), Option<Ranges>>,
    symbols: Symbols,
    /// Build-ids that the recording tells of apart from its maps, in hexadecimal, by machine and name.
    build_ids: FxHashMap<(MachinePid, Box<[u8]>), String>,
    /// The thread asked for last, and its name.
    thread: Option<Asked>,
    /// Whose addresses were looked up last.
    who: Option<Who>,
}

impl Places {
    /// Nothing remembered. `by_page` if no question will be of a symbol.
    pub fn new(load: LoadOptions, by_page: bool) -> Places {
        Places {
            kernel: Settled::default(),
            user: Settled::default(),
            slots: vec![Slot::default(); SLOTS].into(),
            in_dso: vec![Slot::default(); if by_page { 0 } else { SLOTS }].into(),
            by_page,
            dsos: Vec::new(),
            ranges: FxHashMap::default(),
            symbols: Symbols::new(load),
            build_ids: FxHashMap::default(),
            thread: None,
            who: None,
        }
    }

    /// The tables of symbols.
    pub fn symbols_mut(&mut self) -> &mut Symbols {
        &mut self.symbols
    }

    /// Takes a build-id of the recording.
    pub fn add_build_id(&mut self, entry: &BuildIdEntry<'_>) {
        let Some(id) = entry.build_id() else { return };
        let machine = match (entry.pid, is_guest(entry.cpumode())) {
            (pid, true) => pid.max(DEFAULT_GUEST),
            _ => HOST,
        };
        self.build_ids.insert((machine, entry.filename.into()), id.to_string());
        self.forget();
    }

    /// Forgets all answers.
    pub fn forget(&mut self) {
        (self.kernel, self.user) = (Settled::default(), Settled::default());
        self.slots.fill(Slot::default());
        self.in_dso.fill(Slot::default());
        self.dsos.clear();
        self.ranges.clear();
        self.forget_threads();
    }

    /// Threads or maps have changed.
    #[inline]
    pub fn forget_threads(&mut self) {
        (self.thread, self.who) = (None, None);
    }

    /// The kernel's map may have come: its symbols will be asked for.
    pub fn expect_kernel(&mut self, session: &Session) {
        let host = session.machines().host();
        if let (false, Some(map)) = (self.by_page, host.kernel_map()) {
            self.symbols.expect_kernel(map.dso(), host.reference_symbol());
        }
    }

    /// Whose the addresses of a sample are.
    #[inline]
    pub fn who(&mut self, sample: &Sample<'_>, session: &mut Session) -> Who {
        let (pid, tid) = sample.ids();
        let mode = sample.record.cpumode();
        match self.who {
            Some(who) if (who.pid, who.tid, who.guest) == (pid, tid, is_guest(mode)) => who,
            _ => *self.who.insert(Who::of(mode, pid, tid, session)),
        }
    }

    /// Whether the name of the sample's thread is one of these. A thread of no name, or that has
    /// exited, is called by its id, `:7`, as perf does.
    #[inline]
    pub fn is_comm(&mut self, sample: &Sample<'_>, session: &Session, names: &Names) -> bool {
        let (pid, tid) = sample.ids();
        let machine = session.machine_of(sample.record.cpumode(), None, pid);
        let comm = match &self.thread {
            Some((of, comm)) if *of == (machine, pid, tid) => comm,
            _ => {
                let comm = session.thread(machine, pid, tid).filter(|thread| !thread.has_exited());
                let comm = comm.and_then(|thread| thread.comm().cloned());
                &self.thread.insert(((machine, pid, tid), comm)).1
            }
        };
        match comm {
            Some(comm) => names.has(comm),
            None if (pid, tid) == (0, 0) => names.has(b"swapper"),
            None => names.has(format!(":{tid}").as_bytes()),
        }
    }

    /// The answer to a question of an address.
    #[inline]
    pub fn ask(
        &mut self,
        session: &mut Session,
        who: &Who,
        mode: CpuMode,
        ip: u64,
        question: Question<'_>,
    ) -> bool {
        let epoch = who.epoch(mode);
        if epoch == 0 {
            return false;
        }
        let is_no = match mode {
            CpuMode::User => self.user.is_no(epoch, ip, question.number),
            CpuMode::Kernel => self.kernel.is_no(epoch, ip, question.number),
            _ => false,
        };
        if is_no {
            return false;
        }
        let at = if self.by_page { ip >> PAGE } else { ip };
        let index = slot_of(at, epoch);
        match self.slots.get(index) {
            Some(slot) if (slot.at, slot.epoch) == (at, epoch) => {
                if let Some(answer) = slot.answers.get(question.number) {
                    return answer;
                }
            }
            _ => {}
        }
        self.look_up(session, who, mode, ip, question, index)
    }

    #[inline(never)]
    fn look_up(
        &mut self,
        session: &mut Session,
        who: &Who,
        mode: CpuMode,
        ip: u64,
        question: Question<'_>,
        index: usize,
    ) -> bool {
        if question.of == Place::Symbol && mode == CpuMode::Kernel {
            let before = session.view(who.machine, who.pid, who.tid).epochs();
            self.symbols.fit_kernel_map(session);
            if session.view(who.machine, who.pid, who.tid).epochs() != before {
                self.who = None;
            }
        }
        let mut view = session.view(who.machine, who.pid, who.tid);
        let epoch = who.epoch(mode);
        let Some(map) = view.find(mode, ip).map(|found| Arc::clone(found.map)) else {
            if let Some(maps) = view.maps(mode).filter(|_| mode == CpuMode::User) {
                self.user.put(epoch, maps.gap(ip), question.number);
            }
            return false;
        };
        let (answer, range) = self.ask_map(session, who, &map, ip, question);
        match (mode, range) {
            (CpuMode::User, Some(range)) if !answer => self.user.put(epoch, range, question.number),
            (CpuMode::Kernel, Some(range)) if !answer => self.kernel.put(epoch, range, question.number),
            _ => {}
        }
        let at = if self.by_page { ip >> PAGE } else { ip };
        let page = ip >> PAGE << PAGE;
        let covers = map.start() <= page && page.saturating_add(1 << PAGE) <= map.end();
        if (!self.by_page || covers)
            && let Some(slot) = self.slots.get_mut(index)
        {
            slot.put(at, epoch, question.number, answer);
        }
        answer
    }

    /// The answer, and the range of addresses of the map around this one that have the same, if one is known.
    fn ask_map(
        &mut self,
        session: &Session,
        who: &Who,
        map: &Map,
        ip: u64,
        question: Question<'_>,
    ) -> (bool, Option<(u64, u64)>) {
        if question.of == Place::Symbol {
            return self.ask_symbol(session, who, map, ip, question);
        }
        let (dso, names) = (map.dso(), &question.wanted.names);
        let index = dso.id().0 as usize;
        if self.dsos.len() <= index {
            self.dsos.resize(index + 1, Answers::default());
        }
        let known = self.dsos.get(index).and_then(|answers| answers.get(question.number));
        let answer = known.unwrap_or_else(|| match question.of {
            Place::BuildId => self.is_build_id(dso, names),
            _ => is_dso(dso, names),
        });
        if let Some(answers) = self.dsos.get_mut(index) {
            answers.set(question.number, answer);
        }
        (answer, Some((map.start(), map.end())))
    }

    fn ask_symbol(
        &mut self,
        session: &Session,
        who: &Who,
        map: &Map,
        ip: u64,
        question: Question<'_>,
    ) -> (bool, Option<(u64, u64)>) {
        let dso = map.dso();
        let Wanted { names, parts } = question.wanted;
        let machine = session.machines().get(who.machine);
        let reference = machine.and_then(|machine| machine.reference_symbol());
        let ranges = self.ranges.entry((dso.id().0, question.number)).or_insert_with(|| {
            let is_meant = |name: &[u8]| names.has(name);
            let ranges = (!parts.is_empty()).then(|| self.symbols.ranges_of(map, reference, parts, is_meant));
            ranges.flatten()
        });
        if let Some(ranges) = ranges
            && let Some(range) = gap(ranges, map, ip, self.symbols.table_address(map, ip, reference))
        {
            return (false, Some(range));
        }
        // A DSO's number is never 0 here, as an address space's version never is.
        let (at, owner) = (map.map_ip(ip), u64::from(dso.id().0) + 1);
        let index = slot_of(at, owner);
        let known = self.in_dso.get(index).filter(|slot| (slot.at, slot.epoch) == (at, owner));
        if let Some(answer) = known.and_then(|slot| slot.answers.get(question.number)) {
            return (answer, None);
        }
        let named = self.symbols.find(map, ip, reference, |named| names.has(named.name));
        let answer = named.unwrap_or(false);
        if let Some(slot) = self.in_dso.get_mut(index) {
            slot.put(at, owner, question.number, answer);
        }
        (answer, None)
    }

    fn is_build_id(&self, dso: &Dso, names: &Names) -> bool {
        match dso.build_id() {
            Some(id) => names.has(id.to_string().as_bytes()),
            None => {
                let known = self.build_ids.get(&(dso.machine(), Box::from(dso.name())));
                known.is_some_and(|id| names.has(id.as_bytes()))
            }
        }
    }
}

/// The addresses of a map around one that lies in none of the ranges; `addr` is what the ranges have for it.
fn gap(ranges: &[(u64, u64)], map: &Map, ip: u64, addr: Option<u64>) -> Option<(u64, u64)> {
    let (start, end) = (map.start(), map.end());
    let Some(addr) = addr else { return Some((start, end)) };
    let next = ranges.partition_point(|range| range.0 <= addr);
    let before = next.checked_sub(1).and_then(|at| ranges.get(at)).map_or(0, |range| range.1);
    let after = ranges.get(next).map_or(u64::MAX, |range| range.0);
    if addr < before {
        return None;
    }
    // Both count in bytes, so their distances are the same.
    Some((start.max(ip.saturating_sub(addr - before)), end.min(ip.saturating_add(after - addr))))
}

/// Whether a DSO goes by one of these names: as shown, as recorded, or without its folder. Patterns are for the name as
/// shown.
fn is_dso(dso: &Dso, names: &Names) -> bool {
    match names {
        Names::Pattern(_) => names.has(dso.shown_name()),
        Names::Exact(_) => {
            [dso.shown_name(), dso.long_name(), dso.short_name()].into_iter().any(|name| names.has(name))
        }
    }
}
