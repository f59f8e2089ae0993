//! `.gnu_debugdata`: a compressed ELF image within a stripped one, which has the function symbols.

use std::io::Read;
use std::path::PathBuf;

use super::LoadError;
use super::elf::{Elf, SHT_PROGBITS};
use super::file::ImageFile;

/// Largest image that is unpacked. Fedora's are some hundred kilobytes.
const MAX_IMAGE: u64 = 256 << 20;
/// Memory that the decoder may take for its dictionary.
const MAX_DECODER: u64 = 256 << 20;

/// The image within, if there is one that can be unpacked.
pub(super) fn unpack(elf: &Elf) -> Option<Result<Elf, LoadError>> {
    let (_, section) = elf.section(".gnu_debugdata").filter(|(_, s)| s.kind == SHT_PROGBITS)?;
    let mut path = elf.file.path().as_os_str().to_owned();
    path.push(":.gnu_debugdata");
    let path = PathBuf::from(path);
    let bad = |what| LoadError::BadElf { path: path.clone(), what };
    let image = elf.contents(section).and_then(|packed| {
        let stream = liblzma::stream::Stream::new_stream_decoder(MAX_DECODER, 0);
        let stream = stream.map_err(|_| bad("no xz decoder"))?;
        let decoder = liblzma::read::XzDecoder::new_stream(packed.as_slice(), stream);
        let mut image = Vec::new();
        decoder.take(MAX_IMAGE + 1).read_to_end(&mut image).map_err(|_| bad("not valid xz data"))?;
        if image.len() as u64 > MAX_IMAGE {
            return Err(LoadError::TooLarge(path.clone()));
        }
        Ok(image)
    });
    Some(image.and_then(|image| Elf::parse(ImageFile::from_memory(&path, image))))
}
