//! What is hidden, and what stands in its place.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Folders that have one of each user.
const HOMES: [&[u8]; 4] = [b"/home/", b"/Users/", b"/var/home/", b"/run/user/"];
/// Parts of the paths of cgroups that every system has.
const CGROUPS: [&[u8]; 9] = [
    b"",
    b"system.slice",
    b"user.slice",
    b"machine.slice",
    b"init.scope",
    b"docker",
    b"kubepods",
    b"kubepods.slice",
    b"session.slice",
];

/// Whether a text is as a pattern says, in which `*` stands for anything.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Behind the last star: where the pattern goes on, and where the text was then.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                at += 1;
                star = Some((at, from));
            }
            (Some(byte), _) if text.get(from) == Some(byte) => (at, from) = (at + 1, from + 1),
            // The star stands for one byte more.
            (_, Some((behind, taken))) => {
                star = Some((behind, taken + 1));
                (at, from) = (behind, taken + 1);
            }
            (_, None) => return false,
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|&byte| byte == b'*')
}

/// Digits of a pseudonym.
const DIGITS: usize = 8;

/// Whether a text is a pseudonym of a kind.
fn is_pseudonym(kind: &[u8], text: &[u8]) -> bool {
    text.len() == kind.len() + DIGITS && is_filled(kind, text)
}

/// Whether a text is what is put in the place of one as long.
fn is_filled(kind: &[u8], text: &[u8]) -> bool {
    let (kind, rest) = (kind.get(..text.len()).unwrap_or(kind), text.get(kind.len()..).unwrap_or_default());
    text.starts_with(kind) && rest.iter().all(u8::is_ascii_hexdigit)
}

/// What separates words in texts, besides what can't be seen.
fn is_word(byte: u8) -> bool {
    (byte.is_ascii_graphic() || byte >= 0x80) && !b"/:,=\"'()".contains(&byte)
}

fn has(patterns: &[String], text: &[u8]) -> bool {
    patterns.iter().any(|pattern| fits(pattern.as_bytes(), text))
}

/// The rules of a run.
pub struct Rules {
    salt: u64,
    /// Patterns of names of threads.
    comms: Vec<String>,
    /// Patterns of other names.
    names: Vec<String>,
}

/// Kinds of pseudonyms.
const USER: &[u8] = b"user-";
const COMM: &[u8] = b"comm-";
const NAME: &[u8] = b"name-";
const CGROUP: &[u8] = b"cg-";
const HOST: &[u8] = b"host-";

impl Rules {
    /// With the salt that pseudonyms depend on (without one, they are the same within this run alone), and patterns of
    /// names of threads and of other names.
    pub fn new(salt: Option<&str>, comms: Vec<String>, names: Vec<String>) -> Rules {
        let mut rules = Rules { salt: 0, comms, names };
        rules.salt = match salt {
            Some(text) => rules.hash(text.as_bytes()) >> 32 << 32 | text.len() as u64,
            None => RandomState::new().build_hasher().finish(),
        };
        rules
    }

    fn hash(&self, text: &[u8]) -> u64 {
        // FNV-1a over salt and text, mixed once more, so that texts that differ little differ in all digits.
        let bytes = self.salt.to_le_bytes();
        let hash = bytes.iter().chain(text).fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// The same eight digits for the same text, behind its kind.
    fn pseudonym(&self, kind: &[u8], text: &[u8]) -> Vec<u8> {
        [kind, format!("{:08x}", self.hash(text) >> 32).as_bytes()].concat()
    }

    /// A pseudonym as long as the text, to be put in its place.
    fn fill(&self, kind: &[u8], text: &mut [u8]) {
        let digits = format!("{:016x}", self.hash(text));
        let all = kind.iter().chain(digits.as_bytes().iter().cycle());
        text.iter_mut().zip(all).for_each(|(byte, &new)| *byte = new);
    }

    /// Another name for a host; `None` if it has one already.
    pub fn host(&self, own: &[u8]) -> Option<Vec<u8>> {
        (!is_pseudonym(HOST, own)).then(|| self.pseudonym(HOST, own))
    }

    /// Another name for a thread, if a rule asks for it.
    pub fn comm(&self, comm: &[u8]) -> Option<Vec<u8>> {
        (!is_pseudonym(COMM, comm) && has(&self.comms, comm)).then(|| self.pseudonym(COMM, comm))
    }

    /// A path without the name of a user, if one is in it, and without parts that a rule asks to hide.
    pub fn path(&self, path: &[u8]) -> Option<Vec<u8>> {
        let home = HOMES.iter().find(|home| path.starts_with(home)).map_or(0, |home| home.len());
        let mut new = path.get(..home).unwrap_or_default().to_vec();
        for (at, part) in path.get(home..).unwrap_or_default().split(|&b| b == b'/').enumerate() {
            if at > 0 {
                new.push(b'/');
            }
            match part {
                user if at == 0 && home > 0 => match is_pseudonym(USER, user) {
                    true => new.extend_from_slice(user),
                    false => new.extend(self.pseudonym(USER, user)),
                },
                name if !is_pseudonym(NAME, name) && has(&self.names, name) => {
                    new.extend(self.pseudonym(NAME, name))
                }
                other => new.extend_from_slice(other),
            }
        }
        (new != path).then_some(new)
    }

    /// A cgroup's path, of which only parts that every system has stay.
    pub fn cgroup(&self, path: &[u8]) -> Option<Vec<u8>> {
        let part = |part: &[u8]| match CGROUPS.contains(&part) || is_pseudonym(CGROUP, part) {
            true => part.to_vec(),
            false => self.pseudonym(CGROUP, part),
        };
        let new = path.split(|&b| b == b'/').map(part).collect::<Vec<_>>().join(&b'/');
        (new != path).then_some(new)
    }

    /// Hides within bytes, without a change of their length: users in paths, and words that a rule for names asks to hide;
    /// if `comms`, also those that one for threads does, and such names behind a number at the start of a line.
    pub fn scrub(&self, bytes: &mut [u8], comms: bool) {
        for home in HOMES {
            let mut from = 0;
            while let Some(at) = find(bytes.get(from..).unwrap_or_default(), home) {
                let start = from + at + home.len();
                let rest = bytes.get_mut(start..).unwrap_or_default();
                let len = rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len());
                if let Some(user) = rest.get_mut(..len).filter(|user| !is_filled(USER, user)) {
                    self.fill(USER, user);
                }
                from = start;
            }
        }
        let comms = comms && !self.comms.is_empty();
        if comms {
            bytes.split_mut(|&b| b == b'\n').for_each(|line| self.saved_comm(line));
        }
        if self.names.is_empty() && !comms {
            return;
        }
        for word in bytes.split_mut(|&b| !is_word(b)) {
            // The last byte of a number that stands before a text may look like a letter.
            for from in [0, 1] {
                let Some(word) = word.get_mut(from..).filter(|word| !word.is_empty()) else { continue };
                if !is_filled(NAME, word) && has(&self.names, word) {
                    self.fill(NAME, word);
                } else if comms && !is_filled(COMM, word) && has(&self.comms, word) {
                    self.fill(COMM, word);
                }
            }
        }
    }

    /// `1234 name`, whose name may have spaces.
    fn saved_comm(&self, line: &mut [u8]) {
        let digits = line.iter().position(|b| !b.is_ascii_digit()).unwrap_or(0);
        if digits > 0
            && let Some((b' ', name)) = line.get_mut(digits..).and_then(<[u8]>::split_first_mut)
            && !is_filled(COMM, name)
            && has(&self.comms, name)
        {
            self.fill(COMM, name);
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules::new(Some("s"), vec!["secret*".into(), "Web *".into()], vec!["*hidden*".into()])
    }

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("a*c", "abc", true),
            ("a*c", "ab", false),
            ("*", "", true),
            ("", "a", false),
            ("", "", true),
            ("*x*", "axb", true),
            ("ab*ab*c", "abxababc", true),
            ("ab*ab*c", "abxbabd", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        let many = "*a".repeat(40);
        assert!(!fits(many.as_bytes(), "a".repeat(39).as_bytes()));
    }

    #[test]
    fn paths_lose_users_and_parts_by_rule() {
        let rules = rules();
        let path =
            |path: &str| rules.path(path.as_bytes()).map(|new| String::from_utf8_lossy(&new).into_owned());
        let hidden = path("/home/ada/bin/x").unwrap_or_default();
        assert!(
            hidden.starts_with("/home/user-") && hidden.ends_with("/bin/x") && hidden.len() == 25,
            "{hidden}"
        );
        assert_eq!(path(&hidden), None, "once");
        let part = path("/opt/the-hidden-one/x").unwrap_or_default();
        assert!(part.starts_with("/opt/name-") && part.ends_with("/x") && part.len() == 20, "{part}");
        assert_eq!((path(&part), path("/usr/lib/z"), path("[vdso]")), (None, None, None));
        assert_ne!(path("/home/bob/bin/x"), Some(hidden));
    }

    #[test]
    fn cgroups_keep_what_every_system_has() {
        let rules = rules();
        let new = rules.cgroup(b"/system.slice/shop.service").unwrap_or_default();
        assert!(new.starts_with(b"/system.slice/cg-") && new.len() == 25);
        assert_eq!(
            (rules.cgroup(&new), rules.cgroup(b"/"), rules.cgroup(b"/user.slice")),
            (None, None, None)
        );
    }

    #[test]
    fn bytes_are_scrubbed_in_their_place_and_once() {
        let rules = rules();
        let before =
            b"@a_hidden_probe\0\0/home/ada/x /Users/barbara-ann\n12 secret7\n345 Web Content\n6 other\n";
        let mut bytes = before.to_vec();
        rules.scrub(&mut bytes, true);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(text.len(), before.len());
        assert!(
            ["hidden", "ada", "barbara", "secret", "Web", "Content"].iter().all(|word| !text.contains(word)),
            "{text}"
        );
        assert!(
            text.starts_with("name-")
                && text.contains("\0\0/home/use/x /Users/user-")
                && text.ends_with("\n6 other\n"),
            "{text}"
        );
        let mut again = bytes.clone();
        rules.scrub(&mut again, true);
        assert_eq!(String::from_utf8_lossy(&again), text);
        let mut threads = b"12 secret7".to_vec();
        rules.scrub(&mut threads, false);
        assert_eq!(threads, b"12 secret7");
    }
}
