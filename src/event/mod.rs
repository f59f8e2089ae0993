//! Records, parsed on demand from their bytes.
//!
//! A [`Record`] is a view of a whole record; the modules parse one kind each. Layouts are those of
//! `perf_event.h` (types below 64) and of libperf's `event.h` (from 64 on).

pub mod ksymbol;
pub mod mmap;
pub mod sample;
pub mod task;
pub mod user;

use crate::abi::misc::CpuMode;
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::ByteOrder;
use crate::error::Error;
use crate::evlist::{Evlist, TrailerLayout};

/// A view of one record: all its bytes as its header's size says, its byte order, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The whole record, header included; at least 8 bytes.
    pub bytes: &'a [u8],
    /// Byte order of the recording.
    pub order: ByteOrder,
    /// Position in the record stream: the file offset, or the offset in the decompressed stream.
    pub pos: u64,
}

impl<'a> Record<'a> {
    /// The record's type.
    #[inline]
    pub fn ty(&self) -> RecordType {
        RecordType(self.order.u32(self.bytes, 0).unwrap_or(0))
    }

    /// The misc word of the header.
    #[inline]
    pub fn misc(&self) -> u16 {
        self.order.u16(self.bytes, 4).unwrap_or(0)
    }

    /// Who ran when it was made.
    #[inline]
    pub fn cpumode(&self) -> CpuMode {
        CpuMode::from_misc(self.misc())
    }

    /// What follows the header.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.bytes.get(HEADER_SIZE..).unwrap_or_default()
    }

    /// The body without the sample id trailer, and the trailer; the trailer is empty if the record is too short.
    pub fn split_trailer(&self, trailer: &TrailerLayout) -> (&'a [u8], &'a [u8]) {
        let body = self.body();
        match body.len().checked_sub(trailer.size) {
            Some(at) => body.split_at_checked(at).unwrap_or((body, &[])),
            None => (body, &[]),
        }
    }

    /// An error in this record.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::corrupt(self.pos, message).in_record(self.ty())
    }

    /// The time of a kernel record, ns; `None` if it has none. perf treats 0 and all ones as no time.
    #[inline]
    pub fn time(&self, evlist: &Evlist) -> Option<u64> {
        let ty = self.ty();
        let time = if ty == RecordType::SAMPLE {
            evlist.time_of_sample(self.bytes)?
        } else if ty.is_kernel() {
            let back = evlist.trailer_of(self.bytes)?.time_from_end()?;
            self.order.u64(self.bytes, self.bytes.len().checked_sub(back).filter(|&at| at >= HEADER_SIZE)?)?
        } else {
            return None;
        };
        (time != 0 && time != u64::MAX).then_some(time)
    }
}

/// First type of simpleperf's own records.
const SIMPLEPERF_FIRST: u32 = 32768;

/// Type and size of the record at the start of `bytes`; `None` if its header is not all there.
///
/// simpleperf's own records hold the upper half of a 32-bit size where others have the misc word (`record.h` of
/// simpleperf).
#[inline]
pub fn type_and_size(bytes: &[u8], order: ByteOrder) -> Option<(RecordType, usize)> {
    let (ty, size) = (order.u32(bytes, 0)?, usize::from(order.u16(bytes, 6)?));
    if ty < SIMPLEPERF_FIRST {
        return Some((RecordType(ty), size));
    }
    let upper = usize::from(order.u16(bytes, 4)?);
    Some((RecordType(ty), upper << 16 | size))
}

/// Starts a record in `out` and returns where, for [`finish_record`].
pub fn begin_record(out: &mut Vec<u8>, order: ByteOrder, ty: RecordType, misc: u16) -> usize {
    let at = out.len();
    order.put_u32(out, ty.0);
    order.put_u16(out, misc);
    order.put_u16(out, 0);
    at
}

/// Pads the record that [`begin_record`] started to eight bytes and writes its size, the only place where a
/// header's size is computed. `None` if the record is too large for the 16-bit size; it is then taken back.
pub fn finish_record(out: &mut Vec<u8>, order: ByteOrder, at: usize) -> Option<()> {
    while !(out.len() - at).is_multiple_of(8) {
        out.push(0);
    }
    let size = u16::try_from(out.len() - at).ok();
    match size.and_then(|size| order.set_u16(out, at + 6, size)) {
        Some(()) => Some(()),
        None => {
            out.truncate(at);
            None
        }
    }
}
