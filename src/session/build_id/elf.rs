//! The GNU build-id note of an ELF file, found by type and owner, in segments or in sections.
//!
//! A file's id costs an open and, nearly always, one read of its first page, so nothing is mapped and
//! nothing is allocated: headers and notes are looked at through two page-sized windows. Layouts are those
//! of the ELF specification (`elf.h`).

use crate::bytes::ByteOrder;

use super::id::{BuildId, MAX_LEN};
use super::miss::MissReason;

/// Bytes looked at together; the first window holds headers and notes of nearly every linked file.
const WINDOW: usize = 4096;
/// Headers and notes looked at before a file is given up as malformed.
const MAX_STEPS: u32 = 1 << 18;

const PT_NOTE: u32 = 4;
const SHT_NOTE: u32 = 7;
const NT_GNU_BUILD_ID: u32 = 3;
/// `e_phnum` that says the count is in section 0.
const PN_XNUM: u16 = 0xffff;
/// Size of a note's header: name size, descriptor size and type.
const NOTE_HEADER: u64 = 12;

/// Bytes that can be read at an offset, as `pread` does.
pub trait ReadAt {
    /// Fills `buf` from a byte offset and says how much of it; less than all only at the end of the bytes.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, MissReason>;
}

impl ReadAt for &[u8] {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, MissReason> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let n = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }
}

/// The build-id of an ELF image in memory; `None` if it carries no GNU build-id note.
///
/// Of ids longer than 20 bytes the first 20 are taken, as perf does.
///
/// # Errors
/// [`MissReason::NotElf`], or [`MissReason::MalformedElf`] if no note was found and a table or a note
/// reaches past the end.
pub fn read_build_id(image: &[u8]) -> Result<Option<BuildId>, MissReason> {
    read_build_id_at(image)
}

/// As [`read_build_id`], from anything that reads at offsets.
///
/// # Errors
/// As [`read_build_id`], and what the reads report.
pub fn read_build_id_at(source: impl ReadAt) -> Result<Option<BuildId>, MissReason> {
    let mut image = Image::new(source);
    let Some(header) = Header::parse(&mut image)? else { return Err(MissReason::NotElf) };
    for table in [header.segments(&mut image)?, header.sections(&mut image)?].into_iter().flatten() {
        if let Some(id) = table.find(&header, &mut image)? {
            return Ok(Some(id));
        }
    }
    if image.malformed { Err(MissReason::MalformedElf) } else { Ok(None) }
}

/// The build-id among bare notes aligned to four bytes, as in `/sys/kernel/notes`, in this machine's byte order.
///
/// # Errors
/// [`MissReason::MalformedElf`] if no build-id was found and a note reaches past the end.
pub fn read_build_id_of_notes(notes: &[u8]) -> Result<Option<BuildId>, MissReason> {
    let mut image = Image::new(notes);
    let range = Notes { at: 0, size: notes.len() as u64, align: 4, order: ByteOrder::NATIVE };
    match range.find(&mut image)? {
        None if image.malformed => Err(MissReason::MalformedElf),
        found => Ok(found),
    }
}

/// A source seen through the page at its start and one more.
struct Image<S> {
    source: S,
    first: Window,
    other: Window,
    steps: u32,
    /// Something reached past the end or made no sense.
    malformed: bool,
}

struct Window {
    at: u64,
    len: usize,
    bytes: [u8; WINDOW],
}

impl Window {
    fn empty() -> Window {
        Window { at: 0, len: 0, bytes: [0; WINDOW] }
    }

    fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.at)?).ok()?;
        self.bytes.get(..self.len)?.get(from..from.checked_add(len)?)
    }

    fn fill(&mut self, source: &mut impl ReadAt, at: u64) -> Result<(), MissReason> {
        (self.at, self.len) = (at, 0);
        self.len = source.read_at(at, &mut self.bytes)?.min(WINDOW);
        Ok(())
    }
}

impl<S: ReadAt> Image<S> {
    fn new(source: S) -> Image<S> {
        Image { source, first: Window::empty(), other: Window::empty(), steps: 0, malformed: false }
    }

    /// `len` bytes (at most a window) at an offset; `None`, noted as malformed, if they are not all there.
    fn get(&mut self, at: u64, len: usize) -> Result<Option<&[u8]>, MissReason> {
        if self.first.len == 0 {
            self.first.fill(&mut self.source, 0)?;
        }
        if self.first.get(at, len).is_none() && self.other.get(at, len).is_none() {
            self.other.fill(&mut self.source, at)?;
        }
        let found = self.first.get(at, len).or_else(|| self.other.get(at, len));
        self.malformed |= found.is_none();
        Ok(found)
    }

    /// Counts a header or note; an error once there are absurdly many, which only a crafted file has.
    fn step(&mut self) -> Result<(), MissReason> {
        self.steps += 1;
        if self.steps > MAX_STEPS { Err(MissReason::MalformedElf) } else { Ok(()) }
    }
}

/// What the file header says of the tables.
struct Header {
    order: ByteOrder,
    wide: bool,
    phoff: u64,
    phentsize: u16,
    phnum: u16,
    shoff: u64,
    shentsize: u16,
    shnum: u16,
}

impl Header {
    fn parse<S: ReadAt>(image: &mut Image<S>) -> Result<Option<Header>, MissReason> {
        let Some(&[0x7f, b'E', b'L', b'F', class, data]) = image.get(0, 6)? else { return Ok(None) };
        let (wide, size) = match class {
            1 => (false, 52),
            2 => (true, 64),
            _ => return Ok(None),
        };
        let order = match data {
            1 => ByteOrder::Little,
            2 => ByteOrder::Big,
            _ => return Ok(None),
        };
        let Some(h) = image.get(0, size)? else { return Err(MissReason::MalformedElf) };
        let word = |at32, at64| word(order, wide, h, at32, at64);
        let half = |at32, at64| order.u16(h, if wide { at64 } else { at32 });
        let header = || {
            Some(Header {
                order,
                wide,
                phoff: word(28, 32)?,
                shoff: word(32, 40)?,
                phentsize: half(42, 54)?,
                phnum: half(44, 56)?,
                shentsize: half(46, 58)?,
                shnum: half(48, 60)?,
            })
        };
        header().map(Some).ok_or(MissReason::MalformedElf)
    }

    fn segments<S: ReadAt>(&self, image: &mut Image<S>) -> Result<Option<Table>, MissReason> {
        if self.phoff == 0 || self.phnum == 0 {
            return Ok(None);
        }
        let mut count = u64::from(self.phnum);
        if self.phnum == PN_XNUM {
            let Some(section) = self.section_zero(image)? else { return Ok(None) };
            let at = if self.wide { 44 } else { 28 };
            count = self.order.u32(section, at).unwrap_or_default().into();
        }
        let size = if self.wide { 56 } else { 32 };
        Ok(self.table(Kind::Segments, image, self.phoff, count, self.phentsize, size))
    }

    fn sections<S: ReadAt>(&self, image: &mut Image<S>) -> Result<Option<Table>, MissReason> {
        if self.shoff == 0 {
            return Ok(None);
        }
        let mut count = u64::from(self.shnum);
        if self.shnum == 0 {
            let Some(section) = self.section_zero(image)? else { return Ok(None) };
            count = word(self.order, self.wide, section, 20, 32).unwrap_or_default();
        }
        Ok(self.table(Kind::Sections, image, self.shoff, count, self.shentsize, self.section_size()))
    }

    fn table<S>(
        &self,
        kind: Kind,
        image: &mut Image<S>,
        at: u64,
        count: u64,
        stride: u16,
        entry: usize,
    ) -> Option<Table> {
        if count > 0 && usize::from(stride) < entry {
            image.malformed = true;
            return None;
        }
        Some(Table { kind, at, count, stride: stride.into(), entry })
    }

    /// Section 0, which holds the counts that are too large for the file header.
    fn section_zero<'i, S: ReadAt>(&self, image: &'i mut Image<S>) -> Result<Option<&'i [u8]>, MissReason> {
        if self.shoff == 0 { Ok(None) } else { image.get(self.shoff, self.section_size()) }
    }

    fn section_size(&self) -> usize {
        if self.wide { 64 } else { 40 }
    }
}

fn word(order: ByteOrder, wide: bool, bytes: &[u8], at32: usize, at64: usize) -> Option<u64> {
    if wide { order.u64(bytes, at64) } else { order.u32(bytes, at32).map(u64::from) }
}

#[derive(Clone, Copy)]
enum Kind {
    Segments,
    Sections,
}

/// Program or section headers.
struct Table {
    kind: Kind,
    at: u64,
    count: u64,
    stride: u64,
    entry: usize,
}

impl Table {
    fn find<S: ReadAt>(&self, header: &Header, image: &mut Image<S>) -> Result<Option<BuildId>, MissReason> {
        for i in 0..self.count {
            image.step()?;
            let at = i.checked_mul(self.stride).and_then(|skip| self.at.checked_add(skip));
            let Some(at) = at else { return Err(MissReason::MalformedElf) };
            let Some(entry) = image.get(at, self.entry)? else { return Ok(None) };
            if let Some(notes) = self.notes(header, entry)
                && let Some(id) = notes.find(image)?
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Where the entry's notes are, if it has any.
    fn notes(&self, header: &Header, entry: &[u8]) -> Option<Notes> {
        let order = header.order;
        let word = |at32, at64| word(order, header.wide, entry, at32, at64);
        let (is_note, at, size, align) = match self.kind {
            Kind::Segments => (order.u32(entry, 0)? == PT_NOTE, word(4, 8)?, word(16, 32)?, word(28, 48)?),
            Kind::Sections => (order.u32(entry, 4)? == SHT_NOTE, word(16, 24)?, word(20, 32)?, word(32, 48)?),
        };
        // Any other alignment than eight means four, as for the GNU tools.
        is_note.then_some(Notes { at, size, align: if align == 8 { 8 } else { 4 }, order })
    }
}

/// A run of notes: each a header, a name and a descriptor, padded to the alignment.
struct Notes {
    at: u64,
    size: u64,
    align: u64,
    order: ByteOrder,
}

impl Notes {
    fn find<S: ReadAt>(&self, image: &mut Image<S>) -> Result<Option<BuildId>, MissReason> {
        let mut next = 0;
        while next < self.size {
            image.step()?;
            let (at, left) = (self.at.checked_add(next), self.size - next);
            let Some(at) = at.filter(|_| left >= NOTE_HEADER) else { break };
            // Name and id of a build-id note come with its header; other notes may end before.
            let Some(h) = image.get(at, NOTE_HEADER as usize)? else { return Ok(None) };
            let field = |at| self.order.u32(h, at).unwrap_or_default();
            let (name_size, id_size, kind) = (u64::from(field(0)), u64::from(field(4)), field(8));
            let id_at = (NOTE_HEADER + name_size).next_multiple_of(self.align);
            let end = id_at + id_size;
            if end > left {
                image.malformed = true;
                return Ok(None);
            }
            if kind == NT_GNU_BUILD_ID && name_size == 4 && id_size > 0 {
                let take = usize::try_from(id_size).unwrap_or(MAX_LEN).min(MAX_LEN);
                let is_gnu = image.get(at.saturating_add(NOTE_HEADER), 4)? == Some(b"GNU\0");
                if is_gnu {
                    // An id that is cut off is not the file's id.
                    let last = image.get(at.saturating_add(end - 1), 1)?.is_some();
                    let id = image.get(at.saturating_add(id_at), take)?;
                    return Ok(id.filter(|_| last).and_then(BuildId::from_bytes));
                }
            }
            next = next.saturating_add(end.next_multiple_of(self.align));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::super::testing::TestElf;
    use super::*;

    const ID: [u8; 20] = *b"\x12\x34\x56\x78\x9a\xbc\xde\xf0\x12\x34\x56\x78\x9a\xbc\xde\xf0\x12\x34\x56\x00";

    /// Every class, byte order, alignment, and way to find the notes.
    fn shapes() -> impl Iterator<Item = TestElf> {
        (0..48u32).map(|i| {
            let mut elf = TestElf::with_id(&ID);
            elf.wide = i & 1 == 0;
            elf.order = if i & 2 == 0 { ByteOrder::Little } else { ByteOrder::Big };
            elf.align = if i & 4 == 0 { 4 } else { 8 };
            elf.filler = if i & 8 == 0 { 0 } else { 3 * WINDOW + 1 };
            (elf.segments, elf.sections) = [(true, true), (true, false), (false, true)][i as usize / 16];
            // another owner's type 3, a name whose padding differs by alignment, and an empty id come first
            elf.notes.insert(0, (b"Xen\0".to_vec(), 3, vec![1; 20]));
            elf.notes.insert(1, (b"stapsdt\0".to_vec(), 3, vec![2; 5]));
            elf.notes.insert(2, (b"GNU\0".to_vec(), 1, vec![3; 16]));
            elf.notes.insert(3, (b"GNU\0".to_vec(), 3, vec![]));
            elf
        })
    }

    #[test]
    fn finds_the_note_by_type_and_owner_in_every_shape() {
        for elf in shapes() {
            assert_eq!(read_build_id(&elf.build()), Ok(BuildId::from_bytes(&ID)));
        }
    }

    #[test]
    fn cut_anywhere_it_gives_the_whole_id_or_none() {
        for elf in shapes() {
            let image = elf.build();
            for len in 0..image.len() {
                let found = read_build_id(&image[..len]);
                let id_end = elf.notes_at() + elf.note_bytes().len();
                match found {
                    Ok(Some(id)) => assert!(id.as_bytes() == ID && elf.segments && len >= id_end - 4),
                    Ok(None) => panic!("{len} bytes of {} pass for a file without a note", image.len()),
                    Err(MissReason::NotElf) => assert!(len < 6),
                    Err(reason) => assert_eq!(reason, MissReason::MalformedElf),
                }
            }
        }
    }

    #[test]
    fn any_byte_may_be_wrong() {
        for elf in shapes().filter(|elf| elf.filler == 0) {
            let image = elf.build();
            for at in 0..image.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut bad = image.clone();
                    bad[at] = value;
                    let _ = read_build_id(&bad);
                }
            }
        }
    }

    #[test]
    fn ids_of_every_length_and_longer_ones_cut_to_twenty() {
        for len in 1..=24 {
            let id: Vec<u8> = (1..=len).collect();
            assert_eq!(read_build_id(&TestElf::with_id(&id).build()), Ok(BuildId::from_first_bytes(&id)));
        }
        let long = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb].repeat(2);
        assert_eq!(
            read_build_id(&TestElf::with_id(&long).build()).unwrap().unwrap().to_string(),
            "00112233445566778899aabb0011223344556677"
        );
    }

    #[test]
    fn hostile_note_sizes_end_the_search() {
        let elf = TestElf { sections: false, ..TestElf::with_id(&ID) };
        for (field, value) in [(0, u32::MAX), (4, u32::MAX), (4, 21), (0, 0xffff_fff0)] {
            let mut image = elf.build();
            ByteOrder::Little.set_u32(&mut image, elf.notes_at() + field, value).unwrap();
            assert_eq!(read_build_id(&image), Err(MissReason::MalformedElf), "{field} {value:#x}");
        }
        // the segment's size too
        let mut image = elf.build();
        let size_at = 64 + 56 + 32;
        ByteOrder::Little.set_u64(&mut image, size_at, u64::MAX).unwrap();
        assert_eq!(read_build_id(&image), Ok(BuildId::from_bytes(&ID)));
        ByteOrder::Little.set_u32(&mut image, elf.notes_at() + 8, 4).unwrap();
        assert_eq!(read_build_id(&image), Err(MissReason::MalformedElf));
        // and its offset
        ByteOrder::Little.set_u64(&mut image, 64 + 56 + 8, u64::MAX).unwrap();
        assert_eq!(read_build_id(&image), Err(MissReason::MalformedElf));
    }

    #[test]
    fn endless_empty_notes_and_headers_are_given_up() {
        let mut elf = TestElf { sections: false, ..TestElf::with_id(&ID) };
        elf.notes = vec![(vec![], 0, vec![]); MAX_STEPS as usize];
        assert_eq!(read_build_id(&elf.build()), Err(MissReason::MalformedElf));

        // a count that section 0 gives, over entries that are all there
        let mut image = TestElf { segments: false, notes: vec![], ..TestElf::with_id(&ID) }.build();
        ByteOrder::Little.set_u16(&mut image, 60, 0).unwrap();
        let shoff = ByteOrder::Little.u64(&image, 40).unwrap() as usize;
        ByteOrder::Little.set_u64(&mut image, shoff + 32, u64::MAX).unwrap();
        image.resize(image.len() + 64 * (MAX_STEPS as usize + 8), 0);
        assert_eq!(read_build_id(&image), Err(MissReason::MalformedElf));
    }

    #[test]
    fn counts_too_large_for_the_header_come_from_section_zero() {
        let elf = TestElf::with_id(&ID);
        let mut image = elf.build();
        let shoff = ByteOrder::Little.u64(&image, 40).unwrap() as usize;
        ByteOrder::Little.set_u16(&mut image, 56, PN_XNUM).unwrap();
        ByteOrder::Little.set_u32(&mut image, shoff + 44, 2).unwrap();
        ByteOrder::Little.set_u16(&mut image, 60, 0).unwrap();
        assert_eq!(read_build_id(&image), Ok(BuildId::from_bytes(&ID)));
    }

    #[test]
    fn files_without_a_note_and_files_that_are_not_elf_differ() {
        let none = TestElf { notes: vec![(b"GNU\0".to_vec(), 1, vec![0; 16])], ..TestElf::with_id(&[]) };
        assert_eq!(read_build_id(&none.build()), Ok(None));
        for bytes in [b"".as_slice(), b"\x7fELF", b"#!/bin/sh\nexit\n", b"\x7fELF\x03\x01\0\0"] {
            assert_eq!(read_build_id(bytes), Err(MissReason::NotElf));
        }
        assert_eq!(read_build_id(b"\x7fELF\x02\x01\0\0"), Err(MissReason::MalformedElf));
    }

    #[test]
    fn bare_notes_are_read_in_native_order() {
        let elf = TestElf { order: ByteOrder::NATIVE, ..TestElf::with_id(&ID) };
        let notes = elf.note_bytes();
        assert_eq!(read_build_id_of_notes(&notes), Ok(BuildId::from_bytes(&ID)));
        assert_eq!(read_build_id_of_notes(&notes[..30]), Err(MissReason::MalformedElf));
        assert_eq!(read_build_id_of_notes(&[]), Ok(None));
    }
}
