//! simpleperf's own sections: META_INFO, and the lists of files with their symbols.

use super::reader::{Reader, lossy};
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// Parses META_INFO: keys and values, NUL-terminated in turn. Errors if the last string has no end.
pub fn parse_meta_info(section: &[u8]) -> Result<Vec<(String, String)>> {
    // strings alone: no byte order
    let mut r = Reader::new(Feature::SIMPLEPERF_META_INFO, section, ByteOrder::NATIVE);
    let mut pairs = Vec::new();
    while r.remaining() != 0 {
        pairs.push((lossy(r.c_string()?), lossy(r.c_string()?)));
    }
    Ok(pairs)
}

/// A file that samples hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleperfFile {
    /// Path of the file.
    pub path: String,
    /// simpleperf's DSO type: 0 kernel, 1 kernel module, 2 ELF file, 3 DEX file, 4 symbol map, 5 unknown.
    pub dso_type: u32,
    /// Number of symbols listed.
    pub symbols: u32,
}

/// Parses FILE: for each file a u32 size and as many bytes. Errors if a file is cut short.
pub fn parse_files(section: &[u8], order: ByteOrder) -> Result<Vec<SimpleperfFile>> {
    const MIN_VADDR_SIZE: u64 = 8;
    each(Feature::SIMPLEPERF_FILE, section, order, |r| {
        let (path, dso_type) = (lossy(r.c_string()?), r.u32()?);
        r.take(MIN_VADDR_SIZE)?;
        Ok(SimpleperfFile { path, dso_type, symbols: r.u32()? })
    })
}

/// Parses FILE2: for each file a u32 size and a protobuf message of path (1), type (2) and symbols (4).
/// Errors if a file is cut short.
pub fn parse_files2(section: &[u8], order: ByteOrder) -> Result<Vec<SimpleperfFile>> {
    each(Feature::SIMPLEPERF_FILE2, section, order, |r| {
        let mut file = SimpleperfFile { path: String::new(), dso_type: 0, symbols: 0 };
        while r.remaining() != 0 {
            let at = r.position();
            let tag = varint(r)?;
            let (field, wire) = (tag >> 3, tag & 7);
            match wire {
                0 => {
                    let value = varint(r)?;
                    if field == 2 {
                        file.dso_type = u32::try_from(value).unwrap_or(u32::MAX);
                    }
                }
                1 => drop(r.take(8)?),
                2 => {
                    let len = varint(r)?;
                    let bytes = r.take(len)?;
                    match field {
                        1 => file.path = lossy(bytes),
                        4 => file.symbols = file.symbols.saturating_add(1),
                        _ => {}
                    }
                }
                5 => drop(r.take(4)?),
                _ => return Err(r.corrupt(at, format!("wire type {wire} in a file's message"))),
            }
        }
        Ok(file)
    })
}

fn each<'a>(
    feature: Feature,
    section: &'a [u8],
    order: ByteOrder,
    parse: impl Fn(&mut Reader<'a>) -> Result<SimpleperfFile>,
) -> Result<Vec<SimpleperfFile>> {
    let mut r = Reader::new(feature, section, order);
    let mut files = Vec::new();
    while r.remaining() != 0 {
        let len = r.u32()?;
        let at = r.position();
        let message = r.take(len.into())?;
        let whole = section.get(..at.saturating_add(message.len())).unwrap_or_default();
        // offsets of errors stay those of the section
        let mut inner = Reader::new(feature, whole, order);
        inner.take(at as u64)?;
        files.push(parse(&mut inner)?);
    }
    Ok(files)
}

fn varint(r: &mut Reader<'_>) -> Result<u64> {
    let at = r.position();
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = r.u8()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(r.corrupt(at, "number of more than 64 bits".into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn meta_info_is_pairs_of_strings() {
        let pairs = parse_meta_info(b"clockid\0monotonic\0trace_offcpu\0\0").unwrap();
        assert_eq!(pairs, [("clockid".into(), "monotonic".into()), ("trace_offcpu".into(), String::new())]);
        assert_eq!(parse_meta_info(b"key\0value").unwrap_err().offset(), Some(4));
        assert!(parse_meta_info(b"key\0").is_err());
    }

    #[test]
    fn files_of_the_first_layout() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut section = Vec::new();
            for (path, symbols) in [("/system/lib64/libc.so", 2), ("[kernel.kallsyms]", 0)] {
                let start = section.len();
                order.put_u32(&mut section, 0);
                section.extend(path.as_bytes());
                section.push(0);
                order.put_u32(&mut section, 2);
                order.put_u64(&mut section, 0x1000);
                order.put_u32(&mut section, symbols);
                section.extend([0xee; 9]);
                let size = (section.len() - start - 4) as u32;
                order.set_u32(&mut section, start, size).unwrap();
            }
            let files = parse_files(&section, order).unwrap();
            let libc = SimpleperfFile { path: "/system/lib64/libc.so".into(), dso_type: 2, symbols: 2 };
            assert_eq!(files.len(), 2);
            assert_eq!((&files[0], files[1].path.as_str()), (&libc, "[kernel.kallsyms]"));
            assert!(parse_files(&section[..section.len() - 1], order).is_err());
        }
    }

    #[test]
    fn files_of_the_second_layout() {
        let message =
            b"\n\x0a/bin/sleep\x10\x02\x18\x80@\"\x04\x08\x01\x10\x02\"\x00\x35\0\0\0\0\x39\0\0\0\0\0\0\0\0";
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut section = Vec::new();
            order.put_u32(&mut section, message.len() as u32);
            section.extend(message);
            let expected = SimpleperfFile { path: "/bin/sleep".into(), dso_type: 2, symbols: 2 };
            assert_eq!(parse_files2(&section, order).unwrap(), [expected]);
        }
    }

    #[test]
    fn broken_messages_are_refused_where_they_break() {
        let order = ByteOrder::Little;
        let e = parse_files2(&[2, 0, 0, 0, 0x0a, 0x7f], order).unwrap_err();
        assert_eq!(e.offset(), Some(6));
        let mut endless = vec![11, 0, 0, 0];
        endless.extend([0xff; 11]);
        assert_eq!(parse_files2(&endless, order).unwrap_err().offset(), Some(4));
        assert_eq!(parse_files2(&[1, 0, 0, 0, 0x07], order).unwrap_err().offset(), Some(4));
        assert_eq!(parse_files(&[9, 0, 0, 0], order).unwrap_err().offset(), Some(4));
    }
}
