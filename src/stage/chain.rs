//! Several stages, one behind the other.

use super::{Context, Counts, Edits, Fate, Fates, FeatureEdits, Order, Stage, Verdict};
use crate::abi::feature::Feature;
use crate::abi::record::{HEADER_SIZE, RecordType};
use crate::error::Result;
use crate::event::{Record, type_and_size};
use crate::header::Header;
use crate::ordered_events::is_side_band;

/// Stages in the order in which records pass them.
///
/// What one stage drops the next does not see; what it puts in a record's place or before it the next sees as if it had
/// been read, and so it is with feature sections that it edits as it begins, so that the table of build-ids names what
/// records name. All share the session: side-band that a stage makes is applied to it before the next stage looks, so a
/// map that gets another name has it from then on.
pub struct Chain<'a> {
    stages: Vec<&'a mut dyn Stage>,
    /// Whether the session is kept up to date.
    applies: bool,
    /// Whether a record passes all stages before the next one passes any.
    one_by_one: bool,
    scratch: Edits,
    /// Of a batch, what the last stage has said.
    fates: Vec<Fate>,
    /// Counts what stages make, which does not matter: what leaves is counted.
    counts: Counts,
    /// Feature sections that stages wanted changed when they began.
    edits: FeatureEdits,
}

/// Sections that tell whose recording it is. Whoever compares that with this machine needs what was recorded.
const OWNER: [Feature; 3] = [Feature::HOSTNAME, Feature::OSRELEASE, Feature::ARCH];

/// A record on its way that is not, or no longer, as it was read.
#[derive(Default)]
struct Made {
    /// What leaves before or instead of the record that was read.
    bytes: Vec<u8>,
    types: Vec<RecordType>,
}

impl<'a> Chain<'a> {
    /// A chain.
    pub fn new(stages: Vec<&'a mut dyn Stage>) -> Self {
        let applies = stages.iter().any(|s| s.needs_session());
        Chain {
            stages,
            applies,
            one_by_one: false,
            scratch: Edits::default(),
            fates: Vec::new(),
            counts: Counts::default(),
            edits: Vec::new(),
        }
    }

    /// Lets each record pass all stages before the next one passes any: two of them have a state in common.
    pub fn one_by_one(mut self, yes: bool) -> Self {
        self.one_by_one = yes;
        self
    }

    /// Lets a record pass the stages from `first` on. Whether it leaves as it is; `made` gets what else leaves.
    fn pass(
        &mut self,
        first: usize,
        record: Record<'_>,
        cx: &mut Context<'_>,
        made: &mut Option<Box<Made>>,
    ) -> Result<Verdict> {
        for at in first..self.stages.len() {
            let Some(stage) = self.stages.get_mut(at) else { break };
            let inner = Context::new(cx.evlist, &mut *cx.session, &mut self.scratch, &mut self.counts);
            let verdict = stage.record(record, &mut inner.at(record))?;
            if self.scratch.pending() != 0 {
                let bytes = std::mem::take(&mut self.scratch).bytes_at(record.pos);
                self.pass_made(at + 1, &bytes, record, cx, made)?;
            }
            if verdict != Verdict::Keep {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Keep)
    }

    /// Lets records pass the stages from `next` on one by one, since the stage before has made something of some.
    #[cold]
    fn pass_rest(
        &mut self,
        next: usize,
        batch: &[Record<'_>],
        fates: &[Fate],
        cx: &mut Context<'_>,
    ) -> Result<()> {
        let edits = std::mem::take(&mut self.scratch);
        for (&record, fate) in batch.iter().zip(fates) {
            cx.each(record, |cx| {
                let mut made = None;
                self.pass_made(next, &edits.bytes_at(record.pos), record, cx, &mut made)?;
                let verdict = match fate {
                    Fate::Told(Verdict::Keep) => self.pass(next, record, cx, &mut made)?,
                    Fate::Told(verdict) => *verdict,
                    Fate::Misshapen => Verdict::Keep,
                };
                Ok(put(verdict, made, cx))
            })?;
        }
        Ok(())
    }

    /// Lets what a stage has made pass the stages behind it.
    #[cold]
    fn pass_made(
        &mut self,
        next: usize,
        bytes: &[u8],
        record: Record<'_>,
        cx: &mut Context<'_>,
        made: &mut Option<Box<Made>>,
    ) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = type_and_size(rest, record.order).map(|(_, size)| size).filter(|&s| s >= HEADER_SIZE);
            let Some((one, others)) = size.and_then(|size| rest.split_at_checked(size)) else {
                return Err(record.error("a stage put something in its place that is no record"));
            };
            rest = others;
            let one = Record { bytes: one, order: record.order, pos: record.pos };
            if self.applies && is_side_band(one.ty()) {
                cx.session.apply(one, cx.evlist)?;
            }
            if self.pass(next, one, cx, made)? == Verdict::Keep {
                let made = made.get_or_insert_default();
                made.bytes.extend_from_slice(one.bytes);
                made.types.push(one.ty());
            }
        }
        Ok(())
    }
}

/// Puts what was made around a record into the output.
fn put(verdict: Verdict, made: Option<Box<Made>>, cx: &mut Context<'_>) -> Verdict {
    let Some(made) = made else {
        return if verdict == Verdict::Keep { Verdict::Keep } else { Verdict::Drop };
    };
    let put = |out: &mut Vec<u8>, counts: &mut Counts| {
        out.extend_from_slice(&made.bytes);
        made.types.iter().for_each(|&ty| counts.add(ty));
    };
    if verdict == Verdict::Keep {
        cx.insert_before(put);
        Verdict::Keep
    } else {
        cx.replace(put);
        Verdict::Replaced
    }
}

fn order_of(stages: &[&mut dyn Stage]) -> Order {
    stages.iter().map(|s| s.order()).max().unwrap_or(Order::File)
}

impl Stage for Chain<'_> {
    fn order(&self) -> Order {
        order_of(&self.stages)
    }

    fn needs_session(&self) -> bool {
        self.applies
    }

    fn begin(&mut self, header: &Header) -> Result<()> {
        let mut edited: Option<Header> = None;
        for stage in &mut self.stages {
            stage.begin(edited.as_ref().unwrap_or(header))?;
            for (feature, bytes) in stage.take_features() {
                if !OWNER.contains(&feature) {
                    let header = edited.get_or_insert_with(|| header.clone());
                    match &bytes {
                        Some(bytes) => header.set_feature(feature, bytes.clone()),
                        None => {
                            header.remove_feature(feature);
                        }
                    }
                }
                self.edits.push((feature, bytes));
            }
        }
        Ok(())
    }

    #[inline]
    fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
        let mut made = None;
        let verdict = self.pass(0, record, cx, &mut made)?;
        Ok(put(verdict, made, cx))
    }

    fn records(&mut self, batch: &[Record<'_>], cx: &mut Context<'_>) -> Result<()> {
        if self.one_by_one {
            return batch.iter().try_for_each(|&record| cx.each(record, |cx| self.record(record, cx)));
        }
        let mut batch = batch;
        // Side-band passes by itself: what becomes of it is true for the others already.
        if let Some((&first, rest)) =
            batch.split_first().filter(|(first, _)| self.applies && is_side_band(first.ty()))
        {
            cx.each(first, |cx| self.record(first, cx))?;
            batch = rest;
        }
        let mut left = batch.to_vec();
        let mut fates = std::mem::take(&mut self.fates);
        for at in 0..self.stages.len() {
            let Some(stage) = self.stages.get_mut(at).filter(|_| !left.is_empty()) else { break };
            fates.clear();
            let mut inner = Context::new(cx.evlist, &mut *cx.session, &mut self.scratch, &mut self.counts);
            inner.fates = Fates::Kept(&mut fates);
            inner.misshapen = cx.misshapen.as_deref_mut();
            stage.records(&left, &mut inner)?;
            if self.scratch.pending() != 0 {
                return self.pass_rest(at + 1, &left, &fates, cx);
            }
            if fates.iter().all(|fate| *fate == Fate::Told(Verdict::Keep)) {
                continue;
            }
            for (&record, fate) in left.iter().zip(&fates) {
                match fate {
                    Fate::Told(Verdict::Keep) => {}
                    Fate::Told(_) => cx.each(record, |_| Ok(Verdict::Drop))?,
                    Fate::Misshapen => cx.each(record, |_| Ok(Verdict::Keep))?,
                }
            }
            let mut fate = fates.iter();
            left.retain(|_| fate.next() == Some(&Fate::Told(Verdict::Keep)));
        }
        self.fates = fates;
        left.into_iter().try_for_each(|record| cx.each(record, |_| Ok(Verdict::Keep)))
    }

    fn take_features(&mut self) -> FeatureEdits {
        std::mem::take(&mut self.edits)
    }

    fn round(&mut self) {
        self.stages.iter_mut().for_each(|s| s.round());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::bytes::ByteOrder;
    use crate::event::{begin_record, finish_record};
    use crate::evlist::Evlist;
    use crate::session::{Arch, HOST, Session};

    const ORDER: ByteOrder = ByteOrder::Little;

    fn comm(name: &[u8; 8]) -> Vec<u8> {
        let mut out = Vec::new();
        let at = begin_record(&mut out, ORDER, RecordType::COMM, 0);
        ORDER.put_u32(&mut out, 7);
        ORDER.put_u32(&mut out, 7);
        out.extend_from_slice(name);
        finish_record(&mut out, ORDER, at).unwrap();
        out
    }

    /// Calls its function, and notes the names it saw.
    struct Probe<F>(F, Vec<Vec<u8>>);

    impl<F: FnMut(&[u8], &mut Context<'_>) -> Verdict> Stage for Probe<F> {
        fn order(&self) -> Order {
            Order::SideBand
        }
        fn begin(&mut self, _: &Header) -> Result<()> {
            Ok(())
        }
        fn record(&mut self, record: Record<'_>, cx: &mut Context<'_>) -> Result<Verdict> {
            let name = crate::bytes::until_nul(record.bytes.get(16..).unwrap_or_default());
            self.1.push(name.to_vec());
            Ok((self.0)(name, cx))
        }
    }

    /// What leaves when one record named `in` passes, what each stage saw, and the name that the session has then.
    fn run(stages: Vec<&mut dyn Stage>) -> (Verdict, Vec<u8>, Vec<u8>) {
        let mut session = Session::new(Arch::from_name("x86_64"));
        let (mut edits, mut out) = (Edits::default(), Counts::default());
        let bytes = comm(b"in\0\0\0\0\0\0");
        let record = Record { bytes: &bytes, order: ORDER, pos: 100 };
        let evlist = Evlist::new(ORDER);
        session.apply(record, &evlist).unwrap();
        let mut cx = Context::new(&evlist, &mut session, &mut edits, &mut out).at(record);
        let verdict = Chain::new(stages).record(record, &mut cx).unwrap();
        let mut left = Vec::new();
        edits
            .take_until(u64::MAX, |edit, bytes| {
                assert_eq!(edit.skip, if verdict == Verdict::Replaced { 24 } else { 0 });
                left.extend(bytes.chunks(24).flat_map(|c| [&c[16..19], b" "].concat()));
                Ok::<(), ()>(())
            })
            .unwrap();
        assert_eq!(out.get(RecordType::COMM) as usize, left.len() / 4);
        let name = session.thread(HOST, 7, 7).unwrap().comm().unwrap().to_vec();
        (verdict, left, name)
    }

    #[test]
    fn what_is_dropped_goes_no_further() {
        let mut first = Probe(|_: &[u8], _: &mut Context<'_>| Verdict::Drop, Vec::new());
        let mut second = Probe(|_: &[u8], _: &mut Context<'_>| Verdict::Keep, Vec::new());
        assert_eq!(run(vec![&mut first, &mut second]), (Verdict::Drop, vec![], b"in".to_vec()));
        assert!(second.1.is_empty());
    }

    #[test]
    fn what_is_made_is_seen_by_the_stages_behind_and_by_the_session() {
        let mut first = Probe(
            |_: &[u8], cx: &mut Context<'_>| {
                cx.insert_before(|out, _| out.extend(comm(b"one\0\0\0\0\0")));
                cx.replace(|out, _| out.extend([comm(b"two\0\0\0\0\0"), comm(b"bad\0\0\0\0\0")].concat()));
                Verdict::Replaced
            },
            Vec::new(),
        );
        let mut second = Probe(
            |name: &[u8], cx: &mut Context<'_>| match name {
                b"bad" => Verdict::Drop,
                b"two" => {
                    cx.insert_before(|out, _| out.extend(comm(b"mid\0\0\0\0\0")));
                    Verdict::Keep
                }
                _ => Verdict::Keep,
            },
            Vec::new(),
        );
        let mut third = Probe(|_: &[u8], _: &mut Context<'_>| Verdict::Keep, Vec::new());
        let (verdict, left, name) = run(vec![&mut first, &mut second, &mut third]);
        assert_eq!((verdict, left.as_slice()), (Verdict::Replaced, &b"one mid two "[..]));
        assert_eq!(second.1, [b"one", b"two", b"bad"].map(|n| n.to_vec()));
        assert_eq!(third.1, [b"one", b"mid", b"two"].map(|n| n.to_vec()));
        assert_eq!(name, b"bad");
    }

    #[test]
    fn a_batch_passes_stage_by_stage_until_something_is_made() {
        let mut first = Probe(
            |name: &[u8], cx: &mut Context<'_>| match name {
                b"b" => Verdict::Drop,
                b"d" => {
                    cx.insert_before(|out, _| out.extend(comm(b"new\0\0\0\0\0")));
                    Verdict::Keep
                }
                _ => Verdict::Keep,
            },
            Vec::new(),
        );
        for made in [false, true] {
            let names: Vec<&[u8; 8]> = vec![b"a\0\0\0\0\0\0\0", b"b\0\0\0\0\0\0\0", b"c\0\0\0\0\0\0\0"];
            let names = [names, if made { vec![b"d\0\0\0\0\0\0\0"] } else { vec![] }].concat();
            let all: Vec<Vec<u8>> = names.iter().map(|name| comm(name)).collect();
            // Not in the order of their places, as by time.
            let pos = |at: usize| 1000 - 24 * at as u64;
            let batch: Vec<Record<'_>> = all
                .iter()
                .enumerate()
                .map(|(at, bytes)| Record { bytes, order: ORDER, pos: pos(at) })
                .collect();
            let mut second = Probe(
                |name: &[u8], _: &mut Context<'_>| if name == b"c" { Verdict::Drop } else { Verdict::Keep },
                Vec::new(),
            );
            let mut third = Probe(|_: &[u8], _: &mut Context<'_>| Verdict::Keep, Vec::new());
            let mut session = Session::new(Arch::from_name("x86_64"));
            let (mut edits, mut out) = (Edits::default(), Counts::default());
            let evlist = Evlist::new(ORDER);
            let mut cx = Context::new(&evlist, &mut session, &mut edits, &mut out);
            let mut chain = Chain::new(vec![&mut first, &mut second, &mut third]);
            // As if they did not change the session: then they come in one batch.
            chain.applies = false;
            chain.records(&batch, &mut cx).unwrap();
            drop(chain);
            let mut left = Vec::new();
            edits
                .take_until(u64::MAX, |edit, bytes| {
                    left.push((edit.pos, edit.skip, bytes.len()));
                    Ok::<(), ()>(())
                })
                .unwrap();
            let dropped = [(pos(2), 24, 0), (pos(1), 24, 0)];
            let inserted = [(pos(3), 0, 24)].into_iter().filter(|_| made);
            assert_eq!(left, inserted.chain(dropped).collect::<Vec<_>>());
            assert_eq!(out.get(RecordType::COMM), if made { 3 } else { 1 });
            let mut saw = vec![b"a".to_vec()];
            if made {
                saw.extend([b"new".to_vec(), b"d".to_vec()]);
            }
            assert_eq!(third.1, saw);
        }
        assert_eq!(first.1.concat(), b"abcabcd");
    }

    #[test]
    fn what_is_inserted_leaves_a_kept_record_where_it_is() {
        let mut only = Probe(
            |_: &[u8], cx: &mut Context<'_>| {
                cx.insert_before(|out, _| out.extend(comm(b"new\0\0\0\0\0")));
                Verdict::Keep
            },
            Vec::new(),
        );
        assert_eq!(run(vec![&mut only]), (Verdict::Keep, b"new ".to_vec(), b"new".to_vec()));
    }
}
