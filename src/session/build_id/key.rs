//! What is known of a DSO that wants a build-id.

use crate::abi::build_id::BuildId;

use super::miss::MissReason;

/// What kind of image a DSO is; it decides where its id can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DsoKind {
    /// A file, or memory, of a process of the host.
    User,
    /// The host's kernel, under `[kernel.kallsyms]`, `[kernel.kallsyms]_text` or a path to vmlinux.
    Kernel,
    /// A module of the host's kernel, under `[name]` or the path of its .ko file.
    Module,
    /// The vdso of processes with the host's word size.
    Vdso,
    /// The vdso of 32-bit (or x32) processes on a 64-bit host.
    Vdso32,
    /// An image of a guest's process.
    GuestUser,
    /// A guest's kernel or a module of it.
    GuestKernel,
}

impl DsoKind {
    /// Whether the image belongs to a guest.
    pub fn is_guest(self) -> bool {
        matches!(self, DsoKind::GuestUser | DsoKind::GuestKernel)
    }
}

/// A DSO as its MMAP or MMAP2 record tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DsoKey {
    /// Name in the record, without its NUL.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: DsoKind,
    /// Device, major number; 0 with `minor` 0 where the record has none.
    pub major: u32,
    /// Device, minor number.
    pub minor: u32,
    /// Inode number; 0 where the record has none.
    pub inode: u64,
    /// Inode generation; 0 where the record has none.
    pub generation: u64,
    /// A process that mapped it.
    pub pid: Option<u32>,
    /// Inode of that process's mount namespace, from a NAMESPACES record.
    pub mount_namespace: Option<u64>,
    /// The id that the record itself carries.
    pub recorded: Option<BuildId>,
    /// Another DSO of the recording has the same name and another inode, so that an id by name is no one's.
    pub name_is_shared: bool,
}

impl DsoKey {
    /// A DSO of which only the name is known.
    pub fn new(name: impl Into<Vec<u8>>, kind: DsoKind) -> DsoKey {
        DsoKey {
            name: name.into(),
            kind,
            major: 0,
            minor: 0,
            inode: 0,
            generation: 0,
            pid: None,
            mount_namespace: None,
            recorded: None,
            name_is_shared: false,
        }
    }

    /// The name without the ` (deleted)` that the kernel appends; `None` if there was none.
    pub(super) fn undeleted_name(&self) -> Option<&[u8]> {
        self.name.strip_suffix(b" (deleted)")
    }

    /// Names under which lists and tables may know the DSO, most exact first.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        let kernel = self.kind == DsoKind::Kernel && self.name.starts_with(KALLSYMS);
        let alias = if kernel { Some(KALLSYMS) } else { self.undeleted_name() };
        std::iter::once(self.name.as_slice()).chain(alias)
    }
}

/// perf's name for the running kernel's image.
pub(super) const KALLSYMS: &[u8] = b"[kernel.kallsyms]";

/// Why a user DSO's name can't be the path of a file.
pub(super) fn nameless(name: &[u8]) -> Option<MissReason> {
    const MEMORY: [&[u8]; 5] = [b"//anon", b"/SYSV", b"/dev/zero", b"/anon_hugepage", b"/[aio]"];
    if name.starts_with(b"/memfd:") {
        Some(MissReason::Memfd)
    } else if !name.starts_with(b"/") || MEMORY.iter().any(|memory| name.starts_with(memory)) {
        Some(MissReason::Anonymous)
    } else {
        None
    }
}

/// A module's name as the kernel has it: from `[snd-pcm]`, `snd_pcm` or `/…/snd-pcm.ko.xz`, `snd_pcm`.
///
/// `None` if what is left is not a module's name, so that it can be made part of a path.
pub fn module_name(name: &[u8]) -> Option<Vec<u8>> {
    let base = name.rsplit(|&b| b == b'/').next()?;
    let base = base.strip_prefix(b"[").and_then(|b| b.strip_suffix(b"]")).unwrap_or(base);
    let end = base.windows(3).position(|w| w == b".ko").unwrap_or(base.len());
    let stem = base.get(..end)?;
    let plain = |&b: &u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if stem.is_empty() || !stem.iter().all(plain) {
        return None;
    }
    Some(stem.iter().map(|&b| if b == b'-' { b'_' } else { b }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_names_agree_however_they_are_written() {
        for name in
            ["[snd-pcm]", "[snd_pcm]", "snd_pcm", "/lib/modules/6.1/kernel/sound/snd-pcm.ko.xz", "snd-pcm.ko"]
        {
            assert_eq!(module_name(name.as_bytes()).as_deref(), Some(b"snd_pcm".as_slice()), "{name}");
        }
        for name in ["", "[]", "[..]", "/a/..", "[a b]", ".ko", "/x/", "[a\0b]"] {
            assert_eq!(module_name(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn memory_is_told_from_files() {
        for name in [
            "//anon",
            "[heap]",
            "[stack:12]",
            "",
            "/SYSV00000000 (deleted)",
            "/dev/zero (deleted)",
            "bpf_prog_1",
        ] {
            assert_eq!(nameless(name.as_bytes()), Some(MissReason::Anonymous), "{name}");
        }
        assert_eq!(nameless(b"/memfd:doublemapper (deleted)"), Some(MissReason::Memfd));
        assert_eq!(nameless(b"/dev/shm/code.so"), None);
    }

    #[test]
    fn the_kernel_is_known_by_its_plain_name_too() {
        let key = DsoKey::new("[kernel.kallsyms]_text", DsoKind::Kernel);
        assert_eq!(key.names().collect::<Vec<_>>(), [b"[kernel.kallsyms]_text".as_slice(), KALLSYMS]);
        let key = DsoKey::new("/usr/bin/x (deleted)", DsoKind::User);
        assert_eq!(key.names().collect::<Vec<_>>(), [b"/usr/bin/x (deleted)".as_slice(), b"/usr/bin/x"]);
    }
}
