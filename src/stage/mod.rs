//! Stages: what is done to records, and the pipeline that does it.

pub mod build_ids;
mod chain;
mod counts;
mod edits;
pub mod filter;
mod pipeline;
pub mod plugins;
mod scan;

pub use chain::Chain;
pub use counts::Counts;
pub use edits::{Edit, Edits};
pub use pipeline::{Finished, HeadRecords, Pipeline};

use crate::abi::feature::Feature;
use crate::error::Result;
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

/// What a stage works with while it looks at one record.
pub struct Context<'a> {
    /// The events.
    pub evlist: &'a Evlist,
    /// What the recording has said so far. Where some stage asks for more than file order, the record at hand has been
    /// applied already; otherwise nothing is applied but what stages apply themselves.
    pub session: &'a mut Session,
    edits: &'a mut Edits,
    out: &'a mut Counts,
    pos: u64,
    size: u64,
}

impl Context<'_> {
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
}

/// Feature sections with what they become.
pub type FeatureEdits = Vec<(Feature, Option<Vec<u8>>)>;

/// Something that is done to every record.
pub trait Stage {
    /// In which order it must see records.
    fn order(&self) -> Order;

    /// Called before the first record, with what the recording says about itself so far.
    /// Called again where a pipe says more about itself later.
    fn begin(&mut self, header: &Header) -> Result<()>;

    /// Looks at one record. Kernel records come in the stage's order; perf's own records come as they are read.
    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict>;

    /// Feature sections that the stage wants changed, asked after [`Stage::begin`]; `None` leaves one out.
    fn take_features(&mut self) -> FeatureEdits {
        Vec::new()
    }

    /// A round of the input is over: what ended before it can be forgotten.
    fn round(&mut self) {}
}
