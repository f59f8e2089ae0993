//! A thread, and which address space it runs in.

use std::sync::Arc;

/// An address space of a machine; valid while a thread runs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpaceId(pub(super) u32);

/// A thread as of a moment of the recording.
#[derive(Clone, Debug)]
pub struct Thread {
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) ppid: i32,
    pub(super) comm: Option<Arc<[u8]>>,
    pub(super) space: SpaceId,
    pub(super) mount_namespace: Option<(u64, u64)>,
    pub(super) has_exited: bool,
    // Tells this thread from a later one that gets the same tid.
    pub(super) serial: u64,
}

impl Thread {
    /// Process id; -1 if no record has said yet.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Thread id.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Process id of the parent; -1 if unknown.
    pub fn ppid(&self) -> i32 {
        self.ppid
    }

    /// The name, if a record gave one to it or to an ancestor.
    pub fn comm(&self) -> Option<&Arc<[u8]>> {
        self.comm.as_ref()
    }

    /// The address space, which all threads of a process share.
    pub fn space(&self) -> SpaceId {
        self.space
    }

    /// Device and inode of the mount namespace, if a NAMESPACES record gave them.
    pub fn mount_namespace(&self) -> Option<(u64, u64)> {
        self.mount_namespace
    }

    /// Whether an EXIT record was seen.
    pub fn has_exited(&self) -> bool {
        self.has_exited
    }
}
