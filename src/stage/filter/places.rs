//! Names of threads and of places in the code, looked up when a filter asks and remembered.
//!
//! Mostly all addresses of a map have the same answer: to questions of DSOs always, and to one of a symbol if the DSO has
//! none of that name. So answers are kept by range of an address space, gaps between maps included. What is left of
//! questions of symbols is kept by address, of the address space and then of the DSO, since many processes have it mapped.
//! Answers to questions of DSOs are kept by DSO besides.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::settled::{self, Settled};
use super::answers::{Answers, SLOTS, Slot, gap, is_dso, slot_of};
use super::program::{Names, Place, Wanted, Word};
use super::sample::{Entry, Sample};
use super::who::{RecentWho, Who, is_guest};
use crate::abi::misc::CpuMode;
use crate::error::Result;
use crate::header::features::build_ids::BuildIdEntry;
use crate::session::dso::DEFAULT_GUEST;
use crate::session::{Dso, HOST, MachinePid, Map, Session};
use crate::symbol::LoadOptions;
use crate::symbol::tables::Symbols;

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
    settled: Settled,
    slots: Box<[Slot]>,
    /// By address in the DSO instead, with the DSO in the place of the address space.
    in_dso: Box<[Slot]>,
    needs_symbols: bool,
    dsos: Vec<Answers>,
    /// By DSO and question: where in its table symbols are that may be meant, if that is known.
    ranges: FxHashMap<(u32, u32), Option<Ranges>>,
    symbols: Symbols,
    /// Build-ids that the recording tells of apart from its maps, in hexadecimal, by machine and name.
    build_ids: FxHashMap<(MachinePid, Box<[u8]>), String>,
    /// The thread asked for last, and its name.
    thread: Option<Asked>,
    who: RecentWho,
}

impl Places {
    /// Nothing remembered. `needs_symbols` if a question will be of one.
    pub fn new(load: LoadOptions, needs_symbols: bool) -> Places {
        Places {
            settled: Settled::default(),
            slots: vec![Slot::default(); if needs_symbols { SLOTS } else { 0 }].into(),
            in_dso: vec![Slot::default(); if needs_symbols { SLOTS } else { 0 }].into(),
            needs_symbols,
            dsos: Vec::new(),
            ranges: FxHashMap::default(),
            symbols: Symbols::new(load),
            build_ids: FxHashMap::default(),
            thread: None,
            who: RecentWho::default(),
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
        self.settled = Settled::default();
        self.slots.fill(Slot::default());
        self.in_dso.fill(Slot::default());
        self.dsos.clear();
        self.ranges.clear();
        self.forget_threads();
    }

    /// Threads or maps have changed.
    #[inline]
    pub fn forget_threads(&mut self) {
        self.thread = None;
        self.who.forget();
    }

    /// The kernel's map may have come: its symbols will be asked for.
    pub fn expect_kernel(&mut self, session: &Session) {
        let host = session.machines().host();
        if let (true, Some(map)) = (self.needs_symbols, host.kernel_map()) {
            self.symbols.expect_kernel(map.dso(), host.reference_symbol());
        }
    }

    /// Whose the addresses of a sample are.
    #[inline]
    pub fn who(&mut self, sample: &Sample<'_>, session: &mut Session) -> Who {
        self.who.of(sample, session)
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
        if let Some(answer) = self.settled(who, mode, question.number).answer(ip) {
            return answer;
        }
        let index = slot_of(ip, who.epoch(mode));
        if question.of == Place::Symbol
            && let Some(slot) = self.slots.get(index)
            && (slot.at, slot.epoch) == (ip, who.epoch(mode))
            && let Some(answer) = slot.answers.get(question.number)
        {
            return answer;
        }
        self.look_up(session, who, mode, ip, question, index)
    }

    /// Ranges of addresses whose answers are known.
    #[inline]
    fn settled(&self, who: &Who, mode: CpuMode, question: u32) -> &settled::Ranges {
        match who.epoch(mode) {
            0 => &settled::Ranges::NOTHING,
            epoch => self.settled.ranges(epoch, question),
        }
    }

    /// Whether the place of a frame is meant, of the sample's instruction pointer or its callchain. An error if the
    /// callchain does not fit the sample.
    pub fn ask_frames(
        &mut self,
        session: &mut Session,
        who: &Who,
        sample: &Sample<'_>,
        question: Question<'_>,
    ) -> Result<bool> {
        let mut mode = sample.record.cpumode();
        if sample.word(Word::Ip).is_some_and(|ip| self.ask(session, who, mode, ip, question)) {
            return Ok(true);
        }
        let mut frames = sample.frames()?;
        loop {
            let settled = self.settled(who, mode, question.number);
            match frames.find(|ip| settled.answer(ip) != Some(false)) {
                None => return Ok(false),
                Some(Entry::Context(context)) => mode = context,
                Some(Entry::Ip(ip)) => {
                    if settled.answer(ip) == Some(true) || self.ask(session, who, mode, ip, question) {
                        return Ok(true);
                    }
                }
            }
        }
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
            let before = session.view(who.machine, who.pid, who.tid).contents();
            self.symbols.fit_kernel_map(session);
            if session.view(who.machine, who.pid, who.tid).contents() != before {
                self.who.forget();
            }
        }
        let mut view = session.view(who.machine, who.pid, who.tid);
        let epoch = who.epoch(mode);
        let Some(map) = view.find(mode, ip).map(|found| Arc::clone(found.map)) else {
            if let Some(maps) = view.maps(mode) {
                let range = maps.around(ip, |map, _| self.is_no(map, question));
                self.settled.put(epoch, question.number, range, false);
            }
            return false;
        };
        let (answer, range) = self.ask_map(session, who, &map, ip, question);
        let range = range.and_then(|(start, end)| {
            // All of a map that is not meant: others beside it are not either, mostly.
            let is_all_no = !answer && (start, end) == (map.start(), map.end());
            let mut view = session.view(who.machine, who.pid, who.tid);
            let around = view.maps(mode)?.around(ip, |map, _| is_all_no && self.is_no(map, question));
            Some(if is_all_no { around } else { (start.max(around.0), end.min(around.1)) })
        });
        match range {
            Some(range) => self.settled.put(epoch, question.number, range, answer),
            None => {
                if let Some(slot) = self.slots.get_mut(index) {
                    slot.put(ip, epoch, question.number, answer);
                }
            }
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
        (self.ask_dso(map.dso(), question), Some((map.start(), map.end())))
    }

    /// The answer to a question of a DSO.
    #[inline]
    fn ask_dso(&mut self, dso: &Dso, question: Question<'_>) -> bool {
        let known = self.dsos.get(dso.id().0 as usize).and_then(|answers| answers.get(question.number));
        known.unwrap_or_else(|| self.compare_dso(dso, question))
    }

    #[inline(never)]
    fn compare_dso(&mut self, dso: &Dso, question: Question<'_>) -> bool {
        let (index, names) = (dso.id().0 as usize, &question.wanted.names);
        let answer = match question.of {
            Place::BuildId => self.is_build_id(dso, names),
            _ => is_dso(dso, names),
        };
        if self.dsos.len() <= index {
            self.dsos.resize(index + 1, Answers::default());
        }
        if let Some(answers) = self.dsos.get_mut(index) {
            answers.set(question.number, answer);
        }
        answer
    }

    /// Whether it is known that no address of a map is meant.
    fn is_no(&mut self, map: &Map, question: Question<'_>) -> bool {
        match question.of {
            Place::Symbol => {
                let ranges = self.ranges.get(&(map.dso().id().0, question.number));
                ranges.is_some_and(|ranges| ranges.as_ref().is_some_and(Vec::is_empty))
            }
            _ => !self.ask_dso(map.dso(), question),
        }
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
