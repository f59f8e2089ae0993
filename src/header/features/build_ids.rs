//! BUILD_ID: the table of DSOs and their build-ids.
//!
//! Entries look like HEADER_BUILD_ID records: a record header (perf leaves the type 0), i32 pid, 20 bytes of
//! id, a byte that is the id's length if the misc word says so, 3 bytes of padding, and a NUL-terminated
//! name in what is left of the entry's size. Writers have left stray zeros and entries without a size
//! between them, so reading goes on at the next plausible entry.

use super::strings;
use crate::abi::build_id::{BuildId, MAX_LEN};
use crate::abi::feature::Feature;
use crate::abi::misc::{BUILD_ID_SIZE, CPUMODE_MASK, CpuMode};
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::{ByteOrder, until_nul};
use crate::error::{Error, ErrorKind, Result};

/// Bytes before the name.
pub const FIXED_SIZE: usize = 36;
/// Bytes before the name in tables of perf before 2.6.34, which had no pid.
const LEGACY_FIXED_SIZE: usize = 32;
/// Bits of the misc word that entries have: perf of 4.x copied bit 13 of the mapping's record.
const HIGH_BITS: u16 = BUILD_ID_SIZE | 1 << 14 | 1 << 13;
/// What the kernel's name looks like if a table without pids is read as one with pids.
const LEGACY_SIGN: &[u8] = b"nel.kallsyms]";

/// The section.
#[derive(Debug)]
pub struct BuildIdTable<'a> {
    /// In the order of the section.
    pub entries: Vec<BuildIdEntry<'a>>,
    /// Bytes that are no entry and were stepped over, as (offset in the section, length).
    pub gaps: Vec<(usize, usize)>,
    /// Why reading stopped before the end; its offset counts from the section's start.
    pub stopped: Option<Error>,
}

/// The build-id of a DSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildIdEntry<'a> {
    /// Offset in the section.
    pub offset: usize,
    /// The header's misc word: cpumode, and whether there is a length.
    pub misc: u16,
    /// -1 for the host, else the process id of a guest's hypervisor.
    pub pid: i32,
    /// The id, zero-padded.
    pub id: [u8; MAX_LEN],
    /// The id's length in bytes, if the entry carries it.
    pub size: Option<u8>,
    /// Path of the DSO, or a name such as `[kernel.kallsyms]`, without its NUL.
    pub filename: &'a [u8],
}

impl<'a> BuildIdEntry<'a> {
    /// Reads a HEADER_BUILD_ID record, or an entry, from its header on; `None` if it is too short.
    pub fn from_record(record: &'a [u8], order: ByteOrder) -> Option<BuildIdEntry<'a>> {
        Self::read(record, 0, FIXED_SIZE, order)
    }

    fn read(bytes: &'a [u8], offset: usize, fixed: usize, order: ByteOrder) -> Option<BuildIdEntry<'a>> {
        let size = usize::from(order.u16(bytes, offset.checked_add(6)?)?);
        let entry = bytes.get(offset..offset.checked_add(size)?)?;
        let filename = until_nul(entry.get(fixed..)?);
        let misc = order.u16(entry, 4)?;
        let has_pid = fixed == FIXED_SIZE;
        let pid = if has_pid { order.u32(entry, HEADER_SIZE)?.cast_signed() } else { -1 };
        let at = fixed - 24;
        let id: [u8; MAX_LEN] = entry.get(at..at + MAX_LEN)?.try_into().ok()?;
        let size = if misc & BUILD_ID_SIZE != 0 { entry.get(at + MAX_LEN).copied() } else { None };
        Some(BuildIdEntry { offset, misc, pid, id, size, filename })
    }

    /// The id; `None` if it is all zero and has no length. An impossible length counts as none.
    pub fn build_id(&self) -> Option<BuildId> {
        let sized = self.size.and_then(|size| BuildId::from_bytes(self.id.get(..usize::from(size))?));
        sized.or_else(|| BuildId::from_padded(self.id))
    }

    /// Whose DSO it is.
    pub fn cpumode(&self) -> CpuMode {
        CpuMode::from_misc(self.misc)
    }

    /// An entry of this DSO with this id, whose length is recorded.
    pub fn new(build_id: &BuildId, cpumode: CpuMode, pid: i32, filename: &'a [u8]) -> BuildIdEntry<'a> {
        BuildIdEntry {
            offset: 0,
            misc: cpumode.bits() | BUILD_ID_SIZE,
            pid,
            id: build_id.padded(),
            size: u8::try_from(build_id.len()).ok(),
            filename,
        }
    }

    /// Appends the entry to a table: 36 bytes, then the name padded to 64. Errors if the name is too long
    /// for the 16-bit size.
    pub fn emit(&self, order: ByteOrder, out: &mut Vec<u8>) -> Result<()> {
        let padded = strings::padded_len(self.filename);
        let size = u16::try_from(padded.saturating_add(FIXED_SIZE)).map_err(|_| {
            let shown =
                String::from_utf8_lossy(self.filename.get(..64).unwrap_or(self.filename)).into_owned();
            Error::new(
                ErrorKind::Unsupported,
                format!("the name of a DSO has {} bytes: {shown}…", self.filename.len()),
            )
        })?;
        let start = out.len();
        order.put_u32(out, 0);
        order.put_u16(out, self.misc);
        order.put_u16(out, size);
        order.put_u32(out, self.pid.cast_unsigned());
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&[self.size.unwrap_or(0), 0, 0, 0]);
        out.extend_from_slice(self.filename);
        out.resize(start + usize::from(size), 0);
        Ok(())
    }
}

impl<'a> BuildIdTable<'a> {
    /// Parses the section. Never fails and never loops: what is no entry is told in `gaps` and `stopped`.
    pub fn parse(section: &'a [u8], order: ByteOrder) -> BuildIdTable<'a> {
        let table = Self::parse_layout(section, order, FIXED_SIZE);
        if table.entries.iter().any(|e| e.filename == LEGACY_SIGN) {
            return Self::parse_layout(section, order, LEGACY_FIXED_SIZE);
        }
        table
    }

    fn parse_layout(section: &'a [u8], order: ByteOrder, fixed: usize) -> BuildIdTable<'a> {
        let mut table = BuildIdTable { entries: Vec::new(), gaps: Vec::new(), stopped: None };
        let mut at = 0;
        while at < section.len() {
            if let Some(entry) = BuildIdEntry::read(section, at, fixed, order) {
                table.entries.push(entry);
                at += usize::from(order.u16(section, at + 6).unwrap_or(u16::MAX));
                continue;
            }
            let next = (at + 1..section.len()).find(|&q| plausible(section, q, fixed, order));
            let end = next.unwrap_or(section.len());
            table.gaps.push((at, end - at));
            let rest = section.get(at..).unwrap_or_default();
            if next.is_none() && rest.iter().any(|&b| b != 0) {
                table.stopped = Some(broken(rest, at, order));
            }
            at = end;
        }
        table
    }
}

/// Whether an entry seems to begin here; stricter than reading in sequence, for it is a guess.
fn plausible(section: &[u8], at: usize, fixed: usize, order: ByteOrder) -> bool {
    let known_type = |t| t == 0 || t == RecordType::HEADER_BUILD_ID.0;
    order.u32(section, at).is_some_and(known_type)
        && order.u16(section, at + 4).is_some_and(|misc| misc & !(CPUMODE_MASK | HIGH_BITS) == 0)
        && order.u16(section, at + 6).is_some_and(|size| usize::from(size) > fixed)
        && section.get(at + fixed).is_some_and(u8::is_ascii_graphic)
        && BuildIdEntry::read(section, at, fixed, order).is_some_and(|e| {
            let size = usize::from(order.u16(section, at + 6).unwrap_or(0));
            fixed + e.filename.len() < size
        })
}

fn broken(rest: &[u8], at: usize, order: ByteOrder) -> Error {
    let left = rest.len();
    let what = match order.u16(rest, 6) {
        Some(size) if usize::from(size) > left => {
            return Error::truncated(
                at as u64,
                section_message(&format!("an entry of {size} bytes, {left} left")),
            );
        }
        Some(size) => format!("an entry of {size} bytes, less than the {FIXED_SIZE} of its fixed part"),
        None => format!("{left} bytes that are no entry"),
    };
    Error::corrupt(at as u64, section_message(&what))
}

fn section_message(what: &str) -> String {
    format!("in the {} section: {what}", Feature::BUILD_ID)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

    fn id(hex: &str) -> BuildId {
        hex.parse().unwrap()
    }

    fn two_entries(order: ByteOrder) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        let kernel = id("672679ceaecf17b7a879e56c56802afc568aa242");
        BuildIdEntry::new(&kernel, CpuMode::Kernel, -1, b"[kernel.kallsyms]").emit(order, &mut out).unwrap();
        let second = out.len();
        BuildIdEntry::new(&id("0011223344556677"), CpuMode::User, 77, b"/lib/x.so")
            .emit(order, &mut out)
            .unwrap();
        (out, second)
    }

    fn names<'a>(table: &BuildIdTable<'a>) -> Vec<&'a [u8]> {
        table.entries.iter().map(|e| e.filename).collect()
    }

    #[test]
    fn entries_are_36_bytes_and_a_name_padded_to_64() {
        for order in ORDERS {
            let (section, second) = two_entries(order);
            assert_eq!((second, section.len()), (100, 200));
            assert_eq!(
                (order.u32(&section, 0), order.u16(&section, 4), order.u16(&section, 6)),
                (Some(0), Some(0x8001), Some(100))
            );
            assert_eq!(order.u32(&section, 8), Some(u32::MAX));
            assert_eq!(&section[36..54], b"[kernel.kallsyms]\0");
            let table = BuildIdTable::parse(&section, order);
            assert!(table.gaps.is_empty() && table.stopped.is_none());
            let e = table.entries[1];
            assert_eq!((e.offset, e.pid, e.size, e.cpumode()), (100, 77, Some(8), CpuMode::User));
            assert_eq!(e.build_id(), Some(id("0011223344556677")));
            let mut again = Vec::new();
            table.entries.iter().for_each(|e| e.emit(order, &mut again).unwrap());
            assert_eq!(again, section);
        }
    }

    #[test]
    fn without_a_length_zero_groups_are_padding() {
        let order = ByteOrder::Little;
        let (mut section, second) = two_entries(order);
        order.set_u16(&mut section, second + 4, 2).unwrap();
        // the byte where a length would be is not looked at
        section[second + 12 + 20] = 3;
        let table = BuildIdTable::parse(&section, order);
        assert_eq!(table.entries[1].size, None);
        assert_eq!(table.entries[1].build_id(), Some(id("0011223344556677")));
    }

    #[test]
    fn an_impossible_length_counts_as_none() {
        for size in [0, 21, 255] {
            let order = ByteOrder::Big;
            let (mut section, second) = two_entries(order);
            section[second + 32] = size;
            let table = BuildIdTable::parse(&section, order);
            assert_eq!(table.entries[1].build_id(), Some(id("0011223344556677")));
        }
    }

    #[test]
    fn stray_zeros_are_stepped_over() {
        for order in ORDERS {
            for stray in [1, 2, 3, 4, 8, 28, 36, 100] {
                let (mut section, second) = two_entries(order);
                section.splice(second..second, vec![0; stray]);
                section.extend(vec![0; stray]);
                let table = BuildIdTable::parse(&section, order);
                assert_eq!(names(&table), [&b"[kernel.kallsyms]"[..], b"/lib/x.so"], "{stray} zeros");
                assert_eq!(table.gaps, [(100, stray), (200 + stray, stray)]);
                assert!(table.stopped.is_none());
            }
        }
    }

    #[test]
    fn an_entry_without_a_size_costs_itself_alone() {
        let order = ByteOrder::Little;
        let (mut section, second) = two_entries(order);
        section.extend_from_within(..second);
        order.set_u16(&mut section, second + 6, 0).unwrap();
        let table = BuildIdTable::parse(&section, order);
        assert_eq!(names(&table), [&b"[kernel.kallsyms]"[..], b"[kernel.kallsyms]"]);
        assert_eq!(table.gaps, [(100, 100)]);
    }

    #[test]
    fn reading_stops_with_the_offset_where_nothing_follows() {
        for order in ORDERS {
            let (mut section, second) = two_entries(order);
            section.truncate(second + 50);
            let table = BuildIdTable::parse(&section, order);
            assert_eq!(names(&table), [b"[kernel.kallsyms]"]);
            let stopped = table.stopped.unwrap();
            assert_eq!((stopped.kind(), stopped.offset()), (ErrorKind::Truncated, Some(100)));
            order.set_u16(&mut section, second + 6, 5).unwrap();
            let stopped = BuildIdTable::parse(&section, order).stopped.unwrap();
            assert_eq!((stopped.kind(), stopped.offset()), (ErrorKind::Corrupt, Some(100)));
        }
    }

    #[test]
    fn every_prefix_and_every_byte_flip_ends() {
        let (section, _) = two_entries(ByteOrder::Little);
        for end in 0..section.len() {
            let table = BuildIdTable::parse(&section[..end], ByteOrder::Little);
            assert!(table.entries.len() <= end / 100, "prefix of {end}");
        }
        for at in 0..section.len() {
            let mut flipped = section.clone();
            flipped[at] ^= 0xff;
            for order in ORDERS {
                let table = BuildIdTable::parse(&flipped, order);
                let covered: usize = table.gaps.iter().map(|gap| gap.1).sum();
                assert!(table.entries.len() * FIXED_SIZE + covered <= section.len());
            }
        }
    }

    #[test]
    fn tables_without_pids_are_recognised() {
        let order = ByteOrder::Little;
        let mut section = Vec::new();
        order.put_u32(&mut section, 0);
        order.put_u16(&mut section, 1);
        order.put_u16(&mut section, 96);
        section.extend([0xab; 20]);
        section.extend([0; 4]);
        section.extend(b"[kernel.kallsyms]");
        section.resize(96, 0);
        let table = BuildIdTable::parse(&section, order);
        assert_eq!(names(&table), [b"[kernel.kallsyms]"]);
        assert_eq!(table.entries[0].build_id(), BuildId::from_bytes(&[0xab; 20]));
    }

    #[test]
    fn a_name_too_long_for_an_entry_is_refused() {
        let name = vec![b'x'; 65_500];
        let mut out = Vec::new();
        let e = BuildIdEntry::new(&id("01"), CpuMode::User, -1, &name).emit(ByteOrder::Little, &mut out);
        assert_eq!(e.unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(out.is_empty());
    }
}
