//! Signals that end the process where it stands: with a message, and with nothing unfinished left.

use std::io::Write;

use signal_hook::consts::{SIGABRT, SIGBUS};

/// Ends the process with a message and status 1, after `before`, where a page of a mapped file is not there any more,
/// since somebody else has cut the file short. What is installed can't be taken back.
pub fn end_on_bus_error(before: fn()) {
    let end = move || end("a file was cut short by another program while it was read", before);
    // SAFETY: the signal comes from this very thread's reading of a map, which is done while no lock is held that `end`
    // takes; standard error has no buffer, and `exit` runs no handlers.
    #[allow(unsafe_code)]
    let _ = unsafe { signal_hook::low_level::register(SIGBUS, end) };
}

/// As [`end_on_bus_error`] where something calls `abort`: the C library where it has no memory to note what a thread has
/// to clean up, or a plugin. Either says why itself. `before` may neither wait for locks nor allocate or free.
pub fn end_on_abort(before: fn()) {
    let end = move || {
        end("aborted by a plugin, or by the C library for want of memory; nothing unfinished is left", before)
    };
    // SAFETY: `before` takes no lock and leaves the heap alone, as its contract asks; the rest is as above.
    #[allow(unsafe_code)]
    let _ = unsafe { signal_hook::low_level::register(SIGABRT, end) };
}

fn end(message: &str, before: fn()) {
    let mut stderr = std::io::stderr();
    for part in ["repipe: ", message, "\n"] {
        let _ = stderr.write_all(part.as_bytes());
    }
    before();
    signal_hook::low_level::exit(1);
}
