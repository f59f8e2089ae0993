//! `rename-dso`: gives maps other paths by rule, so that paths of a container or another machine lead to files here.

use std::collections::HashSet;

use repipe_plugin::edit::{name, with_name, with_text};
use repipe_plugin::{Args, Host, Info, OpenError, Plugin, Record, Verdict, export};

/// `HEADER_BUILD_ID`.
const BUILD_ID: u32 = 2;
/// Where the path begins in an entry of its table: a record's header, a pid and the id.
const PATH: usize = 36;

struct RenameDso {
    rules: Vec<(Vec<u8>, Vec<u8>)>,
    /// Paths that rules have made: a rule may fit them again, and the table is looked at twice.
    made: HashSet<Vec<u8>>,
}

impl RenameDso {
    /// The path by the first rule that fits.
    fn renamed(&self, path: &[u8]) -> Option<Vec<u8>> {
        let (rest, to) =
            self.rules.iter().find_map(|(from, to)| Some((path.strip_prefix(from.as_slice())?, to)))?;
        Some([to, rest].concat())
    }

    /// The table of build-ids, which names paths as well.
    fn table(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        let order = host.order();
        let Some(table) = host.feature(BUILD_ID) else { return Ok(()) };
        let mut new = Vec::with_capacity(table.len());
        let mut rest = table;
        let mut made = Vec::new();
        while let Some(size) = order.u16(rest, 6).map(usize::from).filter(|&size| size > PATH) {
            let Some((entry, others)) = rest.split_at_checked(size) else { break };
            rest = others;
            let path = entry.get(PATH..).unwrap_or_default();
            let end = path.iter().position(|&b| b == 0).unwrap_or(path.len());
            let own = path.get(..end).filter(|path| !self.made.contains(*path));
            match own.and_then(|path| self.renamed(path)) {
                Some(to) => {
                    // An entry's header is not part of what is padded.
                    new.extend(with_text(entry, PATH, &to, order)?);
                    made.push(to);
                }
                None => new.extend_from_slice(entry),
            }
        }
        new.extend_from_slice(rest);
        if made.is_empty() {
            return Ok(());
        }
        self.made.extend(made);
        host.set_feature(BUILD_ID, Some(&new))
    }
}

impl Plugin for RenameDso {
    const INFO: Info = Info {
        summary: c"gives maps other paths by rule",
        description: c"from=PREFIX,to=PREFIX  paths that begin with one begin with the other; repeat both for more rules, the first\n\
            that fits is taken\n\n\
            The table of build-ids follows. Later stages, such as -b, see the new paths.",
        license: c"MIT OR Apache-2.0",
        edits_features: true,
        follows_features: true,
        record_types: &[repipe_plugin::MMAP, repipe_plugin::MMAP2, repipe_plugin::HEADER_BUILD_ID],
        ..Info::new(c"rename-dso", c"0.1.0")
    };

    fn open(args: &Args, host: &mut Host<'_>) -> Result<Self, OpenError> {
        args.only_with(&[], &["from", "to"])?;
        let (from, to) = (args.all("from")?, args.all("to")?);
        if from.is_empty() || from.len() != to.len() || from.contains(&"") {
            return Err("give rules as from=PREFIX,to=PREFIX".into());
        }
        let rules = from.iter().zip(&to).map(|(from, to)| (from.as_bytes().to_vec(), to.as_bytes().to_vec()));
        let mut plugin = RenameDso { rules: rules.collect(), made: HashSet::new() };
        plugin.table(host).map_err(OpenError::Failed)?;
        Ok(plugin)
    }

    fn record(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<Verdict, String> {
        match name(record).and_then(|path| self.renamed(path)) {
            Some(path) => {
                host.replace(&with_name(record, &path)?)?;
                self.made.insert(path);
                Ok(Verdict::Replace)
            }
            None => Ok(Verdict::Keep),
        }
    }

    fn features(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        self.table(host)
    }

    fn finish(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        self.table(host)
    }
}

export!(RenameDso);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use repipe_plugin::harness::{Harness, comm, mmap2};

    fn entry(path: &str) -> Vec<u8> {
        let mut entry = vec![0, 0, 0, 0, 0, 0, 0, 0];
        entry.extend([7; 28]);
        entry.extend_from_slice(path.as_bytes());
        entry.resize(PATH + (path.len() + 1).next_multiple_of(8), 0);
        let size = entry.len() as u16;
        entry.get_mut(6..8).unwrap().copy_from_slice(&size.to_le_bytes());
        entry
    }

    #[test]
    fn maps_and_the_table_follow_the_first_rule_that_fits() {
        let args = [
            ("from", Some("/app/lib/")),
            ("to", Some("/l/")),
            ("from", Some("/app/")),
            ("to", Some("/srv/image/")),
        ];
        let table = [entry("/app/x"), entry("/usr/y"), entry("/app/lib/z")].concat();
        let mut run = Harness::<RenameDso>::open_with(&args, &[(BUILD_ID, &table)]).unwrap();
        assert_eq!(run.record(&mmap2(1, 0, "/app/bin/x")).unwrap(), [mmap2(1, 0, "/srv/image/bin/x")]);
        assert_eq!(run.record(&mmap2(1, 0, "/app/lib/z")).unwrap(), [mmap2(1, 0, "/l/z")]);
        assert_eq!(run.record(&mmap2(1, 0, "/usr/y")).unwrap(), [mmap2(1, 0, "/usr/y")]);
        assert_eq!(run.record(&comm(1, "/app/")).unwrap(), [comm(1, "/app/")]);
        let (features, _) = run.finish().unwrap();
        let expected = [entry("/srv/image/x"), entry("/usr/y"), entry("/l/z")].concat();
        assert_eq!(features.get(&BUILD_ID), Some(&expected));
        assert!(Harness::<RenameDso>::open(&[("from", Some("/a"))]).is_err());
    }

    #[test]
    fn a_rule_that_fits_what_it_makes_is_applied_once() {
        let args = [("from", Some("/usr/")), ("to", Some("/usr/local/"))];
        let mut run = Harness::<RenameDso>::open_with(&args, &[(BUILD_ID, &entry("/usr/x"))]).unwrap();
        assert_eq!(run.record(&mmap2(1, 0, "/usr/y")).unwrap(), [mmap2(1, 0, "/usr/local/y")]);
        let (features, _) = run.finish().unwrap();
        assert_eq!(features.get(&BUILD_ID), Some(&entry("/usr/local/x")));
    }
}
