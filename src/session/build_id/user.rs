//! Whether the file at a path is the one that a process had mapped.
//!
//! A path leads to a file of now, in the mount namespace of this program. The record tells the file of then
//! by its inode. The device is only a hint, since btrfs and overlayfs report one to `stat` and another to
//! the kernel's records: a device that agrees makes the match certain, one that differs makes it worth
//! looking through the process's own root first. The inode's generation, where record and file system have
//! one, must agree too.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::SystemTime;

use crate::data::inode_generation;

use super::cache::CachedImage;
use super::file::{DsoFile, open_root};
use super::host::SameHost;
use super::id::BuildId;
use super::key::{DsoKey, nameless};
use super::miss::MissReason;
use super::resolve::{Found, IdSource, Resolution};

/// Reads files of user DSOs.
#[derive(Debug)]
pub(super) struct UserFiles {
    pub force: bool,
    pub recorded_at: Option<SystemTime>,
    pub namespaces: Namespaces,
}

/// What a record says against the file that was opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    /// Device and inode agree.
    Certain,
    /// The inode agrees.
    Likely,
    /// The record has no inode.
    Untold,
    /// Another inode, or the same number with another generation.
    Differs(MissReason),
}

fn compare(key: &DsoKey, file: &DsoFile) -> Match {
    let identity = file.identity();
    let reused = || {
        let now = if key.generation == 0 { None } else { inode_generation(file.fd()) };
        now.is_some_and(|now| now != key.generation)
    };
    match key.inode {
        0 => Match::Untold,
        inode if inode != identity.inode => Match::Differs(MissReason::InodeDiffers),
        _ if reused() => Match::Differs(MissReason::GenerationDiffers),
        _ if identity.device == (key.major, key.minor) => Match::Certain,
        _ => Match::Likely,
    }
}

impl UserFiles {
    /// Below a symfs directory, where any file at the path counts.
    pub(super) fn below(&self, root: BorrowedFd<'_>, key: &DsoKey) -> Resolution {
        if let Some(reason) = nameless(&key.name) {
            return Err(reason);
        }
        let file = match (DsoFile::open_below(root, &key.name), key.undeleted_name()) {
            (Err(MissReason::NoSuchFile), Some(name)) => DsoFile::open_below(root, name),
            (opened, _) => opened,
        };
        Ok(Found { id: file?.build_id()?, source: IdSource::Symfs })
    }

    /// At the path, in this mount namespace or in the process's.
    pub(super) fn find(&self, key: &DsoKey, host: SameHost) -> Resolution {
        if let Some(reason) = nameless(&key.name) {
            return Err(reason);
        }
        let here = DsoFile::open(&key.name);
        let matched = here.as_ref().ok().map(|file| compare(key, file));
        if let (Ok(file), Some(Match::Certain)) = (&here, matched) {
            return self.accept(file, IdSource::File, Match::Certain);
        }
        let view = if host == SameHost::No { View::Unknown } else { self.namespaces.view(key) };
        if let View::Foreign(Some(root)) = &view
            && let Ok(file) = DsoFile::open_below(root.as_fd(), &key.name)
        {
            let matched = compare(key, &file);
            let told = match matched {
                Match::Certain | Match::Likely => true,
                // Without an inode only the pid leads here, which says something on its own machine alone.
                Match::Untold => host == SameHost::Yes,
                Match::Differs(_) => false,
            };
            if told || self.force {
                return self.accept(&file, IdSource::ProcessRoot, matched);
            }
        }
        let file = here.map_err(|reason| match key.undeleted_name() {
            Some(_) if reason == MissReason::NoSuchFile => MissReason::Deleted,
            _ => reason,
        })?;
        match matched {
            _ if self.force => {}
            Some(Match::Differs(reason)) => return Err(reason),
            Some(Match::Untold) if matches!(view, View::Foreign(_)) => {
                return Err(MissReason::OtherNamespace);
            }
            Some(Match::Untold) if host == SameHost::No => return Err(MissReason::OtherMachine),
            _ => {}
        }
        self.accept(&file, IdSource::File, matched.unwrap_or(Match::Untold))
    }

    fn accept(&self, file: &DsoFile, source: IdSource, matched: Match) -> Resolution {
        // The number of the inode may have been used again for a file that was made since. Where the record has no
        // inode, a file that was merely written since may be another as well.
        let then = self.recorded_at.and_then(|then| then.duration_since(SystemTime::UNIX_EPOCH).ok());
        let identity = file.identity();
        let made = match matched {
            Match::Untold => identity.born.max(identity.written),
            _ => identity.born,
        };
        if !self.force && then.is_some_and(|then| made > then) {
            return Err(MissReason::NewerThanRecording);
        }
        Ok(Found { id: file.build_id()?, source })
    }

    /// The cached image that is a hard link of the file that was mapped.
    pub(super) fn linked_image(&self, key: &DsoKey, images: &[CachedImage]) -> Option<BuildId> {
        let is_link = |image: &&CachedImage| {
            let Some(stat) = image.elf().and_then(|elf| rustix::fs::stat(elf).ok()) else { return false };
            let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
            key.inode != 0 && stat.st_ino == key.inode && device == (key.major, key.minor)
        };
        images.iter().find(is_link).map(|image| image.id)
    }
}

/// This process's mount namespace and root, to compare others with.
#[derive(Debug)]
pub(super) struct Namespaces {
    mount: Option<u64>,
    root: Option<(u64, u64)>,
}

/// How a process sees paths.
enum View {
    /// As this process does.
    Ours,
    /// Otherwise; its root directory, if the process still runs and may be looked at.
    Foreign(Option<OwnedFd>),
    /// It is gone, and the recording does not say.
    Unknown,
}

impl Namespaces {
    pub(super) fn of_this_process() -> Namespaces {
        let mount = rustix::fs::stat("/proc/self/ns/mnt").ok().map(|stat| stat.st_ino);
        let root = rustix::fs::stat("/").ok().map(|stat| (stat.st_dev, stat.st_ino));
        Namespaces { mount, root }
    }

    /// Whether the recording says that the process lived in another mount namespace.
    pub(super) fn is_foreign(&self, key: &DsoKey) -> bool {
        key.mount_namespace.is_some() && key.mount_namespace != self.mount
    }

    fn view(&self, key: &DsoKey) -> View {
        let live = key.pid.filter(|&pid| pid > 0).and_then(|pid| {
            let mount = rustix::fs::stat(format!("/proc/{pid}/ns/mnt")).ok()?.st_ino;
            // A pid in another namespace than was recorded has gone to another process.
            key.mount_namespace.is_none_or(|recorded| recorded == mount).then_some((pid, mount))
        });
        let Some((pid, mount)) = live else {
            return match key.mount_namespace {
                None => View::Unknown,
                Some(_) if self.is_foreign(key) => View::Foreign(None),
                Some(_) => View::Ours,
            };
        };
        let root = format!("/proc/{pid}/root");
        // In the same namespace a process may still have another root (chroot).
        let its = rustix::fs::stat(format!("{root}/")).ok().map(|stat| (stat.st_dev, stat.st_ino));
        if self.mount == Some(mount) && (its.is_none() || its == self.root) {
            return View::Ours;
        }
        View::Foreign(open_root(root.as_bytes()).ok())
    }
}
