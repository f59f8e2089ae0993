//! MMAP and MMAP2 records.

use super::{Record, begin_record, finish_record};
use crate::abi::misc;
use crate::abi::record::RecordType;
use crate::bytes::{ByteOrder, Cursor, Short, until_nul};
use crate::error::Result;
use crate::evlist::TrailerLayout;

/// What a MMAP2 says of the mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileId<'a> {
    /// A MMAP says nothing.
    None,
    /// Device and inode.
    Inode {
        /// Device, major number.
        maj: u32,
        /// Device, minor number.
        min: u32,
        /// Inode number; 0 if unknown.
        ino: u64,
        /// Inode generation.
        generation: u64,
    },
    /// A build-id of 0 to 20 bytes (misc bit 14).
    BuildId(&'a [u8]),
}

/// A mapping, from MMAP or MMAP2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// Misc word: cpumode, data bit, time-out bit.
    pub misc: u16,
    /// Process id; -1 for the kernel's own maps.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file, in bytes; for the kernel's map the address of its reference symbol.
    pub pgoff: u64,
    /// Identity of the file.
    pub file: FileId<'a>,
    /// Protection (`PROT_*`); for a MMAP, read and execute, or read only with the data bit.
    pub prot: u32,
    /// Flags (`MAP_*`); 0 for a MMAP.
    pub flags: u32,
    /// Path or bracketed name, without its NUL.
    pub filename: &'a [u8],
}

/// `PROT_READ`.
pub const PROT_READ: u32 = 1;
/// `PROT_EXEC`.
pub const PROT_EXEC: u32 = 4;
/// `MAP_PRIVATE`.
pub const MAP_PRIVATE: u32 = 2;

impl<'a> Mmap<'a> {
    /// Parses either record.
    pub fn parse(record: Record<'a>, trailer: &TrailerLayout) -> Result<Mmap<'a>> {
        let (body, _) = record.split_trailer(trailer);
        Self::parse_body(record, body).map_err(|short| record.error(format!("too short: {short}")))
    }

    fn parse_body(record: Record<'a>, body: &'a [u8]) -> Result<Mmap<'a>, Short> {
        let misc = record.misc();
        let mut c = Cursor::new(body, record.order);
        let pid = c.u32()? as i32;
        let tid = c.u32()? as i32;
        let start = c.u64()?;
        let len = c.u64()?;
        let pgoff = c.u64()?;
        let mut prot = if misc & misc::MMAP_DATA != 0 { PROT_READ } else { PROT_READ | PROT_EXEC };
        let mut flags = 0;
        let mut file = FileId::None;
        if record.ty() == RecordType::MMAP2 {
            if misc & misc::MMAP_BUILD_ID != 0 {
                let size = usize::from(c.u8()?).min(20);
                c.skip(3)?;
                let id = c.take(20)?;
                file = FileId::BuildId(id.get(..size).unwrap_or_default());
            } else {
                file = FileId::Inode { maj: c.u32()?, min: c.u32()?, ino: c.u64()?, generation: c.u64()? };
            }
            prot = c.u32()?;
            flags = c.u32()?;
        }
        Ok(Mmap { misc, pid, tid, start, len, pgoff, file, prot, flags, filename: until_nul(c.rest()) })
    }

    /// Appends it as a MMAP2 with the given trailer bytes. `None`, and nothing appended, if it is too large.
    pub fn encode_mmap2(&self, out: &mut Vec<u8>, order: ByteOrder, trailer: &[u8]) -> Option<()> {
        let misc = match self.file {
            FileId::BuildId(_) => self.misc | misc::MMAP_BUILD_ID,
            _ => self.misc & !misc::MMAP_BUILD_ID,
        };
        let at = begin_record(out, order, RecordType::MMAP2, misc);
        order.put_u32(out, self.pid as u32);
        order.put_u32(out, self.tid as u32);
        order.put_u64(out, self.start);
        order.put_u64(out, self.len);
        order.put_u64(out, self.pgoff);
        match self.file {
            FileId::BuildId(id) => {
                let id = id.get(..id.len().min(20)).unwrap_or_default();
                out.extend_from_slice(&[id.len() as u8, 0, 0, 0]);
                out.extend_from_slice(id);
                out.resize(out.len() + 20 - id.len(), 0);
            }
            FileId::Inode { maj, min, ino, generation } => {
                order.put_u32(out, maj);
                order.put_u32(out, min);
                order.put_u64(out, ino);
                order.put_u64(out, generation);
            }
            FileId::None => out.resize(out.len() + 24, 0),
        }
        order.put_u32(out, self.prot);
        order.put_u32(out, self.flags);
        out.extend_from_slice(self.filename);
        out.push(0);
        while !(out.len() - at).is_multiple_of(8) {
            out.push(0);
        }
        out.extend_from_slice(trailer);
        finish_record(out, order, at)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn mmap2_round_trips_in_both_orders() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for file in [
                FileId::Inode { maj: 8, min: 1, ino: 77, generation: 5 },
                FileId::BuildId(&[1, 2, 3, 4, 5, 6, 7, 8]),
                FileId::BuildId(&[]),
            ] {
                let misc = 2 | if matches!(file, FileId::BuildId(_)) { misc::MMAP_BUILD_ID } else { 0 };
                let map = Mmap {
                    misc,
                    pid: 10,
                    tid: 11,
                    start: 0x1000,
                    len: 0x2000,
                    pgoff: 0x3000,
                    file,
                    prot: 5,
                    flags: 2,
                    filename: b"/bin/true",
                };
                let mut out = Vec::new();
                map.encode_mmap2(&mut out, order, &[9; 16]).unwrap();
                assert_eq!(out.len() % 8, 0);
                let trailer = TrailerLayout { size: 16, ..Default::default() };
                let record = Record { bytes: &out, order, pos: 0 };
                assert_eq!(Mmap::parse(record, &trailer).unwrap(), map);
                assert_eq!(order.u16(&out, 6), Some(out.len() as u16));
            }
        }
    }

    #[test]
    fn a_short_record_is_an_error_that_names_it() {
        let mut out = Vec::new();
        let at = begin_record(&mut out, ByteOrder::Little, RecordType::MMAP, 0);
        out.extend_from_slice(&[0; 16]);
        finish_record(&mut out, ByteOrder::Little, at).unwrap();
        let record = Record { bytes: &out, order: ByteOrder::Little, pos: 0x50 };
        let e = Mmap::parse(record, &TrailerLayout::default()).unwrap_err();
        assert!(
            e.to_string().starts_with("at offset 0x50: MMAP record: corrupt recording: too short"),
            "{e}"
        );
    }
}
