//! What an expression says, before it meets a recording.

use regex::bytes::Regex;

use super::fault::Span;

/// What of a sample is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// Process id.
    Pid,
    /// Thread id.
    Tid,
    /// CPU.
    Cpu,
    /// Time stamp, ns of the recording's clock.
    Time,
    /// Who ran, as a number of the misc word.
    Cpumode,
    /// Instruction pointer.
    Ip,
    /// Data address.
    Addr,
    /// Period.
    Period,
    /// Name of the event.
    Event,
    /// Name of the thread.
    Comm,
    /// DSO of the instruction pointer.
    Dso,
    /// Build-id of that DSO, as the recording has it.
    BuildId,
    /// Symbol of the instruction pointer.
    Symbol,
    /// Addresses of the callchain's frames.
    FrameIp,
    /// DSOs of the callchain's frames.
    FrameDso,
    /// Build-ids of those DSOs.
    FrameBuildId,
    /// Symbols of the callchain's frames.
    FrameSymbol,
}

/// What the values of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number; ids may be -1.
    Number {
        /// Whether it is an id of 32 bits with a sign.
        id: bool,
    },
    /// A time.
    Time,
    /// One of [`CPUMODES`].
    Cpumode,
    /// A name.
    Text,
    /// Hexadecimal digits.
    Hex,
}

/// Names of the fields.
pub const FIELDS: &[(&str, Field)] = &[
    ("pid", Field::Pid),
    ("tid", Field::Tid),
    ("cpu", Field::Cpu),
    ("time", Field::Time),
    ("cpumode", Field::Cpumode),
    ("ip", Field::Ip),
    ("addr", Field::Addr),
    ("period", Field::Period),
    ("event", Field::Event),
    ("comm", Field::Comm),
    ("dso", Field::Dso),
    ("build-id", Field::BuildId),
    ("symbol", Field::Symbol),
    ("frame.ip", Field::FrameIp),
    ("frame.dso", Field::FrameDso),
    ("frame.build-id", Field::FrameBuildId),
    ("frame.symbol", Field::FrameSymbol),
];

/// Names of the cpumodes, by the bits of the misc word.
pub const CPUMODES: &[(&str, u64)] =
    &[("unknown", 0), ("kernel", 1), ("user", 2), ("hypervisor", 3), ("guest-kernel", 4), ("guest-user", 5)];

impl Field {
    /// As it is written.
    pub fn name(self) -> &'static str {
        FIELDS.iter().find(|(_, f)| *f == self).map_or("", |(name, _)| name)
    }

    /// What its values are.
    pub fn kind(self) -> Kind {
        match self {
            Field::Pid | Field::Tid => Kind::Number { id: true },
            Field::Cpu | Field::Ip | Field::Addr | Field::Period | Field::FrameIp => {
                Kind::Number { id: false }
            }
            Field::Time => Kind::Time,
            Field::Cpumode => Kind::Cpumode,
            Field::Event
            | Field::Comm
            | Field::Dso
            | Field::Symbol
            | Field::FrameDso
            | Field::FrameSymbol => Kind::Text,
            Field::BuildId | Field::FrameBuildId => Kind::Hex,
        }
    }

    /// Whether it is asked of every frame of the callchain.
    pub fn is_of_frames(self) -> bool {
        matches!(self, Field::FrameIp | Field::FrameDso | Field::FrameBuildId | Field::FrameSymbol)
    }

    /// Whether it needs maps.
    pub fn needs_maps(self) -> bool {
        matches!(
            self,
            Field::Dso
                | Field::BuildId
                | Field::Symbol
                | Field::FrameDso
                | Field::FrameBuildId
                | Field::FrameSymbol
        )
    }

    /// Whether it needs symbols.
    pub fn needs_symbols(self) -> bool {
        matches!(self, Field::Symbol | Field::FrameSymbol)
    }
}

/// A moment of the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimePoint {
    /// ns of the recording's clock.
    Absolute(u64),
    /// ns after the first sample.
    FromStart(u64),
    /// A part of the time from the first sample to the last, from 0 to 1.
    Fraction(f64),
}

/// A stretch of time, both ends included unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeRange {
    /// First moment.
    pub from: Option<TimePoint>,
    /// Last moment.
    pub to: Option<TimePoint>,
    /// Whether `from` itself is left out.
    pub after: bool,
    /// Whether `to` itself is left out.
    pub before: bool,
    /// A range of fractions as perf has it: its last moment is left out unless it is the recording's, so that
    /// neighbouring slices share no sample.
    pub slice: bool,
}

/// What a field is compared with.
#[derive(Clone, Debug)]
pub enum Values {
    /// Ranges of numbers, both ends included.
    Numbers(Vec<(i128, i128)>),
    /// Stretches of time.
    Times(Vec<TimeRange>),
    /// Names, each with its place.
    Names(Vec<(Vec<u8>, Span)>),
    /// A pattern that the name has anywhere in it.
    Pattern(Box<Regex>),
}

/// A comparison.
#[derive(Clone, Debug)]
pub struct Test {
    /// What is compared.
    pub field: Field,
    /// With what: true if it is one of these.
    pub values: Values,
    /// Whether it is true if it is none of them, or is not there at all.
    pub negated: bool,
    /// Where the field's name stands.
    pub field_span: Span,
    /// Where the values stand.
    pub values_span: Span,
}

/// An expression.
#[derive(Clone, Debug)]
pub enum Expr {
    /// All of them; there are at least two.
    And(Vec<Expr>),
    /// Any of them; there are at least two.
    Or(Vec<Expr>),
    /// The contrary.
    Not(Box<Expr>),
    /// A comparison.
    Test(Test),
}

impl Expr {
    /// Calls `f` with every comparison.
    pub fn for_each_test<'a>(&'a self, f: &mut impl FnMut(&'a Test)) {
        match self {
            Expr::And(all) | Expr::Or(all) => all.iter().for_each(|e| e.for_each_test(f)),
            Expr::Not(e) => e.for_each_test(f),
            Expr::Test(test) => f(test),
        }
    }

    /// Whether any comparison is of a field that `wanted` picks.
    pub fn any_field(&self, wanted: impl Fn(Field) -> bool) -> bool {
        let mut any = false;
        self.for_each_test(&mut |test| any |= wanted(test.field));
        any
    }
}
