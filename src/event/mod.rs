//! Records, parsed on demand from their bytes.
