//! Finds the records of a block, and does what they ask for.

use std::sync::Arc;

use super::super::scan::{Scanner, Stop, Stretches};
use super::{EMIT_EVERY, Pipeline, WINDOW_MAX};
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::data::ReadAhead;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Record, type_and_size, user};
use crate::ordered_events::{Batch, DELIVERED_MAX, OrderedEvents};
use crate::reader::{Block, cut_off, is_compressed, is_perf_talking, too_small};
use crate::writer::Sink;

impl<S: Sink> Pipeline<'_, S> {
    /// Visits the records of a block. `Some(at)` where a compressed record stands in a mapped block.
    pub(super) fn scan(&mut self, block: &Arc<Block>) -> Result<Option<usize>> {
        let bytes: &[u8] = block;
        let base = block.base();
        let order = self.order;
        let mut at = usize::try_from(self.payload).unwrap_or(usize::MAX).min(bytes.len());
        self.payload -= at as u64;
        if self.head_payload && at > 0 {
            self.head.payload(bytes.get(..at).unwrap_or_default())?;
        }
        if self.done.talk > 0 {
            self.talk(block, at);
            return Ok(None);
        }
        if self.queue.is_some() {
            return self.scan_queued(block, at);
        }
        let mut emit_at = base + EMIT_EVERY;
        let mut seen = Vec::new();
        let ahead =
            block.map().and_then(|(map, range)| Some((ReadAhead::start(map, range.clone())?, range.start)));
        while at < bytes.len() {
            let pos = base + at as u64;
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.first() == Some(&b'[') && is_perf_talking(rest) == Some(true) {
                self.visit_all(&mut seen)?;
                self.talk(block, at);
                return Ok(None);
            }
            let Some((ty, size)) = type_and_size(rest, order) else {
                self.visit_all(&mut seen)?;
                self.cut(block, at);
                return Err(cut_off(None, HEADER_SIZE, rest.len(), pos));
            };
            if is_compressed(ty) && block.map().is_some() {
                self.visit_all(&mut seen)?;
                return Ok(Some(at));
            }
            if size < HEADER_SIZE {
                self.visit_all(&mut seen)?;
                self.cut(block, at);
                return Err(too_small(ty, size, pos));
            }
            let Some(raw) = rest.get(..size) else {
                self.visit_all(&mut seen)?;
                self.cut(block, at);
                return Err(cut_off(Some(ty), size, rest.len(), pos));
            };
            let record = Record { bytes: raw, order, pos };
            self.done.records_in.add(ty);
            let taken = if ty.is_kernel() {
                if !self.started {
                    self.start()?;
                }
                match &self.stage {
                    None => self.done.records_out.add(ty),
                    Some(_) => {
                        seen.push(record);
                        if seen.len() == DELIVERED_MAX {
                            self.visit_all(&mut seen)?;
                        }
                    }
                }
                size
            } else {
                self.visit_all(&mut seen)?;
                match self.user_record(block, at, record, ty) {
                    Ok(taken) => taken,
                    Err(e) => {
                        self.cut(block, at);
                        return Err(in_user_record(e, ty));
                    }
                }
            };
            at += taken;
            if pos >= emit_at {
                emit_at = pos + EMIT_EVERY;
                self.visit_all(&mut seen)?;
                if let Some((ahead, start)) = &ahead {
                    ahead.reached(start + at);
                }
                self.emit(Some(base + at as u64))?;
            }
        }
        self.visit_all(&mut seen)?;
        self.emit(Some(block.end()))?;
        Ok(None)
    }

    /// As [`Pipeline::scan`], with kernel records queued for their time.
    pub(super) fn scan_queued(&mut self, block: &Arc<Block>, at: usize) -> Result<Option<usize>> {
        let last = self.queue.as_ref().map_or(0, OrderedEvents::last);
        let scanner = Scanner::new(block, at, self.order, last);
        let mut stretches = Stretches::new(scanner, &self.evlist, self.head.events_are_known());
        loop {
            let stretch = stretches.next(&self.evlist);
            self.done.records_in.add_all(&stretch.counts);
            if !stretch.batch.is_empty() {
                self.queue_records(block, &stretch.batch)?;
            }
            match stretch.stop {
                Stop::More => {}
                Stop::End => return Ok(None),
                Stop::Compressed(at) => return Ok(Some(at)),
                Stop::Talk(at) => {
                    self.talk(block, at);
                    return Ok(None);
                }
                Stop::Broken(at, e) => {
                    self.cut(block, at);
                    return Err(e);
                }
                Stop::User(at) => {
                    let rest = block.get(at..).unwrap_or_default();
                    let (ty, size) = type_and_size(rest, self.order).unwrap_or((RecordType(0), 0));
                    let raw = rest.get(..size).unwrap_or(rest);
                    self.done.records_in.add(ty);
                    let record = Record { bytes: raw, order: self.order, pos: block.base() + at as u64 };
                    if let Err(e) = self.user_record(block, at, record, ty) {
                        self.cut(block, at);
                        return Err(in_user_record(e, ty));
                    }
                }
            }
        }
    }

    pub(super) fn queue_records(&mut self, block: &Arc<Block>, batch: &Batch) -> Result<()> {
        if !self.started {
            self.start()?;
        }
        let Some(queue) = &mut self.queue else { return Ok(()) };
        queue.extend(block, batch);
        if queue.is_full(WINDOW_MAX) {
            let limit = queue.round();
            self.done.forced_rounds += 1;
            self.flush(limit)?;
        }
        Ok(())
    }

    /// The rest of a block is what perf printed when it ended.
    pub(super) fn talk(&mut self, block: &Arc<Block>, at: usize) {
        self.cut(block, at);
        self.done.talk += (block.len() - at) as u64;
    }

    /// What is behind `at` in a block does not count.
    pub(super) fn cut(&mut self, block: &Arc<Block>, at: usize) {
        let pos = block.base() + at as u64;
        self.edits.drop_record(pos, block.end() - pos);
        self.done.unchanged = false;
    }

    /// A record of perf's own; how many bytes of the block it takes with its payload.
    pub(super) fn user_record(
        &mut self,
        block: &Arc<Block>,
        at: usize,
        record: Record<'_>,
        ty: RecordType,
    ) -> Result<usize> {
        let size = record.bytes.len();
        let payload =
            user::payload_size(record).ok_or_else(|| record.error("too short to state its payload"))?;
        let rest = block.get(at + size..).unwrap_or_default();
        let here = usize::try_from(payload).unwrap_or(usize::MAX).min(rest.len());
        if payload > here as u64 && block.map().is_some() {
            return Err(Error::truncated(
                record.pos,
                format!("a payload of {payload} bytes, but {here} are left"),
            ));
        }
        match ty {
            RecordType::FINISHED_ROUND if self.merged => {
                self.edits.drop_record(record.pos, size as u64);
                self.done.unchanged = false;
            }
            RecordType::FINISHED_ROUND => {
                if !self.started {
                    self.start()?;
                }
                self.done.records_out.add(ty);
                if let Some(limit) = self.queue.as_mut().map(OrderedEvents::round) {
                    self.flush(limit)?;
                    let frontier = self.queue.as_ref().and_then(OrderedEvents::frontier);
                    self.emit(Some(frontier.unwrap_or(record.pos + size as u64)))?;
                    self.session.round();
                    if let Some(stage) = &mut self.stage {
                        stage.round();
                    }
                }
            }
            RecordType::HEADER_ATTR | RecordType::HEADER_FEATURE | RecordType::HEADER_TRACING_DATA => {
                // What waits was laid out by the events known so far.
                if ty == RecordType::HEADER_ATTR
                    && self.queue.as_ref().is_some_and(|q| q.frontier().is_some())
                {
                    self.flush(u64::MAX)?;
                }
                let left_out = self.head.head_record(record, &mut self.evlist)?;
                self.head.payload(rest.get(..here).unwrap_or_default())?;
                self.head_payload = true;
                // perf puts other records of its own between a pipe's attributes and its features.
                if self.started && ty == RecordType::HEADER_FEATURE {
                    self.begin_stage()?;
                }
                if left_out {
                    self.edits.drop_record(record.pos, size as u64 + payload);
                    self.done.unchanged = false;
                } else {
                    if !self.started {
                        self.start()?;
                    }
                    let edited = match ty {
                        RecordType::HEADER_FEATURE => self.head.edited_record(record)?,
                        _ => None,
                    };
                    if edited.as_ref().is_none_or(|bytes| !bytes.is_empty()) {
                        self.done.records_out.add(ty);
                    }
                    if let Some(bytes) = edited {
                        self.done.unchanged = false;
                        self.edits.replace(record.pos, size as u64, |out| out.extend_from_slice(&bytes));
                    }
                }
            }
            _ => {
                self.head_payload = false;
                if !self.started {
                    self.start()?;
                }
                if ty == RecordType::HEADER_BUILD_ID {
                    // It stays where it is; the head may take its id into the table too.
                    self.head.head_record(record, &mut self.evlist)?;
                }
                if ty == RecordType::AUXTRACE {
                    self.aux.push_back((record.pos, size as u64));
                }
                self.visit(&[record])?;
            }
        }
        self.payload = payload - here as u64;
        Ok(size + here)
    }
}

/// An error met with a record of perf's own; what a plugin does as it begins has nothing to do with the record.
fn in_user_record(e: Error, ty: RecordType) -> Error {
    if e.kind() == ErrorKind::Plugin { e } else { e.in_record(ty) }
}
