//! From a recording as a value to bytes: file format, pipe format, a directory, compressed or not.

use std::path::Path;

use zstd::stream::raw::Operation as _;

use super::recording::{Container, Record, Recording, feature, kind};
use super::wire::{Bytes, Order};

const MAGIC2: u64 = u64::from_le_bytes(*b"PERFILE2");

/// How compressed records are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Record 81: the chunk fills the record.
    V1,
    /// Record 83: a data size, the chunk, padding to eight.
    V2,
}

/// A record of a type from its body.
pub fn record(order: Order, kind: u32, misc: u16, body: &[u8]) -> Record {
    let size = 8 + body.len();
    assert!(size <= 0xffff, "record type {kind} of {size} bytes");
    let mut b = Bytes::new(order);
    b.u32(kind).u16(misc).u16(size as u16).raw(body);
    Record { bytes: b.out, payload: Vec::new() }
}

impl Recording {
    /// The records' bytes, one after the other.
    pub fn stream(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for r in &self.records {
            out.extend_from_slice(&r.bytes);
            out.extend_from_slice(&r.payload);
        }
        out
    }

    /// The bytes in the container that the recording says it stands in.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self.container {
            Container::File => self.to_file(),
            Container::Pipe => self.to_pipe(),
        }
    }

    /// A file, laid out as perf does: header, ids, attrs, event types, data, section table, sections.
    pub fn to_file(&self) -> Vec<u8> {
        self.to_file_with_data(&self.stream())
    }

    fn to_file_with_data(&self, data: &[u8]) -> Vec<u8> {
        let entry = self.attrs.first().map_or(136, |a| a.raw.len()) + 16;
        let ids_at = 104;
        let attrs_at = ids_at + self.attrs.iter().map(|a| a.ids.len() * 8).sum::<usize>();
        let types_at = attrs_at + self.attrs.len() * entry;
        let data_at = types_at + self.event_types.len();

        let mut b = Bytes::new(self.order);
        b.u64(MAGIC2).u64(104).u64(entry as u64);
        b.u64(attrs_at as u64).u64((self.attrs.len() * entry) as u64);
        b.u64(data_at as u64).u64(data.len() as u64);
        if self.event_types.is_empty() {
            b.u64(0).u64(0);
        } else {
            b.u64(types_at as u64).u64(self.event_types.len() as u64);
        }
        for word in 0..4u32 {
            let bits = self.features.keys().filter(|&&f| f / 64 == word).fold(0u64, |w, f| w | 1 << (f % 64));
            b.u64(bits);
        }
        for attr in &self.attrs {
            b.u64s(attr.ids.iter().copied());
        }
        let mut at = ids_at;
        for attr in &self.attrs {
            assert_eq!(attr.raw.len() + 16, entry, "a file's attrs are of one size");
            b.raw(&attr.raw).u64(at as u64).u64((attr.ids.len() * 8) as u64);
            at += attr.ids.len() * 8;
        }
        b.raw(&self.event_types.clone());
        assert_eq!(b.out.len(), data_at);
        b.raw(data);

        let mut at = b.out.len() + self.features.len() * 16;
        let sections: Vec<Vec<u8>> =
            self.features.iter().map(|(&id, raw)| self.section(id, raw, data_at)).collect();
        for s in &sections {
            b.u64(at as u64).u64(s.len() as u64);
            at += s.len();
        }
        for s in &sections {
            b.raw(s);
        }
        b.out
    }

    /// A section's bytes; the AUXTRACE index is made anew, since it holds offsets of the file.
    fn section(&self, id: u32, raw: &[u8], data_at: usize) -> Vec<u8> {
        if id == feature::AUXTRACE { self.auxtrace_index(data_at) } else { raw.to_vec() }
    }

    fn auxtrace_index(&self, data_at: usize) -> Vec<u8> {
        let mut entries = Vec::new();
        let mut at = data_at as u64;
        for r in &self.records {
            if r.kind(self.order) == kind::AUXTRACE {
                entries.extend([at, r.bytes.len() as u64]);
            }
            at += r.len() as u64;
        }
        let mut b = Bytes::new(self.order);
        b.u64(entries.len() as u64 / 2).u64s(entries);
        b.out
    }

    /// A pipe: header of 16 bytes, then the stream, with attrs and features as records before it.
    pub fn to_pipe(&self) -> Vec<u8> {
        let mut b = Bytes::new(self.order);
        b.u64(MAGIC2).u64(16);
        for r in self.preamble() {
            b.raw(&r.bytes).raw(&r.payload);
        }
        b.raw(&self.stream());
        b.out
    }

    /// The records that stand for attrs and features in a pipe.
    pub fn preamble(&self) -> Vec<Record> {
        let mut out = Vec::new();
        for attr in &self.attrs {
            let mut b = Bytes::new(self.order);
            b.raw(attr.counted(self.order)).u64s(attr.ids.iter().copied());
            out.push(record(self.order, kind::HEADER_ATTR, 0, &b.out));
        }
        for (&id, raw) in &self.features {
            match id {
                feature::TRACING_DATA => {
                    let len = raw.len().next_multiple_of(8);
                    let mut payload = raw.clone();
                    payload.resize(len, 0);
                    let mut b = Bytes::new(self.order);
                    b.u32(len as u32);
                    let mut r = record(self.order, kind::HEADER_TRACING_DATA, 0, &b.out);
                    r.payload = payload;
                    out.push(r);
                }
                feature::BUILD_ID => {
                    let mut rest = &raw[..];
                    while rest.len() >= 8 {
                        let (one, next) = rest.split_at(self.order.u16(rest, 6).into());
                        let mut r =
                            record(self.order, kind::HEADER_BUILD_ID, self.order.u16(one, 4), &one[8..]);
                        assert_eq!(r.bytes.len(), one.len());
                        r.bytes[4..8].copy_from_slice(&one[4..8]);
                        out.push(r);
                        rest = next;
                    }
                }
                // these say what a pipe has no use for
                feature::AUXTRACE | feature::DIR_FORMAT => {}
                _ => {
                    let mut b = Bytes::new(self.order);
                    b.u64(id.into()).raw(raw);
                    out.push(record(self.order, kind::HEADER_FEATURE, 0, &b.out));
                }
            }
        }
        out
    }

    /// A directory: `data` holds the header and the records for which `which` gives `None`, `data.N` those of `Some(N)`.
    pub fn to_dir(&self, dir: &Path, which: impl Fn(usize, &Record) -> Option<usize>) {
        std::fs::create_dir(dir).unwrap();
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut own = Vec::new();
        for (i, r) in self.records.iter().enumerate() {
            let part = match which(i, r) {
                None => &mut own,
                Some(n) => {
                    parts.resize(parts.len().max(n + 1), Vec::new());
                    &mut parts[n]
                }
            };
            part.extend_from_slice(&r.bytes);
            part.extend_from_slice(&r.payload);
        }
        let mut head = self.clone();
        let mut version = Bytes::new(self.order);
        version.u64(1);
        head.features.insert(feature::DIR_FORMAT, version.out);
        std::fs::write(dir.join("data"), head.to_file_with_data(&own)).unwrap();
        for (n, part) in parts.iter().enumerate() {
            std::fs::write(dir.join(format!("data.{n}")), part).unwrap();
        }
    }

    /// The same recording with its records inside zstd chunks of at most `chunk` bytes of input each, which
    /// cut records where they fall. Attr and feature records of a pipe stay outside, as perf leaves them.
    pub fn compressed(&self, framing: Framing, chunk: usize) -> Recording {
        let outside = |r: &Record| {
            matches!(r.kind(self.order), kind::HEADER_ATTR | kind::HEADER_FEATURE | kind::HEADER_TRACING_DATA)
        };
        let mut plain = Vec::new();
        let mut records = Vec::new();
        for r in &self.records {
            if outside(r) {
                records.push(r.clone());
            } else {
                plain.extend_from_slice(&r.bytes);
                plain.extend_from_slice(&r.payload);
            }
        }
        for packed in deflate(plain.chunks(chunk)) {
            records.push(match framing {
                Framing::V1 => record(self.order, kind::COMPRESSED, 0, &packed),
                Framing::V2 => self.compressed2(&packed),
            });
        }
        let mut out = Recording { records, ..self.clone() };
        let mut b = Bytes::new(self.order);
        b.u32(1).u32(1).u32(1).u32(4).u32(512 * 1024);
        if self.container == Container::File {
            out.features.insert(feature::COMPRESSED, b.out);
        } else {
            let mut body = Bytes::new(self.order);
            body.u64(feature::COMPRESSED.into()).raw(&b.out);
            out.records.insert(0, record(self.order, kind::HEADER_FEATURE, 0, &body.out));
        }
        out
    }

    /// One COMPRESSED2 record around zstd bytes, as perf 6.16 writes it: chunks of at most 65519 bytes, each
    /// after the first behind a header of its own, whose size is right and whose data size is left over; the
    /// outer size is rounded up to eight and loses all but 16 bits, and only a size that did not wrap is padded.
    pub fn compressed2(&self, packed: &[u8]) -> Record {
        let mut inner = Bytes::new(self.order);
        for (i, chunk) in packed.chunks(65519).enumerate() {
            if i > 0 {
                let size = 16 + chunk.len();
                inner.u32(kind::COMPRESSED2).u16(0).u16(size as u16).u64(0xdead_beef_dead_beef);
            }
            inner.raw(chunk);
        }
        let total = 16 + inner.out.len();
        let rounded = total.next_multiple_of(8);
        let mut b = Bytes::new(self.order);
        b.u32(kind::COMPRESSED2).u16(0).u16(rounded as u16).u64(inner.out.len() as u64).raw(&inner.out);
        if rounded <= 0xffff {
            b.out.resize(rounded, 0);
        }
        Record { bytes: b.out, payload: Vec::new() }
    }
}

/// Compresses parts into one zstd frame that is flushed after each and never ended, as perf does.
pub fn deflate<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut encoder = zstd::stream::raw::Encoder::new(1).unwrap();
    parts
        .map(|part| {
            let mut out = vec![0; zstd::zstd_safe::compress_bound(part.len()) + 1024];
            let status = encoder.run_on_buffers(part, &mut out).unwrap();
            assert_eq!(status.bytes_read, part.len());
            let mut written = status.bytes_written;
            let mut rest = zstd::stream::raw::OutBuffer::around(&mut out[written..]);
            assert_eq!(encoder.flush(&mut rest).unwrap(), 0);
            written += rest.pos();
            out.truncate(written);
            out
        })
        .collect()
}
