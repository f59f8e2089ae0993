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

/// The line of the expression that a fault begins in, and carets below it.
struct Label<'a> {
    fault: &'a Fault,
    expression: &'a str,
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, span) = (self.expression, &self.fault.span);
        let before = whole.get(..span.start).unwrap_or(whole);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = whole.get(line_start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        let shown: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let indent = before.get(line_start..).unwrap_or_default().chars().count();
        let marked = whole.get(span.start..span.end.min(line_start + line.len())).unwrap_or_default();
        let carets = "^".repeat(marked.chars().count().max(1));
        write!(f, "    {shown}\n    {:indent$}{carets}", "")?;
        match &self.fault.hint {
            Some(hint) => write!(f, " {hint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(span: Span, expression: &str) -> String {
        Fault::new(span, "wrong").in_option("--filter", expression).to_string()
    }

    #[test]
    fn carets_stand_under_the_place() {
        assert_eq!(shown(7..9, "pid == 1x"), "--filter: wrong\n    pid == 1x\n           ^^");
        assert_eq!(shown(9..9, "pid == 1x"), "--filter: wrong\n    pid == 1x\n             ^");
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
        assert_eq!(shown(5..6, "é or)"), "--filter: wrong\n    é or)\n        ^");
        assert_eq!(shown(6..10, "pid ==\nx\ty"), "--filter: wrong\n    pid ==\n          ^");
        assert_eq!(shown(7..8, "pid ==\nx\ty"), "--filter: wrong\n    x y\n    ^");
    }
}
