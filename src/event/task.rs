//! COMM, FORK, EXIT and NAMESPACES records.

use super::Record;
use crate::abi::misc;
use crate::bytes::{Cursor, Short, until_nul};
use crate::error::Result;
use crate::evlist::TrailerLayout;

/// A thread's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm<'a> {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Whether the thread called exec: its address space is new.
    pub exec: bool,
    /// The name, without its NUL.
    pub comm: &'a [u8],
}

impl<'a> Comm<'a> {
    /// Parses a COMM record.
    pub fn parse(record: Record<'a>, trailer: &TrailerLayout) -> Result<Comm<'a>> {
        let (body, _) = record.split_trailer(trailer);
        let parse = || -> Result<Comm<'a>, Short> {
            let mut c = Cursor::new(body, record.order);
            let (pid, tid) = (c.u32()? as i32, c.u32()? as i32);
            Ok(Comm { pid, tid, exec: record.misc() & misc::COMM_EXEC != 0, comm: until_nul(c.rest()) })
        };
        parse().map_err(|short| record.error(format!("too short: {short}")))
    }
}

/// A thread or process that began (FORK) or ended (EXIT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Process id.
    pub pid: i32,
    /// Parent's process id.
    pub ppid: i32,
    /// Thread id.
    pub tid: i32,
    /// Parent's thread id.
    pub ptid: i32,
    /// Time, ns.
    pub time: u64,
    /// Whether perf synthesized it for a process that has called exec since, so that maps are not inherited.
    pub exec: bool,
}

impl Fork {
    /// Parses a FORK or EXIT record.
    pub fn parse(record: Record<'_>) -> Result<Fork> {
        let parse = || -> Result<Fork, Short> {
            let mut c = Cursor::new(record.body(), record.order);
            Ok(Fork {
                pid: c.u32()? as i32,
                ppid: c.u32()? as i32,
                tid: c.u32()? as i32,
                ptid: c.u32()? as i32,
                time: c.u64()?,
                exec: record.misc() & misc::FORK_EXEC != 0,
            })
        };
        parse().map_err(|short| record.error(format!("too short: {short}")))
    }
}

/// Namespaces of a thread: device and inode, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// (device, inode) in the order net, uts, ipc, pid, user, mnt, cgroup, time.
    pub links: Vec<(u64, u64)>,
}

impl Namespaces {
    /// Index of the mount namespace in `links`.
    pub const MNT: usize = 5;

    /// Parses a NAMESPACES record.
    pub fn parse(record: Record<'_>, trailer: &TrailerLayout) -> Result<Namespaces> {
        let (body, _) = record.split_trailer(trailer);
        let parse = || -> Result<Namespaces, Short> {
            let mut c = Cursor::new(body, record.order);
            let (pid, tid) = (c.u32()? as i32, c.u32()? as i32);
            let count = usize::try_from(c.u64()?).unwrap_or(usize::MAX);
            // Bounded by the bytes that are there, whatever the count says.
            let mut links = Vec::new();
            for _ in 0..count.min(c.remaining() / 16) {
                links.push((c.u64()?, c.u64()?));
            }
            Ok(Namespaces { pid, tid, links })
        };
        parse().map_err(|short| record.error(format!("too short: {short}")))
    }
}
