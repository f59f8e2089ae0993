//! A DSO: a file, or what stands for one, that maps are backed by.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::abi::build_id::BuildId;
use crate::abi::misc::CpuMode;

use super::map::MAP_HUGETLB;

/// Names a DSO within a session; given in order of first appearance, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DsoId(pub u32);

/// The pid by which a machine is known: [`HOST`], or that of the process (on the host) which runs a guest.
pub type MachinePid = i32;

/// The machine that was recorded.
pub const HOST: MachinePid = -1;
/// The guest that samples belong to when nothing says which guest.
pub const DEFAULT_GUEST: MachinePid = 0;

/// What kind of thing a DSO is; says where its bytes, symbols and build-id may be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DsoKind {
    /// A file that a process mapped.
    User,
    /// The kernel proper.
    Kernel,
    /// A kernel module: by path, or by name in brackets.
    Module,
    /// The page of code that the kernel gives to each process.
    Vdso,
    /// Memory without a file: anonymous, heap, stack, shared memory, memfd.
    Anon,
    /// A JITed BPF program.
    Bpf,
    /// A BPF trampoline or dispatcher.
    BpfImage,
    /// Other code that the kernel made at run time: ftrace trampolines, kprobe slots.
    OutOfLine,
}

impl DsoKind {
    /// Whether it belongs to the kernel's part of the address space.
    pub fn is_kernel(self) -> bool {
        matches!(
            self,
            DsoKind::Kernel | DsoKind::Module | DsoKind::Bpf | DsoKind::BpfImage | DsoKind::OutOfLine
        )
    }

    /// The kind of what a process mapped under `name`, with the flags of `mmap(2)`.
    pub fn of_user_map(name: &[u8], flags: u32) -> DsoKind {
        if name == b"[vdso]" {
            DsoKind::Vdso
        } else if has_no_file(name) || flags & MAP_HUGETLB != 0 {
            DsoKind::Anon
        } else {
            DsoKind::User
        }
    }
}

/// Names that the kernel gives to maps without a file.
fn has_no_file(name: &[u8]) -> bool {
    match name.first() {
        Some(b'[') => name == b"[heap]" || name.starts_with(b"[stack") || name.starts_with(b"[anon"),
        Some(b'/') => {
            name == b"//anon"
                || [&b"/dev/zero"[..], b"/anon_hugepage", b"/SYSV", b"/memfd:"]
                    .iter()
                    .any(|prefix| name.starts_with(prefix))
        }
        _ => name.is_empty(),
    }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// The name in brackets that the kernel gives to the module in a file: dashes become underscores.
fn module_name(path: &[u8]) -> Vec<u8> {
    let base = base_name(path);
    let plain = [&b".gz"[..], b".xz", b".zst"].iter().find_map(|suffix| base.strip_suffix(*suffix));
    match plain.unwrap_or(base).strip_suffix(b".ko") {
        Some(stem) => {
            let stem = stem.iter().map(|&b| if b == b'-' { b'_' } else { b });
            [b'['].into_iter().chain(stem).chain([b']']).collect()
        }
        None => path.to_vec(),
    }
}

/// The file that a MMAP2 record names besides its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Major number of the device.
    pub maj: u32,
    /// Minor number of the device.
    pub min: u32,
    /// Inode.
    pub ino: u64,
    /// Generation of the inode.
    pub ino_generation: u64,
}

/// What tells DSOs of the same name apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// Nothing.
    Name,
    /// Device, inode and generation.
    File(FileId),
    /// The build-id that the record of the map carried.
    BuildId(BuildId),
    /// The process whose memory it is.
    Process(i32),
}

/// A file, or what stands for one, that maps are backed by.
///
/// All that can change is set without `&mut`, so a DSO is shared as `Arc<Dso>`. Symbols and file contents are
/// kept elsewhere, by [`DsoId`].
pub struct Dso {
    id: DsoId,
    machine: MachinePid,
    kind: DsoKind,
    identity: Identity,
    first_pid: i32,
    name: Box<[u8]>,
    // Path of the JIT's symbol file, or a module's name in brackets.
    other_name: Option<Box<[u8]>>,
    build_id: OnceLock<BuildId>,
    hit: AtomicBool,
}

impl Dso {
    pub(super) fn new(
        id: DsoId,
        machine: MachinePid,
        name: &[u8],
        kind: DsoKind,
        identity: Identity,
        first_pid: i32,
    ) -> Dso {
        let build_id = match identity {
            Identity::BuildId(build_id) => OnceLock::from(build_id),
            _ => OnceLock::new(),
        };
        let other_name = match (kind, identity) {
            (_, Identity::Process(pid)) => Some(format!("/tmp/perf-{pid}.map").into_bytes()),
            (DsoKind::Module, _) => Some(module_name(name)),
            _ => None,
        };
        Dso {
            id,
            machine,
            kind,
            identity,
            first_pid,
            name: name.into(),
            other_name: other_name.map(Vec::into_boxed_slice),
            build_id,
            hit: AtomicBool::new(false),
        }
    }

    /// A DSO of no session, with id `u32::MAX`: for tests and benches.
    pub fn detached(name: &[u8], kind: DsoKind) -> Arc<Dso> {
        Arc::new(Dso::new(DsoId(u32::MAX), HOST, name, kind, Identity::Name, -1))
    }

    /// The id within its session.
    pub fn id(&self) -> DsoId {
        self.id
    }

    /// The name as recorded; a path is bytes, not necessarily UTF-8.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The path as perf knows it: the name as recorded, but for executable memory without a file the path of the
    /// symbol file that a JIT would have written, `/tmp/perf-PID.map`.
    pub fn long_name(&self) -> &[u8] {
        match (self.identity, &self.other_name) {
            (Identity::Process(_), Some(path)) => path,
            _ => &self.name,
        }
    }

    /// The name as `perf script` prints it: [`Dso::long_name`], but for a module its name in brackets.
    pub fn shown_name(&self) -> &[u8] {
        self.other_name.as_deref().unwrap_or(&self.name)
    }

    /// The part of [`Dso::shown_name`] after the last slash.
    pub fn short_name(&self) -> &[u8] {
        base_name(self.shown_name())
    }

    /// The process whose JIT would have written `/tmp/perf-PID.map` for this DSO, if it is memory without a file.
    pub fn perf_map_pid(&self) -> Option<i32> {
        match self.identity {
            Identity::Process(pid) => Some(pid),
            _ => None,
        }
    }

    /// What kind of thing it is.
    pub fn kind(&self) -> DsoKind {
        self.kind
    }

    /// The machine it is of.
    pub fn machine(&self) -> MachinePid {
        self.machine
    }

    /// The cpumode of its addresses, as HEADER_BUILD_ID records give it in misc.
    pub fn cpumode(&self) -> CpuMode {
        match (self.machine == HOST, self.kind.is_kernel()) {
            (true, true) => CpuMode::Kernel,
            (true, false) => CpuMode::User,
            (false, true) => CpuMode::GuestKernel,
            (false, false) => CpuMode::GuestUser,
        }
    }

    /// What tells it apart from DSOs of the same name.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Device and inode, if a MMAP2 record gave them.
    pub fn file_id(&self) -> Option<FileId> {
        match self.identity {
            Identity::File(file) => Some(file),
            _ => None,
        }
    }

    /// The process that was first seen with it, whose mount namespace its path is of; -1 if none was.
    pub fn first_pid(&self) -> i32 {
        self.first_pid
    }

    /// The build-id, once known.
    pub fn build_id(&self) -> Option<BuildId> {
        self.build_id.get().copied()
    }

    /// Sets the build-id; returns false, and changes nothing, if one is set already.
    pub fn set_build_id(&self, build_id: BuildId) -> bool {
        self.build_id.set(build_id).is_ok()
    }

    /// Whether a sample touched it.
    pub fn is_hit(&self) -> bool {
        self.hit.load(Relaxed)
    }

    /// Notes that a sample touched it; true for the first one.
    pub fn mark_hit(&self) -> bool {
        // The plain load keeps the cache line shared on the common path.
        !self.hit.load(Relaxed) && !self.hit.swap(true, Relaxed)
    }
}

impl fmt::Debug for Dso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dso({} {:?} {})", self.id.0, self.kind, self.name.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn kinds_of_user_maps() {
        for (name, kind) in [
            (&b"/bin/ls"[..], DsoKind::User),
            (b"[vdso]", DsoKind::Vdso),
            (b"[vsyscall]", DsoKind::User),
            (b"//anon", DsoKind::Anon),
            (b"/anon", DsoKind::User),
            (b"[heap]", DsoKind::Anon),
            (b"[stack:12]", DsoKind::Anon),
            (b"/memfd:doublemapper (deleted)", DsoKind::Anon),
            (b"/dev/zero (deleted)", DsoKind::Anon),
            (b"/SYSV00000000 (deleted)", DsoKind::Anon),
            (b"/anon_hugepage (deleted)", DsoKind::Anon),
            (b"", DsoKind::Anon),
        ] {
            assert_eq!(DsoKind::of_user_map(name, 2), kind, "{}", name.escape_ascii());
        }
        assert_eq!(DsoKind::of_user_map(b"/mnt/huge/x", MAP_HUGETLB), DsoKind::Anon);
    }

    #[test]
    fn modules_have_their_name_in_brackets() {
        for (path, shown) in [
            (&b"/lib/modules/6.1/kernel/net/nf-nat.ko.zst"[..], &b"[nf_nat]"[..]),
            (b"/x/xfs.ko", b"[xfs]"),
            (b"[ext4]", b"[ext4]"),
            (b"/x/odd.o", b"/x/odd.o"),
        ] {
            let dso = Dso::detached(path, DsoKind::Module);
            assert_eq!((dso.shown_name(), dso.long_name(), dso.name()), (shown, path, path));
        }
    }

    #[test]
    fn hit_and_build_id_are_set_once() {
        let dso = Dso::detached(b"/a/b", DsoKind::User);
        assert!(!dso.is_hit() && dso.mark_hit() && !dso.mark_hit() && dso.is_hit());
        let (one, two) = (BuildId::from_bytes(&[1]).unwrap(), BuildId::from_bytes(&[2]).unwrap());
        assert!(dso.set_build_id(one) && !dso.set_build_id(two));
        assert_eq!(dso.build_id(), Some(one));
        assert_eq!(dso.short_name(), b"b");
    }
}
