//! The words of an expression.
//!
//! What a word may be depends on where it stands: a value of a name takes characters that a number does not. So the
//! parser asks for a word of the sort that it expects.

use super::fault::{Fault, Span};

/// What the parser looks at between values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// `(`
    Open,
    /// `)`
    Close,
    /// `{`
    OpenSet,
    /// `}`
    CloseSet,
    /// `,`
    Comma,
    /// `and` or `&&`
    And,
    /// `or` or `||`
    Or,
    /// `not` or `!`
    Not,
    /// `in`
    In,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `=~`
    Matches,
    /// `!~`
    MatchesNot,
    /// A word that is none of these: a field's name.
    Word,
    /// Anything else; one character.
    Other,
    /// The end.
    End,
}

const SIGNS: &[(&str, Token)] = &[
    ("==", Token::Equal),
    ("!=", Token::Unequal),
    ("<=", Token::AtMost),
    (">=", Token::AtLeast),
    ("=~", Token::Matches),
    ("!~", Token::MatchesNot),
    ("&&", Token::And),
    ("||", Token::Or),
    ("(", Token::Open),
    (")", Token::Close),
    ("{", Token::OpenSet),
    ("}", Token::CloseSet),
    (",", Token::Comma),
    ("<", Token::Less),
    (">", Token::Greater),
    ("!", Token::Not),
];

const WORDS: &[(&str, Token)] =
    &[("and", Token::And), ("or", Token::Or), ("not", Token::Not), ("in", Token::In)];

/// A name as a value, with quotes and their escapes undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The name.
    pub value: String,
    /// Where it stands, quotes included.
    pub span: Span,
    /// Where each of its bytes stands, and behind them its end, if any was escaped.
    places: Option<Vec<usize>>,
}

impl Text {
    /// The place in the expression of a part of the name.
    pub fn place(&self, part: Span) -> Span {
        match &self.places {
            Some(places) => {
                let at = |i: usize| places.get(i).copied().unwrap_or(self.span.end);
                at(part.start)..at(part.end)
            }
            None => {
                let end = self.span.end;
                (self.span.start + part.start).min(end)..(self.span.start + part.end).min(end)
            }
        }
    }
}

/// Reads words off an expression.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// At the start.
    pub fn new(source: &'a str) -> Self {
        Lexer { source, at: 0 }
    }

    /// The expression.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// Where the next word may begin.
    pub fn position(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes as many characters as `wanted` picks, after white space.
    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> (&'a str, Span) {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        let start = self.at;
        self.at += end;
        (rest.get(..end).unwrap_or_default(), start..self.at)
    }

    /// The next token, and where it stands.
    pub fn next(&mut self) -> (Token, Span) {
        self.skip_space();
        let (rest, start) = (self.rest(), self.at);
        for (sign, token) in SIGNS {
            if rest.starts_with(sign) {
                self.at += sign.len();
                return (*token, start..self.at);
            }
        }
        let (word, span) = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if word.is_empty() {
            let Some(c) = rest.chars().next() else { return (Token::End, start..start) };
            self.at += c.len_utf8();
            return (Token::Other, start..self.at);
        }
        let word = WORDS.iter().find(|(name, _)| *name == word).map_or(Token::Word, |(_, token)| *token);
        (word, span)
    }

    /// The next token, which is not taken.
    pub fn peek(&self) -> (Token, Span) {
        self.clone().next()
    }

    /// Takes the next token if it is this one.
    pub fn take(&mut self, token: Token) -> bool {
        let mut ahead = self.clone();
        let taken = ahead.next().0 == token;
        if taken {
            *self = ahead;
        }
        taken
    }

    /// A number, a time, or a range of such: what has no space and no sign of the language in it. May be empty.
    pub fn bare(&mut self) -> (&'a str, Span) {
        self.take_while(|c| !c.is_whitespace() && !is_sign(c))
    }

    /// A name: quoted, or bare up to a space or a sign of the language. In quotes, a backslash before the quote
    /// takes its meaning away; other backslashes are themselves, so that patterns need not double them.
    pub fn text(&mut self) -> Result<Text, Fault> {
        self.skip_space();
        let start = self.at;
        let Some(quote @ ('"' | '\'')) = self.rest().chars().next() else {
            let (bare, span) = self.bare();
            return match bare {
                "" => {
                    let (_, found) = self.peek();
                    Err(Fault::new(found, "a name is missing here")
                        .hint("a name with spaces or signs in it is written in quotes"))
                }
                name => Ok(Text { value: name.to_owned(), span, places: None }),
            };
        };
        self.at += 1;
        let (mut value, mut places) = (String::new(), Vec::new());
        let body = self.rest();
        let mut chars = body.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            let taken = match c {
                '\\' if chars.peek().is_some_and(|(_, next)| *next == quote) => {
                    chars.next();
                    quote
                }
                c if c == quote => {
                    places.push(self.at + i);
                    self.at += i + 1;
                    return Ok(Text { value, span: start..self.at, places: Some(places) });
                }
                c => c,
            };
            value.push(taken);
            places.resize(value.len(), self.at + i);
        }
        self.at = self.source.len();
        Err(Fault::new(start..self.at, format!("the closing {quote} is missing")))
    }
}

/// Characters that end a bare value.
fn is_sign(c: char) -> bool {
    matches!(c, '(' | ')' | '{' | '}' | ',' | '<' | '>' | '=' | '!' | '&' | '|' | '"' | '\'' | '~')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_longer_sign_wins() {
        let mut lexer = Lexer::new("a<=1&&!b=~c");
        let tokens: Vec<Token> =
            std::iter::from_fn(|| Some(lexer.next().0)).take_while(|t| *t != Token::End).collect();
        use Token::*;
        assert_eq!(tokens, [Word, AtMost, Word, And, Not, Word, Matches, Word]);
    }

    #[test]
    fn quotes_are_undone_and_places_kept() {
        let mut lexer = Lexer::new(r#" "a\"\.é" rest"#);
        let text = lexer.text().unwrap();
        assert_eq!((text.value.as_str(), text.span.clone()), (r#"a"\.é"#, 1..10));
        assert_eq!(text.place(1..2), 3..5, "the escaped quote");
        assert_eq!(text.place(2..4), 5..7);
        assert_eq!(text.place(4..6), 7..9);
        assert_eq!(lexer.next(), (Token::Word, 11..15));
        assert_eq!(Lexer::new("'open").text().unwrap_err().span, 0..5);
    }
}
