//! TRACING_DATA: tracepoint formats, as `trace-cmd` files hold them.
//!
//! Only what tells its size, version and events is read; rewriting keeps the bytes.

use super::reader::{Reader, lossy};
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::Result;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The section, or the payload of a HEADER_TRACING_DATA record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingData {
    /// Version of the layout, such as `0.6`.
    pub version: String,
    /// Byte order of the rest of the section, which says so itself.
    pub order: ByteOrder,
    /// Bytes of a C `long` of the recorded kernel.
    pub long_size: u8,
    /// Bytes of a page of the recorded kernel.
    pub page_size: u32,
    /// Number of ftrace's own event formats.
    pub ftrace_events: u32,
    /// The tracepoints, in the section's order.
    pub events: Vec<TraceEvent>,
    /// Bytes of the kernel symbols.
    pub kallsyms_size: u32,
    /// Bytes of the printk formats.
    pub printk_size: u32,
    /// Bytes of the saved commands, since version 0.6.
    pub cmdlines_size: Option<u64>,
}

/// A tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Subsystem, such as `sched`.
    pub system: String,
    /// Name within it, such as `sched_switch`; empty if the format does not tell.
    pub name: String,
    /// Id of the tracepoint, the attr's config; `None` if the format does not tell.
    pub id: Option<u64>,
}

impl TracingData {
    /// Parses the section. Errors if it does not begin as tracing data, or is cut short.
    pub fn parse(section: &[u8]) -> Result<TracingData> {
        let head = Reader::new(Feature::TRACING_DATA, section, ByteOrder::Little);
        let Some(body) = section.strip_prefix(MAGIC) else {
            return Err(head.corrupt(0, "not tracing data: its magic is missing".into()));
        };
        // The flag that tells the byte order comes after the version's string.
        let big = body.iter().position(|&b| b == 0).and_then(|nul| body.get(nul + 1)) == Some(&1);
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let mut r = Reader::new(Feature::TRACING_DATA, section, order);
        r.take(MAGIC.len() as u64)?;
        let version = lossy(r.c_string()?);
        r.u8()?;
        let (long_size, page_size) = (r.u8()?, r.u32()?);
        for name in ["header_page", "header_event"] {
            let at = r.position();
            if r.c_string()? != name.as_bytes() {
                return Err(r.corrupt(at, format!("{name} expected")));
            }
            let len = r.u64()?;
            r.take(len)?;
        }
        let ftrace_events = r.count(8)?;
        for _ in 0..ftrace_events {
            let len = r.u64()?;
            r.take(len)?;
        }
        let mut events = Vec::new();
        for _ in 0..r.count(5)? {
            let system = lossy(r.c_string()?);
            for _ in 0..r.count(8)? {
                let len = r.u64()?;
                events.push(trace_event(&system, r.take(len)?));
            }
        }
        let kallsyms_size = r.u32()?;
        r.take(kallsyms_size.into())?;
        let printk_size = r.u32()?;
        r.take(printk_size.into())?;
        let cmdlines_size = if r.remaining() >= 8 && has_cmdlines(&version) { Some(r.u64()?) } else { None };
        r.take(cmdlines_size.unwrap_or(0))?;
        Ok(TracingData {
            version,
            order,
            long_size,
            page_size,
            ftrace_events,
            events,
            kallsyms_size,
            printk_size,
            cmdlines_size,
        })
    }
}

fn has_cmdlines(version: &str) -> bool {
    version.parse::<f32>().is_ok_and(|v| v >= 0.6)
}

/// Name and id from the lines `name: …` and `ID: …` that a format begins with.
fn trace_event(system: &str, format: &[u8]) -> TraceEvent {
    let field = |key: &[u8]| {
        let line = format.split(|&b| b == b'\n').take(8).find_map(|line| line.strip_prefix(key));
        line.map(|value| lossy(value.trim_ascii()))
    };
    TraceEvent {
        system: system.to_owned(),
        name: field(b"name:").unwrap_or_default(),
        id: field(b"ID:").and_then(|id| id.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn section(order: ByteOrder, version: &str) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(version.as_bytes());
        out.extend([0, u8::from(order == ByteOrder::Big), 8]);
        order.put_u32(&mut out, 4096);
        for (name, text) in [("header_page", "page"), ("header_event", "")] {
            out.extend(name.as_bytes());
            out.push(0);
            order.put_u64(&mut out, text.len() as u64);
            out.extend(text.as_bytes());
        }
        order.put_u32(&mut out, 1);
        order.put_u64(&mut out, 3);
        out.extend(b"ftr");
        order.put_u32(&mut out, 1);
        out.extend(b"sched\0");
        order.put_u32(&mut out, 2);
        for format in ["name: sched_switch\nID: 318\nformat:\n\tfield:…\n", "?"] {
            order.put_u64(&mut out, format.len() as u64);
            out.extend(format.as_bytes());
        }
        order.put_u32(&mut out, 0);
        order.put_u32(&mut out, 2);
        out.extend(b"pf");
        if version == "0.6" {
            order.put_u64(&mut out, 4);
            out.extend(b"cmd\n");
        }
        out
    }

    #[test]
    fn version_and_events_are_told() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (version, cmdlines_size) in [("0.5", None), ("0.6", Some(4))] {
                let data = TracingData::parse(&section(order, version)).unwrap();
                assert_eq!(
                    (data.version.as_str(), data.order, data.long_size, data.page_size),
                    (version, order, 8, 4096)
                );
                assert_eq!((data.ftrace_events, data.kallsyms_size, data.printk_size), (1, 0, 2));
                assert_eq!(data.cmdlines_size, cmdlines_size);
                let event = |name: &str, id| TraceEvent { system: "sched".into(), name: name.into(), id };
                assert_eq!(data.events, [event("sched_switch", Some(318)), event("", None)]);
            }
        }
    }

    #[test]
    fn every_prefix_is_an_error() {
        let whole = section(ByteOrder::Little, "0.5");
        for end in 0..whole.len() {
            assert!(TracingData::parse(&whole[..end]).is_err(), "prefix of {end}");
        }
    }

    #[test]
    fn other_bytes_are_not_tracing_data() {
        assert_eq!(TracingData::parse(b"PERFILE2").unwrap_err().offset(), Some(0));
    }
}
