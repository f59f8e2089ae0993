//! Unwinding of sampled stacks by the DWARF call frame information of their DSOs.
//!
//! ```text
//! sample: registers, copy of the stack
//!   │                        ┌ Code   the DSO's place among all DSOs
//!   └► Walk ─ step(code) ─► Unwinder ─ rule of an address, from a cache ─► return address
//! ```
//!
//! How to unwind from an instruction depends on the DSO, not on where a process has it mapped. So each DSO gets a place
//! of its own in one address space of the unwinder's, and one unwinder with one cache serves every process: what was
//! learnt of libc in one is known in all, and nothing is lost when maps come and go.

pub mod files;
mod image;
mod regs;
mod signal;

use std::sync::Arc;

use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Module, Unwinder as _};

pub use image::Image;
pub use regs::Registers;

use crate::data::Mapping;
use crate::session::DsoId;
use crate::symbol::elf::machine;
use crate::symbol::section::Bytes;

/// Most frames of one stack, as in perf.
pub const MOST_FRAMES: usize = 127;

/// Caches of rules, chosen by address; each holds about five hundred.
const CACHES: usize = 64;
/// DSOs are placed at multiples of this, so that the low bits of their addresses stay as they are.
const PLACE_ALIGN: u64 = 1 << 21;
/// The first place.
const FIRST_PLACE: u64 = 1 << 32;

/// Where a DSO's code is in the unwinder's address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// File offset, bytes, and what to add to a file offset to get an address of the unwinder's.
    segments: Arc<[(u64, u64, u64)]>,
}

impl Code {
    /// The unwinder's address for an offset in the DSO's file.
    pub fn at(&self, offset: u64) -> Option<u64> {
        let (_, _, add) = self.segments.iter().find(|(from, size, _)| offset.wrapping_sub(*from) < *size)?;
        Some(offset.wrapping_add(*add))
    }
}

enum Slot {
    Unknown,
    /// Its file, or call frame information, is not to be had.
    Missing,
    Placed(Code, Option<Arc<Mapping>>),
}

enum Engine {
    X86(UnwinderX86_64<Bytes>, Vec<CacheX86_64>),
    Arm(UnwinderAarch64<Bytes>, Vec<CacheAarch64>),
}

/// Unwinds stacks of one architecture, whatever machine it runs on.
pub struct Unwinder {
    engine: Engine,
    slots: Vec<Slot>,
    next_place: u64,
}

/// A stack being walked.
pub struct Walk<'a> {
    regs: Regs,
    stack: Stack<'a>,
    is_first: bool,
}

enum Regs {
    X86(UnwindRegsX86_64),
    Arm(UnwindRegsAarch64, u64),
}

struct Stack<'a> {
    bytes: &'a [u8],
    /// Address of the first byte.
    start: u64,
}

impl Stack<'_> {
    #[inline]
    fn word(&self, addr: u64) -> Result<u64, ()> {
        let at = usize::try_from(addr.wrapping_sub(self.start)).map_err(|_| ())?;
        let word = self.bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(())?;
        Ok(u64::from_le_bytes(*word))
    }
}

/// Bits of an arm64 return address that may be a signature.
const ARM_ADDRESS: u64 = u64::MAX >> 16;

impl Unwinder {
    /// For an architecture, by `EM_*` of `elf.h`; `None` if it can't be unwound here.
    pub fn new(e_machine: u16) -> Option<Unwinder> {
        let engine = match e_machine {
            machine::X86_64 => {
                Engine::X86(UnwinderX86_64::new(), (0..CACHES).map(|_| CacheX86_64::new()).collect())
            }
            machine::AARCH64 => {
                Engine::Arm(UnwinderAarch64::new(), (0..CACHES).map(|_| CacheAarch64::new()).collect())
            }
            _ => return None,
        };
        Some(Unwinder { engine, slots: Vec::new(), next_place: FIRST_PLACE })
    }

    /// Where the code of a DSO is; `load` opens its file when it is first asked for. `None` if it has none.
    pub fn code(&mut self, dso: DsoId, load: impl FnOnce() -> Option<Image>) -> Option<Code> {
        let index = dso.0 as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || Slot::Unknown);
        }
        if let Some(Slot::Unknown) = self.slots.get(index) {
            let slot = load().and_then(|image| self.place(image)).unwrap_or(Slot::Missing);
            *self.slots.get_mut(index)? = slot;
        }
        match self.slots.get(index) {
            Some(Slot::Placed(code, _)) => Some(code.clone()),
            _ => None,
        }
    }

    /// Whether what a signal handler returns to is at an offset in a DSO's file. Its caller was interrupted, and calls
    /// nothing: [`Unwinder::interrupted`] goes on there.
    pub fn returns_from_signal(&self, dso: DsoId, offset: u64) -> bool {
        let (Engine::X86(..), Some(Slot::Placed(_, Some(map)))) =
            (&self.engine, self.slots.get(dso.0 as usize))
        else {
            return false;
        };
        map.section(offset, signal::SIGRETURN.len() as u64).is_some_and(|code| code == signal::SIGRETURN)
    }

    /// From the frame that a signal handler returns to, goes on to what the signal interrupted: its instruction pointer,
    /// itself and no return address. `None` if it lies outside of the copied stack, as on a stack for signals.
    pub fn interrupted(&mut self, walk: &mut Walk<'_>) -> Option<u64> {
        let Regs::X86(regs) = &mut walk.regs else { return None };
        let [pc, sp, fp] = signal::saved(|addr| walk.stack.word(addr).ok(), regs.sp())?;
        *regs = UnwindRegsX86_64::new(pc, sp, fp);
        walk.is_first = true;
        Some(pc)
    }

    fn place(&mut self, image: Image) -> Option<Slot> {
        let range = image.range()?;
        let base = range.start & !(PLACE_ALIGN - 1);
        // Rules are kept by 32-bit offsets.
        let span = range.end.checked_sub(base).filter(|&span| span <= u64::from(u32::MAX))?;
        let place = self.next_place;
        self.next_place = place.checked_add(span)?.checked_next_multiple_of(PLACE_ALIGN)?;
        let segment = |s: &crate::symbol::elf::Segment| {
            (s.offset, s.filesz, s.vaddr.wrapping_sub(s.offset).wrapping_sub(base).wrapping_add(place))
        };
        let segments = image.segments.iter().map(segment).collect();
        let map = image.map.clone();
        let module = Module::new(String::new(), place..place + span, place, image.sections(base));
        match &mut self.engine {
            Engine::X86(unwinder, _) => unwinder.add_module(module),
            Engine::Arm(unwinder, _) => unwinder.add_module(module),
        }
        Some(Slot::Placed(Code { segments }, map))
    }

    /// Begins to walk a stack, of which `bytes` are a copy from the stack pointer on. `None` if the registers that are
    /// needed were not recorded. Gives the instruction pointer, which is the first frame.
    pub fn begin<'a>(&self, registers: &Registers<'_>, bytes: &'a [u8]) -> Option<(Walk<'a>, u64)> {
        let (pc, sp, regs) = match &self.engine {
            Engine::X86(..) => {
                let r = registers.x86_64()?;
                (r.pc, r.sp, Regs::X86(UnwindRegsX86_64::new(r.pc, r.sp, r.fp)))
            }
            Engine::Arm(..) => {
                let r = registers.arm64()?;
                let mask = framehop::aarch64::PtrAuthMask(ARM_ADDRESS);
                let regs = UnwindRegsAarch64::new_with_ptr_auth_mask(mask, r.lr, r.sp, r.fp);
                (r.pc, r.sp, Regs::Arm(regs, r.pc))
            }
        };
        Some((Walk { regs, stack: Stack { bytes, start: sp }, is_first: true }, pc))
    }

    /// Goes on to the caller: its return address, or `None` at the end of what can be unwound. `code` is the unwinder's
    /// address (see [`Code::at`]) of the frame at hand; of a caller's frame, that of the byte before its return address.
    /// Without it, the frame is taken to keep a frame pointer.
    #[inline]
    pub fn step(&mut self, walk: &mut Walk<'_>, code: Option<u64>) -> Option<u64> {
        // An address that no DSO is placed at, so that the fallback rule applies.
        let lookup = code.unwrap_or(1);
        let address = match walk.is_first {
            true => FrameAddress::from_instruction_pointer(lookup),
            false => FrameAddress::from_return_address(lookup.checked_add(1)?)?,
        };
        let is_first = std::mem::replace(&mut walk.is_first, false);
        let cache = (lookup.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CACHES.trailing_zeros())) as usize;
        let stack = &walk.stack;
        let mut read = |addr| stack.word(addr);
        let result = match (&mut self.engine, &mut walk.regs) {
            (Engine::X86(unwinder, caches), Regs::X86(regs)) => {
                let before = regs.sp();
                let next = unwinder.unwind_frame(address, regs, caches.get_mut(cache)?, &mut read);
                next.ok().flatten().filter(|_| is_first || regs.sp() > before)
            }
            (Engine::Arm(unwinder, caches), Regs::Arm(regs, pc)) => {
                let before = (regs.sp(), *pc);
                let next = unwinder.unwind_frame(address, regs, caches.get_mut(cache)?, &mut read);
                let next = next.ok().flatten();
                *pc = next.unwrap_or(0);
                next.filter(|_| (regs.sp(), *pc) != before)
            }
            _ => None,
        };
        result.filter(|&pc| pc != 0)
    }

    /// Forgets all files and rules; they come back when they are asked for.
    pub fn clear(&mut self) {
        let e_machine = match self.engine {
            Engine::X86(..) => machine::X86_64,
            Engine::Arm(..) => machine::AARCH64,
        };
        if let Some(new) = Unwinder::new(e_machine) {
            *self = new;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::bytes::ByteOrder;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The return addresses of a stack without call frame information.
    fn by_frame_pointer(e_machine: u16, mask: u64, regs: &[u64], stack: &[u64]) -> Vec<u64> {
        let mut unwinder = Unwinder::new(e_machine).unwrap();
        let (regs, stack) = (words(regs), words(stack));
        let registers = Registers { mask, words: &regs, order: ByteOrder::Little };
        let (mut walk, pc) = unwinder.begin(&registers, &stack).unwrap();
        let mut frames = vec![pc];
        while let Some(caller) = unwinder.step(&mut walk, None)
            && frames.len() < MOST_FRAMES
        {
            frames.push(caller);
        }
        frames
    }

    #[test]
    fn frame_pointers_lead_on_where_nothing_else_is_known() {
        // Each frame: the frame pointer of before, the return address.
        let stack = [0x2020, 0xa1, 0, 0, 0x2030, 0xa2, 0, 0xa3];
        let x86 =
            by_frame_pointer(machine::X86_64, 1 << 6 | 1 << 7 | 1 << 8, &[0x2000, 0x2000, 0xa0], &stack);
        assert_eq!(x86, [0xa0, 0xa1, 0xa2, 0xa3]);
        let mask = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
        let signed = [0x2020, 0xa1 | 0xbeef << 48, 0, 0, 0x2030, 0xa2, 0, 0xa3];
        let arm = by_frame_pointer(machine::AARCH64, mask, &[0x2000, 0xa1, 0x2000, 0xa0], &signed);
        assert_eq!(arm.first(), Some(&0xa0));
        assert!(arm.contains(&0xa1) && arm.contains(&0xa2), "{arm:x?}");
    }

    #[test]
    fn stacks_that_lead_nowhere_end() {
        let mask = 1 << 6 | 1 << 7 | 1 << 8;
        // A frame pointer to itself, past the end, at the end of the address space, below the stack pointer.
        for fp in [0x2000, 0x9000, u64::MAX - 7, 8, 0] {
            let frames = by_frame_pointer(machine::X86_64, mask, &[fp, 0x2000, 0xa0], &[0x2000, 0xa1]);
            assert!(frames.len() <= 2, "{fp:#x}: {frames:x?}");
        }
        assert!(Unwinder::new(machine::ARM).is_none());
    }

    #[test]
    fn offsets_of_a_file_have_a_place() {
        let segments = [(0x1000, 0x500, 0x10_0000), (0x3000, 0x100, 0x20_0000)];
        let code = Code { segments: segments.into() };
        assert_eq!(code.at(0x1010), Some(0x10_1010));
        assert_eq!(code.at(0x30ff), Some(0x20_30ff));
        assert_eq!((code.at(0x1500), code.at(0xfff)), (None, None));
    }

    #[test]
    fn this_program_has_call_frame_information() {
        let image = Image::open(&std::env::current_exe().unwrap()).unwrap();
        let first = *image.segments.first().unwrap();
        let mut unwinder = Unwinder::new(machine::X86_64).unwrap();
        let code = unwinder.code(DsoId(3), || Some(image)).unwrap();
        assert_eq!(code.at(first.offset), unwinder.code(DsoId(3), || None).unwrap().at(first.offset));
        assert_eq!(unwinder.code(DsoId(4), || None), None);
        unwinder.clear();
        assert_eq!(unwinder.code(DsoId(3), || None), None);
    }
}
