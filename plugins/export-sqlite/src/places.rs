//! DSOs, symbols and call paths.

use repipe_plugin::{Host, Order, Record, field};
use rusqlite::params;
use rustc_hash::FxHashMap;

use crate::HOST_MACHINE;
use crate::database::{Database, Row};

/// No recording has so many.
const TOO_MANY: &str = "there are too many symbols or call paths";

/// Values at or above this in a callchain are context markers.
const CONTEXT_MAX: u64 = -4095i64 as u64;
/// Context markers, and the cpumodes that they announce.
const CONTEXTS: [(u64, u8); 5] = [
    (-32i64 as u64, 3),
    (-128i64 as u64, 1),
    (-512i64 as u64, 2),
    (-2176i64 as u64, 4),
    (-2560i64 as u64, 5),
];
/// Cpumode of user space.
const USER: u8 = 2;
/// The row that all call paths go back to.
const ROOT: u32 = 1;

/// Rows of what an address hit, and how far into the symbol it lies; zeros where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// Row of the DSO.
    pub dso: Row,
    /// Row of the symbol.
    pub symbol: Row,
    /// Bytes.
    pub offset: u64,
}

/// Rows of call paths. There may be as many as samples, so what is kept of each is short.
#[derive(Default)]
struct CallPaths {
    count: u32,
    /// By parent and symbol.
    known: FxHashMap<(u32, u32), u32>,
    /// By parent and address, where no symbol is known.
    bare: FxHashMap<(u32, u64), u32>,
}

/// Rows that are there already.
#[derive(Default)]
pub struct Places {
    /// By the host's id of the DSO.
    dsos: FxHashMap<u32, Row>,
    /// By row of the DSO, first address and end.
    symbols: FxHashMap<(Row, u64, u64), Row>,
    call_paths: CallPaths,
    /// The callchain at hand, the innermost frame first.
    frames: Vec<(u8, u64)>,
}

impl Places {
    /// What an address hits, in the maps of a cpumode or, without one, in those of the record's or else the other side's.
    pub fn hit(
        &mut self,
        db: &Database,
        host: &mut Host<'_>,
        cpumode: Option<u8>,
        address: u64,
    ) -> Result<Hit, String> {
        let Some(place) = host.place(cpumode, address) else { return Ok(Hit::default()) };
        if place.dso_id == u32::MAX {
            return Err(
                "this repipe does not tell DSOs apart; version 1.1 of the plugin interface is needed".into(),
            );
        }
        let dso = match self.dsos.get(&place.dso_id) {
            Some(&id) => id,
            None => {
                let id = self.dsos.len() as Row + 1;
                let build_id: String =
                    place.build_id.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
                let names = [place.dso_short_name, place.dso_path].map(String::from_utf8_lossy);
                db.insert(
                    "INSERT INTO dsos VALUES (?, ?, ?, ?, ?)",
                    params![id, HOST_MACHINE, names[0], names[1], build_id],
                )?;
                self.dsos.insert(place.dso_id, id);
                id
            }
        };
        // Code of a DSO without a symbol gets one of its own, without extent.
        let (start, end, binding, name) = match place.symbol {
            Some(symbol) => (symbol.start, symbol.end, symbol.binding, symbol.name),
            None => (place.address, place.address, 0, b"unknown".as_slice()),
        };
        let symbol = match self.symbols.get(&(dso, start, end)) {
            Some(&id) => id,
            None => {
                let id = self.symbols.len() as Row + 1;
                db.insert(
                    "INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?)",
                    params![
                        id,
                        dso,
                        start.cast_signed(),
                        end.cast_signed(),
                        binding,
                        String::from_utf8_lossy(name)
                    ],
                )?;
                self.symbols.insert((dso, start, end), id);
                id
            }
        };
        Ok(Hit { dso, symbol, offset: place.address.wrapping_sub(start) })
    }

    /// The row of a sample's callchain; 0 without one.
    pub fn call_path(
        &mut self,
        db: &Database,
        host: &mut Host<'_>,
        record: &Record<'_>,
    ) -> Result<Row, String> {
        let Some(chain) = host.field(field::CALLCHAIN) else { return Ok(0) };
        let entries = record.bytes().get(chain.offset..chain.offset + chain.len).unwrap_or_default();
        let mut frames = std::mem::take(&mut self.frames);
        read_frames(entries, record.order(), &mut frames);
        let mut at = 0;
        for &(cpumode, ip) in frames.iter().rev() {
            if at == 0 {
                at = self.call_paths.root(db)?;
            }
            let symbol = self.hit(db, host, Some(cpumode), ip)?.symbol;
            at = self.call_paths.child(db, at, symbol, ip)?;
        }
        self.frames = frames;
        Ok(at.into())
    }
}

impl CallPaths {
    fn root(&mut self, db: &Database) -> Result<u32, String> {
        if self.count == 0 {
            self.add(db, 0, 0, 0)?;
        }
        Ok(ROOT)
    }

    /// The row of a frame that was called from that of another.
    fn child(&mut self, db: &Database, parent: u32, symbol: Row, ip: u64) -> Result<u32, String> {
        let of_symbol = u32::try_from(symbol).map_err(|_| TOO_MANY)?;
        let (known, ip) = match of_symbol {
            0 => (self.bare.get(&(parent, ip)), ip),
            symbol => (self.known.get(&(parent, symbol)), 0),
        };
        if let Some(&id) = known {
            return Ok(id);
        }
        let id = self.add(db, parent, symbol, ip)?;
        match of_symbol {
            0 => self.bare.insert((parent, ip), id),
            symbol => self.known.insert((parent, symbol), id),
        };
        Ok(id)
    }

    fn add(&mut self, db: &Database, parent: u32, symbol: Row, ip: u64) -> Result<u32, String> {
        self.count = self.count.checked_add(1).ok_or(TOO_MANY)?;
        db.insert(
            "INSERT INTO call_paths VALUES (?, ?, ?, ?)",
            params![self.count, parent, symbol, ip.cast_signed()],
        )?;
        Ok(self.count)
    }
}

/// The frames of a callchain with their cpumodes. One with a marker that means nothing was not read right from the stack:
/// perf, too, takes it for none.
fn read_frames(entries: &[u8], order: Order, frames: &mut Vec<(u8, u64)>) {
    frames.clear();
    let mut mode = USER;
    for entry in entries.chunks_exact(8) {
        let Some(ip) = order.u64(entry, 0) else { return };
        if ip < CONTEXT_MAX {
            frames.push((mode, ip));
            continue;
        }
        match CONTEXTS.iter().find(|(marker, _)| *marker == ip) {
            Some((_, announced)) => mode = *announced,
            None => return frames.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_say_whose_the_frames_behind_them_are() {
        let read = |entries: &[u64]| {
            let mut frames = vec![(9, 9)];
            let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_be_bytes()).collect();
            read_frames(&bytes, Order::Big, &mut frames);
            frames
        };
        assert_eq!(read(&[]), []);
        assert_eq!(read(&[1, -128i64 as u64, 2, 3, -512i64 as u64, 4]), [(2, 1), (1, 2), (1, 3), (2, 4)]);
        assert_eq!(read(&[-512i64 as u64, 4, u64::MAX, 5]), []);
    }
}
