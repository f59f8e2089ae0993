//! The generation of an inode, which tells a file from an earlier one that had the same inode number.
#![allow(unsafe_code, reason = "an ioctl whose argument type the kernel fixes")]

use std::ffi::{c_int, c_long};
use std::os::fd::AsFd;

use rustix::ioctl::{Getter, ioctl, opcode};

/// `FS_IOC_GETVERSION` of `linux/fs.h`, declared with a long but answered with an int.
type GetVersion = Getter<{ opcode::read::<c_long>(b'v', 1) }, c_int>;

/// The generation of an open file's inode, as MMAP2 records carry it; `None` where the file system has none.
pub fn inode_generation(fd: impl AsFd) -> Option<u64> {
    // SAFETY: every file system that knows this request writes one int, for which `Getter` makes room; a
    // file system that does not know it fails with ENOTTY. The descriptor is of a regular file or not, which
    // the request does not care about, and nothing else of this process's memory is passed.
    let generation = unsafe { ioctl(fd, GetVersion::new()) }.ok()?;
    let generation = u64::from(generation.cast_unsigned());
    (generation != 0).then_some(generation)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_keeps_its_generation_and_another_file_has_another() {
        let (a, b) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let Some(generation) = inode_generation(&a) else {
            eprintln!("skipped: the file system of temporary files has no generations");
            return;
        };
        assert_eq!(inode_generation(a.try_clone().unwrap()), Some(generation));
        // btrfs numbers by transaction, which both files may share
        if let Some(other) = inode_generation(&b).filter(|other| *other > u64::from(u16::MAX)) {
            assert_ne!(other, generation);
        }
    }

    #[test]
    fn what_has_no_inode_of_a_file_system_has_no_generation() {
        let (pipe, _writer) = std::io::pipe().unwrap();
        assert_eq!(inode_generation(&pipe), None);
    }
}
