//! CACHE: the machine's CPU caches, as sysfs describes them.

use super::reader::Reader;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// A cache, which several CPUs may share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLevel {
    /// 1 is the nearest to the CPU.
    pub level: u32,
    /// Bytes of a line.
    pub line_size: u32,
    /// Number of sets.
    pub sets: u32,
    /// Ways of associativity.
    pub ways: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size such as `32K`.
    pub size: String,
    /// List of the CPUs that share it.
    pub cpus: String,
}

/// Parses the section. Errors if its version is not 1, or caches announced are not all there.
pub fn parse(section: &[u8], order: ByteOrder) -> Result<Vec<CacheLevel>> {
    let mut r = Reader::new(Feature::CACHE, section, order);
    let version = r.u32()?;
    if version != 1 {
        return Err(r.corrupt(0, format!("version {version}, only 1 is known")));
    }
    let n = r.count(28)?;
    let one = |_| {
        Ok(CacheLevel {
            level: r.u32()?,
            line_size: r.u32()?,
            sets: r.u32()?,
            ways: r.u32()?,
            kind: r.string()?,
            size: r.string()?,
            cpus: r.string()?,
        })
    };
    (0..n).map(one).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::strings;
    use super::*;

    #[test]
    fn caches_are_described_field_by_field() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut section = Vec::new();
            for word in [1, 1, 2, 64, 1024, 16] {
                order.put_u32(&mut section, word);
            }
            for word in ["Unified", "1024K", "0-1"] {
                strings::emit(word.as_bytes(), order, &mut section);
            }
            let expected = CacheLevel {
                level: 2,
                line_size: 64,
                sets: 1024,
                ways: 16,
                kind: "Unified".into(),
                size: "1024K".into(),
                cpus: "0-1".into(),
            };
            assert_eq!(parse(&section, order).unwrap(), [expected]);
            order.set_u32(&mut section, 0, 2).unwrap();
            assert_eq!(parse(&section, order).unwrap_err().offset(), Some(0));
        }
    }
}
