//! Why a DSO has no build-id, in words for a person and in keys for programs.

use std::fmt;

use rustix::io::Errno;

/// Why no build-id could be given to a DSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissReason {
    /// There is no file at the path.
    NoSuchFile,
    /// The file may not be read.
    Permission,
    /// The operating system refused for another reason.
    Io(Errno),
    /// The path names a directory, a device, a socket, or something under /proc or /sys.
    NotAFile,
    /// The name is of memory without a file: `//anon`, `[heap]`, System V memory, BPF programs.
    Anonymous,
    /// The name is of a memfd, which no path leads to.
    Memfd,
    /// The file had been deleted when it was recorded.
    Deleted,
    /// The file does not begin as an ELF file does.
    NotElf,
    /// The ELF file's tables or notes end early or make no sense.
    MalformedElf,
    /// The ELF file carries no GNU build-id note.
    NoNote,
    /// The file at the path has another inode than the one that was recorded.
    InodeDiffers,
    /// The inode is the recorded one, used again for another file.
    GenerationDiffers,
    /// The file was created or written after the recording was made.
    NewerThanRecording,
    /// The process lives or lived in another mount namespace and the record has no inode to tell files by.
    OtherNamespace,
    /// The recording is of another machine, whose files, kernel and modules are not here.
    OtherMachine,
    /// The recording does not say which machine it is of.
    UnknownMachine,
    /// The DSO belongs to a virtual machine's guest.
    Guest,
    /// More than one id fits and nothing tells which is right.
    Ambiguous,
    /// A compressed module could not be decompressed.
    Decompress,
    /// A compressed module grows past the bound.
    TooLarge,
    /// The running kernel has no such module loaded and no file for it.
    NoSuchModule,
    /// There is nothing to read it from: the vdso of another word size, a kernel that hides its notes.
    Unavailable,
}

impl MissReason {
    /// A word for programs; it stays the same between versions.
    pub fn key(self) -> &'static str {
        self.texts().0
    }

    /// From a failed system call.
    pub(crate) fn from_errno(errno: Errno) -> MissReason {
        match errno {
            Errno::NOENT | Errno::NOTDIR => MissReason::NoSuchFile,
            Errno::ACCESS | Errno::PERM => MissReason::Permission,
            Errno::ISDIR => MissReason::NotAFile,
            other => MissReason::Io(other),
        }
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            MissReason::NoSuchFile => ("no-such-file", "no such file"),
            MissReason::Permission => ("permission", "no permission to read the file"),
            MissReason::Io(_) => ("io", "cannot read the file"),
            MissReason::NotAFile => ("not-a-file", "not a regular file"),
            MissReason::Anonymous => ("anonymous", "memory without a file"),
            MissReason::Memfd => ("memfd", "a memfd, which no path leads to"),
            MissReason::Deleted => ("deleted", "the file was deleted before it was recorded"),
            MissReason::NotElf => ("not-elf", "not an ELF file"),
            MissReason::MalformedElf => ("malformed-elf", "a malformed ELF file"),
            MissReason::NoNote => ("no-note", "the ELF file has no build-id note"),
            MissReason::InodeDiffers => ("inode-differs", "another file is at the path now (inode differs)"),
            MissReason::GenerationDiffers => {
                ("generation-differs", "another file is at the path now (inode used again)")
            }
            MissReason::NewerThanRecording => ("newer", "the file is newer than the recording"),
            MissReason::OtherNamespace => {
                ("other-namespace", "the process ran in another mount namespace and no inode was recorded")
            }
            MissReason::OtherMachine => ("other-machine", "the recording is of another machine"),
            MissReason::UnknownMachine => {
                ("unknown-machine", "the recording does not say which machine it is of")
            }
            MissReason::Guest => ("guest", "belongs to a guest, whose files are not here"),
            MissReason::Ambiguous => ("ambiguous", "more than one build-id fits"),
            MissReason::Decompress => ("decompress", "cannot be decompressed"),
            MissReason::TooLarge => ("too-large", "too large when decompressed"),
            MissReason::NoSuchModule => ("no-such-module", "the running kernel has no such module"),
            MissReason::Unavailable => ("unavailable", "the running system does not offer it"),
        }
    }
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissReason::Io(errno) => write!(f, "{}: {errno}", self.texts().1),
            _ => f.write_str(self.texts().1),
        }
    }
}

impl std::error::Error for MissReason {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_become_reasons_a_person_can_act_on() {
        assert_eq!(MissReason::from_errno(Errno::NOTDIR), MissReason::NoSuchFile);
        assert_eq!(MissReason::from_errno(Errno::ACCESS), MissReason::Permission);
        let other = MissReason::from_errno(Errno::NAMETOOLONG);
        assert_eq!(other.key(), "io");
        assert_eq!(other.to_string(), format!("cannot read the file: {}", Errno::NAMETOOLONG));
    }
}
