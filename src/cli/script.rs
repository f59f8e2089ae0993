//! `repipe script`: definition, validation, run.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::info::event_name;
use super::plugin::DlFilterArgs;
use super::terminal::message;
use crate::error::{Error, Result};
use crate::script::{self, Filter, Format, Options, Selection, Times};
use crate::session::build_id::BuildIdCache;
use crate::symbol::{Demangle, LoadOptions};
use crate::unwind::MOST_FRAMES;

/// Show the samples of a recording with their symbols and callchains, as perf script does.
#[derive(Args, Debug)]
#[command(after_long_help = super::EXIT_CODES)]
pub struct ScriptArgs {
    /// The recording to read: a file, a directory, or - for standard input
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    input: PathBuf,

    /// Fields to show, by names separated by commas: comm, pid, tid, time, cpu, event, ip, sym, symoff, dso, addr,
    /// period, misc, data_src, weight, ins_lat, retire_lat, phys_addr. With + or - before each name they change the
    /// usual ones; with hw:, sw:, trace:, raw: or break: in front they are for events of that type
    #[arg(short = 'F', long, value_name = "[TYPE:]FIELDS", allow_hyphen_values = true)]
    fields: Vec<String>,

    /// Show callchains, as is usual where there are some
    #[arg(short = 'g', long, overrides_with = "hide_call_graph")]
    show_call_graph: bool,

    /// Show no callchains
    #[arg(short = 'G', long)]
    hide_call_graph: bool,

    /// Only samples within START,STOP (in seconds, either may be left out), or P%/N, or P%-Q%
    #[arg(long, value_name = "SPAN")]
    time: Option<String>,

    /// Only samples of these processes
    #[arg(long, value_name = "PID[,PID…]")]
    pid: Option<String>,

    /// Only samples of these threads
    #[arg(long, value_name = "TID[,TID…]")]
    tid: Option<String>,

    /// Only samples of threads with these names
    #[arg(short = 'c', long = "comms", visible_alias = "comm", value_name = "COMM[,COMM…]")]
    comms: Option<String>,

    /// Only samples of these CPUs, such as 0-3,7
    #[arg(short = 'C', long, value_name = "CPUS")]
    cpu: Option<String>,

    /// Show times to the nanosecond
    #[arg(long)]
    ns: bool,

    /// Show times since the first sample
    #[arg(long, conflicts_with = "deltatime")]
    reltime: bool,

    /// Show times since the sample before
    #[arg(long)]
    deltatime: bool,

    /// Show no more frames of a callchain
    #[arg(long, value_name = "FRAMES", default_value_t = MOST_FRAMES as u16)]
    max_stack: u16,

    /// Write a JSON object for each sample, one a line; times are in nanoseconds
    #[arg(long)]
    json: bool,

    /// The kernel's ELF file
    #[arg(short = 'k', long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,

    /// Don't look for the kernel's ELF file
    #[arg(long)]
    ignore_vmlinux: bool,

    /// A copy of /proc/kallsyms to take the kernel's symbols from
    #[arg(long, value_name = "FILE")]
    kallsyms: Option<PathBuf>,

    /// Look for files with symbols under this directory instead of the root
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,

    /// perf's build-id cache [default: .debug below --symfs, else $PERF_BUILDID_DIR, else ~/.debug]
    #[arg(long, value_name = "DIR")]
    buildid_dir: Option<PathBuf>,

    /// Show symbols of C++, Rust and Java as they stand in the file
    #[arg(long, overrides_with = "demangle")]
    no_demangle: bool,

    /// Show symbols of C++, Rust and Java as they are written in source, as is usual
    #[arg(long)]
    demangle: bool,

    /// Demangle symbols of the kernel too
    #[arg(long)]
    demangle_kernel: bool,

    /// Show functions that the compiler inlined as frames of callchains, where there is debug information
    #[arg(long, overrides_with = "no_inline")]
    inline: bool,

    /// Show no inlined functions, as is usual
    #[arg(long)]
    no_inline: bool,

    /// Load the symbols of every file whole instead of those that are met
    #[arg(long)]
    eager_symbols: bool,

    /// Let go of symbols when they take more than this: bytes, or with K, M or G behind
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_limit: Option<usize>,

    /// Read a recording that belongs to someone else
    #[arg(short, long)]
    force: bool,

    /// Show a recording that is cut or broken as far as it is whole
    #[arg(long)]
    salvage: bool,

    #[command(flatten)]
    dlfilter: DlFilterArgs,

    /// Print no warnings
    #[arg(short, long, action = ArgAction::SetTrue)]
    quiet: bool,
}

/// `NUMBER[K|M|G]`, in bytes.
fn size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (text.get(..at), 1 << 10),
        Some((at, 'm' | 'M')) => (text.get(..at), 1 << 20),
        Some((at, 'g' | 'G')) => (text.get(..at), 1 << 30),
        _ => (Some(text), 1),
    };
    let number: Option<usize> = digits.and_then(|digits| digits.parse().ok());
    number.and_then(|n| n.checked_mul(unit)).ok_or_else(|| format!("{text} is no size, such as 16M"))
}

impl ScriptArgs {
    fn options(&self) -> Result<Options> {
        let mut fields = Selection::default();
        for text in &self.fields {
            fields.apply(text)?;
        }
        let mut filter = Filter::default();
        if let Some(text) = &self.pid {
            filter.pids = Filter::parse_ids(text)?;
        }
        if let Some(text) = &self.tid {
            filter.tids = Filter::parse_ids(text)?;
        }
        if let Some(text) = &self.comms {
            filter.comms = text.split(',').map(|comm| comm.as_bytes().into()).collect();
        }
        if let Some(text) = &self.cpu {
            filter.cpus = Filter::parse_cpus(text)?;
        }
        if self.vmlinux.is_some() && self.kallsyms.is_some() {
            return Err(Error::usage(
                "the kernel's symbols come from --vmlinux or from --kallsyms, not from both",
            ));
        }
        for path in self.vmlinux.iter().chain(&self.kallsyms) {
            std::fs::File::open(path).map_err(|e| Error::io(e, "cannot open", path))?;
        }
        let given = |on: bool| if on { Demangle::Yes } else { Demangle::No };
        // As with perf, another root has a cache of its own.
        let of_root = || self.symfs.as_ref().map(|root| root.join(".debug"));
        let of_user = || BuildIdCache::of_user().dir().to_path_buf();
        let buildid_dir = self.buildid_dir.clone().or_else(of_root).unwrap_or_else(of_user);
        Ok(Options {
            input: self.input.clone(),
            force: self.force,
            salvage: self.salvage,
            fields,
            callchains: !self.hide_call_graph,
            inlines: self.inline,
            filter,
            time: self.time.clone(),
            nanoseconds: self.ns,
            times: match (self.reltime, self.deltatime) {
                (true, _) => Times::SinceFirst,
                (_, true) => Times::SinceLast,
                _ => Times::Absolute,
            },
            max_stack: self.max_stack.into(),
            dlfilter: self.dlfilter.spec(),
            format: if self.json { Format::Json } else { Format::Text },
            load: LoadOptions {
                symfs: self.symfs.clone(),
                buildid_dir: Some(buildid_dir),
                demangle: given(!self.no_demangle),
                demangle_kernel: given(self.demangle_kernel && !self.no_demangle),
                eager: self.eager_symbols,
                vmlinux: self.vmlinux.clone(),
                ignore_vmlinux: self.ignore_vmlinux,
                kallsyms: self.kallsyms.clone(),
                release: None,
            },
            memory_limit: self.memory_limit,
            name: |attr| event_name(attr, |_| None, |_| None),
        })
    }
}

/// Runs the command.
pub fn run(args: &ScriptArgs) -> Result<()> {
    let summary = script::run(&args.options()?)?;
    if !args.quiet {
        for warning in summary.warnings {
            eprintln!("repipe: warning: {}", message(&warning));
        }
        if let Some(memory) = summary.memory {
            eprintln!("repipe: {memory}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!((size("16M"), size("3k"), size("7")), (Ok(16 << 20), Ok(3 << 10), Ok(7)));
        assert!(size("").is_err() && size("M").is_err() && size("99999999999999999999").is_err());
    }
}
