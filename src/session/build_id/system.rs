//! Ids of the running kernel, its modules and its vdso.
//!
//! Right only for a recording of this very system; whether it is, the resolver decides. Another root can
//! be looked at too, where a target's files were copied to.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crate::abi::build_id::BuildId;

use super::elf::{self, ReadAt};
use super::file::{DsoFile, errno_of};
use super::key::module_name;
use super::miss::MissReason;

/// Notes and vdso images are a few KiB.
const MAX_SMALL: u64 = 1 << 20;
/// `modules.dep` of a distribution's kernel is about 1 MiB.
const MAX_MODULES_DEP: u64 = 64 << 20;

/// The running system's ids, each read once when first asked for.
#[derive(Debug, Default)]
pub struct RunningSystem {
    kernel: OnceLock<Result<BuildId, MissReason>>,
    vdso: OnceLock<Result<BuildId, MissReason>>,
    modules: OnceLock<ModuleFiles>,
}

impl RunningSystem {
    /// The running kernel's id.
    ///
    /// # Errors
    /// The kernel does not show its notes.
    pub fn kernel(&self) -> Result<BuildId, MissReason> {
        *self.kernel.get_or_init(|| notes_at("/sys/kernel/notes"))
    }

    /// The id of the vdso of this process, so of every process of its word size.
    ///
    /// # Errors
    /// There is none, or its image can't be read.
    pub fn vdso(&self) -> Result<BuildId, MissReason> {
        *self.vdso.get_or_init(|| {
            let image = own_vdso()?;
            elf::read_build_id(&image)?.ok_or(MissReason::NoNote)
        })
    }

    /// The id of a module by its name or path: as loaded, else of the file at the path, else of the file
    /// that the running release's module index has.
    ///
    /// # Errors
    /// No such module, or its file's id can't be read.
    pub fn module(&self, name: &[u8], release: &[u8]) -> Result<BuildId, MissReason> {
        let module = module_name(name).ok_or(MissReason::NoSuchModule)?;
        if let Ok(text) = str::from_utf8(&module)
            && let Ok(id) = notes_at(&format!("/sys/module/{text}/notes/.note.gnu.build-id"))
        {
            return Ok(id);
        }
        if name.starts_with(b"/")
            && let Ok(file) = DsoFile::open(name)
        {
            return file.build_id();
        }
        let files = self.modules.get_or_init(|| ModuleFiles::of_release(None, release));
        files.open(None, &module)?.build_id()
    }
}

/// Which file holds a module, from a release's `modules.dep`.
#[derive(Debug, Default)]
pub struct ModuleFiles {
    by_name: FxHashMap<Vec<u8>, Vec<u8>>,
}

impl ModuleFiles {
    /// Reads the index of a kernel release, below another root if one is given; empty if there is none.
    pub fn of_release(root: Option<BorrowedFd<'_>>, release: &[u8]) -> ModuleFiles {
        if release.is_empty() || release.contains(&b'/') || release.starts_with(b".") {
            return ModuleFiles::default();
        }
        let dir = [b"/lib/modules/", release, b"/"].concat();
        let index = [dir.as_slice(), b"modules.dep"].concat();
        let text = open(root, &index).and_then(|file| file.contents(MAX_MODULES_DEP));
        ModuleFiles::parse(&dir, &text.unwrap_or_default())
    }

    /// Lines are `FILE: FILES IT NEEDS`, relative to the release's directory.
    fn parse(dir: &[u8], text: &[u8]) -> ModuleFiles {
        let mut by_name = FxHashMap::default();
        for line in text.split(|&b| b == b'\n') {
            let Some(file) = line.iter().position(|&b| b == b':').and_then(|end| line.get(..end)) else {
                continue;
            };
            if let Some(name) = module_name(file) {
                let path = if file.starts_with(b"/") { file.to_vec() } else { [dir, file].concat() };
                by_name.entry(name).or_insert(path);
            }
        }
        ModuleFiles { by_name }
    }

    /// Opens the file of a module, by the kernel's spelling of its name.
    ///
    /// # Errors
    /// [`MissReason::NoSuchModule`] if the index has none, or why the file can't be read.
    pub fn open(&self, root: Option<BorrowedFd<'_>>, module: &[u8]) -> Result<DsoFile, MissReason> {
        let path = self.by_name.get(module).ok_or(MissReason::NoSuchModule)?;
        open(root, path)
    }
}

/// Opens a regular file, below another root if one is given.
pub(super) fn open(root: Option<BorrowedFd<'_>>, path: &[u8]) -> Result<DsoFile, MissReason> {
    match root {
        Some(root) => DsoFile::open_below(root, path),
        None => DsoFile::open(path),
    }
}

fn notes_at(path: &str) -> Result<BuildId, MissReason> {
    let failed = |e: std::io::Error| match MissReason::from_errno(errno_of(&e)) {
        MissReason::NoSuchFile => MissReason::Unavailable,
        other => other,
    };
    let mut notes = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_SMALL).read_to_end(&mut notes).map_err(failed)?;
    elf::read_build_id_of_notes(&notes)?.ok_or(MissReason::NoNote)
}

/// The image that the kernel maps into this process.
fn own_vdso() -> Result<Vec<u8>, MissReason> {
    let unavailable = |_| MissReason::Unavailable;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(unavailable)?;
    let range = maps.lines().find(|line| line.ends_with(" [vdso]")).and_then(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    });
    let (start, end) = range.ok_or(MissReason::Unavailable)?;
    let len = end.saturating_sub(start).min(MAX_SMALL);
    let mut image = vec![0; usize::try_from(len).unwrap_or_default()];
    let memory = File::open("/proc/self/mem").map_err(unavailable)?;
    let read = ReadAt::read_at(&mut &memory, start, &mut image)?;
    image.truncate(read);
    Ok(image)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::TestElf;
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;

    #[test]
    fn the_running_vdso_has_an_id() {
        let system = RunningSystem::default();
        let vdso = system.vdso().unwrap();
        assert_eq!(vdso.len(), 20);
        assert_eq!(system.vdso(), Ok(vdso));
    }

    #[test]
    fn the_running_kernel_tells_its_id_in_its_notes() {
        let Ok(notes) = fs::read("/sys/kernel/notes") else {
            eprintln!("skipped: this kernel shows no notes");
            return;
        };
        let id = RunningSystem::default().kernel().unwrap();
        assert!(notes.windows(id.len()).any(|window| window == id.as_bytes()));
    }

    #[test]
    fn modules_that_are_nowhere_are_told_so() {
        let system = RunningSystem::default();
        for name in ["[no_such_module]", "[../../etc]", "/lib/modules/0/no.ko"] {
            assert_eq!(system.module(name.as_bytes(), b"0.0"), Err(MissReason::NoSuchModule), "{name}");
        }
    }

    #[test]
    fn the_index_of_a_release_leads_to_a_module_of_either_spelling() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("usr/lib/modules/6.1-x/kernel");
        fs::create_dir_all(&dir).unwrap();
        // an absolute link, as on merged-/usr systems, must stay below the root
        std::os::unix::fs::symlink("/usr/lib", root.path().join("lib")).unwrap();
        fs::write(dir.join("snd-pcm.ko"), TestElf::with_id(&[7; 20]).build()).unwrap();
        fs::write(
            dir.join("../modules.dep"),
            "kernel/snd-pcm.ko: kernel/x.ko\nkernel/gone.ko.xz:\nnonsense\n",
        )
        .unwrap();
        let fd = File::open(root.path()).unwrap();
        let files = ModuleFiles::of_release(Some(fd.as_fd()), b"6.1-x");
        let id = files.open(Some(fd.as_fd()), b"snd_pcm").unwrap().build_id();
        assert_eq!(id, Ok(BuildId::from_bytes(&[7; 20]).unwrap()));
        assert_eq!(files.open(Some(fd.as_fd()), b"gone").unwrap_err(), MissReason::NoSuchFile);
        assert_eq!(files.open(Some(fd.as_fd()), b"x").unwrap_err(), MissReason::NoSuchModule);
        for release in [b"../6.1-x".as_slice(), b"..", b""] {
            assert!(ModuleFiles::of_release(Some(fd.as_fd()), release).by_name.is_empty());
        }
    }
}
