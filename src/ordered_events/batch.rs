//! Records of a block with their times, as they are found.

/// A record that waits: its time, ns, and its stream position.
pub(super) type Entry = (u64, u64);

/// Records that follow each other in one block, with their times.
#[derive(Debug)]
pub struct Batch {
    pub(super) entries: Vec<Entry>,
    /// Side-band records.
    pub(super) barriers: Vec<Entry>,
    /// Where each run ends, and its last time.
    pub(super) runs: Vec<(usize, u64)>,
    last: u64,
    pub(super) earliest: u64,
    pub(super) latest: u64,
}

impl Batch {
    /// An empty one, behind a record of this time.
    pub fn new(last: u64) -> Self {
        Batch {
            entries: Vec::new(),
            barriers: Vec::new(),
            runs: Vec::new(),
            last,
            earliest: u64::MAX,
            latest: 0,
        }
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Time of the last record, ns.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Adds the record at a stream position.
    #[inline]
    pub fn push(&mut self, time: Option<u64>, pos: u64, side_band: bool) {
        let before = self.last;
        if let Some(time) = time {
            self.last = time;
            self.earliest = self.earliest.min(time);
            self.latest = self.latest.max(time);
        }
        let entry = (self.last, pos);
        if side_band {
            self.barriers.push(entry);
        }
        self.entries.push(entry);
        match self.runs.last_mut() {
            Some(run) if before <= self.last => *run = (self.entries.len(), self.last),
            _ => self.runs.push((self.entries.len(), self.last)),
        }
    }
}
