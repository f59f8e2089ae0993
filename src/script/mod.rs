//! Samples shown as `perf script` shows them, or as JSON.
//!
//! ```text
//! records ─ by time ─► ScriptStage ─ batches of numbers ─► printer, on a thread ─► standard output
//!                       ├ Session    whose maps            └ Texts  each name once
//!                       └ Resolver   (epoch, address) ─► symbol, DSO
//! ```
//!
//! What is resolved is a number for each symbol and DSO; its name goes to the printer once. So neither side makes a
//! string, or takes memory, for a frame that was met before.

mod batch;
mod chain;
mod counts;
mod data_src;
mod direct;
mod events;
mod fields;
mod filter;
mod head;
mod inlined;
mod json;
mod limit;
mod numbers;
mod output;
mod resolve;
mod stage;
mod text;
mod time;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

pub use events::NameOf;
pub use fields::{Choice, Class, Fields, Selection};
pub use filter::Filter;
pub use time::{Span, Spans};

use crate::error::{Error, ErrorKind, Result};
use crate::plugin::dlfilter::{self, DlFilter};
use crate::plugin::resolve::Resolver;
use crate::reader::{Block, Form, OpenOptions, Recording, Source};
use crate::stage::Pipeline;
use crate::symbol::LoadOptions;
use head::{Head, Nowhere};
use stage::ScriptStage;

/// How samples are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// As `perf script` does.
    Text,
    /// A JSON object a line.
    Json,
}

/// From when times are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Times {
    /// As recorded.
    Absolute,
    /// From the first sample that is shown.
    SinceFirst,
    /// From the sample shown before.
    SinceLast,
}

/// What to show and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The recording; `-` for standard input.
    pub input: PathBuf,
    /// Read files of other users.
    pub force: bool,
    /// Show a broken recording as far as it is whole.
    pub salvage: bool,
    /// Fields of each type of event.
    pub fields: Selection,
    /// Whether callchains are shown.
    pub callchains: bool,
    /// Whether functions that were inlined are shown as frames of callchains.
    pub inlines: bool,
    /// Which samples; its time is set by `time`.
    pub filter: Filter,
    /// The value of `--time`.
    pub time: Option<String>,
    /// Times with nine places instead of six.
    pub nanoseconds: bool,
    /// From when times are counted, in text.
    pub times: Times,
    /// Most frames of a callchain, and most of a stack that is unwound.
    pub max_stack: usize,
    /// Text or JSON.
    pub format: Format,
    /// perf's dlfilter that samples pass.
    pub dlfilter: Option<dlfilter::Spec>,
    /// Where symbols come from.
    pub load: LoadOptions,
    /// Bytes that symbols and what is remembered of them may take.
    pub memory_limit: Option<usize>,
    /// Gives a name to events that the recording does not name.
    pub name: NameOf,
}

/// A source that has been taken.
struct Taken;

impl Source for Taken {
    fn next(&mut self) -> Result<Option<std::sync::Arc<Block>>> {
        Ok(None)
    }
}

/// What the user should know besides the samples.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// What is not as it should be.
    pub warnings: Vec<String>,
    /// What memory symbols took, where there is a limit that was kept.
    pub memory: Option<String>,
}

/// Shows the samples of a recording on standard output.
pub fn run(options: &Options) -> Result<Summary> {
    let open = OpenOptions { force: options.force, salvage: options.salvage };
    let mut input = Recording::open(&options.input, open)?;
    let mut summary = Summary { warnings: std::mem::take(&mut input.warnings), memory: None };
    let order = input.header.order;
    let source = std::mem::replace(&mut input.source, Box::new(Taken));
    let mut head = Head { header: input.header.clone(), from_pipe: input.form == Form::Pipe };
    let mut stage = ScriptStage::new(options);
    if let Some(spec) = &options.dlfilter {
        let resolver = Rc::new(RefCell::new(Resolver::new(options.load.clone())));
        stage.set_dlfilter(DlFilter::load(spec, resolver, options.name)?);
    }
    let mut nowhere = Nowhere;
    let evlist = input.header.evlist();
    let pipeline = Pipeline::new(evlist, Some(&mut stage), &mut head, &mut nowhere, options.salvage);
    let done = pipeline.run(source, |block, at| Recording::resume(block, at, order));
    match stage.limit().map(limit::Limit::report) {
        Some((text, true)) => summary.memory = Some(text),
        Some((text, false)) => summary.warnings.push(text),
        None => {}
    }
    if let Some(why) = stage.unusable_kernel_file() {
        summary.warnings.push(format!("{why}; so the kernel has none"));
    }
    // What was resolved before an error is shown all the same, and if printing failed that is the reason.
    stage.finish()?;
    match done {
        Ok((done, _)) => {
            summary.warnings.extend(done.salvaged.map(|e| format!("salvaged up to here: {e}")));
        }
        Err(e) if is_end_of_printing(&e) => {}
        Err(e) => return Err(e),
    }
    Ok(summary)
}

fn is_end_of_printing(e: &Error) -> bool {
    e.kind() == ErrorKind::Interrupted
}
