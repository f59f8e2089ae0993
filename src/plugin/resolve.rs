//! What plugins ask of addresses: map, symbol, build-id, source line and code.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::abi::build_id::BuildId;
use crate::abi::feature::Feature;
use crate::abi::misc::CpuMode;
use crate::header::Header;
use crate::header::features::build_ids::BuildIdTable;
use crate::session::machine::ReferenceSymbol;
use crate::session::{Dso, DsoKind, HOST, MachinePid, Map, Session};
use crate::symbol::elf::Elf;
use crate::symbol::file::ImageFile;
use crate::symbol::kernel::{KernelReference, load_kernel_symbols};
use crate::symbol::{self, Addressing, DsoSymbols, HeldSymbol, LoadOptions, SymbolSource};

/// Whose addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whose {
    /// The machine.
    pub machine: MachinePid,
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
}

/// Where an address lies and what it is.
#[derive(Clone)]
pub struct Place {
    /// The cpumode whose maps have it.
    pub mode: CpuMode,
    /// The map, if any.
    pub map: Option<Arc<Map>>,
    /// The address within the map's DSO; as asked if there is no map.
    pub addr: u64,
    /// The symbol, if any.
    pub symbol: Option<Named>,
}

/// A symbol in terms of its DSO's addresses.
#[derive(Clone)]
pub struct Named {
    /// Name as shown.
    pub name: Rc<[u8]>,
    /// First address.
    pub start: u64,
    /// First address past it.
    pub end: u64,
    /// ELF binding.
    pub binding: u8,
}

/// What is known of a DSO.
#[derive(Default)]
struct Entry {
    symbols: Option<Option<Arc<DsoSymbols>>>,
    image: Option<Option<Rc<Elf>>>,
    lines: Option<Option<Box<addr2line::Loader>>>,
}

/// The kernel's symbols and its modules', once loaded.
struct Kernel {
    kernel: Option<Arc<DsoSymbols>>,
    modules: FxHashMap<Box<[u8]>, Arc<DsoSymbols>>,
}

/// Answers by DSO, each loaded when first asked.
pub struct Resolver {
    options: LoadOptions,
    build_ids: FxHashMap<Box<[u8]>, BuildId>,
    entries: FxHashMap<u32, Entry>,
    kernels: FxHashMap<MachinePid, Kernel>,
}

impl Resolver {
    /// One that loads symbols by these options.
    pub fn new(options: LoadOptions) -> Self {
        Resolver {
            options,
            build_ids: FxHashMap::default(),
            entries: FxHashMap::default(),
            kernels: FxHashMap::default(),
        }
    }

    /// How symbols are loaded.
    pub fn options(&self) -> &LoadOptions {
        &self.options
    }

    /// Takes the build-ids and the kernel release that the recording has.
    pub fn begin(&mut self, header: &Header) {
        if let Some(section) = header.feature(Feature::BUILD_ID) {
            for entry in &BuildIdTable::parse(section, header.order).entries {
                if let Some(id) = entry.build_id() {
                    self.build_ids.insert(entry.filename.into(), id);
                }
            }
        }
        let release = header.string_feature(Feature::OSRELEASE);
        self.options.release = release.map(|r| String::from_utf8_lossy(r).into_owned());
    }

    /// Looks an address up; where the cpumode has no map for it, `fallback` tries the other side's.
    pub fn place(
        &mut self,
        session: &mut Session,
        whose: Whose,
        mode: CpuMode,
        ip: u64,
        fallback: bool,
    ) -> Place {
        let mut view = session.view(whose.machine, whose.pid, whose.tid);
        let at = if fallback { view.resolve_fallback(mode, ip) } else { view.resolve(mode, ip) };
        let symbol = at.map.as_ref().and_then(|map| {
            let reference = session.machines().get(whose.machine).and_then(|m| m.reference_symbol());
            self.symbol(map, at.ip, reference)
        });
        Place { mode: at.cpumode, map: at.map, addr: at.addr, symbol }
    }

    fn symbol(&mut self, map: &Map, ip: u64, reference: Option<&ReferenceSymbol>) -> Option<Named> {
        let dso = map.dso();
        if matches!(dso.kind(), DsoKind::Bpf | DsoKind::BpfImage | DsoKind::OutOfLine) {
            let (start, end) = (map.map_ip(map.start()), map.map_ip(map.end()));
            return Some(Named { name: dso.name().into(), start, end, binding: 1 });
        }
        let table = match &self.entries.entry(dso.id().0).or_default().symbols {
            Some(known) => known.clone(),
            None => {
                let loaded = self.load(dso, reference);
                self.entries.entry(dso.id().0).or_default().symbols = Some(loaded.clone());
                loaded
            }
        }?;
        let addr = match (table.addressing(), table.text_offset()) {
            (Addressing::Absolute, _) => ip,
            (Addressing::FileOffset, Some(text)) if dso.kind() == DsoKind::Module => {
                ip.wrapping_sub(map.start()).wrapping_add(text)
            }
            (Addressing::FileOffset, _) => map.map_ip(ip),
        };
        let held: HeldSymbol = table.find(addr)?.hold(&table)?;
        let found = held.get();
        // In terms of the map, whatever the table counts from.
        let shift = map.map_ip(ip).wrapping_sub(addr);
        Some(Named {
            name: found.name().into(),
            start: found.start().wrapping_add(shift),
            end: found.end().wrapping_add(shift),
            binding: found.binding().0,
        })
    }

    fn load(&mut self, dso: &Dso, reference: Option<&ReferenceSymbol>) -> Option<Arc<DsoSymbols>> {
        if dso.machine() != HOST {
            return None;
        }
        let kind = match dso.kind() {
            DsoKind::Kernel => return self.kernel(dso, reference).kernel.clone(),
            DsoKind::Module => symbol::DsoKind::KernelModule,
            DsoKind::User => symbol::DsoKind::User,
            // With an id recorded, perf takes no other image than the one in its cache.
            DsoKind::Vdso if self.recorded_id(dso).is_some_and(|id| !self.is_cached(&id, "vdso")) => {
                return None;
            }
            DsoKind::Vdso => symbol::DsoKind::Vdso,
            DsoKind::Anon if dso.perf_map_pid().is_some() => symbol::DsoKind::PerfMap,
            DsoKind::Anon | DsoKind::Bpf | DsoKind::BpfImage | DsoKind::OutOfLine => return None,
        };
        let loaded = symbol::load(&self.source(kind, dso), &self.options).ok().map(Arc::new);
        match loaded {
            None if dso.kind() == DsoKind::Module => {
                self.kernels.get(&dso.machine())?.modules.get(dso.shown_name()).cloned()
            }
            loaded => loaded,
        }
    }

    fn kernel(&mut self, dso: &Dso, reference: Option<&ReferenceSymbol>) -> &Kernel {
        let source = self.source(symbol::DsoKind::Kernel, dso);
        let options = &self.options;
        self.kernels.entry(dso.machine()).or_insert_with(|| {
            let reference = reference.map(|r| KernelReference {
                name: String::from_utf8_lossy(&r.name).into_owned(),
                address: r.address,
            });
            match load_kernel_symbols(&source, options, reference.as_ref()) {
                Ok(loaded) => Kernel {
                    kernel: Some(Arc::new(loaded.kernel)),
                    modules: loaded
                        .modules
                        .into_iter()
                        .map(|(name, symbols)| (name.into_bytes().into(), Arc::new(symbols)))
                        .collect(),
                },
                Err(_) => Kernel { kernel: None, modules: FxHashMap::default() },
            }
        })
    }

    fn recorded_id(&self, dso: &Dso) -> Option<BuildId> {
        dso.build_id().or_else(|| self.build_ids.get(dso.name()).copied())
    }

    fn source(&self, kind: symbol::DsoKind, dso: &Dso) -> SymbolSource {
        let mut source = SymbolSource::new(kind, path_of(dso.long_name()), self.recorded_id(dso));
        source.root = mount_root(dso.first_pid());
        source
    }

    /// Where perf's build-id cache has the file of an id: `elf` or `vdso`.
    fn cached(&self, id: &BuildId, kind: &str) -> Option<PathBuf> {
        let hex = id.to_string();
        let (head, tail) = hex.split_at_checked(2)?;
        Some(self.options.buildid_dir.as_ref()?.join(".build-id").join(head).join(tail).join(kind))
    }

    fn is_cached(&self, id: &BuildId, kind: &str) -> bool {
        self.cached(id, kind).is_some_and(|path| path.is_file())
    }

    /// The build-id: the recording's, else that of the file as it is now.
    pub fn build_id(&mut self, dso: &Dso) -> Option<BuildId> {
        self.recorded_id(dso).or_else(|| self.image(dso)?.build_id())
    }

    /// Whether the DSO is of 64 bits, as far as its file tells.
    pub fn is_64_bit(&mut self, dso: &Dso) -> bool {
        self.image(dso).is_none_or(|elf| elf.is_64)
    }

    /// `EM_*` of the DSO's file.
    pub fn e_machine(&mut self, dso: &Dso) -> Option<u16> {
        self.image(dso).map(|elf| elf.machine)
    }

    /// The file of a user-space DSO that is executed.
    fn image(&mut self, dso: &Dso) -> Option<Rc<Elf>> {
        if dso.kind() != DsoKind::User || dso.machine() != HOST {
            return None;
        }
        if let Some(known) = &self.entries.entry(dso.id().0).or_default().image {
            return known.clone();
        }
        let image = self.open_image(dso).map(Rc::new);
        self.entries.entry(dso.id().0).or_default().image = Some(image.clone());
        image
    }

    fn open_image(&self, dso: &Dso) -> Option<Elf> {
        let path = path_of(dso.long_name());
        let wanted = self.recorded_id(dso);
        let below = |root: &Path| root.join(path.strip_prefix("/").unwrap_or(&path));
        let mut candidates = Vec::new();
        candidates.extend(wanted.as_ref().and_then(|id| self.cached(id, "elf")));
        match &self.options.symfs {
            Some(symfs) => candidates.push(below(symfs)),
            None => {
                candidates.extend(mount_root(dso.first_pid()).map(|root| below(&root)));
                candidates.push(path.clone());
            }
        }
        let fits = |elf: &Elf| match (&wanted, elf.build_id()) {
            (Some(wanted), Some(id)) => id == *wanted,
            _ => true,
        };
        let open = |path: &PathBuf| ImageFile::open(path).and_then(Elf::parse).ok();
        candidates.iter().filter_map(open).find(fits)
    }

    /// Reads code of a map from its file, no further than the map reaches. How many bytes there were; `None` if there
    /// is no file.
    pub fn code(&mut self, map: &Map, ip: u64, buf: &mut [u8]) -> Option<usize> {
        let left = usize::try_from(map.end().checked_sub(ip)?).unwrap_or(usize::MAX);
        let want = buf.len().min(left);
        let buf = buf.get_mut(..want)?;
        self.image(map.dso())?.file.read_some_at(buf, map.map_ip(ip)).ok()
    }

    /// Source file and line of an address.
    pub fn line(&mut self, map: &Map, ip: u64) -> Option<(String, u32)> {
        let elf = self.image(map.dso())?;
        let offset = map.map_ip(ip);
        let segment = elf
            .segments
            .iter()
            .find(|s| s.exec && offset.checked_sub(s.offset).is_some_and(|into| into < s.filesz))?;
        let probe = offset.wrapping_sub(segment.offset).wrapping_add(segment.vaddr);
        let entry = self.entries.entry(map.dso().id().0).or_default();
        let loader = entry
            .lines
            .get_or_insert_with(|| {
                let debug = elf.build_id().and_then(|id| debug_file(&id)).filter(|path| path.is_file());
                addr2line::Loader::new(debug.as_deref().unwrap_or(elf.file.path())).ok().map(Box::new)
            })
            .as_ref()?;
        let location = loader.find_location(probe).ok()??;
        Some((as_binutils(location.file?), location.line.unwrap_or(0)))
    }
}

/// A unit that was compiled in a relative folder has that folder twice with binutils, and so with perf: once as the
/// unit's, and once as the first of the line table's folders. A file of another of them has `.` or `..` in between.
fn as_binutils(file: &str) -> String {
    let first_of_table = |folder: &str| {
        let inner = folder.strip_prefix("./").unwrap_or(folder);
        !inner.split('/').any(|part| matches!(part, "." | ".." | ""))
    };
    match file.rsplit_once('/') {
        Some((folder, _)) if first_of_table(folder) => format!("{folder}/{file}"),
        _ => file.to_owned(),
    }
}

/// Where distributions put split-off debug info.
fn debug_file(id: &BuildId) -> Option<PathBuf> {
    let hex = id.to_string();
    let (head, tail) = hex.split_at_checked(2)?;
    Some(Path::new("/usr/lib/debug/.build-id").join(head).join(format!("{tail}.debug")))
}

fn path_of(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(name))
}

/// The root that a process sees, if it is another one than ours.
fn mount_root(pid: i32) -> Option<PathBuf> {
    if pid <= 0 {
        return None;
    }
    let process = Path::new("/proc").join(pid.to_string());
    let theirs = std::fs::read_link(process.join("ns/mnt")).ok()?;
    let ours = std::fs::read_link("/proc/self/ns/mnt").ok()?;
    (theirs != ours).then(|| process.join("root"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_units_are_doubled_where_binutils_does() {
        assert_eq!(as_binutils("./elf/rtld.c"), "./elf/./elf/rtld.c");
        assert_eq!(as_binutils("./elf/./get-dynamic-info.h"), "./elf/./get-dynamic-info.h");
        assert_eq!(as_binutils("./elf/../sysdeps/x86/tls.h"), "./elf/../sysdeps/x86/tls.h");
        assert_eq!(as_binutils("/src/main.c"), "/src/main.c");
    }
}
