//! The output: file or pipe, whole or not at all.
//!
//! An [`Output`] takes bytes and kept runs in order and writes them on a thread of its own. A file is written under a
//! temporary name beside its target and renamed by [`Output::commit`]; dropped before that, it leaves nothing.

mod compress;
mod file;
mod pipe;
mod stdout;
mod target;
mod thread;

pub use compress::{Compressor, compressed_feature};
pub use file::{FileLayout, Patch, feature_area};
pub use pipe::{LeftOut, pipe_front, pipe_header};
pub use target::Target;
pub use thread::Output;

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::reader::Block;

/// Takes the records of the output in order.
pub trait Sink {
    /// What stands before the records, in a file or pipe; it goes out as it is.
    fn front(&mut self, bytes: &[u8]) -> Result<()>;
    /// Whole records that were made here.
    fn bytes(&mut self, bytes: &[u8]) -> Result<()>;
    /// A range of a block of the input, kept as it is.
    fn kept(&mut self, block: &Arc<Block>, range: Range<usize>) -> Result<()>;
    /// Lets out what is held back, and says where in the output the next byte will stand.
    fn settle(&mut self) -> Result<u64>;
}
