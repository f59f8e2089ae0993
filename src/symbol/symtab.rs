//! The symbols of an ELF table that can stand for an address, with their addresses as the session looks them up.
//!
//! Both loaders, lazy and eager, walk tables here; they differ in what they do with a symbol afterwards.

use std::io;

use crate::bytes::ByteOrder;

use super::LoadError;
use super::elf::{Elf, SHF_ALLOC, SHT_NOBITS, SHT_PROGBITS, Section, machine};
use super::sym::{SymbolBinding, SymbolType};

const SHN_UNDEF: u16 = 0;
const SHN_LORESERVE: u16 = 0xff00;
const STV_INTERNAL: u8 = 1;
const STV_HIDDEN: u8 = 2;
/// Bytes read at once; a multiple of both entry sizes.
const CHUNK: u64 = 24 * 16 * 256;

/// A symbol as its table has it, with the address adjusted.
#[derive(Clone, Copy, Debug)]
pub struct RawSymbol {
    /// Adjusted address.
    pub start: u64,
    /// Bytes, 0 if not known.
    pub size: u64,
    /// Offset of the name in the table's string table.
    pub name: u32,
    /// ELF binding.
    pub binding: SymbolBinding,
    /// ELF type.
    pub kind: SymbolType,
}

/// What a symbol's value is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjust {
    /// The offset in the runtime file, by its segments or else by the symbol's section. User space.
    FileOffset,
    /// The offset in a relocatable file, for code that lies with `.text`, which ends before `text_end`.
    Module {
        /// File offset past the sections that are loaded with `.text`.
        text_end: u64,
    },
    /// The value itself, moved by how far the kernel was relocated.
    Kernel {
        /// Address at run time less address in the file.
        relocation: u64,
    },
}

/// How the symbols of one image are read: the image with the tables, and the one that is executed, whose
/// sections and segments count where the first has been stripped of contents.
pub struct Walker<'a> {
    syms: &'a Elf,
    adjust: Adjust,
    runtime: &'a Elf,
    sections: Vec<SectionUse>,
    opd: Option<Opd>,
}

/// What symbols need of a section.
#[derive(Clone, Copy, Default)]
struct SectionUse {
    usable: bool,
    /// Whether an untyped label in it counts.
    labels: bool,
    addr: u64,
    offset: u64,
}

/// PPC64 function descriptors: a function's symbol names the descriptor, which holds the code's address.
struct Opd {
    index: usize,
    addr: u64,
    contents: Vec<u8>,
}

impl<'a> Walker<'a> {
    /// Prepares the sections.
    pub fn new(syms: &'a Elf, runtime: &'a Elf, adjust: Adjust) -> Result<Self, LoadError> {
        let text_end = match adjust {
            Adjust::Module { text_end } => Some(text_end),
            _ => None,
        };
        let sections = syms.sections.iter().enumerate().map(|(i, section)| {
            if section.flags & SHF_ALLOC == 0 {
                return SectionUse::default();
            }
            // Stripped to NOBITS, a section's offset in the debug file means nothing.
            let section = if section.kind == SHT_NOBITS { runtime.sections.get(i) } else { Some(section) };
            section.map_or_else(SectionUse::default, |s| SectionUse {
                usable: text_end.is_none_or(|end| s.is_exec() && s.offset < end),
                labels: contains(&s.name, b"text") || contains(&s.name, b"data"),
                addr: s.addr,
                offset: s.offset,
            })
        });
        let opd = match has_opd(runtime) {
            Some((index, section)) => Some(Opd {
                index,
                addr: syms.section(".opd").map_or(section.addr, |(_, s)| s.addr),
                contents: runtime.contents(section)?,
            }),
            None => None,
        };
        Ok(Walker { syms, runtime, adjust, sections: sections.collect(), opd })
    }

    /// Calls `each` with every symbol of the table that can stand for an address, in the table's order.
    pub fn walk<E: From<LoadError>>(
        &self,
        table: &Section,
        mut each: impl FnMut(RawSymbol) -> Result<(), E>,
    ) -> Result<(), E> {
        let entsize = if self.syms.is_64 { 24 } else { 16 };
        let file = &self.syms.file;
        let end = table.offset.saturating_add(table.size).min(file.len());
        let strings = self.syms.string_table(table.link as usize);
        let mut names = strings.as_ref().map(|s| s.reader());
        let mapping_symbols = matches!(self.syms.machine, machine::ARM | machine::AARCH64);
        let mut at = table.offset;
        while at < end {
            let raw = file.read_at(at, CHUNK.min(end - at))?;
            at += raw.len() as u64;
            for entry in raw.chunks_exact(entsize) {
                let Some(symbol) = self.symbol(entry) else { continue };
                if mapping_symbols
                    && let Some(names) = &mut names
                    && is_mapping_symbol(names.name(symbol.name).map_err(|e| io_error(self.syms, e))?)
                {
                    continue;
                }
                each(symbol)?;
            }
        }
        Ok(())
    }

    fn symbol(&self, entry: &[u8]) -> Option<RawSymbol> {
        let raw = RawEntry::parse(entry, self.syms.order, self.syms.is_64)?;
        let kind = SymbolType(raw.info & 0xf);
        if raw.name == 0 || raw.shndx == SHN_UNDEF || raw.shndx >= SHN_LORESERVE {
            return None;
        }
        let is_label = kind == SymbolType::NOTYPE && !matches!(raw.other & 3, STV_HIDDEN | STV_INTERNAL);
        let is_typed = matches!(kind, SymbolType::FUNC | SymbolType::GNU_IFUNC | SymbolType::OBJECT);
        if !is_label && !is_typed {
            return None;
        }
        let (mut value, mut shndx) = (raw.value, usize::from(raw.shndx));
        if let Some(opd) = self.opd.as_ref().filter(|opd| opd.index == shndx) {
            let at = usize::try_from(value.wrapping_sub(opd.addr)).ok()?;
            value = self.runtime.order.u64(&opd.contents, at)?;
            shndx = self.runtime.section_of(value)?;
        }
        let section = self.sections.get(shndx).filter(|s| s.usable)?;
        if is_label && !section.labels {
            return None;
        }
        if self.syms.machine == machine::ARM && kind == SymbolType::FUNC {
            value &= !1; // Thumb functions are marked by an odd address.
        }
        Some(RawSymbol {
            start: self.adjusted(value, section),
            size: raw.size,
            name: raw.name,
            binding: SymbolBinding(raw.info >> 4),
            kind,
        })
    }

    fn adjusted(&self, value: u64, section: &SectionUse) -> u64 {
        // Hostile values may wrap, as they do in perf; such symbols then lie where nothing looks.
        match self.adjust {
            Adjust::FileOffset => match self.runtime.segment_of(value) {
                Some(segment) => value.wrapping_sub(segment.vaddr).wrapping_add(segment.offset),
                None => value.wrapping_sub(section.addr).wrapping_add(section.offset),
            },
            Adjust::Module { .. } => value.wrapping_add(section.offset),
            Adjust::Kernel { relocation } => value.wrapping_add(relocation),
        }
    }
}

/// The function descriptors' section, if the image has one.
pub fn has_opd(elf: &Elf) -> Option<(usize, &Section)> {
    elf.section(".opd").filter(|(_, s)| s.kind == SHT_PROGBITS)
}

fn io_error(elf: &Elf, e: io::Error) -> LoadError {
    LoadError::io(elf.file.path(), e)
}

/// ARM's `$a`, `$d`, `$t`, `$x`, and those with a suffix after a dot: marks for disassemblers.
fn is_mapping_symbol(name: &[u8]) -> bool {
    matches!(name, [b'$', b'a' | b'd' | b't' | b'x'] | [b'$', b'a' | b'd' | b't' | b'x', b'.', ..])
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|w| w == part)
}

/// One entry of a symbol table.
#[derive(Clone, Copy)]
pub(super) struct RawEntry {
    pub name: u32,
    pub info: u8,
    pub other: u8,
    pub shndx: u16,
    pub value: u64,
    pub size: u64,
}

impl RawEntry {
    pub(super) fn parse(raw: &[u8], order: ByteOrder, is_64: bool) -> Option<RawEntry> {
        let name = order.u32(raw, 0)?;
        Some(if is_64 {
            RawEntry {
                name,
                info: *raw.get(4)?,
                other: *raw.get(5)?,
                shndx: order.u16(raw, 6)?,
                value: order.u64(raw, 8)?,
                size: order.u64(raw, 16)?,
            }
        } else {
            RawEntry {
                name,
                info: *raw.get(12)?,
                other: *raw.get(13)?,
                shndx: order.u16(raw, 14)?,
                value: order.u32(raw, 4)?.into(),
                size: order.u32(raw, 8)?.into(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_symbols_are_recognized() {
        for name in ["$a", "$x", "$d.12", "$t.", "$x.foo"] {
            assert!(is_mapping_symbol(name.as_bytes()), "{name}");
        }
        for name in ["$", "$b", "$ab", "a$x", ""] {
            assert!(!is_mapping_symbol(name.as_bytes()), "{name}");
        }
    }
}
