//! Spans of time, as perf's `--time` takes them.

use crate::error::{Error, Result};

/// One span, both ends within it, in ns; an end of 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First time.
    pub start: u64,
    /// Last time, or 0.
    pub end: u64,
}

/// Spans; samples outside of all of them are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<Span>);

impl Spans {
    /// Parses `START,STOP` in seconds, several of them separated by spaces, `P%/N`, `P%-Q%`, or `P%`; `range` is first
    /// and last time of the recording's samples, by which percentages go.
    pub fn parse(text: &str, range: Option<(u64, u64)>) -> Result<Spans> {
        let bad = || {
            Error::usage(format!(
                "{text:?} is no span of time (such as 5.2,7 or 5.2, in seconds, 10%/2 or 0%-10%)"
            ))
        };
        if !text.contains('%') {
            let spans = text.split_whitespace().map(|part| seconds_span(part).ok_or_else(bad));
            let spans = spans.collect::<Result<Vec<_>>>()?;
            let overlap = spans.windows(2).any(|pair| match pair {
                [a, b] => a.end >= b.start,
                _ => false,
            });
            return if spans.is_empty() || overlap { Err(bad()) } else { Ok(Spans(spans)) };
        }
        let (first, last) = range.ok_or_else(|| {
            Error::usage("the recording does not say when its first and last samples are")
                .hint("record with --timestamp-boundary, or give times in seconds")
        })?;
        if !text.contains(['/', '-']) {
            let percent = text.strip_suffix('%').and_then(|p| p.parse().ok()).ok_or_else(bad)?;
            return Ok(Spans(vec![percent_span(0.0, percent, first, last).ok_or_else(bad)?]));
        }
        let slices = text.contains('/');
        let part = |part: &str| {
            let (from, to) = if slices {
                let (percent, index) = part.split_once('/')?;
                let percent: f64 = percent.strip_suffix('%')?.parse().ok().filter(|&p| p > 0.0)?;
                let index: f64 = index.parse::<u32>().ok()?.into();
                (percent * (index - 1.0), percent * index)
            } else {
                let (from, to) = part.split_once('-')?;
                (from.strip_suffix('%')?.parse().ok()?, to.strip_suffix('%')?.parse().ok()?)
            };
            percent_span(from, to, first, last)
        };
        let spans = text.split(',').map(|text| part(text.trim()).ok_or_else(bad));
        Ok(Spans(spans.collect::<Result<_>>()?))
    }

    /// Whether a time is in a span. 0 stands for no time, which always is.
    pub fn contains(&self, time: u64) -> bool {
        time == 0
            || self.0.is_empty()
            || self.0.iter().any(|span| time >= span.start && (span.end == 0 || time <= span.end))
    }

    /// The time after which nothing is of interest.
    pub fn last(&self) -> Option<u64> {
        self.0.iter().map(|span| if span.end == 0 { u64::MAX } else { span.end }).max()
    }
}

fn seconds_span(text: &str) -> Option<Span> {
    let (start, end) = text.split_once(',')?;
    let of = |text: &str| if text.is_empty() { Some(0) } else { nanoseconds(text) };
    let span = Span { start: of(start)?, end: of(end)? };
    (span.end == 0 || span.end >= span.start).then_some(span)
}

/// `SECONDS[.FRACTION]`, at most nine digits behind the point.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if fraction.len() > 9 || !digits(seconds) || !digits(fraction) {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

fn percent_span(from: f64, to: f64, first: u64, last: u64) -> Option<Span> {
    let bounds = 0.0..=100.0;
    if !bounds.contains(&from) || !bounds.contains(&to) {
        return None;
    }
    let total = last.saturating_sub(first) as f64;
    let at = |percent: f64| first.saturating_add((percent / 100.0 * total).round() as u64);
    let (start, mut end) = (at(from), at(to));
    if end > start && end != last {
        end -= 1;
    }
    Some(Span { start, end })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const RANGE: Option<(u64, u64)> = Some((1_000, 2_000));

    fn spans(text: &str) -> Vec<(u64, u64)> {
        Spans::parse(text, RANGE).unwrap().0.iter().map(|s| (s.start, s.end)).collect()
    }

    #[test]
    fn seconds_with_and_without_ends() {
        assert_eq!(spans("1.5,2"), [(1_500_000_000, 2_000_000_000)]);
        assert_eq!(spans("3.000000001,"), [(3_000_000_001, 0)]);
        assert_eq!(spans(",4"), [(0, 4_000_000_000)]);
        assert_eq!(spans("1,2 3,4").len(), 2);
        for bad in ["", "1", "2,1", "1.0000000001,", "x,", "1,3 2,4", "-1,2"] {
            assert!(Spans::parse(bad, RANGE).is_err(), "{bad}");
        }
        let both = Spans::parse("1,2 3,4", None).unwrap();
        assert!(both.contains(2_000_000_000) && !both.contains(2_000_000_001) && both.contains(0));
    }

    #[test]
    fn percentages_of_the_recording() {
        assert_eq!(spans("10%"), [(1_000, 1_099)]);
        assert_eq!(spans("10%/2"), [(1_100, 1_199)]);
        assert_eq!(spans("90%-100%"), [(1_900, 2_000)]);
        assert_eq!(spans("0%-10%,30%-40%"), [(1_000, 1_099), (1_300, 1_399)]);
        for bad in ["101%", "10%/0", "10%/11", "5%-", "%", "10%/x"] {
            assert!(Spans::parse(bad, RANGE).is_err(), "{bad}");
        }
        assert!(Spans::parse("10%", None).is_err());
    }
}
