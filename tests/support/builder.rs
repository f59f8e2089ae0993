//! Builds recordings record by record, in either byte order. Deterministic: nothing is taken from this machine.

use std::collections::BTreeMap;

use super::recording::{Attr, BRANCH_FIELDS, BuildId, Container, Record, Recording, bitfield_big};
use super::recording::{branch, feature, flag, kind, misc, rf, st};
use super::wire::{Bytes, Order};
use super::write::record;

/// An attr under construction.
#[derive(Clone, Debug)]
pub struct AttrSpec {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    /// Bits as little-endian numbers them; on a big-endian recording they are laid out as its compiler does.
    pub flags: u64,
    pub branch_sample_type: u64,
    pub regs_user: u64,
    pub regs_intr: u64,
    pub stack_user: u32,
    pub ids: Vec<u64>,
    /// Bytes that stand beyond the fields known here, up to `size`.
    pub beyond: u8,
}

impl AttrSpec {
    /// cpu-clock with side-band records, their trailers, and the given sample fields.
    pub fn new(sample_type: u64) -> Self {
        AttrSpec {
            kind: 1,
            size: 136,
            config: 0,
            period: 250_000,
            sample_type,
            read_format: rf::ID,
            flags: flag::MMAP | flag::COMM | flag::TASK | flag::MMAP2 | flag::SAMPLE_ID_ALL,
            branch_sample_type: 0,
            regs_user: 0,
            regs_intr: 0,
            stack_user: 0,
            ids: vec![1],
            beyond: 0,
        }
    }

    /// IP, TID, TIME, ID and PERIOD.
    pub fn plain() -> Self {
        AttrSpec::new(st::IP | st::TID | st::TIME | st::ID | st::PERIOD)
    }

    /// Every sample field, both register sets, branch counters and hardware index, group reads with all their words.
    pub fn everything() -> Self {
        let mut a = AttrSpec::new(st::ALL);
        a.read_format = rf::TIME_ENABLED | rf::TIME_RUNNING | rf::ID | rf::GROUP | rf::LOST;
        a.branch_sample_type = branch::HW_INDEX | branch::COUNTERS;
        a.regs_user = 0b1_0000_0110;
        a.regs_intr = 0b11;
        a.stack_user = 64;
        a
    }

    pub fn ids(mut self, ids: impl IntoIterator<Item = u64>) -> Self {
        self.ids = ids.into_iter().collect();
        self
    }

    /// Size of the attr in bytes; what is past the known fields is filled with `beyond`.
    pub fn size(mut self, size: u32, beyond: u8) -> Self {
        self.size = size;
        self.beyond = beyond;
        self
    }

    pub fn read_format(mut self, bits: u64) -> Self {
        self.read_format = bits;
        self
    }

    pub fn flags(mut self, bits: u64) -> Self {
        self.flags = bits;
        self
    }

    pub fn branch(mut self, bits: u64) -> Self {
        self.branch_sample_type = bits;
        self
    }

    fn build(&self, order: Order) -> Attr {
        let mut b = Bytes::new(order);
        b.u32(self.kind).u32(self.size).u64(self.config).u64(self.period);
        b.u64(self.sample_type).u64(self.read_format);
        b.u64(match order {
            Order::Little => self.flags,
            Order::Big => super::recording::flags_big(self.flags),
        });
        b.u32(1).u32(0).u64(0).u64(0).u64(self.branch_sample_type).u64(self.regs_user);
        b.u32(self.stack_user).u32(0).u64(self.regs_intr).u32(0).u16(127).u16(0);
        b.u32(0).u32(0).u64(0).u64(0);
        b.out.resize(self.size as usize, self.beyond);
        Attr { raw: b.out, ids: self.ids.clone() }
    }
}

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

/// Values of a read: of one counter, or of a group's members.
#[derive(Clone, Debug, Default)]
pub struct Read {
    pub time_enabled: u64,
    pub time_running: u64,
    /// Value, id, lost; which are written is the read format's.
    pub values: Vec<[u64; 3]>,
}

/// One entry of a branch stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Branch {
    pub from: u64,
    pub to: u64,
    /// Bit fields as little-endian lays them out.
    pub flags: u64,
    pub counters: u64,
}

/// All that a sample may hold; only what the attr's `sample_type` names is written.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub misc: u16,
    pub ip: u64,
    pub pid: u32,
    pub tid: u32,
    pub time: u64,
    pub addr: u64,
    pub id: u64,
    pub stream_id: u64,
    pub cpu: u32,
    pub period: u64,
    pub read: Read,
    pub callchain: Vec<u64>,
    /// Such that with its size word it is a multiple of eight; padded otherwise.
    pub raw: Vec<u8>,
    pub hw_idx: u64,
    pub branches: Vec<Branch>,
    pub user_abi: u64,
    pub user_regs: Vec<u64>,
    pub stack: Vec<u8>,
    pub stack_dyn_size: u64,
    pub weight: u64,
    pub data_src: u64,
    pub transaction: u64,
    pub intr_abi: u64,
    pub intr_regs: Vec<u64>,
    pub phys_addr: u64,
    pub cgroup: u64,
    pub data_page_size: u64,
    pub code_page_size: u64,
    pub aux: Vec<u8>,
}

impl Sample {
    /// A sample in user space.
    pub fn user(pid: u32, ip: u64, time: u64) -> Self {
        Sample { misc: misc::USER, ip, pid, tid: pid, time, id: 1, period: 1, ..Sample::default() }
    }

    /// A sample in the kernel.
    pub fn kernel(pid: u32, ip: u64, time: u64) -> Self {
        Sample { misc: misc::KERNEL, ..Sample::user(pid, ip, time) }
    }

    /// A sample with something in every field.
    pub fn full(pid: u32, ip: u64, time: u64) -> Self {
        Sample {
            addr: 0x1111_2222_3333_4444,
            stream_id: 77,
            cpu: 3,
            period: 4000,
            read: Read { time_enabled: 500, time_running: 400, values: vec![[10, 1, 0], [20, 2, 5]] },
            callchain: vec![0xffff_ffff_ffff_fe00, ip, ip + 0x40],
            raw: b"twelve bytes".to_vec(),
            hw_idx: 9,
            branches: vec![
                Branch { from: ip + 8, to: ip, flags: 0x0123_4561, counters: 0x55 },
                Branch { from: ip + 16, to: ip + 4, flags: 2, counters: 0xaa },
            ],
            user_abi: 2,
            user_regs: vec![0x7ffc_0000_1000, 0x7ffc_0000_2000, ip],
            stack: (0..64).collect(),
            stack_dyn_size: 48,
            weight: 0x0001_0002_0000_0003,
            data_src: 0x6810_0142,
            transaction: 0x1_0000_0001,
            intr_abi: 2,
            intr_regs: vec![1, 2],
            phys_addr: 0x1234_5000,
            cgroup: 42,
            data_page_size: 4096,
            code_page_size: 0x20_0000,
            aux: vec![0xa5; 24],
            ..Sample::user(pid, ip, time)
        }
    }

    pub fn chain(mut self, ips: impl IntoIterator<Item = u64>) -> Self {
        self.callchain = ips.into_iter().collect();
        self
    }

    pub fn tid(mut self, tid: u32) -> Self {
        self.tid = tid;
        self
    }

    pub fn event(mut self, id: u64) -> Self {
        self.id = id;
        self
    }

    /// Encodes the body by an attr's layout bits.
    pub fn encode(&self, a: &Attr, order: Order) -> Vec<u8> {
        let bits = a.sample_type(order);
        let has = |bit| bits & bit != 0;
        let mut b = Bytes::new(order);
        for (bit, value) in [(st::IDENTIFIER, self.id), (st::IP, self.ip)] {
            if has(bit) {
                b.u64(value);
            }
        }
        if has(st::TID) {
            b.u32(self.pid).u32(self.tid);
        }
        let words = [
            (st::TIME, self.time),
            (st::ADDR, self.addr),
            (st::ID, self.id),
            (st::STREAM_ID, self.stream_id),
        ];
        for (bit, value) in words {
            if has(bit) {
                b.u64(value);
            }
        }
        if has(st::CPU) {
            b.u32(self.cpu).u32(0);
        }
        if has(st::PERIOD) {
            b.u64(self.period);
        }
        if has(st::READ) {
            self.read.encode(&mut b, a.read_format(order));
        }
        if has(st::CALLCHAIN) {
            b.u64(self.callchain.len() as u64).u64s(self.callchain.iter().copied());
        }
        if has(st::RAW) {
            let size = (4 + self.raw.len()).next_multiple_of(8) - 4;
            b.u32(size as u32).raw(&self.raw).pad8();
        }
        if has(st::BRANCH_STACK) {
            self.encode_branches(&mut b, a.branch_sample_type(order));
        }
        if has(st::REGS_USER) {
            self.encode_regs(&mut b, self.user_abi, &self.user_regs, a.regs_user(order));
        }
        if has(st::STACK_USER) {
            b.u64(self.stack.len() as u64).raw(&self.stack);
            if !self.stack.is_empty() {
                b.u64(self.stack_dyn_size);
            }
        }
        let words = [
            (st::WEIGHT | st::WEIGHT_STRUCT, self.weight),
            (st::DATA_SRC, self.data_src),
            (st::TRANSACTION, self.transaction),
        ];
        for (bit, value) in words {
            if has(bit) {
                b.u64(value);
            }
        }
        if has(st::REGS_INTR) {
            self.encode_regs(&mut b, self.intr_abi, &self.intr_regs, a.regs_intr(order));
        }
        let words = [
            (st::PHYS_ADDR, self.phys_addr),
            (st::CGROUP, self.cgroup),
            (st::DATA_PAGE_SIZE, self.data_page_size),
            (st::CODE_PAGE_SIZE, self.code_page_size),
        ];
        for (bit, value) in words {
            if has(bit) {
                b.u64(value);
            }
        }
        if has(st::AUX) {
            b.u64(self.aux.len() as u64).raw(&self.aux);
        }
        b.out
    }

    fn encode_branches(&self, b: &mut Bytes, bits: u64) {
        b.u64(self.branches.len() as u64);
        if bits & branch::HW_INDEX != 0 {
            b.u64(self.hw_idx);
        }
        for e in &self.branches {
            let flags = match b.order {
                Order::Little => e.flags,
                Order::Big => bitfield_big(e.flags, &BRANCH_FIELDS),
            };
            b.u64(e.from).u64(e.to).u64(flags);
        }
        if bits & branch::COUNTERS != 0 {
            b.u64s(self.branches.iter().map(|e| e.counters));
        }
    }

    fn encode_regs(&self, b: &mut Bytes, abi: u64, regs: &[u64], mask: u64) {
        b.u64(abi);
        if abi != 0 {
            assert_eq!(regs.len(), mask.count_ones() as usize, "as many registers as the mask has bits");
            b.u64s(regs.iter().copied());
        }
    }
}

impl Read {
    fn encode(&self, b: &mut Bytes, format: u64) {
        let has = |bit| format & bit != 0;
        let values = if has(rf::GROUP) { &self.values[..] } else { &self.values[..1.min(self.values.len())] };
        if has(rf::GROUP) {
            b.u64(values.len() as u64);
        } else if values.is_empty() {
            b.u64(0);
        } else {
            b.u64(values[0][0]);
        }
        if has(rf::TIME_ENABLED) {
            b.u64(self.time_enabled);
        }
        if has(rf::TIME_RUNNING) {
            b.u64(self.time_running);
        }
        for v in values {
            let words = [(rf::GROUP, v[0]), (rf::ID, v[1]), (rf::LOST, v[2])];
            b.u64s(words.into_iter().filter(|(bit, _)| has(*bit)).map(|(_, v)| v));
        }
        if values.is_empty() && !has(rf::GROUP) {
            b.u64s([rf::ID, rf::LOST].into_iter().filter(|&bit| has(bit)).map(|_| 0));
        }
    }
}

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

    fn bytes(&self) -> Bytes {
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

    fn trailer(&self, b: &mut Bytes) {
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

    fn push(self, kind: u32, misc: u16, write: impl FnOnce(&mut Bytes)) -> Self {
        let mut b = self.bytes();
        write(&mut b);
        self.raw(kind, misc, &b.out)
    }

    fn kernel(self, kind: u32, misc: u16, write: impl FnOnce(&mut Bytes)) -> Self {
        let mut b = self.bytes();
        write(&mut b);
        self.trailer(&mut b);
        self.raw(kind, misc, &b.out)
    }

    // ---- what the kernel writes

    pub fn mmap(self, m: &Map<'_>) -> Self {
        self.kernel(kind::MMAP, m.misc, |b| {
            b.u32(m.pid).u32(m.tid).u64(m.start).u64(m.len).u64(m.pgoff).name(m.name);
        })
    }

    pub fn mmap2(self, m: &Map<'_>) -> Self {
        self.kernel(kind::MMAP2, m.misc, |b| {
            b.u32(m.pid).u32(m.tid).u64(m.start).u64(m.len).u64(m.pgoff);
            b.u32(m.maj).u32(m.min).u64(m.ino).u64(m.generation).u32(m.prot).u32(m.flags).name(m.name);
        })
    }

    /// A mapping with its build-id where device and inode would stand.
    pub fn mmap2_build_id(self, m: &Map<'_>, id: &[u8]) -> Self {
        self.kernel(kind::MMAP2, m.misc | misc::MMAP_BUILD_ID, |b| {
            b.u32(m.pid).u32(m.tid).u64(m.start).u64(m.len).u64(m.pgoff);
            let mut field = id.to_vec();
            field.resize(20, 0);
            b.u8(id.len() as u8).u8(0).u16(0).raw(&field).u32(m.prot).u32(m.flags).name(m.name);
        })
    }

    pub fn lost(self, id: u64, lost: u64) -> Self {
        self.kernel(kind::LOST, 0, |b| {
            b.u64(id).u64(lost);
        })
    }

    pub fn comm(self, pid: u32, tid: u32, name: &str) -> Self {
        self.comm_misc(0, pid, tid, name)
    }

    /// A thread's name on exec.
    pub fn exec(self, pid: u32, name: &str) -> Self {
        self.comm_misc(1 << 13, pid, pid, name)
    }

    fn comm_misc(self, misc: u16, pid: u32, tid: u32, name: &str) -> Self {
        self.kernel(kind::COMM, misc, |b| {
            b.u32(pid).u32(tid).name(name);
        })
    }

    pub fn fork(self, pid: u32, ppid: u32, tid: u32, ptid: u32) -> Self {
        let time = self.id.time;
        self.kernel(kind::FORK, 0, |b| {
            b.u32(pid).u32(ppid).u32(tid).u32(ptid).u64(time);
        })
    }

    pub fn exit(self, pid: u32, ppid: u32, tid: u32, ptid: u32) -> Self {
        let time = self.id.time;
        self.kernel(kind::EXIT, 0, |b| {
            b.u32(pid).u32(ppid).u32(tid).u32(ptid).u64(time);
        })
    }

    pub fn throttle(self, on: bool, id: u64, stream_id: u64) -> Self {
        let time = self.id.time;
        self.kernel(if on { kind::THROTTLE } else { kind::UNTHROTTLE }, 0, |b| {
            b.u64(time).u64(id).u64(stream_id);
        })
    }

    pub fn read(self, pid: u32, tid: u32, read: &Read) -> Self {
        let format = self.recording.attrs[0].read_format(self.order());
        self.kernel(kind::READ, 0, |b| {
            b.u32(pid).u32(tid);
            read.encode(b, format);
        })
    }

    /// A sample of the attr that has the sample's id, or of the first.
    pub fn sample(self, s: &Sample) -> Self {
        let order = self.order();
        let attr = self.recording.attr_of(Some(s.id)).expect("an attr comes before samples");
        let body = s.encode(attr, order);
        self.raw(kind::SAMPLE, s.misc, &body)
    }

    pub fn aux(self, offset: u64, size: u64, flags: u64) -> Self {
        self.kernel(kind::AUX, 0, |b| {
            b.u64(offset).u64(size).u64(flags);
        })
    }

    pub fn itrace_start(self, pid: u32, tid: u32) -> Self {
        self.kernel(kind::ITRACE_START, 0, |b| {
            b.u32(pid).u32(tid);
        })
    }

    pub fn lost_samples(self, lost: u64) -> Self {
        self.kernel(kind::LOST_SAMPLES, 0, |b| {
            b.u64(lost);
        })
    }

    pub fn switch(self, out: bool) -> Self {
        self.kernel(kind::SWITCH, u16::from(out) << 13, |_| {})
    }

    pub fn switch_cpu_wide(self, out: bool, pid: u32, tid: u32) -> Self {
        self.kernel(kind::SWITCH_CPU_WIDE, u16::from(out) << 13, |b| {
            b.u32(pid).u32(tid);
        })
    }

    /// Pairs of device and inode.
    pub fn namespaces(self, pid: u32, tid: u32, links: &[(u64, u64)]) -> Self {
        self.kernel(kind::NAMESPACES, 0, |b| {
            b.u32(pid).u32(tid).u64(links.len() as u64).u64s(links.iter().flat_map(|&(d, i)| [d, i]));
        })
    }

    pub fn ksymbol(self, addr: u64, len: u32, unregister: bool, name: &str) -> Self {
        self.kernel(kind::KSYMBOL, 0, |b| {
            b.u64(addr).u32(len).u16(1).u16(unregister.into()).name(name);
        })
    }

    pub fn bpf_event(self, what: u16, id: u32, tag: [u8; 8]) -> Self {
        self.kernel(kind::BPF_EVENT, 0, |b| {
            b.u16(what).u16(0).u32(id).raw(&tag);
        })
    }

    pub fn cgroup(self, id: u64, path: &str) -> Self {
        self.kernel(kind::CGROUP, 0, |b| {
            b.u64(id).name(path);
        })
    }

    pub fn text_poke(self, addr: u64, old: &[u8], new: &[u8]) -> Self {
        self.kernel(kind::TEXT_POKE, 0, |b| {
            b.u64(addr).u16(old.len() as u16).u16(new.len() as u16).raw(old).raw(new).pad8();
        })
    }

    pub fn aux_output_hw_id(self, id: u64) -> Self {
        self.kernel(kind::AUX_OUTPUT_HW_ID, 0, |b| {
            b.u64(id);
        })
    }

    pub fn callchain_deferred(self, cookie: u64, ips: &[u64]) -> Self {
        self.kernel(kind::CALLCHAIN_DEFERRED, misc::USER, |b| {
            b.u64(cookie).u64(ips.len() as u64).u64s(ips.iter().copied());
        })
    }

    // ---- what perf writes

    pub fn event_type(self, id: u64, name: &str) -> Self {
        self.push(kind::HEADER_EVENT_TYPE, 0, |b| {
            b.u64(id).fixed(name, 64);
        })
    }

    pub fn tracing_data(mut self, payload: &[u8]) -> Self {
        let mut r = record(
            self.order(),
            kind::HEADER_TRACING_DATA,
            0,
            &self.bytes().u32(payload.len() as u32).take(),
        );
        r.payload = payload.to_vec();
        self.recording.records.push(r);
        self
    }

    pub fn build_id(mut self, entry: &BuildId) -> Self {
        let bytes = build_id_entry(self.order(), entry, kind::HEADER_BUILD_ID);
        self.recording.records.push(Record { bytes, payload: Vec::new() });
        self
    }

    pub fn finished_round(self) -> Self {
        self.push(kind::FINISHED_ROUND, 0, |_| {})
    }

    pub fn finished_init(self) -> Self {
        self.push(kind::FINISHED_INIT, 0, |_| {})
    }

    /// Entries of id, index, CPU and thread.
    pub fn id_index(self, entries: &[[u64; 4]]) -> Self {
        self.push(kind::ID_INDEX, 0, |b| {
            b.u64(entries.len() as u64).u64s(entries.iter().flatten().copied());
        })
    }

    pub fn auxtrace_info(self, what: u32, words: &[u64]) -> Self {
        self.push(kind::AUXTRACE_INFO, 0, |b| {
            b.u32(what).u32(0).u64s(words.iter().copied());
        })
    }

    /// AUX data; the payload follows the record and is not counted in its size.
    pub fn auxtrace(mut self, offset: u64, idx: u32, tid: u32, cpu: u32, payload: &[u8]) -> Self {
        let mut b = self.bytes();
        b.u64(payload.len() as u64).u64(offset).u64(0x1234).u32(idx).u32(tid).u32(cpu).u32(0);
        let mut r = record(self.order(), kind::AUXTRACE, 0, &b.out);
        r.payload = payload.to_vec();
        self.recording.records.push(r);
        // the writer computes the offsets in it
        self.recording.features.entry(feature::AUXTRACE).or_default();
        self
    }

    pub fn auxtrace_error(self, code: u32, ip: u64, text: &str) -> Self {
        let SampleId { pid, tid, time, cpu, .. } = self.id;
        self.push(kind::AUXTRACE_ERROR, 0, |b| {
            b.u32(1)
                .u32(code)
                .u32(cpu)
                .u32(pid)
                .u32(tid)
                .u32(1)
                .u64(ip)
                .u64(time)
                .fixed(text, 64)
                .u32(0)
                .u32(0);
        })
    }

    pub fn thread_map(self, threads: &[(u64, &str)]) -> Self {
        self.push(kind::THREAD_MAP, 0, |b| {
            b.u64(threads.len() as u64);
            for &(pid, name) in threads {
                b.u64(pid).fixed(name, 16);
            }
        })
    }

    /// A list of CPUs.
    pub fn cpu_map(self, cpus: &[u16]) -> Self {
        self.push(kind::CPU_MAP, 0, |b| {
            b.u16(0).u16(cpus.len() as u16);
            for &c in cpus {
                b.u16(c);
            }
            b.pad8();
        })
    }

    pub fn stat_config(self, pairs: &[(u64, u64)]) -> Self {
        self.push(kind::STAT_CONFIG, 0, |b| {
            b.u64(pairs.len() as u64).u64s(pairs.iter().flat_map(|&(t, v)| [t, v]));
        })
    }

    pub fn stat(self, id: u64, cpu: u32, thread: u32, val: u64) -> Self {
        self.push(kind::STAT, 0, |b| {
            b.u64(id).u32(cpu).u32(thread).u64(val).u64(val).u64(val);
        })
    }

    pub fn stat_round(self, what: u64, time: u64) -> Self {
        self.push(kind::STAT_ROUND, 0, |b| {
            b.u64(what).u64(time);
        })
    }

    /// An event's unit (0), scale (1) or name (2).
    pub fn event_update(self, what: u64, id: u64, text: &str) -> Self {
        self.push(kind::EVENT_UPDATE, 0, |b| {
            b.u64(what).u64(id);
            if what == 1 {
                b.u64(0.25f64.to_bits());
            } else {
                b.name(text);
            }
        })
    }

    pub fn time_conv(self, shift: u64, mult: u64, zero: u64) -> Self {
        self.push(kind::TIME_CONV, 0, |b| {
            b.u64(shift).u64(mult).u64(zero).u64(5).u64(u64::MAX).u8(1).u8(1).raw(&[0; 6]);
        })
    }

    pub fn header_feature(self, id: u64, raw: &[u8]) -> Self {
        self.push(kind::HEADER_FEATURE, 0, |b| {
            b.u64(id).raw(raw);
        })
    }

    pub fn bpf_metadata(self, program: &str, pairs: &[(&str, &str)]) -> Self {
        self.push(kind::BPF_METADATA, 0, |b| {
            b.fixed(program, 512).u64(pairs.len() as u64);
            for &(key, value) in pairs {
                b.fixed(key, 64).fixed(value, 256);
            }
        })
    }

    /// One of each record that the kernel writes, types 1 to 22, samples of every attr included.
    pub fn every_kernel_record(self) -> Self {
        let ip = 0x40_1000;
        let app = Map::exec(10, 0x40_0000, 0x2000, "/usr/bin/app").inode(8, 1, 1234, 5);
        let lib = Map { pgoff: 0x1000, ..Map::exec(10, 0x7f00_0000_0000, 0x4000, "/usr/lib/libodd-é.so") };
        self.at(10, 10, 1000)
            .exec(10, "app")
            .mmap(&Map::kernel(0xffff_ffff_8100_0000, 0x100_0000))
            .mmap2(&app)
            .mmap2_build_id(&lib, &[0xab; 16])
            .sample(&Sample::full(10, ip, 1100))
            .lost(1, 3)
            .fork(11, 10, 11, 10)
            .throttle(true, 1, 77)
            .throttle(false, 1, 77)
            .read(10, 10, &Read { time_enabled: 9, time_running: 8, values: vec![[1, 1, 0], [2, 2, 4]] })
            .at(11, 11, 1200)
            .aux(0, 4096, 1)
            .itrace_start(11, 11)
            .lost_samples(2)
            .switch(true)
            .switch_cpu_wide(false, 11, 11)
            .namespaces(11, 11, &[(4, 0xf000_0001), (4, 0xf000_0002)])
            .ksymbol(0xffff_ffff_c000_0000, 0x80, false, "bpf_prog_1_x")
            .bpf_event(1, 6, [1, 2, 3, 4, 5, 6, 7, 8])
            .cgroup(42, "/system.slice/app.service")
            .text_poke(0xffff_ffff_8100_0010, &[0x90; 5], &[0xe8, 1, 2, 3, 4])
            .aux_output_hw_id(0xa)
            .callchain_deferred(0x77, &[ip, ip + 4, ip + 8])
            .exit(11, 10, 11, 10)
    }

    /// One of each record that perf writes beside the data, a type that nobody knows and simpleperf's private range.
    pub fn every_user_record(self) -> Self {
        self.event_type(3, "page-faults")
            .id_index(&[[1, 0, 3, 10], [2, 1, u64::from(u32::MAX), 10]])
            .thread_map(&[(10, "app")])
            .cpu_map(&[0, 1, 2, 3, 5])
            .event_update(0, 1, "Joules")
            .event_update(1, 1, "")
            .event_update(2, 1, "renamed")
            .time_conv(31, 0x5555, 77)
            .stat_config(&[(0, 1), (1, 1000)])
            .stat(1, 3, 0, 99)
            .stat_round(0, 2000)
            .auxtrace_info(1, &[1, 2, 3])
            .auxtrace(0, 0, 10, 3, b"forty bytes of AUX data, not a record!!!")
            .auxtrace_error(1, 0x40_1000, "lost")
            .bpf_metadata("prog", &[("key", "value")])
            .raw(200, 7, &[1, 2, 3, 4, 5, 6, 7, 8])
            .raw(32769, 0, &[9; 24])
            .finished_init()
            .finished_round()
    }
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
