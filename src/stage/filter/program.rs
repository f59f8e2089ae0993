//! An expression compiled for a recording: comparisons in the order of their cost, each with where to go on.
//!
//! ```text
//! pid == 7 and (symbol == f or cpu in 0..3)      0 pid == 7     yes 1     no drop
//!                                                1 cpu in 0..3  yes keep  no 2
//!                                                2 symbol == f  yes keep  no drop
//! ```
//!
//! Comparisons have no effects, so what `and` and `or` join is asked cheapest first.

use regex::bytes::Regex;

use super::Clause;
use super::expr::{Expr, Field, Test, TimePoint, TimeRange, Values};
use super::fault::Fault;
use super::ranges::Ranges;
use crate::error::Result;
use crate::header::features::scalars::SampleTime;

/// What a sample's fixed words are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Process id; [`id_word`] makes it a word.
    Pid,
    /// Thread id, the same.
    Tid,
    /// CPU.
    Cpu,
    /// ns.
    Time,
    /// Bits of the misc word.
    Cpumode,
    /// Instruction pointer.
    Ip,
    /// Data address.
    Addr,
    /// Period.
    Period,
}

/// What is asked of a place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its DSO's names.
    Dso,
    /// Its DSO's build-id.
    BuildId,
    /// Its symbol's name.
    Symbol,
}

/// What a name is compared with.
#[derive(Clone, Debug)]
pub enum Names {
    /// Any of these; ascending.
    Exact(Vec<Vec<u8>>),
    /// A pattern.
    Pattern(Box<Regex>),
}

impl Names {
    /// Whether a name is one of these.
    pub fn has(&self, name: &[u8]) -> bool {
        match self {
            Names::Exact(all) => all.binary_search_by(|n| n.as_slice().cmp(name)).is_ok(),
            Names::Pattern(regex) => regex.is_match(name),
        }
    }

    /// Bytes of which some are in every symbol's name as its file has it, however mangled, that is shown as one of these;
    /// none if that can't be told. An identifier that is all of a name is in the mangled one too; `x@plt` and `x@@V` are
    /// made of an `x`.
    fn parts(&self) -> Vec<Box<[u8]>> {
        let Names::Exact(names) = self else { return Vec::new() };
        let part = |name: &Vec<u8>| {
            let ident = name.split(|&b| b == b'@').next().unwrap_or_default();
            let is_ident = !ident.is_empty() && ident.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
            // Slots of a PLT may have names that nobody gave them.
            (is_ident && !ident.starts_with(b"offset_")).then(|| Box::from(ident))
        };
        names.iter().map(part).collect::<Option<_>>().unwrap_or_default()
    }
}

/// Names that are asked for at places in the code.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The names.
    pub names: Names,
    /// Of symbols, bytes of which each has some in its name as the file has it; none if that can't be told.
    pub parts: Vec<Box<[u8]>>,
}

impl Wanted {
    fn new(names: Names) -> Wanted {
        Wanted { parts: names.parts(), names }
    }
}

/// One question to a sample.
#[derive(Clone, Debug)]
pub enum Check {
    /// A fixed word.
    Word(Word, Ranges),
    /// The event, by its index.
    Event(Vec<bool>),
    /// The thread's name.
    Comm(Names),
    /// The place of the instruction pointer; the number tells this question from others of places.
    Place(Place, Wanted, u32),
    /// The addresses of frames.
    FrameIp(Ranges),
    /// The places of frames.
    FramePlace(Place, Wanted, u32),
}

/// A question, and the steps behind its answers.
#[derive(Clone, Debug)]
pub struct Step {
    /// The question.
    pub check: Check,
    /// Step if the answer is yes.
    pub yes: u32,
    /// Step if it is no.
    pub no: u32,
}

/// The sample stays.
pub const KEEP: u32 = u32::MAX;
/// The sample goes.
pub const DROP: u32 = u32::MAX - 1;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Program {
    steps: Vec<Step>,
    start: u32,
}

/// What of the recording an expression is compiled for.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Times of the first and last sample.
    pub times: Option<SampleTime>,
    /// Names of the events, by index.
    pub events: Vec<String>,
}

/// The word of a process or thread id, in whose order -1 comes first.
#[inline]
pub fn id_word(id: u32) -> u64 {
    u64::from(id ^ 1 << 31)
}

impl Program {
    /// Keeps everything.
    pub fn empty() -> Program {
        Program { steps: Vec::new(), start: KEEP }
    }

    /// Compiles clauses that must all hold. An error of the option whose expression does not fit the recording.
    pub fn compile(clauses: &[Clause], recorded: &Recorded) -> Result<Program> {
        let mut program = Program::empty();
        let mut clauses: Vec<&Clause> = clauses.iter().collect();
        clauses.sort_by_key(|clause| cost(&clause.expr));
        for clause in clauses.iter().rev() {
            program.start = program
                .emit(&clause.expr, program.start, DROP, recorded)
                .map_err(|fault| fault.in_option(&clause.option, &clause.source))?;
        }
        Ok(program)
    }

    /// Where to begin.
    #[inline]
    pub fn start(&self) -> u32 {
        self.start
    }

    /// A step; `None` for [`KEEP`] and [`DROP`].
    #[inline]
    pub fn step(&self, at: u32) -> Option<&Step> {
        self.steps.get(at as usize)
    }

    /// Whether some answers to what `known` does not answer would keep the sample.
    pub fn could_keep(&self, known: impl Fn(&Check) -> Option<bool>) -> bool {
        let mut seen = vec![false; self.steps.len()];
        let mut open = vec![self.start];
        while let Some(at) = open.pop() {
            let (Some(step), Some(seen)) = (self.step(at), seen.get_mut(at as usize)) else {
                match at {
                    KEEP => return true,
                    _ => continue,
                }
            };
            if std::mem::replace(seen, true) {
                continue;
            }
            match known(&step.check) {
                Some(true) => open.push(step.yes),
                Some(false) => open.push(step.no),
                None => open.extend([step.yes, step.no]),
            }
        }
        false
    }

    /// Puts the steps of an expression, and returns the first of them. Steps are put from the last on.
    fn emit(&mut self, expr: &Expr, yes: u32, no: u32, recorded: &Recorded) -> Result<u32, Fault> {
        match expr {
            Expr::Not(inner) => self.emit(inner, no, yes, recorded),
            Expr::And(parts) => {
                by_cost(parts).iter().rev().try_fold(yes, |next, part| self.emit(part, next, no, recorded))
            }
            Expr::Or(parts) => {
                by_cost(parts).iter().rev().try_fold(no, |next, part| self.emit(part, yes, next, recorded))
            }
            Expr::Test(test) => {
                let check = self.check(test, recorded)?;
                let (yes, no) = if test.negated { (no, yes) } else { (yes, no) };
                let at = u32::try_from(self.steps.len()).ok().filter(|&at| at < DROP);
                let at = at.ok_or_else(|| Fault::new(test.field_span.clone(), "too many comparisons"))?;
                self.steps.push(Step { check, yes, no });
                Ok(at)
            }
        }
    }

    fn check(&self, test: &Test, recorded: &Recorded) -> Result<Check, Fault> {
        let is_id = matches!(test.field, Field::Pid | Field::Tid);
        let ranges = || match &test.values {
            Values::Numbers(ranges) => Ranges::new(ranges.iter().filter_map(|&(from, to)| {
                match is_id {
                    // In the order of `id_word`.
                    true => Some(((from + (1 << 31)).try_into().ok()?, (to + (1 << 31)).try_into().ok()?)),
                    false => Some((u64::try_from(from).ok()?, u64::try_from(to).ok()?)),
                }
            })),
            _ => Ranges::new([]),
        };
        let names = || match &test.values {
            Values::Names(names) => {
                let mut names: Vec<Vec<u8>> = names.iter().map(|(name, _)| name.clone()).collect();
                names.sort_unstable();
                Names::Exact(names)
            }
            Values::Pattern(regex) => Names::Pattern(regex.clone()),
            _ => Names::Exact(Vec::new()),
        };
        let number = self.steps.len() as u32;
        Ok(match test.field {
            Field::Pid => Check::Word(Word::Pid, ranges()),
            Field::Tid => Check::Word(Word::Tid, ranges()),
            Field::Cpu => Check::Word(Word::Cpu, ranges()),
            Field::Time => Check::Word(Word::Time, times(test, recorded)?),
            Field::Cpumode => Check::Word(Word::Cpumode, ranges()),
            Field::Ip => Check::Word(Word::Ip, ranges()),
            Field::Addr => Check::Word(Word::Addr, ranges()),
            Field::Period => Check::Word(Word::Period, ranges()),
            Field::Event => Check::Event(events(test, recorded)?),
            Field::Comm => Check::Comm(names()),
            Field::Dso => Check::Place(Place::Dso, Wanted::new(names()), number),
            Field::BuildId => Check::Place(Place::BuildId, Wanted::new(names()), number),
            Field::Symbol => Check::Place(Place::Symbol, Wanted::new(names()), number),
            Field::FrameIp => Check::FrameIp(ranges()),
            Field::FrameDso => Check::FramePlace(Place::Dso, Wanted::new(names()), number),
            Field::FrameBuildId => Check::FramePlace(Place::BuildId, Wanted::new(names()), number),
            Field::FrameSymbol => Check::FramePlace(Place::Symbol, Wanted::new(names()), number),
        })
    }
}

fn by_cost(parts: &[Expr]) -> Vec<&Expr> {
    let mut parts: Vec<&Expr> = parts.iter().collect();
    parts.sort_by_cached_key(|part| cost(part));
    parts
}

/// How much an expression costs to ask, in about nanoseconds.
fn cost(expr: &Expr) -> u32 {
    match expr {
        Expr::Not(inner) => cost(inner),
        Expr::And(parts) | Expr::Or(parts) => {
            parts.iter().fold(0, |sum, part| cost(part).saturating_add(sum))
        }
        Expr::Test(test) => match test.field {
            Field::Cpumode => 1,
            Field::Pid | Field::Tid | Field::Cpu | Field::Time | Field::Ip | Field::Addr | Field::Period => 2,
            Field::Event => 4,
            Field::Comm => 10,
            Field::FrameIp => 20,
            Field::Dso | Field::BuildId => 30,
            Field::Symbol => 40,
            Field::FrameDso | Field::FrameBuildId => 300,
            Field::FrameSymbol => 400,
        },
    }
}

fn times(test: &Test, recorded: &Recorded) -> Result<Ranges, Fault> {
    let Values::Times(ranges) = &test.values else { return Ok(Ranges::new([])) };
    let mut out = Vec::new();
    for range in ranges {
        out.extend(time_range(range, recorded).ok_or_else(|| {
            Fault::new(
                test.values_span.clone(),
                "the recording does not say when its first and last samples were, which this time counts from",
            )
            .hint("give times of the recording's clock: 12.5..13")
        })?);
    }
    Ok(Ranges::new(out))
}

/// The times of a range, none if it is empty; outer `None` if the recording's own times are needed and not known.
fn time_range(range: &TimeRange, recorded: &Recorded) -> Option<Option<(u64, u64)>> {
    let resolve = |point: TimePoint| match (point, recorded.times) {
        (TimePoint::Absolute(ns), _) => Some(ns),
        (TimePoint::FromStart(ns), Some(times)) => Some(times.first.saturating_add(ns)),
        (TimePoint::Fraction(part), Some(times)) => {
            let whole = times.last.saturating_sub(times.first);
            Some(times.first.saturating_add((part * whole as f64).round() as u64))
        }
        _ => None,
    };
    let mut from = match range.from {
        Some(point) => resolve(point)?,
        None => 0,
    };
    let mut to = match range.to {
        Some(point) => resolve(point)?,
        None => u64::MAX,
    };
    if range.slice && to > from && recorded.times.is_some_and(|times| times.last != to) {
        to -= 1;
    }
    if range.after {
        let Some(next) = from.checked_add(1) else { return Some(None) };
        from = next;
    }
    if range.before {
        let Some(last) = to.checked_sub(1) else { return Some(None) };
        to = last;
    }
    Some((from <= to).then_some((from, to)))
}

/// Which events are meant; an error if a name is none's.
fn events(test: &Test, recorded: &Recorded) -> Result<Vec<bool>, Fault> {
    let names = &recorded.events;
    match &test.values {
        Values::Pattern(regex) => Ok(names.iter().map(|name| regex.is_match(name.as_bytes())).collect()),
        Values::Names(wanted) => {
            let mut meant = vec![false; names.len()];
            for (name, span) in wanted {
                let mut any = false;
                for (meant, event) in meant.iter_mut().zip(names) {
                    if event.as_bytes() == name || plain_event(event).as_bytes() == name {
                        (*meant, any) = (true, true);
                    }
                }
                if !any {
                    return Err(Fault::new(span.clone(), "the recording has no event of this name")
                        .hint(format!("events: {}", listed(names))));
                }
            }
            Ok(meant)
        }
        _ => Ok(Vec::new()),
    }
}

/// Names of events for a message: each once, and not hundreds of them.
fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let mut distinct: Vec<&str> = names.iter().map(String::as_str).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let more = distinct.len().saturating_sub(MOST);
    distinct.truncate(MOST);
    match more {
        0 => distinct.join(", "),
        more => format!("{} and {more} more; repipe info lists them", distinct.join(", ")),
    }
}

/// The name of an event without modifiers: `cycles` of `cycles:u`.
fn plain_event(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((plain, modifiers)) if modifiers.bytes().all(|b| b"ukhGHpPSDIWebR".contains(&b)) => plain,
        _ => name,
    }
}
