//! A machine: its kernel's maps, and its threads.

use std::sync::Arc;

use super::addr_location::View;
use super::dso::{DEFAULT_GUEST, Dso, DsoKind, FileId, HOST, Identity, MachinePid};
use super::dsos::{DsoKey, Dsos};
use super::map::{Extent, Map, Mapping};
use super::maps::Maps;
use super::threads::Threads;
use crate::abi::build_id::BuildId;
use crate::abi::misc::CpuMode;
use crate::event::ksymbol::Ksymbol;
use crate::event::mmap::{self, Mmap, PROT_EXEC};

/// What the kernel calls the images of trampolines and dispatchers in KSYMBOL records.
const BPF_IMAGES: [&[u8]; 2] = [b"bpf_trampoline_", b"bpf_dispatcher_"];

/// The symbol, and its address in the running kernel, by which a kernel's relocation is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceSymbol {
    /// `_text` or `_stext`.
    pub name: Box<[u8]>,
    /// Its address when recorded.
    pub address: u64,
}

/// What of a machine follows from its architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arch {
    /// `EM_*` of `elf.h`; 0 if the name says nothing to us.
    pub e_machine: u16,
    /// Whether addresses do not tell user from kernel.
    pub single_address_space: bool,
    /// Whether kernel addresses begin below the kernel's text, at 2^63.
    kernel_is_upper_half: bool,
}

impl Arch {
    /// From the machine name of `uname`, as the ARCH section of a recording has it. An unknown or empty name is
    /// taken for an architecture whose kernel is in the upper half of the addresses.
    pub fn from_name(name: &str) -> Arch {
        let e_machine = match name {
            "x86_64" => 62,
            "aarch64" | "aarch64_be" | "arm64" => 183,
            "s390" | "s390x" => 22,
            "ppc" => 20,
            "sparc" => 2,
            "sparc64" => 43,
            "alpha" => 0x9026,
            name if name.starts_with("ppc64") => 21,
            name if name.starts_with("arm") => 40,
            name if name.starts_with("riscv") => 243,
            name if name.starts_with("loongarch") => 258,
            name if name.starts_with("mips") => 8,
            name if name.starts_with("parisc") => 15,
            name if matches!(name.as_bytes(), [b'i', _, b'8', b'6']) => 3,
            _ => 0,
        };
        Arch {
            e_machine,
            single_address_space: name.starts_with("sparc"),
            kernel_is_upper_half: matches!(e_machine, 62 | 0),
        }
    }
}

/// A machine, the host or a guest, as of a moment of the recording.
pub struct Machine {
    pid: MachinePid,
    arch: Arch,
    mmap_name: Box<[u8]>,
    kernel_maps: Maps,
    kernel_map: Option<Arc<Map>>,
    reference_symbol: Option<ReferenceSymbol>,
    threads: Threads,
}

impl Machine {
    pub(super) fn new(pid: MachinePid, arch: Arch) -> Machine {
        let mmap_name = match pid {
            HOST => b"[kernel.kallsyms]".to_vec(),
            DEFAULT_GUEST => b"[guest.kernel.kallsyms]".to_vec(),
            pid => format!("[guest.kernel.kallsyms.{pid}]").into_bytes(),
        };
        Machine {
            pid,
            arch,
            mmap_name: mmap_name.into(),
            kernel_maps: Maps::new(),
            kernel_map: None,
            reference_symbol: None,
            threads: Threads::default(),
        }
    }

    /// [`HOST`], or the pid of the process that runs the guest.
    pub fn pid(&self) -> MachinePid {
        self.pid
    }

    /// The architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    pub(super) fn set_arch(&mut self, arch: Arch) {
        self.arch = arch;
    }

    /// The name of the kernel's DSO: `[kernel.kallsyms]`, of a guest `[guest.kernel.kallsyms]`, with the guest's pid
    /// before the bracket unless it is the default guest.
    pub fn kernel_name(&self) -> &[u8] {
        &self.mmap_name
    }

    /// Maps of the kernel, its modules and the code it made at run time.
    pub fn kernel_maps(&self) -> &Maps {
        &self.kernel_maps
    }

    /// As [`Machine::kernel_maps`], without locking.
    pub fn kernel_maps_mut(&mut self) -> &mut Maps {
        &mut self.kernel_maps
    }

    /// The map of the kernel proper, as last recorded. Where modules lie in it, the array holds parts of it.
    pub fn kernel_map(&self) -> Option<&Arc<Map>> {
        self.kernel_map.as_ref()
    }

    /// The symbol that tells the kernel's relocation, unless the recording has a zero for its address, as it does
    /// where `kptr_restrict` hid it.
    pub fn reference_symbol(&self) -> Option<&ReferenceSymbol> {
        self.reference_symbol.as_ref()
    }

    /// The threads.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// As [`Machine::threads`], to be changed.
    pub fn threads_mut(&mut self) -> &mut Threads {
        &mut self.threads
    }

    /// The lowest kernel address: 2^63 on x86-64, where trampolines lie below the text; elsewhere the text's start.
    pub fn kernel_start(&self) -> u64 {
        match &self.kernel_map {
            Some(map) if !self.arch.kernel_is_upper_half => map.start(),
            _ => 1 << 63,
        }
    }

    /// The address spaces that samples of a thread resolve in.
    #[inline]
    pub fn view(&mut self, pid: i32, tid: i32) -> View<'_> {
        let kernel_start = self.kernel_start();
        let space = self.threads.space_of(pid, tid);
        View {
            is_guest: self.pid != HOST,
            kernel_start,
            single_address_space: self.arch.single_address_space,
            kernel: self.kernel_maps.get_mut(),
            user: space.map(|space| self.threads.maps_mut(space).get_mut()),
        }
    }

    /// The DSO of a MMAP or MMAP2 record of this machine.
    pub fn intern<'d>(&self, dsos: &'d mut Dsos, mmap: &Mmap<'_>) -> &'d Arc<Dso> {
        match CpuMode::from_misc(mmap.misc) {
            CpuMode::Kernel | CpuMode::GuestKernel => self.intern_kernel(dsos, mmap).0,
            _ => self.intern_user(dsos, mmap),
        }
    }

    fn intern_user<'d>(&self, dsos: &'d mut Dsos, mmap: &Mmap<'_>) -> &'d Arc<Dso> {
        let kind = DsoKind::of_user_map(mmap.filename, mmap.flags);
        let mut identity = identity(&mmap.file);
        // memfd is a file of its own name to perf; the rest is where a JIT would have put its code.
        if kind == DsoKind::Anon && mmap.prot & PROT_EXEC != 0 && !mmap.filename.starts_with(b"/memfd:") {
            identity = Identity::Process(mmap.pid);
        }
        dsos.intern(&DsoKey { machine: self.pid, name: mmap.filename, kind, identity }, mmap.pid)
    }

    /// With the rest of the name after the kernel's own, which is the reference symbol's.
    fn intern_kernel<'d, 'n>(&self, dsos: &'d mut Dsos, mmap: &Mmap<'n>) -> (&'d Arc<Dso>, KernelPart<'n>) {
        // Recordings of old have more names within the brackets, so the closing one is not asked for.
        let stem = self.mmap_name.strip_suffix(b"]").unwrap_or(&self.mmap_name);
        let (name, kind, identity, part) = match mmap.filename.strip_prefix(stem) {
            Some(rest) => {
                let symbol = rest.strip_prefix(b"]").unwrap_or_default();
                (&*self.mmap_name, DsoKind::Kernel, Identity::Name, KernelPart::Text { symbol })
            }
            None if matches!(mmap.filename.first(), Some(b'/' | b'[')) => {
                (mmap.filename, DsoKind::Module, identity(&mmap.file), KernelPart::Module)
            }
            None => (&*self.mmap_name, DsoKind::Kernel, Identity::Name, KernelPart::Extra),
        };
        let dso = dsos.intern(&DsoKey { machine: self.pid, name, kind, identity }, -1);
        if let (KernelPart::Text { .. }, Identity::BuildId(id)) = (&part, self::identity(&mmap.file)) {
            dso.set_build_id(id);
        }
        (dso, part)
    }

    /// A map of a process or of the kernel came. Returns its DSO.
    pub fn mmap<'d>(&mut self, dsos: &'d mut Dsos, mmap: &Mmap<'_>) -> &'d Arc<Dso> {
        let extent =
            Extent { start: mmap.start, end: mmap.start.saturating_add(mmap.len), pgoff: mmap.pgoff };
        if matches!(CpuMode::from_misc(mmap.misc), CpuMode::Kernel | CpuMode::GuestKernel) {
            return self.mmap_kernel(dsos, mmap, extent);
        }
        let dso = self.intern_user(dsos, mmap);
        let (extent, mapping) = match dso.kind() {
            DsoKind::Vdso => (Extent { pgoff: 0, ..extent }, Mapping::File),
            DsoKind::Anon if !mmap.filename.starts_with(b"/memfd:") => (extent, Mapping::Identity),
            _ => (extent, Mapping::File),
        };
        let map = Map::with_mapping(extent, Arc::clone(dso), mmap.prot, mmap.flags, mapping);
        let space = self.threads.ensure(mmap.pid, mmap.tid);
        self.threads.maps_mut(space).get_mut().fixup_overlap_and_insert(map);
        dso
    }

    fn mmap_kernel<'d>(&mut self, dsos: &'d mut Dsos, mmap: &Mmap<'_>, mut extent: Extent) -> &'d Arc<Dso> {
        let (dso, part) = self.intern_kernel(dsos, mmap);
        let mapping = match part {
            KernelPart::Text { .. } => Mapping::Identity,
            KernelPart::Module | KernelPart::Extra => Mapping::File,
        };
        if let KernelPart::Text { symbol } = part {
            // Nothing known of the kernel's range: all addresses of kernel mode are its.
            if extent.start == 0 && extent.end == 0 {
                extent.end = u64::MAX;
            }
            // The address of the symbol stands in pgoff's place.
            if extent.pgoff != 0 {
                self.reference_symbol = Some(ReferenceSymbol { name: symbol.into(), address: extent.pgoff });
            }
            extent.pgoff = 0;
        }
        let map = Arc::new(Map::with_mapping(extent, Arc::clone(dso), mmap.prot, mmap.flags, mapping));
        match mapping {
            Mapping::Identity => self.set_kernel_map(map),
            // Where `kptr_restrict` hides addresses, modules lie at 0 with lengths that mean nothing.
            Mapping::File if extent.start == 0 => {}
            Mapping::File => self.kernel_maps.get_mut().fixup_overlap_and_insert(map),
        }
        dso
    }

    /// Lets go of what can be had again: see [`Session::shrink`](super::Session::shrink).
    pub fn shrink(&mut self) {
        self.kernel_maps.get_mut().shrink();
        self.threads.shrink();
    }

    /// Gives the kernel's text a new range. Modules that lie in it stay.
    pub fn set_kernel_map(&mut self, map: Arc<Map>) {
        let maps = self.kernel_maps.get_mut();
        if let Some(old) = self.kernel_map.take() {
            let parts = maps
                .iter()
                .map(|f| f.map)
                .filter(|m| m.mapping() == Mapping::Identity && Arc::ptr_eq(m.dso(), old.dso()));
            for part in parts.cloned().collect::<Vec<_>>() {
                maps.remove(&part);
            }
        }
        maps.merge_in(Arc::clone(&map));
        self.kernel_map = Some(map);
    }

    /// A symbol of code that the kernel made at run time came or went. Returns its map if it came.
    pub fn ksymbol(&mut self, dsos: &mut Dsos, ksymbol: &Ksymbol<'_>) -> Option<Arc<Map>> {
        if ksymbol.unregister() {
            let maps = self.kernel_maps.get_mut();
            let map = Arc::clone(maps.find(ksymbol.addr)?.map);
            let kind = map.dso().kind();
            if matches!(kind, DsoKind::Bpf | DsoKind::BpfImage | DsoKind::OutOfLine) {
                maps.remove(&map);
            }
            return None;
        }
        let kind = match ksymbol.ksym_type {
            Ksymbol::TYPE_OOL => DsoKind::OutOfLine,
            _ if BPF_IMAGES.iter().any(|prefix| ksymbol.name.starts_with(prefix)) => DsoKind::BpfImage,
            _ => DsoKind::Bpf,
        };
        let key = DsoKey { machine: self.pid, name: ksymbol.name, kind, identity: Identity::Name };
        let dso = dsos.intern(&key, -1);
        let end = ksymbol.addr.saturating_add(u64::from(ksymbol.len));
        let extent = Extent { start: ksymbol.addr, end, pgoff: 0 };
        let map = Arc::new(Map::new(extent, Arc::clone(dso), PROT_EXEC, 0));
        self.kernel_maps.get_mut().fixup_overlap_and_insert(Arc::clone(&map));
        Some(map)
    }
}

/// What a kernel's MMAP record is of.
enum KernelPart<'a> {
    /// The text proper; the name goes on with the reference symbol's.
    Text { symbol: &'a [u8] },
    /// A module.
    Module,
    /// A part of the text that is mapped elsewhere, such as x86's entry trampolines.
    Extra,
}

fn identity(file: &mmap::FileId<'_>) -> Identity {
    match *file {
        mmap::FileId::None => Identity::Name,
        // Memory and old kernels: no file to tell apart.
        mmap::FileId::Inode { ino: 0, maj: 0, min: 0, .. } => Identity::Name,
        mmap::FileId::Inode { maj, min, ino, generation } => {
            Identity::File(FileId { maj, min, ino, ino_generation: generation })
        }
        mmap::FileId::BuildId(id) => BuildId::from_bytes(id).map_or(Identity::Name, Identity::BuildId),
    }
}
