//! Records with something in them changed, encoded anew.

use super::field;
use super::host::{Field, Host};
use super::record::{Order, Record};

/// Bytes of a record's header.
const HEADER: usize = 8;

/// Sets the size in a record's header. An error if it is too large for that.
fn set_size(bytes: &mut [u8], order: Order) -> Result<(), String> {
    let size =
        u16::try_from(bytes.len()).map_err(|_| format!("a record of {} bytes is too large", bytes.len()))?;
    match bytes.get_mut(6..8) {
        Some(at) => at.copy_from_slice(&order.bytes16(size)),
        None => return Err("a record without a header".into()),
    }
    Ok(())
}

/// A sample that is being changed.
pub struct Sample {
    bytes: Vec<u8>,
    order: Order,
    callchain: Option<(usize, usize)>,
    words: [(u32, Option<usize>); 4],
}

impl Sample {
    /// From a sample; `None` if the record is none.
    pub fn of(record: &Record<'_>, host: &mut Host<'_>) -> Option<Sample> {
        if record.kind() != super::SAMPLE {
            return None;
        }
        let mut at = |which| host.field(which).map(|f: Field| (f.offset, f.len));
        let words = [field::IP, field::ADDR, field::PERIOD, field::TIME];
        Some(Sample {
            bytes: record.bytes().to_vec(),
            order: record.order(),
            callchain: at(field::CALLCHAIN),
            words: words.map(|which| (which, at(which).map(|(offset, _)| offset))),
        })
    }

    fn set(&mut self, which: u32, value: u64) -> bool {
        let at = self.words.iter().find(|(field, _)| *field == which).and_then(|(_, at)| *at);
        let place = at.and_then(|at| self.bytes.get_mut(at..at + 8));
        place.map(|place| place.copy_from_slice(&self.order.bytes64(value))).is_some()
    }

    /// Sets the instruction pointer; false if the event's samples have none.
    pub fn set_ip(&mut self, ip: u64) -> bool {
        self.set(field::IP, ip)
    }

    /// Sets the data address; false if the event's samples have none.
    pub fn set_addr(&mut self, addr: u64) -> bool {
        self.set(field::ADDR, addr)
    }

    /// Sets the period; false if the event's samples have none.
    pub fn set_period(&mut self, period: u64) -> bool {
        self.set(field::PERIOD, period)
    }

    /// Sets the time, ns; false if the event's samples have none.
    pub fn set_time(&mut self, time: u64) -> bool {
        self.set(field::TIME, time)
    }

    /// The callchain, context markers among it; `None` if the event's samples have none.
    pub fn callchain(&self) -> Option<Vec<u64>> {
        let (at, len) = self.callchain?;
        Some((0..len / 8).filter_map(|n| self.order.u64(&self.bytes, at + n * 8)).collect())
    }

    /// Puts another callchain in its place; false if the event's samples have none.
    pub fn set_callchain(&mut self, entries: &[u64]) -> bool {
        let Some((at, len)) = self.callchain else { return false };
        // The number of entries stands before them; fixed fields come before that, so their places stay.
        let Some(count) = at.checked_sub(8).filter(|_| at + len <= self.bytes.len()) else { return false };
        let words = std::iter::once(entries.len() as u64).chain(entries.iter().copied());
        let new: Vec<u8> = words.flat_map(|word| self.order.bytes64(word)).collect();
        self.bytes.splice(count..at + len, new);
        self.callchain = Some((at, entries.len() * 8));
        true
    }

    /// The record.
    pub fn into_bytes(mut self) -> Result<Vec<u8>, String> {
        set_size(&mut self.bytes, self.order)?;
        Ok(self.bytes)
    }
}

/// Where the name of a COMM, or the path of a MMAP, MMAP2 or HEADER_BUILD_ID, begins in its record.
fn name_at(kind: u32) -> Option<usize> {
    match kind {
        super::COMM => Some(HEADER + 8),
        super::MMAP => Some(HEADER + 32),
        super::MMAP2 => Some(HEADER + 64),
        super::HEADER_BUILD_ID => Some(HEADER + 28),
        _ => None,
    }
}

/// The name of a COMM, or the path of a MMAP, MMAP2 or HEADER_BUILD_ID.
pub fn name<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    let text = record.bytes().get(name_at(record.kind())?..)?;
    text.iter().position(|&b| b == 0).and_then(|end| text.get(..end))
}

/// The same record with another name.
pub fn with_name(record: &Record<'_>, new: &[u8]) -> Result<Vec<u8>, String> {
    let at = name_at(record.kind()).ok_or("a record without a name")?;
    with_text(record.bytes(), at, new, record.order())
}

/// The same bytes, of a record or an entry with a record's header, with another text at `at`: it ends in a NUL and is
/// padded to eight bytes; what follows that stays.
pub fn with_text(bytes: &[u8], at: usize, new: &[u8], order: Order) -> Result<Vec<u8>, String> {
    let broken = || String::from("a name that does not end within its record");
    let text = bytes.get(at..).ok_or_else(broken)?;
    let len = text.iter().position(|&b| b == 0).ok_or_else(broken)?;
    let tail = text.get((len + 1).next_multiple_of(8)..).unwrap_or_default();
    let mut out = bytes.get(..at).unwrap_or_default().to_vec();
    out.extend(new.iter().filter(|&&b| b != 0));
    let padded = (out.len() - at + 1).next_multiple_of(8);
    out.resize(at + padded, 0);
    out.extend_from_slice(tail);
    set_size(&mut out, order)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_text_of_another_length_moves_what_follows() {
        for order in [Order::Little, Order::Big] {
            let mut bytes = vec![0, 0, 0, 0, 0, 0];
            bytes.extend(order.bytes16(32));
            bytes.extend(b"12345678old\0\0\0\0\0trailer!");
            let new = with_text(&bytes, 16, b"a longer name", order).unwrap();
            assert_eq!(order.u16(&new, 6), Some(40));
            assert_eq!(new.get(8..), Some(&b"12345678a longer name\0\0\0trailer!"[..]));
            let back = with_text(&new, 16, b"old", order).unwrap();
            assert_eq!(back, bytes);
            assert!(with_text(&bytes, 40, b"x", order).is_err());
            assert!(with_text(&bytes, 16, &[b'x'; 70000], order).is_err());
        }
    }
}
