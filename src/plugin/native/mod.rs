//! Plugins of our own interface, `repipe_plugin.h`: they see any record, and keep, drop, change or add.
//!
//! What a plugin gives to be written is checked first: a record that is none is an error that names plugin, hook and
//! record.

mod callchain;
mod check;
pub mod discover;
mod functions;
mod host;
mod info;
mod progress;
mod spec;
mod unfinished;

use std::cell::RefCell;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr::{NonNull, null, null_mut};
use std::rc::Rc;

use libloading::os::unix::Library;
use repipe_plugin_abi as abi;

pub use self::host::Logged;
pub use self::info::Info;
pub use self::spec::Spec;

use self::callchain::Chains;
use self::functions::HOST;
use self::host::{Ctx, NO_RECORD, Phase, Where};
use self::progress::Progress;
use super::events::{EventNames, NameOf};
use super::fixed::{Plan, Words};
use super::resolve::Resolver;
use crate::abi::feature::Feature;
use crate::abi::misc::CPUMODE_MASK;
use crate::abi::record::RecordType;
use crate::bytes::ByteOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Record;
use crate::evlist::{Evlist, RecentEvents};
use crate::header::Header;
use crate::session::Session;

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

/// A loaded plugin.
pub struct Plugin {
    info: Info,
    args: Vec<(CString, Option<CString>)>,
    /// What the plugin's `ctx` points to: from a box, given back when this is dropped.
    ctx: NonNull<Ctx>,
    data: *mut c_void,
    records: abi::RecordsHook,
    /// Bit N: records of type N are wanted.
    wanted: [u64; 4],
    /// By index, whether samples of an event are wanted, as far as was asked.
    events: Vec<bool>,
    recent_events: RecentEvents,
    plans: Vec<Plan>,
    words: Words,
    /// First and last time of the batch's samples.
    times: (u64, u64),
    /// Of each record that the plugin was last told of, its index in the batch.
    indices: Vec<u32>,
    open: bool,
    // Behind everything that points into it.
    _library: Library,
}

impl Plugin {
    /// Finds and loads a plugin. Files and folders that others may write are refused unless `force` is set.
    pub fn load(spec: &Spec, force: bool, resolver: Rc<RefCell<Resolver>>, names: NameOf) -> Result<Plugin> {
        let path = discover::find(&spec.what)?;
        if !force {
            discover::check_trust(&path)?;
        }
        let (library, info) = info::load(&path)?;
        let Some(records) = info.raw.records else {
            return Err(Error::new(
                ErrorKind::Plugin,
                format!("plugin {} has no function for records", info.name),
            ));
        };
        let c_string = |bytes: &Vec<u8>| {
            CString::new(bytes.as_slice()).map_err(|_| Error::usage("a plugin's argument has a NUL in it"))
        };
        let arg = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| {
            Ok((c_string(key)?, value.as_ref().map(c_string).transpose()?))
        };
        let args = spec.args.iter().map(arg).collect::<Result<_>>()?;
        let mut ctx = Box::new(Ctx::new(EventNames::new(names), resolver));
        ctx.edits_features = info.edits_features;
        ctx.progress = Progress::of(&info.name);
        if info.granted() & abi::NEEDS_UNWIND != 0 {
            let options = ctx.resolver.borrow().options().clone();
            ctx.chains = Some(Chains::new(options));
        }
        let all = info.record_types.is_empty();
        Ok(Plugin {
            wanted: if all { [u64::MAX; 4] } else { info.raw.record_types },
            info,
            args,
            ctx: NonNull::from(Box::leak(ctx)),
            data: null_mut(),
            records,
            events: Vec::new(),
            recent_events: RecentEvents::default(),
            plans: Vec::new(),
            words: Words::default(),
            times: (u64::MAX, 0),
            indices: Vec::new(),
            open: false,
            _library: library,
        })
    }

    /// What a file says of itself.
    pub fn inspect(path: &Path, force: bool) -> Result<Info> {
        if !force {
            discover::check_trust(path)?;
        }
        info::load(path).map(|(_, info)| info)
    }

    /// What it says of itself.
    pub fn info(&self) -> &Info {
        &self.info
    }

    fn ctx(&mut self) -> &mut Ctx {
        // SAFETY: from a box that is freed in drop alone; no hook runs now, so nobody else has a reference.
        unsafe { self.ctx.as_mut() }
    }

    /// Calls `open` with what the recording says of itself; called again where a pipe says more, it takes note of that.
    pub fn open(&mut self, header: &Header) -> Result<()> {
        let evlist = header.evlist();
        let ctx = self.ctx();
        ctx.names.begin(header);
        ctx.resolver.borrow_mut().begin(header);
        ctx.features.clone_from(&header.features);
        if let Some(chains) = &mut ctx.chains {
            chains.begin(header);
        }
        if self.open {
            return self.more_features(&evlist);
        }
        let Some(open) = self.info.raw.open else {
            self.open = true;
            return Ok(());
        };
        let args: Vec<abi::Arg> = self
            .args
            .iter()
            .map(|(key, value)| abi::Arg {
                key: key.as_ptr(),
                value: value.as_ref().map_or(null(), |value| value.as_ptr()),
            })
            .collect();
        let told = abi::Open {
            size: size_of::<abi::Open>() as u32,
            big_endian: u32::from(header.order == ByteOrder::Big),
            host: &raw const HOST,
            ctx: self.ctx.as_ptr().cast(),
            args: args.as_ptr(),
            arg_count: args.len() as u32,
            evsel_count: evlist.evsels().len() as u32,
            granted: self.info.granted(),
        };
        self.enter(Phase::Open, &evlist);
        // SAFETY: the function's type is the interface's; what it is told lives until it returns.
        let code = unsafe { open(&raw const told, &raw mut self.data) };
        self.leave();
        self.open = code >= 0;
        if code == abi::USAGE {
            return Err(self.wrong_arguments());
        }
        self.result("open", code)
    }

    /// Calls `features` after the header that it was opened with has grown.
    fn more_features(&mut self, evlist: &Evlist) -> Result<()> {
        let Some(features) = self.info.raw.features else { return Ok(()) };
        self.enter(Phase::Open, evlist);
        // SAFETY: the function's type is the interface's.
        let code = unsafe { features(self.data, &raw const HOST, self.ctx.as_ptr().cast()) };
        self.leave();
        self.result("features", code)
    }

    #[cold]
    fn wrong_arguments(&mut self) -> Error {
        let why = self.ctx().failure.take().unwrap_or_else(|| "its arguments are wrong".to_owned());
        let name = &self.info.name;
        Error::usage(format!("plugin {name}: {why}"))
            .hint("repipe plugin info tells which arguments it takes")
    }

    fn enter(&mut self, phase: Phase, evlist: &Evlist) {
        let ctx = self.ctx();
        ctx.phase = phase;
        ctx.evlist = evlist;
    }

    fn leave(&mut self) {
        let ctx = self.ctx();
        ctx.progress.end();
        ctx.phase = Phase::Idle;
        ctx.evlist = null();
        ctx.session = null_mut();
    }

    fn result(&mut self, hook: &str, code: i32) -> Result<()> {
        match self.ctx().failure.take() {
            Some(why) => Err(self.failed(hook, &why)),
            None if code < 0 => Err(self.failed(hook, &format!("returned {code}"))),
            None => Ok(()),
        }
    }

    #[cold]
    fn failed(&self, hook: &str, why: &str) -> Error {
        Error::new(ErrorKind::Plugin, format!("plugin {}: {hook}: {why}", self.info.name))
    }

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
    fn among(&mut self, e: Error) -> Error {
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

    /// Calls `finish` after the last record, with the feature sections as they are then.
    pub fn finish(&mut self, evlist: &Evlist, header: &Header) -> Result<()> {
        self.ctx().features.clone_from(&header.features);
        let Some(finish) = self.info.raw.finish.filter(|_| self.open) else { return Ok(()) };
        self.enter(Phase::Finish, evlist);
        // SAFETY: the function's type is the interface's.
        let code = unsafe { finish(self.data, &raw const HOST, self.ctx.as_ptr().cast()) };
        self.leave();
        self.result("finish", code)
    }

    /// Feature sections that it has edited since last asked; `None` leaves one out.
    pub fn take_features(&mut self) -> Vec<(Feature, Option<Vec<u8>>)> {
        let ctx = self.ctx();
        let edits = std::mem::take(&mut ctx.edits);
        for (feature, bytes) in &edits {
            ctx.features.retain(|(id, _)| id != feature);
            ctx.features.extend(bytes.clone().map(|bytes| (*feature, bytes)));
        }
        edits
    }

    /// What it had to say to the user, with its name.
    pub fn take_log(&mut self) -> Vec<Logged> {
        let mut lines = std::mem::take(&mut self.ctx().log);
        for logged in &mut lines {
            logged.line = format!("plugin {}: {}", self.info.name, logged.line);
        }
        lines
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        if let Some(close) = self.info.raw.close.filter(|_| self.open) {
            // SAFETY: the function's type is the interface's; called once, after `open` has returned 0.
            unsafe { close(self.data) };
        }
        // SAFETY: from a box in `load`, given back once; the library, whose code may use it, is closed after this.
        drop(unsafe { Box::from_raw(self.ctx.as_ptr()) });
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
