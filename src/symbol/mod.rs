//! Symbol tables of DSOs: a compact lazy index for user space, a sorted table for the rest.
