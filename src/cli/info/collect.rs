//! Gathers what the report needs while records pass by.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::attr;
use super::build_ids::BuildIds;
use super::features;
use super::report::{Event, FeatureReport, Layout, Report, Tally};
use crate::abi::feature::{FEATURE_BITS, Feature};
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::bytes::until_nul;
use crate::error::Result;
use crate::event::{Record, user};
use crate::evlist::{Attr, Evlist};
use crate::header::Header;
use crate::header::features::Section;
use crate::header::features::build_ids::BuildIdEntry;
use crate::header::features::pmu::Pmu;

/// More types than this are not told apart: no recording has them, and a hostile one could have millions.
const MOST_TYPES: usize = 1024;
/// `PERF_EVENT_UPDATE__NAME`: the record names the event with its id.
const UPDATE_NAME: u64 = 2;

/// What has been seen so far.
pub(super) struct Collector {
    evlist: Evlist,
    features: Vec<(Feature, Vec<u8>)>,
    /// Offset and size of sections, in a file.
    places: FxHashMap<Feature, (u64, u64)>,
    records: BTreeMap<RecordType, Tally>,
    /// By index of the event.
    samples: Vec<u64>,
    stray_samples: u64,
    times: Option<(u64, u64)>,
    stream_ids: BuildIds,
    /// Names that EVENT_UPDATE records give, by event id.
    updated_names: FxHashMap<u64, String>,
    /// Names that old event types give, by config.
    type_names: FxHashMap<u64, String>,
    warnings: Vec<String>,
}

impl Collector {
    /// Begins with what stands around the data of a file; of a pipe, that is nothing yet.
    pub(super) fn new(header: &Header, places: impl IntoIterator<Item = (Feature, (u64, u64))>) -> Self {
        Collector {
            evlist: header.evlist(),
            features: header.features.clone(),
            places: places.into_iter().collect(),
            records: BTreeMap::new(),
            samples: vec![0; header.attrs.len()],
            stray_samples: 0,
            times: None,
            stream_ids: BuildIds::default(),
            updated_names: FxHashMap::default(),
            type_names: FxHashMap::default(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// An entry of the old event types: a name for a config.
    pub(super) fn event_type(&mut self, config: u64, name: &[u8]) {
        self.type_names.entry(config).or_insert_with(|| features::text(name));
    }

    /// Takes note of a record that `payload` bytes follow.
    pub(super) fn record(&mut self, record: Record<'_>, payload: u64) -> Result<()> {
        let ty = record.ty();
        if self.records.len() < MOST_TYPES || self.records.contains_key(&ty) {
            self.records.entry(ty).or_default().add(record.bytes.len() as u64, payload);
        }
        match ty {
            RecordType::SAMPLE => self.sample(record),
            RecordType::HEADER_ATTR => {
                let entry = user::HeaderAttr::parse(record)?.to_entry(record.order);
                self.evlist.push(entry.attr, entry.ids);
                self.samples.push(0);
            }
            RecordType::HEADER_FEATURE => self.feature(record)?,
            RecordType::HEADER_BUILD_ID => match BuildIdEntry::from_record(record.bytes, record.order) {
                Some(entry) => self.stream_ids.add(&entry),
                None => self.warn(record.error("too short for a build-id").to_string()),
            },
            RecordType::HEADER_EVENT_TYPE => {
                let name = record.bytes.get(HEADER_SIZE + 8..).map(until_nul);
                if let Some((config, name)) = record.order.u64(record.bytes, HEADER_SIZE).zip(name) {
                    self.event_type(config, name);
                }
            }
            RecordType::EVENT_UPDATE => self.event_update(record),
            _ => {}
        }
        Ok(())
    }

    fn sample(&mut self, record: Record<'_>) {
        let count = self.evlist.index_of_sample(record.bytes).and_then(|index| self.samples.get_mut(index));
        match count {
            Some(count) => *count += 1,
            None => self.stray_samples += 1,
        }
        if let Some(time) = record.time(&self.evlist) {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
    }

    fn feature(&mut self, record: Record<'_>) -> Result<()> {
        let (id, section) = user::parse_feature(record)?;
        let Some(feature) = u32::try_from(id).ok().filter(|&id| id < FEATURE_BITS).map(Feature) else {
            self.warn(
                record
                    .error(format!("feature {id} is beyond the {FEATURE_BITS} that a header can name"))
                    .to_string(),
            );
            return Ok(());
        };
        let empty_by_nature = feature == Feature::BRANCH_STACK || feature == Feature::STAT;
        if section.is_empty() && !empty_by_nature {
            // perf ends a pipe's features with an empty one, whose id is the first that it does not know
            return Ok(());
        }
        match self.features.iter_mut().find(|(f, _)| *f == feature) {
            Some((_, old)) => *old = section.to_vec(),
            None => self.features.push((feature, section.to_vec())),
        }
        Ok(())
    }

    fn event_update(&mut self, record: Record<'_>) {
        let word = |at| record.order.u64(record.bytes, HEADER_SIZE + at);
        if let (Some(UPDATE_NAME), Some(id), Some(name)) =
            (word(0), word(8), record.bytes.get(HEADER_SIZE + 16..))
        {
            self.updated_names.insert(id, features::text(until_nul(name)));
        }
    }

    /// The report.
    pub(super) fn finish(mut self, input: String, container: &'static str, layout: Layout) -> Report {
        let order = self.evlist.order();
        let stored = std::mem::take(&mut self.features);
        let cpus =
            stored.iter().find(|(f, _)| *f == Feature::NRCPUS).and_then(|(_, bytes)| order.u32(bytes, 0));
        let parsed: Vec<_> = stored
            .iter()
            .map(|(f, bytes)| (*f, bytes.len(), Section::parse(*f, bytes, order, cpus)))
            .collect();
        let mut table = BuildIds::default();
        for (_, _, section) in &parsed {
            if let Ok(Section::BuildIds(entries)) = section {
                entries.entries.iter().for_each(|entry| table.add(entry));
            }
        }
        let sections: Vec<_> = parsed.iter().filter_map(|(_, _, section)| section.as_ref().ok()).collect();
        let events = self.events(&sections);
        let features = parsed.iter().map(|(feature, size, section)| FeatureReport {
            feature: *feature,
            offset: self.places.get(feature).map(|place| place.0),
            size: *size as u64,
            value: match section {
                Ok(section) => Ok((features::json(section), features::lines(section))),
                Err(e) => Err(e.to_string()),
            },
        });
        let features: Vec<_> = features.collect();
        for feature in &features {
            if let Err(message) = &feature.value {
                self.warnings.push(format!("broken section: {message}"));
            }
        }
        if self.records.len() >= MOST_TYPES {
            self.warnings.push(format!(
                "records of more than {MOST_TYPES} types; those of further types are not counted"
            ));
        }
        if self.stray_samples != 0 {
            self.warnings.push(format!("{} samples belong to no event", self.stray_samples));
        }
        let compressed = |ty| self.records.contains_key(&ty);
        let decompressed = stored.iter().any(|(f, _)| *f == Feature::COMPRESSED)
            || compressed(RecordType::COMPRESSED)
            || compressed(RecordType::COMPRESSED2);
        Report {
            input,
            container,
            order,
            layout,
            events,
            features,
            records: self.records,
            decompressed,
            stray_samples: self.stray_samples,
            times: self.times,
            table,
            stream: self.stream_ids,
            warnings: self.warnings,
        }
    }

    fn events(&self, sections: &[&Section<'_>]) -> Vec<Event> {
        let names = Names::new(self, sections);
        let one = |(index, evsel): (usize, &crate::evlist::Evsel)| {
            let (name, name_source) = names.of(index, &evsel.attr, &evsel.ids);
            Event {
                name,
                name_source,
                type_name: attr::type_name(&evsel.attr, |t| names.pmu(t)),
                attr: evsel.attr.clone(),
                ids: evsel.ids.len(),
                samples: self.samples.get(index).copied().unwrap_or(0),
            }
        };
        self.evlist.evsels().iter().enumerate().map(one).collect()
    }
}

/// Where the names of events come from, the nearest first.
struct Names<'a> {
    collector: &'a Collector,
    /// EVENT_DESC: names by id, and by index if it describes all events.
    described: FxHashMap<u64, &'a [u8]>,
    in_order: Vec<&'a [u8]>,
    /// simpleperf's META_INFO: name, type, config.
    listed: Vec<(&'a str, u32, u64)>,
    tracepoints: FxHashMap<u64, String>,
    pmus: &'a [Pmu],
}

impl<'a> Names<'a> {
    fn new(collector: &'a Collector, sections: &[&'a Section<'_>]) -> Self {
        let mut names = Names {
            collector,
            described: FxHashMap::default(),
            in_order: Vec::new(),
            listed: Vec::new(),
            tracepoints: FxHashMap::default(),
            pmus: &[],
        };
        for section in sections {
            match section {
                Section::EventDesc(desc) => {
                    for event in &desc.events {
                        names.described.extend(event.ids.iter().map(|&id| (id, event.name)));
                    }
                    if desc.events.len() == collector.evlist.evsels().len() {
                        names.in_order = desc.events.iter().map(|event| event.name).collect();
                    }
                }
                Section::SimpleperfMeta(pairs) => {
                    let info = pairs.iter().filter(|(key, _)| key == "event_type_info");
                    names.listed.extend(info.flat_map(|(_, value)| value.lines()).filter_map(listed_event));
                }
                Section::TracingData(data) => {
                    let named =
                        data.events.iter().filter_map(|e| Some((e.id?, format!("{}:{}", e.system, e.name))));
                    names.tracepoints.extend(named);
                }
                Section::PmuMappings(pmus) => names.pmus = pmus,
                _ => {}
            }
        }
        names
    }

    fn pmu(&self, pmu_type: u32) -> Option<String> {
        self.pmus.iter().find(|p| p.pmu_type == pmu_type).map(|p| p.name.clone())
    }

    /// simpleperf's name of an event. It lists a PMU's event without the config bits that it adds itself, so the
    /// only event of a type need not agree on the config.
    fn listed(&self, attr: &Attr) -> Option<&'a str> {
        let mut of_type = self.listed.iter().filter(|l| l.1 == attr.event_type());
        match of_type.clone().find(|l| l.2 == attr.config()) {
            Some(exact) => Some(exact.0),
            None => of_type.next().filter(|_| of_type.next().is_none()).map(|only| only.0),
        }
    }

    /// Whether no event of another type has the same config, by which old event types are told apart.
    fn is_only(&self, attr: &Attr) -> bool {
        let mut others = self.collector.evlist.evsels().iter().map(|e| &e.attr);
        others.all(|other| other.config() != attr.config() || other.event_type() == attr.event_type())
    }

    fn of(&self, index: usize, attr: &Attr, ids: &[u64]) -> (String, &'static str) {
        if let Some(name) = ids.iter().find_map(|id| self.collector.updated_names.get(id)) {
            return (name.clone(), "event_update");
        }
        let described = ids.iter().find_map(|id| self.described.get(id)).or_else(|| self.in_order.get(index));
        if let Some(name) = described.filter(|name| !name.is_empty()) {
            return (features::text(name), "event_desc");
        }
        if let Some(name) = self.listed(attr) {
            return (name.to_owned(), "meta_info");
        }
        if let Some(name) = self.collector.type_names.get(&attr.config()).filter(|_| self.is_only(attr)) {
            return (name.clone(), "event_type");
        }
        (attr::event_name(attr, |id| self.tracepoints.get(&id).cloned(), |t| self.pmu(t)), "attr")
    }
}

/// `name,type,config` of simpleperf's META_INFO; the name may have commas of its own.
fn listed_event(line: &str) -> Option<(&str, u32, u64)> {
    let (rest, config) = line.rsplit_once(',')?;
    let (name, event_type) = rest.rsplit_once(',')?;
    Some((name, event_type.parse().ok()?, config.parse().ok()?))
}
