//! A reader of recordings for tests: it takes a whole recording apart and keeps every byte.
//!
//! It is written against the format's description, not against the crate, believes its inputs (a broken one
//! panics or gives an error text), and reads each kind of input: file, pipe, directory, compressed.

use std::collections::BTreeMap;
use std::path::Path;

use super::recording::{Attr, BuildId, Container, Record, Recording, feature, kind, misc};
use super::wire::Order;

use zstd::stream::raw::Operation as _;

/// Reads a recording, a directory of one included; compressed records come out decompressed and the
/// COMPRESSED section stays.
pub fn read(path: &Path) -> Result<Recording, String> {
    if path.is_dir() { read_dir(path) } else { parse(&std::fs::read(path).map_err(|e| e.to_string())?) }
}

/// [`read`] of bytes in memory.
pub fn parse(bytes: &[u8]) -> Result<Recording, String> {
    decompress(parse_raw(bytes)?)
}

/// A recording as it stands: compressed records stay as they are.
pub fn parse_raw(bytes: &[u8]) -> Result<Recording, String> {
    if bytes.len() < 16 {
        return Err("shorter than any header".into());
    }
    let order = match &bytes[..8] {
        b"PERFILE2" => Order::Little,
        b"2ELIFREP" => Order::Big,
        other => return Err(format!("magic {other:?}")),
    };
    match order.u64(bytes, 8) {
        16 => {
            let mut recording = empty(order, Container::Pipe);
            recording.records = split(order, &bytes[16..])?;
            Ok(recording)
        }
        104 => parse_file(bytes, order),
        size => Err(format!("header size {size}")),
    }
}

fn empty(order: Order, container: Container) -> Recording {
    Recording {
        order,
        container,
        attrs: Vec::new(),
        event_types: Vec::new(),
        features: BTreeMap::new(),
        records: Vec::new(),
    }
}

fn section<'a>(bytes: &'a [u8], order: Order, at: usize, what: &str) -> Result<&'a [u8], String> {
    if at + 16 > bytes.len() {
        return Err(format!("{what}: no section entry at {at:#x}"));
    }
    let (offset, size) = (order.u64(bytes, at) as usize, order.u64(bytes, at + 8) as usize);
    let end = offset.checked_add(size).ok_or(format!("{what}: offset overflows"))?;
    bytes.get(offset..end).ok_or(format!("{what}: {offset:#x}+{size:#x} of {:#x} bytes", bytes.len()))
}

fn parse_file(bytes: &[u8], order: Order) -> Result<Recording, String> {
    let mut out = empty(order, Container::File);
    if bytes.len() < 104 {
        return Err("shorter than the file header".into());
    }
    let entry = order.u64(bytes, 16) as usize;
    let attrs = section(bytes, order, 24, "attrs")?;
    if !attrs.is_empty() && (entry < 80 || !attrs.len().is_multiple_of(entry)) {
        return Err(format!("attr entries of {entry} bytes in {} bytes", attrs.len()));
    }
    for one in attrs.chunks(entry.max(1)) {
        let ids = section(bytes, order, offset_of(bytes, one) + entry - 16, "ids")?;
        let ids = ids.chunks_exact(8).map(|id| order.u64(id, 0)).collect();
        out.attrs.push(Attr { raw: one[..entry - 16].to_vec(), ids });
    }
    if order.u64(bytes, 64) != 0 {
        out.event_types = section(bytes, order, 56, "event types")?.to_vec();
    }
    let (data_at, data_size) = (order.u64(bytes, 40) as usize, order.u64(bytes, 48) as usize);
    out.records = split(order, section(bytes, order, 40, "data")?)?;
    let mut at = data_at + data_size;
    for id in 0..256u32 {
        if order.u64(bytes, 72 + id as usize / 64 * 8) >> (id % 64) & 1 == 1 {
            out.features.insert(id, section(bytes, order, at, &format!("feature {id}"))?.to_vec());
            at += 16;
        }
    }
    Ok(out)
}

fn offset_of(bytes: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - bytes.as_ptr() as usize
}

/// What perf itself prints; where stderr went into the recording's file too, it stands after the last record.
pub const PERF_TEXT: &[u8] = b"[ perf record: ";

/// Cuts a stream of records; payloads that lie outside of `header.size` go with their record.
pub fn split(order: Order, stream: &[u8]) -> Result<Vec<Record>, String> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        let rest = &stream[at..];
        if rest.starts_with(PERF_TEXT) {
            break;
        }
        if rest.len() < 8 {
            return Err(format!("{} stray bytes at {at:#x}", rest.len()));
        }
        let (kind, mut size) = (order.u32(rest, 0), usize::from(order.u16(rest, 6)));
        if kind >= 32768 {
            // simpleperf's own records may be long; the upper half of their size stands where misc would
            size |= usize::from(order.u16(rest, 4)) << 16;
        }
        if let Some(wrapped) = wrapped_size(order, rest) {
            let all = rest.get(..wrapped).ok_or(format!("COMPRESSED2 of {wrapped} bytes at {at:#x}"))?;
            out.push(Record { bytes: all.to_vec(), payload: Vec::new() });
            at += wrapped;
            continue;
        }
        if size < 8 || size > rest.len() {
            return Err(format!("record type {kind} of {size} bytes at {at:#x}, {} there", rest.len()));
        }
        let extra = match kind {
            kind::AUXTRACE if size >= 16 => order.u64(rest, 8) as usize,
            // simpleperf counts the payload in the record's size, perf does not
            kind::HEADER_TRACING_DATA if size == 12 => order.u32(rest, 8) as usize,
            _ => 0,
        };
        let end = size.checked_add(extra).filter(|&e| e <= rest.len());
        let end = end.ok_or(format!("record type {kind} at {at:#x}: payload of {extra} bytes"))?;
        out.push(Record { bytes: rest[..size].to_vec(), payload: rest[size..end].to_vec() });
        at += end;
    }
    Ok(out)
}

/// The true size of a COMPRESSED2 record whose 16 bits of size wrapped.
fn wrapped_size(order: Order, rest: &[u8]) -> Option<usize> {
    if order.u32(rest, 0) != kind::COMPRESSED2 || rest.len() < 16 {
        return None;
    }
    let total = 16 + order.u64(rest, 8) as usize;
    (total.next_multiple_of(8) > usize::from(order.u16(rest, 6))).then_some(total)
}

/// The zstd bytes of a COMPRESSED2 record. perf cuts chunks at 65519 bytes; when it packs several into one
/// record, each but the first has a header of its own before it.
fn chunks_of(order: Order, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = bytes.get(16..16 + order.u64(bytes, 8) as usize)?;
    let mut out = Vec::new();
    let mut chunk = rest.len().min(65519);
    loop {
        out.extend_from_slice(rest.get(..chunk)?);
        rest = &rest[chunk..];
        if rest.is_empty() {
            return Some(out);
        }
        chunk = usize::from(order.u16(rest, 6)).checked_sub(16)?;
        rest = rest.get(16..)?;
    }
}

/// Puts the records inside compressed ones in their place. Each record's chunk is a part of one zstd stream,
/// and records may straddle chunks, so what is inside forms one run of bytes.
fn decompress(mut recording: Recording) -> Result<Recording, String> {
    let order = recording.order;
    let packed = |r: &Record| matches!(r.kind(order), kind::COMPRESSED | kind::COMPRESSED2);
    if !recording.records.iter().any(packed) {
        return Ok(recording);
    }
    let mut out = Vec::new();
    let mut pending = Vec::new();
    let mut decoder = zstd::stream::raw::Decoder::new().map_err(|e| e.to_string())?;
    for r in std::mem::take(&mut recording.records) {
        let chunk = match r.kind(order) {
            kind::COMPRESSED => r.bytes[8..].to_vec(),
            kind::COMPRESSED2 => {
                chunks_of(order, &r.bytes).ok_or("COMPRESSED2: data size past the record")?
            }
            _ => {
                out.push(r);
                continue;
            }
        };
        inflate(&mut decoder, &chunk, &mut pending)?;
        let whole = whole_records(order, &pending);
        out.extend(split(order, &pending[..whole])?);
        pending.drain(..whole);
    }
    if !pending.is_empty() {
        return Err(format!("{} bytes of an unfinished record", pending.len()));
    }
    recording.records = out;
    Ok(recording)
}

fn inflate(
    decoder: &mut zstd::stream::raw::Decoder<'_>,
    chunk: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut room = vec![0; 1 << 17];
    let mut at = 0;
    loop {
        let status = decoder.run_on_buffers(&chunk[at..], &mut room).map_err(|e| format!("zstd: {e}"))?;
        at += status.bytes_read;
        out.extend_from_slice(&room[..status.bytes_written]);
        if at == chunk.len() && status.bytes_written < room.len() {
            return Ok(());
        }
    }
}

/// Length of the whole records at the start of a run.
fn whole_records(order: Order, run: &[u8]) -> usize {
    let mut at = 0;
    while at + 8 <= run.len() {
        let size = usize::from(order.u16(run, at + 6));
        if size < 8 || at + size > run.len() {
            break;
        }
        let extra = match order.u32(run, at) {
            kind::AUXTRACE => order.u64(run, at + 8) as usize,
            _ => 0,
        };
        if at + size + extra > run.len() {
            break;
        }
        at += size + extra;
    }
    at
}

fn read_dir(dir: &Path) -> Result<Recording, String> {
    let bytes = std::fs::read(dir.join("data")).map_err(|e| format!("data: {e}"))?;
    let mut recording = parse_raw(&bytes)?;
    if recording.features.get(&feature::DIR_FORMAT).map(|v| recording.order.u64(v, 0)) != Some(1) {
        return Err("no directory of version 1".into());
    }
    recording = decompress(recording)?;
    for n in 0.. {
        let path = dir.join(format!("data.{n}"));
        if !path.exists() {
            break;
        }
        let part = std::fs::read(&path).map_err(|e| e.to_string())?;
        let mut one = empty(recording.order, Container::File);
        one.records = split(recording.order, &part)?;
        recording.records.extend(decompress(one)?.records);
    }
    Ok(recording)
}

/// The entries of a BUILD_ID section, as long as they make sense.
pub fn build_id_table(order: Order, raw: &[u8]) -> Vec<BuildId> {
    let mut out = Vec::new();
    let mut rest = raw;
    while rest.len() >= 36 {
        let size = usize::from(order.u16(rest, 6));
        if size < 36 || size > rest.len() {
            break;
        }
        out.push(build_id_entry(order, &rest[..size]));
        rest = &rest[size..];
    }
    out
}

/// A HEADER_BUILD_ID record, or an entry of the table, which is laid out alike.
pub fn build_id_entry(order: Order, entry: &[u8]) -> BuildId {
    let flags = order.u16(entry, 4);
    let size = if flags & misc::BUILD_ID_SIZE != 0 { usize::from(entry[32]).min(20) } else { 20 };
    let mut id = entry[12..12 + size].to_vec();
    if flags & misc::BUILD_ID_SIZE == 0 {
        while id.len() > 1 && id.last() == Some(&0) {
            id.pop();
        }
    }
    let name = &entry[36..];
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    BuildId {
        misc: flags,
        pid: order.u32(entry, 8) as i32,
        id,
        name: String::from_utf8_lossy(&name[..end]).into_owned(),
    }
}

/// The table of a recording's BUILD_ID section; empty if there is none.
pub fn table_of(recording: &Recording) -> Vec<BuildId> {
    recording.features.get(&feature::BUILD_ID).map_or(Vec::new(), |raw| build_id_table(recording.order, raw))
}

/// The ids that HEADER_BUILD_ID records in the data give.
pub fn injected_of(recording: &Recording) -> Vec<BuildId> {
    recording.of_kind(kind::HEADER_BUILD_ID).map(|r| build_id_entry(recording.order, &r.bytes)).collect()
}
