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
mod records;
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
pub use self::records::{Given, Outcome};
pub use self::spec::Spec;

use self::callchain::Chains;
use self::functions::HOST;
use self::host::{Ctx, Phase};
use self::progress::Progress;
use super::events::{EventNames, NameOf};
use super::fixed::{Plan, Words};
use super::resolve::Resolver;
use crate::abi::feature::Feature;
use crate::bytes::ByteOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::evlist::{Evlist, RecentEvents};
use crate::header::Header;

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
