//! A mapped file that is cut short by somebody else while it is read: the end of the process with a message.

use std::io::Write;

use signal_hook::consts::SIGBUS;

/// Ends the process with a message and status 1, after `before`, where a page of a mapped file is not there any more. What
/// is installed can't be taken back.
pub fn end_in_order(before: fn()) {
    let end = move || {
        let text = b"repipe: a file was cut short by another program while it was read\n";
        let _ = std::io::stderr().write_all(text);
        before();
        signal_hook::low_level::exit(1);
    };
    // SAFETY: the signal comes from this very thread's reading of a map, which is done while no lock is held that `end`
    // takes; standard error has no buffer, and `exit` runs no handlers.
    #[allow(unsafe_code)]
    let _ = unsafe { signal_hook::low_level::register(SIGBUS, end) };
}
