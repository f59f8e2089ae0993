//! A plugin's arguments.

use std::str::FromStr;

/// Keys with their values, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args(pub(crate) Vec<(String, Option<String>)>);

impl Args {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_deref()))
    }

    /// Refuses keys that are not among these.
    pub fn only(&self, keys: &[&str]) -> Result<(), String> {
        match self.iter().find(|(key, _)| !keys.contains(key)) {
            Some((key, _)) => Err(format!("there is no argument {key}; there are: {}", keys.join(", "))),
            None => Ok(()),
        }
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

    /// The value of a key, the last if there are more.
    pub fn text(&self, key: &str) -> Result<Option<&str>, String> {
        Ok(self.all(key)?.pop())
    }

    /// The value of a key as a number.
    pub fn number<T: FromStr>(&self, key: &str) -> Result<Option<T>, String> {
        let parse = |text: &str| text.parse().map_err(|_| format!("{key}={text} is no number"));
        self.text(key)?.map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_their_faults() {
        let arg = |k: &str, v: Option<&str>| (k.to_owned(), v.map(str::to_owned));
        let args = Args(vec![arg("n", Some("7")), arg("x", None), arg("n", Some("8")), arg("t", Some("a"))]);
        assert_eq!(args.number::<u32>("n"), Ok(Some(8)));
        assert_eq!(args.number::<u32>("m"), Ok(None));
        assert_eq!(args.number::<u32>("t"), Err("t=a is no number".into()));
        assert_eq!(args.text("x"), Err("x needs a value".into()));
        assert!(args.has("x") && args.only(&["n", "x", "t"]).is_ok());
        assert_eq!(args.only(&["n", "x"]), Err("there is no argument t; there are: n, x".into()));
    }
}
