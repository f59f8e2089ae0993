//! The first sixteen bytes: magic, byte order, and file or pipe.

use crate::bytes::ByteOrder;
use crate::error::{Error, ErrorKind, Result};

/// `PERFILE2` as a little-endian word; a big-endian recording has the letters the other way round.
pub const MAGIC: u64 = u64::from_le_bytes(*b"PERFILE2");
/// Header size of a pipe: magic and size.
pub const PIPE_HEADER_SIZE: u64 = 16;
/// Least header size of a file.
const FILE_HEADER_SIZE: u64 = 104;

/// How a recording is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    /// A header with offsets; attributes and feature sections around the data.
    File,
    /// A stream in which everything is a record.
    Pipe,
}

/// Reads byte order and container from the first bytes of a recording.
pub fn detect(first: &[u8]) -> Result<(ByteOrder, Container, u64)> {
    let order = match first.get(..8) {
        Some(b"PERFILE2") => ByteOrder::Little,
        Some(b"2ELIFREP") => ByteOrder::Big,
        Some(b"PERFFILE") | Some(b"ELIFFREP") => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "recordings of the first format (before Linux 2.6.35)",
            )
            .at(0)
            .hint("record again with a current perf"));
        }
        Some(_) => {
            return Err(Error::new(ErrorKind::NotPerfData, "the magic is not PERFILE2").at(0));
        }
        None if first.is_empty() => {
            return Err(Error::new(ErrorKind::NotPerfData, "the input is empty").at(0));
        }
        None => return Err(Error::truncated(0, format!("{} bytes where the magic takes 8", first.len()))),
    };
    let size = order
        .u64(first, 8)
        .ok_or_else(|| Error::truncated(8, format!("{} bytes where a header takes 16", first.len())))?;
    match size {
        PIPE_HEADER_SIZE => Ok((order, Container::Pipe, size)),
        FILE_HEADER_SIZE.. => Ok((order, Container::File, size)),
        _ => Err(Error::corrupt(8, format!("header size {size} is neither a file's 104 nor a pipe's 16"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_orders_and_containers() {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend_from_slice(&104u64.to_le_bytes());
        assert_eq!(detect(&bytes).unwrap(), (ByteOrder::Little, Container::File, 104));
        let mut bytes = MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&16u64.to_be_bytes());
        assert_eq!(detect(&bytes).unwrap(), (ByteOrder::Big, Container::Pipe, 16));
        assert_eq!(detect(b"").unwrap_err().kind(), ErrorKind::NotPerfData);
        assert_eq!(detect(b"PERFI").unwrap_err().kind(), ErrorKind::Truncated);
        assert_eq!(detect(b"\x7fELF\x02\x01\x01\x00\x00").unwrap_err().kind(), ErrorKind::NotPerfData);
    }
}
