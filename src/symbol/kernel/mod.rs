//! The kernel's symbols, from its ELF file or kallsyms, and those of its modules. Loaded whole, always.

mod compressed;
mod kallsyms;
mod layout;
mod module;

use std::path::{Path, PathBuf};

pub use kallsyms::Kallsyms;
pub use layout::{KernelSegment, ModuleRange, kcore_segments, parse_proc_modules, proc_modules};
pub use module::load_module;

use super::LoadError;
use super::demangle::Demangle;
use super::dso::{Addressing, DsoSymbols};
use super::eager;
use super::elf::Elf;
use super::file::ImageFile;
use super::load::{first_file, open_elf};
use super::source::{LoadOptions, SymbolSource, is_same};
use super::symtab::{Adjust, RawEntry};
use super::table::{EndRule, SymbolTable};

/// A symbol whose address at the time of recording is known: from the name and page offset of the kernel's
/// map, usually `_text` or `_stext`. It tells how far the kernel was relocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelReference {
    /// The symbol.
    pub name: String,
    /// Its address when the recording was made.
    pub address: u64,
}

/// The kernel's symbols, and those of the modules if they come from the same place.
pub struct KernelSymbols {
    /// The kernel's own. Addresses are absolute, as recorded.
    pub kernel: DsoSymbols,
    /// By name in brackets, such as `[ext4]`; addresses are absolute. Empty if an ELF file was used.
    pub modules: Vec<(String, DsoSymbols)>,
}

/// Loads the kernel's symbols from the first place that has them, in perf's order: the kallsyms or vmlinux
/// file that was asked for and no other; the build-id cache; the usual places of vmlinux; kallsyms of the
/// running kernel if it is the one recorded; kallsyms in the cache.
pub fn load_kernel_symbols(
    source: &SymbolSource,
    options: &LoadOptions,
    reference: Option<&KernelReference>,
) -> Result<KernelSymbols, LoadError> {
    if let Some(path) = &options.kallsyms {
        return Kallsyms::read(path)?.into_symbols(reference);
    }
    let alone = |kernel| KernelSymbols { kernel, modules: Vec::new() };
    if let Some(path) = options.vmlinux.as_ref().filter(|_| !options.ignore_vmlinux) {
        let path = if path.is_absolute() { path.clone() } else { options.join_symfs(path) };
        return load_vmlinux(&path, source, options.demangle_kernel, reference).map(alone);
    }
    let id = source.build_id.as_ref();
    let cached = id.and_then(|id| options.cached(id, "vmlinux").or_else(|| options.cached(id, "elf")));
    let usual = if options.ignore_vmlinux { Vec::new() } else { vmlinux_paths(options) };
    for path in cached.into_iter().chain(usual).filter(|path| path.is_file()) {
        if let Ok(kernel) = load_vmlinux(&path, source, options.demangle_kernel, reference) {
            return Ok(alone(kernel));
        }
    }
    let not_found = || LoadError::NotFound("the kernel".into());
    if options.symfs.is_some() {
        // This machine's own files say nothing of a kernel of another root.
        return Err(not_found());
    }
    let running = || running_build_id();
    if id.is_none_or(|id| is_same(id, running())) {
        return Kallsyms::read(Path::new("/proc/kallsyms"))?.into_symbols(reference);
    }
    let cached = id.and_then(|id| options.cached(id, "kallsyms")).ok_or_else(not_found)?;
    Kallsyms::read(&cached)?.into_symbols(reference)
}

/// As [`load_kernel_symbols`], without the modules.
pub(super) fn load_kernel(
    source: &SymbolSource,
    options: &LoadOptions,
    reference: Option<&KernelReference>,
) -> Result<DsoSymbols, LoadError> {
    load_kernel_symbols(source, options, reference).map(|symbols| symbols.kernel)
}

/// Loads the kernel's ELF file. A stripped one is refused: kallsyms has more.
pub fn load_vmlinux(
    path: &Path,
    source: &SymbolSource,
    how: Demangle,
    reference: Option<&KernelReference>,
) -> Result<DsoSymbols, LoadError> {
    let elf = open_elf(path)?;
    if let Some(id) = &source.build_id
        && !is_same(id, elf.build_id())
    {
        return Err(LoadError::BuildIdMismatch(path.into()));
    }
    if elf.symbol_tables()[0].is_none() {
        return Err(LoadError::NoSymbols(path.into()));
    }
    let relocation = match reference {
        Some(r) => relocation(&elf, r)?,
        None => 0,
    };
    let mut table = SymbolTable::new();
    eager::load_symbols(&mut table, &elf, &elf, Adjust::Kernel { relocation }, how)?;
    eager::settle(&mut table, EndRule::NextStart).map_err(|e| eager::oom(&elf, e))?;
    table.finish().map_err(|e| eager::oom(&elf, e))?;
    if table.is_empty() {
        return Err(LoadError::NoSymbols(path.into()));
    }
    Ok(DsoSymbols::eager(table, Addressing::Absolute, path))
}

/// How far the kernel was moved from where its file has it. A file without the symbol that the recording refers to is
/// another kernel's, or none.
fn relocation(elf: &Elf, reference: &KernelReference) -> Result<u64, LoadError> {
    let missing = || LoadError::NotFound(format!("{} in {}", reference.name, elf.file.path().display()));
    let section = elf.symbol_tables()[0].ok_or_else(missing)?;
    let strings = elf.string_table(section.link as usize).ok_or_else(missing)?;
    let mut names = strings.reader();
    let raw = elf.contents(section)?;
    for entry in raw.chunks_exact(if elf.is_64 { 24 } else { 16 }) {
        let Some(symbol) = RawEntry::parse(entry, elf.order, elf.is_64) else { break };
        let name = names.name(symbol.name).map_err(|e| LoadError::io(elf.file.path(), e))?;
        if name == reference.name.as_bytes() {
            return Ok(reference.address.wrapping_sub(symbol.value));
        }
    }
    Err(missing())
}

/// Where distributions put the kernel's ELF file.
fn vmlinux_paths(options: &LoadOptions) -> Vec<PathBuf> {
    let plain = ["vmlinux", "/boot/vmlinux"].map(PathBuf::from);
    if options.symfs.is_some() {
        return plain.iter().map(|path| options.join_symfs(path)).collect();
    }
    let release = options
        .release
        .clone()
        .unwrap_or_else(|| rustix::system::uname().release().to_string_lossy().into_owned());
    // The release may come from a recording; a path in it would lead elsewhere.
    if release.is_empty() || release.contains('/') {
        return plain.to_vec();
    }
    let named = [
        format!("/boot/vmlinux-{release}"),
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/lib/modules/{release}/build/vmlinux"),
        format!("/usr/lib/debug/lib/modules/{release}/vmlinux"),
        format!("/usr/lib/debug/boot/vmlinux-{release}.debug"),
    ];
    plain.into_iter().chain(named.map(PathBuf::from)).collect()
}

/// The build-id of the running kernel, from its notes.
fn running_build_id() -> Option<crate::abi::build_id::BuildId> {
    let notes = std::fs::read("/sys/kernel/notes").ok()?;
    super::elf::build_id_in(&notes, crate::bytes::ByteOrder::NATIVE)
}

/// The image of a module's file, unpacked if it is compressed.
fn open_module(path: &Path) -> Result<Elf, LoadError> {
    let file = ImageFile::open(path)?;
    Elf::parse(compressed::unpack(file)?)
}

/// The first of the places where a module's file may be.
fn module_file(source: &SymbolSource, options: &LoadOptions) -> Result<PathBuf, LoadError> {
    let id = source.build_id.as_ref();
    let cached = id.and_then(|id| options.cached(id, "elf").or_else(|| options.cached(id, "debug")));
    let on_system = options.join_symfs(&source.path);
    let found = first_file(cached.into_iter().chain([on_system]));
    found.ok_or_else(|| LoadError::NotFound(source.path.display().to_string()))
}
