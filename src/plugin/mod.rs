//! Plugins: code of others that sees records as they pass.
//!
//! [`native`] hosts plugins of our own interface, [`dlfilter`] perf's dlfilters as they are; [`resolve`] is what plugins ask of addresses.
//!
//! This is one of the few places with `unsafe`: a plugin is machine code that the user chose to run in this process, and
//! its functions are called through pointers. What it may do wrong that can be seen is checked; what it does to memory
//! that it was not given can't be.

#[expect(unsafe_code, reason = "calls into shared objects")]
pub mod dlfilter;
pub mod events;
mod fixed;
#[expect(unsafe_code, reason = "calls into shared objects")]
pub mod native;
mod object;
pub mod resolve;
#[expect(unsafe_code, reason = "C's standard output")]
pub mod stdio;
mod strings;
