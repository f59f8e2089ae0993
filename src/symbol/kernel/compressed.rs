//! Modules as distributions ship them: `.ko.gz`, `.ko.xz`, `.ko.zst`. Told by magic, whatever the name.

use std::io::{self, Cursor, Read};

use crate::symbol::LoadError;
use crate::symbol::file::ImageFile;

/// Largest module that is unpacked.
const MAX: u64 = 1 << 30;
/// Memory that a decoder may take for its window or dictionary.
const MAX_DECODER: u64 = 256 << 20;

/// The image itself, or what it unpacks to.
pub(super) fn unpack(file: ImageFile) -> Result<ImageFile, LoadError> {
    let mut magic = [0; 6];
    file.read_some_at(&mut magic, 0).map_err(|e| LoadError::io(file.path(), e))?;
    let unpacked = match magic {
        [0x1f, 0x8b, ..] => bounded(flate2::read::MultiGzDecoder::new(packed(&file)?)),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            let stream =
                liblzma::stream::Stream::new_stream_decoder(MAX_DECODER, 0).map_err(io::Error::other);
            let packed = packed(&file)?;
            stream.and_then(|s| bounded(liblzma::read::XzDecoder::new_stream(packed, s)))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let packed = packed(&file)?;
            zstd::stream::read::Decoder::with_buffer(packed).and_then(|mut decoder| {
                decoder.window_log_max(MAX_DECODER.ilog2())?;
                bounded(decoder)
            })
        }
        _ => return Ok(file),
    };
    let bytes = unpacked.map_err(|e| LoadError::io(file.path(), e))?;
    if bytes.len() as u64 > MAX {
        return Err(LoadError::TooLarge(file.path().into()));
    }
    Ok(ImageFile::from_memory(file.path(), bytes))
}

fn packed(file: &ImageFile) -> Result<Cursor<Vec<u8>>, LoadError> {
    if file.len() > MAX {
        return Err(LoadError::TooLarge(file.path().into()));
    }
    file.read_all().map(Cursor::new)
}

fn bounded(decoder: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    decoder.take(MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use super::*;

    #[test]
    fn each_format_unpacks_and_damage_is_an_error() {
        let plain = b"\x7fELF and so on".repeat(100);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&plain).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&plain).unwrap();
        let packed = [gz.finish().unwrap(), xz.finish().unwrap(), zstd::encode_all(&*plain, 1).unwrap()];
        let open = |bytes: &[u8]| unpack(ImageFile::from_memory(Path::new("x.ko"), bytes));
        for bytes in packed {
            assert_eq!(open(&bytes).unwrap().read_all().unwrap(), plain);
            let cut = bytes.get(..bytes.len() / 2).unwrap();
            assert!(matches!(open(cut), Err(LoadError::Io { .. })));
        }
        assert_eq!(open(&plain).unwrap().read_all().unwrap(), plain);
        assert!(open(b"").unwrap().is_empty());
    }
}
