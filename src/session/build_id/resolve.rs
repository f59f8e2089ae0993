//! Where a DSO's build-id comes from, source by source, and why it has none.
//!
//! The order: the id in the record itself; the user's list; the recording's own table; the ELF file; the
//! build-id cache; for the kernel, its modules and the vdso the running system. A wrong id is worse than
//! none, so each source has a condition:
//!
//! - The table counts where it is unambiguous ([`RecordedIds`]).
//! - The file counts if it is the one that was mapped (see `user.rs`). Below a symfs directory it counts
//!   as it is: the user says that these are the files, and copies have other inodes.
//! - The cache is asked when the file is not there or not the one that was mapped. Its image counts if it
//!   is a hard link of that file, or the only one for the path and not the id of the file that was refused.
//! - The running system counts if the recording's host name, kernel release and architecture are this
//!   system's. Then it is also asked before the cache, which may hold an earlier kernel.
//!
//! [`Resolver::resolve`] takes `&self`, so that several threads can read files at once.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use crate::data::parallel::on_threads;
use crate::error::{Error, Result};

use super::cache::{BuildIdCache, CachedImage};
use super::file::{DsoFile, open_root};
use super::host::{HostIdentity, SameHost};
use super::id::BuildId;
use super::key::{DsoKey, DsoKind, KALLSYMS, module_name};
use super::known::KnownBuildIds;
use super::miss::MissReason;
use super::system::{ModuleFiles, RunningSystem};
use super::table::RecordedIds;
use super::user::{Namespaces, UserFiles};

/// Where an id came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdSource {
    /// The MMAP2 record itself.
    Record,
    /// The user's list.
    Known,
    /// The recording's build-id table.
    Table,
    /// The file at the path.
    File,
    /// The file below the symfs directory.
    Symfs,
    /// The file at the path as the process sees it.
    ProcessRoot,
    /// The build-id cache.
    Cache,
    /// The running kernel, its modules, or its vdso.
    System,
}

impl IdSource {
    /// A word for summaries and programs; it stays the same between versions.
    pub fn key(self) -> &'static str {
        match self {
            IdSource::Record => "record",
            IdSource::Known => "known",
            IdSource::Table => "table",
            IdSource::File => "file",
            IdSource::Symfs => "symfs",
            IdSource::ProcessRoot => "process-root",
            IdSource::Cache => "cache",
            IdSource::System => "system",
        }
    }
}

impl fmt::Display for IdSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}

/// An id and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The id.
    pub id: BuildId,
    /// Where it came from.
    pub source: IdSource,
}

/// What [`Resolver::resolve`] answers.
pub type Resolution = Result<Found, MissReason>;

/// What a [`Resolver`] goes by.
#[derive(Debug, Default)]
pub struct ResolverOptions {
    /// Look for files below this directory only.
    pub symfs: Option<PathBuf>,
    /// The build-id cache; the user's own by default.
    pub buildid_dir: Option<PathBuf>,
    /// Take files whose inode or time says that they are not the ones recorded.
    pub force: bool,
    /// Ids that the user states.
    pub known: KnownBuildIds,
    /// Ids that the recording's table states.
    pub recorded: RecordedIds,
    /// The machine that the recording says it is of.
    pub host: HostIdentity,
    /// When the recording was complete; files written later are not the ones recorded.
    pub recorded_at: Option<SystemTime>,
}

/// Finds build-ids of DSOs.
#[derive(Debug)]
pub struct Resolver {
    symfs: Option<OwnedFd>,
    symfs_modules: OnceLock<ModuleFiles>,
    cache: BuildIdCache,
    known: KnownBuildIds,
    recorded: RecordedIds,
    host: HostIdentity,
    same_host: SameHost,
    files: UserFiles,
    system: RunningSystem,
}

impl Resolver {
    /// A resolver for one recording.
    ///
    /// # Errors
    /// The symfs directory can't be opened.
    pub fn new(options: ResolverOptions) -> Result<Resolver> {
        let open_symfs = |dir: &PathBuf| {
            open_root(dir.as_os_str().as_bytes())
                .map_err(|e| Error::io(e.into(), "cannot open the --symfs directory", dir))
        };
        let mut resolver = Resolver {
            symfs: options.symfs.as_ref().map(open_symfs).transpose()?,
            symfs_modules: OnceLock::new(),
            cache: options.buildid_dir.map_or_else(BuildIdCache::of_user, BuildIdCache::new),
            known: options.known,
            recorded: options.recorded,
            host: HostIdentity::default(),
            same_host: SameHost::Unknown,
            files: UserFiles {
                force: options.force,
                recorded_at: options.recorded_at,
                namespaces: Namespaces::of_this_process(),
            },
            system: RunningSystem::default(),
        };
        resolver.set_host(options.host);
        Ok(resolver)
    }

    /// Says which machine the recording is of, where that is learnt after the start, as from a pipe.
    pub fn set_host(&mut self, host: HostIdentity) {
        self.same_host = host.compare(&HostIdentity::of_this_machine());
        self.host = host;
        self.symfs_modules = OnceLock::new();
    }

    /// Whether the recording is of the machine this runs on.
    pub fn same_host(&self) -> SameHost {
        self.same_host
    }

    /// The recording's table, to add what the stream tells.
    pub fn recorded_mut(&mut self) -> &mut RecordedIds {
        &mut self.recorded
    }

    /// The recording's table.
    pub fn recorded(&self) -> &RecordedIds {
        &self.recorded
    }

    /// The build-id cache in use.
    pub fn cache(&self) -> &BuildIdCache {
        &self.cache
    }

    /// The id of a DSO and its source.
    ///
    /// # Errors
    /// Why there is none, which is of interest for the DSO alone and no failure of the run.
    pub fn resolve(&self, key: &DsoKey) -> Resolution {
        if let Some(id) = key.recorded {
            return Ok(Found { id, source: IdSource::Record });
        }
        if let Some(id) = self.known(key) {
            return Ok(Found { id, source: IdSource::Known });
        }
        let table = self.recorded.get(key);
        if let Some(Ok(id)) = table {
            return Ok(Found { id, source: IdSource::Table });
        }
        let answer = match key.kind {
            DsoKind::User => self.user(key),
            DsoKind::Kernel => {
                let symfs = || self.symfs_kernel();
                self.of_system(key, symfs, || self.system.kernel(), KALLSYMS)
            }
            DsoKind::Module => {
                let release = self.host.osrelease.as_deref().unwrap_or_default();
                let running = || self.system.module(&key.name, release);
                self.of_system(key, || self.symfs_module(&key.name), running, &key.name)
            }
            DsoKind::Vdso => self.of_system(key, || None, || self.system.vdso(), b"[vdso]"),
            DsoKind::Vdso32 => self.of_system(key, || None, || Err(MissReason::Unavailable), &key.name),
            DsoKind::GuestUser | DsoKind::GuestKernel => Err(MissReason::Guest),
        };
        match answer {
            // That the table knows too much says more than that nothing else knows anything.
            Err(
                MissReason::NoSuchFile
                | MissReason::Guest
                | MissReason::OtherMachine
                | MissReason::UnknownMachine,
            ) if table.is_some() => Err(MissReason::Ambiguous),
            other => other,
        }
    }

    /// [`Resolver::resolve`] for many DSOs on some threads; answers are in the order of the keys.
    pub fn resolve_many(&self, keys: &[DsoKey], threads: usize) -> Vec<Resolution> {
        // Below this many a thread costs more than it saves.
        const WORTH_A_THREAD: usize = 16;
        let threads = threads.min(keys.len() / WORTH_A_THREAD);
        if threads < 2 {
            return keys.iter().map(|key| self.resolve(key)).collect();
        }
        let next = AtomicUsize::new(0);
        let answers: Vec<_> = keys.iter().map(|_| OnceLock::new()).collect();
        on_threads(threads, || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let (Some(key), Some(answer)) = (keys.get(i), answers.get(i)) else { return };
                // Each is taken once.
                let _ = answer.set(self.resolve(key));
            }
        });
        let answers = answers.into_iter().map(OnceLock::into_inner);
        keys.iter().zip(answers).map(|(key, answer)| answer.unwrap_or_else(|| self.resolve(key))).collect()
    }

    /// A list names files of the host; of guests it can mean only what has a name of its own.
    fn known(&self, key: &DsoKey) -> Option<BuildId> {
        if key.kind == DsoKind::GuestUser {
            return None;
        }
        key.names().find_map(|name| self.known.get(name))
    }

    fn user(&self, key: &DsoKey) -> Resolution {
        let answer = match &self.symfs {
            Some(root) => self.files.below(root.as_fd(), key),
            None => self.files.find(key, self.same_host),
        };
        let reason = match answer {
            Ok(found) => return Ok(found),
            Err(reason) => reason,
        };
        let not_the_file = matches!(
            reason,
            MissReason::NoSuchFile
                | MissReason::Deleted
                | MissReason::Permission
                | MissReason::InodeDiffers
                | MissReason::GenerationDiffers
                | MissReason::NewerThanRecording
                | MissReason::OtherMachine
        );
        if !not_the_file {
            return Err(reason);
        }
        let name = key.undeleted_name().unwrap_or(&key.name);
        let images = self.cache.images_of(name);
        if images.is_empty() {
            return Err(reason);
        }
        if self.same_host != SameHost::No
            && let Some(id) = self.files.linked_image(key, &images)
        {
            return Ok(Found { id, source: IdSource::Cache });
        }
        // By its path alone an image is of any file that ever stood there; the inode has just said that it is not this.
        if key.inode != 0 || key.name_is_shared || self.files.namespaces.is_foreign(key) {
            return Err(reason);
        }
        let refused = match reason {
            MissReason::NoSuchFile | MissReason::Permission => None,
            _ => DsoFile::open(name).and_then(|file| file.build_id()).ok(),
        };
        only_image(&images, refused).map_err(|ambiguous| if refused.is_some() { reason } else { ambiguous })
    }

    /// The kernel, a module or the vdso: from symfs, or this system if it is the recorded one, or the cache.
    fn of_system(
        &self,
        key: &DsoKey,
        symfs: impl FnOnce() -> Option<Result<BuildId, MissReason>>,
        running: impl Fn() -> Result<BuildId, MissReason>,
        cached_name: &[u8],
    ) -> Resolution {
        if self.symfs.is_some()
            && let Some(Ok(id)) = symfs()
        {
            return Ok(Found { id, source: IdSource::Symfs });
        }
        let (reason, ours) = match self.same_host {
            SameHost::Yes => match running() {
                Ok(id) => return Ok(Found { id, source: IdSource::System }),
                Err(reason) => (reason, None),
            },
            // The cache of this machine knows this machine's kernel: that is just not the one recorded.
            SameHost::No => (MissReason::OtherMachine, running().ok()),
            SameHost::Unknown => return Err(MissReason::UnknownMachine),
        };
        if key.name_is_shared {
            return Err(reason);
        }
        only_image(&self.cache.images_of(cached_name), ours).map_err(|_| reason)
    }

    fn symfs_kernel(&self) -> Option<Result<BuildId, MissReason>> {
        let root = self.symfs.as_ref()?.as_fd();
        let release = self.host.osrelease.as_deref().filter(|r| !r.is_empty() && !r.contains(&b'/'))?;
        let places: [(&[u8], &[u8]); 5] = [
            (b"/boot/vmlinux-", b""),
            (b"/usr/lib/debug/boot/vmlinux-", b""),
            (b"/lib/modules/", b"/vmlinux"),
            (b"/lib/modules/", b"/build/vmlinux"),
            (b"/usr/lib/debug/lib/modules/", b"/vmlinux"),
        ];
        let below = |path: Vec<u8>| DsoFile::open_below(root, &path).and_then(|file| file.build_id());
        places.iter().map(|(before, after)| below([before, release, after].concat())).find(|id| id.is_ok())
    }

    fn symfs_module(&self, name: &[u8]) -> Option<Result<BuildId, MissReason>> {
        let root: BorrowedFd<'_> = self.symfs.as_ref()?.as_fd();
        if name.starts_with(b"/")
            && let Ok(file) = DsoFile::open_below(root, name)
        {
            return Some(file.build_id());
        }
        let release = self.host.osrelease.as_deref()?;
        let files = self.symfs_modules.get_or_init(|| ModuleFiles::of_release(Some(root), release));
        Some(files.open(Some(root), &module_name(name)?).and_then(|file| file.build_id()))
    }
}

/// The one image that a cache has, if it is not the one that is known to be wrong.
fn only_image(images: &[CachedImage], wrong: Option<BuildId>) -> Resolution {
    match images {
        [image] if Some(image.id) != wrong => Ok(Found { id: image.id, source: IdSource::Cache }),
        _ => Err(MissReason::Ambiguous),
    }
}
