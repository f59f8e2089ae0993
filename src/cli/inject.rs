//! `repipe inject`: definition, validation, run.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;

use super::filter::FilterArgs;
use super::info::event_name;
use super::plugin::{DlFilterArgs, PluginArgs};
use super::terminal::message;
use crate::error::{Error, Result};
use crate::rewrite::{self, Options, SummaryFormat};
use crate::stage::build_ids::Style;

/// Rewrite a recording, with build-ids injected if asked.
///
/// Without an option the recording is copied: every record and every feature section stays as it is; compressed
/// records are decompressed, and file and pipe format turn into each other as the output asks.
#[derive(Args, Debug)]
#[command(after_long_help = super::EXIT_CODES)]
pub struct InjectArgs {
    /// Inject the build-ids of the DSOs that samples hit
    #[arg(short = 'b', long)]
    build_ids: bool,

    /// Inject the build-ids of all mapped DSOs; samples are not looked at
    #[arg(long)]
    buildid_all: bool,

    /// Drop all MMAP and MMAP2 records; give one MMAP2 with build-id for each map that samples hit
    #[arg(short = 'B', long)]
    mmap2_buildids: bool,

    /// Turn every MMAP and MMAP2 into a MMAP2 with build-id
    #[arg(long)]
    mmap2_buildid_all: bool,

    /// Build-ids to use before those of files: "ID PATH[,ID PATH…]", or file://FILE with a pair a line as perf
    /// buildid-list prints them
    #[arg(long, value_name = "LIST|file://FILE")]
    known_build_ids: Option<OsString>,

    /// The recording to read: a file, a directory, or - for standard input
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    input: PathBuf,

    /// Where to write: a file, or - for standard output, which takes the pipe format
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Read a recording that belongs to someone else, trust files whose inode is not the recorded one, and load plugins
    /// that others may write
    #[arg(short, long)]
    force: bool,

    /// Look recorded paths up under this directory instead of the root
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,

    /// perf's build-id cache [default: $PERF_BUILDID_DIR, else ~/.debug; for symbols, .debug below --symfs]
    #[arg(long, value_name = "DIR")]
    buildid_dir: Option<PathBuf>,

    /// Write compressed records, at a zstd level from 1 to 22
    #[arg(short = 'z', long = "compression-level", value_name = "LEVEL", num_args = 0..=1,
          default_missing_value = "1", value_parser = clap::value_parser!(i32).range(1..=22))]
    compress: Option<i32>,

    /// Keep the whole records of a recording that is cut or broken, instead of refusing it
    #[arg(long)]
    salvage: bool,

    /// How to print the closing summary on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    summary: SummaryFormat,

    /// Say more, such as each DSO whose build-id is missing
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,

    /// Print no summary and no warnings
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    plugin: PluginArgs,

    #[command(flatten)]
    dlfilter: DlFilterArgs,
}

impl InjectArgs {
    fn style(&self) -> Result<Option<Style>> {
        let given: Vec<(&str, Style)> = [
            (self.build_ids, "--build-ids", Style::BuildIds),
            (self.buildid_all, "--buildid-all", Style::BuildIdAll),
            (self.mmap2_buildids, "--mmap2-buildids", Style::Mmap2BuildIds),
            (self.mmap2_buildid_all, "--mmap2-buildid-all", Style::Mmap2BuildIdAll),
        ]
        .into_iter()
        .filter_map(|(on, name, style)| on.then_some((name, style)))
        .collect();
        match given.as_slice() {
            [] => Ok(None),
            [(_, style)] => Ok(Some(*style)),
            [(a, _), (b, _), ..] => Err(Error::usage(format!(
                "{a} and {b} are two ways to place the same build-ids; each record would have to follow both"
            ))
            .hint("give one of them")),
        }
    }

    fn options(&self) -> Result<Options> {
        let style = self.style()?;
        if style.is_none() && self.known_build_ids.is_some() {
            return Err(Error::usage("--known-build-ids has nothing to do without a way to place build-ids")
                .hint("give one of -b, --buildid-all, -B, --mmap2-buildid-all"));
        }
        Ok(Options {
            input: self.input.clone(),
            output: self.output.clone(),
            style,
            known_build_ids: self.known_build_ids.clone(),
            force: self.force,
            salvage: self.salvage,
            symfs: self.symfs.clone(),
            buildid_dir: self.buildid_dir.clone(),
            compress: self.compress,
            filter: self.filter.clauses()?,
            prune: self.filter.prune(),
            plugins: self.plugin.specs()?,
            dlfilter: self.dlfilter.spec(),
            event_name: Some(|attr| event_name(attr, |_| None, |_| None)),
        })
    }
}

/// Refuses to wait for a recording that someone would have to type, or to write one onto a screen.
fn refuse_terminals(options: &Options) -> Result<()> {
    if options.input.as_os_str() == "-" && std::io::stdin().is_terminal() {
        return Err(Error::usage("standard input is a terminal").hint("name a recording with -i"));
    }
    if options.output.as_os_str() == "-" && std::io::stdout().is_terminal() {
        return Err(Error::usage("standard output is a terminal").hint("name a file with -o, or redirect it"));
    }
    Ok(())
}

/// Runs the command.
pub fn run(args: &InjectArgs) -> Result<()> {
    let options = args.options()?;
    refuse_terminals(&options)?;
    let summary = rewrite::run(&options)?;
    if args.quiet {
        return Ok(());
    }
    match args.summary {
        SummaryFormat::Json => eprintln!("{}", summary.to_json()),
        SummaryFormat::Text => {
            for warning in &summary.warnings {
                eprintln!("repipe: warning: {}", message(warning));
            }
            for note in &summary.notes {
                eprintln!("repipe: {}", message(note));
            }
            eprint!("{}", message(&summary.text(args.verbose > 0).to_string()));
        }
    }
    Ok(())
}
