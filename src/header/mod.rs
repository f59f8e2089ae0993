//! The file header, event attributes and feature sections.

pub mod features;
