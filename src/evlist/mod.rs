//! Events of a recording: attributes, ids and the layouts of their records.

mod attr;
mod layout;
mod read_format;
mod recent;

pub use attr::Attr;
pub use layout::{SampleLayout, TrailerLayout};
pub use read_format::ReadFormat;
pub use recent::RecentEvents;

use rustc_hash::FxHashMap;

use crate::abi::sample;
use crate::bytes::ByteOrder;

/// One event: its attribute, the ids that its counters have, and the layouts of its records.
#[derive(Clone, Debug)]
pub struct Evsel {
    /// The attribute, all its bytes.
    pub attr: Attr,
    /// Ids of the event's counters, one for each CPU or thread.
    pub ids: Vec<u64>,
    /// Name from EVENT_DESC or EVENT_UPDATE, if one is known.
    pub name: Option<String>,
    /// Where the fields of the event's samples are.
    pub layout: SampleLayout,
    /// Where the fields of the sample id trailer of other records are.
    pub trailer: TrailerLayout,
}

/// All events of a recording.
#[derive(Clone, Debug)]
pub struct Evlist {
    order: ByteOrder,
    evsels: Vec<Evsel>,
    by_id: FxHashMap<u64, u32>,
    /// Byte offset of the id in a sample, if all events agree.
    sample_id: Option<usize>,
    /// Bytes from the end of the record to the id in a trailer, if all events agree.
    trailer_id: Option<usize>,
    /// Whether all events lay out samples alike, so that no id need be looked at.
    uniform_samples: bool,
    /// Whether all events lay out trailers alike.
    uniform_trailers: bool,
    /// Where the time is in samples, if all events agree on that.
    sample_time: Option<Option<usize>>,
}

impl Evlist {
    /// No events yet.
    pub fn new(order: ByteOrder) -> Self {
        Evlist {
            order,
            evsels: Vec::new(),
            by_id: FxHashMap::default(),
            sample_id: None,
            trailer_id: None,
            uniform_samples: true,
            uniform_trailers: true,
            sample_time: None,
        }
    }

    /// Byte order of the recording.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Adds an event with its ids.
    pub fn push(&mut self, attr: Attr, ids: Vec<u64>) {
        let index = self.evsels.len() as u32;
        for &id in &ids {
            self.by_id.insert(id, index);
        }
        let layout = SampleLayout::new(&attr);
        let trailer = TrailerLayout::new(&attr);
        match self.evsels.first() {
            None => {
                self.sample_id = layout.id;
                self.trailer_id = trailer.id_from_end();
                self.sample_time = Some(layout.time);
            }
            Some(first) => {
                self.uniform_samples &= first.layout == layout;
                self.uniform_trailers &= first.trailer == trailer;
                if first.layout.time != layout.time {
                    self.sample_time = None;
                }
                if self.sample_id != layout.id {
                    self.sample_id = None;
                }
                if self.trailer_id != trailer.id_from_end() {
                    self.trailer_id = None;
                }
            }
        }
        self.evsels.push(Evsel { attr, ids, name: None, layout, trailer });
    }

    /// The events, in the recording's order.
    pub fn evsels(&self) -> &[Evsel] {
        &self.evsels
    }

    /// An event, to name it.
    pub fn evsel_mut(&mut self, index: usize) -> Option<&mut Evsel> {
        self.evsels.get_mut(index)
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.evsels.is_empty()
    }

    /// Index of the event with an id; id 0 and unknown ids are the first event's, as in perf.
    pub fn index_of_id(&self, id: u64) -> Option<usize> {
        match self.by_id.get(&id) {
            Some(&index) => Some(index as usize),
            None if id == 0 && !self.evsels.is_empty() => Some(0),
            None => None,
        }
    }

    /// Index of the event that a sample belongs to; the only or first one if samples carry no id.
    ///
    /// `bytes` is the whole record.
    #[inline]
    pub fn index_of_sample(&self, bytes: &[u8]) -> Option<usize> {
        if self.evsels.len() == 1 {
            return Some(0);
        }
        match self.sample_id {
            Some(at) => self.index_of_id(self.order.u64(bytes, at)?),
            None if self.evsels.is_empty() => None,
            None => Some(0),
        }
    }

    /// The id that a sample carries, if all events agree on where it is.
    #[inline]
    pub fn id_of_sample(&self, bytes: &[u8]) -> Option<u64> {
        self.order.u64(bytes, self.sample_id?)
    }

    /// The event of a sample, as [`Evlist::index_of_sample`].
    #[inline]
    pub fn evsel_of_sample(&self, bytes: &[u8]) -> Option<&Evsel> {
        self.evsels.get(self.index_of_sample(bytes)?)
    }

    /// The layout of a sample, without looking at its id where all events agree.
    #[inline]
    pub fn layout_of_sample(&self, bytes: &[u8]) -> Option<&SampleLayout> {
        if self.uniform_samples {
            return self.evsels.first().map(|e| &e.layout);
        }
        self.evsel_of_sample(bytes).map(|e| &e.layout)
    }

    /// The time of a sample as it stands, ns.
    #[inline]
    pub fn time_of_sample(&self, bytes: &[u8]) -> Option<u64> {
        let at = match self.sample_time {
            Some(at) => at,
            None => self.layout_of_sample(bytes)?.time,
        };
        self.order.u64(bytes, at?)
    }

    /// The trailer of a kernel record that is not a sample.
    #[inline]
    pub fn trailer_of(&self, bytes: &[u8]) -> Option<&TrailerLayout> {
        let first = self.evsels.first()?;
        if self.uniform_trailers {
            return Some(&first.trailer);
        }
        let id = self.trailer_id.and_then(|back| self.order.u64(bytes, bytes.len().checked_sub(back)?));
        let index = id.and_then(|id| self.index_of_id(id)).unwrap_or(0);
        self.evsels.get(index).map(|e| &e.trailer)
    }

    /// Whether any event's samples have one of these `sample_type` bits.
    pub fn any_sample_type(&self, bits: u64) -> bool {
        self.evsels.iter().any(|e| e.attr.sample_type() & bits != 0)
    }

    /// Whether records carry times at all.
    pub fn has_time(&self) -> bool {
        self.any_sample_type(sample::TIME)
    }
}
