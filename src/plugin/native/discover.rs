//! Where plugins are found, and which files are trusted.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// Folders that plugins are looked for in, in order: those of `REPIPE_PLUGIN_PATH`, the user's data folder, the system's
/// library folders, and those beside the program. The current directory is none of them.
pub fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(path) = std::env::var_os("REPIPE_PLUGIN_PATH") {
        // A relative folder would be one of the current directory.
        folders.extend(std::env::split_paths(&path).filter(|folder| folder.is_absolute()));
    }
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.or_else(|| std::env::home_dir().map(|home| home.join(".local/share")));
    folders.extend(data.map(|data| data.join("repipe/plugins")));
    folders.extend(["/usr/local/lib/repipe/plugins", "/usr/lib/repipe/plugins"].map(PathBuf::from));
    if let Some(beside) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
        folders.extend([beside.join("plugins"), beside.to_path_buf()]);
    }
    folders
}

/// File names that a plugin's name may have.
fn file_names(name: &str) -> [String; 3] {
    let plain = name.replace('-', "_");
    [format!("{name}.so"), format!("librepipe_plugin_{plain}.so"), format!("lib{plain}.so")]
}

/// The file of a plugin: a path if there is a slash in it, else a name that is looked for in [`folders`].
pub fn find(what: &OsStr) -> Result<PathBuf> {
    if what.as_encoded_bytes().contains(&b'/') {
        return Ok(PathBuf::from(what));
    }
    let name = what.to_string_lossy();
    let folders = folders();
    let candidates = folders.iter().flat_map(|folder| file_names(&name).map(|file| folder.join(file)));
    candidates.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        let list: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Error::usage(format!("there is no plugin {name} in {}", list.join(", ")))
            .hint("write a path with a slash, or set REPIPE_PLUGIN_PATH")
    })
}

/// All files that may be plugins, each name once.
pub fn all() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        let mut here: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "so") && path.is_file())
            .collect();
        here.sort();
        here.retain(|path| found.iter().all(|known| known.file_name() != path.file_name()));
        found.extend(here);
    }
    found
}

/// Refuses a file that someone else may have written, or may put another in the place of.
pub fn check_trust(file: &Path) -> Result<()> {
    let real = std::fs::canonicalize(file).map_err(|e| Error::io(e, "cannot open plugin", file))?;
    for (depth, path) in real.ancestors().enumerate() {
        let meta = std::fs::metadata(path).map_err(|e| Error::io(e, "cannot look at", path))?;
        if let Some(why) = distrust(meta.uid(), meta.gid(), meta.mode(), depth == 0) {
            let message = format!("{} is not loaded: {} {why}", file.display(), path.display());
            return Err(Error::new(ErrorKind::Plugin, message).hint("--force loads it all the same"));
        }
    }
    Ok(())
}

/// Why a file or folder is not trusted.
fn distrust(uid: u32, gid: u32, mode: u32, is_file: bool) -> Option<&'static str> {
    const STICKY: u32 = 0o1000;
    let me = rustix::process::geteuid().as_raw();
    let my_group = rustix::process::getegid().as_raw();
    if uid != 0 && uid != me {
        return Some("belongs to someone else");
    }
    // In a sticky folder, such as /tmp, nobody can replace a file of someone else.
    if !is_file && mode & STICKY != 0 {
        return None;
    }
    let group_may = mode & 0o020 != 0 && gid != 0 && gid != my_group;
    (mode & 0o002 != 0 || group_may).then_some("may be written by others")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_others_may_write_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("p.so");
        std::fs::write(&file, b"").unwrap();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&folder, 0o755);
        set(&file, 0o644);
        check_trust(&file).unwrap();
        set(&file, 0o646);
        assert!(check_trust(&file).unwrap_err().to_string().contains("p.so may be written by others"));
        set(&file, 0o644);
        set(&folder, 0o777);
        assert!(check_trust(&file).unwrap_err().to_string().contains("folder may be written by others"));
        set(&folder, 0o1777);
        check_trust(&file).unwrap();
        assert_eq!(distrust(12345, 0, 0o644, true), Some("belongs to someone else"));
        assert!(check_trust(&folder.join("none.so")).is_err());
    }
}
