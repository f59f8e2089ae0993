//! From an address of a sample to a frame, with a memory for what was met before.
//!
//! The same code is met over and over, so most addresses are in a table by (version of the address space, address),
//! whose entries hold numbers: of the symbol, of the DSO. Each text goes to the printer once.

use rustc_hash::FxHashMap;

use super::batch::{Batch, Frame, Kind};
use super::images::image;
use crate::abi::misc::CpuMode;
use crate::session::{DsoKind, MachinePid, Map, Session, Thread};
use crate::symbol::tables::Symbols;
use crate::unwind::Unwinder;

const SLOTS: usize = 1 << 15;

#[derive(Clone, Copy)]
struct Slot {
    epoch: u64,
    ip: u64,
    offset: u64,
    symbol: u32,
    dso: u32,
    code: Code,
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
    /// Numbers of symbols, by DSO and identity within it.
    numbers: FxHashMap<(u32, usize), u32>,
    symbol_count: u32,
    /// Whether the name of a DSO, by its number, has gone out; the number that it has.
    dsos: Vec<u32>,
    dso_count: u32,
    /// Bytes of names given out.
    names: usize,
    /// Whether symbols are wanted at all.
    wants_symbols: bool,
    /// Whether it matters how far the kernel's map reaches.
    wants_kernel: bool,
    /// Unwinds stacks, where the recording has some.
    pub unwinder: Option<Unwinder>,
}

impl Resolver {
    pub fn new(symbols: Symbols) -> Self {
        let empty = Slot { epoch: 0, ip: 0, offset: 0, symbol: 0, dso: 0, code: Code::Unmapped };
        Resolver {
            symbols,
            slots: vec![empty; SLOTS].into(),
            numbers: FxHashMap::default(),
            symbol_count: 0,
            dsos: Vec::new(),
            dso_count: 0,
            names: 0,
            wants_symbols: true,
            wants_kernel: true,
            unwinder: None,
        }
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
        self.frame_and_code(session, space, mode, ip, batch).0
    }

    /// The frame of an address, and what unwinding needs to know of it.
    #[inline]
    pub fn frame_and_code(
        &mut self,
        session: &mut Session,
        space: &Space,
        mode: CpuMode,
        ip: u64,
        batch: &mut Batch,
    ) -> (Frame, Code) {
        let Some(epoch) = space.epoch(mode) else {
            return (Frame { ip, offset: 0, symbol: 0, dso: 0 }, Code::Unmapped);
        };
        let hash = (ip ^ epoch.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (hash >> (u64::BITS - SLOTS.trailing_zeros())) as usize;
        match self.slots.get(index) {
            Some(slot) if slot.ip == ip && slot.epoch == epoch => {
                (Frame { ip, offset: slot.offset, symbol: slot.symbol, dso: slot.dso }, slot.code)
            }
            _ => {
                let (frame, code) = self.resolve(session, space, mode, ip, batch);
                if let Some(slot) = self.slots.get_mut(index) {
                    let Frame { offset, symbol, dso, .. } = frame;
                    *slot = Slot { epoch, ip, offset, symbol, dso, code };
                }
                (frame, code)
            }
        }
    }

    #[inline(never)]
    fn resolve(
        &mut self,
        session: &mut Session,
        space: &Space,
        mode: CpuMode,
        ip: u64,
        batch: &mut Batch,
    ) -> (Frame, Code) {
        let mut frame = Frame { ip, offset: 0, symbol: 0, dso: 0 };
        if mode == CpuMode::Kernel && self.wants_kernel {
            self.symbols.fit_kernel_map(session);
        }
        let found = session.view(space.machine, space.pid, space.tid).find(mode, ip).map(|f| f.map.clone());
        let Some(map) = found else { return (frame, Code::Unmapped) };
        let dso = map.dso();
        dso.mark_hit();
        let reference = session.machines().get(space.machine).and_then(|m| m.reference_symbol());
        let id = dso.id().0;
        let name = self.symbols.shown_name(dso);
        frame.dso = self.dso_number(id, name, batch);
        if self.wants_symbols {
            let (numbers, count, names) = (&mut self.numbers, &mut self.symbol_count, &mut self.names);
            let named = self.symbols.find(&map, ip, reference, |named| {
                let number = *numbers.entry((id, named.key)).or_insert_with(|| {
                    *count += 1;
                    batch.new.push((Kind::Symbol, named.name.len() as u32));
                    batch.names.extend_from_slice(named.name);
                    *names += named.name.len() + size_of::<(usize, u32)>();
                    *count
                });
                (number, named.offset)
            });
            (frame.symbol, frame.offset) = named.unwrap_or((0, 0));
        }
        (frame, self.code(&map, ip))
    }

    fn code(&mut self, map: &Map, ip: u64) -> Code {
        let (Some(unwinder), dso) = (&mut self.unwinder, map.dso()) else { return Code::Unmapped };
        if !matches!(dso.kind(), DsoKind::User | DsoKind::Vdso) {
            return Code::Unmapped;
        }
        match unwinder.code(dso.id(), || image(&self.symbols, dso)) {
            None => Code::Missing,
            // Within the file, but in no segment of it: nothing is known, as between functions.
            Some(code) => code.at(map.map_ip(ip)).map_or(Code::Unmapped, Code::At),
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
            self.names += name.len();
        }
        *number
    }

    /// Bytes of memory in use for symbols and what is remembered of them, here and with the printer.
    pub fn memory(&self) -> usize {
        let numbers = self.numbers.capacity() * (size_of::<((u32, usize), u32)>() + 1);
        self.symbols.memory() + numbers + self.names + self.dsos.capacity() * 4
    }

    /// Lets go of symbol tables until all takes no more than `most` bytes. What was resolved before stays, so long as its
    /// names take no more than half of that; otherwise it is forgotten too, and true is returned: the printer must
    /// forget with the next batch.
    pub fn shrink(&mut self, most: usize) -> bool {
        // Tables that come back have other identities.
        self.numbers = FxHashMap::default();
        let forget = self.names > most / 2;
        if forget {
            self.symbol_count = 0;
            self.dsos = Vec::new();
            self.dso_count = 0;
            self.names = 0;
            self.slots.iter_mut().for_each(|slot| slot.epoch = 0);
        }
        self.symbols.shrink(most.saturating_sub(self.names));
        if let Some(unwinder) = self.unwinder.as_mut().filter(|_| forget) {
            unwinder.clear();
        }
        forget
    }
}
