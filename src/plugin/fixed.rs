//! The fixed fields of samples, all read at once by a plan that is made once for each event.

use crate::abi::attr::offset;
use crate::abi::record::HEADER_SIZE;
use crate::bytes::ByteOrder;
use crate::event::Record;
use crate::evlist::{Evsel, SampleLayout};

/// Words that are read, with places for what samples may lack behind them.
const WORDS: usize = 16;
/// As many as samples can have.
const FIXED_MAX: usize = 9;
/// All ones.
const NONE: u8 = 13;
/// Zero.
const ZERO: u8 = 14;
/// What the event says of its period.
const PERIOD: u8 = 15;

/// Which word each field is.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    count: usize,
    period_of_event: u64,
    id: u8,
    ip: u8,
    tid: u8,
    time: u8,
    addr: u8,
    stream_id: u8,
    cpu: u8,
    period: u8,
}

/// Room for the words of a sample, which is used again for the next: they are too many to be handed around.
pub type Words = [u64; WORDS];

/// The words of one sample.
#[derive(Clone, Copy)]
pub struct Fixed<'a> {
    plan: &'a Plan,
    order: ByteOrder,
    words: &'a Words,
}

impl Plan {
    /// The plan of an event.
    pub fn new(evsel: &Evsel) -> Self {
        let l: &SampleLayout = &evsel.layout;
        let place = |at: Option<usize>, absent: u8| {
            at.and_then(|at| u8::try_from((at - HEADER_SIZE) / 8).ok()).unwrap_or(absent)
        };
        Plan {
            count: (l.fixed_end - HEADER_SIZE) / 8,
            period_of_event: evsel.attr.u64(offset::SAMPLE_PERIOD),
            id: place(l.id, NONE),
            ip: place(l.ip, ZERO),
            tid: place(l.tid, NONE),
            time: place(l.time, NONE),
            addr: place(l.addr, ZERO),
            stream_id: place(l.stream_id, NONE),
            cpu: place(l.cpu, NONE),
            period: place(l.period, PERIOD),
        }
    }

    /// Reads a sample of the event; `None` if it is too short for its fields.
    #[inline]
    pub fn read<'a>(&'a self, record: Record<'_>, words: &'a mut Words) -> Option<Fixed<'a>> {
        let body = record.bytes.get(HEADER_SIZE..)?;
        // Most samples have more behind the fixed fields: it is faster to take some of it along than to look.
        match body.first_chunk::<{ FIXED_MAX * 8 }>() {
            Some(raw) => {
                words.iter_mut().zip(raw.as_chunks().0).for_each(|(to, raw)| *to = u64::from_ne_bytes(*raw))
            }
            None => self.read_short(body, words)?,
        }
        if record.order != ByteOrder::NATIVE {
            words.iter_mut().for_each(|word| *word = word.swap_bytes());
        }
        let [.., none, zero, period] = words;
        (*none, *zero, *period) = (u64::MAX, 0, self.period_of_event);
        Some(Fixed { plan: self, order: record.order, words })
    }

    #[inline(never)]
    fn read_short(&self, body: &[u8], words: &mut Words) -> Option<()> {
        let raw = body.get(..self.count * 8)?.as_chunks().0;
        words.iter_mut().zip(raw).for_each(|(to, raw)| *to = u64::from_ne_bytes(*raw));
        Some(())
    }
}

impl Fixed<'_> {
    #[inline]
    fn word(&self, place: u8) -> u64 {
        self.words.get(usize::from(place) % WORDS).copied().unwrap_or(0)
    }

    #[inline]
    fn halves(&self, place: u8) -> (i32, i32) {
        let word = self.word(place);
        let (low, high) = ((word as u32).cast_signed(), ((word >> 32) as u32).cast_signed());
        if self.order == ByteOrder::Little { (low, high) } else { (high, low) }
    }

    /// The event id; all ones without.
    #[inline]
    pub fn id(&self) -> u64 {
        self.word(self.plan.id)
    }

    /// Instruction pointer; 0 without.
    #[inline]
    pub fn ip(&self) -> u64 {
        self.word(self.plan.ip)
    }

    /// Process and thread; -1 without.
    #[inline]
    pub fn pid_tid(&self) -> (i32, i32) {
        self.halves(self.plan.tid)
    }

    /// Time, ns; all ones without.
    #[inline]
    pub fn time(&self) -> u64 {
        self.word(self.plan.time)
    }

    /// Data address; 0 without.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.word(self.plan.addr)
    }

    /// Stream id; all ones without.
    #[inline]
    pub fn stream_id(&self) -> u64 {
        self.word(self.plan.stream_id)
    }

    /// CPU; -1 without.
    #[inline]
    pub fn cpu(&self) -> i32 {
        self.halves(self.plan.cpu).0
    }

    /// Period; that of the event without.
    #[inline]
    pub fn period(&self) -> u64 {
        self.word(self.plan.period)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::abi::sample as s;
    use crate::event::{begin_record, finish_record};
    use crate::evlist::{Attr, Evlist};

    fn evlist(order: ByteOrder, sample_type: u64) -> Evlist {
        let mut bytes = vec![0; 128];
        order.set_u64(&mut bytes, offset::SAMPLE_TYPE, sample_type).unwrap();
        order.set_u64(&mut bytes, offset::SAMPLE_PERIOD, 4000).unwrap();
        let mut evlist = Evlist::new(order);
        evlist.push(Attr::new(&bytes, order), vec![]);
        evlist
    }

    type Values = (u64, u64, (i32, i32), u64, u64, u64, i32, u64);

    fn read(order: ByteOrder, sample_type: u64, body: &[u8]) -> Option<Values> {
        let evlist = evlist(order, sample_type);
        let mut bytes = Vec::new();
        let at = begin_record(&mut bytes, order, crate::abi::record::RecordType::SAMPLE, 0);
        bytes.extend_from_slice(body);
        finish_record(&mut bytes, order, at).unwrap();
        let record = Record { bytes: &bytes, order, pos: 0 };
        let plan = Plan::new(&evlist.evsels()[0]);
        let mut words = [0x55; WORDS];
        let f = plan.read(record, &mut words)?;
        Some((f.id(), f.ip(), f.pid_tid(), f.time(), f.addr(), f.stream_id(), f.cpu(), f.period()))
    }

    #[test]
    fn all_fields_in_both_orders() {
        let all =
            s::IDENTIFIER | s::IP | s::TID | s::TIME | s::ADDR | s::ID | s::STREAM_ID | s::CPU | s::PERIOD;
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut body = Vec::new();
            order.put_u64(&mut body, 1);
            order.put_u64(&mut body, 2);
            [3, 4].iter().for_each(|&half| order.put_u32(&mut body, half));
            [5, 6, 1, 7].iter().for_each(|&word| order.put_u64(&mut body, word));
            [8, 0].iter().for_each(|&half| order.put_u32(&mut body, half));
            order.put_u64(&mut body, 9);
            order.put_u64(&mut body, 0x7777);
            assert_eq!(read(order, all, &body), Some((1, 2, (3, 4), 5, 6, 7, 8, 9)));
            assert_eq!(read(order, all, body.get(..72).unwrap()), read(order, all, &body));
            assert_eq!(read(order, all, body.get(..64).unwrap()), None);
            let some = s::IDENTIFIER | s::IP | s::TID;
            let short = read(order, some, body.get(..24).unwrap());
            assert_eq!(short, Some((1, 2, (3, 4), u64::MAX, 0, u64::MAX, -1, 4000)));
        }
    }

    #[test]
    fn what_the_event_does_not_have() {
        let got = read(ByteOrder::Little, s::TIME, &5u64.to_le_bytes());
        assert_eq!(got, Some((u64::MAX, 0, (-1, -1), 5, 0, u64::MAX, -1, 4000)));
        let got = read(ByteOrder::Little, 0, &[]);
        assert_eq!(got, Some((u64::MAX, 0, (-1, -1), u64::MAX, 0, u64::MAX, -1, 4000)));
    }
}
