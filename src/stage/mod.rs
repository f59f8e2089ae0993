//! Stages: what is done to records, and the pipeline that does it.

pub mod build_ids;
mod chain;
mod counts;
mod edits;
pub mod filter;
mod pipeline;
pub mod plugins;
mod scan;
mod settled;

pub use chain::Chain;
pub use counts::Counts;
pub use edits::{Edit, Edits};
pub use pipeline::{Finished, HeadRecords, Pipeline};

use crate::abi::feature::Feature;
use crate::abi::record::RecordType;
use crate::error::{ErrorKind, Result};
use crate::event::Record;
use crate::evlist::Evlist;
use crate::header::Header;
use crate::session::Session;

/// In which order a stage must see records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// As they stand in the input.
    File,
    /// By time as far as side-band and samples are concerned; see [`crate::ordered_events`].
    SideBand,
    /// Strictly by time.
    Time,
}

/// What a stage does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It stays as it is.
    Keep,
    /// It is left out.
    Drop,
    /// The stage has put other bytes in its place through [`Context::replace`].
    Replaced,
}

/// What has become of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The stage has said so.
    Told(Verdict),
    /// In salvage, it could not be read and stays.
    Misshapen,
}

/// Where verdicts go.
enum Fates<'a> {
    /// They are done: what stays is counted, what does not is left out.
    Done,
    /// One after the other, for a stage that runs others.
    Kept(&'a mut Vec<Fate>),
}

/// What a stage works with while it looks at records.
pub struct Context<'a> {
    /// The events.
    pub evlist: &'a Evlist,
    /// What the recording has said so far. Where some stage needs the session, the record at hand has been applied
    /// already; otherwise nothing is applied but what stages apply themselves.
    pub session: &'a mut Session,
    edits: &'a mut Edits,
    out: &'a mut Counts,
    fates: Fates<'a>,
    /// In salvage, how many records could not be read.
    misshapen: Option<&'a mut u64>,
    pos: u64,
    size: u64,
}

impl<'a> Context<'a> {
    /// For records yet to be taken in hand; verdicts are done as they are told.
    fn new(evlist: &'a Evlist, session: &'a mut Session, edits: &'a mut Edits, out: &'a mut Counts) -> Self {
        Context { evlist, session, edits, out, fates: Fates::Done, misshapen: None, pos: 0, size: 0 }
    }

    /// Takes a record in hand.
    fn at(mut self, record: Record<'_>) -> Self {
        (self.pos, self.size) = (record.pos, record.bytes.len() as u64);
        self
    }

    /// Puts the records that `make` appends before the record at hand; each is counted as it is told.
    pub fn insert_before<R>(&mut self, make: impl FnOnce(&mut Vec<u8>, &mut Counts) -> R) -> R {
        let out = &mut *self.out;
        self.edits.insert(self.pos, |bytes| make(bytes, out))
    }

    /// Puts the records that `make` appends in the place of the record at hand; return [`Verdict::Replaced`] then.
    pub fn replace<R>(&mut self, make: impl FnOnce(&mut Vec<u8>, &mut Counts) -> R) -> R {
        let out = &mut *self.out;
        self.edits.replace(self.pos, self.size, |bytes| make(bytes, out))
    }

    /// Takes a record in hand, and what `look` makes of it. To be called for each record of a batch, in order.
    #[inline]
    pub fn each(
        &mut self,
        record: Record<'_>,
        look: impl FnOnce(&mut Self) -> Result<Verdict>,
    ) -> Result<()> {
        (self.pos, self.size) = (record.pos, record.bytes.len() as u64);
        let fate = match look(self) {
            Ok(verdict) => Fate::Told(verdict),
            Err(e) => match &mut self.misshapen {
                Some(count) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Truncated) => {
                    **count += 1;
                    Fate::Misshapen
                }
                _ => return Err(e.at(record.pos).in_record(record.ty())),
            },
        };
        self.settle(record.ty(), fate);
        Ok(())
    }

    /// All of these records stay as they are.
    #[inline]
    pub fn keep(&mut self, batch: &[Record<'_>]) {
        match &mut self.fates {
            Fates::Kept(fates) => fates.extend(batch.iter().map(|_| Fate::Told(Verdict::Keep))),
            Fates::Done => batch.iter().for_each(|record| self.out.add(record.ty())),
        }
    }

    #[inline]
    fn settle(&mut self, ty: RecordType, fate: Fate) {
        match &mut self.fates {
            Fates::Kept(fates) => fates.push(fate),
            Fates::Done => match fate {
                Fate::Told(Verdict::Keep) | Fate::Misshapen => self.out.add(ty),
                Fate::Told(Verdict::Drop) => self.edits.drop_record(self.pos, self.size),
                Fate::Told(Verdict::Replaced) => {}
            },
        }
    }
}

/// Feature sections with what they become.
pub type FeatureEdits = Vec<(Feature, Option<Vec<u8>>)>;

/// Something that is done to every record.
pub trait Stage {
    /// In which order it must see records.
    fn order(&self) -> Order;

    /// Whether the session must have seen what comes before a record; in file order it never has.
    fn needs_session(&self) -> bool {
        self.order() != Order::File
    }

    /// Called before the first record, with what the recording says about itself so far.
    /// Called again where a pipe says more about itself later.
    fn begin(&mut self, header: &Header) -> Result<()>;

    /// Looks at one record. Kernel records come in the stage's order; perf's own records come as they are read.
    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict>;

    /// Looks at several records, each through [`Context::each`]. Where the session is needed, the first alone may be
    /// side-band, so it is as it was at each of them.
    fn records(&mut self, batch: &[Record<'_>], cx: &mut Context<'_>) -> Result<()> {
        batch.iter().try_for_each(|&record| cx.each(record, |cx| self.record(record, cx)))
    }

    /// Feature sections that the stage wants changed, asked once after each [`Stage::begin`]; `None` leaves one out.
    fn take_features(&mut self) -> FeatureEdits {
        Vec::new()
    }

    /// A round of the input is over: what ended before it can be forgotten.
    fn round(&mut self) {}
}
