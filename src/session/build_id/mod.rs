//! Build-ids: where they come from and why one is missing.
