//! Symbols for the procedure linkage table, which has none of its own: `NAME@plt` for each slot.
//!
//! The n-th relocation of `.rela.plt` names the n-th slot of `.plt`, or of `.plt.sec` where branch tracking
//! has moved the slots there; `.plt.got` slots are told by the GOT entry that their code jumps through.
//! Slots count by file offset, like user-space symbols.

use super::LoadError;
use super::elf::{Elf, SHT_REL, SHT_RELA, Section, machine};
use super::symtab::RawEntry;

/// Name of the part before the first slot.
pub const HEADER: &[u8] = b".plt";
const R_X86_64_IRELATIVE: u64 = 37;

/// A range of the PLT to be given a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PltSlot {
    /// File offset.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// What it is called.
    pub name: PltName,
}

/// What a range of the PLT is called after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PltName {
    /// `.plt`.
    Header,
    /// The name at an offset of the string table that [`Plt::strings`] tells.
    Target(u32),
    /// The name at an offset of the string table that [`Plt::got_strings`] tells.
    GotTarget(u32),
    /// The IFUNC at this file offset, if there is one, else nothing but the offset.
    Ifunc(u64),
    /// Nothing but its offset.
    Offset,
}

/// What a file's PLT looks like.
#[derive(Default)]
pub struct Plt {
    /// File offset of `.plt`, where the symbol before it must end; `None` if there is no PLT.
    pub start: Option<u64>,
    /// Ranges to be given symbols, in the order of insertion.
    pub slots: Vec<PltSlot>,
    /// Section index of the string table of [`PltName::Target`].
    pub strings: usize,
    /// Section index of the string table of [`PltName::GotTarget`].
    pub got_strings: usize,
}

/// `TARGET@plt`.
pub fn slot_name(target: &[u8]) -> Vec<u8> {
    [target, b"@plt"].concat()
}

/// The name of a slot whose target has none.
pub fn unnamed_slot(start: u64) -> Vec<u8> {
    format!("offset_{start:#x}@plt").into_bytes()
}

impl Plt {
    /// Reads the PLT of a runtime file. What can't be made out is left out.
    pub fn read(elf: &Elf) -> Result<Plt, LoadError> {
        let mut plt = Plt::default();
        let Some((_, section)) = elf.section(".plt") else { return Ok(plt) };
        plt.start = Some(section.offset);
        let Some((header, mut entry)) = sizes(elf, section) else { return Ok(plt) };
        let header_at = plt.slots.len();
        plt.slots.push(PltSlot { start: section.offset, size: header, name: PltName::Header });
        let mut at = section.offset;
        let mut in_plt = true;
        if is_x86(elf) {
            plt.read_got(elf)?;
            if let Some((_, sec)) = elf.section(".plt.sec") {
                // The slots are there, and .plt is header throughout.
                if let Some(slot) = plt.slots.get_mut(header_at) {
                    slot.size = section.size;
                }
                match sizes(elf, sec) {
                    Some((_, size)) => entry = size,
                    None => return Ok(plt),
                }
                at = sec.offset;
                in_plt = false;
            }
        }
        let Some((_, rel)) = elf.section(".rela.plt").or_else(|| elf.section(".rel.plt")) else {
            return Ok(plt);
        };
        let Some(table) = linked_symbols(elf, rel) else { return Ok(plt) };
        plt.strings = table.link as usize;
        let mut relocations = Relocation::read(elf, rel)?;
        if in_plt {
            if (relocations.len() as u64).checked_mul(entry) == Some(section.size) {
                // As many slots as fit: there is no header.
                plt.slots.remove(header_at);
            } else {
                at = at.saturating_add(header);
            }
        }
        if is_x86(elf) {
            // IFUNC relocations do not stand in the order of their slots.
            relocations.sort_by_key(|r| r.offset);
        }
        let symbols = elf.contents(table)?;
        for r in relocations {
            let name = match r.target(elf, &symbols) {
                Some(name) if name != 0 => PltName::Target(name),
                _ if elf.machine == machine::X86_64 && r.kind == R_X86_64_IRELATIVE => {
                    elf.segment_of(r.addend).map_or(PltName::Offset, |s| {
                        PltName::Ifunc(r.addend.wrapping_sub(s.vaddr).wrapping_add(s.offset))
                    })
                }
                _ => PltName::Offset,
            };
            plt.slots.push(PltSlot { start: at, size: entry, name });
            at = at.saturating_add(entry);
        }
        Ok(plt)
    }

    /// Slots of `.plt.got`, which serve functions whose address is also taken.
    fn read_got(&mut self, elf: &Elf) -> Result<(), LoadError> {
        let Some((_, section)) = elf.section(".plt.got").filter(|(_, s)| s.entsize != 0) else {
            return Ok(());
        };
        let code = elf.contents(section)?;
        let mut targets = Vec::new();
        let mut symbols = Vec::new();
        if elf.machine == machine::X86_64
            && let Some((_, rela)) = elf.section(".rela.dyn").filter(|(_, s)| s.link != 0)
            && let Some(table) = elf.sections.get(rela.link as usize).filter(|t| t.link != 0)
        {
            self.got_strings = table.link as usize;
            symbols = elf.contents(table)?;
            targets = Relocation::read(elf, rela)?;
            targets.retain(|r| r.symbol != 0);
            targets.sort_by_key(|r| r.offset);
        }
        let entsize = usize::try_from(section.entsize).unwrap_or(usize::MAX);
        for (i, slot) in code.chunks(entsize).enumerate() {
            let at = (i as u64).saturating_mul(section.entsize);
            let target = jump_displacement(slot)
                .and_then(|d| {
                    let got = section.addr.checked_add(at)?.checked_add_signed(d)?;
                    let i = targets.binary_search_by_key(&got, |r| r.offset).ok()?;
                    targets.get(i)?.target(elf, &symbols)
                })
                .filter(|&name| name != 0);
            let at = section.offset.saturating_add(at);
            let name = target.map_or(PltName::Offset, PltName::GotTarget);
            self.slots.push(PltSlot { start: at, size: section.entsize, name });
        }
        Ok(())
    }
}

fn is_x86(elf: &Elf) -> bool {
    matches!(elf.machine, machine::I386 | machine::X86_64)
}

/// Bytes of the PLT's header and of each slot.
fn sizes(elf: &Elf, plt: &Section) -> Option<(u64, u64)> {
    let sizes = match elf.machine {
        machine::ARM => (20, 12),
        machine::AARCH64 | machine::LOONGARCH => (32, 16),
        machine::SPARC => (48, 12),
        machine::SPARCV9 => (128, 32),
        machine::I386 | machine::X86_64 => {
            let size = match plt.entsize {
                8 | 16 => plt.entsize,
                _ if plt.align == 8 => 8,
                _ => 16,
            };
            (size, size)
        }
        _ => (plt.entsize, plt.entsize),
    };
    (sizes.1 != 0).then_some(sizes)
}

/// The symbol table that PLT relocations refer to: `.dynsym`, or in a static executable `.symtab`.
fn linked_symbols<'a>(elf: &'a Elf, rel: &Section) -> Option<&'a Section> {
    let link = rel.link as usize;
    let is = |name| elf.section(name).is_some_and(|(i, _)| i == link);
    (link != 0 && (is(".dynsym") || is(".symtab"))).then(|| elf.sections.get(link)).flatten()
}

/// From the start of a slot's code to the GOT entry it jumps through.
fn jump_displacement(code: &[u8]) -> Option<i64> {
    let mut rest = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code); // endbr64
    rest = rest.strip_prefix(&[0xf2]).unwrap_or(rest); // bnd
    let operand = rest.strip_prefix(&[0xff, 0x25])?.first_chunk::<4>()?; // jmp *disp(%rip)
    let end = code.len() - rest.len() + 6;
    Some(i64::from(i32::from_le_bytes(*operand)) + end as i64)
}

struct Relocation {
    offset: u64,
    symbol: u32,
    kind: u64,
    addend: u64,
}

impl Relocation {
    fn read(elf: &Elf, section: &Section) -> Result<Vec<Relocation>, LoadError> {
        let word = if elf.is_64 { 8 } else { 4 };
        let size = match section.kind {
            SHT_RELA => 3 * word,
            SHT_REL => 2 * word,
            _ => return Ok(Vec::new()),
        };
        let raw = elf.contents(section)?;
        let one = |r: &[u8]| {
            let info = elf.word(r, word)?;
            let (symbol, kind) =
                if elf.is_64 { (info >> 32, info & 0xffff_ffff) } else { (info >> 8, info & 0xff) };
            let addend = if section.kind == SHT_RELA { elf.word(r, 2 * word)? } else { 0 };
            Some(Relocation { offset: elf.word(r, 0)?, symbol: symbol as u32, kind, addend })
        };
        Ok(raw.chunks_exact(size).filter_map(one).collect())
    }

    /// Offset of the target's name; `None` if the symbol is outside of the table.
    fn target(&self, elf: &Elf, symbols: &[u8]) -> Option<u32> {
        let size = if elf.is_64 { 24 } else { 16 };
        let at = (self.symbol as usize).checked_mul(size)?;
        Some(RawEntry::parse(symbols.get(at..at.checked_add(size)?)?, elf.order, elf.is_64)?.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displacement_counts_from_the_start_of_the_slot() {
        assert_eq!(jump_displacement(&[0xff, 0x25, 0x10, 0, 0, 0, 0x66, 0x90]), Some(0x16));
        let ibt = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0xfe, 0xff, 0xff, 0xff];
        assert_eq!(jump_displacement(&ibt), Some(8));
        let bnd = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0, 1, 0, 0];
        assert_eq!(jump_displacement(&bnd), Some(0x10b));
        assert_eq!(jump_displacement(&[0xe9, 0, 0, 0, 0]), None);
        assert_eq!(jump_displacement(&[0xff, 0x25, 0]), None);
    }

    #[test]
    fn names() {
        assert_eq!(slot_name(b"malloc"), b"malloc@plt");
        assert_eq!(unnamed_slot(0x1030), b"offset_0x1030@plt");
    }
}
