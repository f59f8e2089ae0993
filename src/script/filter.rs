//! Which samples are shown.

use rustc_hash::FxHashSet;

use super::time::Spans;
use crate::error::{Error, Result};

/// Conditions that samples must meet; an empty set is no condition.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// When.
    pub time: Spans,
    /// Process ids.
    pub pids: FxHashSet<i32>,
    /// Thread ids.
    pub tids: FxHashSet<i32>,
    /// Names of threads.
    pub comms: FxHashSet<Box<[u8]>>,
    /// CPUs; samples that name none pass.
    pub cpus: Vec<(u32, u32)>,
}

/// Most CPUs that `--cpu` can name, as in perf.
const MOST_CPUS: u32 = 4096;

impl Filter {
    /// Parses a list of CPUs: numbers and ranges, separated by commas.
    pub fn parse_cpus(text: &str) -> Result<Vec<(u32, u32)>> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last && last < MOST_CPUS).then_some((first, last))
        };
        let bad = || Error::usage(format!("{text} is no list of CPUs")).hint("such as 0-3,7");
        text.split(',').map(|part| range(part).ok_or_else(bad)).collect()
    }

    /// Parses a list of ids.
    pub fn parse_ids(text: &str) -> Result<FxHashSet<i32>> {
        let bad = || Error::usage(format!("{text:?} is no list of ids (such as 17,42)"));
        text.split(',').map(|part| part.trim().parse().map_err(|_| bad())).collect()
    }

    /// Whether the CPU passes.
    #[inline]
    pub fn cpu(&self, cpu: Option<u32>) -> bool {
        let within = |cpu: u32| self.cpus.iter().any(|&(first, last)| first <= cpu && cpu <= last);
        self.cpus.is_empty() || cpu.is_none_or(within)
    }

    /// Whether the thread passes.
    #[inline]
    pub fn thread(&self, pid: i32, tid: i32) -> bool {
        (self.pids.is_empty() || self.pids.contains(&pid))
            && (self.tids.is_empty() || self.tids.contains(&tid))
    }

    /// Whether the thread's name passes.
    #[inline]
    pub fn comm(&self, comm: &[u8]) -> bool {
        self.comms.is_empty() || self.comms.contains(comm)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(Filter::parse_cpus("0-3,7").unwrap(), [(0, 3), (7, 7)]);
        assert!(Filter::parse_cpus("3-1").is_err() && Filter::parse_cpus("").is_err());
        assert_eq!(Filter::parse_ids("1, 20").unwrap().len(), 2);
        assert!(Filter::parse_ids("1,x").is_err());
        let filter = Filter { cpus: vec![(0, 3)], ..Filter::default() };
        assert!(filter.cpu(Some(3)) && filter.cpu(None) && !filter.cpu(Some(4)));
    }
}
