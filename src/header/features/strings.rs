//! HOSTNAME, OSRELEASE, VERSION, ARCH, CPUDESC, CPUID: one string each; CMDLINE: a list of them.
//!
//! A string is a u32 length and that many bytes, NUL-terminated; perf rounds the length up to 64.

use super::reader::Reader;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// perf rounds the space of a name up to a multiple of this many bytes (`NAME_ALIGN`).
pub const NAME_ALIGN: usize = 64;

/// Bytes that perf gives to a name: its own, a NUL, and padding to [`NAME_ALIGN`].
pub fn padded_len(name: &[u8]) -> usize {
    name.len().saturating_add(1).next_multiple_of(NAME_ALIGN)
}

/// Parses a section that is one string. Errors if it is shorter than it says.
pub fn parse(feature: Feature, section: &[u8], order: ByteOrder) -> Result<String> {
    Reader::new(feature, section, order).string()
}

/// Parses CMDLINE: the arguments, the program first. Errors if a string is cut short.
pub fn parse_cmdline(section: &[u8], order: ByteOrder) -> Result<Vec<String>> {
    Reader::new(Feature::CMDLINE, section, order).strings()
}

/// Appends a string section, or a string of a section, as perf lays it out.
pub fn emit(string: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
    let len = padded_len(string);
    order.put_u32(out, u32::try_from(len).unwrap_or(u32::MAX));
    let end = out.len() + len;
    out.extend_from_slice(string);
    out.resize(end, 0);
}

/// Appends a CMDLINE section.
pub fn emit_cmdline<S: AsRef<[u8]>>(args: &[S], order: ByteOrder, out: &mut Vec<u8>) {
    order.put_u32(out, u32::try_from(args.len()).unwrap_or(u32::MAX));
    for arg in args {
        emit(arg.as_ref(), order, out);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn strings_are_padded_to_64_bytes_in_either_order() {
        for (order, len) in [(ByteOrder::Little, [64, 0, 0, 0]), (ByteOrder::Big, [0, 0, 0, 64])] {
            let mut out = Vec::new();
            emit(b"borne", order, &mut out);
            assert_eq!(out.len(), 68);
            assert_eq!((&out[..4], &out[4..10], &out[10..]), (&len[..], &b"borne\0"[..], &[0; 58][..]));
            assert_eq!(parse(Feature::HOSTNAME, &out, order).unwrap(), "borne");
        }
    }

    #[test]
    fn the_terminating_nul_counts() {
        assert_eq!(padded_len(&[b'x'; 63]), 64);
        assert_eq!(padded_len(&[b'x'; 64]), 128);
    }

    #[test]
    fn command_lines_keep_empty_arguments() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut out = Vec::new();
            emit_cmdline(&["/usr/bin/perf", "record", "", "-g"], order, &mut out);
            assert_eq!(parse_cmdline(&out, order).unwrap(), ["/usr/bin/perf", "record", "", "-g"]);
        }
    }

    #[test]
    fn a_string_longer_than_its_section_is_refused_where_it_begins() {
        let e = parse(Feature::ARCH, &[64, 0, 0, 0, b'x', 0], ByteOrder::Little).unwrap_err();
        assert_eq!((e.kind(), e.offset()), (ErrorKind::Truncated, Some(4)));
        assert_eq!(
            e.to_string(),
            "at offset 0x4: truncated recording: in the ARCH section: 64 bytes wanted, 2 left"
        );
        let e = parse_cmdline(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], ByteOrder::Little).unwrap_err();
        assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(0)));
    }

    #[test]
    fn bytes_that_are_not_text_are_shown_all_the_same() {
        assert_eq!(
            parse(Feature::VERSION, &[3, 0, 0, 0, b'a', 0xff, b'b'], ByteOrder::Little).unwrap(),
            "a\u{fffd}b"
        );
    }
}
