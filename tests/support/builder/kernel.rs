//! Records of the kernel.

use super::super::recording::{kind, misc};
use super::{Builder, Map, Read, Sample};

impl Builder {
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
}
