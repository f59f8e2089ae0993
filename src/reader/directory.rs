//! Several files of records read as one stream, interleaved by time.
//!
//! Each `data.N` is one CPU's buffer, sorted by time; there are no round marks. The part whose latest record is
//! oldest is read next, a piece of bounded size at a time, so that the stream is nearly sorted and every piece can
//! say up to when nothing earlier follows.

use std::ops::Range;
use std::sync::Arc;

use super::Source;
use super::block::Block;
use super::compressed::is_compressed;
use super::feed::{MapFeed, Threaded};
use super::framer::{Frame, cut_off, frame};
use crate::abi::record::RecordType;
use crate::bytes::ByteOrder;
use crate::data::Mapping;
use crate::error::Result;
use crate::event::Record;
use crate::evlist::Evlist;

/// Bytes of one piece of a part.
const PIECE: usize = 256 << 10;

enum Bytes {
    Map(Arc<Mapping>, Range<usize>),
    Thread(Threaded),
}

struct Part {
    bytes: Bytes,
    /// Latest time seen in it, ns.
    last: u64,
    done: bool,
}

/// The files of a directory as one stream.
pub struct DirectorySource {
    parts: Vec<Part>,
    evlist: Evlist,
    order: ByteOrder,
    base: u64,
}

impl DirectorySource {
    /// Over ranges of mapped files; the first is read first where nothing else decides.
    pub fn new(parts: Vec<(Arc<Mapping>, Range<usize>)>, evlist: Evlist) -> Self {
        let order = evlist.order();
        let parts =
            parts.into_iter().map(|(m, r)| Part { bytes: Bytes::Map(m, r), last: 0, done: false }).collect();
        DirectorySource { parts, evlist, order, base: 0 }
    }

    /// The next piece of one part.
    fn piece(&mut self, index: usize) -> Result<Option<Block>> {
        let base = self.base;
        let Some(part) = self.parts.get_mut(index) else { return Ok(None) };
        loop {
            match &mut part.bytes {
                Bytes::Thread(thread) => return Ok(thread.next_block()?.map(|b| b.rebased(base))),
                Bytes::Map(map, range) => {
                    let map = map.clone();
                    let (len, compressed) =
                        piece_len(&map, range.clone(), self.order).map_err(|e| e.in_file(map.path()))?;
                    if len > 0 {
                        let taken = range.start..range.start + len;
                        range.start += len;
                        return Ok(Some(Block::mapped(&map, taken, base)));
                    }
                    if !compressed {
                        return Ok(None);
                    }
                    let feed = MapFeed::new(&map, range.clone());
                    part.bytes = Bytes::Thread(Threaded::spawn(feed, self.order, range.start as u64));
                }
            }
        }
    }

    /// Latest time of the records in a piece.
    fn latest(&self, block: &Block) -> u64 {
        let mut at = 0;
        let mut latest = 0;
        while let Some(rest) = block.get(at..)
            && let Ok(Frame::Record { size, payload, .. }) = frame(rest, 0, self.order)
        {
            let bytes = rest.get(..size).unwrap_or_default();
            let record = Record { bytes, order: self.order, pos: 0 };
            latest = latest.max(record.time(&self.evlist).unwrap_or(0));
            at = at.saturating_add(size).saturating_add(usize::try_from(payload).unwrap_or(usize::MAX));
        }
        latest
    }
}

impl Source for DirectorySource {
    fn next(&mut self) -> Result<Option<Arc<Block>>> {
        loop {
            let live = self.parts.iter().enumerate().filter(|(_, p)| !p.done);
            let Some(index) = live.min_by_key(|(_, p)| p.last).map(|(i, _)| i) else { return Ok(None) };
            let block = self.piece(index)?;
            let latest = block.as_ref().map(|b| self.latest(b));
            if let Some(part) = self.parts.get_mut(index) {
                match latest {
                    Some(latest) => part.last = part.last.max(latest),
                    None => part.done = true,
                }
            }
            if let Some(block) = block {
                self.base = block.end();
                let horizon = self.parts.iter().filter(|p| !p.done).map(|p| p.last).min();
                return Ok(Some(Arc::new(block.with_horizon(horizon))));
            }
        }
    }

    fn is_merged(&self) -> bool {
        true
    }
}

/// Bytes at the start of `range` that are whole plain records, up to about [`PIECE`] (more where a payload is
/// larger), and whether a compressed record follows.
fn piece_len(map: &Mapping, range: Range<usize>, order: ByteOrder) -> Result<(usize, bool)> {
    let bytes = map.get(range.clone()).unwrap_or_default();
    let mut at = 0usize;
    while at < PIECE && at < bytes.len() {
        let pos = (range.start + at) as u64;
        let rest = bytes.get(at..).unwrap_or_default();
        // The size of a COMPRESSED2 record may have wrapped, to 0 even; its type alone is looked at.
        if order.u32(rest, 0).is_some_and(|ty| is_compressed(RecordType(ty))) {
            return Ok((at, true));
        }
        match frame(rest, pos, order)? {
            Frame::Record { ty, size, payload } => {
                let end = usize::try_from(payload).ok().and_then(|p| p.checked_add(at + size));
                match end.filter(|&end| end <= bytes.len()) {
                    Some(end) => at = end,
                    None => return Err(cut_off(Some(ty), size, rest.len(), pos).note("its payload is cut")),
                }
            }
            Frame::Short { ty, needs } => return Err(cut_off(ty, needs, rest.len(), pos)),
        }
    }
    Ok((at, false))
}
