//! From text to [`Expr`]. Any text gives an expression or a [`Fault`] whose place is in the text.
//!
//! ```text
//! or    = and {("or" | "||") and}
//! and   = unary {("and" | "&&") unary}
//! unary = {"not" | "!"} ("(" or ")" | test)
//! test  = FIELD (("==" | "!=" | "<" | "<=" | ">" | ">=") VALUE | ("=~" | "!~") PATTERN | ["not"] "in" set)
//! set   = item | "{" item {"," item} "}"
//! item  = VALUE | [VALUE] ".." [VALUE]
//! ```

use regex::bytes::{Regex, RegexBuilder};

use super::expr::{CPUMODES, Expr, FIELDS, Field, Kind, Test, TimePoint, TimeRange, Values};
use super::fault::{Fault, Span};
use super::lex::{Lexer, Text, Token};
use super::values;

/// Parentheses within parentheses.
const DEPTH_MAX: u32 = 100;
/// Bytes that one compiled pattern may take.
const PATTERN_MAX: usize = 4 << 20;

/// Parses an expression.
pub fn parse(source: &str) -> Result<Expr, Fault> {
    let mut parser = Parser { lexer: Lexer::new(source), depth: 0 };
    let expr = parser.or()?;
    match parser.lexer.next() {
        (Token::End, _) => Ok(expr),
        (Token::Close, span) => Err(Fault::new(span, "no parenthesis is open here")),
        (_, span) => Err(Fault::new(span, "this is not expected here")
            .hint("comparisons are joined by and, or; their order is shown by parentheses")),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    depth: u32,
}

impl Parser<'_> {
    fn or(&mut self) -> Result<Expr, Fault> {
        self.joined(Token::Or, Expr::Or, Self::and)
    }

    fn and(&mut self) -> Result<Expr, Fault> {
        self.joined(Token::And, Expr::And, Self::unary)
    }

    fn joined(
        &mut self,
        sign: Token,
        join: impl Fn(Vec<Expr>) -> Expr,
        part: impl Fn(&mut Self) -> Result<Expr, Fault>,
    ) -> Result<Expr, Fault> {
        let first = part(self)?;
        if self.lexer.peek().0 != sign {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.lexer.take(sign) {
            parts.push(part(self)?);
        }
        Ok(join(parts))
    }

    fn unary(&mut self) -> Result<Expr, Fault> {
        let mut negated = false;
        while self.lexer.take(Token::Not) {
            negated = !negated;
        }
        let expr = match self.lexer.peek() {
            (Token::Open, span) => self.parentheses(span)?,
            _ => Expr::Test(self.test()?),
        };
        Ok(if negated { Expr::Not(Box::new(expr)) } else { expr })
    }

    fn parentheses(&mut self, opened: Span) -> Result<Expr, Fault> {
        if self.depth == DEPTH_MAX {
            return Err(Fault::new(opened, "parentheses are nested too deeply here"));
        }
        self.depth += 1;
        self.lexer.next();
        let expr = self.or()?;
        self.depth -= 1;
        match self.lexer.next() {
            (Token::Close, _) => Ok(expr),
            (Token::End, _) => Err(Fault::new(opened, "this parenthesis is not closed")),
            (_, span) => Err(Fault::new(span, "and, or, or a closing parenthesis is expected here")),
        }
    }

    fn test(&mut self) -> Result<Test, Fault> {
        let (token, field_span) = self.lexer.next();
        let name = self.lexer.source().get(field_span.clone()).unwrap_or_default();
        let field = match token {
            Token::Word => FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| *field),
            _ => None,
        };
        let Some(field) = field else { return Err(no_field(token, name, field_span)) };
        let (operator, at) = self.lexer.next();
        let (negated, operator) = match operator {
            Token::Unequal => (true, Token::Equal),
            Token::MatchesNot => (true, Token::Matches),
            Token::Not if self.lexer.take(Token::In) => (true, Token::In),
            operator => (false, operator),
        };
        let before = self.lexer.clone();
        let values = match operator {
            Token::Equal => self.item(field, false)?,
            Token::In => self.set(field)?,
            Token::Matches => self.pattern(field, &at)?,
            Token::Less | Token::AtMost | Token::Greater | Token::AtLeast => {
                self.bound(field, operator, &at)?
            }
            _ => return Err(no_operator(self.lexer.source(), at)),
        };
        let values_span = before.peek().1.start..self.lexer.position();
        Ok(Test { field, values, negated, field_span, values_span })
    }

    /// What stands behind `in`.
    fn set(&mut self, field: Field) -> Result<Values, Fault> {
        let opened = self.lexer.peek();
        if opened.0 != Token::OpenSet {
            return match opened.0 {
                Token::Open => Err(Fault::new(opened.1, "a set stands in braces").hint("{1, 2}")),
                _ => self.item(field, true),
            };
        }
        self.lexer.next();
        let mut set = self.item(field, true)?;
        loop {
            match self.lexer.next() {
                (Token::CloseSet, _) => return Ok(set),
                (Token::Comma, _) => {}
                (Token::End, _) => return Err(Fault::new(opened.1, "this set is not closed")),
                (_, span) => {
                    return Err(Fault::new(span, "a comma or a closing brace is expected here"));
                }
            }
            match (&mut set, self.item(field, true)?) {
                (Values::Numbers(all), Values::Numbers(more)) => all.extend(more),
                (Values::Times(all), Values::Times(more)) => all.extend(more),
                (Values::Names(all), Values::Names(more)) => all.extend(more),
                _ => {}
            }
        }
    }

    /// One value, or with `ranges` a range.
    fn item(&mut self, field: Field, ranges: bool) -> Result<Values, Fault> {
        Ok(match field.kind() {
            Kind::Number { .. } => {
                let (least, most) = limits(field);
                let (text, span) = self.bare();
                Values::Numbers(vec![values::numbers(text, &span, least, most, ranges)?])
            }
            Kind::Time => {
                let (text, span) = self.bare();
                Values::Times(vec![if ranges {
                    values::stretch(text, &span)?
                } else {
                    let point = Some(values::moment(text, &span)?);
                    TimeRange { from: point, to: point, ..TimeRange::default() }
                }])
            }
            Kind::Cpumode => {
                let Text { value, span, .. } = self.lexer.text()?;
                let Some((_, mode)) = CPUMODES.iter().find(|(name, _)| *name == value) else {
                    let names: Vec<&str> = CPUMODES.iter().map(|(name, _)| *name).collect();
                    return Err(Fault::new(span, "this is no cpumode").hint(names.join(", ")));
                };
                Values::Numbers(vec![(i128::from(*mode), i128::from(*mode))])
            }
            Kind::Text => {
                let Text { value, span, .. } = self.lexer.text()?;
                Values::Names(vec![(value.into_bytes(), span)])
            }
            Kind::Hex => {
                let text = self.lexer.text()?;
                Values::Names(vec![(values::build_id(&text.value, &text.span)?, text.span)])
            }
        })
    }

    /// A bare value; where there is none, the place of what stands there.
    fn bare(&mut self) -> (&str, Span) {
        let found = self.lexer.peek().1;
        match self.lexer.bare() {
            ("", _) => ("", found),
            bare => bare,
        }
    }

    /// What stands behind `<` and its like.
    fn bound(&mut self, field: Field, operator: Token, at: &Span) -> Result<Values, Fault> {
        let up = matches!(operator, Token::Greater | Token::AtLeast);
        let strict = matches!(operator, Token::Greater | Token::Less);
        match field.kind() {
            Kind::Number { .. } => {
                let (least, most) = limits(field);
                let (text, span) = self.bare();
                let value = values::numbers(text, &span, least, most, false)?.0;
                let step = i128::from(strict);
                Ok(Values::Numbers(vec![if up { (value + step, most) } else { (least, value - step) }]))
            }
            Kind::Time => {
                let (text, span) = self.bare();
                let point: Option<TimePoint> = Some(values::moment(text, &span)?);
                let range = TimeRange::default();
                Ok(Values::Times(vec![match up {
                    true => TimeRange { from: point, after: strict, ..range },
                    false => TimeRange { to: point, before: strict, ..range },
                }]))
            }
            _ => Err(Fault::new(at.clone(), format!("{} has no order", field.name()))
                .hint("names are compared by ==, !=, in, =~ and !~")),
        }
    }

    fn pattern(&mut self, field: Field, at: &Span) -> Result<Values, Fault> {
        if !matches!(field.kind(), Kind::Text | Kind::Hex) {
            return Err(Fault::new(at.clone(), format!("a pattern does not go with {}", field.name()))
                .hint("patterns are for event, comm, dso, build-id and symbol, and those of frames"));
        }
        let text = self.lexer.text()?;
        compile_pattern(&text).map(|regex| Values::Pattern(Box::new(regex)))
    }
}

/// Least and most that a number may be.
fn limits(field: Field) -> (i128, i128) {
    match field.kind() {
        Kind::Number { id: true } => (-1, i128::from(i32::MAX)),
        _ if field == Field::Cpu => (0, i128::from(u32::MAX)),
        _ => (0, i128::from(u64::MAX)),
    }
}

fn compile_pattern(text: &Text) -> Result<Regex, Fault> {
    let mut syntax = regex_syntax::ParserBuilder::new().utf8(false).build();
    if let Err(e) = syntax.parse(&text.value) {
        let (span, what) = match &e {
            regex_syntax::Error::Parse(e) => (e.span(), e.kind().to_string()),
            regex_syntax::Error::Translate(e) => (e.span(), e.kind().to_string()),
            _ => return Err(Fault::new(text.span.clone(), "this is no pattern")),
        };
        return Err(Fault::new(
            text.place(span.start.offset..span.end.offset),
            format!("in the pattern: {what}"),
        ));
    }
    RegexBuilder::new(&text.value).size_limit(PATTERN_MAX).build().map_err(|e| {
        let what = match e {
            regex::Error::CompiledTooBig(_) => "this pattern is too large".to_owned(),
            e => e.to_string().lines().last().unwrap_or_default().to_owned(),
        };
        Fault::new(text.span.clone(), what)
    })
}

/// Bytes of a name that is repeated in a message; fields have fewer.
const NAME_SHOWN: usize = 40;

fn no_field(token: Token, name: &str, span: Span) -> Fault {
    let fields = || FIELDS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    match token {
        Token::Word => {
            // A long one is marked in the expression all the same.
            let name = if name.len() > NAME_SHOWN { "of this name" } else { name };
            Fault::new(span, format!("there is no field {name}")).hint(format!("fields: {}", fields()))
        }
        Token::End => Fault::new(span, "a comparison is missing here"),
        _ => Fault::new(span, "a field is expected here").hint(format!("fields: {}", fields())),
    }
}

fn no_operator(source: &str, span: Span) -> Fault {
    match source.get(span.clone()) {
        Some("=") => Fault::new(span, "an operator is expected here").hint("equality is written =="),
        _ => Fault::new(span, "an operator is expected here")
            .hint("operators: ==, !=, <, <=, >, >=, =~, !~, in, not in"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;

    use super::*;

    fn fault(source: &str) -> (String, String) {
        let fault = parse(source).expect_err(source);
        (fault.message, source[fault.span].to_owned())
    }

    #[test]
    fn not_binds_closest_and_or_loosest() {
        let Expr::Or(parts) = parse("pid == 1 or not pid == 2 and tid == 3").unwrap() else { panic!() };
        let [Expr::Test(_), Expr::And(both)] = parts.as_slice() else { panic!("{parts:?}") };
        assert!(matches!(both.as_slice(), [Expr::Not(_), Expr::Test(_)]));
        assert!(matches!(parse("!!(pid==1)").unwrap(), Expr::Test(_)));
    }

    #[test]
    fn comparisons_become_ranges() {
        let numbers = |source: &str| match parse(source).unwrap() {
            Expr::Test(Test { values: Values::Numbers(ranges), negated, .. }) => (ranges, negated),
            other => panic!("{other:?}"),
        };
        let max = i128::from(u32::MAX);
        assert_eq!(numbers("cpu == 3"), (vec![(3, 3)], false));
        assert_eq!(numbers("cpu != 3"), (vec![(3, 3)], true));
        assert_eq!(numbers("cpu < 3"), (vec![(0, 2)], false));
        assert_eq!(numbers("cpu < 0"), (vec![(0, -1)], false));
        assert_eq!(numbers("cpu>=3"), (vec![(3, max)], false));
        assert_eq!(numbers("cpu in {0, 2..4 ,9..}"), (vec![(0, 0), (2, 4), (9, max)], false));
        assert_eq!(numbers("cpu not in 1..2"), (vec![(1, 2)], true));
        assert_eq!(numbers("cpumode == kernel"), (vec![(1, 1)], false));
    }

    #[test]
    fn faults_point_at_their_place() {
        let of = |source: &str, place: &str, part: &str| {
            let (message, at) = fault(source);
            assert_eq!(at, place, "{source}: {message}");
            assert!(message.contains(part), "{source}: {message}");
        };
        of("", "", "a comparison is missing");
        of("pid = 3", "=", "operator");
        of("pid == 3x", "3x", "no number");
        of("pid ==", "", "number is missing");
        of("pid == )", ")", "number is missing");
        of("pidd == 3", "pidd", "no field pidd");
        of("pid == 3 tid == 4", "tid", "not expected");
        of("(pid == 3", "(", "not closed");
        of("pid == 3)", ")", "no parenthesis is open");
        of("pid in {1, 2", "{", "not closed");
        of("pid in (1, 2)", "(", "braces");
        of("pid == 1..2", "1..2", "only behind in");
        of("comm < a", "<", "no order");
        of("comm == 'a", "'a", "closing '");
        of("comm =~ 'a(b'", "(", "in the pattern");
        of("comm =~ \"\\\"[z-a]\"", "z-a", "in the pattern");
        of("pid =~ 3", "=~", "pattern");
        of("comm =~ '(?:a{999}){999}'", "'(?:a{999}){999}'", "too large");
        of("time == 10%/2", "10%/2", "no time");
        of("build-id == abc", "abc", "build-id");
        of("cpumode == ring0", "ring0", "cpumode");
        of("pid == 1 and", "", "a comparison is missing");
        of(&format!("{}pid == 1", "(".repeat(101)), "(", "too deeply");
    }

    #[test]
    fn long_expressions_do_not_recurse() {
        let chain = vec!["pid == 1"; 100_000].join(" or ");
        let Expr::Or(parts) = parse(&chain).unwrap() else { panic!() };
        assert_eq!(parts.len(), 100_000);
        assert!(parse(&format!("{}pid == 1", "not ".repeat(100_001))).is_ok());
    }

    fn word() -> impl Strategy<Value = String> {
        let fields = FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
        let signs = [
            "==", "!=", "<", "<=", ">", ">=", "=~", "!~", "in", "not", "and", "or", "(", ")", "{", "}", ",",
            "..", "1", "0x1f", "-1", "+1.5s", "10%", "10%/2", "1..2", "ls", "'a b'", "\"", "[a-z]+",
            "kernel", "é", "\n",
        ];
        prop_oneof![
            prop::sample::select(fields),
            prop::sample::select(signs.map(str::to_owned).to_vec()),
            "\\PC{0,6}",
        ]
    }

    proptest! {
        #[test]
        fn any_text_parses_or_has_a_fault_within_it(
            words in prop::collection::vec(word(), 0..24),
            gap in prop::sample::select(vec!["", " ", "  "]),
        ) {
            let source = words.join(gap);
            if let Err(fault) = parse(&source) {
                prop_assert!(fault.span.start <= fault.span.end && fault.span.end <= source.len());
                prop_assert!(source.get(fault.span.clone()).is_some(), "{:?} of {:?}", fault, source);
                prop_assert!(!fault.message.is_empty());
                let shown = fault.in_option("--filter", &source).to_string();
                prop_assert!(shown.contains('^'));
            }
        }

        #[test]
        fn any_bytes_of_text_do_not_panic(source in "\\PC*") {
            let _ = parse(&source);
        }
    }
}
