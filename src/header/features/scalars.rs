//! Sections of one or two numbers: NRCPUS, TOTAL_MEM, SAMPLE_TIME, CLOCKID, CLOCK_DATA, DIR_FORMAT,
//! COMPRESSED, E_MACHINE, CLN_SIZE. BRANCH_STACK and STAT are flags: their sections are empty.

use super::reader::Reader;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// NRCPUS: how many CPUs the machine had. The section holds first those available, then those on line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NrCpus {
    /// CPUs present, on line or not.
    pub available: u32,
    /// CPUs on line.
    pub online: u32,
}

impl NrCpus {
    /// Parses the section. Errors if it is too short.
    pub fn parse(section: &[u8], order: ByteOrder) -> Result<NrCpus> {
        let mut r = Reader::new(Feature::NRCPUS, section, order);
        Ok(NrCpus { available: r.u32()?, online: r.u32()? })
    }
}

/// Parses TOTAL_MEM: memory of the machine in KiB.
pub fn parse_total_mem(section: &[u8], order: ByteOrder) -> Result<u64> {
    Reader::new(Feature::TOTAL_MEM, section, order).u64()
}

/// SAMPLE_TIME: times of the first and last sample, ns of the recording's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleTime {
    /// The first sample's time.
    pub first: u64,
    /// The last sample's time.
    pub last: u64,
}

impl SampleTime {
    /// Parses the section. Errors if it is too short.
    pub fn parse(section: &[u8], order: ByteOrder) -> Result<SampleTime> {
        let mut r = Reader::new(Feature::SAMPLE_TIME, section, order);
        Ok(SampleTime { first: r.u64()?, last: r.u64()? })
    }

    /// Appends the section.
    pub fn emit(&self, order: ByteOrder, out: &mut Vec<u8>) {
        order.put_u64(out, self.first);
        order.put_u64(out, self.last);
    }
}

/// Parses CLOCKID: resolution in ns of the clock that `perf record -k` chose.
pub fn parse_clockid(section: &[u8], order: ByteOrder) -> Result<u64> {
    Reader::new(Feature::CLOCKID, section, order).u64()
}

/// CLOCK_DATA: the recording's clock and the wall clock, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockData {
    /// Version of the layout; 1 is the only one so far.
    pub version: u32,
    /// `clockid_t` of the recording's clock.
    pub clockid: u32,
    /// Wall clock, ns since 1970.
    pub wall_ns: u64,
    /// The recording's clock at that moment, ns.
    pub clock_ns: u64,
}

impl ClockData {
    /// Parses the section. Errors if it is too short.
    pub fn parse(section: &[u8], order: ByteOrder) -> Result<ClockData> {
        let mut r = Reader::new(Feature::CLOCK_DATA, section, order);
        Ok(ClockData { version: r.u32()?, clockid: r.u32()?, wall_ns: r.u64()?, clock_ns: r.u64()? })
    }
}

/// Parses DIR_FORMAT: version of a directory recording's layout, 1 so far.
pub fn parse_dir_format(section: &[u8], order: ByteOrder) -> Result<u64> {
    Reader::new(Feature::DIR_FORMAT, section, order).u64()
}

/// Appends a DIR_FORMAT section.
pub fn emit_dir_format(version: u64, order: ByteOrder, out: &mut Vec<u8>) {
    order.put_u64(out, version);
}

/// COMPRESSED: how the records were compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Version of the layout, 1 so far.
    pub version: u32,
    /// Algorithm: 0 none, 1 zstd.
    pub algorithm: u32,
    /// Compression level.
    pub level: u32,
    /// Uncompressed bytes for each compressed one, rounded.
    pub ratio: u32,
    /// Size in bytes of the kernel buffers; no chunk holds more uncompressed bytes than this.
    pub mmap_len: u32,
}

impl Compressed {
    /// The algorithm number of zstd (`PERF_COMP_ZSTD`).
    pub const ZSTD: u32 = 1;

    /// Parses the section. Errors if it is too short.
    pub fn parse(section: &[u8], order: ByteOrder) -> Result<Compressed> {
        let mut r = Reader::new(Feature::COMPRESSED, section, order);
        Ok(Compressed {
            version: r.u32()?,
            algorithm: r.u32()?,
            level: r.u32()?,
            ratio: r.u32()?,
            mmap_len: r.u32()?,
        })
    }

    /// Appends the section.
    pub fn emit(&self, order: ByteOrder, out: &mut Vec<u8>) {
        for word in [self.version, self.algorithm, self.level, self.ratio, self.mmap_len] {
            order.put_u32(out, word);
        }
    }
}

/// E_MACHINE: ELF machine of the recorded processes (`EM_*`), and the ELF header's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EMachine {
    /// `e_machine`, widened to 32 bits.
    pub machine: u32,
    /// `e_flags`.
    pub flags: u32,
}

impl EMachine {
    /// Parses the section. Errors if it is too short.
    pub fn parse(section: &[u8], order: ByteOrder) -> Result<EMachine> {
        let mut r = Reader::new(Feature::E_MACHINE, section, order);
        Ok(EMachine { machine: r.u32()?, flags: r.u32()? })
    }
}

/// Parses CLN_SIZE: bytes of a cache line.
pub fn parse_cache_line_size(section: &[u8], order: ByteOrder) -> Result<u32> {
    Reader::new(Feature::CLN_SIZE, section, order).u32()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

    #[test]
    fn available_cpus_come_first() {
        let little = [8, 0, 0, 0, 6, 0, 0, 0];
        let big = [0, 0, 0, 8, 0, 0, 0, 6];
        for (order, bytes) in [(ByteOrder::Little, little), (ByteOrder::Big, big)] {
            assert_eq!(NrCpus::parse(&bytes, order).unwrap(), NrCpus { available: 8, online: 6 });
        }
        assert_eq!(NrCpus::parse(&little[..7], ByteOrder::Little).unwrap_err().offset(), Some(4));
    }

    #[test]
    fn numbers_follow_the_byte_order() {
        assert_eq!(parse_total_mem(&[0, 4, 0, 0, 0, 0, 0, 0], ByteOrder::Little).unwrap(), 1024);
        assert_eq!(parse_total_mem(&[0, 0, 0, 0, 0, 0, 4, 0], ByteOrder::Big).unwrap(), 1024);
        assert_eq!(parse_clockid(&[1, 0, 0, 0, 0, 0, 0, 0], ByteOrder::Little).unwrap(), 1);
        assert_eq!(parse_cache_line_size(&[0, 0, 0, 64], ByteOrder::Big).unwrap(), 64);
        let machine = EMachine::parse(&[0, 0, 0, 183, 0, 0, 0, 5], ByteOrder::Big).unwrap();
        assert_eq!(machine, EMachine { machine: 183, flags: 5 });
    }

    #[test]
    fn emitted_sections_read_back() {
        for order in ORDERS {
            let mut out = Vec::new();
            let time = SampleTime { first: 0x0102_0304_0506_0708, last: 9 };
            time.emit(order, &mut out);
            assert_eq!(out.len(), 16);
            assert_eq!(out[0], if order == ByteOrder::Little { 8 } else { 1 });
            assert_eq!(SampleTime::parse(&out, order).unwrap(), time);

            out.clear();
            let compressed =
                Compressed { version: 1, algorithm: Compressed::ZSTD, level: 3, ratio: 5, mmap_len: 528_384 };
            compressed.emit(order, &mut out);
            assert_eq!(out.len(), 20);
            assert_eq!(Compressed::parse(&out, order).unwrap(), compressed);

            out.clear();
            emit_dir_format(1, order, &mut out);
            assert_eq!(parse_dir_format(&out, order).unwrap(), 1);
        }
    }

    #[test]
    fn clock_data_pairs_the_wall_clock_with_the_recordings() {
        let mut bytes = Vec::new();
        for order in ORDERS {
            bytes.clear();
            order.put_u32(&mut bytes, 1);
            order.put_u32(&mut bytes, 4);
            order.put_u64(&mut bytes, 1_700_000_000_000_000_000);
            order.put_u64(&mut bytes, 12_345);
            let expected =
                ClockData { version: 1, clockid: 4, wall_ns: 1_700_000_000_000_000_000, clock_ns: 12_345 };
            assert_eq!(ClockData::parse(&bytes, order).unwrap(), expected);
        }
        assert_eq!(ClockData::parse(&bytes[..20], ByteOrder::Big).unwrap_err().offset(), Some(16));
    }
}
