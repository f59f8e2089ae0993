//! Where the output goes, and that it appears whole or not at all.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use tempfile::{NamedTempFile, TempPath};

use crate::data::{Identity, unfinished};
use crate::error::{Error, ErrorKind, Result};

/// Whether the input is what was looked at.
#[allow(clippy::unnecessary_cast, reason = "the width of st_dev differs between platforms")]
fn is_input(input: Option<Identity>, stat: &rustix::fs::Stat) -> bool {
    input.is_some_and(|i| (i.dev, i.ino) == (stat.st_dev as u64, stat.st_ino as u64))
}

fn the_input(path: &Path) -> Error {
    Error::usage("the output is the input")
        .in_file(path)
        .hint("name another file with -o and rename it afterwards")
}

/// Longest part of the target's name in the temporary one, which must not be longer than a name may be.
const PREFIX_MAX: usize = 200;

/// An opened output.
pub struct Target {
    file: File,
    name: PathBuf,
    /// Temporary name and final path, for a regular file.
    rename: Option<(TempPath, PathBuf)>,
    stream: bool,
}

impl Target {
    /// Standard output, as a stream; refused if it is the input.
    pub fn stdout(input: Option<Identity>) -> Result<Target> {
        let fd = rustix::stdio::stdout()
            .try_clone_to_owned()
            .map_err(|e| Error::io(e, "cannot write standard output", "<stdout>"))?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| Error::io(e.into(), "cannot stat", "<stdout>"))?;
        if is_input(input, &stat) {
            return Err(the_input("<stdout>".as_ref()));
        }
        Ok(Target { file: File::from(fd), name: PathBuf::from("<stdout>"), rename: None, stream: true })
    }

    /// A file at `path`; `input` is refused as its target, and gives it its permissions.
    ///
    /// A path that names a pipe or socket is written as a stream; a device such as `/dev/null` in place.
    pub fn create(path: &Path, input: Option<Identity>) -> Result<Target> {
        let within = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        if rustix::fs::stat(within).is_ok_and(|stat| is_input(input, &stat)) {
            return Err(Error::usage("the output is within the input's directory")
                .in_file(path)
                .hint("name a file elsewhere with -o"));
        }
        match rustix::fs::stat(path) {
            Ok(stat) => {
                let ty = FileType::from_raw_mode(stat.st_mode);
                if is_input(input, &stat) {
                    return Err(the_input(path));
                }
                match ty {
                    FileType::RegularFile => Self::temporary(path, input),
                    FileType::Directory => Err(Error::usage("the output is a directory").in_file(path)),
                    _ => {
                        let file = OpenOptions::new()
                            .write(true)
                            .open(path)
                            .map_err(|e| Error::io(e, "cannot open for writing", path))?;
                        let stream = ty != FileType::CharacterDevice;
                        Ok(Target { file, name: path.to_path_buf(), rename: None, stream })
                    }
                }
            }
            Err(rustix::io::Errno::NOENT) => Self::temporary(path, input),
            Err(e) => Err(Error::io(e.into(), "cannot stat", path)),
        }
    }

    fn temporary(path: &Path, input: Option<Identity>) -> Result<Target> {
        // A symbolic link stays one: what it points to is replaced.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let mut prefix = std::ffi::OsString::from(".");
        let name = path.file_name().unwrap_or_default().as_bytes();
        prefix.push(OsStr::from_bytes(name.get(..name.len().min(PREFIX_MAX)).unwrap_or_default()));
        prefix.push(".");
        let temp = tempfile::Builder::new()
            .prefix(&prefix)
            .make_in(dir, unfinished::create)
            .map_err(|e| Error::io(e, "cannot create the output", &path))?;
        let mode = input.map_or(0o600, |i| i.mode & 0o777);
        let set = temp.as_file().set_permissions(Permissions::from_mode(mode));
        let (file, temp) = NamedTempFile::into_parts(temp);
        let target = Target { file, name: path.clone(), rename: Some((temp, path)), stream: false };
        set.map_err(|e| Error::io(e, "cannot set the permissions of the output", &target.name))?;
        Ok(target)
    }

    /// Whether it can only be written in sequence, so that it takes the pipe format.
    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its name for messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Overwrites bytes at an offset.
    pub fn patch(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|e| self.error(e))
    }

    /// Makes the output visible under its name.
    pub fn commit(mut self) -> Result<()> {
        let Some((temp, path)) = self.rename.take() else { return Ok(()) };
        let name = temp.to_path_buf();
        let named = unfinished::rename(&name, || temp.persist(&path).map(drop));
        named.map_err(|e| Error::io(e.error, "cannot rename the output into place", &path))
    }

    /// A failed write as an error that says what to do.
    pub fn error(&self, e: std::io::Error) -> Error {
        use std::io::ErrorKind as K;
        let (what, hint) = match e.kind() {
            K::StorageFull | K::QuotaExceeded => {
                ("no room for the output", Some("nothing was left behind; free space or choose another -o"))
            }
            K::FileTooLarge => ("the output exceeds the file size limit", Some("see ulimit -f")),
            K::BrokenPipe => ("the reader of the output went away", None),
            _ => ("cannot write", None),
        };
        let e = Error::io(e, what, &self.name);
        match hint {
            Some(hint) => e.hint(hint),
            None => e,
        }
    }

    /// An error for a failure of the writing thread that left no error of its own.
    pub fn lost(name: &Path) -> Error {
        Error::new(ErrorKind::Io, "the writing thread ended early").in_file(name)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some((temp, _)) = &self.rename {
            unfinished::forget(temp);
        }
    }
}
