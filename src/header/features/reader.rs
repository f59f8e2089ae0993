//! Reading a section's bytes, with errors that say which section and where in it.

use crate::abi::feature::Feature;
use crate::bytes::{ByteOrder, Cursor, Short, until_nul};
use crate::error::{Error, Result};

/// A read position in a section. Offsets of errors count from the section's first byte.
pub(super) struct Reader<'a> {
    cursor: Cursor<'a>,
    feature: Feature,
}

impl<'a> Reader<'a> {
    pub(super) fn new(feature: Feature, section: &'a [u8], order: ByteOrder) -> Self {
        Reader { cursor: Cursor::new(section, order), feature }
    }

    pub(super) fn remaining(&self) -> usize {
        self.cursor.remaining()
    }

    pub(super) fn position(&self) -> usize {
        self.cursor.position()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }

    /// Whether nothing is left but the zeros that pad a pipe's feature record to eight bytes.
    pub(super) fn at_end(&self) -> bool {
        self.remaining() < 8 && self.rest().iter().all(|&b| b == 0)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        self.cursor.u8().map_err(|short| self.short(short))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.cursor.u32().map_err(|short| self.short(short))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.cursor.u64().map_err(|short| self.short(short))
    }

    /// The next bytes, as many as a count of the file says; a count that does not fit is an error.
    pub(super) fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let at = self.position();
        let Ok(len) = usize::try_from(len) else {
            return Err(self.corrupt(at, format!("{len} bytes wanted, {} left", self.remaining())));
        };
        self.cursor.take(len).map_err(|short| self.short(short))
    }

    /// A u32 that says how many items of at least `least` bytes follow; refused if they can't.
    pub(super) fn count(&mut self, least: usize) -> Result<u32> {
        let at = self.position();
        let n = self.u32()?;
        self.check_count(at, n.into(), least)?;
        Ok(n)
    }

    /// As [`Self::count`], of a u64.
    pub(super) fn count64(&mut self, least: usize) -> Result<u64> {
        let at = self.position();
        let n = self.u64()?;
        self.check_count(at, n, least)?;
        Ok(n)
    }

    fn check_count(&self, at: usize, n: u64, least: usize) -> Result<()> {
        let fits = (self.remaining() as u64).checked_div(least as u64).is_none_or(|most| n <= most);
        if fits {
            Ok(())
        } else {
            Err(self.corrupt(at, format!("{n} items announced, {} bytes left", self.remaining())))
        }
    }

    /// A u32 length, then that many bytes, of which those before the first NUL are the string.
    pub(super) fn string(&mut self) -> Result<String> {
        self.raw_string().map(lossy)
    }

    pub(super) fn raw_string(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()?;
        self.take(len.into()).map(until_nul)
    }

    /// A u32 count, then that many strings.
    pub(super) fn strings(&mut self) -> Result<Vec<String>> {
        let n = self.count(4)?;
        (0..n).map(|_| self.string()).collect()
    }

    /// The bytes up to a NUL, which is stepped over.
    pub(super) fn c_string(&mut self) -> Result<&'a [u8]> {
        let at = self.position();
        let string = until_nul(self.rest());
        if string.len() == self.remaining() {
            return Err(self.corrupt(at, "string without an end".into()));
        }
        self.take(string.len() as u64 + 1)?;
        Ok(string)
    }

    pub(super) fn corrupt(&self, at: usize, message: String) -> Error {
        Error::corrupt(at as u64, format!("in the {} section: {message}", self.feature))
    }

    fn short(&self, short: Short) -> Error {
        let left = short.have.saturating_sub(short.at);
        let message = format!("in the {} section: {} bytes wanted, {left} left", self.feature, short.wanted);
        Error::truncated(short.at as u64, message)
    }
}

/// For people: bytes that are not UTF-8 show as replacement characters.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
