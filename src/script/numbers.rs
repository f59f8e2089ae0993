//! Numbers as digits, without the cost of the formatting machinery.

/// Decimal digits of a number.
pub(super) struct Digits {
    bytes: [u8; 20],
    from: usize,
}

impl Digits {
    /// Of an unsigned number.
    #[inline]
    pub fn of(mut value: u64) -> Digits {
        let mut digits = Digits { bytes: [b'0'; 20], from: 20 };
        for (at, byte) in digits.bytes.iter_mut().enumerate().rev() {
            *byte = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                digits.from = at;
                break;
            }
        }
        digits
    }

    /// Of a signed number.
    #[inline]
    pub fn signed(value: i32) -> Digits {
        let mut digits = Digits::of(value.unsigned_abs().into());
        if value < 0 {
            digits.from = digits.from.saturating_sub(1);
            if let Some(sign) = digits.bytes.get_mut(digits.from) {
                *sign = b'-';
            }
        }
        digits
    }

    /// The digits.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.from..).unwrap_or_default()
    }
}

/// Appends digits, right-aligned in `width` columns.
#[inline]
pub(super) fn padded(out: &mut Vec<u8>, digits: Digits, width: usize) {
    let bytes = digits.bytes();
    out.extend(std::iter::repeat_n(b' ', width.saturating_sub(bytes.len())));
    out.extend_from_slice(bytes);
}

/// All sixteen hexadecimal digits.
#[inline]
fn sixteen(value: u64) -> [u8; 16] {
    // Each digit in a byte of its own, eight at a time.
    let spread = |half: u32| {
        let x = u64::from(half);
        let x = (x | x << 16) & 0x0000_ffff_0000_ffff;
        let x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
        let x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        // A digit above nine carries into its upper half when six is added.
        let letters = ((x + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
        x + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'0' - 10)
    };
    let mut out = [0; 16];
    let (upper, lower) = out.split_at_mut(8);
    upper.copy_from_slice(&spread((value >> 32) as u32).to_be_bytes());
    lower.copy_from_slice(&spread(value as u32).to_be_bytes());
    out
}

/// How many of the sixteen digits are zeros in front; the last one is none.
#[inline]
fn zeros(value: u64) -> usize {
    ((value | 1).leading_zeros() / 4) as usize
}

/// Appends hexadecimal digits, right-aligned in sixteen columns.
#[inline]
pub(super) fn hex_padded(out: &mut Vec<u8>, value: u64) {
    let mut digits = sixteen(value);
    if let Some(front) = digits.get_mut(..zeros(value)) {
        front.fill(b' ');
    }
    out.extend_from_slice(&digits);
}

/// Appends hexadecimal digits.
#[inline]
pub(super) fn hex(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(sixteen(value).get(zeros(value)..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_standard_library_formats() {
        for value in
            [0, 1, 9, 10, 0xf, 0x10, 0xabcdef, 0x7fff_1234_5678, u64::MAX, 1 << 63, 0xa0a0_9090_f0f0_1f2e]
        {
            let mut out = Vec::new();
            hex(&mut out, value);
            out.push(b'|');
            hex_padded(&mut out, value);
            out.push(b'|');
            padded(&mut out, Digits::of(value), 10);
            assert_eq!(String::from_utf8_lossy(&out), format!("{value:x}|{value:16x}|{value:10}"));
        }
        for value in [0, -1, 7, i32::MIN, i32::MAX] {
            assert_eq!(String::from_utf8_lossy(Digits::signed(value).bytes()), value.to_string());
        }
    }
}
