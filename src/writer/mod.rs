//! The output: file or pipe, whole or not at all.
