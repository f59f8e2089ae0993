//! The closing summary: what was read, written, injected, missed and left out.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::stage::Counts;

/// How the summary is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum SummaryFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// What a rewrite came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// Records read, by type.
    pub records_in: Counts,
    /// Records written, by type.
    pub records_out: Counts,
    /// DSOs that samples hit (or that are mapped, where all are asked for).
    pub dsos_hit: u64,
    /// Build-ids injected, by where they came from.
    pub ids_injected: BTreeMap<&'static str, u64>,
    /// DSOs without an id: name, a word for the reason, and the reason for people.
    pub ids_missing: Vec<(String, &'static str, String)>,
    /// What could not be carried over or should be known.
    pub warnings: Vec<String>,
    /// What plugins tell besides.
    pub notes: Vec<String>,
}

impl Summary {
    /// Ids injected, from wherever.
    pub fn injected(&self) -> u64 {
        self.ids_injected.values().sum()
    }

    /// As JSON: `records_in`, `records_out` (type to count), `dsos_hit`, `ids_injected` (source to count),
    /// `ids_missing` (list of `name`, `reason`, `text`), `warnings`,
    /// `notes`.
    pub fn to_json(&self) -> Value {
        let counts =
            |c: &Counts| -> Value { c.iter().map(|(t, n)| (t.to_string(), Value::from(n))).collect() };
        let missing: Vec<Value> = self
            .ids_missing
            .iter()
            .map(|(name, reason, text)| json!({ "name": name, "reason": reason, "text": text }))
            .collect();
        json!({
            "records_in": counts(&self.records_in),
            "records_out": counts(&self.records_out),
            "dsos_hit": self.dsos_hit,
            "ids_injected": self.ids_injected,
            "ids_missing": missing,
            "warnings": self.warnings,
            "notes": self.notes,
        })
    }
}

/// Most missing ids that are named for people, unless asked for all; the JSON names all.
const NAMED: usize = 5;

/// The summary as lines for people.
pub struct Text<'a> {
    summary: &'a Summary,
    all: bool,
}

impl Summary {
    /// As lines for people; with `all`, every DSO without an id is named.
    pub fn text(&self, all: bool) -> Text<'_> {
        Text { summary: self, all }
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.summary;
        writeln!(f, "records: {} in, {} out", s.records_in.total(), s.records_out.total())?;
        let mut types: Vec<_> = s.records_in.iter().chain(s.records_out.iter()).map(|(t, _)| t).collect();
        types.sort_unstable();
        types.dedup();
        for ty in types {
            match (s.records_in.get(ty), s.records_out.get(ty)) {
                (i, o) if i == o => writeln!(f, "  {ty:<20} {i:>10}")?,
                (i, o) => writeln!(f, "  {ty:<20} {i:>10} in, {o} out")?,
            }
        }
        if s.dsos_hit == 0 && s.injected() == 0 && s.ids_missing.is_empty() {
            return Ok(());
        }
        let sources: Vec<String> = s.ids_injected.iter().map(|(s, n)| format!("{n} {s}")).collect();
        let sources = if sources.is_empty() { String::new() } else { format!(" ({})", sources.join(", ")) };
        let (hit, injected, missing) = (s.dsos_hit, s.injected(), s.ids_missing.len());
        writeln!(f, "build-ids: {hit} DSOs hit, {injected} ids injected{sources}, {missing} missing")?;
        let named = if self.all { missing } else { NAMED };
        for (name, _, text) in s.ids_missing.iter().take(named) {
            writeln!(f, "  no id for {name}: {text}")?;
        }
        if missing > named {
            writeln!(f, "  … and {} more; -v names them, --summary=json too", missing - named)?;
        }
        Ok(())
    }
}
