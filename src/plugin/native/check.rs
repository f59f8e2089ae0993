//! Whether what a plugin gives to be written may stand in a recording.

use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::ByteOrder;
use crate::event::ksymbol::Ksymbol;
use crate::event::mmap::Mmap;
use crate::event::task::{Comm, Fork, Namespaces};
use crate::event::{Record, sample, type_and_size};
use crate::evlist::Evlist;
use crate::header::features::build_ids::BuildIdEntry;

/// perf's own records that tell something in texts, besides HEADER_BUILD_ID. None has a payload behind it or a say in how
/// others are read.
const PERFS_OWN: [RecordType; 6] = [
    RecordType::HEADER_EVENT_TYPE,
    RecordType::AUXTRACE_INFO,
    RecordType::AUXTRACE_ERROR,
    RecordType::THREAD_MAP,
    RecordType::EVENT_UPDATE,
    RecordType::BPF_METADATA,
];

/// Checks size, alignment and type of each record, and that it parses under its event; calls `each` with its type.
/// An error says what is wrong with which.
pub fn records(
    bytes: &[u8],
    order: ByteOrder,
    evlist: &Evlist,
    mut each: impl FnMut(RecordType),
) -> Result<(), String> {
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let bad = |what: String| format!("gives a record that is none, at byte {at}: {what}");
        let Some((ty, size)) = type_and_size(rest, order) else {
            return Err(bad(format!("{} bytes are no header", rest.len())));
        };
        // Of perf's own, build-ids have a header of 36 bytes.
        let align = if ty == RecordType::HEADER_BUILD_ID { 4 } else { 8 };
        if size < HEADER_SIZE || !size.is_multiple_of(align) {
            return Err(bad(format!("its size is {size}")));
        }
        let Some(one) = rest.get(..size) else {
            return Err(bad(format!("its size is {size}, but {} bytes were given", rest.len())));
        };
        if ty == RecordType::HEADER_BUILD_ID {
            BuildIdEntry::from_record(one, order).ok_or_else(|| bad("it is too short".into()))?;
            each(ty);
            at += size;
            continue;
        }
        if !ty.is_kernel() {
            if !PERFS_OWN.contains(&ty) {
                return Err(bad(format!("type {ty} is not for plugins to write")));
            }
            each(ty);
            at += size;
            continue;
        }
        parses(Record { bytes: one, order, pos: 0 }, evlist).map_err(bad)?;
        each(ty);
        at += size;
    }
    Ok(())
}

fn parses(record: Record<'_>, evlist: &Evlist) -> Result<(), String> {
    let ty = record.ty();
    let text = |e: crate::error::Error| e.to_string();
    if ty == RecordType::SAMPLE {
        let index = evlist.index_of_sample(record.bytes).ok_or("the sample is of no event")?;
        let evsel = evlist.evsels().get(index).ok_or("the sample is of no event")?;
        return sample::fields(record, &evsel.layout).map(drop).map_err(text);
    }
    let trailer = evlist.trailer_of(record.bytes).ok_or("there is no event that it could be of")?;
    if record.body().len() < trailer.size {
        return Err(format!("{} bytes are too short for the sample id of its event", record.bytes.len()));
    }
    match ty {
        RecordType::MMAP | RecordType::MMAP2 => Mmap::parse(record, trailer).map(drop),
        RecordType::COMM => Comm::parse(record, trailer).map(drop),
        RecordType::FORK | RecordType::EXIT => Fork::parse(record).map(drop),
        RecordType::NAMESPACES => Namespaces::parse(record, trailer).map(drop),
        RecordType::KSYMBOL => Ksymbol::parse(record, trailer).map(drop),
        _ => Ok(()),
    }
    .map_err(text)
}
