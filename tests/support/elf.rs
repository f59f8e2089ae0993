//! The smallest ELF files that carry a build-id note.

use super::wire::{Bytes, Order};

/// A note of the given owner and type.
pub fn note(owner: &str, kind: u32, desc: &[u8]) -> Vec<u8> {
    let mut b = Bytes::new(Order::Little);
    b.u32(owner.len() as u32 + 1).u32(desc.len() as u32).u32(kind).raw(owner.as_bytes()).u8(0);
    b.out.resize(b.out.len().next_multiple_of(4), 0);
    b.raw(desc);
    b.out.resize(b.out.len().next_multiple_of(4), 0);
    b.out
}

/// An x86-64 shared object of one loadable segment and one of notes.
pub fn file(notes: &[u8]) -> Vec<u8> {
    let (header, entry) = (64u64, 56u64);
    let at = header + 2 * entry;
    let end = at + notes.len() as u64;
    let mut b = Bytes::new(Order::Little);
    b.raw(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]).raw(&[0; 8]);
    b.u16(3).u16(62).u32(1).u64(0).u64(header).u64(0).u32(0);
    b.u16(header as u16).u16(entry as u16).u16(2).u16(64).u16(0).u16(0);
    b.u32(1).u32(5).u64(0).u64(0).u64(0).u64(end).u64(end).u64(4096);
    b.u32(4).u32(4).u64(at).u64(at).u64(at).u64(notes.len() as u64).u64(notes.len() as u64).u64(4);
    b.raw(notes);
    b.out
}

/// One with a GNU build-id.
pub fn with_id(id: &[u8]) -> Vec<u8> {
    file(&note("GNU", 3, id))
}
