//! What the recording says of machines, threads, maps and DSOs as of a moment.

pub mod build_id;
pub mod dso;
pub mod dsos;
pub mod map;
pub mod maps;
