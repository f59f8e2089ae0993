//! A whole rewrite: opens the input, runs its records through a stage, and writes the output.

mod head;
mod needs;
mod run;
mod summary;

pub use run::{Options, run};
pub use summary::{Summary, SummaryFormat};
