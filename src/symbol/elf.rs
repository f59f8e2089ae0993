//! ELF headers of one image, read once: class, byte order, sections and loaded segments.
//!
//! Layouts are those of the System V ABI (elf.h). Counts come from the file and are bounded by its size.

use crate::abi::build_id::BuildId;
use crate::bytes::{ByteOrder, Cursor};

use super::LoadError;
use super::file::{ImageFile, StringTable};

/// `e_type` of relocatable files, such as kernel modules.
pub const ET_REL: u16 = 1;
/// `e_machine` values that change how symbols are read.
pub mod machine {
    #![allow(missing_docs)]
    pub const I386: u16 = 3;
    pub const PPC64: u16 = 21;
    pub const ARM: u16 = 40;
    pub const SPARC: u16 = 2;
    pub const SPARCV9: u16 = 43;
    pub const X86_64: u16 = 62;
    pub const AARCH64: u16 = 183;
    pub const LOONGARCH: u16 = 258;
}
pub(super) const SHT_PROGBITS: u32 = 1;
pub(super) const SHT_SYMTAB: u32 = 2;
pub(super) const SHT_RELA: u32 = 4;
pub(super) const SHT_NOBITS: u32 = 8;
pub(super) const SHT_REL: u32 = 9;
pub(super) const SHT_DYNSYM: u32 = 11;
pub(super) const SHF_ALLOC: u64 = 2;
pub(super) const SHF_EXECINSTR: u64 = 4;
const PT_LOAD: u32 = 1;
const PF_X: u32 = 1;

/// Most section or program headers that are read; real files stay far below.
const MAX_HEADERS: u64 = 1 << 20;

const NT_GNU_BUILD_ID: u32 = 3;
/// Most bytes of notes that are read.
const MAX_NOTES: u64 = 1 << 20;
/// Longest section name that is kept.
const MAX_SECTION_NAME: usize = 256;

/// One section header, with its name.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Name, empty if it has none.
    pub name: Box<[u8]>,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// Virtual address.
    pub addr: u64,
    /// Byte offset in the file.
    pub offset: u64,
    /// Bytes, in the file unless it is NOBITS.
    pub size: u64,
    /// Index of the related section.
    pub link: u32,
    /// Alignment in bytes.
    pub align: u64,
    /// Bytes per entry, 0 if it is no table.
    pub entsize: u64,
}

impl Section {
    /// Whether it holds code that is loaded.
    pub fn is_exec(&self) -> bool {
        self.flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC | SHF_EXECINSTR
    }
}

/// One loaded segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Byte offset in the file.
    pub offset: u64,
    /// Virtual address.
    pub vaddr: u64,
    /// Bytes in the file.
    pub filesz: u64,
    /// Bytes in memory.
    pub memsz: u64,
    /// Whether it may be executed.
    pub exec: bool,
}

/// The headers of an ELF image.
#[derive(Clone)]
pub struct Elf {
    /// The image itself.
    pub file: ImageFile,
    /// Byte order of everything in it.
    pub order: ByteOrder,
    /// 64-bit layouts.
    pub is_64: bool,
    /// `e_machine`.
    pub machine: u16,
    /// `e_type`.
    pub kind: u16,
    /// Section headers by index.
    pub sections: Vec<Section>,
    /// Loaded segments that are not empty, in file order.
    pub segments: Vec<Segment>,
}

impl Elf {
    /// Reads the headers.
    pub fn parse(file: ImageFile) -> Result<Elf, LoadError> {
        let path = file.path().to_path_buf();
        let bad = move |what| LoadError::BadElf { path: path.clone(), what };
        let mut head = [0u8; 64];
        let n = file.read_some_at(&mut head, 0).map_err(|e| LoadError::io(file.path(), e))?;
        let head = head.get(..n).unwrap_or_default();
        if !head.starts_with(b"\x7fELF") {
            return Err(bad("no ELF magic"));
        }
        let is_64 = match head.get(4) {
            Some(1) => false,
            Some(2) => true,
            _ => return Err(bad("unknown class")),
        };
        let order = match head.get(5) {
            Some(1) => ByteOrder::Little,
            Some(2) => ByteOrder::Big,
            _ => return Err(bad("unknown byte order")),
        };
        let layout = Layout { order, is_64 };
        let half = |at| order.u16(head, at);
        let header = || {
            let wide = usize::from(is_64);
            let tail = 46 + 12 * wide;
            Some(Header {
                kind: half(16)?,
                machine: half(18)?,
                phoff: layout.word(head, 28 + 4 * wide)?,
                shoff: layout.word(head, 32 + 8 * wide)?,
                phnum: half(tail - 2)?,
                shnum: half(tail + 2)?,
                shstrndx: half(tail + 4)?,
            })
        };
        let header = header().ok_or_else(|| bad("header is short"))?;
        let mut elf = Elf {
            order,
            is_64,
            machine: header.machine,
            kind: header.kind,
            sections: Vec::new(),
            segments: Vec::new(),
            file,
        };
        let (shnum, phnum, shstrndx) = elf.counts(&header, layout)?;
        elf.read_sections(&header, layout, shnum, shstrndx)?;
        elf.read_segments(&header, layout, phnum)?;
        Ok(elf)
    }

    /// Numbers of headers; those too large for the ELF header stand in the first section's.
    fn counts(&self, h: &Header, layout: Layout) -> Result<(u64, u64, u64), LoadError> {
        let (mut shnum, mut phnum, mut strndx) =
            (u64::from(h.shnum), u64::from(h.phnum), u64::from(h.shstrndx));
        if h.shoff != 0 && (shnum == 0 || phnum == 0xffff || strndx == 0xffff) {
            let raw = self.file.read_at(h.shoff, layout.shentsize())?;
            if let Some((first, _, info)) = layout.section(&raw) {
                if shnum == 0 {
                    shnum = first.size;
                }
                if strndx == 0xffff {
                    strndx = u64::from(first.link);
                }
                if phnum == 0xffff {
                    phnum = u64::from(info);
                }
            }
        }
        Ok((if h.shoff == 0 { 0 } else { shnum }, phnum, strndx))
    }

    fn read_sections(&mut self, h: &Header, layout: Layout, n: u64, strndx: u64) -> Result<(), LoadError> {
        let entsize = layout.shentsize();
        // A header table cut off by truncation still gives the sections it has.
        let n = n.min(MAX_HEADERS).min(self.file.len().saturating_sub(h.shoff) / entsize);
        let raw = self.file.read_at(h.shoff.min(self.file.len()), n * entsize)?;
        let mut names = Vec::new();
        for chunk in raw.chunks_exact(entsize as usize) {
            let Some((section, name, _)) = layout.section(chunk) else { break };
            self.sections.push(section);
            names.push(name);
        }
        let Some(strings) = usize::try_from(strndx).ok().and_then(|i| self.string_table(i)) else {
            return Ok(());
        };
        let mut reader = strings.reader();
        for (section, name) in self.sections.iter_mut().zip(names) {
            let name = reader.name(name).map_err(|e| LoadError::io(self.file.path(), e))?;
            // Names may all point at one long string; no section that matters here has a long one.
            section.name = name.get(..name.len().min(MAX_SECTION_NAME)).unwrap_or_default().into();
        }
        Ok(())
    }

    fn read_segments(&mut self, h: &Header, layout: Layout, n: u64) -> Result<(), LoadError> {
        let entsize = layout.phentsize();
        let n = n.min(MAX_HEADERS).min(self.file.len().saturating_sub(h.phoff) / entsize);
        if n == 0 || h.phoff == 0 {
            return Ok(());
        }
        let raw = self.file.read_at(h.phoff, n * entsize)?;
        self.segments =
            raw.chunks_exact(entsize as usize).filter_map(|chunk| layout.segment(chunk)).collect();
        Ok(())
    }

    /// The first section of that name, with its index.
    pub fn section(&self, name: &str) -> Option<(usize, &Section)> {
        self.sections.iter().enumerate().skip(1).find(|(_, s)| &*s.name == name.as_bytes())
    }

    /// `.symtab` and `.dynsym`, those of them that are here with contents.
    pub fn symbol_tables(&self) -> [Option<&Section>; 2] {
        let table = |name, kind| self.section(name).map(|(_, s)| s).filter(|s| s.kind == kind);
        [table(".symtab", SHT_SYMTAB), table(".dynsym", SHT_DYNSYM)]
    }

    /// The GNU build-id in the image's notes: in `.note.gnu.build-id`, or else `.notes` or `.note`.
    pub fn build_id(&self) -> Option<BuildId> {
        let (_, section) =
            [".note.gnu.build-id", ".notes", ".note"].iter().find_map(|name| self.section(name))?;
        if section.size > MAX_NOTES {
            return None;
        }
        build_id_in(&self.contents(section).ok()?, self.order)
    }

    /// Contents of a section; empty if it has none in the file.
    pub fn contents(&self, section: &Section) -> Result<Vec<u8>, LoadError> {
        if section.kind == SHT_NOBITS {
            return Ok(Vec::new());
        }
        self.file.read_at(section.offset, section.size)
    }

    /// The string table at a section index.
    pub fn string_table(&self, index: usize) -> Option<StringTable> {
        let s = self.sections.get(index).filter(|s| s.kind != SHT_NOBITS)?;
        Some(StringTable::new(self.file.clone(), s.offset, s.size))
    }

    /// The first loaded segment whose memory has the virtual address.
    pub fn segment_of(&self, vaddr: u64) -> Option<&Segment> {
        self.segments.iter().find(|s| vaddr.wrapping_sub(s.vaddr) < s.memsz.max(s.filesz))
    }

    /// The first section, by index, whose addresses include the virtual address.
    pub fn section_of(&self, vaddr: u64) -> Option<usize> {
        self.sections.iter().skip(1).position(|s| vaddr.wrapping_sub(s.addr) < s.size).map(|i| i + 1)
    }

    /// Reads 4 or 8 bytes by class at an offset of `raw`.
    pub(super) fn word(&self, raw: &[u8], at: usize) -> Option<u64> {
        Layout { order: self.order, is_64: self.is_64 }.word(raw, at)
    }
}

/// The GNU build-id in the contents of a section or file of notes.
pub(super) fn build_id_in(notes: &[u8], order: ByteOrder) -> Option<BuildId> {
    let mut cursor = Cursor::new(notes, order);
    loop {
        let (namesz, descsz, kind) = (cursor.u32().ok()?, cursor.u32().ok()?, cursor.u32().ok()?);
        let padded = |n: u32| usize::try_from(n.checked_next_multiple_of(4)?).ok();
        let name = cursor.take(padded(namesz)?).ok()?;
        let desc = cursor.take((descsz as usize).min(cursor.remaining())).ok()?;
        if kind == NT_GNU_BUILD_ID && namesz == 4 && name == b"GNU\0" {
            return BuildId::from_first_bytes(desc);
        }
        cursor.skip(padded(descsz)?.checked_sub(desc.len())?).ok()?;
    }
}

struct Header {
    kind: u16,
    machine: u16,
    phoff: u64,
    shoff: u64,
    phnum: u16,
    shnum: u16,
    shstrndx: u16,
}

#[derive(Clone, Copy)]
struct Layout {
    order: ByteOrder,
    is_64: bool,
}

impl Layout {
    fn word(self, raw: &[u8], at: usize) -> Option<u64> {
        if self.is_64 { self.order.u64(raw, at) } else { self.order.u32(raw, at).map(u64::from) }
    }

    fn shentsize(self) -> u64 {
        if self.is_64 { 64 } else { 40 }
    }

    fn phentsize(self) -> u64 {
        if self.is_64 { 56 } else { 32 }
    }

    /// The section, the offset of its name, and `sh_info`.
    fn section(self, raw: &[u8]) -> Option<(Section, u32, u32)> {
        let u32_at = |at| self.order.u32(raw, at);
        let (flags, addr, offset, size, link, info, align, entsize) =
            if self.is_64 { (8, 16, 24, 32, 40, 44, 48, 56) } else { (8, 12, 16, 20, 24, 28, 32, 36) };
        let section = Section {
            name: Box::default(),
            kind: u32_at(4)?,
            flags: self.word(raw, flags)?,
            addr: self.word(raw, addr)?,
            offset: self.word(raw, offset)?,
            size: self.word(raw, size)?,
            link: u32_at(link)?,
            align: self.word(raw, align)?,
            entsize: self.word(raw, entsize)?,
        };
        Some((section, u32_at(0)?, u32_at(info)?))
    }

    fn segment(self, raw: &[u8]) -> Option<Segment> {
        let (flags, offset, vaddr, filesz, memsz) =
            if self.is_64 { (4, 8, 16, 32, 40) } else { (24, 4, 8, 16, 20) };
        let segment = Segment {
            offset: self.word(raw, offset)?,
            vaddr: self.word(raw, vaddr)?,
            filesz: self.word(raw, filesz)?,
            memsz: self.word(raw, memsz)?,
            exec: self.order.u32(raw, flags)? & PF_X != 0,
        };
        (self.order.u32(raw, 0)? == PT_LOAD && segment.memsz.max(segment.filesz) > 0).then_some(segment)
    }
}
