//! Compressed kernel modules, read at offsets without holding them whole.
//!
//! A module's notes stand near its start and its section headers at its end, so its ELF tables are read in
//! nearly one pass; going back means decompressing again from the start, and all passes together are bounded.

use std::fs::File;
use std::io::{BufReader, Read, Seek};

use super::elf::ReadAt;
use super::miss::MissReason;

/// Bytes decompressed for one file, all passes together.
const MAX_DECOMPRESSED: u64 = 512 << 20;
/// Memory that a decoder's window may take; `xz -9` asks for 65 MiB.
const MAX_WINDOW: u64 = 128 << 20;
const MAX_WINDOW_LOG: u32 = MAX_WINDOW.ilog2();
/// Bytes from the start that stay at hand.
const KEPT: usize = 64 << 10;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// gzip (RFC 1952).
    Gzip,
    /// The xz container.
    Xz,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Compression {
    /// Tells by the first bytes of a file.
    pub fn of(magic: &[u8]) -> Option<Compression> {
        match magic {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Compression::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
            _ => None,
        }
    }

    fn decoder(self, mut file: &File) -> Result<Box<dyn Read>, MissReason> {
        let failed = |_| MissReason::Decompress;
        file.rewind().map_err(failed)?;
        let input = BufReader::with_capacity(KEPT, file.try_clone().map_err(failed)?);
        Ok(match self {
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Compression::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(MAX_WINDOW, 0);
                let stream = stream.map_err(|_| MissReason::Decompress)?;
                Box::new(liblzma::bufread::XzDecoder::new_stream(input, stream))
            }
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(input).map_err(failed)?;
                decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed)?;
                Box::new(decoder)
            }
        })
    }
}

/// A compressed file that reads as what it decompresses to.
pub struct Decompressed<'f> {
    compression: Compression,
    file: &'f File,
    stream: Option<Box<dyn Read>>,
    /// Offset of the stream's next byte.
    at: u64,
    kept: Vec<u8>,
    budget: u64,
}

impl<'f> Decompressed<'f> {
    /// Reads `file`, which is compressed so.
    pub fn new(compression: Compression, file: &'f File) -> Decompressed<'f> {
        Decompressed { compression, file, stream: None, at: 0, kept: Vec::new(), budget: MAX_DECOMPRESSED }
    }

    fn fill(&mut self, buf: &mut [u8]) -> Result<usize, MissReason> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(self.compression.decoder(self.file)?),
        };
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match stream.read(rest) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Err(MissReason::Decompress),
            }
        }
        self.at = self.at.saturating_add(done as u64);
        self.budget = self.budget.checked_sub(done as u64).ok_or(MissReason::TooLarge)?;
        Ok(done)
    }
}

impl ReadAt for Decompressed<'_> {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize, MissReason> {
        if self.at == 0 && self.kept.is_empty() {
            let mut kept = vec![0; KEPT];
            let len = self.fill(&mut kept)?;
            kept.truncate(len);
            self.kept = kept;
        }
        let end = offset.saturating_add(buf.len() as u64);
        if end <= self.kept.len() as u64 || self.kept.len() < KEPT {
            return self.kept.as_slice().read_at(offset, buf);
        }
        if offset < self.at {
            (self.stream, self.at) = (None, 0);
        }
        let mut skipped = vec![0; KEPT];
        while self.at < offset {
            let n = usize::try_from(offset - self.at).unwrap_or(KEPT).min(KEPT);
            if self.fill(skipped.get_mut(..n).unwrap_or_default())? < n {
                return Ok(0);
            }
        }
        self.fill(buf)
    }
}
