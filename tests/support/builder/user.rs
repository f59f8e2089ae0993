//! Records of perf's own.

use super::super::recording::{BuildId, Record};
use super::super::recording::{feature, kind};
use super::super::write::record;
use super::{Builder, SampleId, build_id_entry};

impl Builder {
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
