//! `redact`: hides host name, command line, names of users in paths, cgroups, and other names by rule, before a recording is
//! shared. What stands in their place is the same wherever the same was, and tells nothing without the salt.

mod options;
mod rules;
mod samples;
mod sections;

use std::collections::{BTreeMap, BTreeSet};

use repipe_plugin::edit::{name, with_name, with_text};
use repipe_plugin::{
    Args, COMM, HEADER_BUILD_ID, Host, Info, MMAP, MMAP2, OpenError, Plugin, Record, SAMPLE, Verdict, export,
};

use options::{Bytes, Options};
use samples::Kept;

const KSYMBOL: u32 = 17;
const CGROUP: u32 = 19;
const HEADER_EVENT_TYPE: u32 = 65;
const AUXTRACE_INFO: u32 = 70;
const AUXTRACE: u32 = 71;
const AUXTRACE_ERROR: u32 = 72;
const THREAD_MAP: u32 = 73;
const EVENT_UPDATE: u32 = 78;
const BPF_METADATA: u32 = 84;
/// The last type that the kernel writes, and the first and last of perf's own, of those that are known here.
const KERNEL_LAST: u32 = 22;
const PERF_FIRST: u32 = 64;
const PERF_LAST: u32 = 84;

/// Bytes of a record's header.
const HEADER: usize = 8;
/// Bytes of an entry of a THREAD_MAP: a process id and a name.
const THREAD: usize = 24;
/// Where the path begins in a CGROUP.
const CGROUP_PATH: usize = HEADER + 8;
/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

struct Redact {
    options: Options,
    kept: Kept,
    /// Whether AUX data stands beside the samples.
    has_aux: bool,
    /// Ids of sections that were left out, and types of records with how many.
    sections: BTreeSet<u32>,
    records: BTreeMap<u32, u64>,
}

impl Redact {
    fn sections(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        sections::hide(&self.options, host, &mut self.sections)
    }

    /// Names of threads in a THREAD_MAP.
    fn threads(&self, record: &Record<'_>) -> Option<Vec<u8>> {
        let mut new = record.bytes().to_vec();
        let mut changed = false;
        for entry in new.get_mut(HEADER + 8..)?.chunks_exact_mut(THREAD) {
            let Some(comm) = entry.get_mut(8..) else { continue };
            let end = comm.iter().position(|&b| b == 0).unwrap_or(comm.len());
            if let Some(hidden) = comm.get(..end).and_then(|comm| self.options.rules.comm(comm)) {
                comm.fill(0);
                comm.iter_mut().zip(&hidden).for_each(|(byte, &new)| *byte = new);
                changed = true;
            }
        }
        changed.then_some(new)
    }

    /// A record of texts and numbers, with its texts hidden in their places.
    fn scrubbed(&self, record: &Record<'_>) -> Option<Vec<u8>> {
        let mut new = record.bytes().to_vec();
        self.options.rules.scrub(new.get_mut(HEADER..)?, false);
        (new != record.bytes()).then_some(new)
    }

    fn cgroup(&self, record: &Record<'_>) -> Result<Option<Vec<u8>>, String> {
        let path = record.bytes().get(CGROUP_PATH..).unwrap_or_default();
        let end = path.iter().position(|&b| b == 0).ok_or("a path that does not end within its record")?;
        let hidden = path.get(..end).and_then(|path| self.options.rules.cgroup(path));
        hidden.map(|new| with_text(record.bytes(), CGROUP_PATH, &new, record.order())).transpose()
    }

    /// Whether a type of record is not looked into, and may hold names.
    fn is_other(kind: u32) -> bool {
        let known = (1..=KERNEL_LAST).contains(&kind) || (PERF_FIRST..=PERF_LAST).contains(&kind);
        !known || kind == BPF_METADATA
    }

    fn has_tracepoints(host: &mut Host<'_>) -> bool {
        let order = host.order();
        (0..)
            .map_while(|evsel| host.attr(evsel).and_then(|attr| order.u32(attr, 0)))
            .any(|ty| ty == TRACEPOINT)
    }
}

impl Plugin for Redact {
    const INFO: Info = Info {
        summary: c"hides host name, command line, names of users in paths, cgroups, and other names by rule",
        description: c"salt=TEXT      what pseudonyms depend on; with the same salt the same names get the same pseudonyms in every\n\
            \x20              recording. Without one they are the same within this recording alone.\n\
            comm=PATTERN   names of threads to be hidden; * stands for anything. Repeat it for more.\n\
            name=PATTERN   other names to be hidden, of parts of paths, events, symbols of BPF programs: a whole word, which ends at\n\
            \x20              spaces and at / : , = quotes and parentheses. Repeat it for more.\n\
            stacks=keep|zero|drop  copies of users' stacks (keep, with a warning): zero clears them, drop leaves them out\n\
            raw=keep|zero  raw data of samples, as of tracepoints (keep, with a warning)\n\
            aux=keep|zero  AUX data in samples (keep, with a warning); zero refuses recordings that have it beside them too\n\
            others=drop|keep  what is not looked into: BPF programs and their metadata, simpleperf's and unknown records and\n\
            \x20              sections (drop)\n\n\
            Hidden are, always: the host's name (HOSTNAME), the command line (CMDLINE, which goes), users below /home, /Users,\n\
            /var/home and /run/user in the paths of MMAP, MMAP2, HEADER_BUILD_ID and the BUILD_ID section, and wherever texts\n\
            stand; paths of cgroups (CGROUP) but for parts that every system has. By comm: COMM, THREAD_MAP, and the saved\n\
            names in tracing data. By name: parts of those paths, KSYMBOL, EVENT_UPDATE, HEADER_EVENT_TYPE, AUXTRACE_INFO,\n\
            AUXTRACE_ERROR, tracing data, and all sections with texts, such as EVENT_DESC, GROUP_DESC and OSRELEASE.\n\
            Numbers stay: addresses, ids, times, build-ids, registers, code that was patched. Tracing data that passes from pipe\n\
            to pipe, and AUX data beside the samples, are not looked into, of which a warning tells.",
        license: c"MIT OR Apache-2.0",
        by_time: false,
        session: false,
        edits_features: true,
        follows_features: true,
        ..Info::new(c"redact", c"0.1.0")
    };

    fn open(args: &Args, host: &mut Host<'_>) -> Result<Self, OpenError> {
        let mut plugin = Redact {
            options: Options::parse(args)?,
            kept: Kept::default(),
            has_aux: false,
            sections: BTreeSet::new(),
            records: BTreeMap::new(),
        };
        plugin.sections(host).map_err(OpenError::Failed)?;
        Ok(plugin)
    }

    fn record(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<Verdict, String> {
        let rules = &self.options.rules;
        let new = match record.kind() {
            SAMPLE => samples::hide(&self.options, record, host, &mut self.kept),
            COMM => {
                name(record).and_then(|own| rules.comm(own)).map(|new| with_name(record, &new)).transpose()?
            }
            MMAP | MMAP2 | HEADER_BUILD_ID => {
                name(record).and_then(|own| rules.path(own)).map(|new| with_name(record, &new)).transpose()?
            }
            CGROUP => self.cgroup(record)?,
            THREAD_MAP => self.threads(record),
            KSYMBOL | HEADER_EVENT_TYPE | EVENT_UPDATE | AUXTRACE_INFO | AUXTRACE_ERROR => {
                self.scrubbed(record)
            }
            AUXTRACE if self.options.aux == Bytes::Keep => {
                self.has_aux = true;
                None
            }
            AUXTRACE => {
                return Err("AUX data beside the samples can't be cleared; aux=keep lets it pass".into());
            }
            kind if Self::is_other(kind) && !self.options.keeps_others => {
                *self.records.entry(kind).or_default() += 1;
                return Ok(Verdict::Drop);
            }
            _ => None,
        };
        let Some(new) = new else { return Ok(Verdict::Keep) };
        host.replace(&new)?;
        Ok(Verdict::Replace)
    }

    fn features(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        self.sections(host)
    }

    fn finish(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        self.sections(host)?;
        if self.kept.stacks {
            host.log("copies of users' stacks are kept, which may hold names: stacks=zero clears them, stacks=drop leaves them out");
        }
        if self.kept.raw {
            host.log("raw data of samples is kept, which may hold names: raw=zero clears it");
        }
        if self.kept.aux || self.has_aux {
            host.log("AUX data is kept, which is not looked into");
        }
        if Self::has_tracepoints(host) && !sections::has_tracing_data(host) {
            host.log("tracing data, if there is some, passes from pipe to pipe without being looked into: write to a file first");
        }
        if !self.sections.is_empty() || !self.records.is_empty() {
            let sections: Vec<String> = self.sections.iter().map(u32::to_string).collect();
            let records: Vec<String> =
                self.records.iter().map(|(kind, count)| format!("{count} of type {kind}")).collect();
            let list = |what: &str, all: &[String]| {
                if all.is_empty() { String::new() } else { format!(" {what} {}", all.join(", ")) }
            };
            host.note(&format!(
                "left out, since it is not looked into:{}{}; others=keep keeps it",
                list("records", &records),
                list("sections", &sections)
            ));
        }
        Ok(())
    }
}

export!(Redact);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use repipe_plugin::harness::{Harness, comm, mmap2, record};

    const HOSTNAME: u32 = 3;
    const CMDLINE: u32 = 11;

    fn open(features: &[(u32, &[u8])]) -> Harness<Redact> {
        Harness::open_with(&[("salt", Some("s")), ("comm", Some("secret*"))], features).unwrap()
    }

    #[test]
    fn names_are_hidden_the_same_way_wherever_they_are() {
        let mut run = open(&[]);
        let one = run.record(&mmap2(1, 0, "/home/ada/bin/x")).unwrap();
        let two = run.record(&mmap2(1, 0, "/home/ada/lib/y")).unwrap();
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(bytes.get(72..).unwrap()).trim_matches('\0').to_owned();
        let (one, two) = (text(one.first().unwrap()), text(two.first().unwrap()));
        let user = one.strip_prefix("/home/user-").unwrap().strip_suffix("/bin/x").unwrap();
        assert_eq!((user.len(), two), (8, format!("/home/user-{user}/lib/y")));
        assert_eq!(run.record(&mmap2(1, 0, "/usr/lib/z")).unwrap(), [mmap2(1, 0, "/usr/lib/z")]);
        assert_eq!(run.record(&comm(1, "public")).unwrap(), [comm(1, "public")]);
        let hidden = run.record(&comm(1, "secret-7")).unwrap();
        let name_of = |bytes: &[u8]| bytes.get(16..29).map(<[u8]>::to_vec).unwrap();
        assert!(name_of(hidden.first().unwrap()).starts_with(b"comm-"));
        assert_eq!(open(&[]).record(&comm(1, "secret-7")).unwrap(), hidden);
        assert_ne!(open(&[]).record(&comm(1, "secret-8")).unwrap(), hidden);
        // A map of threads has the name that the thread has elsewhere.
        let mut threads = 2u64.to_le_bytes().to_vec();
        for (pid, name) in [(1u64, b"secret-7\0\0\0\0\0\0\0\0"), (2, b"public\0\0\0\0\0\0\0\0\0\0")] {
            threads.extend(pid.to_le_bytes());
            threads.extend(name);
        }
        let new = run.record(&record(THREAD_MAP, 0, &threads)).unwrap();
        let new = new.first().unwrap();
        assert_eq!(new.get(24..37).unwrap(), name_of(hidden.first().unwrap()));
        assert_eq!((new.get(37..40).unwrap(), new.get(48..54).unwrap()), (&b"\0\0\0"[..], &b"public"[..]));
    }

    #[test]
    fn sections_are_hidden_once() {
        let mut host = 64u32.to_le_bytes().to_vec();
        host.extend(b"workstation");
        host.resize(68, 0);
        let (features, _) = open(&[(HOSTNAME, &host), (CMDLINE, b"x")]).finish().unwrap();
        let hidden = features.get(&HOSTNAME).unwrap();
        assert_eq!((features.len(), hidden.len(), hidden.get(..9)), (1, 68, Some(&b"\x40\0\0\0host-"[..])));
        assert!(!hidden.windows(4).any(|w| w == b"work"));
    }

    #[test]
    fn what_is_not_looked_into_goes_with_a_word() {
        let (unknown, metadata) = (record(90, 0, b"whatever"), record(BPF_METADATA, 0, &[0; 520]));
        let mut run = open(&[(25, b"programs"), (7, b"\x04\0\0\0\x04\0\0\0")]);
        assert!(run.record(&unknown).unwrap().is_empty() && run.record(&metadata).unwrap().is_empty());
        let (features, log) = run.finish().unwrap();
        assert_eq!(features.keys().collect::<Vec<_>>(), [&7]);
        let says = "left out, since it is not looked into: records 1 of type 84, 1 of type 90 sections 25; others=keep keeps it";
        assert_eq!(log, [says]);
        let mut run =
            Harness::<Redact>::open_with(&[("others", Some("keep"))], &[(25, b"programs")]).unwrap();
        assert_eq!(run.record(&unknown).unwrap(), [unknown]);
        let (features, log) = run.finish().unwrap();
        assert!(features.contains_key(&25) && log.is_empty());
    }

    #[test]
    fn arguments_that_are_none_are_refused() {
        for arg in [("stacks", "no"), ("raw", "drop"), ("aux", "drop"), ("others", "zero"), ("salt2", "x")] {
            assert!(Harness::<Redact>::open(&[(arg.0, Some(arg.1))]).is_err(), "{arg:?}");
        }
    }
}
