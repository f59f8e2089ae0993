//! Filters: which samples stay, by an expression.
//!
//! ```text
//! text ─► parse ─► Expr ─┐
//!                        ├─► Program, compiled for the recording ─► a verdict a sample
//! short forms ─► Expr ───┘
//! ```
//!
//! All that is not a sample stays, since it tells what the samples mean, with two exceptions: the second half of a
//! deferred callchain goes with its samples, and what counts lost samples goes where the filter's times, CPUs and events
//! alone would not have kept any of them.

mod answers;
pub mod expr;
pub mod fault;
mod lex;
pub mod parse;
mod places;
mod program;
pub mod prune;
mod ranges;
mod sample;
pub mod short;
#[cfg(test)]
mod tests;
mod values;
mod who;

use std::fmt;

use rustc_hash::FxHashSet;

use self::expr::{Expr, Field};
use self::fault::{Fault, Span};
use self::places::{Places, Question};
use self::program::{Check, KEEP, Program, Recorded, Word};
use self::sample::Sample;
use self::who::Who;
use super::{Context, Order, Stage, Verdict};
use crate::abi::feature::Feature;
use crate::abi::misc::CpuMode;
use crate::abi::record::RecordType;
use crate::abi::sample as s;
use crate::error::Result;
use crate::event::Record;
use crate::evlist::{Attr, Evlist, RecentEvents};
use crate::header::Header;
use crate::header::features::build_ids::{BuildIdEntry, BuildIdTable};
use crate::header::features::event_desc::EventDesc;
use crate::header::features::scalars::SampleTime;
use crate::symbol::LoadOptions;

/// The reference page.
pub const REFERENCE: &str = include_str!("../../../docs/filter.md");

/// Bit of an attr's flags: user parts of callchains come later, in records of their own.
const DEFER_CALLCHAIN: u32 = 38;
/// Characters of an expression that a warning repeats.
const CLAUSE_SHOWN: usize = 60;
/// Cookies of deferred callchains that are kept in mind at a time.
const COOKIES_MAX: usize = 1 << 16;

/// An expression with the option that it was given with.
#[derive(Clone, Debug)]
pub struct Clause {
    /// The option, for messages.
    pub option: String,
    /// The expression's text.
    pub source: String,
    /// The expression.
    pub expr: Expr,
}

impl Clause {
    /// From an expression in full.
    pub fn expression(option: &str, source: &str) -> Result<Clause> {
        Self::from(option, source, parse::parse(source))
    }

    /// From a short form for a field.
    pub fn short(option: &str, field: Field, source: &str) -> Result<Clause> {
        Self::from(option, source, short::parse(field, source))
    }

    fn from(option: &str, source: &str, parsed: Result<Expr, Fault>) -> Result<Clause> {
        match parsed {
            Ok(expr) => Ok(Clause { option: option.to_owned(), source: source.to_owned(), expr }),
            Err(fault) => Err(fault.in_option(option, source)),
        }
    }
}

impl fmt::Display for Clause {
    /// As it was written, shortened if it is long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.source.chars().take(CLAUSE_SHOWN).map(fault::shown).collect();
        let rest = if shown.len() < self.source.len() { "…" } else { "" };
        write!(f, "{} {shown}{rest}", self.option)
    }
}

/// The stage.
pub struct Filter {
    clauses: Vec<Clause>,
    order: Order,
    recorded: Recorded,
    program: Program,
    /// How many events it is compiled for; none yet if there can't be so many.
    compiled_for: usize,
    places: Option<Places>,
    recent_events: RecentEvents,
    name_of: fn(&Attr) -> String,
    defers: bool,
    /// Cookies of samples that stay, and of those that go.
    kept_cookies: FxHashSet<u64>,
    dropped_cookies: FxHashSet<u64>,
    times: Option<SampleTime>,
    /// Samples that were looked at, and those of them that stayed.
    asked: u64,
    stayed: u64,
}

impl Filter {
    /// A filter of clauses that must all hold. `name_of` names events that the recording does not name.
    pub fn new(clauses: Vec<Clause>, load: LoadOptions, name_of: fn(&Attr) -> String) -> Filter {
        let any = |wanted: fn(Field) -> bool| clauses.iter().any(|clause| clause.expr.any_field(wanted));
        let named = any(|field| field == Field::Comm || field.needs_maps());
        let places = named.then(|| Places::new(load, any(Field::needs_symbols)));
        Filter {
            order: if named { Order::SideBand } else { Order::File },
            clauses,
            recorded: Recorded::default(),
            program: Program::empty(),
            compiled_for: usize::MAX,
            places,
            recent_events: RecentEvents::default(),
            name_of,
            defers: false,
            kept_cookies: FxHashSet::default(),
            dropped_cookies: FxHashSet::default(),
            times: None,
            asked: 0,
            stayed: 0,
        }
    }

    /// What to warn of if no sample stayed, though there were some: most often a name that nothing bears.
    pub fn kept_nothing(&self) -> Option<String> {
        if self.asked == 0 || self.stayed > 0 {
            return None;
        }
        let wanted: Vec<String> = self.clauses.iter().map(Clause::to_string).collect();
        Some(format!("kept 0 of {} samples: none meets {}", self.asked, wanted.join(" and ")))
    }

    /// Times of the first and last sample that stayed.
    pub fn sample_time(&self) -> Option<SampleTime> {
        self.times
    }

    /// Compiles for what the recording has said of itself so far.
    #[cold]
    fn compile(&mut self, evlist: &Evlist) -> Result<()> {
        for evsel in evlist.evsels().iter().skip(self.recorded.events.len()) {
            let name = evsel.name.clone().unwrap_or_else(|| (self.name_of)(&evsel.attr));
            self.recorded.events.push(name);
        }
        self.compiled_for = evlist.evsels().len();
        self.defers = evlist.evsels().iter().any(|evsel| evsel.attr.flag(DEFER_CALLCHAIN));
        for clause in &self.clauses {
            if let Some(fault) = missing_field(&clause.expr, evlist) {
                return Err(fault.in_option(&clause.option, &clause.source));
            }
        }
        self.program = Program::compile(&self.clauses, &self.recorded)?;
        if let Some(places) = &mut self.places {
            places.forget();
        }
        Ok(())
    }

    /// Whether a sample stays.
    #[inline]
    fn keeps(&mut self, sample: &Sample<'_>, cx: &mut Context<'_>) -> Result<bool> {
        let mut at = self.program.start();
        let mut who = None;
        while let Some(step) = self.program.step(at) {
            let yes = match &step.check {
                Check::Word(word, ranges) => sample.word(*word).is_some_and(|value| ranges.contains(value)),
                Check::Event(meant) => {
                    let index = self.recent_events.index(cx.evlist, sample.record.bytes);
                    index.and_then(|index| meant.get(index)).copied().unwrap_or(false)
                }
                check => match &mut self.places {
                    Some(places) => ask(check, places, sample, cx, &mut who)?,
                    None => ask_frames(check, sample)?,
                },
            };
            at = if yes { step.yes } else { step.no };
        }
        Ok(at == KEEP)
    }

    #[inline]
    fn sample(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        let Some(layout) = self.recent_events.layout(cx.evlist, record.bytes) else {
            return Ok(Verdict::Keep);
        };
        let sample = Sample { record, layout };
        let keeps = self.keeps(&sample, cx)?;
        self.asked += 1;
        if self.defers {
            self.note_cookie(&sample, keeps)?;
        }
        if !keeps {
            return Ok(Verdict::Drop);
        }
        self.stayed += 1;
        if let Some(time) = sample.word(Word::Time) {
            let times = self.times.get_or_insert(SampleTime { first: time, last: time });
            times.first = times.first.min(time);
            times.last = times.last.max(time);
        }
        Ok(Verdict::Keep)
    }

    fn note_cookie(&mut self, sample: &Sample<'_>, keeps: bool) -> Result<()> {
        if let Some(cookie) = sample.deferred()? {
            let cookies = if keeps { &mut self.kept_cookies } else { &mut self.dropped_cookies };
            if cookies.len() == COOKIES_MAX {
                cookies.clear();
            }
            cookies.insert(cookie);
        }
        Ok(())
    }

    /// The second half of callchains: u64 cookie first. Several samples may share it.
    fn deferred(&self, record: Record<'_>) -> Verdict {
        let cookie = record.order.u64(record.body(), 0);
        let is_in = |cookies: &FxHashSet<u64>| cookie.is_some_and(|cookie| cookies.contains(&cookie));
        match is_in(&self.dropped_cookies) && !is_in(&self.kept_cookies) {
            true => Verdict::Drop,
            false => Verdict::Keep,
        }
    }

    /// LOST (u64 id, u64 count) and LOST_SAMPLES: what they count may have been any sample of that time, CPU and event.
    fn lost(&self, record: Record<'_>, evlist: &Evlist) -> Verdict {
        let Some(trailer) = evlist.trailer_of(record.bytes) else { return Verdict::Keep };
        let (body, tail) = record.split_trailer(trailer);
        let id = match record.ty() {
            RecordType::LOST => record.order.u64(body, 0),
            _ => trailer.identifier.or(trailer.id_field).and_then(|at| record.order.u64(tail, at)),
        };
        let event = id.filter(|id| *id != 0).and_then(|id| evlist.index_of_id(id));
        let cpu = trailer.cpu.and_then(|at| record.order.u32(tail, at)).filter(|cpu| *cpu != u32::MAX);
        let time = record.time(evlist);
        let could = self.program.could_keep(|check| match check {
            Check::Word(Word::Time, ranges) => time.map(|time| ranges.contains(time)),
            Check::Word(Word::Cpu, ranges) => cpu.map(|cpu| ranges.contains(cpu.into())),
            Check::Event(meant) => event.and_then(|event| meant.get(event).copied()),
            _ => None,
        });
        if could { Verdict::Keep } else { Verdict::Drop }
    }
}

/// Asks for names.
fn ask(
    check: &Check,
    places: &mut Places,
    sample: &Sample<'_>,
    cx: &mut Context<'_>,
    who: &mut Option<Who>,
) -> Result<bool> {
    let mode = sample.record.cpumode();
    match check {
        Check::Comm(names) => Ok(places.is_comm(sample, cx.session, names)),
        Check::Place(of, wanted, number) => {
            let Some(ip) = sample.word(Word::Ip) else { return Ok(false) };
            let who = who.get_or_insert_with(|| places.who(sample, cx.session));
            Ok(places.ask(cx.session, who, mode, ip, Question { of: *of, wanted, number: *number }))
        }
        Check::FramePlace(of, wanted, number) => {
            let who = who.get_or_insert_with(|| places.who(sample, cx.session));
            let question = Question { of: *of, wanted, number: *number };
            places.ask_frames(cx.session, who, sample, question)
        }
        check => ask_frames(check, sample),
    }
}

/// Asks for addresses of frames.
fn ask_frames(check: &Check, sample: &Sample<'_>) -> Result<bool> {
    match check {
        Check::FrameIp(ranges) => sample.any_frame(|_, ip| ranges.contains(ip)),
        _ => Ok(false),
    }
}

/// A comparison of something that no event's samples have.
fn missing_field(expr: &Expr, evlist: &Evlist) -> Option<Fault> {
    let mut fault = None;
    expr.for_each_test(&mut |test| {
        let (bits, what) = match test.field {
            Field::Pid | Field::Tid | Field::Comm => (s::TID, "process and thread"),
            Field::Cpu => (s::CPU, "CPU"),
            Field::Time => (s::TIME, "time"),
            Field::Ip | Field::Dso | Field::BuildId | Field::Symbol => (s::IP, "instruction pointer"),
            Field::Addr => (s::ADDR, "data address"),
            Field::Period => (s::PERIOD, "period"),
            Field::FrameIp | Field::FrameDso | Field::FrameBuildId | Field::FrameSymbol => {
                (s::CALLCHAIN | s::IP, "callchain or instruction pointer")
            }
            Field::Cpumode | Field::Event => return,
        };
        if fault.is_none() && !evlist.is_empty() && !evlist.any_sample_type(bits) {
            let span: Span = test.field_span.clone();
            fault = Some(Fault::new(span, format!("samples of this recording have no {what}")));
        }
    });
    fault
}

/// Names of the events as EVENT_DESC has them, by index; those behind the last that is named there are left out.
fn event_names(header: &Header, name_of: fn(&Attr) -> String) -> Vec<String> {
    let section = header.feature(Feature::EVENT_DESC);
    let desc = section.and_then(|section| EventDesc::parse(section, header.order).ok());
    let described = desc.map(|desc| desc.events).unwrap_or_default();
    let name = |(index, entry): (usize, &crate::header::AttrEntry)| {
        let by_id = |id: &u64| described.iter().find(|event| event.ids.contains(id));
        let found = entry.ids.first().and_then(by_id).or_else(|| described.get(index));
        match found {
            Some(event) => String::from_utf8_lossy(event.name).into_owned(),
            None => name_of(&entry.attr),
        }
    };
    header.attrs.iter().enumerate().map(name).collect()
}

impl Stage for Filter {
    fn order(&self) -> Order {
        self.order
    }

    fn begin(&mut self, header: &Header) -> Result<()> {
        let times = header.feature(Feature::SAMPLE_TIME);
        let times = times.and_then(|section| SampleTime::parse(section, header.order).ok());
        self.recorded.times = times.filter(|times| (times.first, times.last) != (0, 0));
        self.recorded.events = event_names(header, self.name_of);
        if let Some(places) = &mut self.places {
            let table = header.feature(Feature::BUILD_ID).map(|t| BuildIdTable::parse(t, header.order));
            let release = header.string_feature(Feature::OSRELEASE);
            let release = release.map(|r| String::from_utf8_lossy(r).into_owned());
            places.symbols_mut().begin(table.as_ref(), release);
            for entry in table.iter().flat_map(|table| &table.entries) {
                places.add_build_id(entry);
            }
        }
        // A pipe may have more to say of itself; what it says is complete before the kernel's records.
        self.compiled_for = usize::MAX;
        Ok(())
    }

    #[inline]
    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        let ty = record.ty();
        if cx.evlist.evsels().len() != self.compiled_for && ty.is_kernel() {
            self.compile(cx.evlist)?;
        }
        match ty {
            RecordType::SAMPLE => return self.sample(record, cx),
            RecordType::LOST | RecordType::LOST_SAMPLES => return Ok(self.lost(record, cx.evlist)),
            RecordType::CALLCHAIN_DEFERRED => return Ok(self.deferred(record)),
            RecordType::HEADER_BUILD_ID => {
                if let (Some(places), Some(entry)) =
                    (&mut self.places, BuildIdEntry::from_record(record.bytes, record.order))
                {
                    places.add_build_id(&entry);
                }
            }
            ty => {
                if let Some(places) = &mut self.places {
                    places.forget_threads();
                    cx.session.keep_maps_on_exec();
                    if matches!(ty, RecordType::MMAP | RecordType::MMAP2)
                        && record.cpumode() == CpuMode::Kernel
                    {
                        places.expect_kernel(cx.session);
                    }
                }
            }
        }
        Ok(Verdict::Keep)
    }

    fn round(&mut self) {
        // Threads that ended long ago may be gone from the session now.
        if let Some(places) = &mut self.places {
            places.forget_threads();
        }
    }
}
