//! Time order within a bounded window.
