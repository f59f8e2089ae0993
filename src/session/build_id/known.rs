//! Build-ids that the user states: `--known-build-ids=LIST` or `file://FILE`.
//!
//! An entry is `ID PATH`, as `perf buildid-list` prints; LIST separates entries by commas, FILE has one a
//! line. Entries that make no sense are skipped and reported, since one bad line should not cost the others.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};

use super::id::BuildId;

/// Warnings kept with their text; the rest is only counted.
const MAX_WARNINGS: usize = 16;
/// Bytes of a skipped entry that a warning quotes.
const MAX_QUOTED: usize = 80;

/// Ids by path, from the user.
#[derive(Clone, Debug, Default)]
pub struct KnownBuildIds {
    // None: the list gives this path two ids, so neither counts.
    by_path: FxHashMap<Box<[u8]>, Option<BuildId>>,
    warnings: Vec<KnownWarning>,
    skipped: usize,
}

/// An entry that has no effect, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWarning {
    /// Which entry (or line) of the list, counted from 1.
    pub entry: usize,
    /// Its first bytes, with what is not text replaced.
    pub text: String,
    /// What is wrong with it.
    pub problem: KnownProblem,
}

/// What is wrong with an entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownProblem {
    /// The first word is not an even number of hex digits, 2 to 40 of them.
    NotAnId,
    /// No path follows the id.
    NoPath,
    /// An earlier entry gives the path another id; neither is used.
    Contradiction,
}

impl fmt::Display for KnownWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = match self.problem {
            KnownProblem::NotAnId => "does not begin with a build-id",
            KnownProblem::NoPath => "has no path after the build-id",
            KnownProblem::Contradiction => "gives a path another build-id than before; neither is used",
        };
        write!(f, "known build-ids: entry {} {problem}: {}", self.entry, self.text)
    }
}

impl KnownBuildIds {
    /// From the option's value: `file://FILE`, or the list itself.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn from_option(value: &OsStr) -> Result<KnownBuildIds> {
        match value.as_bytes().strip_prefix(b"file://") {
            Some(path) => KnownBuildIds::from_file(Path::new(OsStr::from_bytes(path))),
            None => Ok(KnownBuildIds::from_list(value.as_bytes())),
        }
    }

    /// From a file with an entry a line.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn from_file(path: &Path) -> Result<KnownBuildIds> {
        let text = std::fs::read(path).map_err(|e| {
            Error::io(e, "cannot read the list of known build-ids", path).hint(
                "--known-build-ids=file://FILE wants lines of \"ID PATH\", as perf buildid-list prints them",
            )
        })?;
        Ok(KnownBuildIds::from_entries(&text, b'\n'))
    }

    /// From entries separated by commas. A path with a comma in it must come from a file.
    pub fn from_list(list: &[u8]) -> KnownBuildIds {
        KnownBuildIds::from_entries(list, b',')
    }

    fn from_entries(text: &[u8], separator: u8) -> KnownBuildIds {
        let mut known = KnownBuildIds::default();
        for (i, entry) in text.split(|&b| b == separator).enumerate() {
            let entry = entry.trim_ascii();
            if let Err(problem) = known.add(entry) {
                known.skipped += 1;
                if known.warnings.len() < MAX_WARNINGS {
                    let text = entry.get(..MAX_QUOTED).unwrap_or(entry);
                    let text = String::from_utf8_lossy(text).into_owned();
                    known.warnings.push(KnownWarning { entry: i + 1, text, problem });
                }
            }
        }
        known
    }

    fn add(&mut self, entry: &[u8]) -> Result<(), KnownProblem> {
        if entry.is_empty() {
            return Ok(());
        }
        let end = entry.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(entry.len());
        let (id, path) = entry.split_at_checked(end).unwrap_or((entry, b""));
        let id = BuildId::from_hex(id).ok_or(KnownProblem::NotAnId)?;
        let path = path.trim_ascii_start();
        if path.is_empty() {
            return Err(KnownProblem::NoPath);
        }
        let known = self.by_path.entry(path.into()).or_insert(Some(id));
        if *known == Some(id) {
            return Ok(());
        }
        *known = None;
        Err(KnownProblem::Contradiction)
    }

    /// The id stated for a DSO's name: a path, or a name such as `[kernel.kallsyms]` or `[vdso]`.
    pub fn get(&self, name: &[u8]) -> Option<BuildId> {
        self.by_path.get(name).copied().flatten()
    }

    /// Whether no id is stated at all.
    pub fn is_empty(&self) -> bool {
        self.by_path.values().all(Option::is_none)
    }

    /// Why entries were skipped; the first few.
    pub fn warnings(&self) -> &[KnownWarning] {
        &self.warnings
    }

    /// How many entries were skipped.
    pub fn skipped(&self) -> usize {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;
    use std::io::Write;

    const K1: &str = "aaaabbbbccccddddeeeeffff0000111122223333";
    const K2: &str = "0102030405060708";

    fn hex(known: &KnownBuildIds, path: &str) -> Option<String> {
        known.get(path.as_bytes()).map(|id| id.to_string())
    }

    #[test]
    fn a_list_gives_each_path_its_id() {
        let known = KnownBuildIds::from_option(format!("{K1} /a b/c,{K2} [vdso]").as_ref()).unwrap();
        assert_eq!(hex(&known, "/a b/c").as_deref(), Some(K1));
        assert_eq!(hex(&known, "[vdso]").as_deref(), Some(K2));
        assert_eq!(hex(&known, "/a"), None);
        assert_eq!((known.skipped(), known.is_empty()), (0, false));
    }

    #[test]
    fn bad_entries_are_skipped_and_told() {
        let list = format!("zz /a,abc /b,{K1},{K2} /d,{K1}00 /e, ,");
        let known = KnownBuildIds::from_list(list.as_bytes());
        assert_eq!(hex(&known, "/d").as_deref(), Some(K2));
        for path in ["/a", "/b", "/e", ""] {
            assert_eq!(hex(&known, path), None);
        }
        let problems: Vec<_> = known.warnings().iter().map(|w| (w.entry, w.problem)).collect();
        let (bad, none) = (KnownProblem::NotAnId, KnownProblem::NoPath);
        assert_eq!(problems, [(1, bad), (2, bad), (3, none), (5, bad)]);
        assert_eq!(
            known.warnings()[0].to_string(),
            "known build-ids: entry 1 does not begin with a build-id: zz /a"
        );
    }

    #[test]
    fn a_path_with_two_ids_has_none() {
        let known = KnownBuildIds::from_list(format!("{K1} /a,{K2} /a,{K1} /a,{K2} /b,{K2} /b").as_bytes());
        assert_eq!(hex(&known, "/a"), None);
        assert_eq!(hex(&known, "/b").as_deref(), Some(K2));
        assert_eq!((known.skipped(), known.warnings()[0].entry), (2, 2));
    }

    #[test]
    fn a_file_has_an_entry_a_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "{K1} /x,y\r\n\n{K2} [kernel.kallsyms]\n").unwrap();
        let mut option = std::ffi::OsString::from("file://");
        option.push(file.path());
        let known = KnownBuildIds::from_option(&option).unwrap();
        assert_eq!(hex(&known, "/x,y").as_deref(), Some(K1));
        assert_eq!(hex(&known, "[kernel.kallsyms]").as_deref(), Some(K2));
        assert_eq!(known.skipped(), 0);
    }

    #[test]
    fn a_missing_file_is_an_error() {
        let e = KnownBuildIds::from_option("file:///no/such/list".as_ref()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io);
        assert!(
            e.to_string().starts_with("/no/such/list: cannot read the list of known build-ids: No such file")
        );
        assert!(e.to_string().contains("ID PATH"));
    }

    #[test]
    fn warnings_are_bounded() {
        let known = KnownBuildIds::from_list("?,".repeat(1000).as_bytes());
        assert_eq!((known.skipped(), known.warnings().len()), (1000, MAX_WARNINGS));
    }
}
