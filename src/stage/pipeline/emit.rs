//! Sends what is kept of the window, with what the stage has changed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Pipeline;
use crate::error::{Error, Result};
use crate::reader::Block;
use crate::writer::Sink;

impl<S: Sink> Pipeline<'_, S> {
    /// Sends everything before `end` (all if `None`) to the sink and lets go of blocks that are out.
    pub(super) fn emit(&mut self, end: Option<u64>) -> Result<()> {
        let all = self.window.back().map_or(self.sent, |b| b.end());
        let end_pos = end.unwrap_or(all);
        let mut out = Emitter {
            window: &mut self.window,
            sink: self.sink,
            sent: self.sent,
            aux: &mut self.aux,
            auxtrace: &mut self.done.auxtrace,
        };
        let limit = if end.is_none() { u64::MAX } else { end_pos };
        self.edits.take_until(limit, |edit, bytes| {
            out.keep(edit.pos)?;
            if !bytes.is_empty() {
                out.sink.bytes(bytes)?;
            }
            out.sent = out.sent.max(edit.pos.saturating_add(edit.skip));
            Ok::<(), Error>(())
        })?;
        out.keep(end_pos)?;
        self.sent = out.sent;
        while self.window.len() > 1 && self.window.front().is_some_and(|b| b.end() <= self.sent) {
            self.window.pop_front();
        }
        Ok(())
    }
}

/// Sends kept ranges of the window.
struct Emitter<'a, S> {
    window: &'a mut VecDeque<Arc<Block>>,
    sink: &'a mut S,
    sent: u64,
    aux: &'a mut VecDeque<(u64, u64)>,
    auxtrace: &'a mut Vec<(u64, u64)>,
}

impl<S: Sink> Emitter<'_, S> {
    /// Sends the input up to `end`, as far as it has not been sent or left out.
    fn keep(&mut self, end: u64) -> Result<()> {
        while let Some(&(pos, size)) = self.aux.front() {
            if pos >= end {
                break;
            }
            self.aux.pop_front();
            if pos < self.sent {
                continue; // left out
            }
            self.keep_plain(pos)?;
            let offset = self.sink.settle()?;
            self.auxtrace.push((offset, size));
        }
        self.keep_plain(end)
    }

    fn keep_plain(&mut self, end: u64) -> Result<()> {
        for block in self.window.iter() {
            if block.end() <= self.sent {
                continue;
            }
            if block.base() >= end {
                break;
            }
            let from = self.sent.max(block.base()) - block.base();
            let to = end.min(block.end()) - block.base();
            if from < to {
                self.sink.kept(block, from as usize..to as usize)?;
                self.sent = block.base() + to;
            }
        }
        self.sent = self.sent.max(end);
        Ok(())
    }
}
