//! ELF files made in tests: any class, byte order and note alignment, with segments, sections or both.

use crate::bytes::ByteOrder;

/// A file to make; its parts lie in the order header, program headers, filler, notes, section headers.
#[derive(Clone)]
pub(crate) struct TestElf {
    pub wide: bool,
    pub order: ByteOrder,
    pub align: u64,
    pub segments: bool,
    pub sections: bool,
    /// Bytes between the program headers and the notes.
    pub filler: usize,
    /// Bytes between the notes and the section headers.
    pub body: usize,
    /// Name with its NUL, type, descriptor.
    pub notes: Vec<(Vec<u8>, u32, Vec<u8>)>,
}

impl TestElf {
    /// A little-endian 64-bit file with the id in a segment and a section.
    pub(crate) fn with_id(id: &[u8]) -> TestElf {
        TestElf {
            wide: true,
            order: ByteOrder::Little,
            align: 4,
            segments: true,
            sections: true,
            filler: 0,
            body: 0,
            notes: vec![(b"GNU\0".to_vec(), 3, id.to_vec())],
        }
    }

    /// The notes alone.
    pub(crate) fn note_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let pad = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(self.align as usize), 0);
        for (name, kind, desc) in &self.notes {
            for field in [name.len() as u32, desc.len() as u32, *kind] {
                self.order.put_u32(&mut out, field);
            }
            out.extend(name);
            pad(&mut out);
            out.extend(desc);
            pad(&mut out);
        }
        out
    }

    fn word(&self, out: &mut Vec<u8>, value: u64) {
        if self.wide { self.order.put_u64(out, value) } else { self.order.put_u32(out, value as u32) }
    }

    /// Offset of the notes in the file.
    pub(crate) fn notes_at(&self) -> usize {
        let (header, segment) = if self.wide { (64, 56) } else { (52, 32) };
        (header + if self.segments { 2 * segment } else { 0 } + self.filler).next_multiple_of(8)
    }

    /// The file.
    pub(crate) fn build(&self) -> Vec<u8> {
        let (o, notes, at) = (self.order, self.note_bytes(), self.notes_at() as u64);
        let header = if self.wide { 64u64 } else { 52 };
        let shoff = (at + notes.len() as u64 + self.body as u64).next_multiple_of(8);
        let mut out = vec![0x7f, b'E', b'L', b'F', 1 + u8::from(self.wide)];
        out.push(if o == ByteOrder::Little { 1 } else { 2 });
        out.resize(16, 0);
        o.put_u16(&mut out, 3);
        o.put_u16(&mut out, 62);
        o.put_u32(&mut out, 1);
        self.word(&mut out, 0);
        self.word(&mut out, if self.segments { header } else { 0 });
        self.word(&mut out, if self.sections { shoff } else { 0 });
        o.put_u32(&mut out, 0);
        o.put_u16(&mut out, header as u16);
        let (phsize, shsize) = if self.wide { (56, 64) } else { (32, 40) };
        let counts = (2 * u16::from(self.segments), 2 * u16::from(self.sections));
        for half in [phsize, counts.0, shsize, counts.1, 0] {
            o.put_u16(&mut out, half);
        }
        if self.segments {
            // PT_LOAD, then PT_NOTE
            self.segment(&mut out, 1, 0, at, 4096);
            self.segment(&mut out, 4, at, notes.len() as u64, self.align);
        }
        out.resize(at as usize, 0xee);
        out.extend(&notes);
        if self.sections {
            out.resize(shoff as usize, 0xdd);
            self.section(&mut out, 0, 0, 0, 0);
            self.section(&mut out, 7, at, notes.len() as u64, self.align);
        }
        out
    }

    fn segment(&self, out: &mut Vec<u8>, kind: u32, offset: u64, size: u64, align: u64) {
        self.order.put_u32(out, kind);
        if self.wide {
            self.order.put_u32(out, 4);
        }
        for value in [offset, offset, offset, size, size] {
            self.word(out, value);
        }
        if !self.wide {
            self.order.put_u32(out, 4);
        }
        self.word(out, align);
    }

    fn section(&self, out: &mut Vec<u8>, kind: u32, offset: u64, size: u64, align: u64) {
        self.order.put_u32(out, 0);
        self.order.put_u32(out, kind);
        for value in [2, offset, offset, size] {
            self.word(out, value);
        }
        self.order.put_u32(out, 0);
        self.order.put_u32(out, 0);
        self.word(out, align);
        self.word(out, 0);
    }
}
