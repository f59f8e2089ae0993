//! `repipe info`: what a recording says about itself and what is in it.

mod attr;
mod build_ids;
mod collect;
mod features;
mod report;
mod stream;
mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use attr::event_name;
use collect::Collector;
use report::{Layout, Report};
use stream::End;

use crate::bytes::{ByteOrder, until_nul};
use crate::data::{self, Input, Mapping};
use crate::error::{Error, ErrorKind, Result};
use crate::evlist::Evlist;
use crate::header::{Container, FileHeader, Header, PIPE_HEADER_SIZE, detect};
use crate::reader::{self, DirectorySource, MapSource, PipeFeed, Source, Threaded};

/// Bytes of an entry of the old event types: u64 config, 64 bytes of name.
const EVENT_TYPE_SIZE: usize = 72;

/// Show what a recording says about itself and what is in it.
///
/// Header, events, feature sections, records by type, the time range, and the build-ids it states.
#[derive(Clone, Debug, clap::Args)]
pub struct InfoArgs {
    /// The recording: a file, a directory, or - for standard input
    #[arg(value_name = "FILE", conflicts_with = "input", required_unless_present = "input")]
    pub file: Option<PathBuf>,

    /// The same, spelled as for the other commands
    #[arg(short, long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Read the recording even if it belongs to somebody else
    #[arg(short, long)]
    pub force: bool,

    /// Print JSON, as docs/info.md describes it
    #[arg(long)]
    pub json: bool,
}

/// Shows the recording on standard output.
///
/// What could be read is shown even if the recording breaks off, whose error is then returned. A reader of
/// the output that has had enough is no error.
pub fn run(args: &InfoArgs) -> Result<()> {
    let path = args.input.as_ref().or(args.file.as_ref());
    let path = path.ok_or_else(|| Error::usage("no recording given").hint("repipe info FILE"))?;
    let (report, outcome) = inspect(path, args.force)?;
    match print(&report, args.json, &mut io::BufWriter::new(io::stdout().lock())) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
        printed => printed.map_err(|e| Error::io(e, "cannot write", "<stdout>"))?,
    }
    outcome
}

fn print(report: &Report, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        serde_json::to_writer_pretty(&mut *out, &report.json())?;
        writeln!(out)?;
    } else {
        text::write(report, out)?;
    }
    out.flush()
}

/// The report, and what ended reading early. Errors if there is nothing to report on.
fn inspect(path: &Path, force: bool) -> Result<(Report, Result<()>)> {
    let name = path.display().to_string();
    let mut layout = Layout::default();
    let (mut collector, container, outcome) = match data::open(path, force)?.0 {
        Input::File(map) => {
            layout.file_size = Some(map.len() as u64);
            let (order, container, _) = detect(&map).map_err(|e| e.in_file(map.path()))?;
            match container {
                Container::File => {
                    let (mut collector, _, range) = open_file(&map, &mut layout)?;
                    let outcome = read(Box::new(MapSource::new(&map, range)), order, &mut collector);
                    (collector, "file", outcome)
                }
                Container::Pipe => {
                    layout.header_size = Some(PIPE_HEADER_SIZE);
                    let mut collector = Collector::new(&Header::new(order), []);
                    let range = PIPE_HEADER_SIZE as usize..map.len();
                    let outcome = read(Box::new(MapSource::new(&map, range)), order, &mut collector);
                    (collector, "pipe", outcome)
                }
            }
        }
        Input::Pipe(pipe) => {
            let name = pipe.name.clone();
            let mut feed = PipeFeed::new(pipe);
            let first = feed.read_first(PIPE_HEADER_SIZE as usize)?;
            let (order, container, size) = detect(&first).map_err(|e| e.in_file(&name))?;
            if container == Container::File {
                return Err(Error::new(ErrorKind::Unsupported, "a recording in file format on a pipe")
                    .in_file(&name)
                    .hint("file format needs seeking: name the file, or redirect it with <"));
            }
            layout.header_size = Some(size);
            let mut collector = Collector::new(&Header::new(order), []);
            let outcome =
                read(Box::new(Threaded::spawn(feed, order, PIPE_HEADER_SIZE)), order, &mut collector);
            (collector, "pipe", outcome)
        }
        Input::Directory(dir) => {
            let (mut collector, evlist, range) = open_file(&dir.data, &mut layout)?;
            let order = evlist.order();
            let mut parts = vec![(dir.data.clone(), range)];
            for part in &dir.parts {
                let name = part.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
                layout.parts.push((name, part.len() as u64));
                parts.push((part.clone(), 0..part.len()));
            }
            layout.others = dir.others;
            let outcome = read(Box::new(DirectorySource::new(parts, evlist)), order, &mut collector);
            (collector, "directory", outcome)
        }
    };
    if let Err(e) = &outcome {
        collector.warn(e.to_string());
    }
    Ok((collector.finish(name, container, layout), outcome))
}

/// Reads what stands around the data of a file, and where the data is.
fn open_file(map: &Arc<Mapping>, layout: &mut Layout) -> Result<(Collector, Evlist, std::ops::Range<usize>)> {
    let (mut file, mut header) = FileHeader::parse(map)?;
    let sections = file.read_features(map, &mut header);
    layout.header_size = Some(file.size);
    layout.attr_entry_size = Some(file.attr_size);
    layout.data = Some((file.data.offset, file.data.size));
    let places = file.feature_sections.iter().map(|(feature, place)| (*feature, (place.offset, place.size)));
    let mut collector = Collector::new(&header, places);
    if file.unfinished {
        collector.warn(
            "the header was never finished: perf did not end in order, and there are no features".into(),
        );
    }
    if let Err(e) = sections {
        collector.warn(e.to_string());
    }
    let types = map.section(file.event_types.offset, file.event_types.size).unwrap_or_default();
    for entry in types.chunks_exact(EVENT_TYPE_SIZE) {
        if let Some((config, name)) = file.order.u64(entry, 0).zip(entry.get(8..)) {
            collector.event_type(config, until_nul(name));
        }
    }
    let clamp = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(map.len());
    let start = clamp(file.data.offset);
    let end = clamp(file.data.offset.saturating_add(file.data.size)).max(start);
    if (end - start) as u64 != file.data.size {
        collector.warn(format!("the data ends {} bytes early", file.data.size - (end - start) as u64));
    }
    Ok((collector, header.evlist(), start..end))
}

/// Reads all records, decompressing from the first compressed one on.
fn read(mut source: Box<dyn Source>, order: ByteOrder, collector: &mut Collector) -> Result<()> {
    loop {
        match stream::walk(source.as_mut(), order, |record, payload| collector.record(record, payload))? {
            End::Whole => return Ok(()),
            End::Talk(pos) => {
                collector.warn(format!("perf's own messages follow the records at {pos:#x}: its output and errors went to one file"));
                return Ok(());
            }
            End::Compressed(block, at) => {
                let Some((map, range)) = block.map() else {
                    return Err(block.locate(Error::corrupt(
                        block.base() + at as u64,
                        "compressed record within compressed data",
                    )));
                };
                source =
                    reader::decompressing(map, range.start + at..range.end, block.base() + at as u64, order);
            }
        }
    }
}
