//! Builds recordings record by record, in either byte order. Deterministic: nothing is taken from this machine.

mod attr;
mod kernel;
mod map;
mod sample;
mod user;

pub use self::attr::AttrSpec;
pub use self::map::Map;
pub use self::sample::{Branch, Read, Sample};
use std::collections::BTreeMap;

use super::recording::{BuildId, Container, Record, Recording};
use super::recording::{feature, misc, st};
use super::wire::{Bytes, Order};
use super::write::record;

/// What the trailer of the next records says.
#[derive(Clone, Copy, Debug)]
pub struct SampleId {
    pub pid: u32,
    pub tid: u32,
    pub time: u64,
    pub id: u64,
    pub stream_id: u64,
    pub cpu: u32,
}

/// A recording under construction. Each call appends one record; trailers follow the first attr and [`Builder::at`].
#[derive(Clone, Debug)]
pub struct Builder {
    pub recording: Recording,
    pub id: SampleId,
}

impl Builder {
    pub fn new(order: Order) -> Self {
        Builder {
            recording: Recording {
                order,
                container: Container::File,
                attrs: Vec::new(),
                event_types: Vec::new(),
                features: BTreeMap::new(),
                records: Vec::new(),
            },
            id: SampleId { pid: 0, tid: 0, time: 0, id: 1, stream_id: 0, cpu: 0 },
        }
    }

    /// A recording of one event of the given kind.
    pub fn with(order: Order, attr: &AttrSpec) -> Self {
        Builder::new(order).attr(attr)
    }

    pub fn order(&self) -> Order {
        self.recording.order
    }

    pub fn finish(self) -> Recording {
        self.recording
    }

    /// The recording in file format.
    pub fn file(&self) -> Vec<u8> {
        self.recording.to_file()
    }

    /// The recording in pipe format.
    pub fn pipe(&self) -> Vec<u8> {
        self.recording.to_pipe()
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes::new(self.order())
    }

    pub fn attr(mut self, spec: &AttrSpec) -> Self {
        self.recording.attrs.push(spec.build(self.order()));
        self
    }

    /// Adds a feature section of the given bytes; any bit from 0 to 255.
    pub fn feature(mut self, id: u32, raw: &[u8]) -> Self {
        self.recording.features.insert(id, raw.to_vec());
        self
    }

    /// Adds a feature section that holds one string.
    pub fn feature_string(self, id: u32, text: &str) -> Self {
        let raw = self.bytes().string(text).take();
        self.feature(id, &raw)
    }

    /// Host name, release, version, architecture and command line of a machine that is not this one.
    pub fn identity(self) -> Self {
        let args = self.bytes().u32(3).string("perf").string("record").string("work").take();
        let cpus = self.bytes().u32(4).u32(4).take();
        self.feature_string(feature::HOSTNAME, "elsewhere.example")
            .feature_string(feature::OSRELEASE, "6.1.0-made")
            .feature_string(feature::VERSION, "6.1.made")
            .feature_string(feature::ARCH, "s390x")
            .feature(feature::NRCPUS, &cpus)
            .feature(feature::CMDLINE, &args)
    }

    /// Adds a build-id table of proper entries.
    pub fn build_id_table(self, entries: &[BuildId]) -> Self {
        let raw = entries.iter().flat_map(|e| build_id_entry(self.order(), e, 0)).collect::<Vec<_>>();
        self.feature(feature::BUILD_ID, &raw)
    }

    /// Adds names for the events, whose attrs are all there.
    pub fn event_desc(self, names: &[&str]) -> Self {
        let attrs = self.recording.attrs.clone();
        let mut b = self.bytes();
        b.u32(names.len() as u32).u32(attrs[0].raw.len() as u32);
        for (attr, name) in attrs.iter().zip(names) {
            b.raw(&attr.raw).u32(attr.ids.len() as u32).string(name).u64s(attr.ids.iter().copied());
        }
        self.feature(feature::EVENT_DESC, &b.out)
    }

    /// Adds an `event_types` section, as files before 3.9 have: entries of an id and 64 bytes of name.
    pub fn event_type_section(mut self, types: &[(u64, &str)]) -> Self {
        let mut b = self.bytes();
        for &(id, name) in types {
            b.u64(id).fixed(name, 64);
        }
        self.recording.event_types = b.out;
        self
    }

    /// Time, process and thread of the trailers from here on.
    pub fn at(mut self, pid: u32, tid: u32, time: u64) -> Self {
        self.id = SampleId { pid, tid, time, ..self.id };
        self
    }

    pub(super) fn trailer(&self, b: &mut Bytes) {
        let order = self.order();
        let Some(a) = self.recording.attrs.first().filter(|a| a.sample_id_all(order)) else { return };
        let bits = a.sample_type(order);
        let id = &self.id;
        let words = [(st::TIME, id.time), (st::ID, id.id), (st::STREAM_ID, id.stream_id)];
        if bits & st::TID != 0 {
            b.u32(id.pid).u32(id.tid);
        }
        b.u64s(words.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, v)| v));
        if bits & st::CPU != 0 {
            b.u32(id.cpu).u32(0);
        }
        if bits & st::IDENTIFIER != 0 {
            b.u64(id.id);
        }
    }

    /// Appends a record of any type from its bytes; no trailer is added.
    pub fn raw(mut self, kind: u32, misc: u16, body: &[u8]) -> Self {
        let r = record(self.order(), kind, misc, body);
        self.recording.records.push(r);
        self
    }

    /// A record of simpleperf's own, whose size has 32 bits: the upper half stands where misc would.
    pub fn long_simpleperf_record(mut self, kind: u32, size: usize) -> Self {
        let mut b = self.bytes();
        b.u32(kind).u16((size >> 16) as u16).u16(size as u16);
        b.out.resize(size, 0x5a);
        self.recording.records.push(Record { bytes: b.out, payload: Vec::new() });
        self
    }

    pub(super) fn push(self, kind: u32, misc: u16, write: impl FnOnce(&mut Bytes)) -> Self {
        let mut b = self.bytes();
        write(&mut b);
        self.raw(kind, misc, &b.out)
    }

    pub(super) fn kernel(self, kind: u32, misc: u16, write: impl FnOnce(&mut Bytes)) -> Self {
        let mut b = self.bytes();
        write(&mut b);
        self.trailer(&mut b);
        self.raw(kind, misc, &b.out)
    }

    // ---- what the kernel writes
}

/// A build-id entry as the table and the record share it, with the size kept in the flag and the size byte.
pub fn build_id_entry(order: Order, e: &BuildId, kind: u32) -> Vec<u8> {
    assert!(e.id.len() <= 20);
    let mut b = Bytes::new(order);
    let name = (e.name.len() + 1).next_multiple_of(64);
    let mut id = e.id.clone();
    id.resize(20, 0);
    let size = if e.misc & misc::BUILD_ID_SIZE != 0 { e.id.len() as u8 } else { 0 };
    b.u32(kind).u16(e.misc).u16((36 + name) as u16).u32(e.pid as u32);
    b.raw(&id).u8(size).raw(&[0; 3]).fixed(&e.name, name);
    b.out
}

/// A user DSO's entry whose size is told.
pub fn build_id(name: &str, id: &[u8]) -> BuildId {
    BuildId { misc: misc::USER | misc::BUILD_ID_SIZE, pid: -1, id: id.to_vec(), name: name.to_owned() }
}
