//! Why a DSO's symbols could not be had.

use std::path::PathBuf;

use crate::error::{Error, ErrorKind};

/// Why symbols could not be loaded. A DSO without symbols is no failure of a run: its addresses print bare.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// None of the places where a file of that name or build-id may be has one with symbols.
    #[error("no file with symbols found for {0}")]
    NotFound(String),
    /// A file could not be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not ELF, or its headers point outside of it.
    #[error("{path}: not a usable ELF file: {what}")]
    BadElf {
        /// The file.
        path: PathBuf,
        /// Which part is wrong.
        what: &'static str,
    },
    /// The file is there and has no symbol that could be used.
    #[error("{0}: no symbols")]
    NoSymbols(PathBuf),
    /// The file's build-id is another than the recording's.
    #[error("{0}: build-id differs from the recording's")]
    BuildIdMismatch(PathBuf),
    /// The kernel hides its addresses from this user: every one reads as zero.
    #[error("{0}: addresses are hidden (see /proc/sys/kernel/kptr_restrict)")]
    Restricted(PathBuf),
    /// More symbols or longer names than 32-bit offsets can address, or than the file can honestly hold.
    #[error("{0}: symbol table is too large")]
    TooLarge(PathBuf),
    /// Memory could not be had, even after shrinking.
    #[error("out of memory for the symbols of {0}")]
    OutOfMemory(PathBuf),
}

impl LoadError {
    pub(super) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        LoadError::Io { path: path.into(), source }
    }

    /// Whether it is memory that is wanting.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            LoadError::OutOfMemory(_) => true,
            LoadError::Io { source, .. } => source.kind() == std::io::ErrorKind::OutOfMemory,
            _ => false,
        }
    }
}

impl From<LoadError> for Error {
    fn from(e: LoadError) -> Self {
        let kind = match &e {
            LoadError::Io { .. } | LoadError::NotFound(_) => ErrorKind::Io,
            LoadError::OutOfMemory(_) => ErrorKind::OutOfMemory,
            _ => ErrorKind::Unsupported,
        };
        Error::new(kind, "cannot load symbols").because(e)
    }
}
