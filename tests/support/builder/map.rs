//! A mapping of a recording.

use super::super::recording::misc;

/// A mapping.
#[derive(Clone, Debug)]
pub struct Map<'a> {
    pub misc: u16,
    pub pid: u32,
    pub tid: u32,
    pub start: u64,
    pub len: u64,
    pub pgoff: u64,
    pub maj: u32,
    pub min: u32,
    pub ino: u64,
    pub generation: u64,
    pub prot: u32,
    pub flags: u32,
    pub name: &'a str,
}

impl<'a> Map<'a> {
    /// Executable, private, of a user process, from the file's start; no inode told.
    pub fn exec(pid: u32, start: u64, len: u64, name: &'a str) -> Self {
        Map {
            misc: misc::USER,
            pid,
            tid: pid,
            start,
            len,
            pgoff: 0,
            maj: 0,
            min: 0,
            ino: 0,
            generation: 0,
            prot: 5,
            flags: 2,
            name,
        }
    }

    /// The kernel's text as perf synthesizes it.
    pub fn kernel(start: u64, len: u64) -> Map<'static> {
        let name = "[kernel.kallsyms]_text";
        Map { misc: misc::KERNEL, pgoff: start, prot: 0, flags: 0, ..Map::exec(u32::MAX, start, len, name) }
    }

    pub fn inode(mut self, maj: u32, min: u32, ino: u64, generation: u64) -> Self {
        (self.maj, self.min, self.ino, self.generation) = (maj, min, ino, generation);
        self
    }
}
