//! What `repipe info` found, before it is shown.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::attr as names;
use super::build_ids::BuildIds;
use super::features::byte_order;
use crate::abi::attr::{event_type, flag, offset};
use crate::abi::feature::Feature;
use crate::abi::record::RecordType;
use crate::bytes::ByteOrder;
use crate::evlist::Attr;

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) input: String,
    pub(super) container: &'static str,
    pub(super) order: ByteOrder,
    pub(super) layout: Layout,
    pub(super) events: Vec<Event>,
    pub(super) features: Vec<FeatureReport>,
    pub(super) records: BTreeMap<RecordType, Tally>,
    /// Whether the records came out of COMPRESSED ones.
    pub(super) decompressed: bool,
    /// Samples whose event is not known.
    pub(super) stray_samples: u64,
    /// Earliest and latest time of a sample, ns.
    pub(super) times: Option<(u64, u64)>,
    /// Of the BUILD_ID section.
    pub(super) table: BuildIds,
    /// Of HEADER_BUILD_ID records.
    pub(super) stream: BuildIds,
    pub(super) warnings: Vec<String>,
}

/// Sizes and places of the container's parts; what a container does not have is absent.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) file_size: Option<u64>,
    pub(super) header_size: Option<u64>,
    /// Bytes of an attr entry.
    pub(super) attr_entry_size: Option<u64>,
    /// Offset and size of the data section.
    pub(super) data: Option<(u64, u64)>,
    /// Names and sizes of a directory's files of records.
    pub(super) parts: Vec<(String, u64)>,
    /// Names of a directory's other entries.
    pub(super) others: Vec<String>,
}

/// An event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) name: String,
    /// Where the name comes from: `event_desc`, `event_update`, `meta_info` or `attr`.
    pub(super) name_source: &'static str,
    pub(super) type_name: Option<String>,
    pub(super) attr: Attr,
    pub(super) ids: usize,
    pub(super) samples: u64,
}

/// A feature section, shown.
#[derive(Debug)]
pub(super) struct FeatureReport {
    pub(super) feature: Feature,
    /// Offset in the file, in a file.
    pub(super) offset: Option<u64>,
    pub(super) size: u64,
    /// The value as JSON and as lines of text, or what is wrong with the section.
    pub(super) value: Result<(Value, Vec<String>), String>,
}

/// How many records of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) count: u64,
    /// Bytes of the records, payloads left out.
    pub(super) bytes: u64,
    /// Bytes of payload behind them.
    pub(super) payload: u64,
}

impl Tally {
    pub(super) fn add(&mut self, bytes: u64, payload: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.payload = self.payload.saturating_add(payload);
    }
}

impl Event {
    /// Whether `sample_period` is a frequency.
    pub(super) fn is_freq(&self) -> bool {
        self.attr.flag(flag::FREQ)
    }

    pub(super) fn period(&self) -> u64 {
        self.attr.u64(offset::SAMPLE_PERIOD)
    }

    fn json(&self) -> Value {
        let attr = &self.attr;
        let (freq, period) = (self.is_freq(), self.period());
        json!({
            "name": self.name,
            "name_source": self.name_source,
            "type": attr.event_type(),
            "type_name": self.type_name,
            "size": attr.bytes().len(),
            "config": attr.config(),
            "config1": attr.u64(offset::CONFIG1),
            "config2": attr.u64(offset::CONFIG2),
            "period": if freq { Value::Null } else { json!(period) },
            "frequency": if freq { json!(period) } else { Value::Null },
            "precise_ip": names::precise_ip(attr),
            "sample_type": names::sample_type(attr),
            "read_format": names::read_format(attr),
            "branch_sample_type": names::branch_sample_type(attr),
            "flags": names::flags(attr),
            "ids": self.ids,
            "samples": self.samples,
        })
    }

    /// Type and config for people, `breakpoint` address included.
    pub(super) fn config_text(&self) -> String {
        let attr = &self.attr;
        let mut text = match &self.type_name {
            Some(name) => format!("{name} ({})", attr.event_type()),
            None => format!("type {}", attr.event_type()),
        };
        text += &format!(", config {:#x}", attr.config());
        if attr.event_type() == event_type::BREAKPOINT {
            text += &format!(", address {:#x}", attr.u64(offset::CONFIG1));
        }
        text
    }
}

impl FeatureReport {
    /// The feature's name, or its number.
    pub(super) fn name(&self) -> String {
        self.feature.name().map_or_else(|| format!("feature {}", self.feature.0), str::to_owned)
    }

    fn json(&self) -> Value {
        let (value, broken) = match &self.value {
            Ok((value, _)) => (value.clone(), Value::Null),
            Err(message) => (Value::Null, json!(message)),
        };
        json!({
            "id": self.feature.0, "name": self.feature.name(), "offset": self.offset, "size": self.size,
            "value": value, "broken": broken,
        })
    }
}

impl Report {
    pub(super) fn samples(&self) -> u64 {
        self.records.get(&RecordType::SAMPLE).map_or(0, |tally| tally.count)
    }

    pub(super) fn total(&self) -> Tally {
        self.records.values().fold(Tally::default(), |sum, t| Tally {
            count: sum.count.saturating_add(t.count),
            bytes: sum.bytes.saturating_add(t.bytes),
            payload: sum.payload.saturating_add(t.payload),
        })
    }

    /// The whole report; `docs/info.md` documents the fields.
    pub(super) fn json(&self) -> Value {
        let tally = |t: &Tally| json!({"count": t.count, "bytes": t.bytes, "payload_bytes": t.payload});
        let by_type = self.records.iter().map(|(ty, t)| {
            let mut value = tally(t);
            if let Some(map) = value.as_object_mut() {
                map.insert("type".into(), json!(ty.0));
                map.insert("name".into(), json!(ty.name()));
            }
            value
        });
        let parts = self.layout.parts.iter().map(|(name, size)| json!({"name": name, "size": size}));
        json!({
            "input": self.input,
            "format": self.container,
            "byte_order": byte_order(self.order),
            "compressed": self.decompressed,
            "header": {
                "file_size": self.layout.file_size,
                "size": self.layout.header_size,
                "attr_entry_size": self.layout.attr_entry_size,
                "data_offset": self.layout.data.map(|d| d.0),
                "data_size": self.layout.data.map(|d| d.1),
                "parts": parts.collect::<Vec<_>>(),
                "others": self.layout.others,
            },
            "events": self.events.iter().map(Event::json).collect::<Vec<_>>(),
            "features": self.features.iter().map(FeatureReport::json).collect::<Vec<_>>(),
            "records": {"total": tally(&self.total()), "by_type": by_type.collect::<Vec<_>>()},
            "samples": {"total": self.samples(), "without_event": self.stray_samples},
            "time": self.times.map(|(first, last)| json!({"first": first, "last": last})),
            "build_ids": {"table": self.table.json(), "records": self.stream.json()},
            "warnings": self.warnings,
        })
    }
}
