//! Finds records in a block: kernel records in stretches with their times, up to each record of perf's own.
//!
//! Where the events are known beforehand and the block is mapped, this runs ahead of the processing on a thread of its
//! own; finding records and their times is a third of the work.

use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};

use super::Counts;
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::ByteOrder;
use crate::error::Error;
use crate::event::{Record, type_and_size, user};
use crate::evlist::Evlist;
use crate::ordered_events::{Batch, is_side_band};
use crate::reader::{Block, cut_off, is_compressed, is_perf_talking, too_small};

/// Most records in a stretch.
const RECORDS: usize = 4096;
/// Stretches that may wait for the processing.
const AHEAD: usize = 16;
/// A smaller block is not worth a thread.
const WORTH_A_THREAD: usize = 1 << 20;

/// Why a stretch ends; each with its place as an index into the block.
#[derive(Debug)]
pub enum Stop {
    /// It is long enough.
    More,
    /// The block is over.
    End,
    /// A record of perf's own.
    User(usize),
    /// What perf printed when it ended.
    Talk(usize),
    /// A compressed record in a mapped block.
    Compressed(usize),
    /// Something that is no whole record.
    Broken(usize, Error),
}

/// Kernel records that follow each other.
#[derive(Debug)]
pub struct Stretch {
    /// Their times and positions.
    pub batch: Batch,
    /// How many of each type.
    pub counts: Counts,
    /// Why it ends.
    pub stop: Stop,
}

/// Finds the records of a block.
#[derive(Clone)]
pub struct Scanner {
    block: Arc<Block>,
    at: usize,
    order: ByteOrder,
    /// Time that a record without one takes over.
    last: u64,
}

impl Scanner {
    /// Starts at an index into the block; `last` is the time of the record before it.
    pub fn new(block: &Arc<Block>, at: usize, order: ByteOrder, last: u64) -> Self {
        Scanner { block: block.clone(), at, order, last }
    }

    /// The next stretch.
    pub fn stretch(&mut self, evlist: &Evlist) -> Stretch {
        let mut batch = Batch::new(self.last);
        let mut counts = Counts::default();
        let stop = self.find(evlist, &mut batch, &mut counts);
        self.last = batch.last();
        Stretch { batch, counts, stop }
    }

    fn find(&mut self, evlist: &Evlist, batch: &mut Batch, counts: &mut Counts) -> Stop {
        let block = self.block.clone();
        let bytes: &[u8] = &block;
        let order = self.order;
        for _ in 0..RECORDS {
            let at = self.at;
            if at >= bytes.len() {
                return Stop::End;
            }
            let pos = block.base() + at as u64;
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.first() == Some(&b'[') && is_perf_talking(rest) == Some(true) {
                return Stop::Talk(at);
            }
            let Some((ty, size)) = type_and_size(rest, order) else {
                return Stop::Broken(at, cut_off(None, HEADER_SIZE, rest.len(), pos));
            };
            if is_compressed(ty) && block.map().is_some() {
                return Stop::Compressed(at);
            }
            if size < HEADER_SIZE {
                return Stop::Broken(at, too_small(ty, size, pos));
            }
            let Some(raw) = rest.get(..size) else {
                return Stop::Broken(at, cut_off(Some(ty), size, rest.len(), pos));
            };
            let record = Record { bytes: raw, order, pos };
            if !ty.is_kernel() {
                // Whether the payload is sound is for whoever takes the record to say; here it is stepped over.
                let payload = usize::try_from(user::payload_size(record).unwrap_or(0)).unwrap_or(usize::MAX);
                self.at = at + size + payload.min(rest.len() - size);
                return Stop::User(at);
            }
            counts.add(ty);
            batch.push(record.time(evlist), pos, ty != RecordType::SAMPLE && is_side_band(ty));
            self.at = at + size;
        }
        Stop::More
    }
}

/// Stretches of a block, found here or ahead on a thread.
pub enum Stretches {
    /// Found when asked for.
    Here(Scanner),
    /// Found ahead.
    Ahead(Receiver<Stretch>),
}

impl Stretches {
    /// For a scanner; on a thread if the events are known for good and the block is worth it.
    pub fn new(scanner: Scanner, evlist: &Evlist, events_are_known: bool) -> Self {
        if !events_are_known || scanner.block.map().is_none() || scanner.block.len() < WORTH_A_THREAD {
            return Stretches::Here(scanner);
        }
        let (send, receive) = bounded(AHEAD);
        let evlist = evlist.clone();
        let (here, mut scanner) = (scanner.clone(), scanner);
        let spawned = std::thread::Builder::new().name("scan".into()).spawn(move || {
            loop {
                let stretch = scanner.stretch(&evlist);
                let last = !matches!(stretch.stop, Stop::More | Stop::User(_));
                if send.send(stretch).is_err() || last {
                    return;
                }
            }
        });
        match spawned {
            Ok(_) => Stretches::Ahead(receive),
            Err(_) => Stretches::Here(here),
        }
    }

    /// The next stretch. After one that ends in anything but [`Stop::More`] or [`Stop::User`] there is none to ask for.
    pub fn next(&mut self, evlist: &Evlist) -> Stretch {
        match self {
            Stretches::Here(scanner) => scanner.stretch(evlist),
            Stretches::Ahead(receive) => receive.recv().unwrap_or_else(|_| Stretch {
                batch: Batch::new(0),
                counts: Counts::default(),
                stop: Stop::Broken(
                    0,
                    Error::new(crate::error::ErrorKind::Io, "the thread that finds records ended early"),
                ),
            }),
        }
    }
}
