//! The head of a stream made from a file: what stands around the data there comes as records here.

use crate::abi::feature::Feature;
use crate::abi::record::RecordType;
use crate::bytes::ByteOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{begin_record, user};
use crate::header::{Header, MAGIC, PIPE_HEADER_SIZE};

/// Bytes of tracing data follow its record, padded to eight.
fn tracing_data(out: &mut Vec<u8>, order: ByteOrder, section: &[u8]) -> Result<()> {
    let size = u32::try_from(section.len().next_multiple_of(8))
        .map_err(|_| Error::new(ErrorKind::Unsupported, "tracing data of 4 GiB and more in a pipe"))?;
    let at = begin_record(out, order, RecordType::HEADER_TRACING_DATA, 0);
    order.put_u32(out, size);
    // perf reads this record as 12 bytes and the payload right behind it.
    order.set_u16(out, at + 6, 12);
    out.extend_from_slice(section);
    out.resize(at + 12 + size as usize, 0);
    Ok(())
}

/// What a stream's head can't carry, for the summary.
pub type LeftOut = Vec<(Feature, &'static str)>;

/// Magic and header size.
pub fn pipe_header(order: ByteOrder) -> Vec<u8> {
    let mut out = Vec::new();
    order.put_u64(&mut out, MAGIC);
    order.put_u64(&mut out, PIPE_HEADER_SIZE);
    out
}

/// The whole head: header, attributes, features, tracing data; and what had to be left out.
pub fn pipe_front(header: &Header) -> Result<(Vec<u8>, LeftOut)> {
    let order = header.order;
    let mut out = pipe_header(order);
    for entry in &header.attrs {
        let mut ids = Vec::new();
        for &id in &entry.ids {
            order.put_u64(&mut ids, id);
        }
        let stated = entry.attr.stated_size().min(entry.attr.bytes().len());
        let attr = entry.attr.bytes().get(..stated).unwrap_or_default();
        user::HeaderAttr { attr, ids: &ids }.encode(&mut out, order).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("an event with {} ids does not fit a record of a pipe", entry.ids.len()),
            )
            .in_record(RecordType::HEADER_ATTR)
            .hint("write a file with -o")
        })?;
    }
    let mut left_out = LeftOut::new();
    let mut tracing = None;
    for (feature, section) in &header.features {
        match *feature {
            Feature::TRACING_DATA => tracing = Some(section),
            // These go as records of their own, or have no meaning without file offsets.
            Feature::BUILD_ID => {}
            Feature::AUXTRACE => left_out.push((*feature, "its file offsets mean nothing in a pipe")),
            Feature::DIR_FORMAT => left_out.push((*feature, "a pipe is no directory")),
            other => {
                if user::encode_feature(&mut out, order, other.0, section).is_none() {
                    left_out.push((other, "too large for a record of a pipe"));
                }
            }
        }
    }
    if let Some(section) = tracing {
        tracing_data(&mut out, order, section)?;
    }
    Ok((out, left_out))
}
