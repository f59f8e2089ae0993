//! Whether a recording is of the machine this runs on.

use rustix::system::uname;

/// What a recording says of the machine it is of (its HOSTNAME, OSRELEASE and ARCH features).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostIdentity {
    /// The node name, as `uname -n` printed it.
    pub hostname: Option<Vec<u8>>,
    /// The kernel's release, as `uname -r` printed it.
    pub osrelease: Option<Vec<u8>>,
    /// The kernel's architecture, as `uname -m` printed it.
    pub arch: Option<Vec<u8>>,
}

/// How a recording's machine compares to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameHost {
    /// Host name, release and architecture all agree.
    Yes,
    /// At least one of them differs.
    No,
    /// Those that the recording has agree, but some are missing.
    Unknown,
}

impl HostIdentity {
    /// The machine this runs on.
    pub fn of_this_machine() -> HostIdentity {
        let uname = uname();
        let field = |s: &std::ffi::CStr| Some(s.to_bytes().to_vec());
        HostIdentity {
            hostname: field(uname.nodename()),
            osrelease: field(uname.release()),
            arch: field(uname.machine()),
        }
    }

    /// Compares what both say.
    pub fn compare(&self, other: &HostIdentity) -> SameHost {
        let mut same = SameHost::Yes;
        for pair in [
            (&self.hostname, &other.hostname),
            (&self.osrelease, &other.osrelease),
            (&self.arch, &other.arch),
        ] {
            match pair {
                (Some(a), Some(b)) if a != b => return SameHost::No,
                (Some(_), Some(_)) => {}
                _ => same = SameHost::Unknown,
            }
        }
        same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_must_agree() {
        let here = HostIdentity::of_this_machine();
        assert_eq!(here.compare(&here), SameHost::Yes);
        let other = |change: fn(&mut HostIdentity)| {
            let mut host = here.clone();
            change(&mut host);
            host.compare(&here)
        };
        assert_eq!(other(|h| h.hostname = Some(b"elsewhere.example".to_vec())), SameHost::No);
        assert_eq!(other(|h| h.osrelease = Some(b"2.6.32".to_vec())), SameHost::No);
        assert_eq!(other(|h| h.arch = Some(b"s390x".to_vec())), SameHost::No);
        assert_eq!(other(|h| h.hostname = None), SameHost::Unknown);
        assert_eq!(HostIdentity::default().compare(&here), SameHost::Unknown);
        // what differs weighs more than what is missing
        let host = HostIdentity { arch: Some(b"s390x".to_vec()), ..HostIdentity::default() };
        assert_eq!(host.compare(&here), SameHost::No);
    }
}
