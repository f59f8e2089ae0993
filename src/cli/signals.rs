//! SIGINT and SIGTERM remove what is unfinished; a file size limit is an error rather than an end, and so is a mapped
//! file that gets shorter.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::data::{fatal, unfinished};

/// Installs the handlers. Where that fails the process ends on a signal as if they weren't there.
pub fn install() {
    crate::data::allocator::before_end(unfinished::remove_all);
    crate::data::allocator::end_threads_in_order();
    fatal::end_on_bus_error(unfinished::remove_all);
    fatal::end_on_abort(unfinished::remove_all_now);
    // With a handler, a write past the limit fails with EFBIG instead of ending the process.
    let ignored = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let _ = signal_hook::flag::register(SIGXFSZ, ignored);
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    let handle = move || {
        if let Some(signal) = signals.forever().next() {
            unfinished::remove_all();
            // Ends the process by the signal's own action, so that a shell sees what it expects.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    };
    let _ = std::thread::Builder::new().name("signals".into()).spawn(handle);
}
