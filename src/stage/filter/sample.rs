//! A sample as a filter sees it.

use super::program::{Word, id_word};
use crate::abi::misc::{
    CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER, CONTEXT_HV, CONTEXT_KERNEL, CONTEXT_MAX,
    CONTEXT_USER, CONTEXT_USER_DEFERRED, CpuMode,
};
use crate::bytes::ByteOrder;
use crate::error::Result;
use crate::event::{Record, sample};
use crate::evlist::SampleLayout;

/// A sample and where its fields are.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    /// The record.
    pub record: Record<'a>,
    /// Where its fields are.
    pub layout: &'a SampleLayout,
}

impl<'a> Sample<'a> {
    /// A fixed word; `None` if samples of this event lack it.
    #[inline]
    pub fn word(&self, word: Word) -> Option<u64> {
        let (l, r) = (self.layout, &self.record);
        let long = |at: usize| r.order.u64(r.bytes, at);
        let short = |at: usize| r.order.u32(r.bytes, at);
        match word {
            Word::Pid => short(l.tid?).map(id_word),
            Word::Tid => short(l.tid? + 4).map(id_word),
            Word::Cpu => short(l.cpu?).map(u64::from),
            Word::Time => long(l.time?),
            Word::Cpumode => Some(u64::from(r.cpumode().bits())),
            Word::Ip => long(l.ip?),
            Word::Addr => long(l.addr?),
            Word::Period => long(l.period?),
        }
    }

    /// Process and thread id, -1 each if samples lack them.
    #[inline]
    pub fn ids(&self) -> (i32, i32) {
        let id = |at: usize| self.record.order.u32(self.record.bytes, at).map_or(-1, u32::cast_signed);
        self.layout.tid.map_or((-1, -1), |at| (id(at), id(at + 4)))
    }

    /// Whether a frame is meant, of the instruction pointer and then the callchain's, given each with its cpumode. An
    /// error if the callchain does not fit the sample.
    #[inline]
    pub fn any_frame(&self, mut is_meant: impl FnMut(CpuMode, u64) -> bool) -> Result<bool> {
        let mut mode = self.record.cpumode();
        if self.word(Word::Ip).is_some_and(|ip| is_meant(mode, ip)) {
            return Ok(true);
        }
        let mut frames = self.frames()?;
        while let Some(entry) = frames.find(|_| true) {
            match entry {
                Entry::Context(context) => mode = context,
                Entry::Ip(ip) if is_meant(mode, ip) => return Ok(true),
                Entry::Ip(_) => {}
            }
        }
        Ok(false)
    }

    /// The callchain. An error if it does not fit the sample.
    #[inline]
    pub fn frames(&self) -> Result<Frames<'a>> {
        let range = sample::callchain(self.record, self.layout)?.unwrap_or(0..0);
        let (words, _) = self.record.bytes.get(range).unwrap_or_default().as_chunks();
        Ok(Frames { words: words.iter(), order: self.record.order })
    }

    /// The cookie that tells which record has the rest of the callchain.
    pub fn deferred(&self) -> Result<Option<u64>> {
        let Some(range) = sample::callchain(self.record, self.layout)? else { return Ok(None) };
        let entries = self.record.bytes.get(range).unwrap_or_default();
        let mut words = entries.chunks_exact(8).map(|entry| self.record.order.u64(entry, 0));
        words.find(|word| *word == Some(CONTEXT_USER_DEFERRED));
        Ok(words.next().flatten())
    }
}

/// What stands in a callchain.
pub enum Entry {
    /// Addresses behind it are of this cpumode.
    Context(CpuMode),
    /// An address.
    Ip(u64),
}

/// The rest of a callchain.
pub struct Frames<'a> {
    words: std::slice::Iter<'a, [u8; 8]>,
    order: ByteOrder,
}

impl Frames<'_> {
    /// The next address that is wanted, or the next context before it.
    #[inline(always)]
    pub fn find(&mut self, is_wanted: impl Fn(u64) -> bool) -> Option<Entry> {
        while let Some(word) = self.words.next() {
            let word = match self.order {
                ByteOrder::Little => u64::from_le_bytes(*word),
                ByteOrder::Big => u64::from_be_bytes(*word),
            };
            if word < CONTEXT_MAX {
                if is_wanted(word) {
                    return Some(Entry::Ip(word));
                }
                continue;
            }
            if word == CONTEXT_USER_DEFERRED {
                self.words.next();
            }
            return Some(Entry::Context(match word {
                CONTEXT_KERNEL => CpuMode::Kernel,
                CONTEXT_USER => CpuMode::User,
                CONTEXT_HV => CpuMode::Hypervisor,
                CONTEXT_GUEST | CONTEXT_GUEST_KERNEL => CpuMode::GuestKernel,
                CONTEXT_GUEST_USER => CpuMode::GuestUser,
                _ => CpuMode::Unknown,
            }));
        }
        None
    }
}
