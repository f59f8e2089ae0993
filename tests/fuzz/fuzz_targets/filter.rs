//! Any text is a filter, or has a fault whose place is within it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use repipe::stage::filter::expr::FIELDS;
use repipe::stage::filter::{parse, short};

fuzz_target!(|source: &str| {
    let short = FIELDS.iter().map(|(_, field)| short::parse(*field, source));
    for parsed in short.chain([parse::parse(source)]) {
        if let Err(fault) = parsed {
            assert!(source.get(fault.span.clone()).is_some(), "{fault:?}");
            assert!(fault.in_option("--filter", source).to_string().contains('^'));
        }
    }
});
