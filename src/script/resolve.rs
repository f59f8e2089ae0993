//! From an address of a sample to a frame, with a memory for what was met before.
//!
//! The same code is met over and over, so most addresses are in a table by (version of the address space, address),
//! whose entries hold numbers: of the symbol, of the DSO. Each text goes to the printer once.

use rustc_hash::FxHashMap;

use super::batch::{Batch, Frame, Kind};
use super::inlined::Lists;
use super::limit::Limit;
use crate::abi::misc::CpuMode;
use crate::session::{Dso, DsoKind, MachinePid, Map, Session, Thread};
use crate::symbol::tables::{ReadName, Symbols};
use crate::unwind::Unwinder;
use crate::unwind::files::image;

/// Addresses that are remembered, 40 bytes each.
const SLOTS: usize = 1 << 14;

#[derive(Clone, Copy)]
struct Slot {
    epoch: u64,
    ip: u64,
    /// Offsets that are larger are not kept.
    offset: u32,
    symbol: u32,
    dso: u32,
    /// What is inlined there, in [`Lists`].
    inlined: u32,
    /// As [`Code::packed`].
    code: u64,
}

/// What unwinding needs to know of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// It lies in no map, or in memory that no file tells of: there may be frame pointers.
    Unmapped,
    /// The file is not to be had: nothing can be said of callers.
    Missing,
    /// The unwinder's address.
    At(u64),
    /// As a return address, it is what a signal handler returns to.
    Signal,
}

impl Code {
    /// In eight bytes: no address of the unwinder's is as low as 2.
    fn packed(self) -> u64 {
        match self {
            Code::Unmapped => 0,
            Code::Missing => 1,
            Code::Signal => 2,
            Code::At(address) => address,
        }
    }

    fn unpacked(packed: u64) -> Code {
        match packed {
            0 => Code::Unmapped,
            1 => Code::Missing,
            2 => Code::Signal,
            address => Code::At(address),
        }
    }
}

/// Whose addresses are resolved, and the versions of its maps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    pub machine: MachinePid,
    pub pid: i32,
    pub tid: i32,
    pub kernel_epoch: u64,
    pub user_epoch: u64,
}

impl Space {
    pub fn of(session: &mut Session, machine: MachinePid, pid: i32, tid: i32) -> Space {
        let (kernel_epoch, mut user_epoch) = session.view(machine, pid, tid).epochs();
        // What a process does after its end, it does in the kernel; perf has forgotten its maps.
        if pid == tid && session.thread(machine, pid, tid).is_some_and(Thread::has_exited) {
            user_epoch = 0;
        }
        Space { machine, pid, tid, kernel_epoch, user_epoch }
    }

    /// The version of the maps that addresses of a cpumode lie in; `None` if there are none.
    #[inline]
    fn epoch(&self, mode: CpuMode) -> Option<u64> {
        match mode {
            CpuMode::Kernel | CpuMode::GuestKernel => Some(self.kernel_epoch),
            CpuMode::User | CpuMode::GuestUser if self.user_epoch != 0 => Some(self.user_epoch),
            _ => None,
        }
    }
}

/// Resolves addresses.
pub(super) struct Resolver {
    pub symbols: Symbols,
    slots: Box<[Slot]>,
    names: Names,
    /// Whether the name of a DSO, by its number, has gone out; the number that it has.
    dsos: Vec<u32>,
    dso_count: u32,
    /// Whether symbols are wanted at all.
    wants_symbols: bool,
    /// Whether it matters how far the kernel's map reaches.
    wants_kernel: bool,
    /// Unwinds stacks, where the recording has some.
    pub unwinder: Option<Unwinder>,
    /// Finds what was inlined, if that is asked for.
    lists: Option<Lists>,
    /// How much memory symbols may take.
    limit: Option<Limit>,
}

/// An address that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub mode: CpuMode,
    pub ip: u64,
    /// Whether it is a return address: what was inlined is looked for one byte before, at the call.
    pub returned: bool,
}

impl Resolver {
    pub fn new(symbols: Symbols) -> Self {
        let empty = Slot { epoch: 0, ip: 0, offset: 0, symbol: 0, dso: 0, inlined: 0, code: 0 };
        Resolver {
            symbols,
            slots: vec![empty; SLOTS].into(),
            names: Names::default(),
            dsos: Vec::new(),
            dso_count: 0,
            wants_symbols: true,
            wants_kernel: true,
            unwinder: None,
            lists: None,
            limit: None,
        }
    }

    /// Sets how many bytes symbols, and what is remembered of them, may take.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = Some(Limit::new(bytes));
    }

    /// How the limit was kept, if there is one.
    pub fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    /// From now on, what was inlined is found too.
    pub fn find_inlined(&mut self) {
        self.lists = Some(Lists::default());
    }

    /// Says which fields are shown, of symbol and DSO.
    pub fn set_wanted(&mut self, symbols: bool, dsos: bool) {
        self.wants_symbols = symbols;
        self.wants_kernel = symbols || dsos;
    }

    /// The frame of an address.
    #[inline]
    pub fn frame(
        &mut self,
        session: &mut Session,
        space: &Space,
        mode: CpuMode,
        ip: u64,
        batch: &mut Batch,
    ) -> Frame {
        self.found(session, space, Asked { mode, ip, returned: false }, batch).0
    }

    /// Appends the frame of an address to the batch, after those of functions that were inlined there. Returns what
    /// unwinding needs to know of the address.
    #[inline]
    pub fn push(&mut self, session: &mut Session, space: &Space, asked: Asked, batch: &mut Batch) -> Code {
        let (frame, inlined, code) = self.found(session, space, asked, batch);
        if inlined != 0
            && let Some(lists) = &self.lists
        {
            batch.frames.extend(lists.get(inlined).iter().map(|&symbol| frame.inlined(symbol)));
        }
        batch.frames.push(frame);
        code
    }

    #[inline]
    fn found(
        &mut self,
        session: &mut Session,
        space: &Space,
        asked: Asked,
        batch: &mut Batch,
    ) -> (Frame, u32, Code) {
        let Asked { mode, ip, returned } = asked;
        let Some(epoch) = space.epoch(mode) else { return (Frame::new(ip), 0, Code::Unmapped) };
        // Where nothing is inlined, it does not matter how the address came about.
        let epoch = epoch | u64::from(returned && self.lists.is_some()) << 63;
        let hash = (ip ^ epoch.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (hash >> (u64::BITS - SLOTS.trailing_zeros())) as usize;
        match self.slots.get(index) {
            Some(slot) if slot.ip == ip && slot.epoch == epoch => {
                let mut frame = Frame::new(ip);
                (frame.offset, frame.symbol) = (u64::from(slot.offset), slot.symbol);
                frame.set_dso(slot.dso);
                (frame, slot.inlined, Code::unpacked(slot.code))
            }
            _ => {
                let (frame, inlined, code) = self.resolve(session, space, asked, batch);
                if let Some(slot) = self.slots.get_mut(index)
                    && let Ok(offset) = u32::try_from(frame.offset)
                {
                    let (symbol, dso, code) = (frame.symbol, frame.dso(), code.packed());
                    *slot = Slot { epoch, ip, offset, symbol, dso, inlined, code };
                }
                (frame, inlined, code)
            }
        }
    }

    #[inline(never)]
    fn resolve(
        &mut self,
        session: &mut Session,
        space: &Space,
        asked: Asked,
        batch: &mut Batch,
    ) -> (Frame, u32, Code) {
        let Asked { mode, ip, returned } = asked;
        let mut frame = Frame::new(ip);
        if mode == CpuMode::Kernel && self.wants_kernel {
            self.symbols.fit_kernel_map(session);
        }
        let found = session.view(space.machine, space.pid, space.tid).find(mode, ip).map(|f| f.map.clone());
        let Some(map) = found else { return (frame, 0, Code::Unmapped) };
        let dso = map.dso();
        dso.mark_hit();
        let reference = session.machines().get(space.machine).and_then(|m| m.reference_symbol());
        let id = dso.id().0;
        let name = self.symbols.shown_name(dso);
        frame.set_dso(self.dso_number(id, name, batch));
        let mut inlined = 0;
        if self.wants_symbols {
            let loads = self.limit.is_some() && self.symbols.coming(dso).is_some();
            if loads {
                self.make_room(dso);
            }
            let names = &mut self.names;
            let found = self.symbols.locate(&map, ip, reference, |(start, len), read| {
                names.number_with((id, start, len.min(ENTRY - 1)), read, batch)
            });
            (frame.symbol, frame.offset) = found.unwrap_or((0, 0));
            if loads {
                let used = self.memory();
                self.limit.iter_mut().for_each(|limit| limit.note(used));
            }
            if frame.symbol != 0
                && let Some(lists) = &mut self.lists
            {
                let offset = map.map_ip(ip.saturating_sub(u64::from(returned)));
                inlined = lists.find(&self.symbols, dso, offset, &mut self.names, batch);
            }
        }
        (frame, inlined, self.code(&map, ip))
    }

    fn code(&mut self, map: &Map, ip: u64) -> Code {
        let (Some(unwinder), dso) = (&mut self.unwinder, map.dso()) else { return Code::Unmapped };
        if !matches!(dso.kind(), DsoKind::User | DsoKind::Vdso) {
            return Code::Unmapped;
        }
        let at = map.map_ip(ip);
        match unwinder.code(dso.id(), || image(&self.symbols, dso)) {
            None => Code::Missing,
            Some(_) if unwinder.returns_from_signal(dso.id(), at.wrapping_add(1)) => Code::Signal,
            // Within the file, but in no segment of it: nothing is known, as between functions.
            Some(code) => code.at(at).map_or(Code::Unmapped, Code::At),
        }
    }

    fn dso_number(&mut self, id: u32, name: &[u8], batch: &mut Batch) -> u32 {
        let index = id as usize;
        if self.dsos.len() <= index {
            self.dsos.resize(index + 1, 0);
        }
        let Some(number) = self.dsos.get_mut(index) else { return 0 };
        if *number == 0 {
            self.dso_count += 1;
            *number = self.dso_count;
            batch.new.push((Kind::Dso, name.len() as u32));
            batch.names.extend_from_slice(name);
            self.names.bytes += name.len();
        }
        *number
    }

    /// Bytes of memory in use for symbols and what is remembered of them, here and with the printer.
    pub fn memory(&self) -> usize {
        self.symbols.memory() + self.besides()
    }

    /// Bytes of what is remembered besides symbol tables.
    fn besides(&self) -> usize {
        let lists = self.lists.as_ref().map_or(0, Lists::memory);
        self.names.memory() + lists + self.dsos.capacity() * 4
    }

    /// Makes room for a table that is about to be loaded, so that all keeps to the limit.
    fn make_room(&mut self, dso: &Dso) {
        let Some(limit) = &mut self.limit else { return };
        let Some(coming) = self.symbols.coming(dso) else { return };
        limit.brought_back(coming);
        let most = limit.most();
        if self.memory() + coming <= most {
            return;
        }
        if let Some(lists) = &mut self.lists {
            lists.shrink(false);
        }
        let besides = self.besides() + coming;
        let needed = self.symbols.memory() + besides;
        if needed > most && self.limit.as_mut().is_some_and(|limit| !limit.exceeds(needed)) {
            self.symbols.shrink(most.saturating_sub(besides));
        }
    }

    /// Notes what is in use. If that is more than the limit lets be, lets go of tables until all takes three quarters of it.
    /// What was resolved before stays, so long as its names take no more than half; otherwise it is forgotten too.
    pub fn keep_to_limit(&mut self, frames: usize) -> Kept {
        let used = if self.limit.is_some() { self.memory() } else { 0 };
        let Some(limit) = &mut self.limit else { return Kept::All };
        limit.worked(frames);
        limit.note(used);
        if used <= limit.most() {
            return Kept::All;
        }
        if let Some(lists) = &mut self.lists {
            lists.shrink(false);
        }
        let used = self.memory();
        let Some(limit) = &mut self.limit else { return Kept::All };
        if used <= limit.most() || limit.exceeds(used) {
            return Kept::All;
        }
        let most = limit.most() / 4 * 3;
        let forget = self.names.memory() > most / 2;
        if forget {
            limit.brought_back(self.names.memory());
            self.names = Names::default();
            self.dsos = Vec::new();
            self.dso_count = 0;
            self.slots.iter_mut().for_each(|slot| slot.epoch = 0);
            if let Some(lists) = &mut self.lists {
                lists.shrink(true);
            }
            if let Some(unwinder) = &mut self.unwinder {
                unwinder.clear();
            }
        }
        self.symbols.shrink(most.saturating_sub(self.besides()));
        if forget { Kept::Nothing } else { Kept::Names }
    }
}

/// What of the resolver's memory was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    All,
    /// Tables were let go of, not what was resolved.
    Names,
    /// The printer must forget with the next batch.
    Nothing,
}

/// A symbol: its DSO, start and length; or an inlined function: its DSO, entry and [`ENTRY`].
pub(super) type Key = (u32, u64, u32);

/// Bytes that the printer keeps for a name besides the name.
const TEXT: usize = size_of::<(usize, u32)>();

/// No symbol is as long: lengths are cut at one less.
pub(super) const ENTRY: u32 = u32::MAX;

/// The names that went to the printer.
#[derive(Default)]
pub(super) struct Names {
    /// Numbers of symbols, by DSO and identity within it.
    numbers: FxHashMap<Key, u32>,
    count: u32,
    /// Bytes of names given out.
    bytes: usize,
}

impl Names {
    /// The number of a symbol. Its name, which `read` gives, goes out with the batch if it is new.
    pub fn number_with(&mut self, key: Key, read: &ReadName<'_>, batch: &mut Batch) -> Option<u32> {
        self.known(key).or_else(|| {
            let mut number = None;
            let had = read(&mut |name| number = Some(self.number(key, name, batch)));
            number.filter(|_| had)
        })
    }

    /// The number of a symbol. Its name goes out with the batch if it is new.
    pub fn number(&mut self, key: Key, name: &[u8], batch: &mut Batch) -> u32 {
        let (count, bytes) = (&mut self.count, &mut self.bytes);
        *self.numbers.entry(key).or_insert_with(|| {
            *count += 1;
            batch.new.push((Kind::Symbol, name.len() as u32));
            batch.names.extend_from_slice(name);
            *bytes += name.len() + TEXT;
            *count
        })
    }

    /// The number of a symbol whose name went out before.
    pub fn known(&self, key: Key) -> Option<u32> {
        self.numbers.get(&key).copied()
    }

    fn memory(&self) -> usize {
        self.numbers.capacity() * (size_of::<(Key, u32)>() + 1) + self.bytes
    }
}
