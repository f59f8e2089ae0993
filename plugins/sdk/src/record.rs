//! A record as a plugin sees it.

use repipe_plugin_abi as abi;

/// Byte order of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Order {
    /// Two bytes at an offset.
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let raw = bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { u16::from_be_bytes(*raw) } else { u16::from_le_bytes(*raw) })
    }

    /// Four bytes at an offset.
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let raw = bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { u32::from_be_bytes(*raw) } else { u32::from_le_bytes(*raw) })
    }

    /// Eight bytes at an offset.
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let raw = bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { u64::from_be_bytes(*raw) } else { u64::from_le_bytes(*raw) })
    }

    /// A number as two bytes.
    pub fn bytes16(self, value: u16) -> [u8; 2] {
        if self == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    /// A number as four bytes.
    pub fn bytes32(self, value: u32) -> [u8; 4] {
        if self == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    /// A number as eight bytes.
    pub fn bytes64(self, value: u64) -> [u8; 8] {
        if self == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }
}

/// A record: its bytes, and what the host has parsed of it already.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) told: &'a abi::Record,
    pub(crate) order: Order,
}

fn some(value: u64) -> Option<u64> {
    (value != abi::NONE).then_some(value)
}

impl<'a> Record<'a> {
    /// All bytes, the header of eight among them.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Byte order of [`Record::bytes`].
    pub fn order(&self) -> Order {
        self.order
    }

    /// `PERF_RECORD_*`.
    pub fn kind(&self) -> u32 {
        self.told.ty
    }

    /// Where it stands in the recording.
    pub fn pos(&self) -> u64 {
        self.told.pos
    }

    /// Time, ns.
    pub fn time(&self) -> Option<u64> {
        some(self.told.time)
    }

    /// Id of the event.
    pub fn id(&self) -> Option<u64> {
        some(self.told.id)
    }

    /// Instruction pointer of a sample; 0 without.
    pub fn ip(&self) -> u64 {
        self.told.ip
    }

    /// Period of a sample, or that of its event.
    pub fn period(&self) -> u64 {
        self.told.period
    }

    /// Process; -1 without.
    pub fn pid(&self) -> i32 {
        self.told.pid
    }

    /// Thread; -1 without.
    pub fn tid(&self) -> i32 {
        self.told.tid
    }

    /// CPU.
    pub fn cpu(&self) -> Option<i32> {
        (self.told.cpu >= 0).then_some(self.told.cpu)
    }

    /// Index of the event, of samples.
    pub fn evsel(&self) -> u32 {
        self.told.evsel
    }

    /// The header's misc word.
    pub fn misc(&self) -> u16 {
        self.told.misc
    }

    /// 1 kernel, 2 user, 4 guest kernel, 5 guest user.
    pub fn cpumode(&self) -> u8 {
        self.told.cpumode
    }
}
