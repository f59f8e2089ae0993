//! A plugin's arguments.

use std::fmt;
use std::str::FromStr;

/// Keys with their values, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args(pub(crate) Vec<(String, Option<String>)>);

/// Why a plugin was not opened. What is made of a text by `?` says that the arguments are wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The arguments are wrong: the user's mistake, for which repipe exits with 2.
    Usage(String),
    /// Something else failed, for which it exits with 1.
    Failed(String),
}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        OpenError::Usage(why)
    }
}

impl From<&str> for OpenError {
    fn from(why: &str) -> Self {
        OpenError::Usage(why.to_owned())
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (OpenError::Usage(why) | OpenError::Failed(why)) = self;
        f.write_str(why)
    }
}

impl Args {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_deref()))
    }

    /// Refuses keys that are not among these, and those that are given twice.
    pub fn only(&self, keys: &[&str]) -> Result<(), String> {
        self.only_with(keys, &[])
    }

    /// Refuses keys that are among neither, and those of the first that are given twice.
    pub fn only_with(&self, once: &[&str], repeated: &[&str]) -> Result<(), String> {
        if let Some((key, _)) = self.iter().find(|(key, _)| !once.contains(key) && !repeated.contains(key)) {
            let all: Vec<&str> = once.iter().chain(repeated).copied().collect();
            return Err(format!("there is no argument {key}; there are: {}", all.join(", ")));
        }
        once.iter().try_for_each(|key| self.once(key).map(drop))
    }

    /// Whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.iter().any(|(k, _)| k == key)
    }

    /// All values of a key; an error if it is there without one.
    pub fn all(&self, key: &str) -> Result<Vec<&str>, String> {
        let values = self.iter().filter(|(k, _)| *k == key);
        values.map(|(_, value)| value.ok_or_else(|| format!("{key} needs a value"))).collect()
    }

    /// A key that may be given once: outer `None` if it is not there, inner if it has no value.
    fn once(&self, key: &str) -> Result<Option<Option<&str>>, String> {
        let mut values = self.iter().filter(|(k, _)| *k == key).map(|(_, value)| value);
        let first = values.next();
        let shown =
            |value: Option<&str>| value.map_or_else(|| key.to_owned(), |value| format!("{key}={value}"));
        match (first, values.next()) {
            (Some(one), Some(other)) => {
                Err(format!("{key} is given twice, as {} and {}; give it once", shown(one), shown(other)))
            }
            (first, _) => Ok(first),
        }
    }

    /// The value of a key; an error if it is given twice, or without one.
    pub fn text(&self, key: &str) -> Result<Option<&str>, String> {
        self.once(key)?.map(|value| value.ok_or_else(|| format!("{key} needs a value"))).transpose()
    }

    /// The value of a key as a number.
    pub fn number<T: FromStr>(&self, key: &str) -> Result<Option<T>, String> {
        let parse = |text: &str| text.parse().map_err(|_| format!("{key}={text} is no number"));
        self.text(key)?.map(parse).transpose()
    }

    /// Whether a key is `yes`, or there without a value; not if it is `no` or not there.
    pub fn yes(&self, key: &str) -> Result<bool, String> {
        match self.once(key)? {
            None | Some(Some("no")) => Ok(false),
            Some(None | Some("yes")) => Ok(true),
            Some(Some(other)) => Err(format!("{key}={other} is neither yes nor no")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(args: &[(&str, Option<&str>)]) -> Args {
        Args(args.iter().map(|(k, v)| ((*k).to_owned(), v.map(str::to_owned))).collect())
    }

    #[test]
    fn values_and_their_faults() {
        let args = args(&[("n", Some("7")), ("x", None), ("t", Some("a")), ("f", Some("no"))]);
        assert_eq!(args.number::<u32>("n"), Ok(Some(7)));
        assert_eq!(args.number::<u32>("m"), Ok(None));
        assert_eq!(args.number::<u32>("t"), Err("t=a is no number".into()));
        assert_eq!(args.text("x"), Err("x needs a value".into()));
        assert_eq!((args.yes("x"), args.yes("f"), args.yes("y")), (Ok(true), Ok(false), Ok(false)));
        assert_eq!(args.yes("t"), Err("t=a is neither yes nor no".into()));
        assert!(args.has("x") && args.only(&["n", "x", "t", "f"]).is_ok());
        assert_eq!(args.only(&["n", "x", "f"]), Err("there is no argument t; there are: n, x, f".into()));
    }

    #[test]
    fn a_key_given_twice_is_refused_where_one_is_meant() {
        let args = args(&[("n", Some("3")), ("r", Some("a")), ("n", None), ("r", Some("b"))]);
        let twice = "n is given twice, as n=3 and n; give it once".to_owned();
        assert_eq!(args.number::<u32>("n"), Err(twice.clone()));
        assert_eq!(args.yes("n"), Err(twice.clone()));
        assert_eq!(args.only_with(&["n"], &["r"]), Err(twice));
        assert_eq!(args.only_with(&[], &["n", "r"]), Ok(()));
        assert_eq!(args.only(&["n"]), Err("there is no argument r; there are: n".into()));
        assert_eq!(args.all("r"), Ok(vec!["a", "b"]));
    }

    #[test]
    fn what_is_made_of_a_text_is_about_the_arguments() {
        assert_eq!(OpenError::from("n=N"), OpenError::Usage("n=N".into()));
        assert_eq!(OpenError::Failed("no room".into()).to_string(), "no room");
    }
}
