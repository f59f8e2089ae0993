//! The vDSO: the kernel's own copy of it, or the one that perf has kept.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::LoadError;
use super::elf::Elf;
use super::file::ImageFile;
use super::load::open_elf;
use super::source::{LoadOptions, SymbolSource, is_same};

/// Largest image that is taken.
const MAX: u64 = 1 << 20;

/// The vDSO with the build-id of the recording: from the build-id cache, or else this process's.
pub fn image(source: &SymbolSource, options: &LoadOptions) -> Result<ImageFile, LoadError> {
    let cached = source.build_id.as_ref().and_then(|id| options.cached(id, "vdso"));
    if let Some(elf) = cached.and_then(|path| open_elf(&path).ok()) {
        return Ok(elf.file);
    }
    let own = own_image()?;
    match (&source.build_id, Elf::parse(own.clone())) {
        (Some(id), Ok(elf)) if !is_same(id, elf.build_id()) => {
            Err(LoadError::BuildIdMismatch(own.path().to_path_buf()))
        }
        _ => Ok(own),
    }
}

/// The vDSO of this process.
fn own_image() -> Result<ImageFile, LoadError> {
    let name = Path::new("[vdso]");
    let io = |e| LoadError::io(name, e);
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(io)?;
    let range = maps.lines().find(|line| line.ends_with("[vdso]")).and_then(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    });
    let (start, end) = range.ok_or_else(|| LoadError::NotFound("[vdso]".into()))?;
    let mut image = vec![0; usize::try_from(end.saturating_sub(start).min(MAX)).unwrap_or(0)];
    File::open("/proc/self/mem").and_then(|mem| mem.read_exact_at(&mut image, start)).map_err(io)?;
    Ok(ImageFile::from_memory(name, image))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{DsoKind, load};
    use super::*;

    #[test]
    fn this_process_has_one_with_symbols() {
        let source = SymbolSource::new(DsoKind::Vdso, "[vdso]", None);
        let symbols = load(&source, &LoadOptions::default()).unwrap();
        assert!(
            symbols
                .find_by_name(b"__vdso_clock_gettime")
                .or(symbols.find_by_name(b"__kernel_clock_gettime"))
                .is_some()
        );
    }
}
