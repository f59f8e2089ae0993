//! `redact`: hides host name, command line, names of users in paths, and names of threads by rule, before a recording is
//! shared. What stands in their place is the same wherever the same was, and tells nothing without the salt.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use repipe_plugin::edit::{name, with_name, with_text};
use repipe_plugin::{
    Args, COMM, HEADER_BUILD_ID, Host, Info, OpenError, Order, Plugin, Record, Verdict, export,
};

/// `HEADER_BUILD_ID`, `HEADER_HOSTNAME` and `HEADER_CMDLINE`.
const BUILD_ID: u32 = 2;
const HOSTNAME: u32 = 3;
const CMDLINE: u32 = 11;
/// Where the path begins in an entry of the table of build-ids.
const PATH: usize = 36;
/// Folders that have one of each user.
const HOMES: [&[u8]; 4] = [b"/home/", b"/Users/", b"/var/home/", b"/run/user/"];

struct Redact {
    salt: u64,
    comms: Vec<String>,
}

/// Whether a text is as a pattern says, in which `*` stands for anything.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| text.get(at..).is_some_and(|text| fits(rest, text))),
        Some((first, rest)) => {
            text.split_first().is_some_and(|(byte, text)| byte == first && fits(rest, text))
        }
    }
}

impl Redact {
    /// The same eight digits for the same text.
    fn pseudonym(&self, text: &[u8]) -> String {
        // FNV-1a over salt and text, mixed once more, so that texts that differ little differ in all digits.
        let bytes = self.salt.to_le_bytes();
        let hash = bytes.iter().chain(text).fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mixed = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        format!("{:08x}", mixed >> 32)
    }

    /// A path without the name of a user, if one is in it.
    fn path(&self, path: &[u8]) -> Option<Vec<u8>> {
        let (home, rest) = HOMES.iter().find_map(|home| Some((home, path.strip_prefix(*home)?)))?;
        let end = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
        let (user, rest) = rest.split_at(end);
        Some([home, b"user-".as_slice(), self.pseudonym(user).as_bytes(), rest].concat())
    }

    fn comm(&self, comm: &[u8]) -> Option<Vec<u8>> {
        let hit = self.comms.iter().any(|pattern| fits(pattern.as_bytes(), comm));
        hit.then(|| format!("comm-{}", self.pseudonym(comm)).into_bytes())
    }

    fn sections(&self, host: &mut Host<'_>) -> Result<(), String> {
        let order = host.order();
        if host.feature(CMDLINE).is_some() {
            host.set_feature(CMDLINE, None)?;
        }
        if let Some(section) = host.feature(HOSTNAME)
            && let Some(hidden) = self.hostname(section, order)
        {
            host.set_feature(HOSTNAME, Some(&hidden))?;
        }
        if let Some(section) = host.feature(BUILD_ID)
            && let Some(hidden) = self.table(section, order)?
        {
            host.set_feature(BUILD_ID, Some(&hidden))?;
        }
        Ok(())
    }

    /// The section with another name; `None` if that was done already.
    fn hostname(&self, section: &[u8], order: Order) -> Option<Vec<u8>> {
        let text = section.get(4..).unwrap_or_default();
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        let own = text.get(..end).unwrap_or_default();
        if own.strip_prefix(b"host-").is_some_and(|digits| digits.len() == 8) {
            return None;
        }
        let mut hidden = format!("host-{}", self.pseudonym(own)).into_bytes();
        // perf pads strings of sections to 64 bytes.
        hidden.resize((hidden.len() + 1).next_multiple_of(64), 0);
        Some([&order.bytes32(hidden.len() as u32), hidden.as_slice()].concat())
    }

    fn table(&self, table: &[u8], order: Order) -> Result<Option<Vec<u8>>, String> {
        let mut new = Vec::with_capacity(table.len());
        let mut rest = table;
        while let Some(size) = order.u16(rest, 6).map(usize::from).filter(|&size| size > PATH) {
            let Some((entry, others)) = rest.split_at_checked(size) else { break };
            rest = others;
            let path = entry.get(PATH..).unwrap_or_default();
            let end = path.iter().position(|&b| b == 0).unwrap_or(path.len());
            match path.get(..end).filter(|path| !is_hidden(path)).and_then(|path| self.path(path)) {
                Some(path) => new.extend(with_text(entry, PATH, &path, order)?),
                None => new.extend_from_slice(entry),
            }
        }
        new.extend_from_slice(rest);
        Ok((new != table).then_some(new))
    }
}

/// Whether the user in a path is a pseudonym already.
fn is_hidden(path: &[u8]) -> bool {
    let rest = HOMES.iter().find_map(|home| path.strip_prefix(*home));
    rest.and_then(|rest| rest.strip_prefix(b"user-")).is_some_and(|rest| {
        rest.get(..8).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            && rest.get(8).is_none_or(|&b| b == b'/')
    })
}

impl Plugin for Redact {
    const INFO: Info = Info {
        summary: c"hides host name, command line, names of users in paths, and names of threads by rule",
        description: c"salt=TEXT     what pseudonyms depend on; with the same salt the same names get the same pseudonyms in every\n\
            \x20             recording. Without one they are the same within this recording alone.\n\
            comm=PATTERN  names of threads to be hidden; * stands for anything. Repeat it for more.\n\n\
            Changed are: the sections HOSTNAME and BUILD_ID; paths of MMAP, MMAP2 and HEADER_BUILD_ID below /home, /Users, /var/home and\n\
            /run/user; names of COMM. The section CMDLINE is left out. Not looked at are cgroups, raw data of tracepoints,\n\
            dumped stacks and BPF programs.",
        license: c"MIT OR Apache-2.0",
        edits_features: true,
        follows_features: true,
        record_types: &[repipe_plugin::MMAP, repipe_plugin::MMAP2, HEADER_BUILD_ID, COMM],
        ..Info::new(c"redact", c"0.1.0")
    };

    fn open(args: &Args, host: &mut Host<'_>) -> Result<Self, OpenError> {
        args.only_with(&["salt"], &["comm"])?;
        let salt = match args.text("salt")? {
            Some(text) => Redact { salt: 0, comms: Vec::new() }.mixed(text),
            None => RandomState::new().build_hasher().finish(),
        };
        let comms = args.all("comm")?.into_iter().map(str::to_owned).collect();
        let plugin = Redact { salt, comms };
        plugin.sections(host).map_err(OpenError::Failed)?;
        Ok(plugin)
    }

    fn record(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<Verdict, String> {
        let Some(own) = name(record) else { return Ok(Verdict::Keep) };
        let hidden = if record.kind() == COMM { self.comm(own) } else { self.path(own) };
        let Some(hidden) = hidden else { return Ok(Verdict::Keep) };
        host.replace(&with_name(record, &hidden)?)?;
        Ok(Verdict::Replace)
    }

    fn features(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        self.sections(host)
    }

    fn finish(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        self.sections(host)
    }
}

impl Redact {
    /// A number from a salt.
    fn mixed(&self, text: &str) -> u64 {
        u64::from_str_radix(&self.pseudonym(text.as_bytes()), 16).unwrap_or(0) << 32 | text.len() as u64
    }
}

export!(Redact);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use repipe_plugin::harness::{Harness, comm, mmap2};

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
        assert!(text_of_comm(hidden.first().unwrap()).starts_with("comm-"));
        assert_eq!(open(&[]).record(&comm(1, "secret-7")).unwrap(), hidden);
        assert_ne!(open(&[]).record(&comm(1, "secret-8")).unwrap(), hidden);
    }

    fn text_of_comm(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes.get(16..).unwrap()).trim_matches('\0').to_owned()
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
    fn patterns() {
        for (pattern, text, expected) in [
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("*", "", true),
            ("", "a", false),
            ("*x*", "axb", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
