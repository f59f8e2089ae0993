//! The build-id itself: 1 to 20 bytes that name the contents of an image.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// The most bytes that perf's records hold for a build-id, the length of a SHA-1.
pub const MAX_LEN: usize = 20;

/// Padding is dropped in groups of this many bytes where no length was recorded.
const PADDING_UNIT: usize = 4;

/// A build-id of 1 to [`MAX_LEN`] bytes, held inline.
///
/// Displayed as lower-case hex, two digits a byte, without padding; parsed from the same in either case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuildId {
    // The length comes second so that ids sort by their bytes; bytes past it are zero.
    bytes: [u8; MAX_LEN],
    len: u8,
}

impl BuildId {
    /// An id of exactly these bytes; `None` if there are none, or more than [`MAX_LEN`].
    pub fn from_bytes(bytes: &[u8]) -> Option<BuildId> {
        if bytes.is_empty() {
            return None;
        }
        let mut inline = [0; MAX_LEN];
        inline.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(BuildId { bytes: inline, len: u8::try_from(bytes.len()).ok()? })
    }

    /// An id from the first [`MAX_LEN`] of these bytes, as perf shortens ids that are too long for its records.
    pub fn from_first_bytes(bytes: &[u8]) -> Option<BuildId> {
        BuildId::from_bytes(bytes.get(..MAX_LEN).unwrap_or(bytes))
    }

    /// An id from a zero-padded field whose record says nothing of its length; `None` if all is zero.
    ///
    /// Only a fallback: a record that carries a length is read with [`BuildId::from_bytes`]. Trailing zeros
    /// are taken for padding four bytes at a time, since the lengths in use (8, 16, 20) are multiples of
    /// four and one digest in 256 ends in a zero of its own.
    pub fn from_padded(padded: [u8; MAX_LEN]) -> Option<BuildId> {
        let used = padded.iter().rposition(|&b| b != 0)? + 1;
        let len = used.next_multiple_of(PADDING_UNIT);
        BuildId::from_bytes(padded.get(..len)?)
    }

    /// The bytes, without padding.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The bytes, zero-padded to the width of perf's fields.
    pub fn padded(&self) -> [u8; MAX_LEN] {
        self.bytes
    }

    /// Length in bytes, 1 to [`MAX_LEN`].
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Parses hex digits; `None` unless they are an even number that makes 1 to [`MAX_LEN`] bytes.
    pub fn from_hex(hex: &[u8]) -> Option<BuildId> {
        let (pairs, odd) = hex.as_chunks::<2>();
        if !odd.is_empty() || pairs.len() > MAX_LEN {
            return None;
        }
        let mut bytes = [0; MAX_LEN];
        for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = nibble(high)? << 4 | nibble(low)?;
        }
        BuildId::from_bytes(bytes.get(..pairs.len())?)
    }
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

/// Text that is not the hex digits of a build-id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a build-id: wants an even number of hex digits, 2 to 40")]
pub struct ParseBuildIdError;

impl FromStr for BuildId {
    type Err = ParseBuildIdError;

    fn from_str(s: &str) -> Result<BuildId, ParseBuildIdError> {
        BuildId::from_hex(s.as_bytes()).ok_or(ParseBuildIdError)
    }
}

impl Hash for BuildId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 2 * MAX_LEN];
        for (pair, byte) in hex.as_chunks_mut::<2>().0.iter_mut().zip(self.as_bytes()) {
            *pair = [byte >> 4, byte & 0xf].map(|n| DIGITS.get(usize::from(n)).copied().unwrap_or(b'0'));
        }
        let used = hex.get(..2 * self.len()).unwrap_or_default();
        f.pad(str::from_utf8(used).unwrap_or_default())
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn takes_one_to_twenty_bytes() {
        assert_eq!(BuildId::from_bytes(&[]), None);
        assert_eq!(BuildId::from_bytes(&[1; 21]), None);
        for len in 1..=MAX_LEN {
            let bytes = vec![0xab; len];
            let id = BuildId::from_bytes(&bytes).unwrap();
            assert_eq!((id.as_bytes(), id.len()), (bytes.as_slice(), len));
            assert_eq!(id.to_string(), "ab".repeat(len));
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn too_long_ids_keep_their_first_twenty_bytes() {
        let long: Vec<u8> = (0..24).collect();
        assert_eq!(
            BuildId::from_first_bytes(&long).unwrap().to_string(),
            "000102030405060708090a0b0c0d0e0f10111213"
        );
        assert_eq!(BuildId::from_first_bytes(&[7]).unwrap().to_string(), "07");
        assert_eq!(BuildId::from_first_bytes(&[]), None);
    }

    #[test]
    fn zeros_that_belong_to_an_id_stay() {
        let id = BuildId::from_bytes(&[0, 0]).unwrap();
        assert_eq!(id.to_string(), "0000");
        assert_ne!(id, BuildId::from_bytes(&[0]).unwrap());
        assert_eq!(id.padded(), [0; MAX_LEN]);
    }

    #[test]
    fn padding_is_dropped_only_in_whole_groups() {
        let padded = |used: &[u8]| {
            let mut field = [0; MAX_LEN];
            field[..used.len()].copy_from_slice(used);
            BuildId::from_padded(field).map(|id| id.len())
        };
        assert_eq!(padded(&[]), None);
        assert_eq!(padded(&[1, 2, 3, 4]), Some(4));
        assert_eq!(padded(&[1; 8]), Some(8));
        assert_eq!(padded(&[1; 16]), Some(16));
        assert_eq!(padded(&[1; 20]), Some(20));
        // a digest that ends in a zero
        assert_eq!(padded(&[1; 19]), Some(20));
        assert_eq!(padded(&[1; 15]), Some(16));
    }

    #[test]
    fn refuses_what_is_not_whole_hex() {
        for bad in ["", "a", "abc", "zz", "0x12", " 12", "1 ", "é1", &"ab".repeat(21)] {
            assert_eq!(bad.parse::<BuildId>(), Err(ParseBuildIdError), "{bad:?}");
        }
        assert_eq!("ABcd".parse::<BuildId>().unwrap().to_string(), "abcd");
    }

    #[test]
    fn sorts_by_bytes_and_pads_in_columns() {
        let id = |hex: &str| hex.parse::<BuildId>().unwrap();
        assert!(id("01") < id("0100") && id("0100") < id("02"));
        assert_eq!(format!("{:>6}|", id("beef")), "  beef|");
    }
}
