//! C's standard output, for hosts whose lines must stay in order with those of a plugin.

use std::ffi::{c_char, c_int, c_void};
use std::io::{self, Write};
use std::ptr::null_mut;

unsafe extern "C" {
    /// `stdout` of `stdio.h`.
    static stdout: *mut c_void;
    fn fwrite(bytes: *const c_void, size: usize, count: usize, to: *mut c_void) -> usize;
    fn fflush(to: *mut c_void) -> c_int;
    fn setvbuf(to: *mut c_void, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
}

/// `_IOFBF` of `stdio.h`.
const FULLY_BUFFERED: c_int = 0;
/// Bytes that wait.
const BUFFER: usize = 256 << 10;

/// Writes through C's `stdout`.
pub struct Stdout(());

impl Stdout {
    /// To be had once, before anything is printed: the buffer is enlarged, unless the output is a terminal.
    #[expect(clippy::new_without_default, reason = "it changes the process's output")]
    pub fn new() -> Stdout {
        if !io::IsTerminal::is_terminal(&io::stdout()) {
            // SAFETY: `stdout` is set by the C library before main; without a buffer given, it makes its own.
            unsafe { setvbuf(stdout, null_mut(), FULLY_BUFFERED, BUFFER) };
        }
        Stdout(())
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the bytes are readable as far as their length; the C library locks the stream.
        let written = unsafe { fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stdout) };
        if written == 0 && !bytes.is_empty() { Err(io::Error::last_os_error()) } else { Ok(written) }
    }

    fn flush(&mut self) -> io::Result<()> {
        // SAFETY: as above.
        if unsafe { fflush(stdout) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
