//! A map: a range of addresses of one address space, backed by a DSO.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::dso::Dso;
use crate::event::mmap::MAP_PRIVATE;

/// `MAP_HUGETLB` of `mman.h`.
pub const MAP_HUGETLB: u32 = 0x4_0000;

/// The part of a map that may change while the map sits in an array: see [`Maps::mutate_mapping`].
///
/// [`Maps::mutate_mapping`]: super::maps::Maps::mutate_mapping
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First address.
    pub start: u64,
    /// First address past the map.
    pub end: u64,
    /// Offset in the DSO's file, in bytes, of the first address.
    pub pgoff: u64,
}

/// How an address of a map becomes an address of its DSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// By the offset of the map in the DSO's file.
    File,
    /// Not at all: the DSO's addresses are those of the address space (kernels, JIT symbol files).
    Identity,
}

/// A range of addresses backed by a DSO. Shared as `Arc<Map>` by every address space that forked from the one
/// it was made in, and by whoever resolved an address in it.
///
/// Addresses wrap at 2^64, as those of the machine that was recorded do.
pub struct Map {
    start: AtomicU64,
    end: AtomicU64,
    // What to add to an address to get its file offset, `pgoff - start`: one word, so that no reader mixes
    // the start of before a mutation with the pgoff of after it.
    bias: AtomicU64,
    dso: Arc<Dso>,
    prot: u32,
    flags: u32,
    mapping: Mapping,
}

impl Map {
    /// A map of a file's contents. `prot` and `flags` are those of `mmap(2)`.
    pub fn new(extent: Extent, dso: Arc<Dso>, prot: u32, flags: u32) -> Map {
        Map::with_mapping(extent, dso, prot, flags, Mapping::File)
    }

    /// A map whose addresses its DSO uses as they are, or not, by `mapping`.
    pub fn with_mapping(extent: Extent, dso: Arc<Dso>, prot: u32, flags: u32, mapping: Mapping) -> Map {
        Map {
            start: AtomicU64::new(extent.start),
            end: AtomicU64::new(extent.end),
            bias: AtomicU64::new(extent.pgoff.wrapping_sub(extent.start)),
            dso,
            prot,
            flags,
            mapping,
        }
    }

    /// The same map over another range: what is left of it once another map covers the rest.
    pub(super) fn cut(&self, start: u64, end: u64) -> Map {
        let pgoff = self.bias.load(Relaxed).wrapping_add(start);
        Map::with_mapping(
            Extent { start, end, pgoff },
            Arc::clone(&self.dso),
            self.prot,
            self.flags,
            self.mapping,
        )
    }

    /// First address.
    pub fn start(&self) -> u64 {
        self.start.load(Relaxed)
    }

    /// First address past the map.
    pub fn end(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// Bytes covered.
    pub fn size(&self) -> u64 {
        self.end().saturating_sub(self.start())
    }

    /// Offset in the DSO's file, in bytes, of the first address.
    pub fn pgoff(&self) -> u64 {
        self.bias.load(Relaxed).wrapping_add(self.start())
    }

    /// Start, end and pgoff.
    pub fn extent(&self) -> Extent {
        Extent { start: self.start(), end: self.end(), pgoff: self.pgoff() }
    }

    /// Only for an array that holds its write lock: a map must not move where others bisect.
    pub(super) fn set_extent(&self, extent: Extent) {
        self.start.store(extent.start, Relaxed);
        self.end.store(extent.end, Relaxed);
        self.bias.store(extent.pgoff.wrapping_sub(extent.start), Relaxed);
    }

    /// What backs the map.
    pub fn dso(&self) -> &Arc<Dso> {
        &self.dso
    }

    /// Protection bits of `mmap(2)`; of a MMAP record, which has none, as its misc bit has them.
    pub fn prot(&self) -> u32 {
        self.prot
    }

    /// Flag bits of `mmap(2)`.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// Whether writes stay with the process; the `p` or `s` of /proc/PID/maps.
    pub fn is_private(&self) -> bool {
        self.flags & MAP_PRIVATE != 0
    }

    /// How addresses translate.
    pub fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// Whether `ip` is an address of the map.
    pub fn contains(&self, ip: u64) -> bool {
        self.start() <= ip && ip < self.end()
    }

    /// The DSO's address for an address of the address space: its file offset, or itself.
    pub fn map_ip(&self, ip: u64) -> u64 {
        match self.mapping {
            Mapping::File => ip.wrapping_add(self.bias.load(Relaxed)),
            Mapping::Identity => ip,
        }
    }

    /// The address of the address space for an address of the DSO: the reverse of [`Map::map_ip`].
    pub fn unmap_ip(&self, rip: u64) -> u64 {
        match self.mapping {
            Mapping::File => rip.wrapping_sub(self.bias.load(Relaxed)),
            Mapping::Identity => rip,
        }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Extent { start, end, pgoff } = self.extent();
        write!(f, "Map({start:#x}-{end:#x} @ {pgoff:#x} {})", self.dso.name().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::mmap::PROT_EXEC;
    use crate::session::dso::DsoKind;

    #[test]
    fn addresses_translate_both_ways() {
        let dso = Dso::detached(b"/bin/true", DsoKind::User);
        let extent = Extent { start: 0x5000, end: 0x9000, pgoff: 0x1000 };
        let file = Map::new(extent, Arc::clone(&dso), PROT_EXEC, MAP_PRIVATE);
        assert_eq!((file.map_ip(0x5123), file.unmap_ip(0x1123)), (0x1123, 0x5123));
        assert!(file.contains(0x8fff) && !file.contains(0x9000) && file.is_private());
        let same = Map::with_mapping(extent, dso, 0, 0, Mapping::Identity);
        assert_eq!((same.map_ip(0x5123), same.unmap_ip(0x5123)), (0x5123, 0x5123));
    }

    #[test]
    fn a_cut_keeps_the_file_offset_of_every_address() {
        let dso = Dso::detached(b"/bin/true", DsoKind::User);
        let map = Map::new(Extent { start: 0x5000, end: 0x9000, pgoff: 0x1000 }, dso, 0, 0);
        let tail = map.cut(0x7000, 0x9000);
        assert_eq!(tail.extent(), Extent { start: 0x7000, end: 0x9000, pgoff: 0x3000 });
        assert_eq!(tail.map_ip(0x7010), map.map_ip(0x7010));
    }
}
