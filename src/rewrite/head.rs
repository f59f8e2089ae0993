//! What describes the recording, carried from one container to the other.
//!
//! In a file, attributes and features stand around the data; in a pipe they are records at its head. The four ways:
//!
//! | from \ to | file | pipe |
//! |---|---|---|
//! | file | the front is kept byte for byte | the front becomes records |
//! | pipe | the records become a front and feature sections | the records are kept |

use crate::abi::feature::{FEATURE_BITS, Feature};
use crate::abi::record::RecordType;
use crate::bytes::ByteOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Record, user};
use crate::evlist::Evlist;
use crate::header::Header;
use crate::header::features::build_ids::{BuildIdEntry, BuildIdTable};
use crate::reader::{Form, Recording};
use crate::stage::HeadRecords;
use crate::writer::{FileLayout, LeftOut, compressed_feature, pipe_front, pipe_header};

/// Most bytes of tracing data taken from a pipe; the largest seen are a few megabytes.
const TRACING_DATA_MAX: usize = 1 << 30;

/// Why a pipe gets no SAMPLE_TIME.
const TIMES_CHANGE: &str = "a pipe has it before the samples, and which of them stay is not known then";

/// Carries the header from the input to the output.
pub(super) struct Head {
    /// What the recording says about itself, complete once all records are read.
    pub header: Header,
    /// The front of the output, if it is a file.
    pub layout: Option<FileLayout>,
    /// Whether samples are left out, so that the times of the first and last are not known before all is read.
    pub filtered: bool,
    /// Whether a feature section was changed by a stage.
    pub edited: bool,
    /// Feature sections that stages have changed since the last record of one.
    just_edited: Vec<Feature>,
    /// Features that the output's container can't carry.
    pub left_out: LeftOut,
    from_pipe: bool,
    /// Whether the output is a pipe, in which sections go before the records.
    pub to_pipe: bool,
    /// zstd level of the output.
    level: Option<i32>,
    /// Whether build-ids are asked for, so that a table goes on as records of a pipe.
    with_ids: bool,
    /// Collects the payload of a HEADER_TRACING_DATA record.
    tracing_data: Option<Vec<u8>>,
    /// The ids that a pipe's HEADER_BUILD_ID records tell, as entries of the table that a file is to have.
    told_ids: Vec<u8>,
    /// Whether the front is the input's, byte for byte.
    pub front_kept: bool,
}

impl Head {
    /// For an input and the kind of output.
    pub fn new(input: &Recording, to_pipe: bool, level: Option<i32>, with_ids: bool) -> Head {
        let layout = match &input.file {
            Some((file, map)) if !to_pipe => FileLayout::keep(file, map),
            _ => None,
        };
        let front_kept = layout.is_some();
        Head {
            header: input.header.clone(),
            layout,
            filtered: false,
            edited: false,
            just_edited: Vec::new(),
            left_out: LeftOut::new(),
            from_pipe: input.form == Form::Pipe,
            to_pipe,
            level,
            with_ids,
            tracing_data: None,
            told_ids: Vec::new(),
            front_kept,
        }
    }

    /// The features of the output as a file, once all is read.
    pub fn features(&mut self) -> Vec<(Feature, Vec<u8>)> {
        for (feature, _) in self.header.features.iter().filter(|(f, _)| f.0 >= FEATURE_BITS) {
            self.left_out.push((*feature, "a file has no bit for it"));
        }
        self.header.features.clone()
    }

    /// Makes the sections of a file from a pipe's records, once all are read: tracing data, and the table of build-ids.
    pub fn settle(&mut self) -> Result<()> {
        if let Some(data) = self.tracing_data.take() {
            self.header.set_feature(Feature::TRACING_DATA, data);
        }
        if self.told_ids.is_empty() {
            return Ok(());
        }
        let order = self.header.order;
        let told = std::mem::take(&mut self.told_ids);
        let entries = BuildIdTable::parse(&told, order).entries;
        let table = merged_table(order, self.header.feature(Feature::BUILD_ID), &entries)?;
        self.header.set_feature(Feature::BUILD_ID, table);
        Ok(())
    }

    fn head_feature(&mut self, record: Record<'_>) -> Result<bool> {
        let (id, bytes) = user::parse_feature(record)?;
        let Ok(id) = u32::try_from(id) else { return Ok(false) };
        let feature = Feature(id);
        if feature == Feature::COMPRESSED {
            return Ok(true); // the output's own is set where it is compressed
        }
        // perf ends a pipe's features with an empty one of the id behind its last, which is no section.
        if bytes.is_empty() && !matches!(feature, Feature::BRANCH_STACK | Feature::STAT) {
            return Ok(!self.to_pipe);
        }
        self.header.set_feature(feature, bytes.to_vec());
        if feature == Feature::SAMPLE_TIME && self.filtered && self.to_pipe {
            self.left_out.push((feature, TIMES_CHANGE));
            return Ok(true);
        }
        Ok(!self.to_pipe)
    }
}

/// Appends the entries of a BUILD_ID section as records.
fn build_id_records(out: &mut Vec<u8>, order: ByteOrder, section: &[u8]) {
    for entry in BuildIdTable::parse(section, order).entries {
        if let Some(id) = entry.build_id() {
            // A name that fitted its entry fits the record.
            let _ = user::encode_build_id(out, order, entry.cpumode().bits(), entry.pid, &id, entry.filename);
        }
    }
}

impl HeadRecords for Head {
    fn edit_feature(&mut self, feature: Feature, bytes: Option<Vec<u8>>) {
        self.edited = true;
        self.just_edited.push(feature);
        match bytes {
            Some(bytes) => self.header.set_feature(feature, bytes),
            None => {
                self.header.remove_feature(feature);
            }
        }
    }

    fn edited_record(&mut self, record: Record<'_>) -> Result<Option<Vec<u8>>> {
        let edited = std::mem::take(&mut self.just_edited);
        if !self.from_pipe || !self.to_pipe || edited.is_empty() {
            return Ok(None);
        }
        let (id, _) = user::parse_feature(record)?;
        if let Some(late) = edited.iter().find(|feature| u64::from(feature.0) != id) {
            return Err(Error::new(
                ErrorKind::Plugin,
                format!("a plugin edits feature section {late}, which is not the one that passes"),
            )
            .hint("write to a file"));
        }
        let mut out = Vec::new();
        let feature = Feature(u32::try_from(id).unwrap_or(u32::MAX));
        if let Some(section) = self.header.feature(feature) {
            user::encode_feature(&mut out, record.order, feature.0, section)
                .ok_or_else(|| record.error("a plugin makes its section too large for a record"))?;
        }
        Ok(Some(out))
    }

    fn head_record(&mut self, record: Record<'_>, evlist: &mut Evlist) -> Result<bool> {
        if !self.from_pipe {
            return Ok(false); // in a file such records mean nothing, and stay
        }
        match record.ty() {
            RecordType::HEADER_ATTR => {
                let entry = user::HeaderAttr::parse(record)?.to_entry(record.order);
                evlist.push(entry.attr.clone(), entry.ids.clone());
                self.header.attrs.push(entry);
                Ok(!self.to_pipe)
            }
            RecordType::HEADER_FEATURE => self.head_feature(record),
            // simpleperf's has its payload within, and is a record like others.
            RecordType::HEADER_TRACING_DATA if user::payload_size(record) == Some(0) => {
                self.tracing_data = None;
                Ok(false)
            }
            RecordType::HEADER_TRACING_DATA => {
                self.tracing_data = (!self.to_pipe).then(Vec::new);
                Ok(!self.to_pipe)
            }
            RecordType::HEADER_BUILD_ID => {
                if !self.to_pipe
                    && let Some(entry) = BuildIdEntry::from_record(record.bytes, record.order)
                {
                    // A name too long for the table stays in its record.
                    let _ = entry.emit(record.order, &mut self.told_ids);
                }
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    fn payload(&mut self, piece: &[u8]) -> Result<()> {
        let Some(data) = &mut self.tracing_data else { return Ok(()) };
        if data.len() + piece.len() > TRACING_DATA_MAX {
            return Err(Error::new(ErrorKind::Unsupported, "tracing data of more than a gibibyte in a pipe"));
        }
        data.extend_from_slice(piece);
        Ok(())
    }

    fn header(&self) -> &Header {
        &self.header
    }

    fn events_are_known(&self) -> bool {
        !self.from_pipe
    }

    fn front(&mut self) -> Result<Vec<u8>> {
        let order = self.header.order;
        if !self.to_pipe {
            let attrs = &self.header.attrs;
            let layout = self.layout.get_or_insert_with(|| FileLayout::build(order, attrs));
            return Ok(layout.front().to_vec());
        }
        if self.from_pipe {
            let mut out = pipe_header(order);
            if let Some(level) = self.level {
                let _ = user::encode_feature(
                    &mut out,
                    order,
                    Feature::COMPRESSED.0,
                    &compressed_feature(order, level, 1),
                );
            }
            return Ok(out);
        }
        let mut header = self.header.clone();
        header.remove_feature(Feature::COMPRESSED);
        if let Some(level) = self.level {
            header.set_feature(Feature::COMPRESSED, compressed_feature(order, level, 1));
        }
        let times_change = self.filtered && header.remove_feature(Feature::SAMPLE_TIME);
        let (mut out, left_out) = pipe_front(&header)?;
        self.left_out = left_out;
        if times_change {
            self.left_out.push((Feature::SAMPLE_TIME, TIMES_CHANGE));
        }
        // In a HEADER_FEATURE record the table would make perf read its entries off standard input.
        match header.feature(Feature::BUILD_ID) {
            Some(table) if self.with_ids => build_id_records(&mut out, order, table),
            Some(_) => self.left_out.push((
                Feature::BUILD_ID,
                "a pipe has build-ids only as records, which are added where they are asked for (-b, --buildid-all)",
            )),
            None => {}
        }
        Ok(out)
    }
}

/// The BUILD_ID section with entries added, or their ids replaced where the name is there with another id.
/// What stands between entries in the input's section is left out; the rest is kept.
pub(super) fn merged_table(
    order: ByteOrder,
    old: Option<&[u8]>,
    new: &[BuildIdEntry<'_>],
) -> Result<Vec<u8>> {
    let old_table = old.map(|section| BuildIdTable::parse(section, order));
    let mut entries: Vec<BuildIdEntry<'_>> = Vec::new();
    let mut index = rustc_hash::FxHashMap::default();
    let key = |e: &BuildIdEntry<'_>| (e.pid, e.cpumode().bits() == 1, e.filename.to_vec());
    for entry in old_table.iter().flat_map(|t| t.entries.iter()) {
        index.entry(key(entry)).or_insert(entries.len());
        entries.push(*entry);
    }
    for entry in new {
        match index.get(&key(entry)).and_then(|&i| entries.get_mut(i)) {
            Some(there) if there.build_id() == entry.build_id() => {}
            Some(there) => {
                *there = BuildIdEntry { misc: entry.misc, id: entry.id, size: entry.size, ..*there }
            }
            None => {
                index.insert(key(entry), entries.len());
                entries.push(*entry);
            }
        }
    }
    let mut out = Vec::new();
    for entry in &entries {
        entry.emit(order, &mut out)?;
    }
    Ok(out)
}
