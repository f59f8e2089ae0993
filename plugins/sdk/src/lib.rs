//! Plugins for repipe in safe Rust.
//!
//! ```
//! use repipe_plugin::{Args, Host, Info, OpenError, Plugin, Record, Verdict};
//!
//! /// Leaves out the samples of one CPU.
//! struct NoCpu(i32);
//!
//! impl Plugin for NoCpu {
//!     const INFO: Info = Info {
//!         summary: c"leaves out the samples of one CPU",
//!         description: c"cpu=N  the CPU",
//!         record_types: &[repipe_plugin::SAMPLE],
//!         ..Info::new(c"no-cpu", c"0.1.0")
//!     };
//!
//!     fn open(args: &Args, _host: &mut Host<'_>) -> Result<Self, OpenError> {
//!         args.only(&["cpu"])?;
//!         Ok(NoCpu(args.number("cpu")?.ok_or("say which: cpu=N")?))
//!     }
//!
//!     fn record(&mut self, record: &Record<'_>, _host: &mut Host<'_>) -> Result<Verdict, String> {
//!         Ok(if record.cpu() == Some(self.0) { Verdict::Drop } else { Verdict::Keep })
//!     }
//! }
//!
//! repipe_plugin::export!(NoCpu);
//!
//! // And a test of it, without repipe:
//! use repipe_plugin::harness::{Harness, Sample};
//! let mut run = Harness::<NoCpu>::open(&[("cpu", Some("3"))]).unwrap();
//! assert!(run.sample(&Sample { cpu: 3, ..Sample::default() }).unwrap().is_empty());
//! assert_eq!(run.sample(&Sample { cpu: 2, ..Sample::default() }).unwrap().len(), 1);
//! ```
//!
//! A crate with that in it and `crate-type = ["cdylib"]` is a plugin; `repipe plugin new NAME` makes one.

mod args;
pub mod edit;
mod entry;
pub mod harness;
mod host;
mod record;

use std::ffi::CStr;

pub use args::{Args, OpenError};
pub use entry::{Descriptor, descriptor};
pub use host::{BuildId, Field, Host, Location, Place, Symbol};
pub use record::{Order, Record};
pub use repipe_plugin_abi as abi;
pub use repipe_plugin_abi::field;

/// `PERF_RECORD_MMAP`.
pub const MMAP: u32 = 1;
/// `PERF_RECORD_COMM`.
pub const COMM: u32 = 3;
/// `PERF_RECORD_EXIT`.
pub const EXIT: u32 = 4;
/// `PERF_RECORD_FORK`.
pub const FORK: u32 = 7;
/// `PERF_RECORD_SAMPLE`.
pub const SAMPLE: u32 = 9;
/// `PERF_RECORD_MMAP2`.
pub const MMAP2: u32 = 10;
/// perf's own record of the build-id of a path.
pub const HEADER_BUILD_ID: u32 = 67;

/// What a plugin says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// Name.
    pub name: &'static CStr,
    /// Its version.
    pub version: &'static CStr,
    /// One line.
    pub summary: &'static CStr,
    /// More, its arguments above all.
    pub description: &'static CStr,
    /// Licence.
    pub license: &'static CStr,
    /// Whether records must come by time; without, nothing can be resolved.
    pub by_time: bool,
    /// Whether maps and threads are asked for: [`Host::resolve`], [`Host::comm`]. Without, records by time cost less, but a
    /// host before 1.1 refuses the plugin.
    pub session: bool,
    /// Whether it resolves addresses.
    pub symbols: bool,
    /// Whether it asks for [`Host::callchain`]; a host before 1.1 refuses that.
    pub unwind: bool,
    /// Whether it edits feature sections.
    pub edits_features: bool,
    /// Whether it does that in [`Plugin::features`] too, so that it can from pipe to pipe.
    pub follows_features: bool,
    /// Types of records that it wants; all, if there is none.
    pub record_types: &'static [u32],
    /// Names of events, separated by commas, whose samples it wants; all, if empty.
    pub events: &'static CStr,
}

impl Info {
    /// A name and a version; by time with maps and threads, all records, nothing else.
    pub const fn new(name: &'static CStr, version: &'static CStr) -> Info {
        Info {
            name,
            version,
            summary: c"",
            description: c"",
            license: c"",
            by_time: true,
            session: true,
            symbols: false,
            unwind: false,
            edits_features: false,
            follows_features: false,
            record_types: &[],
            events: c"",
        }
    }
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// It is left out.
    Drop,
    /// What [`Host::replace`] was given goes in its place.
    Replace,
}

/// A plugin. An error or a panic in any function ends the run with a message that names the plugin.
pub trait Plugin: Sized {
    /// What it says of itself.
    const INFO: Info;

    /// Called once, before the first record. A text as an error says that the arguments are wrong.
    fn open(args: &Args, host: &mut Host<'_>) -> Result<Self, OpenError>;

    /// Called with each record that it wants.
    fn record(&mut self, record: &Record<'_>, host: &mut Host<'_>) -> Result<Verdict, String>;

    /// Called when more feature sections have become known, as they do in a pipe, if [`Info::follows_features`] says so.
    /// From pipe to pipe, a section must be edited at once.
    fn features(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        let _ = host;
        Ok(())
    }

    /// Called after the last record.
    fn finish(&mut self, host: &mut Host<'_>) -> Result<(), String> {
        let _ = host;
        Ok(())
    }
}

/// Makes a type the plugin of the shared object.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        static REPIPE_PLUGIN: $crate::Descriptor = $crate::descriptor::<$plugin>();

        /// What the host looks for.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        pub extern "C" fn repipe_plugin() -> *const $crate::abi::Plugin {
            REPIPE_PLUGIN.get()
        }
    };
}
