//! The id of each DSO, asked for once, and what came of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::abi::build_id::BuildId;
use crate::abi::feature::Feature;
use crate::abi::misc::CpuMode;
use crate::error::Result;
use crate::header::Header;
use crate::header::features::build_ids::BuildIdEntry;
use crate::session::build_id::{
    DsoKey, DsoKind as Kind, HostIdentity, IdSource, KnownBuildIds, MissReason, RecordedIds, Resolver,
    ResolverOptions,
};
use crate::session::{Dso, DsoKind, HOST, Session};

/// Where ids may come from.
#[derive(Clone, Debug, Default)]
pub struct IdsOptions {
    /// The value of `--known-build-ids`.
    pub known: Option<OsString>,
    /// Root under which recorded paths are looked up.
    pub symfs: Option<PathBuf>,
    /// perf's build-id cache.
    pub buildid_dir: Option<PathBuf>,
    /// Trust files whose inode differs.
    pub force: bool,
    /// When the recording was last written; files made since are not trusted.
    pub recorded_at: Option<SystemTime>,
}

#[derive(Clone, Debug)]
enum State {
    Unasked,
    Found { id: BuildId, source: IdSource, announced: bool, name: Box<[u8]>, mode: CpuMode, pid: i32 },
    Missing { name: Box<[u8]>, reason: MissReason },
}

/// The ids of DSOs.
pub struct Ids {
    resolver: Resolver,
    states: Vec<State>,
    warnings: Vec<String>,
}

impl Ids {
    /// Reads the known list, if there is one.
    pub fn new(options: IdsOptions) -> Result<Self> {
        let known = options.known.map(|v| KnownBuildIds::from_option(&v)).transpose()?.unwrap_or_default();
        let warnings = known.warnings().iter().map(|w| format!("--known-build-ids: {w}")).collect();
        let resolver = Resolver::new(ResolverOptions {
            symfs: options.symfs,
            buildid_dir: options.buildid_dir,
            force: options.force,
            known,
            recorded: RecordedIds::default(),
            host: HostIdentity::default(),
            recorded_at: options.recorded_at,
        })?;
        Ok(Ids { resolver, states: Vec::new(), warnings })
    }

    /// Tells whose recording it is.
    pub fn set_host(&mut self, header: &Header) {
        let string = |feature| header.string_feature(feature).map(<[u8]>::to_vec);
        self.resolver.set_host(HostIdentity {
            hostname: string(Feature::HOSTNAME),
            osrelease: string(Feature::OSRELEASE),
            arch: string(Feature::ARCH),
        });
    }

    /// Takes an id that the recording itself gives; whether it is one.
    pub fn add_recorded(&mut self, entry: &BuildIdEntry<'_>) -> bool {
        let Some(id) = entry.build_id() else { return false };
        let mode = entry.cpumode();
        let guest = super::is_guest(mode);
        let kernel = matches!(mode, CpuMode::Kernel | CpuMode::GuestKernel);
        self.resolver.recorded_mut().insert(guest, kernel, entry.filename, id);
        true
    }

    /// The id of a DSO, looked for when first asked.
    pub fn of(&mut self, dso: &Dso, session: &Session) -> Option<BuildId> {
        let index = dso.id().0 as usize;
        if self.states.len() <= index {
            self.states.resize(index + 1, State::Unasked);
        }
        let state = self.states.get_mut(index)?;
        if matches!(state, State::Unasked) {
            let name = Box::from(dso.name());
            *state = match resolve(&self.resolver, dso, session) {
                Ok((id, source)) => State::Found {
                    id,
                    source,
                    announced: false,
                    name,
                    mode: dso.cpumode(),
                    pid: dso.machine(),
                },
                Err(reason) => State::Missing { name, reason },
            };
        }
        match state {
            State::Found { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// Notes that the recording had a record for the DSO's id already, so that none was injected.
    pub fn was_announced(&mut self, dso: &Dso) {
        if let Some(State::Found { announced, .. }) = self.states.get_mut(dso.id().0 as usize) {
            *announced = true;
        }
    }

    /// DSOs that were asked for.
    pub fn asked(&self) -> u64 {
        self.states.iter().filter(|s| !matches!(s, State::Unasked)).count() as u64
    }

    /// Ids found, by where they came from, without those that the stream had already.
    pub fn injected(&self) -> BTreeMap<&'static str, u64> {
        let mut by_source = BTreeMap::new();
        for state in &self.states {
            if let State::Found { source, announced: false, .. } = state {
                *by_source.entry(source.key()).or_insert(0) += 1;
            }
        }
        by_source
    }

    /// Entries for the BUILD_ID section.
    pub fn table(&self) -> Vec<BuildIdEntry<'_>> {
        let entry = |state| match state {
            &State::Found { ref id, mode, pid, ref name, .. } => Some(BuildIdEntry::new(id, mode, pid, name)),
            _ => None,
        };
        self.states.iter().filter_map(entry).collect()
    }

    /// DSOs without an id, and why.
    pub fn missing(&self) -> impl Iterator<Item = (&[u8], MissReason)> {
        self.states.iter().filter_map(|state| match state {
            State::Missing { name, reason } => Some((&**name, *reason)),
            _ => None,
        })
    }

    /// What the user should know.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        for (id, modules) in self.resolver.recorded().shared_by_modules() {
            let names: Vec<_> = modules.iter().map(|m| String::from_utf8_lossy(m)).collect();
            warnings.push(format!(
                "modules share the build-id {id} in the recording's table, which is used for none of them: {}",
                names.join(", ")
            ));
        }
        warnings
    }
}

fn resolve(resolver: &Resolver, dso: &Dso, session: &Session) -> Result<(BuildId, IdSource), MissReason> {
    let guest = dso.machine() != HOST;
    let kind = match dso.kind() {
        DsoKind::User if guest => Kind::GuestUser,
        DsoKind::Kernel | DsoKind::Module if guest => Kind::GuestKernel,
        DsoKind::User => Kind::User,
        DsoKind::Kernel => Kind::Kernel,
        DsoKind::Module => Kind::Module,
        DsoKind::Vdso => Kind::Vdso,
        DsoKind::Anon if dso.name().starts_with(b"/memfd:") => return Err(MissReason::Memfd),
        _ => return Err(MissReason::Anonymous),
    };
    let mut key = DsoKey::new(dso.name(), kind);
    if let Some(file) = dso.file_id() {
        (key.major, key.minor, key.inode, key.generation) =
            (file.maj, file.min, file.ino, file.ino_generation);
    }
    let pid = dso.first_pid();
    key.pid = u32::try_from(pid).ok();
    key.mount_namespace =
        session.thread(dso.machine(), pid, pid).and_then(|t| t.mount_namespace()).map(|(_, inode)| inode);
    key.recorded = dso.build_id();
    let twins = |other: &&std::sync::Arc<Dso>| {
        other.machine() == dso.machine() && other.kind() == dso.kind() && other.file_id() != dso.file_id()
    };
    key.name_is_shared = dso.kind() == DsoKind::User && session.dsos().named(dso.name()).any(|d| twins(&d));
    resolver.resolve(&key).map(|found| (found.id, found.source))
}
