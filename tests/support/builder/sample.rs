//! A sample of a recording.

use super::super::recording::{Attr, BRANCH_FIELDS, bitfield_big};
use super::super::recording::{branch, misc, rf, st};
use super::super::wire::{Bytes, Order};

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
    pub(super) fn encode(&self, b: &mut Bytes, format: u64) {
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
