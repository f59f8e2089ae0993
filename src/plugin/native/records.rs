//! Records for a plugin, and what it says of them.

use super::super::fixed::Plan;
use super::functions::HOST;
use super::host::{NO_RECORD, Phase, Where};
use super::{Plugin, check};
use crate::abi::misc::CPUMODE_MASK;
use crate::abi::record::RecordType;
use crate::error::{Error, Result};
use crate::event::Record;
use crate::evlist::Evlist;
use crate::session::Session;
use repipe_plugin_abi as abi;
use std::ffi::c_void;
use std::ptr::null_mut;

/// The hook for records, in messages.
const HOOK: &str = "records";

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It stays, and nothing else was given.
    Keep,
    /// It is left out, and nothing else was given.
    Drop,
    /// It stays or not, and something was given: see [`Plugin::given`].
    Given {
        /// Whether it stays.
        keep: bool,
    },
}

/// What a plugin gave around a record: checked, whole records.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// To go before it.
    pub before: &'a [u8],
    /// To go in its place.
    pub instead: &'a [u8],
    /// To go behind it.
    pub after: &'a [u8],
}

impl Plugin {
    /// Shows the plugin those of some records that it wants. The session must be as it was at each of them.
    pub fn records(&mut self, batch: &[Record<'_>], evlist: &Evlist, session: &mut Session) -> Result<()> {
        self.tell(batch, evlist);
        // SAFETY: as in `ctx`.
        let ctx = unsafe { self.ctx.as_mut() };
        let count = ctx.count;
        ctx.verdicts.clear();
        if count == 0 {
            return Ok(());
        }
        ctx.verdicts.resize(count, abi::KEEP);
        ctx.session = if self.info.needs_session { session } else { null_mut() };
        ctx.evlist = evlist;
        ctx.phase = Phase::Records;
        let told = abi::Batch {
            size: size_of::<abi::Batch>() as u32,
            count: count as u32,
            stride: size_of::<abi::Record>() as u32,
            reserved: 0,
            records: ctx.told.as_ptr(),
            verdicts: ctx.verdicts.as_mut_ptr(),
        };
        let (data, host) = (self.data, self.ctx.as_ptr().cast::<c_void>());
        // SAFETY: the function's type is the interface's; records, verdicts, session and events live until it returns,
        // and no reference to the context is used meanwhile.
        let code = unsafe { (self.records)(data, &raw const HOST, host, &raw const told) };
        // SAFETY: as in `ctx`.
        let ctx = unsafe { self.ctx.as_mut() };
        ctx.phase = Phase::Idle;
        if code != 0 || ctx.failure.is_some() {
            return self.result(HOOK, code).map_err(|e| self.among(e));
        }
        Ok(())
    }

    /// Describes the records of a batch that the plugin wants.
    fn tell(&mut self, batch: &[Record<'_>], evlist: &Evlist) {
        self.ctx().given.clear();
        // Room for all that there could be, so that each is written where it stays.
        let mut all = std::mem::take(&mut self.ctx().told);
        if all.len() < batch.len() {
            all.resize(batch.len(), NO_RECORD);
        }
        self.indices.clear();
        self.times = (u64::MAX, 0);
        let evsels = evlist.evsels();
        self.plans.extend(evsels.iter().skip(self.plans.len()).map(Plan::new));
        let mut slots = all.iter_mut();
        let mut slot = slots.next();
        for (index, &record) in batch.iter().enumerate() {
            let Some(told) = &mut slot else { break };
            let ty = record.ty();
            let bit = ty.0.min(255);
            let wanted = self.wanted.get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1);
            let tells = match ty {
                _ if !wanted => false,
                RecordType::SAMPLE => self.tell_sample(told, record, evlist),
                _ => {
                    tell_other(told, record, ty, evlist);
                    true
                }
            };
            if ty == RecordType::SAMPLE {
                let time = if tells { told.time } else { record.time(evlist).unwrap_or(0) };
                // Neither is a time, as for `Record::time`.
                if time != 0 && time != abi::NONE {
                    self.times = (self.times.0.min(time), self.times.1.max(time));
                }
            }
            if tells {
                self.indices.push(index as u32);
                slot = slots.next();
            }
        }
        let count = self.indices.len();
        let ctx = self.ctx();
        (ctx.told, ctx.count) = (all, count);
    }

    /// Describes a sample. False if the plugin does not want those of its event, or it is too short for that.
    #[inline]
    fn tell_sample(&mut self, told: &mut abi::Record, record: Record<'_>, evlist: &Evlist) -> bool {
        let Some(event) = self.recent_events.index(evlist, record.bytes) else { return false };
        if !self.info.events.is_empty() && !self.wants_event(event, evlist) {
            return false;
        }
        let Some(fixed) = self.plans.get(event).and_then(|plan| plan.read(record, &mut self.words)) else {
            return false;
        };
        told.bytes = record.bytes.as_ptr();
        told.len = record.bytes.len() as u32;
        told.ty = RecordType::SAMPLE.0;
        told.pos = record.pos;
        told.time = fixed.time();
        told.id = fixed.id();
        told.ip = fixed.ip();
        told.period = fixed.period();
        (told.pid, told.tid) = fixed.pid_tid();
        told.cpu = fixed.cpu();
        told.evsel = event as u32;
        told.misc = record.misc();
        told.cpumode = (told.misc & CPUMODE_MASK) as u8;
        true
    }

    /// First and last time of all samples of the batch, ns; `None` if none has a time.
    pub fn times(&self) -> Option<(u64, u64)> {
        Some(self.times).filter(|(first, last)| first <= last)
    }

    /// Whether the plugin keeps all that it was told of, and gave nothing.
    #[inline]
    pub fn keeps_all(&mut self) -> bool {
        let ctx = self.ctx();
        ctx.given.is_empty() && ctx.verdicts.iter().all(|&verdict| verdict == abi::KEEP)
    }

    /// Whether the record that the plugin was told of as number `told` is that at `index` of the batch.
    #[inline]
    pub fn is_told(&self, told: usize, index: usize) -> bool {
        self.indices.get(told).is_some_and(|&at| at as usize == index)
    }

    /// What becomes of the record that the plugin was told of as number `told`.
    #[inline]
    pub fn outcome(&mut self, told: usize, record: Record<'_>, evlist: &Evlist) -> Result<Outcome> {
        let ctx = self.ctx();
        let verdict = ctx.verdicts.get(told).copied().unwrap_or(abi::KEEP);
        if ctx.given.is_empty() {
            match verdict {
                abi::KEEP => return Ok(Outcome::Keep),
                abi::DROP if record.ty() != RecordType::AUXTRACE => return Ok(Outcome::Drop),
                _ => {}
            }
        }
        self.weigh(told, record, evlist, verdict)
    }

    /// What a verdict comes to that is not simple, or of a batch for which something was given.
    #[cold]
    fn weigh(&mut self, told: usize, record: Record<'_>, evlist: &Evlist, verdict: u8) -> Result<Outcome> {
        let given = self.given(told);
        let has_given = [given.before, given.instead, given.after].iter().any(|bytes| !bytes.is_empty());
        let instead = given.instead.is_empty();
        let checked = [given.before, given.instead, given.after]
            .into_iter()
            .try_for_each(|bytes| check::records(bytes, record.order, evlist, |_| {}));
        checked.map_err(|why| self.failed(HOOK, &why))?;
        if verdict != abi::KEEP && record.ty() == RecordType::AUXTRACE {
            return Err(
                self.failed(HOOK, "its verdict must be to keep: the data behind this record goes with it")
            );
        }
        match verdict {
            abi::KEEP | abi::DROP if !instead => {
                Err(self.failed(HOOK, "gave a replacement, but its verdict is not to replace"))
            }
            abi::REPLACE if instead => {
                Err(self.failed(HOOK, "its verdict is to replace, but it gave nothing for that"))
            }
            abi::KEEP if !has_given => Ok(Outcome::Keep),
            abi::DROP if !has_given => Ok(Outcome::Drop),
            abi::KEEP | abi::DROP | abi::REPLACE => Ok(Outcome::Given { keep: verdict == abi::KEEP }),
            other => Err(self.failed(HOOK, &format!("its verdict is {other}, which is none"))),
        }
    }

    /// Names the record at which a hook failed; of a batch the first, if that is not known.
    #[cold]
    pub(super) fn among(&mut self, e: Error) -> Error {
        let ctx = self.ctx();
        let known = ctx.failed_at.take().and_then(|at| ctx.told.get(..ctx.count)?.get(at as usize));
        match (known, ctx.told.first(), ctx.count) {
            (Some(told), _, _) | (None, Some(told), 1) => e.at(told.pos).in_record(RecordType(told.ty)),
            (None, Some(first), n) => e
                .at(first.pos)
                .in_record(RecordType(first.ty))
                .note(&format!("at this record or one of the {} after it", n - 1)),
            (None, None, _) => e,
        }
    }

    /// What it gave around the record that it was told of as number `told`.
    pub fn given(&mut self, told: usize) -> Given<'_> {
        let ctx = self.ctx();
        let at = |place| ctx.given_for(told as u32, place).unwrap_or_default();
        Given { before: at(Where::Before), instead: at(Where::Instead), after: at(Where::After) }
    }

    fn wants_event(&mut self, index: usize, evlist: &Evlist) -> bool {
        while self.events.len() <= index {
            let next = self.events.len();
            let name = self.ctx().names.name(evlist, next);
            self.events.push(self.info.events.contains(&name));
        }
        self.events.get(index).copied().unwrap_or(false)
    }
}

/// Describes a record that is no sample.
fn tell_other(told: &mut abi::Record, record: Record<'_>, ty: RecordType, evlist: &Evlist) {
    let misc = record.misc();
    *told = abi::Record {
        bytes: record.bytes.as_ptr(),
        len: record.bytes.len() as u32,
        ty: ty.0,
        pos: record.pos,
        misc,
        cpumode: (misc & CPUMODE_MASK) as u8,
        ..NO_RECORD
    };
    if ty.is_kernel() {
        tell_trailer(told, record, evlist);
    }
}

fn tell_trailer(told: &mut abi::Record, record: Record<'_>, evlist: &Evlist) {
    let Some(trailer) = evlist.trailer_of(record.bytes) else { return };
    let (_, tail) = record.split_trailer(trailer);
    let order = record.order;
    let half = |at: usize| order.u32(tail, at).map_or(-1, u32::cast_signed);
    told.time = trailer.time.and_then(|at| order.u64(tail, at)).unwrap_or(abi::NONE);
    let id = trailer.identifier.or(trailer.id_field);
    told.id = id.and_then(|at| order.u64(tail, at)).unwrap_or(abi::NONE);
    if let Some(at) = trailer.tid {
        (told.pid, told.tid) = (half(at), half(at + 4));
    }
    if let Some(at) = trailer.cpu {
        told.cpu = half(at);
    }
}
