//! Debug information that several files share, as dwz makes it.
//!
//! A file names it in `.gnu_debugaltlink`: a path that ends with NUL, then the build-id of the file meant. Entries refer to
//! its entries by `DW_FORM_GNU_ref_alt` and to its strings by `DW_FORM_GNU_strp_alt` (DWARF 5: `ref_sup`, `strp_sup`).

use std::path::{Path, PathBuf};

use super::super::elf::Elf;
use super::super::file::ImageFile;
use super::super::section::Sections;
use super::super::source::{LoadOptions, SymbolSource, is_same};
use super::Part;
use crate::abi::build_id::BuildId;
use crate::bytes::until_nul;

/// Longest `.gnu_debugaltlink` that is read.
const MAX_LINK: usize = 4096;

/// Set in an offset of `.debug_info` if it is one of the shared file.
pub(super) const SHARED: usize = 1 << (usize::BITS - 1);

/// The part that a file with debug information shares with others; `None` if it names none, or that is not found.
pub(super) fn load(debug: &Elf, source: &SymbolSource, options: &LoadOptions) -> Option<Part> {
    let (_, section) = debug.section(".gnu_debugaltlink")?;
    let contents = Sections::new(debug)?.contents(section)?;
    let contents = contents.get(..contents.len().min(MAX_LINK))?;
    let name = until_nul(contents);
    let id = BuildId::from_bytes(contents.get(name.len() + 1..)?)?;
    let name = Path::new(std::str::from_utf8(name).ok()?);
    let candidates = [
        options.cached(&id, "debug"),
        options.cached(&id, "elf"),
        Some(options.debug_file(&id)),
        named(name, debug.file.path(), source, options),
    ];
    let is_meant = |elf: &Elf| is_same(&id, elf.build_id());
    let open = |path: PathBuf| ImageFile::open(&path).and_then(Elf::parse).ok();
    Part::read(&candidates.into_iter().flatten().filter_map(open).find(is_meant)?)
}

/// The path that a link stands for. Whatever it leads to must have the id, so it may lead out of the folder.
fn named(name: &Path, debug: &Path, source: &SymbolSource, options: &LoadOptions) -> Option<PathBuf> {
    match name.is_absolute() {
        true => Some(source.on_system(options.join_symfs(name))),
        // From where the file really is: below .build-id are links.
        false => Some(debug.canonicalize().ok()?.parent()?.join(name)),
    }
}
