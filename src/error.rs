//! The one error type: what, in which file, at which offset, in which record, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::abi::record::RecordType;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of a failure; it selects the message's opening and lets callers tell causes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused a read, write, open or rename.
    Io,
    /// The bytes are not a perf recording at all.
    NotPerfData,
    /// The bytes begin as a recording and then break its format.
    Corrupt,
    /// The recording ends in the middle of something.
    Truncated,
    /// The format is understood but this program does not handle the case.
    Unsupported,
    /// Options, or options and input, that can't go together.
    Usage,
    /// Memory could not be had.
    OutOfMemory,
    /// A signal asked the run to end.
    Interrupted,
    /// A plugin or dlfilter failed or broke its contract.
    Plugin,
}

impl ErrorKind {
    /// A lower-case phrase for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Io => "input/output error",
            ErrorKind::NotPerfData => "not a perf recording",
            ErrorKind::Corrupt => "corrupt recording",
            ErrorKind::Truncated => "truncated recording",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Usage => "usage",
            ErrorKind::OutOfMemory => "out of memory",
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::Plugin => "plugin",
        }
    }
}

/// A failure with its place and cause.
///
/// Displayed as `FILE: at offset 0xOFF: RECORD record: MESSAGE: SOURCE (HINT)`, leaving out what is unknown.
/// It is boxed inside so that `Result` stays two words on hot paths.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    file: Option<PathBuf>,
    offset: Option<u64>,
    record: Option<RecordType>,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with a lower-case message and no place yet.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            file: None,
            offset: None,
            record: None,
            hint: None,
            source: None,
        }))
    }

    /// Shorthand for [`ErrorKind::Corrupt`] at a byte offset of the input.
    pub fn corrupt(offset: u64, message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Corrupt, message).at(offset)
    }

    /// Shorthand for [`ErrorKind::Truncated`] at a byte offset of the input.
    pub fn truncated(offset: u64, message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Truncated, message).at(offset)
    }

    /// Shorthand for [`ErrorKind::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Usage, message)
    }

    /// An operating-system error met while doing `what` to `file`.
    pub fn io(source: std::io::Error, what: &str, file: impl AsRef<Path>) -> Self {
        let mut e = Error::new(ErrorKind::Io, what).in_file(file);
        e.0.source = Some(Box::new(source));
        e
    }

    /// Adds the byte offset in the input, unless a nearer one is known.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Moves the offset by `delta` bytes, from a stream position to a file offset.
    #[must_use]
    pub fn shift(mut self, delta: i64) -> Self {
        self.0.offset = self.0.offset.map(|o| o.saturating_add_signed(delta));
        self
    }

    /// Replaces the offset, where the one known means nothing to the user.
    #[must_use]
    pub fn replace_offset(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// Appends to the message.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        self.0.message.push_str(", ");
        self.0.message.push_str(note);
        self
    }

    /// Adds the file, unless a nearer one is known.
    #[must_use]
    pub fn in_file(mut self, file: impl AsRef<Path>) -> Self {
        self.0.file.get_or_insert_with(|| file.as_ref().to_path_buf());
        self
    }

    /// Adds the type of the record at fault, unless known.
    #[must_use]
    pub fn in_record(mut self, record: RecordType) -> Self {
        self.0.record.get_or_insert(record);
        self
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source.get_or_insert_with(|| Box::new(source));
        self
    }

    /// The class of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Byte offset in the input file (or in the decompressed stream where the message says so).
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Type of the record at fault.
    pub fn record(&self) -> Option<RecordType> {
        self.0.record
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &*self.0;
        if let Some(file) = &e.file {
            write!(f, "{}: ", file.display())?;
        }
        // An option is at fault by itself, whichever record it was found out at.
        let place = e.kind != ErrorKind::Usage;
        if let Some(offset) = e.offset.filter(|_| place) {
            write!(f, "at offset {offset:#x}: ")?;
        }
        if let Some(record) = e.record.filter(|_| place) {
            write!(f, "{record} record: ")?;
        }
        match e.kind {
            ErrorKind::Io | ErrorKind::Usage | ErrorKind::Plugin | ErrorKind::Interrupted => {}
            kind => write!(f, "{}: ", kind.as_str())?,
        }
        f.write_str(&e.message)?;
        if let Some(source) = &e.source {
            write!(f, ": {source}")?;
        }
        if let Some(hint) = &e.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_file_offset_record_and_hint() {
        let e = Error::corrupt(0x40, "size 3 is below the header's 8 bytes")
            .in_record(RecordType::SAMPLE)
            .in_file("x.data")
            .hint("try --salvage");
        assert_eq!(
            e.to_string(),
            "x.data: at offset 0x40: SAMPLE record: corrupt recording: size 3 is below the header's 8 bytes (try --salvage)"
        );
    }

    #[test]
    fn the_nearest_place_wins() {
        let e = Error::corrupt(1, "m").at(2).in_file("a").in_file("b");
        assert_eq!(e.offset(), Some(1));
        assert!(e.to_string().starts_with("a: at offset 0x1"));
    }
}
