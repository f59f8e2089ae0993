//! Runs records from a source through a stage into a sink: runs of kept records, not records.

mod deliver;
mod emit;
mod find;

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Counts, Edits, Order, Stage};
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Record;
use crate::evlist::Evlist;
use crate::header::Header;
use crate::ordered_events::OrderedEvents;
use crate::reader::{Block, Source};
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
}
