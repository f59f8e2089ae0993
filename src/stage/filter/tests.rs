//! Filters beside a naive evaluator, on made-up samples and expressions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use crate::abi::attr::offset;
use crate::bytes::ByteOrder;
use crate::event::{begin_record, finish_record};
use crate::header::AttrEntry;
use crate::session::{Arch, Session};
use crate::stage::{Counts, Edits};

const FIRST: u64 = 1_000_000_000;
const LAST: u64 = 1_000_001_000;
const BASE: u64 = 0x10_0000;
const KERNEL_BASE: u64 = 0xffff_ffff_8100_0000;
const MAPS: [&str; 4] = ["/usr/lib/one.so", "/usr/bin/two", "/opt/one.so", "[vdso]"];
const SYMBOLS: [&str; 3] = ["bpf_prog_one", "bpf_prog_two", "bpf_trampoline_6"];
const COMMS: [&str; 3] = ["one", "two", "one two"];

/// A question as it is written, and what it means.
#[derive(Clone, Debug)]
enum Ast {
    Number(&'static str, &'static str, u64),
    Numbers(&'static str, bool, Vec<(u64, u64)>),
    Text(&'static str, &'static str, &'static str),
    Texts(&'static str, bool, Vec<&'static str>),
    Not(Box<Ast>),
    And(Vec<Ast>),
    Or(Vec<Ast>),
}

/// The number of a field as it is written: times from the first sample on, addresses from their base.
fn shown(field: &str, value: u64) -> String {
    match field {
        "time" => format!("+{value}ns"),
        "ip" | "frame.ip" => format!("{:#x}", address(value)),
        _ => value.to_string(),
    }
}

/// Small numbers to addresses of user space (even) and kernel.
fn address(value: u64) -> u64 {
    if value.is_multiple_of(2) { BASE + value * 0x800 } else { KERNEL_BASE + value * 0x800 }
}

impl Ast {
    fn text(&self) -> String {
        let joined = |parts: &[Ast], word: &str| {
            let parts: Vec<String> = parts.iter().map(Ast::text).collect();
            format!("({})", parts.join(word))
        };
        match self {
            Ast::Number(field, op, value) => format!("{field} {op} {}", shown(field, *value)),
            Ast::Numbers(field, negated, ranges) => {
                let ranges: Vec<String> = ranges
                    .iter()
                    .map(|&(a, b)| match a == b {
                        true => shown(field, a),
                        false => format!("{}..{}", shown(field, a), shown(field, b)),
                    })
                    .collect();
                format!("{field}{} in {{{}}}", if *negated { " not" } else { "" }, ranges.join(", "))
            }
            Ast::Text(field, op, value) if op.contains('~') => {
                format!("{field} {op} '{}'", regex_syntax::escape(value))
            }
            Ast::Text(field, op, value) => format!("{field} {op} '{value}'"),
            Ast::Texts(field, negated, values) => {
                format!("{field}{} in {{'{}'}}", if *negated { " not" } else { "" }, values.join("','"))
            }
            Ast::Not(inner) => format!("not {}", inner.text()),
            Ast::And(parts) => joined(parts, " and "),
            Ast::Or(parts) => joined(parts, " or "),
        }
    }

    fn is_true(&self, facts: &Facts) -> bool {
        let any_number = |field: &str, test: &dyn Fn(u64) -> bool| facts.numbers(field).into_iter().any(test);
        let any_text = |field: &str, test: &dyn Fn(&str) -> bool| facts.texts(field).iter().any(|t| test(t));
        match self {
            Ast::Number(field, op, value) => {
                // Addresses are compared as they are, all else as it was made.
                let is_address = field.ends_with("ip");
                let value = if is_address { address(*value) } else { *value };
                match *op {
                    "==" => any_number(field, &|n| n == value),
                    "!=" => !any_number(field, &|n| n == value),
                    "<" => any_number(field, &|n| n < value),
                    "<=" => any_number(field, &|n| n <= value),
                    ">" => any_number(field, &|n| n > value),
                    _ => any_number(field, &|n| n >= value),
                }
            }
            Ast::Numbers(field, negated, ranges) => {
                let is_address = field.ends_with("ip");
                let lift = |v: u64| if is_address { address(v) } else { v };
                let within = |n| ranges.iter().any(|&(a, b)| (lift(a)..=lift(b)).contains(&n));
                any_number(field, &within) != *negated
            }
            Ast::Text(field, op, value) => {
                let has = |t: &str| t.contains(value);
                let is =
                    |t: &str| t == *value || (field.ends_with("dso") && t.ends_with(&format!("/{value}")));
                match *op {
                    "==" => any_text(field, &is),
                    "!=" => !any_text(field, &is),
                    "=~" => any_text(field, &has),
                    _ => !any_text(field, &has),
                }
            }
            Ast::Texts(field, negated, values) => {
                let is = |t: &str| {
                    values
                        .iter()
                        .any(|v| t == *v || (field.ends_with("dso") && t.ends_with(&format!("/{v}"))))
                };
                any_text(field, &is) != *negated
            }
            Ast::Not(inner) => !inner.is_true(facts),
            Ast::And(parts) => parts.iter().all(|p| p.is_true(facts)),
            Ast::Or(parts) => parts.iter().any(|p| p.is_true(facts)),
        }
    }
}

fn ast() -> impl Strategy<Value = Ast> {
    let number = prop::sample::select(vec!["pid", "tid", "cpu", "time", "ip", "addr", "period", "frame.ip"]);
    let op = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let text = prop::sample::select(vec![
        ("comm", "one"),
        ("comm", "one two"),
        ("dso", "one.so"),
        ("dso", "/usr/bin/two"),
        ("dso", "bpf_prog_two"),
        ("frame.dso", "/opt/one.so"),
        ("frame.dso", "[vdso]"),
        ("frame.dso", "one"),
        ("symbol", "bpf_prog_one"),
        ("symbol", "bpf_"),
        ("frame.symbol", "bpf_trampoline_6"),
        ("event", "alpha"),
        ("cpumode", "kernel"),
    ]);
    let texts = prop::sample::select(vec![
        ("comm", vec!["two", "one"]),
        ("dso", vec!["two", "/usr/lib/one.so"]),
        ("frame.dso", vec!["[vdso]", "two"]),
        ("symbol", vec!["bpf_prog_two", "bpf_trampoline_6"]),
        ("event", vec!["alpha", "beta"]),
        ("cpumode", vec!["user", "unknown"]),
    ]);
    let ranges = prop::collection::vec((0u64..12, 0u64..4).prop_map(|(a, n)| (a, a + 2 * n)), 1..4);
    let leaf = prop_oneof![
        (number.clone(), op, 0u64..12).prop_map(|(f, o, v)| Ast::Number(f, o, v)),
        (number, any::<bool>(), ranges).prop_map(|(f, n, r)| Ast::Numbers(f, n, r)),
        (text, prop::sample::select(vec!["==", "!=", "=~", "!~"])).prop_map(|((f, v), o)| match (f, o) {
            ("cpumode", "=~") => Ast::Text(f, "==", v),
            ("cpumode", "!~") => Ast::Text(f, "!=", v),
            _ => Ast::Text(f, o, v),
        }),
        (texts, any::<bool>()).prop_map(|((f, v), n)| Ast::Texts(f, n, v)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|e| Ast::Not(Box::new(e))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Ast::And),
            prop::collection::vec(inner, 2..4).prop_map(Ast::Or),
        ]
    })
}

/// Something that happens, in this order.
#[derive(Clone, Debug)]
enum Event {
    Sample {
        alpha: bool,
        kernel: bool,
        pid: u32,
        tid: u32,
        cpu: u32,
        time: u64,
        ip: u64,
        rest: u64,
        chain: Vec<u64>,
    },
    Comm {
        pid: u32,
        tid: u32,
        name: usize,
    },
    Map {
        pid: u32,
        at: u64,
        pages: u64,
        name: usize,
    },
    Ksymbol {
        at: u64,
        name: usize,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let sample = (
        (any::<bool>(), any::<bool>(), 0u32..3, 0u32..4, 0u32..6, 0u64..12),
        (0u64..12, 0u64..12, prop::collection::vec(0u64..12, 0..4)),
    )
        .prop_map(|((alpha, kernel, pid, tid, cpu, time), (ip, rest, chain))| Event::Sample {
            alpha,
            kernel,
            pid,
            // A thread is of one process.
            tid: pid + tid * 3,
            cpu,
            time,
            ip,
            rest,
            chain,
        });
    prop_oneof![
        4 => sample,
        1 => (0u32..3, 0u32..4, 0usize..3).prop_map(|(pid, tid, name)| Event::Comm { pid, tid: pid + tid * 3, name }),
        2 => (0u32..3, 0u64..6, 1u64..4, 0usize..4).prop_map(|(pid, at, pages, name)| Event::Map { pid, at, pages, name }),
        1 => (0u64..6, 0usize..3).prop_map(|(at, name)| Event::Ksymbol { at, name }),
    ]
}

/// What is known when a sample is looked at, kept as plainly as can be.
#[derive(Clone, Debug, Default)]
struct State {
    comms: Vec<(u32, &'static str)>,
    /// Process, first and last address, name; later ones lie over earlier ones.
    maps: Vec<(u32, u64, u64, &'static str)>,
    ksymbols: Vec<(u64, u64, &'static str)>,
}

struct Facts {
    values: Vec<(&'static str, u64)>,
    event: &'static str,
    mode: &'static str,
    comm: String,
    /// DSO and symbol of the instruction pointer, and of the callchain.
    places: Vec<(Option<&'static str>, Option<&'static str>)>,
    frames: Vec<u64>,
}

impl State {
    fn place(&self, kernel: bool, pid: u32, ip: u64) -> (Option<&'static str>, Option<&'static str>) {
        if kernel {
            let found = self.ksymbols.iter().rev().find(|(from, to, _)| (*from..=*to).contains(&ip));
            return (found.map(|k| k.2), found.map(|k| k.2));
        }
        let found = self.maps.iter().rev().find(|(p, from, to, _)| *p == pid && (*from..=*to).contains(&ip));
        (found.map(|m| m.3), None)
    }
}

impl Facts {
    fn numbers(&self, field: &str) -> Vec<u64> {
        match field {
            "frame.ip" => self.frames.clone(),
            _ => self.values.iter().filter(|(f, _)| *f == field).map(|(_, v)| *v).collect(),
        }
    }

    fn texts(&self, field: &str) -> Vec<String> {
        let owned = |s: Option<&&'static str>| s.map(|s| (*s).to_owned());
        match field {
            "comm" => vec![self.comm.clone()],
            "event" => vec![self.event.to_owned()],
            "cpumode" => vec![self.mode.to_owned()],
            "dso" => self.places.first().and_then(|p| owned(p.0.as_ref())).into_iter().collect(),
            "symbol" => self.places.first().and_then(|p| owned(p.1.as_ref())).into_iter().collect(),
            "frame.dso" => self.places.iter().filter_map(|p| owned(p.0.as_ref())).collect(),
            _ => self.places.iter().filter_map(|p| owned(p.1.as_ref())).collect(),
        }
    }
}

/// Two events; the second has neither CPU nor data address.
fn header(order: ByteOrder) -> Header {
    let mut header = Header::new(order);
    let all = s::IDENTIFIER | s::IP | s::TID | s::TIME | s::ADDR | s::CPU | s::PERIOD | s::CALLCHAIN;
    for (id, bits) in [(1, all), (2, all & !(s::ADDR | s::CPU))] {
        let mut bytes = vec![0; 136];
        order.set_u64(&mut bytes, offset::SAMPLE_TYPE, bits).unwrap();
        header.attrs.push(AttrEntry { attr: Attr::new(&bytes, order), ids: vec![id] });
    }
    let mut section = Vec::new();
    SampleTime { first: FIRST, last: LAST }.emit(order, &mut section);
    header.set_feature(Feature::SAMPLE_TIME, section);
    header
}

fn name_of(attr: &Attr) -> String {
    if attr.sample_type() & s::CPU != 0 { "alpha".into() } else { "beta".into() }
}

fn encode(event: &Event, order: ByteOrder, out: &mut Vec<u8>) {
    let text = |out: &mut Vec<u8>, name: &str| {
        out.extend_from_slice(name.as_bytes());
        out.push(0);
    };
    let begin = |out: &mut Vec<u8>, ty, misc| begin_record(out, order, ty, misc);
    let at = match event {
        Event::Sample { alpha, kernel, pid, tid, cpu, time, ip, rest, chain } => {
            let at = begin(out, RecordType::SAMPLE, if *kernel { 1 } else { 2 });
            order.put_u64(out, if *alpha { 1 } else { 2 });
            order.put_u64(out, address(*ip));
            order.put_u32(out, *pid);
            order.put_u32(out, *tid);
            order.put_u64(out, FIRST + time);
            if *alpha {
                order.put_u64(out, *rest);
                order.put_u32(out, *cpu);
                order.put_u32(out, 0);
            }
            order.put_u64(out, *rest);
            // Each frame with the marker of its side.
            order.put_u64(out, chain.len() as u64 * 2);
            for frame in chain {
                order.put_u64(out, if frame.is_multiple_of(2) { -512i64 as u64 } else { -128i64 as u64 });
                order.put_u64(out, address(*frame));
            }
            at
        }
        Event::Comm { pid, tid, name } => {
            let at = begin(out, RecordType::COMM, 0);
            order.put_u32(out, *pid);
            order.put_u32(out, *tid);
            text(out, COMMS[*name]);
            at
        }
        Event::Map { pid, at: start, pages, name } => {
            let at = begin(out, RecordType::MMAP, 2);
            order.put_u32(out, *pid);
            order.put_u32(out, *pid);
            order.put_u64(out, BASE + start * 0x1000);
            order.put_u64(out, pages * 0x1000);
            order.put_u64(out, 0);
            text(out, MAPS[*name]);
            at
        }
        Event::Ksymbol { at: start, name } => {
            let at = begin(out, RecordType::KSYMBOL, 1);
            order.put_u64(out, KERNEL_BASE + start * 0x1000);
            order.put_u32(out, 0x900);
            order.put_u16(out, 1);
            order.put_u16(out, 0);
            text(out, SYMBOLS[*name]);
            at
        }
    };
    finish_record(out, order, at).unwrap();
}

fn facts(event: &Event, state: &mut State) -> Option<Facts> {
    match event {
        Event::Comm { tid, name, .. } => state.comms.push((*tid, COMMS[*name])),
        Event::Map { pid, at, pages, name } => {
            let from = BASE + at * 0x1000;
            state.maps.push((*pid, from, from + pages * 0x1000 - 1, MAPS[*name]));
        }
        Event::Ksymbol { at, name } => {
            let from = KERNEL_BASE + at * 0x1000;
            state.ksymbols.push((from, from + 0x8ff, SYMBOLS[*name]));
        }
        Event::Sample { alpha, kernel, pid, tid, cpu, time, ip, rest, chain } => {
            let mut values = vec![
                ("pid", u64::from(*pid)),
                ("tid", u64::from(*tid)),
                ("time", *time),
                ("ip", address(*ip)),
                ("period", *rest),
            ];
            if *alpha {
                values.extend([("cpu", u64::from(*cpu)), ("addr", *rest)]);
            }
            let comm = state.comms.iter().rev().find(|(t, _)| t == tid).map(|(_, name)| (*name).to_owned());
            let comm = comm.unwrap_or_else(|| if *tid == 0 { "swapper".into() } else { format!(":{tid}") });
            let mut places = vec![state.place(*kernel, *pid, address(*ip))];
            places.extend(chain.iter().map(|f| state.place(!f.is_multiple_of(2), *pid, address(*f))));
            let mut frames = vec![address(*ip)];
            frames.extend(chain.iter().map(|f| address(*f)));
            let (event, mode) =
                (if *alpha { "alpha" } else { "beta" }, if *kernel { "kernel" } else { "user" });
            return Some(Facts { values, event, mode, comm, places, frames });
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_filter_chooses_what_a_naive_evaluator_chooses(
        ast in ast(),
        events in prop::collection::vec(event(), 1..60),
        big in any::<bool>(),
    ) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let source = ast.text();
        let clause = Clause::expression("--filter", &source).unwrap();
        let load = LoadOptions { buildid_dir: None, ..LoadOptions::default() };
        let mut filter = Filter::new(vec![clause], load, name_of);
        let header = header(order);
        let evlist = header.evlist();
        filter.begin(&header).unwrap();
        let mut session = Session::new(Arch::from_name("x86_64"));
        let (mut edits, mut out) = (Edits::default(), Counts::default());
        let mut state = State::default();
        let mut times: Vec<u64> = Vec::new();
        for event in &events {
            let mut bytes = Vec::new();
            encode(event, order, &mut bytes);
            let record = Record { bytes: &bytes, order, pos: 0 };
            if filter.order() != Order::File {
                session.apply(record, &evlist).unwrap();
            }
            let mut cx = Context::new(&evlist, &mut session, &mut edits, &mut out).at(record);
            let verdict = filter.record(record, &mut cx).unwrap();
            let Some(facts) = facts(event, &mut state) else {
                prop_assert_eq!(verdict, Verdict::Keep);
                continue;
            };
            let expected = ast.is_true(&facts);
            prop_assert_eq!(verdict == Verdict::Keep, expected, "{} of {:?}", source, event);
            if let (true, Event::Sample { time, .. }) = (expected, event) {
                times.push(FIRST + time);
            }
        }
        let range = times.iter().min().zip(times.iter().max()).map(|(&first, &last)| SampleTime { first, last });
        prop_assert_eq!(filter.sample_time(), range);
    }
}
