//! How much memory symbols may take, and what that costs.
//!
//! Below what a recording needs all the time, tables would be let go of only to be loaded again at once, for hours. So
//! what is brought back is set against what was done: if it is out of proportion, the limit gives way, and the user is told.

/// Bytes that may be brought back for each frame that was resolved. A frame takes some 50 ns, a byte of a table ten to twenty
/// to build.
const BYTES_PER_FRAME: u64 = 8;
/// How often as much as the limit may be brought back besides.
const TIMES: u64 = 4;

/// The limit and how it is kept.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    asked: usize,
    most: usize,
    peak: usize,
    brought_back: u64,
    tables: u64,
    frames: u64,
}

impl Limit {
    /// A limit in bytes.
    pub fn new(asked: usize) -> Limit {
        Limit { asked, most: asked, peak: 0, brought_back: 0, tables: 0, frames: 0 }
    }

    /// Bytes that may be in use now.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Notes how many bytes are in use.
    pub fn note(&mut self, used: usize) {
        self.peak = self.peak.max(used);
    }

    /// Notes that frames were resolved.
    pub fn worked(&mut self, frames: usize) {
        self.frames += frames as u64;
    }

    /// Notes that something of so many bytes, which was there before, has to be made again.
    pub fn brought_back(&mut self, bytes: usize) {
        self.brought_back += bytes as u64;
        self.tables += u64::from(bytes > 0);
    }

    /// Whether so many bytes may be in use although they are more than the limit: from then on as many may.
    pub fn exceeds(&mut self, needed: usize) -> bool {
        let asked = self.asked as u64;
        let may = asked.saturating_mul(TIMES).saturating_add(self.frames.saturating_mul(BYTES_PER_FRAME));
        let gives_way = self.brought_back > may;
        if gives_way {
            self.most = self.most.max(needed.saturating_add(needed / 8));
        }
        gives_way
    }

    /// What the user should know of it.
    pub fn report(&self) -> (String, bool) {
        let mb = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let kept = self.peak <= self.asked;
        let (peak, asked, tables) = (mb(self.peak), mb(self.asked), self.tables);
        let text = match kept {
            true => format!(
                "symbols took up to {peak:.1} MB of {asked:.1} MB; {tables} times some were loaded again"
            ),
            false => format!(
                "symbols took up to {peak:.1} MB, more than the {asked:.1} MB of --memory-limit: single tables need more, or \
                 would have been loaded over and over ({tables} times some were loaded again)"
            ),
        };
        (text, kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_gives_way_when_too_much_is_brought_back() {
        let mut limit = Limit::new(1000);
        limit.brought_back(4000);
        assert!(!limit.exceeds(2000));
        limit.brought_back(1);
        assert!(limit.exceeds(2000));
        assert_eq!(limit.most(), 2250);
        limit.worked(100);
        assert!(!limit.exceeds(3000));
        assert_eq!(limit.most(), 2250);
        limit.note(900);
        assert!(limit.report().1);
        limit.note(1001);
        assert!(!limit.report().1);
    }
}
