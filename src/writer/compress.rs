//! Writes kernel records as COMPRESSED records, each a zstd frame of its own.
//!
//! Frames stand alone, which every reader of perf's single stream takes as well, and end in a skippable frame where
//! the record would not be a multiple of eight, so that no record after it is unaligned. perf's own records and
//! payloads stay plain: perf reads AUX data by file offset.

use std::ops::Range;
use std::sync::Arc;

use zstd::bulk::Compressor as Zstd;

use super::Sink;
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::ByteOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Record, begin_record, type_and_size, user};
use crate::reader::Block;

/// Plain bytes gathered for one record; what compresses worse than two to one is split.
const PLAIN_MAX: usize = 120 << 10;
/// Most bytes of zstd data in one record, with room for a skippable frame.
const DATA_MAX: usize = 65_528 - HEADER_SIZE - 16;
/// The size of a perf reader's buffer for one record's plain bytes (`mmap_len` in the feature).
const READER_BUFFER: u32 = 512 << 10;

/// A sink that compresses what it passes on.
pub struct Compressor<S> {
    inner: S,
    order: ByteOrder,
    zstd: Zstd<'static>,
    plain: Vec<u8>,
    record: Vec<u8>,
    payload: u64,
    plain_total: u64,
    data_total: u64,
}

impl<S: Sink> Compressor<S> {
    /// Compresses at a zstd level (1 to 22).
    pub fn new(inner: S, order: ByteOrder, level: i32) -> Result<Self> {
        let zstd =
            Zstd::new(level).map_err(|e| Error::new(ErrorKind::OutOfMemory, "zstd encoder").because(e))?;
        let (plain, record) = (Vec::with_capacity(PLAIN_MAX), Vec::new());
        Ok(Compressor { inner, order, zstd, plain, record, payload: 0, plain_total: 0, data_total: 0 })
    }

    /// Writes what is gathered and gives the sink back, with the ratio reached (at least 1).
    pub fn finish(mut self) -> Result<(S, u32)> {
        self.flush()?;
        let ratio = self.plain_total.checked_div(self.data_total).unwrap_or(1).max(1);
        Ok((self.inner, u32::try_from(ratio).unwrap_or(u32::MAX)))
    }

    fn flush(&mut self) -> Result<()> {
        if self.plain.is_empty() {
            return Ok(());
        }
        let plain = std::mem::take(&mut self.plain);
        self.chunk(&plain)?;
        self.plain = plain;
        self.plain.clear();
        Ok(())
    }

    fn chunk(&mut self, plain: &[u8]) -> Result<()> {
        let data = self.zstd.compress(plain).map_err(|e| Error::new(ErrorKind::Io, "zstd").because(e))?;
        if data.len() > DATA_MAX {
            let (a, b) = plain.split_at(plain.len() / 2);
            self.chunk(a)?;
            return self.chunk(b);
        }
        self.record.clear();
        let at = begin_record(&mut self.record, self.order, RecordType::COMPRESSED, 0);
        self.record.extend_from_slice(&data);
        let over = self.record.len() % 8;
        if over != 0 {
            // A skippable frame: magic and size, little-endian by zstd's definition, then its bytes.
            let fill = (8 - over) as u32;
            self.record.extend_from_slice(&0x184d_2a50_u32.to_le_bytes());
            self.record.extend_from_slice(&fill.to_le_bytes());
            self.record.resize(self.record.len() + fill as usize, 0);
        }
        let size = self.record.len() as u16;
        self.order.set_u16(&mut self.record, at + 6, size);
        self.plain_total += plain.len() as u64;
        self.data_total += self.record.len() as u64;
        self.inner.bytes(&self.record)
    }

    /// Takes whole records, or payload; calls `pass` for what stays plain.
    fn take(&mut self, bytes: &[u8], mut pass: impl FnMut(&mut S, Range<usize>) -> Result<()>) -> Result<()> {
        let mut at = usize::try_from(self.payload).unwrap_or(usize::MAX).min(bytes.len());
        self.payload -= at as u64;
        if at > 0 {
            pass(&mut self.inner, 0..at)?;
        }
        while let Some(rest) = bytes.get(at..)
            && let Some((ty, size)) = type_and_size(rest, self.order)
        {
            let size = size.max(HEADER_SIZE);
            let raw = rest.get(..size).unwrap_or(rest);
            if ty.is_kernel() {
                if self.plain.len() + raw.len() > PLAIN_MAX {
                    self.flush()?;
                }
                self.plain.extend_from_slice(raw);
                at += raw.len();
            } else {
                self.flush()?;
                let payload =
                    user::payload_size(Record { bytes: raw, order: self.order, pos: 0 }).unwrap_or(0);
                let here = usize::try_from(payload).unwrap_or(usize::MAX).min(rest.len() - raw.len());
                self.payload = payload - here as u64;
                let end = at + raw.len() + here;
                pass(&mut self.inner, at..end)?;
                at = end;
            }
        }
        Ok(())
    }
}

impl<S: Sink> Sink for Compressor<S> {
    fn front(&mut self, bytes: &[u8]) -> Result<()> {
        self.inner.front(bytes)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.take(bytes, |inner, range| inner.bytes(bytes.get(range).unwrap_or_default()))
    }

    fn kept(&mut self, block: &Arc<Block>, range: Range<usize>) -> Result<()> {
        let start = range.start;
        let bytes = block.get(range).unwrap_or_default();
        self.take(bytes, |inner, r| inner.kept(block, start + r.start..start + r.end))
    }

    fn settle(&mut self) -> Result<u64> {
        self.flush()?;
        self.inner.settle()
    }
}

/// The COMPRESSED feature section: u32 version 1, type 1 (zstd), level, ratio, and the reader's buffer size.
pub fn compressed_feature(order: ByteOrder, level: i32, ratio: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [1, 1, level as u32, ratio, READER_BUFFER] {
        order.put_u32(&mut out, word);
    }
    out
}
