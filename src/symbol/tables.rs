//! The symbol tables of the session's DSOs, loaded when first asked, and let go of when memory is short.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustc_hash::FxHashMap;

use super::kernel::{KernelReference, KernelSymbols, load_kernel_symbols};
use super::memory;
use super::{Addressing, DsoSymbols, LoadError, LoadOptions, SymbolSource};
use crate::abi::build_id::BuildId;
use crate::abi::misc::CpuMode;
use crate::error::{Error, ErrorKind};
use crate::header::features::build_ids::BuildIdTable;
use crate::session::machine::ReferenceSymbol;
use crate::session::map::Extent;
use crate::session::{Dso, DsoKind, HOST, Map, Session};

/// The kernel's symbols, and those of its modules.
enum Kernel {
    /// Nobody asked yet, or they were let go of.
    Unknown,
    /// Being loaded.
    Coming(JoinHandle<Result<KernelSymbols, LoadError>>),
    /// Loaded, or not to be had: then the tables are empty.
    Done { kernel: Option<Arc<DsoSymbols>>, modules: FxHashMap<Box<[u8]>, Arc<DsoSymbols>> },
}

impl Kernel {
    fn tables(&self) -> impl Iterator<Item = &Arc<DsoSymbols>> {
        let (kernel, modules) = match self {
            Kernel::Done { kernel, modules } => (kernel.as_ref(), Some(modules.values())),
            _ => (None, None),
        };
        kernel.into_iter().chain(modules.into_iter().flatten())
    }

    /// Whether a table is held here as well.
    fn has(&self, table: &Arc<DsoSymbols>) -> bool {
        self.tables().any(|own| Arc::ptr_eq(own, table))
    }

    fn memory(&self) -> usize {
        self.tables().map(|table| table.memory()).sum()
    }

    fn done(loaded: Option<KernelSymbols>) -> Kernel {
        let (kernel, modules) = loaded.map_or((None, Vec::new()), |l| (Some(l.kernel), l.modules));
        let modules = modules.into_iter().map(|(name, table)| (name.into_bytes().into(), Arc::new(table)));
        Kernel::Done { kernel: kernel.map(Arc::new), modules: modules.collect() }
    }
}

enum Table {
    Unknown,
    /// Let go of; the bytes that came free, and come back with it.
    Evicted(usize),
    Missing,
    Loaded {
        symbols: Arc<DsoSymbols>,
        used: u64,
    },
}

/// What an address is, as far as symbols tell.
pub struct Named<'a> {
    /// Identity of the symbol among those of its DSO: its start, and its length or as much of that as there is room for.
    /// It stays the same when symbols are let go of and loaded again.
    pub key: (u64, u32),
    /// Its name, in full.
    pub name: &'a [u8],
    /// Bytes from its start.
    pub offset: u64,
}

/// Reads a symbol's name and calls what it is given with it; false if the file can't be read any more.
pub type ReadName<'a> = dyn Fn(&mut dyn FnMut(&[u8])) -> bool + 'a;

/// Symbol tables by DSO.
pub struct Symbols {
    options: LoadOptions,
    /// By id of the DSO.
    tables: Vec<Table>,
    kernel: Kernel,
    /// What the kernel's symbols were loaded by.
    kernel_source: Option<(SymbolSource, Option<KernelReference>)>,
    /// Build-ids of the recording's table, and whose DSOs it says they are, by name of the DSO.
    build_ids: FxHashMap<Box<[u8]>, (BuildId, CpuMode)>,
    clock: u64,
    /// Whether the kernel's map has the range of its symbols.
    kernel_fits: bool,
    /// Why the file that was named for the kernel's symbols has none.
    kernel_file: Option<LoadError>,
    out_of_memory: bool,
}

impl Symbols {
    /// No tables yet.
    pub fn new(options: LoadOptions) -> Self {
        Symbols {
            options,
            tables: Vec::new(),
            kernel: Kernel::Unknown,
            kernel_source: None,
            build_ids: FxHashMap::default(),
            clock: 0,
            kernel_fits: false,
            kernel_file: None,
            out_of_memory: false,
        }
    }

    /// Takes the build-ids that the recording has, and the kernel release.
    pub fn begin(&mut self, table: Option<&BuildIdTable<'_>>, release: Option<String>) {
        for entry in table.iter().flat_map(|table| &table.entries) {
            if let Some(id) = entry.build_id() {
                self.build_ids.insert(entry.filename.into(), (id, entry.cpumode()));
            }
        }
        self.options.release = release;
    }

    /// How symbols are loaded.
    pub fn options(&self) -> &LoadOptions {
        &self.options
    }

    /// The build-id of a DSO, as the recording has it.
    pub fn build_id(&self, dso: &Dso) -> Option<BuildId> {
        dso.build_id().or_else(|| self.build_ids.get(dso.name()).map(|&(id, _)| id))
    }

    /// What `perf script` calls a DSO. A module that the recording's table of build-ids has as one of the kernel's goes by
    /// the path, since perf had it from there before it heard of the module; others go by the name in brackets.
    pub fn shown_name<'d>(&self, dso: &'d Dso) -> &'d [u8] {
        match self.build_ids.get(dso.name()) {
            Some((_, CpuMode::Kernel | CpuMode::GuestKernel)) => dso.long_name(),
            _ => dso.shown_name(),
        }
    }

    /// Begins to load the kernel's symbols on a thread, so that they are there when the first sample asks.
    pub fn expect_kernel(&mut self, dso: &Dso, reference: Option<&ReferenceSymbol>) {
        if matches!(self.kernel, Kernel::Unknown) && dso.machine() == HOST {
            let reference = reference.map(|r| KernelReference {
                name: String::from_utf8_lossy(&r.name).into_owned(),
                address: r.address,
            });
            self.kernel_source = Some((self.source(super::DsoKind::Kernel, dso), reference));
            self.begin_kernel();
        }
    }

    fn begin_kernel(&mut self) {
        let Some((source, reference)) = self.kernel_source.clone() else { return };
        let options = self.options.clone();
        let load = move || load_kernel_symbols(&source, &options, reference.as_ref());
        let spawned = std::thread::Builder::new().name("kernel symbols".into()).spawn(load.clone());
        match spawned {
            Ok(thread) => self.kernel = Kernel::Coming(thread),
            // No room for a thread: then now.
            Err(_) => self.end_kernel(load()),
        }
    }

    /// Takes the kernel's symbols, or notes why the file that was named for them has none.
    fn end_kernel(&mut self, loaded: Result<KernelSymbols, LoadError>) {
        let named = self.options.kallsyms.as_ref().or(self.options.vmlinux.as_ref());
        let (loaded, why) = match loaded {
            Ok(symbols) if !symbols.kernel.is_empty() => (Some(symbols), None),
            Ok(symbols) => (Some(symbols), named.map(|path| LoadError::NoSymbols(path.clone()))),
            Err(e) => (None, named.map(|_| e)),
        };
        self.kernel_file = why;
        self.kernel = Kernel::done(loaded);
    }

    /// What of a DSO its symbols are looked for by.
    pub fn source(&self, kind: super::DsoKind, dso: &Dso) -> SymbolSource {
        let mut source = SymbolSource::new(kind, path_of(dso.long_name()), self.build_id(dso));
        source.root = mount_root(dso.first_pid());
        source
    }

    /// The kernel's table or a module's, waiting for it if it is still being loaded.
    fn kernel_table(&mut self, dso: &Dso, reference: Option<&ReferenceSymbol>) -> Option<Arc<DsoSymbols>> {
        if dso.kind() == DsoKind::Kernel {
            self.expect_kernel(dso, reference);
        } else if matches!(self.kernel, Kernel::Unknown) {
            // A module's, after the kernel's were let go of.
            self.begin_kernel();
        }
        if let Kernel::Coming(_) = self.kernel
            && let Kernel::Coming(thread) = std::mem::replace(&mut self.kernel, Kernel::Unknown)
        {
            let failed = || Err(LoadError::NotFound("the kernel".into()));
            let loaded = thread.join().unwrap_or_else(|_| failed());
            let again = self.kernel_source.clone();
            let loaded = self.or_with_room(loaded, |symbols| match again {
                Some((source, reference)) => {
                    load_kernel_symbols(&source, &symbols.options, reference.as_ref())
                }
                None => failed(),
            });
            self.end_kernel(loaded);
        }
        match &self.kernel {
            Kernel::Done { kernel, .. } if dso.kind() == DsoKind::Kernel => kernel.clone(),
            Kernel::Done { modules, .. } => modules.get(dso.shown_name()).cloned(),
            _ => None,
        }
    }

    fn load(&mut self, dso: &Dso, reference: Option<&ReferenceSymbol>) -> Option<Arc<DsoSymbols>> {
        if dso.machine() != HOST {
            return None;
        }
        let kind = match dso.kind() {
            DsoKind::Kernel => return self.kernel_table(dso, reference),
            DsoKind::Module => {
                let source = self.source(super::DsoKind::KernelModule, dso);
                let loaded = self.load_with_room(&source);
                return loaded.or_else(|| self.kernel_table(dso, reference));
            }
            DsoKind::User => super::DsoKind::User,
            DsoKind::Vdso => super::DsoKind::Vdso,
            DsoKind::Anon if dso.perf_map_pid().is_some() => super::DsoKind::PerfMap,
            DsoKind::Anon | DsoKind::Bpf | DsoKind::BpfImage | DsoKind::OutOfLine => return None,
        };
        self.load_with_room(&self.source(kind, dso))
    }

    fn load_with_room(&mut self, source: &SymbolSource) -> Option<Arc<DsoSymbols>> {
        let loaded = super::load(source, &self.options);
        self.or_with_room(loaded, |symbols| super::load(source, &symbols.options)).ok().map(Arc::new)
    }

    /// What was loaded; or if memory was short, what is loaded after all other tables were let go of.
    fn or_with_room<T>(
        &mut self,
        loaded: Result<T, LoadError>,
        again: impl FnOnce(&Symbols) -> Result<T, LoadError>,
    ) -> Result<T, LoadError> {
        if !loaded.as_ref().is_err_and(LoadError::is_out_of_memory) {
            return loaded;
        }
        drop(loaded);
        self.shrink(0);
        let loaded = again(self);
        self.out_of_memory |= loaded.as_ref().is_err_and(LoadError::is_out_of_memory);
        loaded
    }

    /// Why the file that the caller named for the kernel's symbols has none, if it was looked into.
    pub fn unusable_kernel_file(&self) -> Option<&LoadError> {
        self.kernel_file.as_ref()
    }

    /// An error if symbols could not be loaded for want of memory: what was found since lacks them.
    pub fn check_memory(&self) -> crate::error::Result<()> {
        match self.out_of_memory || memory::was_short() {
            true => Err(Error::new(ErrorKind::OutOfMemory, "no memory for the symbols")),
            false => Ok(()),
        }
    }

    /// Gives the kernel's map the range of the kernel's symbols once they are known from kallsyms: it is recorded to the
    /// end of the text, behind which code of the boot lies.
    pub fn fit_kernel_map(&mut self, session: &mut Session) {
        if std::mem::replace(&mut self.kernel_fits, true) {
            return;
        }
        let host = session.machines().host();
        let Some(map) = host.kernel_map().cloned() else {
            self.kernel_fits = false;
            return;
        };
        let table = self.kernel_table(map.dso(), host.reference_symbol());
        let Some(table) = table.filter(|t| t.origin().ends_with("kallsyms")) else { return };
        let (Some((start, _)), Some((_, end))) = (table.ranges().next(), table.ranges().last()) else {
            return;
        };
        if start >= end || start < host.kernel_start().min(map.start()) {
            return;
        }
        let extent = Extent { start, end, pgoff: 0 };
        let fitted = Map::with_mapping(extent, Arc::clone(map.dso()), map.prot(), map.flags(), map.mapping());
        session.machines_mut().host_mut().set_kernel_map(Arc::new(fitted));
    }

    /// Calls `with` with the symbol at an address of a map, if there is one. The symbol stays in memory with its name.
    pub fn find<R>(
        &mut self,
        map: &Map,
        ip: u64,
        reference: Option<&ReferenceSymbol>,
        with: impl FnOnce(Named<'_>) -> R,
    ) -> Option<R> {
        if let Some(named) = named_by_record(map, ip) {
            return Some(with(named));
        }
        let (symbols, addr) = self.table(map, ip, reference)?;
        let found = symbols.find(addr)?;
        let key = key(found.start(), found.end());
        Some(with(Named { key, name: found.name(), offset: addr.wrapping_sub(found.start()) }))
    }

    /// Calls `number` with the symbol at an address of a map, if there is one, and returns what it answers with the bytes
    /// from the symbol's start. The name is read when it is asked for, and not kept: for callers that remember what they
    /// asked for.
    pub fn locate(
        &mut self,
        map: &Map,
        ip: u64,
        reference: Option<&ReferenceSymbol>,
        number: impl FnOnce((u64, u32), &ReadName<'_>) -> Option<u32>,
    ) -> Option<(u32, u64)> {
        if let Some(Named { key, name, offset }) = named_by_record(map, ip) {
            let read = |with: &mut dyn FnMut(&[u8])| {
                with(name);
                true
            };
            return Some((number(key, &read)?, offset));
        }
        let (symbols, addr) = self.table(map, ip, reference)?;
        let found = symbols.locate(addr)?;
        let read = |with: &mut dyn FnMut(&[u8])| found.name().map(|name| with(&name)).is_some();
        Some((number(key(found.start, found.end), &read)?, addr.wrapping_sub(found.start)))
    }

    /// As [`DsoSymbols::ranges_of`] for the DSO of a map; none if it has no symbols.
    pub fn ranges_of(
        &mut self,
        map: &Map,
        reference: Option<&ReferenceSymbol>,
        parts: &[Box<[u8]>],
        is_meant: impl Fn(&[u8]) -> bool,
    ) -> Option<Vec<(u64, u64)>> {
        match map.dso().kind() {
            DsoKind::User | DsoKind::Vdso | DsoKind::Kernel | DsoKind::Module => {
                let table = self.table(map, map.start(), reference);
                table.map_or(Some(Vec::new()), |(symbols, _)| symbols.ranges_of(parts, is_meant))
            }
            _ => None,
        }
    }

    /// The address that the table of a map's DSO has for one of the map; `None` if there is no table.
    pub fn table_address(&mut self, map: &Map, ip: u64, reference: Option<&ReferenceSymbol>) -> Option<u64> {
        self.table(map, ip, reference).map(|(_, addr)| addr)
    }

    /// The table of a map's DSO, loaded now if it is not, and the address that it has for one of the map.
    fn table(
        &mut self,
        map: &Map,
        ip: u64,
        reference: Option<&ReferenceSymbol>,
    ) -> Option<(&DsoSymbols, u64)> {
        let dso = map.dso();
        let index = dso.id().0 as usize;
        if self.tables.len() <= index {
            self.tables.resize_with(index + 1, || Table::Unknown);
        }
        if let Some(Table::Unknown | Table::Evicted(_)) = self.tables.get(index) {
            let table = match self.load(dso, reference) {
                Some(symbols) => Table::Loaded { symbols, used: 0 },
                None => Table::Missing,
            };
            *self.tables.get_mut(index)? = table;
        }
        self.clock += 1;
        let Some(Table::Loaded { symbols, used }) = self.tables.get_mut(index) else { return None };
        *used = self.clock;
        let addr = match symbols.addressing() {
            Addressing::Absolute => ip,
            Addressing::FileOffset => match symbols.text_offset() {
                Some(text) if dso.kind() == DsoKind::Module => {
                    ip.wrapping_sub(map.start()).wrapping_add(text)
                }
                _ => map.map_ip(ip),
            },
        };
        Some((symbols, addr))
    }

    /// Whether asking for a symbol of a DSO would load its table: `Some` with the bytes that it had before it was let go
    /// of, 0 if it was never there.
    pub fn coming(&self, dso: &Dso) -> Option<usize> {
        match self.tables.get(dso.id().0 as usize) {
            Some(Table::Missing | Table::Loaded { .. }) => None,
            Some(Table::Evicted(bytes)) => Some(*bytes),
            Some(Table::Unknown) | None => Some(0),
        }
    }

    /// Bytes of memory in use for symbols.
    pub fn memory(&self) -> usize {
        let loaded = self.tables.iter().filter_map(|table| match table {
            Table::Loaded { symbols, .. } if !self.kernel.has(symbols) => Some(symbols.memory()),
            _ => None,
        });
        loaded.sum::<usize>() + self.kernel.memory()
    }

    /// Lets go of tables, those first that were longest not asked, until they take no more than `most` bytes. The kernel's
    /// and its modules' go together, as they come.
    pub fn shrink(&mut self, most: usize) {
        let mut by_use: Vec<(u64, Option<usize>, usize)> = Vec::new();
        let mut kernel_used = 0;
        for (index, table) in self.tables.iter().enumerate() {
            if let Table::Loaded { symbols, used } = table {
                symbols.shrink();
                if self.kernel.has(symbols) {
                    kernel_used = kernel_used.max(*used);
                } else {
                    by_use.push((*used, Some(index), symbols.memory()));
                }
            }
        }
        by_use.push((kernel_used, None, self.kernel.memory()));
        by_use.sort_unstable();
        let mut total: usize = by_use.iter().map(|&(_, _, bytes)| bytes).sum();
        for (_, index, bytes) in by_use {
            if total <= most {
                break;
            }
            match index {
                Some(index) => {
                    if let Some(table) = self.tables.get_mut(index) {
                        *table = Table::Evicted(bytes);
                    }
                }
                None if bytes > 0 => self.let_go_of_kernel(bytes),
                None => {}
            }
            total -= bytes;
        }
    }

    fn let_go_of_kernel(&mut self, bytes: usize) {
        for table in &mut self.tables {
            if let Table::Loaded { symbols, .. } = table
                && self.kernel.has(symbols)
            {
                *table = Table::Evicted(bytes);
            }
        }
        self.kernel = Kernel::Unknown;
    }
}

/// What the record that told of code in the kernel named it.
fn named_by_record(map: &Map, ip: u64) -> Option<Named<'_>> {
    let told = matches!(map.dso().kind(), DsoKind::Bpf | DsoKind::BpfImage | DsoKind::OutOfLine);
    told.then(|| Named { key: (0, 0), name: map.dso().name(), offset: ip.wrapping_sub(map.start()) })
}

fn key(start: u64, end: u64) -> (u64, u32) {
    (start, u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX))
}

/// A path from recorded bytes.
pub fn path_of(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(name))
}

/// The root that a process sees, if it is another one than ours.
pub fn mount_root(pid: i32) -> Option<PathBuf> {
    if pid <= 0 {
        return None;
    }
    let process = Path::new("/proc").join(pid.to_string());
    let theirs = std::fs::read_link(process.join("ns/mnt")).ok()?;
    let ours = std::fs::read_link("/proc/self/ns/mnt").ok()?;
    (theirs != ours).then(|| process.join("root"))
}
