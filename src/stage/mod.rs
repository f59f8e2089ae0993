//! Stages: what is done to records, and the pipeline that does it.
