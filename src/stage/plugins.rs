//! Plugins and dlfilters as stages.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Context, Order, Stage, Verdict};
use crate::abi::record::RecordType;
use crate::error::Result;
use crate::event::Record;
use crate::header::Header;
use crate::header::features::scalars::SampleTime;
use crate::plugin::dlfilter::{DlFilter, When};

/// One of a dlfilter's two functions, asked for every sample.
pub struct DlFilterStage {
    filter: Rc<RefCell<DlFilter>>,
    when: When,
    starts: bool,
}

impl DlFilterStage {
    /// The stages of a filter: the one before the host's own filters and the one after them, as far as it has them. At
    /// least one is there, as it starts the filter.
    pub fn of(filter: DlFilter) -> (Option<DlFilterStage>, Option<DlFilterStage>) {
        let (early, late) = (filter.asks(When::Early), filter.asks(When::Late));
        let filter = Rc::new(RefCell::new(filter));
        let stage = |when, starts| DlFilterStage { filter: Rc::clone(&filter), when, starts };
        let early = (early || !late).then(|| stage(When::Early, true));
        let late = late.then(|| stage(When::Late, early.is_none()));
        (early, late)
    }
}

impl Stage for DlFilterStage {
    fn order(&self) -> Order {
        // A filter may count, so it must see samples as perf would give them.
        Order::Time
    }

    fn begin(&mut self, header: &Header) -> Result<()> {
        if self.starts { self.filter.borrow_mut().start(header) } else { Ok(()) }
    }

    #[inline]
    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        if record.ty() != RecordType::SAMPLE {
            return Ok(Verdict::Keep);
        }
        let keeps = self.filter.borrow_mut().keeps(self.when, record, cx.evlist, cx.session)?;
        Ok(if keeps { Verdict::Keep } else { Verdict::Drop })
    }
}

/// Notes the times of the samples that pass, for the recording's SAMPLE_TIME.
#[derive(Default)]
pub struct Times(Option<(u64, u64)>);

impl Times {
    /// Time of the first and of the last, ns; `None` if no sample with a time passed.
    pub fn range(&self) -> Option<SampleTime> {
        self.0.map(|(first, last)| SampleTime { first, last })
    }
}

impl Stage for Times {
    fn order(&self) -> Order {
        Order::File
    }

    fn begin(&mut self, _: &Header) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        if record.ty() == RecordType::SAMPLE
            && let Some(time) = record.time(cx.evlist)
        {
            let (first, last) = self.0.unwrap_or((time, time));
            self.0 = Some((first.min(time), last.max(time)));
        }
        Ok(Verdict::Keep)
    }
}
