//! The plugin's arguments.

use repipe_plugin::Args;

use super::rules::Rules;

/// What becomes of bytes that may hold anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// They stay, with a warning.
    Keep,
    /// They become zeros.
    Zero,
    /// They are left out.
    Drop,
}

/// The arguments, understood.
pub struct Options {
    /// What is hidden.
    pub rules: Rules,
    /// Copies of users' stacks.
    pub stacks: Bytes,
    /// Raw data of samples.
    pub raw: Bytes,
    /// AUX data.
    pub aux: Bytes,
    /// Whether records and sections stay that are not looked into.
    pub keeps_others: bool,
}

impl Options {
    /// From what was written on the command line; an error says what is wrong with it.
    pub fn parse(args: &Args) -> Result<Options, String> {
        args.only_with(&["salt", "stacks", "raw", "aux", "others"], &["comm", "name"])?;
        let of = |key: &str, can_drop: bool| match args.text(key)? {
            None | Some("keep") => Ok(Bytes::Keep),
            Some("zero") => Ok(Bytes::Zero),
            Some("drop") if can_drop => Ok(Bytes::Drop),
            Some(other) => {
                let all = if can_drop { "keep, zero, drop" } else { "keep, zero" };
                Err(format!("{key}={other} is none of {all}"))
            }
        };
        let all = |key| args.all(key).map(|all| all.into_iter().map(str::to_owned).collect());
        Ok(Options {
            rules: Rules::new(args.text("salt")?, all("comm")?, all("name")?),
            stacks: of("stacks", true)?,
            raw: of("raw", false)?,
            aux: of("aux", false)?,
            keeps_others: match args.text("others")? {
                None | Some("drop") => false,
                Some("keep") => true,
                Some(other) => return Err(format!("others={other} is neither drop nor keep")),
            },
        })
    }
}
