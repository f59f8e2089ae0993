//! EVENT_DESC: every event's attr, name and ids.

use super::reader::Reader;
use super::strings;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

/// The section; attrs and names borrow from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDesc<'a> {
    /// Bytes of each attr.
    pub attr_size: u32,
    /// In the order of the file's attrs.
    pub events: Vec<DescribedEvent<'a>>,
}

/// One event of [`EventDesc`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedEvent<'a> {
    /// `struct perf_event_attr`, in the recording's byte order.
    pub attr: &'a [u8],
    /// Name as on perf's command line, without its NUL.
    pub name: &'a [u8],
    /// Ids of samples that belong to it.
    pub ids: Vec<u64>,
}

impl<'a> EventDesc<'a> {
    /// Parses the section. Errors if a count or size does not fit, at its place.
    pub fn parse(section: &'a [u8], order: ByteOrder) -> Result<EventDesc<'a>> {
        let mut r = Reader::new(Feature::EVENT_DESC, section, order);
        let n = r.u32()?;
        let attr_size = r.u32()?;
        let least = u64::from(attr_size) + 8;
        if n != 0 && u64::from(n) > r.remaining() as u64 / least {
            return Err(
                r.corrupt(0, format!("{n} events of {attr_size}-byte attrs in {} bytes", r.remaining()))
            );
        }
        let mut events = Vec::new();
        for _ in 0..n {
            let attr = r.take(attr_size.into())?;
            let ids = r.count(8)?;
            let name = r.raw_string()?;
            let ids = (0..ids).map(|_| r.u64()).collect::<Result<_>>()?;
            events.push(DescribedEvent { attr, name, ids });
        }
        Ok(EventDesc { attr_size, events })
    }

    /// Appends the section. Attrs are cut or zero-filled to `attr_size`.
    pub fn emit(&self, order: ByteOrder, out: &mut Vec<u8>) {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        order.put_u32(out, count(self.events.len()));
        order.put_u32(out, self.attr_size);
        for event in &self.events {
            let end = out.len() + self.attr_size as usize;
            out.extend_from_slice(event.attr.get(..self.attr_size as usize).unwrap_or(event.attr));
            out.resize(end, 0);
            order.put_u32(out, count(event.ids.len()));
            strings::emit(event.name, order, out);
            for &id in &event.ids {
                order.put_u64(out, id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn events_round_trip_with_names_and_ids() {
        let attrs = [[0x11; 64], [0x22; 64]];
        let desc = EventDesc {
            attr_size: 64,
            events: vec![
                DescribedEvent { attr: &attrs[0], name: b"cycles:u", ids: vec![7, 8] },
                DescribedEvent { attr: &attrs[1], name: b"sched:sched_switch", ids: vec![] },
            ],
        };
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let mut out = Vec::new();
            desc.emit(order, &mut out);
            assert_eq!(out.len(), 8 + 2 * (64 + 4 + 4 + 64) + 16);
            assert_eq!(order.u32(&out, 72), Some(2), "the id count follows the attr");
            assert_eq!(&out[80..89], b"cycles:u\0");
            assert_eq!(order.u64(&out, 144), Some(7), "ids follow the name");
            assert_eq!(EventDesc::parse(&out, order).unwrap(), desc);
        }
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() {
        let o = ByteOrder::Little;
        let mut out = Vec::new();
        o.put_u32(&mut out, u32::MAX);
        o.put_u32(&mut out, 0);
        out.extend([0; 64]);
        assert_eq!(EventDesc::parse(&out, o).unwrap_err().offset(), Some(0));
        let mut out = Vec::new();
        EventDesc {
            attr_size: 64,
            events: vec![DescribedEvent { attr: &[0; 64], name: b"e", ids: vec![1] }],
        }
        .emit(o, &mut out);
        o.set_u32(&mut out, 72, 99).unwrap();
        assert_eq!(EventDesc::parse(&out, o).unwrap_err().offset(), Some(72));
    }
}
