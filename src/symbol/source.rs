//! Which files may have a DSO's symbols, in the order perf tries them.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::Demangle;
use super::LoadError;
use super::elf::Elf;
use super::file::ImageFile;
use crate::abi::build_id::BuildId;

/// What sort of DSO it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DsoKind {
    /// An executable or library of user space.
    User,
    /// A kernel module.
    KernelModule,
    /// The kernel itself.
    Kernel,
    /// Code made at run time, listed in `/tmp/perf-PID.map`.
    PerfMap,
    /// The page of code that the kernel maps into each process.
    Vdso,
}

/// What is known of a DSO whose symbols are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolSource {
    /// Its name in the recording: a path, or something in brackets.
    pub path: PathBuf,
    /// Its build-id in the recording. Files with another one are refused.
    pub build_id: Option<BuildId>,
    /// What it is.
    pub kind: DsoKind,
    /// Root of the mount namespace that `path` is to be looked up in, such as `/proc/PID/root`, if it is not
    /// this process's. Where the path does not exist here, it is tried below this.
    pub root: Option<PathBuf>,
}

impl SymbolSource {
    /// A DSO of this machine's file system.
    pub fn new(kind: DsoKind, path: impl Into<PathBuf>, build_id: Option<BuildId>) -> Self {
        SymbolSource { path: path.into(), build_id, kind, root: None }
    }

    /// The path, or if nothing is there, the same within the mount namespace of the DSO's process.
    pub(super) fn on_system(&self, path: PathBuf) -> PathBuf {
        match &self.root {
            Some(root) if !path.exists() => root.join(relative(&path)),
            _ => path,
        }
    }
}

/// Where to look and how to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Folder that every path is looked up below (`--symfs`).
    pub symfs: Option<PathBuf>,
    /// perf's build-id cache, usually `~/.debug` (`--buildid-dir`).
    pub buildid_dir: Option<PathBuf>,
    /// Whether names are demangled (`--no-demangle`).
    pub demangle: Demangle,
    /// Whether kernel names are (`--demangle-kernel`).
    pub demangle_kernel: Demangle,
    /// Load all symbols of user-space files too (`--eager-symbols`).
    pub eager: bool,
    /// The kernel's ELF file (`-k`, `--vmlinux`).
    pub vmlinux: Option<PathBuf>,
    /// Don't look for the kernel's ELF file (`--ignore-vmlinux`).
    pub ignore_vmlinux: bool,
    /// A kallsyms file to use, and nothing else (`--kallsyms`).
    pub kallsyms: Option<PathBuf>,
    /// Kernel release that vmlinux files are named after; the recording's, or else the running one's.
    pub release: Option<String>,
}

impl Default for LoadOptions {
    /// As perf without options: the build-id cache in the home folder.
    fn default() -> Self {
        LoadOptions {
            symfs: None,
            buildid_dir: std::env::home_dir().map(|home| home.join(".debug")),
            demangle: Demangle::Yes,
            demangle_kernel: Demangle::No,
            eager: false,
            vmlinux: None,
            ignore_vmlinux: false,
            kallsyms: None,
            release: None,
        }
    }
}

impl LoadOptions {
    /// The path below `--symfs`.
    pub(super) fn join_symfs(&self, path: &Path) -> PathBuf {
        match &self.symfs {
            Some(symfs) => symfs.join(relative(path)),
            None => path.to_path_buf(),
        }
    }

    /// Where systems keep the debug file of a build-id.
    pub(super) fn debug_file(&self, id: &BuildId) -> PathBuf {
        let (head, tail) = hex_parts(id);
        self.join_symfs(Path::new("/usr/lib/debug/.build-id")).join(head).join(format!("{tail}.debug"))
    }

    /// Where the build-id cache keeps a file: `kind` is `elf`, `debug`, `vmlinux`, `kallsyms` or `vdso`.
    pub(super) fn cached(&self, id: &BuildId, kind: &str) -> Option<PathBuf> {
        let (head, tail) = hex_parts(id);
        let link = self.buildid_dir.as_ref()?.join(".build-id").join(head).join(tail);
        let file = link.join(kind);
        if file.is_file() {
            return Some(file);
        }
        // Caches of old have the file itself there, and no debug files.
        (kind != "debug" && link.is_file()).then_some(link)
    }
}

/// The images that a user-space DSO's symbols are loaded from.
pub(super) struct Images {
    /// Has the symbol table.
    pub syms: Elf,
    /// Is executed; `None` if it is the same.
    pub runtime: Option<Elf>,
}

/// Finds the images of a user-space DSO.
///
/// The first candidate with a `.symtab` has the symbols; the first with a `.dynsym` (or descriptors) is what
/// is executed. Files with another build-id than the recording's, or the DSO's own, are passed over.
pub(super) fn find_images(source: &SymbolSource, options: &LoadOptions) -> Result<Images, LoadError> {
    let on_system = source.on_system(options.join_symfs(&source.path));
    let system = ImageFile::open(&on_system).and_then(Elf::parse);
    let wanted = source.build_id.or_else(|| system.as_ref().ok().and_then(Elf::build_id));
    let (mut syms, mut runtime): (Option<Elf>, Option<Elf>) = (None, None);
    let mut mismatch = None;
    for candidate in candidates(source, options, wanted.as_ref(), &on_system, system.as_ref().ok()) {
        let elf = match candidate {
            Candidate::System => match &system {
                Ok(elf) => elf.clone(),
                Err(e) if e.is_out_of_memory() => return Err(LoadError::OutOfMemory(on_system.clone())),
                Err(_) => continue,
            },
            Candidate::File(path) => match ImageFile::open(&source.on_system(path)).and_then(Elf::parse) {
                Ok(elf) => elf,
                Err(e) if e.is_out_of_memory() => return Err(e),
                Err(_) => continue,
            },
        };
        if !wanted.is_none_or(|wanted| is_same(&wanted, elf.build_id())) {
            mismatch.get_or_insert_with(|| elf.file.path().to_path_buf());
            continue;
        }
        let has_symtab = elf.symbol_tables()[0].is_some();
        let executable = elf.symbol_tables()[1].is_some() || super::symtab::has_opd(&elf).is_some();
        if executable && runtime.is_none() {
            runtime = Some(elf.clone());
        }
        if has_symtab && syms.is_none() {
            syms = Some(elf);
        }
        if syms.is_some() && runtime.is_some() {
            break;
        }
    }
    match (syms, runtime) {
        (Some(syms), Some(runtime)) if syms.file.path() == runtime.file.path() => {
            Ok(Images { syms, runtime: None })
        }
        (Some(syms), runtime) => Ok(Images { syms, runtime }),
        (None, Some(runtime)) => Ok(Images { syms: runtime, runtime: None }),
        (None, None) => Err(match (mismatch, system) {
            (Some(path), _) => LoadError::BuildIdMismatch(path),
            (None, Err(e)) => e,
            (None, Ok(elf)) => LoadError::NoSymbols(elf.file.path().into()),
        }),
    }
}

enum Candidate {
    /// The DSO's own path, which is open already.
    System,
    File(PathBuf),
}

fn candidates(
    source: &SymbolSource,
    options: &LoadOptions,
    id: Option<&BuildId>,
    on_system: &Path,
    system: Option<&Elf>,
) -> impl Iterator<Item = Candidate> {
    let path = &source.path;
    let debug = |path: &Path| options.join_symfs(&Path::new("/usr/lib/debug").join(relative(path)));
    let with_suffix = |path: &Path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".debug");
        PathBuf::from(name)
    };
    let by_id = id.map(|id| options.debug_file(id));
    let beside =
        on_system.parent().zip(on_system.file_name()).map(|(dir, name)| dir.join(".debug").join(name));
    // Ubuntu has put debug files of /usr/lib below /usr/lib/debug/lib.
    let mixed_up = path.strip_prefix("/usr/lib").ok().map(|rest| debug(&Path::new("lib").join(rest)));
    let files = [
        system.and_then(|elf| debuglink(elf, id.is_some(), source, options)),
        id.and_then(|id| options.cached(id, "elf")),
        id.and_then(|id| options.cached(id, "debug")),
        Some(with_suffix(&debug(path))),
        Some(debug(path)),
        by_id,
    ];
    let first = files.into_iter().flatten().map(Candidate::File);
    let last = [beside, mixed_up].into_iter().flatten().map(Candidate::File);
    first.chain([Candidate::System]).chain(last)
}

/// The file that `.gnu_debuglink` names, in the folders where it may be: beside the DSO, in `.debug` there,
/// and below `/usr/lib/debug`. If build-ids can't tell that it belongs, its checksum must.
fn debuglink(elf: &Elf, has_id: bool, source: &SymbolSource, options: &LoadOptions) -> Option<PathBuf> {
    let (_, section) = elf.section(".gnu_debuglink")?;
    let contents = elf.file.read_at(section.offset, section.size.min(MAX_LINK)).ok()?;
    let name = crate::bytes::until_nul(&contents);
    let crc = elf.order.u32(&contents, name.len().checked_add(4)? & !3)?;
    let name = Path::new(std::str::from_utf8(name).ok()?);
    // A name, not a path: it comes from the file.
    let mut parts = name.components();
    if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
        return None;
    }
    let own = elf.file.path();
    let dir = own.parent()?;
    let debug_dir = options
        .join_symfs(Path::new("/usr/lib/debug"))
        .join(relative(source.path.parent().unwrap_or(Path::new("/"))));
    let found = [dir.join(name), dir.join(".debug").join(name), debug_dir.join(name)]
        .into_iter()
        .find(|path| path != own && path.is_file())?;
    (has_id || crc_of(&found) == Some(crc)).then_some(found)
}

/// Longest `.gnu_debuglink` that is read.
const MAX_LINK: u64 = 4096;

/// The checksum of a whole file that `.gnu_debuglink` goes by, the CRC-32 of zlib.
fn crc_of(path: &Path) -> Option<u32> {
    let mut file = std::fs::File::open(path).ok()?;
    let mut crc = flate2::Crc::new();
    let mut buf = vec![0; 256 << 10];
    loop {
        match file.read(&mut buf) {
            Ok(0) => return Some(crc.sum()),
            Ok(n) => crc.update(buf.get(..n)?),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// A path that can be joined to a folder: no root, and no way up.
fn relative(path: &Path) -> PathBuf {
    path.components().filter(|c| matches!(c, Component::Normal(_))).collect()
}

/// Whether a file's id is the one wanted. Recordings may have lost its length and pad it with zeros.
pub(super) fn is_same(wanted: &BuildId, found: Option<BuildId>) -> bool {
    found.is_some_and(|found| found.padded() == wanted.padded())
}

/// First byte of the id, and the others, in hexadecimal, as folders are named.
fn hex_parts(id: &BuildId) -> (String, String) {
    let hex = id.to_string();
    let (head, tail) = hex.split_at(hex.len().min(2));
    (head.to_owned(), tail.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn symfs_is_a_folder_that_paths_stay_in() {
        let options = LoadOptions { symfs: Some("/sysroot".into()), ..LoadOptions::default() };
        assert_eq!(options.join_symfs(Path::new("/usr/bin/x")), Path::new("/sysroot/usr/bin/x"));
        assert_eq!(options.join_symfs(Path::new("/a/../../b")), Path::new("/sysroot/a/b"));
    }

    #[test]
    fn the_cache_is_found_in_its_old_and_new_layout() {
        let dir = tempfile::tempdir().unwrap();
        let options = LoadOptions { buildid_dir: Some(dir.path().into()), ..LoadOptions::default() };
        let id = BuildId::from_bytes(&[0xab; 20]).unwrap();
        let link = dir.path().join(".build-id/ab").join("ab".repeat(19));
        assert_eq!(options.cached(&id, "elf"), None);
        std::fs::create_dir_all(&link).unwrap();
        std::fs::write(link.join("elf"), b"").unwrap();
        assert_eq!(options.cached(&id, "elf"), Some(link.join("elf")));
        assert_eq!(options.cached(&id, "debug"), None);
        std::fs::remove_dir_all(&link).unwrap();
        std::fs::write(&link, b"").unwrap();
        assert_eq!(options.cached(&id, "elf"), Some(link.clone()));
        assert_eq!(options.cached(&id, "debug"), None);
    }
}
