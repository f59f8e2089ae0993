//! Small ELF images for tests, written from the ABI's layouts.

use super::elf::{SHF_ALLOC, SHF_EXECINSTR, SHT_DYNSYM, SHT_PROGBITS, SHT_SYMTAB};

/// A symbol table entry to be written.
#[derive(Clone)]
pub(super) struct TestSymbol {
    pub name: String,
    pub value: u64,
    pub size: u64,
    pub binding: u8,
    pub kind: u8,
    /// Index of its section.
    pub section: u16,
}

/// A section besides the standard ones.
#[derive(Clone)]
pub(super) struct TestSection {
    pub name: &'static str,
    pub kind: u32,
    pub flags: u64,
    pub addr: u64,
    pub link: u32,
    pub align: u64,
    pub entsize: u64,
    pub contents: Vec<u8>,
}

/// A 64-bit little-endian shared object: section 1 is `.text`, at address 0x1000 and file offset 0x1000.
#[derive(Clone)]
pub(super) struct TestElf {
    pub machine: u16,
    pub symtab: Vec<TestSymbol>,
    pub dynsym: Vec<TestSymbol>,
    pub sections: Vec<TestSection>,
    /// Added to all addresses, not to offsets.
    pub base: u64,
}

pub(super) const TEXT: u64 = 0x1000;
pub(super) const TEXT_SIZE: u64 = 0x4000;

/// Index of the first of [`TestElf::sections`].
pub(super) const FIRST_SECTION: u16 = 6;

/// Index of `.dynsym`, for sections that link to it.
pub(super) const DYNSYM_INDEX: u32 = 4;

impl TestElf {
    pub(super) fn new() -> Self {
        TestElf { machine: 62, symtab: Vec::new(), dynsym: Vec::new(), sections: Vec::new(), base: 0 }
    }

    pub(super) fn function(&mut self, name: &str, value: u64, size: u64) -> &mut Self {
        self.symbol(name, value, size, 1, 2)
    }

    pub(super) fn symbol(&mut self, name: &str, value: u64, size: u64, binding: u8, kind: u8) -> &mut Self {
        self.symtab.push(TestSymbol { name: name.into(), value, size, binding, kind, section: 1 });
        self
    }

    pub(super) fn dynamic(&mut self, name: &str, value: u64, size: u64, binding: u8, kind: u8) -> &mut Self {
        self.dynsym.push(TestSymbol { name: name.into(), value, size, binding, kind, section: 1 });
        self
    }

    pub(super) fn build(&self) -> Vec<u8> {
        let (symtab, strtab) = self.table(&self.symtab);
        let (dynsym, dynstr) = self.table(&self.dynsym);
        let table = |name, kind, link, entsize, contents| TestSection {
            name,
            kind,
            flags: 0,
            addr: 0,
            link,
            align: 8,
            entsize,
            contents,
        };
        let text = TestSection {
            name: ".text",
            kind: SHT_PROGBITS,
            flags: SHF_ALLOC | SHF_EXECINSTR,
            addr: TEXT + self.base,
            link: 0,
            align: 16,
            entsize: 0,
            contents: vec![0; TEXT_SIZE as usize],
        };
        let mut sections = vec![
            text,
            table(".symtab", if self.symtab.is_empty() { 0 } else { SHT_SYMTAB }, 3, 24, symtab),
            table(".strtab", 3, 0, 0, strtab),
            table(".dynsym", if self.dynsym.is_empty() { 0 } else { SHT_DYNSYM }, 5, 24, dynsym),
            table(".dynstr", 3, 0, 0, dynstr),
        ];
        sections.extend(self.sections.iter().cloned());
        let mut names = vec![0u8];
        let mut headers = vec![0u8; 64];
        let mut out = vec![0u8; TEXT as usize];
        let put = |headers: &mut Vec<u8>, name: usize, s: &TestSection, offset: usize, size: usize| {
            headers.extend((name as u32).to_le_bytes());
            headers.extend(s.kind.to_le_bytes());
            for v in [s.flags, s.addr, offset as u64, size as u64] {
                headers.extend(v.to_le_bytes());
            }
            headers.extend(s.link.to_le_bytes());
            headers.extend(0u32.to_le_bytes());
            headers.extend(s.align.to_le_bytes());
            headers.extend(s.entsize.to_le_bytes());
        };
        for s in &sections {
            let name = names.len();
            names.extend(s.name.as_bytes());
            names.push(0);
            while !out.len().is_multiple_of(16) {
                out.push(0);
            }
            put(&mut headers, name, s, out.len(), s.contents.len());
            out.extend(&s.contents);
        }
        let shstrndx = sections.len() + 1;
        let name = names.len();
        names.extend(b".shstrtab\0");
        put(&mut headers, name, &table(".shstrtab", 3, 0, 0, Vec::new()), out.len(), names.len());
        out.extend(&names);
        let shoff = out.len();
        out.extend(&headers);
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(16, 0);
        head.extend(3u16.to_le_bytes());
        head.extend(self.machine.to_le_bytes());
        head.extend(1u32.to_le_bytes());
        for v in [0u64, 64, shoff as u64] {
            head.extend(v.to_le_bytes());
        }
        head.extend(0u32.to_le_bytes());
        for v in [64u16, 56, 1, 64, (shstrndx + 1) as u16, shstrndx as u16] {
            head.extend(v.to_le_bytes());
        }
        // One segment over all of the text and beyond.
        head.extend(1u32.to_le_bytes());
        head.extend(5u32.to_le_bytes());
        for v in [TEXT, TEXT + self.base, TEXT + self.base, TEXT_SIZE, TEXT_SIZE, 0x1000] {
            head.extend(v.to_le_bytes());
        }
        out[..head.len()].copy_from_slice(&head);
        out
    }

    fn table(&self, symbols: &[TestSymbol]) -> (Vec<u8>, Vec<u8>) {
        let mut strings = vec![0u8];
        let mut table = vec![0u8; 24];
        for s in symbols {
            table.extend((strings.len() as u32).to_le_bytes());
            table.extend([s.binding << 4 | s.kind, 0]);
            table.extend(s.section.to_le_bytes());
            table.extend((s.value + self.base).to_le_bytes());
            table.extend(s.size.to_le_bytes());
            strings.extend(s.name.as_bytes());
            strings.push(0);
        }
        (table, strings)
    }
}
