//! Options and the run itself.

use std::cell::RefCell;
use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use super::head::{Head, merged_table};
use super::needs::needed_threads;
use super::summary::Summary;
use crate::abi::feature::Feature;
use crate::abi::record::RecordType;
use crate::bytes::ByteOrder;
use crate::error::{Error, ErrorKind, Result};
use crate::evlist::{Attr, Evlist};
use crate::header::features::auxtrace::{AuxtraceEntry, AuxtraceIndex};
use crate::header::features::scalars::SampleTime;
use crate::plugin::dlfilter::{self, DlFilter};
use crate::plugin::native::{self, Plugin};
use crate::plugin::resolve::Resolver;
use crate::reader::{Block, Form, OpenOptions, Recording, Source};
use crate::stage::build_ids::{BuildIds, Ids, IdsOptions, Style};
use crate::stage::filter::prune::Prune;
use crate::stage::filter::{Clause, Filter};
use crate::stage::plugins::{DlFilterStage, PluginStage, Times};
use crate::stage::{Chain, Finished, HeadRecords, Pipeline, Stage};
use crate::symbol::LoadOptions;
use crate::writer::{Compressor, Output, Patch, Sink, Target, compressed_feature};

/// What to rewrite and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The input; `-` for standard input.
    pub input: PathBuf,
    /// The output; `-` for standard output, which takes the pipe format. With plugins, what the process prints there goes
    /// to standard error from then on.
    pub output: PathBuf,
    /// Build-ids to inject; none to copy records as they are.
    pub style: Option<Style>,
    /// The value of `--known-build-ids`.
    pub known_build_ids: Option<OsString>,
    /// Read files of other users, and trust files whose inode differs.
    pub force: bool,
    /// Take a broken recording as far as it is whole.
    pub salvage: bool,
    /// Root under which recorded paths are looked up.
    pub symfs: Option<PathBuf>,
    /// perf's build-id cache.
    pub buildid_dir: Option<PathBuf>,
    /// zstd level for a compressed output.
    pub compress: Option<i32>,
    /// What samples must meet to stay.
    pub filter: Vec<Clause>,
    /// Leave out side-band that no sample which stays can need.
    pub prune: bool,
    /// Plugins that records pass, in order.
    pub plugins: Vec<native::Spec>,
    /// perf's dlfilter that samples pass.
    pub dlfilter: Option<dlfilter::Spec>,
    /// Gives a name to an event that the recording does not name.
    pub event_name: Option<fn(&Attr) -> String>,
}

impl Options {
    fn has_plugins(&self) -> bool {
        !self.plugins.is_empty() || self.dlfilter.is_some()
    }
}

/// The output with or without compression.
enum Out {
    Plain(Output),
    Zstd(Box<Compressor<Output>>),
}

impl Out {
    fn new(target: Target, order: ByteOrder, level: Option<i32>) -> Result<Out> {
        let output = Output::new(target)?;
        Ok(match level {
            None => Out::Plain(output),
            Some(level) => Out::Zstd(Box::new(Compressor::new(output, order, level)?)),
        })
    }

    /// The plain output, and the ratio reached if it was compressed.
    fn finish(self) -> Result<(Output, Option<u32>)> {
        match self {
            Out::Plain(output) => Ok((output, None)),
            Out::Zstd(z) => z.finish().map(|(output, ratio)| (output, Some(ratio))),
        }
    }
}

impl Sink for Out {
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Out::Plain(o) => o.bytes(bytes),
            Out::Zstd(z) => z.bytes(bytes),
        }
    }

    fn kept(&mut self, block: &Arc<Block>, range: Range<usize>) -> Result<()> {
        match self {
            Out::Plain(o) => o.kept(block, range),
            Out::Zstd(z) => z.kept(block, range),
        }
    }

    fn front(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Out::Plain(o) => o.front(bytes),
            Out::Zstd(z) => z.front(bytes),
        }
    }

    fn settle(&mut self) -> Result<u64> {
        match self {
            Out::Plain(o) => o.settle(),
            Out::Zstd(z) => z.settle(),
        }
    }
}

/// A source that has been taken.
pub(super) struct Taken;

impl Source for Taken {
    fn next(&mut self) -> Result<Option<Arc<Block>>> {
        Ok(None)
    }
}

/// Rewrites a recording; the output is there, whole, when this returns without an error.
pub fn run(options: &Options) -> Result<Summary> {
    let open = OpenOptions { force: options.force, salvage: options.salvage };
    let mut input = Recording::open(&options.input, open)?;
    let mut prune = match options.prune {
        true => Some(Prune::new(needed_threads(options)?)),
        false => None,
    };
    let target = match options.output.as_os_str() == "-" {
        true => Target::stdout(input.identity)?,
        false => Target::create(&options.output, input.identity)?,
    };
    if options.has_plugins() {
        target.keep_prints_out()?;
    }
    let mut plugins = Plugins::load(options)?;
    let order = input.header.order;
    let source = std::mem::replace(&mut input.source, Box::new(Taken));
    plugins.check(input.form == Form::Pipe, target.is_stream())?;
    let mut head = Head::new(&input, target.is_stream(), options.compress, options.style.is_some());
    let mut out = Out::new(target, order, options.compress)?;
    let mut stage = build_ids(options, &input)?;
    let mut filter = filter(options);
    // One stage that drops samples notes the times of those that stay itself.
    let alone = filter.is_none() && plugins.count() == 1;
    let mut times = (plugins.count() > 0 && !alone).then(Times::default);
    head.filtered = filter.is_some() || plugins.count() > 0;
    // The two functions of a dlfilter see a sample one after the other, as under perf.
    let one_by_one = plugins.early.is_some() && plugins.late.is_some();
    let mut stages: Vec<&mut dyn Stage> = Vec::new();
    stages.extend(plugins.early.as_mut().map(|s| s as &mut dyn Stage));
    stages.extend(plugins.native.iter_mut().map(|s| s as &mut dyn Stage));
    stages.extend(filter.as_mut().map(|f| f as &mut dyn Stage));
    stages.extend(plugins.late.as_mut().map(|s| s as &mut dyn Stage));
    stages.extend(times.as_mut().map(|s| s as &mut dyn Stage));
    stages.extend(prune.as_mut().map(|s| s as &mut dyn Stage));
    stages.extend(stage.as_mut().map(|s| s as &mut dyn Stage));
    let mut chain = None;
    let dyn_stage: Option<&mut dyn Stage> = match stages.len() {
        0 | 1 => stages.pop(),
        _ => Some(chain.insert(Chain::new(stages).one_by_one(one_by_one))),
    };
    let pipeline = Pipeline::new(input.header.evlist(), dyn_stage, &mut head, &mut out, options.salvage);
    let (done, evlist) = pipeline.run(source, |block, at| Recording::resume(block, at, order))?;
    let mut summary = Summary { warnings: std::mem::take(&mut input.warnings), ..Summary::default() };
    head.settle()?;
    let table_changed = match &stage {
        Some(stage) => tell_ids(stage, &mut head, &mut summary)?,
        None => false,
    };
    match (&times, &filter) {
        _ if alone => set_sample_time(plugins.kept(), &mut head),
        (Some(times), _) => set_sample_time(times.range(), &mut head),
        (None, Some(filter)) => set_sample_time(filter.sample_time(), &mut head),
        (None, None) => {}
    }
    plugins.finish(&evlist, &mut head, &mut summary)?;
    drop(plugins);
    let table_changed = table_changed || head.edited;
    tell_kept(filter.as_ref(), &done, &mut summary);
    finish(options, &input, head, out, &done, table_changed, &mut summary)?;
    summary.records_in = done.records_in;
    summary.records_out = done.records_out;
    Ok(summary)
}

/// Warns if there were samples and none is left.
fn tell_kept(filter: Option<&Filter>, done: &Finished, summary: &mut Summary) {
    let (read, written) = (done.records_in.get(RecordType::SAMPLE), done.records_out.get(RecordType::SAMPLE));
    if read == 0 || written > 0 {
        return;
    }
    let by_filter = filter.and_then(Filter::kept_nothing);
    let otherwise = || format!("kept 0 of {read} samples: plugins left none");
    summary.warnings.push(by_filter.unwrap_or_else(otherwise));
}

/// Where symbols are looked for. As with perf, another root has a cache of its own.
fn load_options(options: &Options) -> LoadOptions {
    let mut load = LoadOptions { symfs: options.symfs.clone(), ..LoadOptions::default() };
    let of_root = || options.symfs.as_ref().map(|root| root.join(".debug"));
    if let Some(dir) = options.buildid_dir.clone().or_else(of_root) {
        load.buildid_dir = Some(dir);
    }
    load
}

/// The filter that the options ask for.
pub(super) fn filter(options: &Options) -> Option<Filter> {
    if options.filter.is_empty() {
        return None;
    }
    let name = options.event_name.unwrap_or(|_| String::new());
    Some(Filter::new(options.filter.clone(), load_options(options), name))
}

/// Code of others that records pass.
#[derive(Default)]
struct Plugins {
    native: Vec<PluginStage>,
    early: Option<DlFilterStage>,
    late: Option<DlFilterStage>,
}

impl Plugins {
    fn load(options: &Options) -> Result<Plugins> {
        if !options.has_plugins() {
            return Ok(Plugins::default());
        }
        let resolver = Rc::new(RefCell::new(Resolver::new(load_options(options))));
        let name = options.event_name.unwrap_or(|_| String::new());
        let load = |spec| Plugin::load(spec, options.force, Rc::clone(&resolver), name).map(PluginStage::new);
        let native = options.plugins.iter().map(load).collect::<Result<_>>()?;
        let (early, late) = match &options.dlfilter {
            Some(spec) => DlFilterStage::of(DlFilter::load(spec, resolver, name)?),
            None => (None, None),
        };
        Ok(Plugins { native, early, late })
    }

    /// Refuses a plugin that edits sections where they can't be edited.
    fn check(&self, from_pipe: bool, to_pipe: bool) -> Result<()> {
        match self
            .native
            .iter()
            .map(PluginStage::info)
            .find(|info| info.edits_features && !info.follows_features)
        {
            Some(info) if from_pipe && to_pipe => Err(Error::usage(format!(
                "plugin {} edits feature sections, which pass from pipe to pipe before it can",
                info.name
            ))
            .hint("write to a file, or read from one")),
            _ => Ok(()),
        }
    }

    /// Ends plugins after the last record, the first first, each with what those before it have edited.
    fn finish(&mut self, evlist: &Evlist, head: &mut Head, summary: &mut Summary) -> Result<()> {
        for plugin in &mut self.native {
            let (edits, log) = plugin.finish(evlist, &head.header)?;
            for logged in log {
                let list = if logged.is_warning { &mut summary.warnings } else { &mut summary.notes };
                list.push(logged.line);
            }
            for (feature, bytes) in edits {
                if head.to_pipe {
                    return Err(Error::new(
                        ErrorKind::Plugin,
                        format!(
                            "plugin {}: finish: edits feature section {feature}, which has left before the records",
                            plugin.info().name
                        ),
                    )
                    .hint("write to a file"));
                }
                head.edit_feature(feature, bytes);
            }
        }
        Ok(())
    }

    /// How many stages there are.
    fn count(&self) -> usize {
        self.native.len() + usize::from(self.early.is_some()) + usize::from(self.late.is_some())
    }

    /// Times of the first and last sample that the one stage let through.
    fn kept(&self) -> Option<SampleTime> {
        let filter = self.early.as_ref().or(self.late.as_ref()).map(DlFilterStage::kept);
        filter.or_else(|| self.native.first().map(PluginStage::kept)).flatten()
    }
}

/// Puts the times of the samples that stayed where those of all samples were.
fn set_sample_time(times: Option<SampleTime>, head: &mut Head) {
    if head.header.feature(Feature::SAMPLE_TIME).is_none() {
        return;
    }
    match times {
        Some(times) => {
            let mut section = Vec::new();
            times.emit(head.header.order, &mut section);
            head.header.set_feature(Feature::SAMPLE_TIME, section);
        }
        None => {
            head.header.remove_feature(Feature::SAMPLE_TIME);
        }
    }
}

/// The stage that the options ask for.
fn build_ids(options: &Options, input: &Recording) -> Result<Option<BuildIds>> {
    let Some(style) = options.style else { return Ok(None) };
    let ids = Ids::new(IdsOptions {
        known: options.known_build_ids.clone(),
        symfs: options.symfs.clone(),
        buildid_dir: options.buildid_dir.clone(),
        force: options.force,
        recorded_at: input.identity.and_then(|i| i.modified),
    })?;
    Ok(Some(BuildIds::new(style, ids)))
}

/// Puts the ids into the table, where the style does, and into the summary. Whether the table changed.
fn tell_ids(stage: &BuildIds, head: &mut Head, summary: &mut Summary) -> Result<bool> {
    let ids = stage.ids();
    summary.dsos_hit = ids.asked();
    summary.ids_injected = ids.injected();
    summary.ids_missing = ids
        .missing()
        .map(|(name, reason)| (String::from_utf8_lossy(name).into_owned(), reason.key(), reason.to_string()))
        .collect();
    summary.warnings.extend(ids.warnings());
    let entries = ids.table();
    if !stage.fills_table() || entries.is_empty() {
        return Ok(false);
    }
    let old = head.header.feature(Feature::BUILD_ID);
    let table = merged_table(head.header.order, old, &entries)?;
    if old == Some(&table) {
        return Ok(false);
    }
    head.header.set_feature(Feature::BUILD_ID, table);
    Ok(true)
}

/// Writes what follows the records, and makes the output visible.
fn finish(
    options: &Options,
    input: &Recording,
    mut head: Head,
    out: Out,
    done: &Finished,
    table_changed: bool,
    summary: &mut Summary,
) -> Result<()> {
    tell(done, summary);
    let (mut output, ratio) = out.finish()?;
    let mut patches: Vec<Patch> = Vec::new();
    if !output.is_stream() {
        let order = head.header.order;
        if done.compressed {
            head.header.remove_feature(Feature::COMPRESSED);
        }
        if let (Some(level), Some(ratio)) = (options.compress, ratio) {
            head.header.set_feature(Feature::COMPRESSED, compressed_feature(order, level, ratio));
        }
        let same = done.unchanged && !table_changed && options.compress.is_none();
        let kept_tail = input
            .file
            .as_ref()
            .filter(|(file, _)| same && head.front_kept && !file.unfinished && !file.damaged)
            .and_then(|(file, map)| map.get(usize::try_from(file.data.end()?).ok()?..));
        match kept_tail {
            // Nothing moved: what follows the records stays byte for byte, whatever it is.
            Some(tail) => output.bytes(tail)?,
            None => {
                if !done.auxtrace.is_empty()
                    && (input.form != Form::File || head.header.feature(Feature::AUXTRACE).is_some())
                {
                    head.header.set_feature(Feature::AUXTRACE, auxtrace_index(&head, done));
                }
                let features = head.features();
                if let Some(layout) = &head.layout {
                    let data = output.written() - layout.front().len() as u64;
                    let (tail, set) = layout.finish(data, &features, &head.header.attrs);
                    output.bytes(&tail)?;
                    patches = set;
                }
            }
        }
    }
    for (feature, why) in &head.left_out {
        summary.warnings.push(format!("feature section {feature} is left out: {why}"));
    }
    output.commit(&patches)
}

/// The index of AUX data, by the offsets at which it now stands, in the layout that the input has.
fn auxtrace_index(head: &Head, done: &Finished) -> Vec<u8> {
    let order = head.header.order;
    let old = head.header.feature(Feature::AUXTRACE).and_then(|s| AuxtraceIndex::parse(s, order).ok());
    let entries =
        done.auxtrace.iter().map(|&(file_offset, size)| AuxtraceEntry { file_offset, size }).collect();
    let index = AuxtraceIndex { counted: old.is_none_or(|i| i.counted), entries };
    let mut section = Vec::new();
    index.emit(order, &mut section);
    section
}

/// What the run's course means for the user.
fn tell(done: &Finished, summary: &mut Summary) {
    if let Some(e) = &done.salvaged {
        summary.warnings.push(format!("salvaged up to here: {e}"));
    }
    if done.misshapen > 0 {
        summary
            .warnings
            .push(format!("{} records whose insides can't be read were kept as they are", done.misshapen));
    }
    if done.talk > 0 {
        summary.warnings.push(format!(
            "{} bytes of what perf record printed stand behind the records and are left out",
            done.talk
        ));
    }
    if done.forced_rounds > 0 {
        summary.warnings.push(format!(
            "the recording has no round marks for long stretches: its window was closed {} times early, and \
             {} records came later than that and were processed late",
            done.forced_rounds, done.late
        ));
    }
}
