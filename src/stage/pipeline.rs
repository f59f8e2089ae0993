//! Runs records from a source through a stage into a sink: runs of kept records, not records.

use std::collections::VecDeque;
use std::sync::Arc;

use super::scan::{Scanner, Stop, Stretches};
use super::{Context, Counts, Edits, Order, Stage};
use crate::abi::feature::Feature;
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::ByteOrder;
use crate::data::ReadAhead;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Record, begin_record, finish_record, type_and_size, user};
use crate::evlist::Evlist;
use crate::header::Header;
use crate::ordered_events::{Batch, DELIVERED_MAX, OrderedEvents, is_side_band};
use crate::reader::{Block, Source, cut_off, is_compressed, is_perf_talking, too_small};
use crate::session::{Arch, Session};
use crate::writer::Sink;

/// Input that may be kept in memory while records wait for their time, bytes.
const WINDOW_MAX: usize = 64 << 20;
/// Kept bytes go to the sink at least this often, so that it works while records are read on.
const EMIT_EVERY: u64 = 1 << 20;

/// Records that describe the recording rather than belong to it, met in a stream.
pub trait HeadRecords {
    /// Looks at a HEADER_ATTR, HEADER_FEATURE, HEADER_TRACING_DATA or HEADER_BUILD_ID record. Whether it is to be
    /// left out of the output's records, which is not asked of the last. May add to the events.
    fn head_record(&mut self, record: Record<'_>, evlist: &mut Evlist) -> Result<bool>;

    /// Takes the payload of the last such record, in pieces.
    fn payload(&mut self, piece: &[u8]) -> Result<()>;

    /// What the recording has said about itself so far.
    fn header(&self) -> &Header;

    /// Whether no record of the stream adds to the events.
    fn events_are_known(&self) -> bool;

    /// Changes a feature section, or with `None` leaves it out, before [`HeadRecords::front`].
    fn edit_feature(&mut self, _feature: Feature, _bytes: Option<Vec<u8>>) {}

    /// What a HEADER_FEATURE record of a stream that stays one has become by [`HeadRecords::edit_feature`]: nothing, if
    /// its section was left out; `None` if it was not edited.
    fn edited_record(&mut self, _record: Record<'_>) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Called once, before anything is sent to the sink: what goes in front of the records.
    fn front(&mut self) -> Result<Vec<u8>>;
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Finished {
    /// Records read.
    pub records_in: Counts,
    /// Records written.
    pub records_out: Counts,
    /// Offset in the output, and stated size, of each AUXTRACE record.
    pub auxtrace: Vec<(u64, u64)>,
    /// Records that came later than the round that their time belongs to.
    pub late: u64,
    /// Rounds that had to be flushed without a mark.
    pub forced_rounds: u64,
    /// Bytes of perf's closing words behind the records, which are left out.
    pub talk: u64,
    /// Whether compressed records were met.
    pub compressed: bool,
    /// Whether every record was kept and none was added.
    pub unchanged: bool,
    /// In salvage, the error that ended the stream.
    pub salvaged: Option<Error>,
    /// In salvage, whole records whose insides can't be read and that were kept as they are.
    pub misshapen: u64,
    tolerant: bool,
}

/// A run in progress.
pub struct Pipeline<'a, S> {
    order: ByteOrder,
    evlist: Evlist,
    stage: Option<&'a mut dyn Stage>,
    /// Whether the session is kept up to date.
    applies: bool,
    session: Session,
    head: &'a mut dyn HeadRecords,
    sink: &'a mut S,
    queue: Option<OrderedEvents>,
    window: VecDeque<Arc<Block>>,
    edits: Edits,
    /// Stream position up to which the sink has everything.
    sent: u64,
    /// AUXTRACE records not sent yet: position and stated size.
    aux: VecDeque<(u64, u64)>,
    /// Payload bytes of the last record that the next blocks begin with, and whether they are left out.
    payload: u64,
    /// Whether that payload is of a head record.
    head_payload: bool,
    started: bool,
    merged: bool,
    /// In a merged stream: latest time before the last round mark that was written.
    marked: u64,
    salvage: bool,
    done: Finished,
}

impl<'a, S: Sink> Pipeline<'a, S> {
    /// Prepares a run.
    pub fn new(
        evlist: Evlist,
        stage: Option<&'a mut dyn Stage>,
        head: &'a mut dyn HeadRecords,
        sink: &'a mut S,
        salvage: bool,
    ) -> Self {
        let order = evlist.order();
        let applies = stage.as_ref().is_some_and(|s| s.needs_session());
        let queue = match stage.as_ref().map(|s| s.order()) {
            None | Some(Order::File) => None,
            Some(Order::SideBand) => Some(OrderedEvents::new(order, false, applies)),
            Some(Order::Time) => Some(OrderedEvents::new(order, true, applies)),
        };
        Pipeline {
            order,
            evlist,
            stage,
            applies,
            session: Session::new(Arch::from_name("")),
            head,
            sink,
            queue,
            window: VecDeque::new(),
            edits: Edits::default(),
            sent: 0,
            aux: VecDeque::new(),
            payload: 0,
            head_payload: false,
            started: false,
            merged: false,
            marked: 0,
            salvage,
            done: Finished { unchanged: true, tolerant: salvage, ..Finished::default() },
        }
    }

    /// Runs to the end of the source. `resume` makes a decompressing source that goes on at a position of a mapped
    /// block, for when a compressed record is met there.
    pub fn run(
        mut self,
        source: Box<dyn Source>,
        mut resume: impl FnMut(&Block, usize) -> Option<Box<dyn Source>>,
    ) -> Result<(Finished, Evlist)> {
        let mut source = source;
        self.merged = source.is_merged();
        let mut first = true;
        loop {
            let block = match source.next() {
                Ok(Some(block)) => block,
                Ok(None) => break,
                Err(e) => {
                    self.end_early(e)?;
                    break;
                }
            };
            if first {
                self.sent = block.base();
                first = false;
            }
            self.window.push_back(block.clone());
            match self.scan(&block).map_err(|e| block.locate(e)) {
                Ok(None) => {}
                Ok(Some(at)) => {
                    self.done.compressed = true;
                    self.done.unchanged = false;
                    source = resume(&block, at).ok_or_else(|| {
                        block.locate(Error::corrupt(block.base() + at as u64, "nested compression"))
                    })?;
                    // What is decompressed takes the place of the rest of the block.
                    if let Some((map, range)) = block.map() {
                        let plain = Block::mapped(map, range.start..range.start + at, block.base());
                        self.window.pop_back();
                        self.window.push_back(Arc::new(plain.with_horizon(block.horizon())));
                    }
                }
                Err(e) => {
                    self.end_early(e)?;
                    break;
                }
            }
            if self.merged {
                self.merged_round(&block)?;
            }
        }
        if self.payload > 0 && self.done.salvaged.is_none() {
            let at = self.window.back().map_or(0, |b| b.end());
            let e = Error::truncated(
                at,
                format!("the input ends {} bytes before the end of a payload", self.payload),
            );
            let e = match self.window.back() {
                Some(b) => b.locate(e),
                None => e,
            };
            self.end_early(e)?;
        }
        if !self.started {
            self.start()?;
        }
        self.flush(u64::MAX)?;
        self.emit(None)?;
        if let Some(queue) = &self.queue {
            self.done.late = queue.late();
        }
        Ok((self.done, self.evlist))
    }

    /// The stream breaks here: an error, or in salvage the end.
    fn end_early(&mut self, e: Error) -> Result<()> {
        if !self.salvage || !matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Truncated) {
            return Err(e);
        }
        self.done.salvaged = Some(e);
        self.done.unchanged = false;
        Ok(())
    }

    /// Visits the records of a block. `Some(at)` where a compressed record stands in a mapped block.
    fn scan(&mut self, block: &Arc<Block>) -> Result<Option<usize>> {
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
    fn scan_queued(&mut self, block: &Arc<Block>, at: usize) -> Result<Option<usize>> {
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

    fn queue_records(&mut self, block: &Arc<Block>, batch: &Batch) -> Result<()> {
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
    fn talk(&mut self, block: &Arc<Block>, at: usize) {
        self.cut(block, at);
        self.done.talk += (block.len() - at) as u64;
    }

    /// What is behind `at` in a block does not count.
    fn cut(&mut self, block: &Arc<Block>, at: usize) {
        let pos = block.base() + at as u64;
        self.edits.drop_record(pos, block.end() - pos);
        self.done.unchanged = false;
    }

    /// Tells the session and the stage what the recording says about itself.
    fn begin_stage(&mut self) -> Result<()> {
        let header = self.head.header();
        let arch = header.string_feature(Feature::ARCH).unwrap_or_default();
        self.session.set_arch(Arch::from_name(&String::from_utf8_lossy(arch)));
        let Some(stage) = &mut self.stage else { return Ok(()) };
        stage.begin(header)?;
        for (feature, bytes) in stage.take_features() {
            self.head.edit_feature(feature, bytes);
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        self.started = true;
        self.begin_stage()?;
        let front = self.head.front()?;
        self.sink.front(&front)
    }

    /// Lets the stage see records.
    #[inline]
    fn visit(&mut self, batch: &[Record<'_>]) -> Result<()> {
        let (apply, session) = (self.applies, &mut self.session);
        visit(&mut self.stage, session, apply, &self.evlist, &mut self.edits, &mut self.done, batch)
    }

    /// Lets the stage see records that were put together, and forgets them.
    #[inline]
    fn visit_all(&mut self, batch: &mut Vec<Record<'_>>) -> Result<()> {
        if !batch.is_empty() {
            self.visit(batch)?;
            batch.clear();
        }
        Ok(())
    }

    /// A record of perf's own; how many bytes of the block it takes with its payload.
    fn user_record(
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

    /// Delivers what waits up to a time.
    fn flush(&mut self, limit: u64) -> Result<()> {
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
    fn merged_round(&mut self, block: &Arc<Block>) -> Result<()> {
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

    /// Sends everything before `end` (all if `None`) to the sink and lets go of blocks that are out.
    fn emit(&mut self, end: Option<u64>) -> Result<()> {
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

/// An error met with a record of perf's own; what a plugin does as it begins has nothing to do with the record.
fn in_user_record(e: Error, ty: RecordType) -> Error {
    if e.kind() == ErrorKind::Plugin { e } else { e.in_record(ty) }
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
