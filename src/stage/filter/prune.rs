//! Which side-band the samples that stay can need, and leaving out the rest.
//!
//! Two passes. The first notes the threads of the samples that stay ([`Needs`]) and, from all forks, whose name and maps
//! each thread had to begin with; the second leaves out what tells of no thread that is needed so ([`Prune`]):
//!
//! ```text
//! sample of thread 21 of process 20     needs threads 21 and 20
//! FORK 20 from thread 11 of process 10  so it needs 11 and 10 as well
//! ```
//!
//! Ids are taken as they are: what tells of an earlier process of the same id stays too. What tells of the kernel, of
//! guests and of idle threads stays always.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::abi::misc::CpuMode;
use crate::abi::record::RecordType;
use crate::error::{Error, Result};
use crate::event::Record;
use crate::event::task::Fork;
use crate::header::Header;
use crate::stage::{Context, Order, Stage, Verdict};

use super::sample::Sample;

/// Notes which threads the samples that come this far need. The last stage of the first pass.
#[derive(Default)]
pub struct Needs {
    threads: FxHashSet<i32>,
    /// The thread noted last: samples of one thread follow each other.
    last: Option<(i32, i32)>,
    /// Of every thread that began: its process, its parent's process and its parent.
    forks: FxHashMap<i32, Vec<[i32; 3]>>,
}

impl Needs {
    /// All threads whose records are needed, ascending or not; leaders stand for their processes.
    pub fn threads(mut self) -> FxHashSet<i32> {
        let mut open: Vec<i32> = self.threads.iter().copied().collect();
        while let Some(thread) = open.pop() {
            // Taken out, so that each is followed once.
            for other in self.forks.remove(&thread).into_iter().flatten().flatten() {
                if self.threads.insert(other) {
                    open.push(other);
                }
            }
        }
        self.threads
    }
}

impl Stage for Needs {
    fn order(&self) -> Order {
        Order::File
    }

    fn begin(&mut self, _: &Header) -> Result<()> {
        Ok(())
    }

    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        match record.ty() {
            RecordType::SAMPLE => {
                if let Some(layout) = cx.evlist.layout_of_sample(record.bytes) {
                    let ids = Sample { record, layout }.ids();
                    if self.last != Some(ids) {
                        self.last = Some(ids);
                        self.threads.extend([ids.0, ids.1]);
                    }
                }
            }
            RecordType::FORK => {
                let fork = Fork::parse(record)?;
                let parents = self.forks.entry(fork.tid).or_default();
                let new = [fork.pid, fork.ppid, fork.ptid];
                if parents.last() != Some(&new) {
                    parents.push(new);
                }
            }
            RecordType::AUXTRACE_INFO | RecordType::AUXTRACE => {
                return Err(Error::usage(
                    "--prune does not go with AUX data: samples are only made of it when it is decoded, and which maps \
                     they need is not known before",
                ));
            }
            _ => {}
        }
        Ok(Verdict::Keep)
    }
}

/// Leaves out maps, names, forks, exits and namespaces of threads that are not needed.
pub struct Prune {
    threads: FxHashSet<i32>,
}

impl Prune {
    /// Keeps what tells of these threads.
    pub fn new(threads: FxHashSet<i32>) -> Prune {
        Prune { threads }
    }

    fn needs(&self, id: Option<u32>) -> bool {
        id.map(u32::cast_signed).is_none_or(|id| id <= 0 || self.threads.contains(&id))
    }
}

impl Stage for Prune {
    fn order(&self) -> Order {
        Order::File
    }

    fn begin(&mut self, _: &Header) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn record(&mut self, record: Record<'_>, _: &mut Context<'_>) -> Result<Verdict> {
        // COMM, MMAP, MMAP2 and NAMESPACES begin with pid and tid; FORK and EXIT with pid, ppid, tid, ptid.
        let body = record.body();
        let needed = match record.ty() {
            RecordType::MMAP | RecordType::MMAP2 => {
                !matches!(record.cpumode(), CpuMode::User | CpuMode::Unknown)
                    || self.needs(record.order.u32(body, 0))
            }
            RecordType::COMM | RecordType::NAMESPACES => self.needs(record.order.u32(body, 4)),
            RecordType::FORK | RecordType::EXIT => self.needs(record.order.u32(body, 8)),
            _ => true,
        };
        Ok(if needed { Verdict::Keep } else { Verdict::Drop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_follow_forks_to_their_first() {
        let mut needs = Needs::default();
        for (tid, parents) in [(21, [20, 20, 20]), (20, [20, 10, 11]), (11, [10, 10, 10]), (30, [30, 20, 21])]
        {
            needs.forks.entry(tid).or_default().push(parents);
        }
        // A fork of itself does not go on for ever.
        needs.forks.entry(10).or_default().push([10, 10, 10]);
        needs.threads.extend([20, 21]);
        let mut threads: Vec<i32> = needs.threads().into_iter().collect();
        threads.sort_unstable();
        assert_eq!(threads, [10, 11, 20, 21]);
    }
}
