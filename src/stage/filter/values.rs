//! Numbers, times and build-ids as they are written.

use super::expr::{TimePoint, TimeRange};
use super::fault::{Fault, Span};

/// Splits `a..b` into its ends and their places; both ends are the whole if there are no dots.
pub fn ends<'a>(text: &'a str, span: &Span) -> Option<[(&'a str, Span); 2]> {
    let at = text.find("..")?;
    let (from, to) = (text.get(..at)?, text.get(at + 2..)?);
    Some([(from, span.start..span.start + at), (to, span.start + at + 2..span.end)])
}

/// A decimal or, after `0x`, hexadecimal number from `least` to `most`.
pub fn number(text: &str, span: &Span, least: i128, most: i128) -> Result<i128, Fault> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (16, hex),
        None => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        let what = if text.is_empty() { "a number is missing here" } else { "this is no number" };
        return Err(Fault::new(span.clone(), what));
    }
    // Digits alone can only fail by being too many.
    let value = i128::from_str_radix(digits, radix).map_or(i128::MAX, |n| n * sign);
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(Fault::new(span.clone(), format!("this is not from {least} to {most}"))),
    }
}

/// A number, or if `ranges` a range of numbers, as a range with both ends.
pub fn numbers(
    text: &str,
    span: &Span,
    least: i128,
    most: i128,
    ranges: bool,
) -> Result<(i128, i128), Fault> {
    let Some([from, to]) = ends(text, span) else {
        let value = number(text, span, least, most)?;
        return Ok((value, value));
    };
    let range = (
        if from.0.is_empty() { least } else { number(from.0, &from.1, least, most)? },
        if to.0.is_empty() { most } else { number(to.0, &to.1, least, most)? },
    );
    check_range(ranges, range.0 <= range.1, span)?;
    Ok(range)
}

fn check_range(allowed: bool, in_order: bool, span: &Span) -> Result<(), Fault> {
    if !allowed {
        return Err(Fault::new(span.clone(), "a range stands only behind in"));
    }
    if !in_order {
        return Err(Fault::new(span.clone(), "the range ends before it starts"));
    }
    Ok(())
}

const UNITS: &[(&str, u128)] =
    &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("", 1_000_000_000)];

/// `123.456789`, seconds unless a unit follows, in ns; `None` if it is not of that form or no whole number of ns.
pub fn duration(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..)?;
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()?.checked_mul(*unit)? };
    if part % scale != 0 {
        return None;
    }
    let whole = whole.parse::<u128>().ok()?.checked_mul(*unit)?;
    u64::try_from(whole.checked_add(part / scale)?).ok()
}

/// A number before a percent sign, as a fraction of one.
pub fn fraction(text: &str) -> Option<f64> {
    let digits = text.strip_suffix('%')?;
    let ok =
        digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') && digits.bytes().any(|b| b.is_ascii_digit());
    let percent: f64 = digits.parse().ok().filter(|_| ok)?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// A moment: `12.5` of the recording's clock, `+12.5` or `+300ms` from the first sample on, `30%` of the whole.
pub fn moment(text: &str, span: &Span) -> Result<TimePoint, Fault> {
    let fault = |message: &str| Fault::new(span.clone(), message);
    if text.is_empty() {
        return Err(fault("a time is missing here"));
    }
    if text.ends_with('%') {
        return fraction(text)
            .map(TimePoint::Fraction)
            .ok_or_else(|| fault("this is no percentage from 0% to 100%"));
    }
    let (digits, from_start) = match text.strip_prefix('+') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let ns = duration(digits).ok_or_else(|| {
        fault("this is no time").hint(
            "a time is 123.456789 in seconds of the recording's clock, +1.5s, +300ms, +20us or +7ns from the first \
             sample on, or 30% of the whole",
        )
    })?;
    Ok(if from_start { TimePoint::FromStart(ns) } else { TimePoint::Absolute(ns) })
}

/// A moment or a stretch of time: `a..b`, or `10%/2` for the second tenth.
pub fn stretch(text: &str, span: &Span) -> Result<TimeRange, Fault> {
    if let Some((part, number)) = text.split_once('/') {
        return slice(part, number, span);
    }
    let Some([from, to]) = ends(text, span) else {
        let point = Some(moment(text, span)?);
        return Ok(TimeRange { from: point, to: point, ..TimeRange::default() });
    };
    let end = |(text, span): (&str, Span)| match text {
        "" => Ok(None),
        text => moment(text, &span).map(Some),
    };
    let (from, to) = (end(from)?, end(to)?);
    let (in_order, slice) = match (from, to) {
        (Some(TimePoint::Absolute(a)), Some(TimePoint::Absolute(b))) => (a <= b, false),
        (Some(TimePoint::FromStart(a)), Some(TimePoint::FromStart(b))) => (a <= b, false),
        (Some(TimePoint::Fraction(a)), Some(TimePoint::Fraction(b))) => (a <= b, true),
        _ => (true, false),
    };
    check_range(true, in_order, span)?;
    Ok(TimeRange { from, to, slice, ..TimeRange::default() })
}

/// The n-th slice of a percentage.
pub fn slice(part: &str, number: &str, span: &Span) -> Result<TimeRange, Fault> {
    let fault = |message: &str| Fault::new(span.clone(), message).hint("10%/2 is the second tenth");
    let part = fraction(part).filter(|part| *part > 0.0).ok_or_else(|| fault("this is no slice"))?;
    let number: u32 = number.trim().parse().map_err(|_| fault("this is no slice"))?;
    let (from, to) = (part * (f64::from(number) - 1.0), part * f64::from(number));
    if number == 0 || to > 1.0 {
        return Err(fault("this slice is not within the recording"));
    }
    let point = |fraction| Some(TimePoint::Fraction(fraction));
    Ok(TimeRange { from: point(from), to: point(to), slice: true, ..TimeRange::default() })
}

/// A build-id in hexadecimal digits, in lower case.
pub fn build_id(text: &str, span: &Span) -> Result<Vec<u8>, Fault> {
    let ok = (2..=40).contains(&text.len())
        && text.len().is_multiple_of(2)
        && text.bytes().all(|b| b.is_ascii_hexdigit());
    match ok {
        true => Ok(text.to_ascii_lowercase().into_bytes()),
        false => {
            Err(Fault::new(span.clone(), "a build-id is up to 20 bytes, each as two hexadecimal digits")
                .hint("a part of one is matched by a pattern: build-id =~ ^1a2b"))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn durations_are_exact() {
        for (text, ns) in [
            ("1", Some(1_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("3972.204128001", Some(3_972_204_128_001)),
            ("0.1000000000", Some(100_000_000)),
            ("300ms", Some(300_000_000)),
            ("2.5us", Some(2_500)),
            ("7ns", Some(7)),
            ("7.5ns", None),
            ("1.0000000001", None),
            ("18446744073.709551615", Some(u64::MAX)),
            ("18446744073.709551616", None),
            ("999999999999999999999999999999999999999999", None),
            ("1.", None),
            (".5", None),
            ("", None),
            ("s", None),
            ("1h", None),
            ("1e3", None),
        ] {
            assert_eq!(duration(text), ns, "{text}");
        }
    }

    #[test]
    fn numbers_are_bounded_and_say_what_is_wrong() {
        let get = |text: &str| number(text, &(4..4 + text.len()), -1, i128::from(i32::MAX));
        assert_eq!(get("0x10").unwrap(), 16);
        assert_eq!(get("-1").unwrap(), -1);
        assert_eq!(get("2147483648").unwrap_err().message, "this is not from -1 to 2147483647");
        assert_eq!(get(&"9".repeat(60)).unwrap_err().span, 4..64);
        for text in ["", "-", "0x", "1x", "+1", "1 ", "--1"] {
            assert!(get(text).is_err(), "{text}");
        }
        let range = |text: &str| numbers(text, &(0..text.len()), 0, 99, true);
        assert_eq!(range("1..3").unwrap(), (1, 3));
        assert_eq!((range("..3").unwrap(), range("7..").unwrap()), ((0, 3), (7, 99)));
        assert_eq!(range("3..1").unwrap_err().message, "the range ends before it starts");
        assert_eq!(range("1..x").unwrap_err().span, 3..4);
    }

    #[test]
    fn slices_are_as_perf_counts_them() {
        let of = |text: &str| stretch(text, &(0..text.len()));
        let slice = of("10%/2").unwrap();
        assert_eq!((slice.from, slice.to), (Some(TimePoint::Fraction(0.1)), Some(TimePoint::Fraction(0.2))));
        assert!(slice.slice && of("10%..20%").unwrap() == slice);
        for text in ["10%/0", "10%/11", "0%/1", "101%/1", "20%..10%", "10%/x", "1/2", "5%..120%"] {
            assert!(of(text).is_err(), "{text}");
        }
        let open = of("+1s..").unwrap();
        assert_eq!((open.from, open.to), (Some(TimePoint::FromStart(1_000_000_000)), None));
    }
}
