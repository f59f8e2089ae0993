//! The stream of records over any input, decompressed.
//!
//! A [`Source`] yields [`Block`]s: contiguous bytes of the stream that hold whole records, except that the payload
//! behind an AUXTRACE or HEADER_TRACING_DATA record may go on into the blocks that follow. A mapped file is one
//! block and is not copied; pipes and compressed parts are read on a thread of their own over a bounded channel.

mod block;
mod compressed;
mod directory;
mod feed;
mod framer;
mod recording;

pub use block::{Block, Origin};
pub use compressed::is_compressed;
pub use directory::DirectorySource;
pub use feed::{PipeFeed, Threaded};
pub use framer::{Frame, cut_off, frame, is_perf_talking, too_small};
pub use recording::{Form, OpenOptions, Recording};

use std::sync::Arc;

use crate::bytes::ByteOrder;
use crate::data::Mapping;
use crate::error::Result;

/// Yields the blocks of a record stream in order.
pub trait Source {
    /// The next block; `None` at the end.
    fn next(&mut self) -> Result<Option<Arc<Block>>>;

    /// Whether several files are read as one, so that their own round marks say nothing.
    fn is_merged(&self) -> bool {
        false
    }
}

/// Bytes that a block of a pipe or of decompressed data aims at.
pub const BLOCK_SIZE: usize = 1 << 20;

/// The data of a mapped file: one block, plain.
pub struct MapSource {
    block: Option<Arc<Block>>,
}

impl MapSource {
    /// Over `range` of the file.
    pub fn new(map: &Arc<Mapping>, range: std::ops::Range<usize>) -> Self {
        let base = range.start as u64;
        MapSource { block: Some(Arc::new(Block::mapped(map, range, base))) }
    }
}

impl Source for MapSource {
    fn next(&mut self) -> Result<Option<Arc<Block>>> {
        Ok(self.block.take())
    }
}

/// Goes on from `range` of a mapped file with decompression, on a thread; stream positions begin at `base`.
pub fn decompressing(
    map: &Arc<Mapping>,
    range: std::ops::Range<usize>,
    base: u64,
    order: ByteOrder,
) -> Box<dyn Source> {
    Box::new(Threaded::spawn(feed::MapFeed::new(map, range), order, base))
}
