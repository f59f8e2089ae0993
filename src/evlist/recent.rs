//! The events of the samples that were seen last.

use super::{Evlist, SampleLayout};

/// Ids that are kept. They are counted up, one for each event and CPU, and samples of several CPUs take turns.
const IDS: usize = 64;

/// Remembers which events ids stand for, so that they are rarely looked up.
pub struct RecentEvents {
    /// By the last bits of the id: it, and the index of its event, which it stays the id of.
    ids: [Option<(u64, u32)>; IDS],
}

impl Default for RecentEvents {
    fn default() -> Self {
        RecentEvents { ids: [None; IDS] }
    }
}

impl RecentEvents {
    /// Index of a sample's event, as [`Evlist::index_of_sample`] has it.
    #[inline]
    pub fn index(&mut self, evlist: &Evlist, bytes: &[u8]) -> Option<usize> {
        let Some(id) = evlist.id_of_sample(bytes) else { return evlist.index_of_sample(bytes) };
        let place = self.ids.get_mut(id as usize % IDS)?;
        match place {
            Some((of, index)) if *of == id => Some(*index as usize),
            _ => {
                let index = evlist.index_of_sample(bytes)?;
                *place = Some((id, index as u32));
                Some(index)
            }
        }
    }

    /// The layout of a sample, as [`Evlist::layout_of_sample`] has it.
    #[inline]
    pub fn layout<'e>(&mut self, evlist: &'e Evlist, bytes: &[u8]) -> Option<&'e SampleLayout> {
        if evlist.uniform_samples {
            return evlist.layout_of_sample(bytes);
        }
        evlist.evsels().get(self.index(evlist, bytes)?).map(|evsel| &evsel.layout)
    }
}
