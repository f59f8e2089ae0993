//! perf's dlfilters, as they are: shared objects built against `perf_dlfilter.h` that keep or drop samples.
//!
//! A filter is loaded with [`DlFilter::load`], told of the recording with [`DlFilter::start`], and asked with
//! [`DlFilter::keeps`] for each sample in time order, after the session has seen what came before it.

mod abi;
mod host;
mod sample;

use std::cell::RefCell;
use std::ffi::{CStr, OsString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null, null_mut};
use std::rc::Rc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use self::abi::{Description, Filter, Functions, Start, Stop};
use self::host::{FUNCTIONS, Host, Phase};
use super::events::{EventNames, NameOf};
use super::fixed::Plan;
use super::resolve::Resolver;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Record;
use crate::evlist::{Evlist, RecentEvents};
use crate::header::Header;
use crate::session::Session;

/// Folders where perf installs filters.
const FOLDERS: [&str; 3] = [
    "/usr/libexec/perf-core/dlfilters",
    "/usr/lib/perf-core/dlfilters",
    "/usr/local/libexec/perf-core/dlfilters",
];

/// A filter and its arguments, as on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The shared object: a path, or a name to be looked for.
    pub file: OsString,
    /// Values of `--dlarg`, in order.
    pub args: Vec<OsString>,
}

/// Which of a filter's two functions is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// `filter_event_early`, before the host's own filters.
    Early,
    /// `filter_event`, after them.
    Late,
}

/// A loaded dlfilter.
pub struct DlFilter {
    name: String,
    /// What the filter's `ctx` points to: from a box, given back when this is dropped.
    host: NonNull<Host>,
    data: *mut c_void,
    start: Option<Start>,
    stop: Option<Stop>,
    early: Option<Filter>,
    late: Option<Filter>,
    description: Option<Description>,
    names: EventNames,
    resolver: Rc<RefCell<Resolver>>,
    plans: Vec<Plan>,
    recent_events: RecentEvents,
    running: bool,
    can_ask: bool,
    // Behind everything that points into it.
    _library: Library,
}

impl DlFilter {
    /// Loads the shared object and gives it the host's functions.
    pub fn load(spec: &Spec, resolver: Rc<RefCell<Resolver>>, names: NameOf) -> Result<DlFilter> {
        let path = find(&spec.file);
        let name = path.display().to_string();
        if let Some(fault) = crate::plugin::object::fault(&path) {
            return Err(fault.of(&format!("dlfilter {name}")));
        }
        // SAFETY: loading runs the object's initialisers: code that the user asked to be run in this process.
        let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| {
            Error::new(ErrorKind::Plugin, format!("cannot load dlfilter {name}: {}", cause(&e)))
        })?;
        // SAFETY: the types are those that perf's header states for these names.
        let (start, stop, early, late, description, functions) = unsafe {
            (
                library.get::<Start>(b"start\0").ok().map(|f| *f),
                library.get::<Stop>(b"stop\0").ok().map(|f| *f),
                library.get::<Filter>(b"filter_event_early\0").ok().map(|f| *f),
                library.get::<Filter>(b"filter_event\0").ok().map(|f| *f),
                library.get::<Description>(b"filter_description\0").ok().map(|f| *f),
                library.get::<*mut Functions>(b"perf_dlfilter_fns\0").ok().map(|f| *f),
            )
        };
        if start.is_none() && stop.is_none() && early.is_none() && late.is_none() {
            return Err(Error::new(ErrorKind::Plugin, format!("{name} has no function of a dlfilter"))
                .hint("it needs filter_event or filter_event_early"));
        }
        let functions = functions.filter(|place| !place.is_null());
        if let Some(place) = functions {
            // SAFETY: the object of that name has room for 128 pointers by the header that declares it.
            unsafe { place.write(FUNCTIONS) };
        }
        let host = Box::new(Host::new(&spec.args, Rc::clone(&resolver)));
        Ok(DlFilter {
            name,
            host: NonNull::from(Box::leak(host)),
            data: null_mut(),
            start,
            stop,
            early,
            late,
            description,
            names: EventNames::new(names),
            resolver,
            plans: Vec::new(),
            recent_events: RecentEvents::default(),
            running: false,
            can_ask: functions.is_some(),
            _library: library,
        })
    }

    /// What it says of itself: a line, and more.
    pub fn description(&self) -> Option<(String, String)> {
        let describe = self.description?;
        let mut long: *const c_char = null();
        // SAFETY: the function's type is the header's; it may set the pointer it is given.
        let short = unsafe { describe(&raw mut long) };
        // SAFETY: null, or a C string of the object, which is loaded as long as `self` lives.
        let text = |p: *const c_char| {
            (!p.is_null()).then(|| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned())
        };
        Some((text(short).unwrap_or_default(), text(long).unwrap_or_default()))
    }

    /// Whether it has a function to be asked at that time.
    pub fn asks(&self, when: When) -> bool {
        match when {
            When::Early => self.early.is_some(),
            When::Late => self.late.is_some(),
        }
    }

    /// Whether it has a place for the host's functions: without, it can't ask of maps and threads.
    pub fn can_ask(&self) -> bool {
        self.can_ask
    }

    fn host(&mut self) -> &mut Host {
        // SAFETY: from a box that is freed in drop alone; the filter does not run now, so nobody else has a reference.
        unsafe { self.host.as_mut() }
    }

    fn enter(&mut self, phase: Phase) {
        self.host().phase = phase;
    }

    /// Tells of the recording and calls `start`; called again where a pipe says more, it tells of that alone.
    /// [`DlFilter::stop`] follows in any case.
    pub fn start(&mut self, header: &Header) -> Result<()> {
        self.names.begin(header);
        self.resolver.borrow_mut().begin(header);
        if std::mem::replace(&mut self.running, true) {
            return Ok(());
        }
        let Some(start) = self.start else { return Ok(()) };
        self.enter(Phase::Edge);
        // SAFETY: the function's type is the header's; `ctx` is the host, `data` a place for its pointer.
        let code = unsafe { start(&raw mut self.data, self.host.as_ptr().cast()) };
        self.enter(Phase::Idle);
        if code < 0 { Err(self.failed("start", code)) } else { Ok(()) }
    }

    /// Calls `stop` if it is due; what it returns does not matter, as in perf.
    pub fn stop(&mut self) {
        if !std::mem::take(&mut self.running) {
            return;
        }
        if let Some(stop) = self.stop {
            self.enter(Phase::Edge);
            // SAFETY: the function's type is the header's; `ctx` is the host, `data` what `start` made of it.
            let _ = unsafe { stop(self.data, self.host.as_ptr().cast()) };
            self.enter(Phase::Idle);
        }
    }

    /// Prepares samples of events that are new.
    #[cold]
    fn prepare(&mut self, evlist: &Evlist) {
        let known = self.plans.len();
        for (index, evsel) in evlist.evsels().iter().enumerate().skip(known) {
            let name = self.names.name(evlist, index);
            let name = self.host().strings.pointer(name.as_bytes());
            self.host().samples.push(sample::template(evsel, name));
            self.plans.push(Plan::new(evsel));
        }
    }

    /// Whether the filter keeps a sample.
    #[inline]
    pub fn keeps(
        &mut self,
        when: When,
        record: Record<'_>,
        evlist: &Evlist,
        session: &mut Session,
    ) -> Result<bool> {
        let filter = match when {
            When::Early => self.early,
            When::Late => self.late,
        };
        let Some(filter) = filter else { return Ok(true) };
        let Some(index) = self.recent_events.index(evlist, record.bytes) else { return Ok(true) };
        if self.plans.len() < evlist.evsels().len() {
            self.prepare(evlist);
        }
        let (Some(plan), Some(evsel)) = (self.plans.get(index), evlist.evsels().get(index)) else {
            return Ok(true);
        };
        // SAFETY: as in `host`; the plan is borrowed from another field.
        let host = unsafe { self.host.as_mut() };
        let Some(sample) = host.samples.get_mut(index) else { return Ok(true) };
        sample::fill(sample, record, plan, &evsel.layout, &mut host.words)?;
        let sample = &raw const *sample;
        host.event = index;
        host.session = session;
        host.evlist = evlist;
        host.next_sample();
        // SAFETY: the function's type is the header's; the sample, what it points to, the session and the events live
        // until it returns, and no reference to the host is used meanwhile.
        let code = unsafe { filter(self.data, sample, self.host.as_ptr().cast()) };
        self.enter(Phase::Idle);
        if code < 0 {
            let hook = if when == When::Early { "filter_event_early" } else { "filter_event" };
            return Err(self.failed(hook, code).at(record.pos).in_record(record.ty()));
        }
        Ok(code == 0)
    }

    #[cold]
    fn failed(&self, hook: &str, code: i32) -> Error {
        Error::new(ErrorKind::Plugin, format!("dlfilter {}: {hook} returned {code}", self.name))
    }
}

impl Drop for DlFilter {
    fn drop(&mut self) {
        self.stop();
        // SAFETY: from a box in `load`, given back once; the library, whose code may use it, is closed after this.
        drop(unsafe { Box::from_raw(self.host.as_ptr()) });
    }
}

/// What the dynamic linker said.
fn cause(e: &libloading::Error) -> String {
    std::error::Error::source(e).map_or_else(|| e.to_string(), ToString::to_string)
}

/// Where perf looks for a filter: a name with a slash is a path; another is looked for in the current directory, where
/// perf installs filters, and last by the dynamic linker.
fn find(file: &OsString) -> PathBuf {
    let path = Path::new(file);
    if file.as_encoded_bytes().contains(&b'/') {
        return path.to_path_buf();
    }
    let exec = std::env::var_os("PERF_EXEC_PATH").map(|dir| Path::new(&dir).join("dlfilters"));
    let folders = [Path::new(".").to_path_buf()].into_iter().chain(exec).chain(FOLDERS.map(PathBuf::from));
    folders.map(|dir| dir.join(path)).find(|file| file.is_file()).unwrap_or_else(|| path.to_path_buf())
}
