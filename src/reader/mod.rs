//! The stream of records over any input, decompressed.
