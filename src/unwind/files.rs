//! The files that have call frame information.

use std::path::{Path, PathBuf};

use super::Image;
use crate::session::{Dso, DsoKind};
use crate::symbol;
use crate::symbol::elf::Elf;
use crate::symbol::file::ImageFile;
use crate::symbol::tables::{Symbols, mount_root, path_of};

/// The file that has a DSO's call frame information: its own, or else its debug file.
pub fn image(symbols: &Symbols, dso: &Dso) -> Option<Image> {
    let id = symbols.build_id(dso);
    if dso.kind() == DsoKind::Vdso {
        let source = symbols.source(symbol::DsoKind::Vdso, dso);
        let file = symbol::vdso_image(&source, symbols.options()).ok()?;
        return Image::of(&Elf::parse(file).ok()?);
    }
    let path = path_of(dso.name());
    let below = |root: &Path, path: &Path| match path.strip_prefix("/") {
        Ok(relative) => root.join(relative),
        Err(_) => root.join(path),
    };
    let own = symbols.options().symfs.as_deref().map_or(path.clone(), |symfs| below(symfs, &path));
    let elsewhere = mount_root(dso.first_pid()).map(|root| below(&root, &path));
    let hex = id.map(|id| id.to_string()).filter(|hex| hex.len() > 2);
    let by_id = |dir: PathBuf, file: &dyn Fn(&str, &str) -> PathBuf| {
        hex.as_deref().and_then(|hex| hex.split_at_checked(2)).map(|(a, b)| dir.join(file(a, b)))
    };
    let cache = |kind: &'static str| {
        let dir = symbols.options().buildid_dir.clone()?.join(".build-id");
        by_id(dir, &|a, b| Path::new(a).join(b).join(kind))
    };
    let debug =
        by_id(PathBuf::from("/usr/lib/debug/.build-id"), &|a, b| Path::new(a).join(format!("{b}.debug")));
    let files = [Some(own), elsewhere, cache("elf"), cache("debug"), debug];
    files.into_iter().flatten().find_map(|path| {
        let elf = Elf::parse(ImageFile::open(&path).ok()?).ok()?;
        let same = id.is_none_or(|id| elf.build_id().is_none_or(|own| own.padded() == id.padded()));
        if same { Image::of(&elf) } else { None }
    })
}
