//! Events of a recording: attributes, ids and the layouts of their records.
