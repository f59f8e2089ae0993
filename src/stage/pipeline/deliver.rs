//! Lets the stage see records, when it is their time.

use std::sync::Arc;

use super::super::{Context, Edits, Stage};
use super::{Finished, Pipeline};
use crate::abi::record::RecordType;
use crate::error::Result;
use crate::event::{Record, begin_record, finish_record};
use crate::evlist::Evlist;
use crate::ordered_events::{OrderedEvents, is_side_band};
use crate::reader::Block;
use crate::session::Session;
use crate::writer::Sink;

impl<S: Sink> Pipeline<'_, S> {
    /// Lets the stage see records.
    #[inline]
    pub(super) fn visit(&mut self, batch: &[Record<'_>]) -> Result<()> {
        let (apply, session) = (self.applies, &mut self.session);
        visit(&mut self.stage, session, apply, &self.evlist, &mut self.edits, &mut self.done, batch)
    }

    /// Lets the stage see records that were put together, and forgets them.
    #[inline]
    pub(super) fn visit_all(&mut self, batch: &mut Vec<Record<'_>>) -> Result<()> {
        if !batch.is_empty() {
            self.visit(batch)?;
            batch.clear();
        }
        Ok(())
    }

    /// Delivers what waits up to a time.
    pub(super) fn flush(&mut self, limit: u64) -> Result<()> {
        let Some(queue) = &mut self.queue else { return Ok(()) };
        let (stage, evlist, edits, done) = (&mut self.stage, &self.evlist, &mut self.edits, &mut self.done);
        let (window, session, apply) = (&self.window, &mut self.session, self.applies);
        queue.flush(limit, &mut |batch| {
            visit(stage, session, apply, evlist, edits, done, batch).map_err(|e| {
                let at = e.offset();
                match window.iter().find(|b| at.is_some_and(|at| (b.base()..b.end()).contains(&at))) {
                    Some(block) => block.locate(e),
                    None => e,
                }
            })
        })
    }

    /// After a piece of a merged stream: flushes up to the horizon, and marks a round where that is true.
    pub(super) fn merged_round(&mut self, block: &Arc<Block>) -> Result<()> {
        let Some(horizon) = block.horizon() else { return Ok(()) };
        if !self.started {
            self.start()?;
        }
        let Some(queue) = &mut self.queue else { return Ok(()) };
        let latest = queue.latest();
        // Records of the same time as the horizon may still come from another part.
        self.flush(horizon.saturating_sub(1))?;
        let frontier = self.queue.as_ref().and_then(OrderedEvents::frontier);
        self.session.round();
        if let Some(stage) = &mut self.stage {
            stage.round();
        }
        if horizon > self.marked && latest > self.marked {
            self.marked = latest;
            let order = self.order;
            self.edits.insert(block.end(), |out| {
                let at = begin_record(out, order, RecordType::FINISHED_ROUND, 0);
                finish_record(out, order, at)
            });
            self.done.records_out.add(RecordType::FINISHED_ROUND);
        }
        self.emit(Some(frontier.unwrap_or(block.end())))
    }
}

/// Lets the stage see records of which the first alone may change the session.
fn visit(
    stage: &mut Option<&mut dyn Stage>,
    session: &mut Session,
    apply: bool,
    evlist: &Evlist,
    edits: &mut Edits,
    done: &mut Finished,
    batch: &[Record<'_>],
) -> Result<()> {
    let Some(stage) = stage else {
        batch.iter().for_each(|record| done.records_out.add(record.ty()));
        return Ok(());
    };
    let before = edits.pending();
    let mut cx = Context::new(evlist, session, edits, &mut done.records_out);
    cx.misshapen = done.tolerant.then_some(&mut done.misshapen);
    let mut batch = batch;
    if let Some((&first, rest)) = batch.split_first().filter(|(first, _)| apply && is_side_band(first.ty()))
        && let Err(e) = cx.session.apply(first, evlist)
    {
        // It is not for the stage to see what can't be read.
        cx.each(first, |_| Err(e))?;
        batch = rest;
    }
    if !batch.is_empty() {
        stage.records(batch, &mut cx)?;
    }
    if edits.pending() != before {
        done.unchanged = false;
    }
    Ok(())
}
