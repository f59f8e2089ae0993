//! The first of two passes: what the samples that stay will need.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::head::Head;
use super::run::{Options, Taken, filter};
use crate::error::{Error, Result};
use crate::reader::{Block, OpenOptions, Recording};
use crate::stage::filter::prune::Needs;
use crate::stage::{Chain, Pipeline, Stage};
use crate::writer::Sink;

/// Takes records, and forgets them.
struct Nowhere;

impl Sink for Nowhere {
    fn front(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn bytes(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn kept(&mut self, _: &Arc<Block>, _: Range<usize>) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self) -> Result<u64> {
        Ok(0)
    }
}

/// The threads that the samples which pass the filter need. Refuses inputs that can't be read twice.
pub(super) fn needed_threads(options: &Options) -> Result<FxHashSet<i32>> {
    let twice = std::fs::metadata(&options.input).is_ok_and(|meta| meta.is_file() || meta.is_dir());
    if options.input.as_os_str() == "-" || !twice {
        return Err(Error::usage(
            "--prune reads the recording twice, first to see what the samples that stay need, and a pipe can be read once",
        )
        .hint("name a file with -i, or prune the output in a second run"));
    }
    let open = OpenOptions { force: options.force, salvage: options.salvage };
    let mut input = Recording::open(&options.input, open)?;
    let order = input.header.order;
    let source = std::mem::replace(&mut input.source, Box::new(Taken));
    let mut head = Head::new(&input, false, None, false);
    let mut filter = filter(options);
    let mut needs = Needs::default();
    let mut stages: Vec<&mut dyn Stage> = Vec::new();
    stages.extend(filter.as_mut().map(|f| f as &mut dyn Stage));
    stages.push(&mut needs);
    let mut chain = Chain::new(stages);
    let mut sink = Nowhere;
    let pipeline =
        Pipeline::new(input.header.evlist(), Some(&mut chain), &mut head, &mut sink, options.salvage);
    pipeline.run(source, |block, at| Recording::resume(block, at, order))?;
    drop(chain);
    Ok(needs.threads())
}
