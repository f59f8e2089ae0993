//! `NAME|PATH[:key=value,…]`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::error::{Error, Result};

/// A plugin and its arguments, as on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// A name, or with a slash a path.
    pub what: OsString,
    /// Keys with their values, in order.
    pub args: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Spec {
    /// Takes the text apart. A backslash takes the byte behind it as it is.
    pub fn parse(text: &OsStr) -> Result<Spec> {
        let bytes = text.as_bytes();
        let (what, rest) = match bytes.iter().position(|&b| b == b':') {
            Some(at) => {
                let (what, rest) = bytes.split_at(at);
                (what, rest.get(1..))
            }
            None => (bytes, None),
        };
        if what.is_empty() {
            return Err(Error::usage("a plugin needs a name or a path before the colon"));
        }
        let mut args = Vec::new();
        for part in rest.filter(|rest| !rest.is_empty()).map(parts).unwrap_or_default() {
            let arg = match part.iter().position(|&(b, plain)| plain && b == b'=') {
                Some(at) => {
                    let (key, value) = part.split_at(at);
                    (text_of(key), Some(text_of(value.get(1..).unwrap_or_default())))
                }
                None => (text_of(&part), None),
            };
            if arg.0.is_empty() {
                return Err(Error::usage(format!("{}: an argument without a name", text.display())));
            }
            args.push(arg);
        }
        Ok(Spec { what: OsString::from_vec(what.to_vec()), args })
    }
}

/// Bytes, and whether each stands for itself rather than for what it may separate.
type Part = Vec<(u8, bool)>;

fn parts(bytes: &[u8]) -> Vec<Part> {
    let mut parts = vec![Part::new()];
    let mut escaped = false;
    for &byte in bytes {
        let last = parts.last_mut();
        match (byte, escaped) {
            (b'\\', false) => escaped = true,
            (b',', false) => parts.push(Part::new()),
            _ => {
                last.into_iter().for_each(|part| part.push((byte, !escaped)));
                escaped = false;
            }
        }
    }
    parts
}

fn text_of(part: &[(u8, bool)]) -> Vec<u8> {
    part.iter().map(|&(byte, _)| byte).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> (String, Vec<(String, Option<String>)>) {
        let spec = Spec::parse(OsStr::new(text)).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let args = spec.args.into_iter().map(|(key, value)| (text(key), value.map(text))).collect();
        (spec.what.into_string().unwrap(), args)
    }

    #[test]
    fn names_with_arguments() {
        let arg = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
        assert_eq!(parse("every"), ("every".into(), vec![]));
        assert_eq!(parse("every:n=10"), ("every".into(), vec![arg("n", Some("10"))]));
        assert_eq!(
            parse(r"./x.so:a=b=c,flag,d=\,\=e,f="),
            (
                "./x.so".into(),
                vec![arg("a", Some("b=c")), arg("flag", None), arg("d", Some(",=e")), arg("f", Some(""))]
            )
        );
        assert!(Spec::parse(OsStr::new(":a=b")).is_err());
        assert!(Spec::parse(OsStr::new("x:=b")).is_err());
    }
}
