//! Checked reads and writes in either byte order.
//!
//! Nothing here panics: a read past the end is `None` (or [`Short`]), a write appends.

use byteorder::{BigEndian, ByteOrder as _, LittleEndian};

/// Byte order of a recording; fixed when its magic is read and kept on output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first (x86, arm64, riscv, ppc64le).
    Little,
    /// Most significant byte first (s390x, older ppc64).
    Big,
}

macro_rules! read {
    ($(#[$doc:meta])* $name:ident, $put:ident, $at:ident, $ty:ty, $read:ident, $write:ident) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(self, bytes: &[u8], at: usize) -> Option<$ty> {
            let raw = bytes.get(at..at.checked_add(size_of::<$ty>())?)?;
            Some(match self {
                ByteOrder::Little => LittleEndian::$read(raw),
                ByteOrder::Big => BigEndian::$read(raw),
            })
        }

        /// Appends the value in this byte order.
        #[inline]
        pub fn $put(self, out: &mut Vec<u8>, value: $ty) {
            let mut raw = [0u8; size_of::<$ty>()];
            match self {
                ByteOrder::Little => LittleEndian::$write(&mut raw, value),
                ByteOrder::Big => BigEndian::$write(&mut raw, value),
            }
            out.extend_from_slice(&raw);
        }

        /// Overwrites the value at a byte offset; `None`, and nothing written, if it does not fit.
        #[inline]
        pub fn $at(self, bytes: &mut [u8], at: usize, value: $ty) -> Option<()> {
            let raw = bytes.get_mut(at..at.checked_add(size_of::<$ty>())?)?;
            match self {
                ByteOrder::Little => LittleEndian::$write(raw, value),
                ByteOrder::Big => BigEndian::$write(raw, value),
            }
            Some(())
        }
    };
}

impl ByteOrder {
    /// The order of the machine this runs on.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    read!(/// Two bytes at a byte offset.
        u16, put_u16, set_u16, u16, read_u16, write_u16);
    read!(/// Four bytes at a byte offset.
        u32, put_u32, set_u32, u32, read_u32, write_u32);
    read!(/// Eight bytes at a byte offset.
        u64, put_u64, set_u64, u64, read_u64, write_u64);
}

/// A read ran past the end of what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("needs {wanted} bytes at byte {at} of {have}")]
pub struct Short {
    /// Where the read began, in bytes from the start of the slice.
    pub at: usize,
    /// How many bytes it wanted.
    pub wanted: usize,
    /// How many the slice has in all.
    pub have: usize,
}

/// A read position in a byte slice.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    order: ByteOrder,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Cursor { bytes, at: 0, order }
    }

    /// Byte offset of the next read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The byte order of reads.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Short> {
        let short = Short { at: self.at, wanted: n, have: self.bytes.len() };
        let end = self.at.checked_add(n).ok_or(short)?;
        let taken = self.bytes.get(self.at..end).ok_or(short)?;
        self.at = end;
        Ok(taken)
    }

    /// Steps over `n` bytes.
    pub fn skip(&mut self, n: usize) -> Result<(), Short> {
        self.take(n).map(drop)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, Short> {
        let raw = self.take(1)?;
        Ok(raw.first().copied().unwrap_or_default())
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Result<u16, Short> {
        let order = self.order;
        Ok(order.u16(self.take(2)?, 0).unwrap_or_default())
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Result<u32, Short> {
        let order = self.order;
        Ok(order.u32(self.take(4)?, 0).unwrap_or_default())
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Result<u64, Short> {
        let order = self.order;
        Ok(order.u64(self.take(8)?, 0).unwrap_or_default())
    }
}

/// The bytes before the first NUL, or all of them if there is none.
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or_default()
}

/// Rounds up to a multiple of eight, the alignment of perf records; `None` on overflow.
pub fn align8(n: usize) -> Option<usize> {
    Some(n.checked_add(7)? & !7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_round_trip() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut out = Vec::new();
            order.put_u16(&mut out, 0x0102);
            order.put_u32(&mut out, 0x0304_0506);
            order.put_u64(&mut out, 0x0708_090a_0b0c_0d0e);
            let mut c = Cursor::new(&out, order);
            assert_eq!((c.u16(), c.u32(), c.u64()), (Ok(0x0102), Ok(0x0304_0506), Ok(0x0708_090a_0b0c_0d0e)));
            assert_eq!(c.remaining(), 0);
        }
        assert_eq!(ByteOrder::Big.u16(&[1, 2], 0), Some(0x0102));
        assert_eq!(ByteOrder::Little.u16(&[1, 2], 0), Some(0x0201));
    }

    #[test]
    fn reads_past_the_end_are_refused() {
        assert_eq!(ByteOrder::Little.u32(&[0; 4], 1), None);
        assert_eq!(ByteOrder::Little.u64(&[0; 8], usize::MAX), None);
        let mut c = Cursor::new(&[0; 3], ByteOrder::Little);
        assert_eq!(c.u32(), Err(Short { at: 0, wanted: 4, have: 3 }));
        assert_eq!(c.position(), 0);
    }

    #[test]
    fn align8_rounds_up_and_does_not_wrap() {
        assert_eq!(align8(0), Some(0));
        assert_eq!(align8(9), Some(16));
        assert_eq!(align8(usize::MAX), None);
    }
}
