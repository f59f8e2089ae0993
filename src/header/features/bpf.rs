//! BPF_PROG_INFO: the BPF programs that were loaded; BPF_BTF: their type information.

use super::reader::Reader;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::bytes::until_nul;
use crate::error::Result;

/// A program of BPF_PROG_INFO: the kernel's `struct bpf_prog_info` and the arrays it points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfProgram<'a> {
    /// Offset of the entry in the section.
    pub offset: usize,
    /// Bit set of the arrays in `data` (`PERF_BPIL_*`).
    pub arrays: u64,
    /// `struct bpf_prog_info`, as long as the recording's kernel had it; pointers are offsets into `data`.
    pub info: &'a [u8],
    /// The arrays.
    pub data: &'a [u8],
    order: ByteOrder,
}

/// Offsets in `struct bpf_prog_info` of `bpf.h`.
mod info {
    pub(super) const TYPE: usize = 0;
    pub(super) const ID: usize = 4;
    pub(super) const TAG: usize = 8;
    pub(super) const JITED_PROG_LEN: usize = 16;
    pub(super) const NAME: usize = 64;
    pub(super) const NAME_LEN: usize = 16;
}

impl<'a> BpfProgram<'a> {
    /// Type of the program (`enum bpf_prog_type`).
    pub fn program_type(&self) -> Option<u32> {
        self.order.u32(self.info, info::TYPE)
    }

    /// Id of the program.
    pub fn id(&self) -> Option<u32> {
        self.order.u32(self.info, info::ID)
    }

    /// Tag: a digest of the instructions.
    pub fn tag(&self) -> Option<&'a [u8]> {
        self.info.get(info::TAG..info::TAG + 8)
    }

    /// Bytes of the compiled program.
    pub fn jited_len(&self) -> Option<u32> {
        self.order.u32(self.info, info::JITED_PROG_LEN)
    }

    /// Name, up to 15 bytes; `None` before kernels that have one.
    pub fn name(&self) -> Option<&'a [u8]> {
        self.info.get(info::NAME..info::NAME + info::NAME_LEN).map(until_nul)
    }
}

/// Parses BPF_PROG_INFO. Errors if a program is cut short.
pub fn parse_programs(section: &[u8], order: ByteOrder) -> Result<Vec<BpfProgram<'_>>> {
    let mut r = Reader::new(Feature::BPF_PROG_INFO, section, order);
    let n = r.count(16)?;
    let one = |_| {
        let offset = r.position();
        let (info_len, data_len, arrays) = (r.u32()?, r.u32()?, r.u64()?);
        Ok(BpfProgram {
            offset,
            arrays,
            info: r.take(info_len.into())?,
            data: r.take(data_len.into())?,
            order,
        })
    };
    (0..n).map(one).collect()
}

/// An entry of BPF_BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Btf<'a> {
    /// Id of the BTF object.
    pub id: u32,
    /// The BTF data.
    pub data: &'a [u8],
}

/// Parses BPF_BTF. Errors if an entry is cut short.
pub fn parse_btf(section: &[u8], order: ByteOrder) -> Result<Vec<Btf<'_>>> {
    let mut r = Reader::new(Feature::BPF_BTF, section, order);
    let n = r.count(8)?;
    let one = |_| {
        let (id, len) = (r.u32()?, r.u32()?);
        Ok(Btf { id, data: r.take(len.into())? })
    };
    (0..n).map(one).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn programs_tell_id_tag_and_name() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut section = Vec::new();
            order.put_u32(&mut section, 1);
            order.put_u32(&mut section, 80);
            order.put_u32(&mut section, 4);
            order.put_u64(&mut section, 3);
            let mut info = Vec::new();
            order.put_u32(&mut info, 8);
            order.put_u32(&mut info, 42);
            info.extend(*b"tagtagta");
            order.put_u32(&mut info, 300);
            info.resize(64, 0);
            info.extend(b"sd_devices\0\0\0\0\0\0");
            section.extend(&info);
            section.extend(b"data");
            let programs = parse_programs(&section, order).unwrap();
            let [program] = programs.as_slice() else { unreachable!("{programs:?}") };
            assert_eq!((program.offset, program.arrays, program.data), (4, 3, &b"data"[..]));
            assert_eq!(
                (program.program_type(), program.id(), program.jited_len()),
                (Some(8), Some(42), Some(300))
            );
            assert_eq!((program.tag(), program.name()), (Some(&b"tagtagta"[..]), Some(&b"sd_devices"[..])));
            assert!(parse_programs(&section[..section.len() - 1], order).is_err());
        }
    }

    #[test]
    fn old_kernels_programs_have_no_name() {
        let order = ByteOrder::Little;
        let mut section = Vec::new();
        order.put_u32(&mut section, 1);
        order.put_u32(&mut section, 20);
        order.put_u32(&mut section, 0);
        order.put_u64(&mut section, 0);
        section.extend([0; 20]);
        assert_eq!(parse_programs(&section, order).unwrap()[0].name(), None);
    }

    #[test]
    fn btf_entries_are_id_and_bytes() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut section = Vec::new();
            for word in [2, 7, 3] {
                order.put_u32(&mut section, word);
            }
            section.extend(b"abc");
            order.put_u32(&mut section, 9);
            order.put_u32(&mut section, 0);
            assert_eq!(
                parse_btf(&section, order).unwrap(),
                [Btf { id: 7, data: b"abc" }, Btf { id: 9, data: b"" }]
            );
            order.set_u32(&mut section, 8, 100).unwrap();
            assert_eq!(parse_btf(&section, order).unwrap_err().offset(), Some(12));
        }
    }
}
