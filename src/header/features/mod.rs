//! Feature sections, one file each: parse and emit together.
