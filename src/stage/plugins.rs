//! Plugins and dlfilters as stages.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Context, Counts, FeatureEdits, Order, Stage, Verdict};
use crate::abi::record::RecordType;
use crate::bytes::ByteOrder;
use crate::error::Result;
use crate::event::Record;
use crate::event::type_and_size;
use crate::evlist::Evlist;
use crate::header::Header;
use crate::header::features::scalars::SampleTime;
use crate::plugin::dlfilter::{DlFilter, When};
use crate::plugin::native::{Info, Logged, Outcome, Plugin};

/// One of a dlfilter's two functions, asked for every sample.
pub struct DlFilterStage {
    filter: Rc<RefCell<DlFilter>>,
    when: When,
    starts: bool,
    kept: Times,
}

impl DlFilterStage {
    /// The stages of a filter: the one before the host's own filters and the one after them, as far as it has them. At
    /// least one is there, as it starts the filter.
    pub fn of(filter: DlFilter) -> (Option<DlFilterStage>, Option<DlFilterStage>) {
        let (early, late) = (filter.asks(When::Early), filter.asks(When::Late));
        let filter = Rc::new(RefCell::new(filter));
        let stage =
            |when, starts| DlFilterStage { filter: Rc::clone(&filter), when, starts, kept: Times::default() };
        let early = (early || !late).then(|| stage(When::Early, true));
        let late = late.then(|| stage(When::Late, early.is_none()));
        (early, late)
    }

    /// Time of the first and of the last sample that it let through.
    pub fn kept(&self) -> Option<SampleTime> {
        self.kept.range()
    }
}

impl Stage for DlFilterStage {
    fn order(&self) -> Order {
        // A filter may count, so it must see samples as perf would give them.
        Order::Time
    }

    fn needs_session(&self) -> bool {
        self.filter.borrow().can_ask()
    }

    fn begin(&mut self, header: &Header) -> Result<()> {
        if self.starts { self.filter.borrow_mut().start(header) } else { Ok(()) }
    }

    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        look(&mut self.filter.borrow_mut(), self.when, &mut self.kept, record, cx)
    }

    fn records(&mut self, batch: &[Record<'_>], cx: &mut Context<'_>) -> Result<()> {
        let filter = &mut *self.filter.borrow_mut();
        let (when, kept) = (self.when, &mut self.kept);
        batch.iter().try_for_each(|&record| cx.each(record, |cx| look(filter, when, kept, record, cx)))
    }
}

#[inline]
fn look(
    filter: &mut DlFilter,
    when: When,
    kept: &mut Times,
    record: Record<'_>,
    cx: &mut Context<'_>,
) -> Result<Verdict> {
    if record.ty() != RecordType::SAMPLE {
        // As perf resolves for it.
        cx.session.keep_maps_on_exec();
        return Ok(Verdict::Keep);
    }
    if !filter.keeps(when, record, cx.evlist, cx.session)? {
        return Ok(Verdict::Drop);
    }
    kept.note(record.time(cx.evlist));
    Ok(Verdict::Keep)
}

/// A plugin.
pub struct PluginStage {
    plugin: Plugin,
    kept: Times,
}

impl PluginStage {
    /// The stage of a plugin.
    pub fn new(plugin: Plugin) -> Self {
        PluginStage { plugin, kept: Times::default() }
    }

    /// Ends the plugin after the last record: feature sections that it has edited, and what it had to say.
    pub fn finish(&mut self, evlist: &Evlist, header: &Header) -> Result<(FeatureEdits, Vec<Logged>)> {
        self.plugin.finish(evlist, header)?;
        Ok((self.plugin.take_features(), self.plugin.take_log()))
    }

    /// Time of the first and of the last sample that it let through.
    pub fn kept(&self) -> Option<SampleTime> {
        self.kept.range()
    }

    /// What the plugin says of itself.
    pub fn info(&self) -> &Info {
        self.plugin.info()
    }

    /// What becomes of a record of the batch that the plugin has seen; `told` counts those it was told of.
    #[inline]
    fn fate(
        &mut self,
        index: usize,
        told: &mut usize,
        record: Record<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Verdict> {
        let outcome = match self.plugin.is_told(*told, index) {
            true => {
                *told += 1;
                self.plugin.outcome(*told - 1, record, cx.evlist)?
            }
            false => Outcome::Keep,
        };
        match outcome {
            Outcome::Keep => {
                if record.ty() == RecordType::SAMPLE {
                    self.kept.note(record.time(cx.evlist));
                }
                Ok(Verdict::Keep)
            }
            Outcome::Drop => Ok(Verdict::Drop),
            Outcome::Given { keep } => Ok(self.put(*told - 1, keep, record, cx)),
        }
    }

    #[cold]
    fn put(&mut self, told: usize, keep: bool, record: Record<'_>, cx: &mut Context<'_>) -> Verdict {
        let given = self.plugin.given(told);
        if keep {
            self.kept.note_all(record.bytes, record.order, cx.evlist);
        }
        for bytes in [given.before, given.instead, given.after] {
            self.kept.note_all(bytes, record.order, cx.evlist);
        }
        let put = |bytes: &[u8], out: &mut Vec<u8>, counts: &mut Counts| {
            out.extend_from_slice(bytes);
            let mut rest = bytes;
            // Checked before: whole records.
            while let Some((ty, size)) = type_and_size(rest, record.order).filter(|(_, size)| *size > 0) {
                counts.add(ty);
                rest = rest.get(size..).unwrap_or_default();
            }
        };
        if !given.before.is_empty() {
            cx.insert_before(|out, counts| put(given.before, out, counts));
        }
        match (keep, given.instead.is_empty() && given.after.is_empty()) {
            (true, true) => Verdict::Keep,
            (false, true) => Verdict::Drop,
            (keep, false) => {
                cx.replace(|out, counts| {
                    put(if keep { record.bytes } else { given.instead }, out, counts);
                    put(given.after, out, counts);
                });
                Verdict::Replaced
            }
        }
    }
}

impl Stage for PluginStage {
    fn order(&self) -> Order {
        if self.plugin.info().by_time { Order::Time } else { Order::File }
    }

    fn needs_session(&self) -> bool {
        self.plugin.info().needs_session
    }

    fn begin(&mut self, header: &Header) -> Result<()> {
        self.plugin.open(header)
    }

    fn take_features(&mut self) -> FeatureEdits {
        self.plugin.take_features()
    }

    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        if self.plugin.info().needs_symbols {
            cx.session.keep_maps_on_exec();
        }
        self.plugin.records(&[record], cx.evlist, cx.session)?;
        self.fate(0, &mut 0, record, cx)
    }

    fn records(&mut self, batch: &[Record<'_>], cx: &mut Context<'_>) -> Result<()> {
        if self.plugin.info().needs_symbols {
            cx.session.keep_maps_on_exec();
        }
        self.plugin.records(batch, cx.evlist, cx.session)?;
        if self.plugin.keeps_all() {
            if let Some((first, last)) = self.plugin.times() {
                self.kept.note(Some(first));
                self.kept.note(Some(last));
            }
            cx.keep(batch);
            return Ok(());
        }
        let mut told = 0;
        for (index, &record) in batch.iter().enumerate() {
            cx.each(record, |cx| self.fate(index, &mut told, record, cx))?;
        }
        Ok(())
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

    #[inline]
    fn note(&mut self, time: Option<u64>) {
        let Some(time) = time else { return };
        let (first, last) = self.0.unwrap_or((time, time));
        self.0 = Some((first.min(time), last.max(time)));
    }

    /// Notes the samples among whole records.
    fn note_all(&mut self, mut bytes: &[u8], order: ByteOrder, evlist: &Evlist) {
        while let Some((ty, size)) = type_and_size(bytes, order).filter(|(_, size)| *size > 0) {
            if let Some(one) = bytes.get(..size).filter(|_| ty == RecordType::SAMPLE) {
                self.note(Record { bytes: one, order, pos: 0 }.time(evlist));
            }
            bytes = bytes.get(size..).unwrap_or_default();
        }
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
        if record.ty() == RecordType::SAMPLE {
            self.note(record.time(cx.evlist));
        }
        Ok(Verdict::Keep)
    }
}
