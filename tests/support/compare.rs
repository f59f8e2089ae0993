//! What a rewrite may change and what not, as comparisons whose failures say which record or section differs.

use std::collections::BTreeMap;

use super::oracle;
use super::recording::{Attr, BuildId, Container, Record, Recording, feature, kind, misc};
use super::swap::attr_of_record;

/// A recording without its container: attrs, sections and build-ids out of the stream, the other records in order.
#[derive(Clone, Debug)]
pub struct Content {
    pub attrs: Vec<Attr>,
    pub features: BTreeMap<u32, Vec<u8>>,
    /// HEADER_BUILD_ID records in the stream.
    pub injected: Vec<BuildId>,
    pub records: Vec<Record>,
}

/// Takes attrs and features out of a pipe's stream, so that pipes and files compare. A pipe's tracing data is its
/// payload; padding after it is not part of it, so files' sections are padded here too.
pub fn content(recording: &Recording) -> Content {
    let order = recording.order;
    let mut out = Content {
        attrs: recording.attrs.clone(),
        features: recording.features.clone(),
        injected: Vec::new(),
        records: Vec::new(),
    };
    for r in &recording.records {
        match r.kind(order) {
            kind::HEADER_ATTR => out.attrs.push(attr_of_record(r, order)),
            kind::HEADER_FEATURE => {
                let id = order.u64(r.body(), 0) as u32;
                // perf ends the features of a pipe with an empty one, whose id is the number of those it knows
                if r.body().len() > 8 || matches!(id, feature::BRANCH_STACK | feature::STAT) {
                    out.features.insert(id, r.body()[8..].to_vec());
                }
            }
            kind::HEADER_TRACING_DATA if r.bytes.len() == 12 => {
                out.features.insert(feature::TRACING_DATA, r.payload.clone());
            }
            kind::HEADER_BUILD_ID => out.injected.push(oracle::build_id_entry(order, &r.bytes)),
            _ => out.records.push(r.clone()),
        }
    }
    if let Some(data) = out.features.get_mut(&feature::TRACING_DATA) {
        let len = data.len().next_multiple_of(8);
        data.resize(len, 0);
    }
    out
}

/// Sections whose bytes belong to the place they stand in.
pub const PLACE: [u32; 3] = [feature::AUXTRACE, feature::COMPRESSED, feature::DIR_FORMAT];

/// The first difference between the records of two streams.
pub fn same_records(before: &[Record], after: &[Record]) -> Result<(), String> {
    if let Some(i) = before.iter().zip(after).position(|(a, b)| a != b) {
        return Err(format!("record {i} of {}: {:?} became {:?}", before.len(), before[i], after[i]));
    }
    match before.len().cmp(&after.len()) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => {
            Err(format!("{} records too many: {:?}…", after.len() - before.len(), after[before.len()]))
        }
        std::cmp::Ordering::Greater => {
            Err(format!("{} records lost: {:?}…", before.len() - after.len(), before[after.len()]))
        }
    }
}

/// The first difference between feature sections; `except` names those that may differ.
pub fn same_features(
    before: &BTreeMap<u32, Vec<u8>>,
    after: &BTreeMap<u32, Vec<u8>>,
    except: &[u32],
) -> Result<(), String> {
    for id in before.keys().chain(after.keys()) {
        if except.contains(id) {
            continue;
        }
        let (a, b) = (before.get(id), after.get(id));
        if a != b {
            return Err(format!(
                "feature section {id}: {:?} bytes became {:?}",
                a.map(Vec::len),
                b.map(Vec::len)
            ));
        }
    }
    Ok(())
}

/// Same order, container, attrs, sections and records; only the sections in `except` may differ.
pub fn same(before: &Recording, after: &Recording, except: &[u32]) -> Result<(), String> {
    if (before.order, before.container) != (after.order, after.container) {
        return Err(format!(
            "{:?} became {:?}",
            (before.order, before.container),
            (after.order, after.container)
        ));
    }
    if before.attrs != after.attrs {
        return Err(format!("attrs differ: {:?} became {:?}", before.attrs, after.attrs));
    }
    if before.event_types != after.event_types {
        return Err("the event_types section differs".into());
    }
    same_features(&before.features, &after.features, except)?;
    same_records(&before.records, &after.records)
}

/// Same content in whatever container.
pub fn same_content(before: &Recording, after: &Recording, except: &[u32]) -> Result<(), String> {
    if before.order != after.order {
        return Err(format!("{:?} became {:?}", before.order, after.order));
    }
    let (mut a, mut b) = (content(before), content(after));
    // a pipe has no room for what lies between an attr's own size and the file's entry size
    for (one, other) in a.attrs.iter_mut().zip(&mut b.attrs).filter(|(a, b)| a.raw.len() != b.raw.len()) {
        one.raw = one.counted(before.order).to_vec();
        other.raw = other.counted(before.order).to_vec();
    }
    if a.attrs != b.attrs {
        return Err(format!("attrs differ: {:?} became {:?}", a.attrs, b.attrs));
    }
    let mut except = except.to_vec();
    if before.container != after.container {
        except.extend(PLACE);
        except.push(feature::BUILD_ID);
    }
    same_features(&a.features, &b.features, &except)?;
    same_records(&a.records, &b.records)
}

/// The output without what an injection adds: HEADER_BUILD_ID records that the input did not have.
pub fn without_injected(before: &Recording, after: &Recording) -> Recording {
    let order = after.order;
    let mut old = before.of_kind(kind::HEADER_BUILD_ID).peekable();
    let mut out = after.clone();
    out.records.retain(|r| {
        if r.kind(order) != kind::HEADER_BUILD_ID {
            return true;
        }
        old.next_if(|o| *o == r).is_some()
    });
    out
}

/// Collects what went wrong over many inputs, so that one failure does not hide the next.
#[derive(Default)]
pub struct Failures(Vec<String>);

impl Failures {
    pub fn add(&mut self, what: impl std::fmt::Display, result: Result<(), String>) {
        if let Err(e) = result {
            let e: String = e.chars().take(300).collect();
            self.0.push(format!("{what}: {e}"));
        }
    }

    #[track_caller]
    pub fn report(self) {
        let first = &self.0[..self.0.len().min(20)];
        assert!(first.is_empty(), "{} failures, the first:\n{}", self.0.len(), first.join("\n"));
    }
}

/// Whether the AUXTRACE index of a file's bytes, if there is one, tells where AUXTRACE records stand.
pub fn aux_index(bytes: &[u8]) -> Result<(), String> {
    let raw = oracle::parse_raw(bytes)?;
    let order = raw.order;
    let Some(index) = raw.features.get(&feature::AUXTRACE) else { return Ok(()) };
    // simpleperf counts its entries in front of them; perf's own count may be missing
    let words: Vec<u64> = index.chunks_exact(8).map(|w| order.u64(w, 0)).collect();
    let entries = if words.len() % 2 == 1 { &words[1..] } else { &words[..] };
    let told: Vec<u64> = entries.chunks(2).map(|e| e[0]).collect();
    let mut at = order.u64(bytes, 40);
    let mut there = Vec::new();
    for r in &raw.records {
        if r.kind(order) == kind::AUXTRACE {
            there.push(at);
        }
        at += r.len() as u64;
    }
    if told == there {
        Ok(())
    } else {
        Err(format!("the AUX index tells {told:x?}, the records are at {there:x?}"))
    }
}

/// Whether the container of the output is the one asked for.
pub fn is(container: Container, recording: &Recording) -> Result<(), String> {
    if recording.container == container {
        Ok(())
    } else {
        Err(format!("{:?}, not {container:?}", recording.container))
    }
}

/// Names and build-ids of the mappings that carry one.
pub fn map_ids(recording: &Recording) -> Vec<(String, Vec<u8>)> {
    let order = recording.order;
    let with_id = recording.of_kind(kind::MMAP2).filter(|r| r.misc(order) & misc::MMAP_BUILD_ID != 0);
    with_id
        .map(|r| {
            let size = usize::from(r.bytes[40]).min(20);
            let name = &r.bytes[72..];
            let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
            (String::from_utf8_lossy(&name[..end]).into_owned(), r.bytes[44..44 + size].to_vec())
        })
        .collect()
}
