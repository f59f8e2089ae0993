//! Records for a plugin to see, as bytes.

use super::super::record::Order;
use super::super::{COMM, MMAP2, SAMPLE};

/// A sample to be built: pid, tid, time, CPU, period and a callchain, as `perf record -g --sample-cpu` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the fields are")]
pub struct Sample {
    pub ip: u64,
    pub pid: i32,
    pub tid: i32,
    pub time: u64,
    pub cpu: i32,
    pub period: u64,
    pub evsel: u32,
    pub callchain: Vec<u64>,
}

impl Default for Sample {
    fn default() -> Self {
        Sample { ip: 0x1000, pid: 1, tid: 1, time: 1, cpu: 0, period: 1, evsel: 0, callchain: Vec::new() }
    }
}

pub(super) const IP: usize = 8;
pub(super) const TIME: usize = 24;
pub(super) const PERIOD: usize = 40;
pub(super) const CHAIN: usize = 56;

impl Sample {
    /// As a record, in little-endian order.
    pub fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend(self.ip.to_le_bytes());
        body.extend(self.pid.to_le_bytes());
        body.extend(self.tid.to_le_bytes());
        body.extend(self.time.to_le_bytes());
        body.extend(self.cpu.to_le_bytes());
        body.extend([0; 4]);
        body.extend(self.period.to_le_bytes());
        body.extend((self.callchain.len() as u64).to_le_bytes());
        body.extend(self.callchain.iter().flat_map(|ip| ip.to_le_bytes()));
        record(SAMPLE, 2, &body)
    }

    /// From a record that [`Sample::bytes`] could have made.
    pub fn parse(bytes: &[u8]) -> Option<Sample> {
        let order = Order::Little;
        let half = |at| order.u32(bytes, at).map(u32::cast_signed);
        let count = usize::try_from(order.u64(bytes, CHAIN - 8)?).ok()?;
        let callchain: Option<_> = (0..count).map(|n| order.u64(bytes, CHAIN + n * 8)).collect();
        Some(Sample {
            ip: order.u64(bytes, IP)?,
            pid: half(16)?,
            tid: half(20)?,
            time: order.u64(bytes, TIME)?,
            cpu: half(32)?,
            period: order.u64(bytes, PERIOD)?,
            evsel: 0,
            callchain: callchain?,
        })
    }
}

/// A record of a type, with a misc word and a body, in little-endian order.
pub fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend(misc.to_le_bytes());
    out.extend(((body.len() + 8) as u16).to_le_bytes());
    out.extend_from_slice(body);
    out
}

/// A COMM record of a thread.
pub fn comm(pid: i32, name: &str) -> Vec<u8> {
    let mut body = [pid.to_le_bytes(), pid.to_le_bytes()].concat();
    body.extend_from_slice(name.as_bytes());
    body.resize(8 + (name.len() + 1).next_multiple_of(8), 0);
    record(COMM, 0, &body)
}

/// A MMAP2 record of a path, at an address.
pub fn mmap2(pid: i32, start: u64, path: &str) -> Vec<u8> {
    let mut body = [pid.to_le_bytes(), pid.to_le_bytes()].concat();
    body.extend([start, 0x1000, 0].iter().flat_map(|word| word.to_le_bytes()));
    body.extend([0; 24]);
    body.extend([5u32, 2].iter().flat_map(|word| word.to_le_bytes()));
    body.extend_from_slice(path.as_bytes());
    body.resize(64 + (path.len() + 1).next_multiple_of(8), 0);
    record(MMAP2, 2, &body)
}
