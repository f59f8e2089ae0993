//! Where bytes come from: a mapped file, a pipe, a directory. The only module of the core with `unsafe` (the map).

mod generation;

pub use generation::inode_generation;
