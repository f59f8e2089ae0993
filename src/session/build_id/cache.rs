//! perf's build-id cache: where it is, what it knows of a path, and where it keeps the image of an id.
//!
//! Layout: `DIR/PATH/ID/elf` holds a copy (or a hard link) of the file that had this id at this path, and
//! `DIR/.build-id/xx/yyyy…` links to `DIR/PATH/ID`. Images without a file are under their name, such as
//! `[kernel.kallsyms]` with a file `kallsyms`, and `[vdso]` with a file `vdso`. Before perf 4.10
//! `DIR/PATH/ID` was the image itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::id::BuildId;

/// Entries of one path's directory that are looked at.
const MAX_ENTRIES: usize = 4096;

/// What a cache keeps of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedAs {
    /// A copy of the file.
    Elf,
    /// Its separate debug information.
    Debug,
    /// A kernel's symbols, as /proc/kallsyms lists them.
    Kallsyms,
    /// The vdso's image.
    Vdso,
}

impl CachedAs {
    fn file_name(self) -> &'static str {
        match self {
            CachedAs::Elf => "elf",
            CachedAs::Debug => "debug",
            CachedAs::Kallsyms => "kallsyms",
            CachedAs::Vdso => "vdso",
        }
    }
}

/// A build-id cache directory; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildIdCache {
    dir: PathBuf,
}

/// An image that the cache has for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedImage {
    /// Its id.
    pub id: BuildId,
    /// The directory that holds it (or the image itself, in old caches).
    pub path: PathBuf,
}

impl BuildIdCache {
    /// The cache in a directory.
    pub fn new(dir: impl Into<PathBuf>) -> BuildIdCache {
        BuildIdCache { dir: dir.into() }
    }

    /// The user's cache: `$PERF_BUILDID_DIR`, else `buildid.dir` of perf's configuration, else `~/.debug`.
    pub fn of_user() -> BuildIdCache {
        BuildIdCache::from_environment(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn from_environment(var: impl Fn(&str) -> Option<OsString>) -> BuildIdCache {
        let home = var("HOME").map(PathBuf::from);
        let configured = || match var("PERF_CONFIG") {
            Some(only) => configured_dir(Path::new(&only)),
            None => home
                .as_ref()
                .and_then(|home| configured_dir(&home.join(".perfconfig")))
                .or_else(|| configured_dir(Path::new("/etc/perfconfig"))),
        };
        let dir = var("PERF_BUILDID_DIR").map(PathBuf::from).or_else(configured);
        BuildIdCache::new(dir.unwrap_or_else(|| home.clone().unwrap_or_default().join(".debug")))
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the cache keeps an image, whether or not it has it.
    pub fn path_of(&self, id: &BuildId, what: CachedAs) -> PathBuf {
        self.link_of(id).join(what.file_name())
    }

    /// The link to the directory of an image (in old caches, to the image), whether or not it is there.
    pub fn link_of(&self, id: &BuildId) -> PathBuf {
        self.dir.join(".build-id").join(fan_out(id))
    }

    /// The file of an image that is there: its copy, its debug information, or the image of an old cache.
    pub fn find_elf(&self, id: &BuildId) -> Option<PathBuf> {
        [
            self.path_of(id, CachedAs::Elf),
            self.path_of(id, CachedAs::Debug),
            self.path_of(id, CachedAs::Vdso),
            self.link_of(id),
        ]
        .into_iter()
        .find(|path| path.is_file())
    }

    /// The images that the cache has for a path or a name such as `[vdso]`, in no order.
    pub fn images_of(&self, name: &[u8]) -> Vec<CachedImage> {
        let Some(dir) = self.dir_of(name) else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
        let image = |entry: std::fs::DirEntry| {
            let id = BuildId::from_hex(entry.file_name().as_bytes())?;
            Some(CachedImage { id, path: entry.path() })
        };
        entries.take(MAX_ENTRIES).flatten().filter_map(image).collect()
    }

    fn dir_of(&self, name: &[u8]) -> Option<PathBuf> {
        let relative = name.iter().position(|&b| b != b'/').and_then(|at| name.get(at..))?;
        let escapes = relative.split(|&b| b == b'/').any(|part| part == b".." || part == b".build-id");
        (!escapes).then(|| self.dir.join(OsStr::from_bytes(relative)))
    }
}

impl CachedImage {
    /// The file itself, if the cache has more than symbols or probes of it.
    pub fn elf(&self) -> Option<PathBuf> {
        let elf = self.path.join(CachedAs::Elf.file_name());
        [elf, self.path.clone()].into_iter().find(|path| path.is_file())
    }
}

/// Where distributions install separate debug information for an id, whether or not it is there.
pub fn debug_file_of(id: &BuildId) -> PathBuf {
    let mut path = Path::new("/usr/lib/debug/.build-id").join(fan_out(id)).into_os_string();
    path.push(".debug");
    path.into()
}

/// `xx/yyyy…`: the first byte is a directory.
fn fan_out(id: &BuildId) -> PathBuf {
    let hex = id.to_string();
    let (first, rest) = hex.split_at_checked(2).unwrap_or((&hex, ""));
    Path::new(first).join(rest)
}

/// `dir` of section `[buildid]`, in the format that git and perf share.
fn configured_dir(path: &Path) -> Option<PathBuf> {
    let text = std::fs::read(path).ok()?;
    let mut in_section = false;
    let mut dir = None;
    for line in text.split(|&b| b == b'\n').map(<[u8]>::trim_ascii) {
        if let Some(section) = line.strip_prefix(b"[") {
            in_section = section.strip_suffix(b"]").is_some_and(|name| name.eq_ignore_ascii_case(b"buildid"));
        } else if in_section && let Some(at) = line.iter().position(|&b| b == b'=') {
            let (name, value) = (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default());
            let value = value.trim_ascii();
            if name.trim_ascii().eq_ignore_ascii_case(b"dir") && !value.is_empty() {
                dir = Some(PathBuf::from(OsStr::from_bytes(value)));
            }
        }
    }
    dir
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    fn id(hex: &str) -> BuildId {
        hex.parse().unwrap()
    }

    #[test]
    fn images_are_where_perf_puts_them() {
        let cache = BuildIdCache::new("/c");
        let id = id("4a5a9b0affb66c437abcd455d2738af879985fa9");
        assert_eq!(
            cache.path_of(&id, CachedAs::Kallsyms),
            Path::new("/c/.build-id/4a/5a9b0affb66c437abcd455d2738af879985fa9/kallsyms")
        );
        assert_eq!(
            debug_file_of(&id),
            Path::new("/usr/lib/debug/.build-id/4a/5a9b0affb66c437abcd455d2738af879985fa9.debug")
        );
    }

    #[test]
    fn a_path_has_the_images_of_its_ids() {
        let dir = tempfile::tempdir().unwrap();
        let cache = BuildIdCache::new(dir.path());
        for (name, file) in [("usr/bin/x/abcd", "elf"), ("usr/bin/x/1234", "probes"), ("[vdso]/77", "vdso")] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join(file), "").unwrap();
        }
        fs::write(dir.path().join("usr/bin/x/ff00"), "").unwrap();
        fs::write(dir.path().join("usr/bin/x/README"), "").unwrap();
        let mut images = cache.images_of(b"/usr/bin/x");
        images.sort_by_key(|image| image.id);
        let found: Vec<_> = images.iter().map(|i| (i.id.to_string(), i.elf().is_some())).collect();
        let expected = [("1234", false), ("abcd", true), ("ff00", true)];
        assert_eq!(found, expected.map(|(id, elf)| (id.to_string(), elf)));
        assert_eq!(cache.images_of(b"[vdso]").len(), 1);
        for name in [b"/usr/bin/y".as_slice(), b"", b"/", b"/usr/../usr/bin/x", b"/usr/bin/x\0"] {
            assert_eq!(cache.images_of(name), []);
        }
    }

    #[test]
    fn an_image_is_found_by_its_id_through_the_link() {
        let dir = tempfile::tempdir().unwrap();
        let cache = BuildIdCache::new(dir.path());
        let (new, old, none) = (id("abcdef"), id("123456"), id("777777"));
        fs::create_dir_all(dir.path().join("bin/x/abcdef")).unwrap();
        fs::write(dir.path().join("bin/x/abcdef/elf"), "").unwrap();
        fs::write(dir.path().join("bin/x/123456"), "").unwrap();
        for (xx, rest, to) in [("ab", "cdef", "bin/x/abcdef"), ("12", "3456", "bin/x/123456")] {
            fs::create_dir_all(dir.path().join(".build-id").join(xx)).unwrap();
            let link = dir.path().join(".build-id").join(xx).join(rest);
            std::os::unix::fs::symlink(format!("../../{to}"), link).unwrap();
        }
        assert_eq!(cache.find_elf(&new), Some(dir.path().join(".build-id/ab/cdef/elf")));
        assert_eq!(cache.find_elf(&old), Some(dir.path().join(".build-id/12/3456")));
        assert_eq!(cache.find_elf(&none), None);
    }

    #[test]
    fn the_users_cache_follows_environment_then_configuration_then_home() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        let config = dir.path().join("other");
        fs::write(
            dir.path().join(".perfconfig"),
            "# x\n[report]\n dir = /no\n[buildid]\n\tdir = /from/home\n",
        )
        .unwrap();
        fs::write(&config, "[BuildID]\ndir=/from/config\n").unwrap();
        let cache = |vars: &[(&str, &str)]| {
            let var = |name: &str| vars.iter().find(|v| v.0 == name).map(|v| OsString::from(v.1));
            BuildIdCache::from_environment(var).dir
        };
        let config = config.to_str().unwrap();
        assert_eq!(cache(&[("HOME", home)]), Path::new("/from/home"));
        assert_eq!(cache(&[("HOME", home), ("PERF_CONFIG", config)]), Path::new("/from/config"));
        let all = [("HOME", home), ("PERF_CONFIG", config), ("PERF_BUILDID_DIR", "/from/env")];
        assert_eq!(cache(&all), Path::new("/from/env"));
        assert_eq!(cache(&[("HOME", "/h"), ("PERF_CONFIG", "/dev/null")]), Path::new("/h/.debug"));
    }
}
