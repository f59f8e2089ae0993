//! What is wrong with an expression, and where in it.

use std::fmt;
use std::ops::Range;

use crate::error::Error;

/// A stretch of an expression, in bytes from its start.
pub type Span = Range<usize>;

/// What is wrong with an expression, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where; empty at a place where something is missing. It lies within the expression and on character bounds.
    pub span: Span,
    /// What, in lower case.
    pub message: String,
    /// What could be written instead.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault without a hint.
    pub fn new(span: Span, message: impl Into<String>) -> Fault {
        Fault { span, message: message.into(), hint: None }
    }

    /// Adds what could be written instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// As an error of the option that the expression was given with: the message, and below it the expression's line
    /// with the place marked, and the hint behind the mark.
    pub fn in_option(&self, option: &str, expression: &str) -> Error {
        Error::usage(format!("{option}: {}\n{}", self.message, Label { fault: self, expression }))
    }
}

/// Most characters of an expression that are shown.
const WIDTH: usize = 72;

/// The line of the expression that a fault begins in, or of a long one what stands around the place, and carets below it.
struct Label<'a> {
    fault: &'a Fault,
    expression: &'a str,
}

/// A character that takes one column and steers nothing, whatever stands in the expression.
pub(super) fn shown(c: char) -> char {
    let steers = matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    if c.is_control() || steers { ' ' } else { c }
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, span) = (self.expression, &self.fault.span);
        let before = whole.get(..span.start).unwrap_or(whole);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = whole.get(line_start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        let marked = whole.get(span.start..span.end.min(line_start + line.len())).unwrap_or_default();
        // In characters of the line from here on.
        let length = line.chars().count();
        let place = before.get(line_start..).unwrap_or_default().chars().count();
        let marked = marked.chars().count().max(1);
        // A place that is longer than the room begins at a third of it.
        let room = WIDTH.saturating_sub(marked).max(WIDTH / 3) / 2;
        let from = if length > WIDTH { place.saturating_sub(room).min(length - WIDTH) } else { 0 };
        let window: String = line.chars().skip(from).take(WIDTH).map(shown).collect();
        let (left, right) = (if from > 0 { "…" } else { "" }, if from + WIDTH < length { "…" } else { "" });
        let indent = place - from + usize::from(from > 0);
        let carets = "^".repeat(marked.min((from + WIDTH).saturating_sub(place)).max(1));
        write!(f, "    {left}{window}{right}\n    {:indent$}{carets}", "")?;
        match &self.fault.hint {
            Some(hint) => write!(f, " {hint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    fn error(span: Span, expression: &str) -> String {
        Fault::new(span, "wrong").in_option("--filter", expression).to_string()
    }

    #[test]
    fn carets_stand_under_the_place() {
        assert_eq!(error(7..9, "pid == 1x"), "--filter: wrong\n    pid == 1x\n           ^^");
        assert_eq!(error(9..9, "pid == 1x"), "--filter: wrong\n    pid == 1x\n             ^");
    }

    #[test]
    fn the_hint_stands_behind_the_carets() {
        let fault = Fault::new(4..5, "wrong").hint("write ==");
        assert_eq!(
            fault.in_option("--filter", "pid = 3").to_string(),
            "--filter: wrong\n    pid = 3\n        ^ write =="
        );
    }

    #[test]
    fn columns_are_characters_and_lines_are_lines() {
        // The two-byte letter is one column.
        assert_eq!(error(5..6, "é or)"), "--filter: wrong\n    é or)\n        ^");
        assert_eq!(error(6..10, "pid ==\nx\ty"), "--filter: wrong\n    pid ==\n          ^");
        assert_eq!(error(7..8, "pid ==\nx\ty"), "--filter: wrong\n    x y\n    ^");
    }

    #[test]
    fn a_long_expression_is_shown_around_the_place() {
        let long = format!("{}pid = 3{}", "pid == 1 or ".repeat(10_000), " or pid == 2".repeat(10_000));
        let text = error(120_004..120_005, &long);
        let lines: Vec<&str> = text.lines().collect();
        let [_, window, carets] = lines.as_slice() else { panic!("{text}") };
        assert_eq!(window.chars().count(), 4 + 1 + WIDTH + 1);
        assert!(window.starts_with("    …") && window.ends_with('…') && window.contains("or pid = 3 or"));
        let at = carets.chars().position(|c| c == '^').unwrap_or_default();
        assert_eq!((window.chars().nth(at), carets.len()), (Some('='), at + 1));
    }

    #[test]
    fn a_long_place_and_the_ends_of_a_long_expression() {
        let long = "é".repeat(500);
        let of = |span: Span| {
            let text = error(span, &long);
            let (window, carets) =
                text.split_once('\n').and_then(|(_, rest)| rest.split_once('\n')).unwrap_or_default();
            let count = |text: &str, wanted| text.chars().filter(|&c| c == wanted).count();
            let indent = carets.chars().take_while(|&c| c == ' ').count();
            (
                window.starts_with("    …"),
                count(window, 'é'),
                window.ends_with('…'),
                indent,
                count(carets, '^'),
            )
        };
        assert_eq!(of(0..2), (false, WIDTH, true, 4, 1));
        assert_eq!(of(0..1000), (false, WIDTH, true, 4, WIDTH));
        assert_eq!(of(200..1000), (true, WIDTH, true, 5 + WIDTH / 6, WIDTH - WIDTH / 6));
        assert_eq!(of(998..1000), (true, WIDTH, false, 4 + WIDTH, 1));
        assert_eq!(of(1000..1000), (true, WIDTH, false, 5 + WIDTH, 1));
    }

    #[test]
    fn nothing_of_an_expression_steers_the_terminal() {
        let text = error(11..12, "\u{1b}[2J\u{202e}\r\npid");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
        let text = error(8..9, "\u{1b}[2J\u{202e}\t=");
        assert_eq!(text, "--filter: wrong\n     [2J  =\n          ^");
    }
}
