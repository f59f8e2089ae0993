//! Raw bytes from a pipe or a compressed part of a file, made into blocks on a thread of their own.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};

use super::block::{Block, Origin};
use super::compressed::{Decompressor, Extent, extent, is_compressed};
use super::framer::{Frame, cut_off, frame, is_perf_talking};
use super::{BLOCK_SIZE, Source};
use crate::abi::record::RecordType;
use crate::bytes::ByteOrder;
use crate::data::{Mapping, PipeInput};
use crate::error::{Error, ErrorKind, Result};

/// Where raw bytes come from.
pub trait Feed: Send {
    /// Appends some bytes to `buf`; 0 at the end.
    fn fill(&mut self, buf: &mut Vec<u8>) -> Result<usize>;
    /// The input's name.
    fn name(&self) -> Arc<PathBuf>;
}

/// A pipe.
pub struct PipeFeed {
    file: File,
    name: Arc<PathBuf>,
}

impl PipeFeed {
    /// Reads on from where the pipe stands.
    pub fn new(pipe: PipeInput) -> Self {
        PipeFeed { file: pipe.file, name: Arc::new(pipe.name) }
    }

    /// Reads exactly `n` bytes, or as many as there are.
    pub fn read_first(&mut self, n: usize) -> Result<Vec<u8>> {
        let mut first = Vec::new();
        (&self.file)
            .take(n as u64)
            .read_to_end(&mut first)
            .map_err(|e| Error::io(e, "cannot read", self.name.as_path()))?;
        Ok(first)
    }
}

/// Least free space to read into, so that a pipe is emptied in one call.
const READ_SIZE: usize = 256 << 10;

impl Feed for PipeFeed {
    fn fill(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
        buf.try_reserve(READ_SIZE)
            .map_err(|e| Error::new(ErrorKind::OutOfMemory, "input buffer").because(e))?;
        loop {
            match rustix::io::read(&self.file, rustix::buffer::spare_capacity(buf)) {
                Ok(n) => return Ok(n),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::io(e.into(), "cannot read", self.name.as_path())),
            }
        }
    }

    fn name(&self) -> Arc<PathBuf> {
        self.name.clone()
    }
}

/// A range of a mapped file.
pub struct MapFeed {
    map: Arc<Mapping>,
    range: Range<usize>,
}

impl MapFeed {
    /// From a range of the file.
    pub fn new(map: &Arc<Mapping>, range: Range<usize>) -> Self {
        MapFeed { map: map.clone(), range }
    }
}

impl Feed for MapFeed {
    fn fill(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
        let n = self.range.len().min(READ_SIZE);
        let end = self.range.start + n;
        buf.extend_from_slice(self.map.get(self.range.start..end).unwrap_or_default());
        self.range.start = end;
        Ok(n)
    }

    fn name(&self) -> Arc<PathBuf> {
        Arc::new(self.map.path().to_path_buf())
    }
}

/// Blocks made on a thread and taken over a bounded channel.
pub struct Threaded {
    blocks: Receiver<Result<Block>>,
    done: bool,
}

/// Blocks that may wait in the channel.
const BLOCKS_AHEAD: usize = 4;

impl Threaded {
    /// Starts the thread; it ends when the feed does, at the first error, or when this is dropped. `base` is both
    /// the stream position and the input offset of the feed's first byte.
    pub fn spawn(feed: impl Feed + 'static, order: ByteOrder, base: u64) -> Self {
        let (send, blocks) = bounded(BLOCKS_AHEAD);
        let failed = send.clone();
        let spawned = std::thread::Builder::new().name("reader".into()).spawn(move || {
            let mut assembler = Assembler::new(feed, order, base);
            loop {
                let next = assembler.next_block();
                let last = !matches!(next, Ok(Some(_)));
                if let Some(next) = next.transpose()
                    && send.send(next).is_err()
                {
                    return;
                }
                if last {
                    return;
                }
            }
        });
        if let Err(e) = spawned {
            // There is room: nothing was sent yet.
            let _ = failed.send(Err(Error::new(ErrorKind::Io, "cannot start a thread to read").because(e)));
        }
        Threaded { blocks, done: false }
    }
}

impl Threaded {
    /// The next block, not shared yet.
    pub fn next_block(&mut self) -> Result<Option<Block>> {
        if self.done {
            return Ok(None);
        }
        match self.blocks.recv() {
            Ok(Ok(block)) => Ok(Some(block)),
            Ok(Err(e)) => {
                self.done = true;
                Err(e)
            }
            Err(_) => Ok(None),
        }
    }
}

impl Source for Threaded {
    fn next(&mut self) -> Result<Option<Arc<Block>>> {
        Ok(self.next_block()?.map(Arc::new))
    }
}

/// Cuts raw bytes into blocks of whole records, decompressing on the way.
struct Assembler<F> {
    feed: F,
    order: ByteOrder,
    name: Arc<PathBuf>,
    /// Raw bytes not used yet, and the input offset of the first.
    raw: Vec<u8>,
    raw_at: u64,
    /// Stream position of the next block.
    base: u64,
    /// Payload bytes of a raw record that are still to come.
    skip: u64,
    /// That record's type and input offset.
    skipped: (RecordType, u64),
    /// Whether the rest is perf's closing words rather than records; it is passed on for the consumer to see.
    talk: bool,
    zstd: Option<Decompressor>,
    /// A compressed record being worked off: the zstd data of its chunks, how much is used, its input offset.
    chunk: Option<(Vec<u8>, usize, u64)>,
    /// Decompressed bytes that are not yet a whole record.
    inner: Vec<u8>,
    /// Payload bytes of a decompressed record that are still to come.
    inner_skip: u64,
}

impl<F: Feed> Assembler<F> {
    fn new(feed: F, order: ByteOrder, base: u64) -> Self {
        let name = feed.name();
        Assembler {
            feed,
            order,
            name,
            raw: Vec::new(),
            raw_at: base,
            base,
            skip: 0,
            skipped: (RecordType(0), base),
            talk: false,
            zstd: None,
            chunk: None,
            inner: Vec::new(),
            inner_skip: 0,
        }
    }

    fn next_block(&mut self) -> Result<Option<Block>> {
        self.next_block_inner().map_err(|e| e.in_file(self.name.as_path()))
    }

    fn next_block_inner(&mut self) -> Result<Option<Block>> {
        loop {
            if self.chunk.is_some() {
                if let Some(block) = self.decompress()? {
                    return Ok(Some(block));
                }
                continue;
            }
            let (run, stop) = self.plain_run()?;
            if run > 0 {
                return Ok(Some(self.take_plain(run)));
            }
            let needs = match stop {
                Stop::Compressed => match extent(&self.raw, self.raw_at, self.order)? {
                    Extent::Whole { total, chunks } => {
                        let mut data = Vec::with_capacity(total);
                        for c in chunks {
                            data.extend_from_slice(self.raw.get(c).unwrap_or_default());
                        }
                        self.raw.drain(..total);
                        self.chunk = Some((data, 0, self.raw_at));
                        self.raw_at += total as u64;
                        continue;
                    }
                    Extent::Short(needs) => needs,
                },
                Stop::Short(needs) => needs,
            };
            if self.feed.fill(&mut self.raw)? == 0 {
                return self.end(stop, needs);
            }
        }
    }

    /// What the end of the input means: nothing if no record is cut.
    fn end(&self, stop: Stop, needs: usize) -> Result<Option<Block>> {
        let ty = self.order.u32(&self.raw, 0).map(RecordType);
        match stop {
            _ if self.skip > 0 => Err(Error::truncated(
                self.skipped.1,
                format!("the input ends {} bytes before the end of the record's payload", self.skip),
            )
            .in_record(self.skipped.0)
            .hint("--salvage keeps the whole records before it")),
            Stop::Compressed => Err(cut_off(ty, needs, self.raw.len(), self.raw_at)),
            Stop::Short(_) if !self.raw.is_empty() => Err(cut_off(ty, needs, self.raw.len(), self.raw_at)),
            Stop::Short(_) if !self.inner.is_empty() || self.inner_skip > 0 => {
                Err(Error::truncated(self.raw_at, "the decompressed data ends within a record")
                    .hint("--salvage keeps the whole records before it"))
            }
            Stop::Short(_) => Ok(None),
        }
    }

    /// Bytes at the start of `raw` that are whole plain records or payload, and why it stops there.
    fn plain_run(&mut self) -> Result<(usize, Stop)> {
        if self.talk {
            return Ok((self.raw.len(), Stop::Short(1)));
        }
        let mut at = usize::try_from(self.skip).unwrap_or(usize::MAX).min(self.raw.len());
        self.skip -= at as u64;
        if self.skip > 0 {
            return Ok((at, Stop::Short(1)));
        }
        loop {
            let rest = self.raw.get(at..).unwrap_or_default();
            let pos = self.raw_at + at as u64;
            match is_perf_talking(rest) {
                Some(false) => {}
                Some(true) => {
                    self.talk = true;
                    return Ok((self.raw.len(), Stop::Short(1)));
                }
                None if rest.is_empty() => {}
                None => return Ok((at, Stop::Short(rest.len() + 1))),
            }
            if let Some(ty) = self.order.u32(rest, 0)
                && is_compressed(RecordType(ty))
            {
                return Ok((at, Stop::Compressed));
            }
            match frame(rest, pos, self.order) {
                Ok(Frame::Record { ty, size, payload }) => {
                    let whole = usize::try_from(payload).unwrap_or(usize::MAX);
                    let take = whole.min(rest.len() - size);
                    at += size + take;
                    self.skip = payload - take as u64;
                    self.skipped = (ty, pos);
                    if self.skip > 0 {
                        return Ok((at, Stop::Short(1)));
                    }
                }
                Ok(Frame::Short { needs, .. }) => return Ok((at, Stop::Short(needs))),
                // What precedes a bad record goes out first; the error comes again with the next call.
                Err(_) if at > 0 => return Ok((at, Stop::Short(0))),
                Err(e) => return Err(e),
            }
        }
    }

    fn take_plain(&mut self, run: usize) -> Block {
        let tail = self.raw.split_off(run);
        let bytes = std::mem::replace(&mut self.raw, tail);
        let origin = Origin { file: self.name.clone(), offset: self.raw_at, decompressed: false };
        self.raw_at += run as u64;
        self.block(bytes, origin)
    }

    fn block(&mut self, bytes: Vec<u8>, origin: Origin) -> Block {
        let block = Block::heap(bytes, self.base, origin);
        self.base = block.end();
        block
    }

    /// Goes on with the compressed record at hand; a block of the whole records that are out by now.
    fn decompress(&mut self) -> Result<Option<Block>> {
        let Some((data, used, at)) = &mut self.chunk else { return Ok(None) };
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(Decompressor::new()?),
        };
        let offset = *at;
        if zstd.run(data, used, &mut self.inner, BLOCK_SIZE, offset)? {
            self.chunk = None;
        }
        let run = self.inner_run(offset)?;
        if run == 0 {
            return Ok(None);
        }
        let tail = self.inner.split_off(run);
        let bytes = std::mem::replace(&mut self.inner, tail);
        let origin = Origin { file: self.name.clone(), offset, decompressed: true };
        Ok(Some(self.block(bytes, origin)))
    }

    fn inner_run(&mut self, offset: u64) -> Result<usize> {
        let mut at = usize::try_from(self.inner_skip).unwrap_or(usize::MAX).min(self.inner.len());
        self.inner_skip -= at as u64;
        while self.inner_skip == 0 {
            let rest = self.inner.get(at..).unwrap_or_default();
            match frame(rest, offset, self.order) {
                Ok(Frame::Record { ty, .. }) if is_compressed(ty) => {
                    let e =
                        Error::corrupt(offset, "a compressed record within decompressed data").in_record(ty);
                    return if at > 0 { Ok(at) } else { Err(e) };
                }
                Ok(Frame::Record { size, payload, .. }) => {
                    let take = usize::try_from(payload).unwrap_or(usize::MAX).min(rest.len() - size);
                    at += size + take;
                    self.inner_skip = payload - take as u64;
                }
                Ok(Frame::Short { .. }) => break,
                Err(_) if at > 0 => break,
                Err(e) => return Err(e.note("in decompressed data")),
            }
        }
        Ok(at)
    }
}

#[derive(Clone, Copy)]
enum Stop {
    Compressed,
    Short(usize),
}
