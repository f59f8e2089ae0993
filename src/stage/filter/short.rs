//! The short forms, as `perf script` has them: `--time`, `--pid`, `--cpu` and so on, each one comparison.

use super::expr::{Expr, Field, Test, TimeRange, Values};
use super::fault::{Fault, Span};
use super::values;

/// Parses the value of a short form.
///
/// - Time: `START,STOP` in seconds, either of them optional, several such with spaces between; or `10%`, `10%/2`,
///   `0%-10%`, several of one sort with commas between.
/// - CPU: numbers and ranges `0-3` with commas between. Ids: numbers with commas between.
/// - All others: names with commas between. Commas within slashes or braces belong to an event's name.
pub fn parse(field: Field, source: &str) -> Result<Expr, Fault> {
    let values = match field {
        Field::Time => Values::Times(times(source)?),
        Field::Cpu => Values::Numbers(each(source, false, |text, span| cpus(text, &span))?),
        Field::Pid | Field::Tid => Values::Numbers(each(source, false, |text, span| {
            let id = values::number(text, &span, -1, i128::from(i32::MAX))?;
            Ok((id, id))
        })?),
        _ => Values::Names(each(source, field == Field::Event, |text, span| match text {
            "" => Err(Fault::new(span, "a name is missing here")),
            name => Ok((name.as_bytes().to_vec(), span)),
        })?),
    };
    let span = 0..source.len();
    Ok(Expr::Test(Test { field, values, negated: false, field_span: span.clone(), values_span: span }))
}

/// What stands between the commas, with spaces around it left out; `nested` commas, within slashes or braces, do not
/// count.
fn each<T>(
    source: &str,
    nested: bool,
    mut parse: impl FnMut(&str, Span) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let (mut slashes, mut braces) = (false, 0u32);
    let is_end = |c: char| {
        match c {
            '/' => slashes = !slashes,
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            _ => {}
        }
        c == ',' && !(nested && (braces > 0 || slashes))
    };
    let mut at = 0;
    let parts = source.split(is_end).map(|part| {
        let start = at + part.len() - part.trim_start().len();
        at += part.len() + 1;
        let text = part.trim();
        parse(text, start..start + text.len())
    });
    parts.collect()
}

fn cpus(text: &str, span: &Span) -> Result<(i128, i128), Fault> {
    let most = i128::from(u32::MAX);
    let Some((from, to)) = text.split_once('-') else {
        let cpu = values::number(text, span, 0, most)?;
        return Ok((cpu, cpu));
    };
    let middle = span.start + from.len();
    let range = (
        values::number(from, &(span.start..middle), 0, most)?,
        values::number(to, &(middle + 1..span.end), 0, most)?,
    );
    match range.0 <= range.1 {
        true => Ok(range),
        false => Err(Fault::new(span.clone(), "the range ends before it starts")),
    }
}

const FORMS: &str =
    "12.5,13 for seconds of the recording's clock (either may be left out), or 10%, 10%/2, 0%-10%";

fn times(source: &str) -> Result<Vec<TimeRange>, Fault> {
    let hinted = |fault: Fault| fault.hint(FORMS);
    if source.contains('%') {
        let parts = each(source, false, |text, span| percent(text, &span).map_err(hinted))?;
        if let ([_, _, ..], false) = (parts.as_slice(), source.contains(['/', '-'])) {
            return Err(Fault::new(0..source.len(), "several slices need their numbers").hint("10%/1,10%/3"));
        }
        return Ok(parts);
    }
    let mut ranges = Vec::new();
    for part in source.split_whitespace() {
        // A part of the source, so the distance between their first bytes is where it stands.
        let start = part.as_ptr() as usize - source.as_ptr() as usize;
        ranges.push(seconds(part, &(start..start + part.len())).map_err(hinted)?);
    }
    match ranges.is_empty() {
        true => Err(hinted(Fault::new(0..source.len(), "a time is missing here"))),
        false => Ok(ranges),
    }
}

fn seconds(text: &str, span: &Span) -> Result<TimeRange, Fault> {
    let Some((from, to)) = text.split_once(',') else {
        return Err(Fault::new(span.clone(), "a comma is missing in this range of time"));
    };
    let middle = span.start + from.len();
    let end = |text: &str, span: Span| {
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        match text {
            "" => Ok(None),
            _ if !plain => Err(Fault::new(span, "this is no time in seconds")),
            text => values::moment(text, &span).map(Some),
        }
    };
    let (from, to) = (end(from, span.start..middle)?, end(to, middle + 1..span.end)?);
    let range = TimeRange { from, to, ..TimeRange::default() };
    use super::expr::TimePoint::Absolute;
    match (from, to) {
        (Some(Absolute(a)), Some(Absolute(b))) if a > b => {
            Err(Fault::new(span.clone(), "the range ends before it starts"))
        }
        _ => Ok(range),
    }
}

fn percent(text: &str, span: &Span) -> Result<TimeRange, Fault> {
    if let Some((part, number)) = text.split_once('/') {
        return values::slice(part, number, span);
    }
    let Some((from, to)) = text.split_once('-') else { return values::slice(text, "1", span) };
    let middle = span.start + from.len();
    let range = values::stretch(&format!("{from}..{to}"), span);
    for (text, span) in [(from, span.start..middle), (to, middle + 1..span.end)] {
        if values::fraction(text).is_none() {
            return Err(Fault::new(span, "this is no percentage from 0% to 100%"));
        }
    }
    range
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::super::expr::TimePoint::{Absolute, Fraction};
    use super::*;

    fn times_of(source: &str) -> Vec<TimeRange> {
        match parse(Field::Time, source).unwrap() {
            Expr::Test(Test { values: Values::Times(times), .. }) => times,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_are_as_perf_script_takes_them() {
        let s = |n: u64| Some(Absolute(n * 1_000_000_000));
        let range = |from, to| TimeRange { from, to, ..TimeRange::default() };
        let slice = |a, b| TimeRange {
            from: Some(Fraction(a)),
            to: Some(Fraction(b)),
            slice: true,
            ..range(None, None)
        };
        assert_eq!(times_of("3,4"), [range(s(3), s(4))]);
        assert_eq!(times_of("3,"), [range(s(3), None)]);
        assert_eq!(times_of(",4"), [range(None, s(4))]);
        assert_eq!(times_of("1,2  3,4"), [range(s(1), s(2)), range(s(3), s(4))]);
        assert_eq!(times_of("10%"), [slice(0.0, 0.1)]);
        assert_eq!(times_of("10%/1, 50%/2"), [slice(0.0, 0.1), slice(0.5, 1.0)]);
        assert_eq!(times_of("0%-10%,30%-40%"), [slice(0.0, 0.1), slice(0.3, 0.4)]);
    }

    #[test]
    fn what_perf_script_refuses_is_a_fault_in_its_place() {
        for (source, place) in [
            ("abc", "abc"),
            ("5", "5"),
            ("", ""),
            ("5,3", "5,3"),
            ("1,2 x,3", "x"),
            ("1,2,3", "2,3"),
            ("-1,2", "-1"),
            ("+1,2", "+1"),
            ("10%/0", "10%/0"),
            ("10%/1,30%/4", "30%/4"),
            ("20%-120%", "120%"),
            ("5%-3%", "5%-3%"),
            ("50%,60%", "50%,60%"),
            ("10%-20%,x", "x"),
        ] {
            let fault = parse(Field::Time, source).expect_err(source);
            assert_eq!(&source[fault.span.clone()], place, "{source}: {fault:?}");
        }
    }

    #[test]
    fn lists_are_split_at_commas() {
        let of = |field, source: &str| match parse(field, source).unwrap() {
            Expr::Test(Test { values: Values::Numbers(n), .. }) => format!("{n:?}"),
            Expr::Test(Test { values: Values::Names(n), .. }) => {
                let names: Vec<_> = n.iter().map(|(n, _)| String::from_utf8_lossy(n).into_owned()).collect();
                names.join(";")
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(of(Field::Cpu, "0-1, 3"), "[(0, 1), (3, 3)]");
        assert_eq!(of(Field::Pid, "7,-1"), "[(7, 7), (-1, -1)]");
        assert_eq!(of(Field::Comm, "ls, my shell"), "ls;my shell");
        assert_eq!(of(Field::Dso, "/usr/bin/ls,libc.so.6"), "/usr/bin/ls;libc.so.6");
        assert_eq!(of(Field::Event, "cpu/event=1,umask=2/,cycles"), "cpu/event=1,umask=2/;cycles");
        assert_eq!(&"1,x"[parse(Field::Tid, "1,x").unwrap_err().span], "x");
        assert_eq!(&"2-1"[parse(Field::Cpu, "2-1").unwrap_err().span], "2-1");
        assert_eq!(parse(Field::Comm, "a,,b").unwrap_err().span, 2..2);
    }

    proptest! {
        #[test]
        fn any_text_has_its_fault_within_it(
            source in "[0-9%/,. x+-]{0,16}|\\PC{0,12}",
            field in prop::sample::select(vec![Field::Time, Field::Cpu, Field::Pid, Field::Event]),
        ) {
            if let Err(fault) = parse(field, &source) {
                prop_assert!(source.get(fault.span.clone()).is_some(), "{:?} of {:?}", fault, source);
            }
        }
    }
}
