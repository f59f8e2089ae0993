//! repipe reads a Linux perf recording, streams its records through stages, and writes a valid,
//! rewritten recording.
//!
//! The layers, each of which knows only those above it in this list:
//!
//! - [`error`]: what went wrong, in which file, at which offset, in which record, and what to do.
//! - [`bytes`]: checked reads and writes in either byte order.
//! - [`abi`]: constants of the kernel's and perf's formats; no I/O.
//! - [`data`]: where bytes come from: a mapped file, a pipe, a directory.
//! - [`header`]: the file header, event attributes and feature sections.
//! - [`evlist`]: events with their sample layouts and ids.
//! - [`event`]: records, parsed on demand.
//! - [`reader`]: the stream of records over any input, decompressed.
//! - [`ordered_events`]: time order within a bounded window.
//! - [`session`]: machines, threads, maps, DSOs and build-ids as of a moment of the recording.
//! - [`symbol`]: symbol tables of DSOs.
//! - [`unwind`]: stacks of DWARF recordings, unwound.
//! - [`plugin`]: code of others that sees records as they pass: native plugins and perf's dlfilters.
//! - [`stage`]: what is done to records, and the pipeline that does it.
//! - [`writer`]: the output, whole or not at all.
//! - [`rewrite`]: a whole rewrite, from input to output.
//! - [`script`]: samples shown as text or JSON.
//! - [`cli`]: the command line.

pub mod abi;
pub mod bytes;
pub mod cli;
pub mod data;
pub mod error;
pub mod event;
pub mod evlist;
pub mod header;
pub mod ordered_events;
pub mod plugin;
pub mod reader;
pub mod rewrite;
pub mod script;
pub mod session;
pub mod stage;
pub mod symbol;
pub mod unwind;
pub mod writer;
