//! Memory that can't be had: the end of the process with a message, not an abort.
//!
//! Large allocations are made so that they may fail ([`may_fail`]), and whoever makes them sees to it. All the others, in
//! this crate and in those that it uses, have nobody to tell: the standard library aborts then, with a dump of its own
//! frames. The allocator of the `repipe` command ends it in order instead.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

thread_local! {
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
    static ENDED_HERE: Cell<bool> = const { Cell::new(false) };
}

/// How long a thread that is out of memory too waits for the end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the process is being ended.
static ENDING: AtomicBool = AtomicBool::new(false);

static BEFORE_END: OnceLock<fn()> = OnceLock::new();

/// Sets what is done before the process is ended, the first time that it is set.
pub fn before_end(what: fn()) {
    let _ = BEFORE_END.set(what);
}

/// Ends the process in order, as for any other memory, where a thread that starts can't have the stack on which a stack
/// overflow would be told: the standard library panics then, where nobody can catch it.
pub fn end_threads_in_order() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map(String::as_str);
        if message.is_some_and(lacks_signal_stack) {
            end(format_args!("out of memory: a thread has no stack for signals"));
        }
        told(panic);
    }));
}

/// Whether a panic says that memory for a thread's alternative stack can't be had, in the words of std's
/// `sys::pal::unix::stack_overflow`.
fn lacks_signal_stack(message: &str) -> bool {
    message.starts_with("failed to allocate an alternative stack")
        || message.starts_with("failed to set up alternative stack guard page")
}

/// Runs what copes with an allocation that fails, such as `Vec::try_reserve`.
pub fn may_fail<R>(allocate: impl FnOnce() -> R) -> R {
    let before = MAY_FAIL.replace(true);
    let result = allocate();
    MAY_FAIL.set(before);
    result
}

/// The system's allocator, which ends the process with a message and status 1 where memory can't be had by somebody who
/// can't cope with that. To be a program's `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

// SAFETY: every call goes to the system's allocator as it came, and its answer comes back as it is.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that `System` asks for, here and below.
        checked(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        checked(unsafe { System.realloc(ptr, layout, new_size) }, new_size)
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[inline]
fn checked(ptr: *mut u8, size: usize) -> *mut u8 {
    if ptr.is_null() {
        failed(size);
    }
    ptr
}

#[cold]
#[inline(never)]
fn failed(size: usize) {
    // A thread that is ending has no marks any more, and what runs then can't cope with failure.
    if MAY_FAIL.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    end(format_args!("out of memory: {size} bytes could not be had"));
}

/// Ends the process with a message; returns only where it is being ended already.
fn end(message: std::fmt::Arguments) {
    if ENDING.swap(true, Ordering::SeqCst) {
        // Another thread is ending the process, which is over before this one need know; unless it is this very one, or
        // waits for what this one holds.
        if !ENDED_HERE.try_with(Cell::get).unwrap_or(true) {
            std::thread::sleep(PATIENCE);
        }
        return;
    }
    let _ = ENDED_HERE.try_with(|here| here.set(true));
    // The text is put together on the stack, and standard error has no buffer.
    let mut text = [0u8; 128];
    let mut rest = &mut text[..];
    let _ = writeln!(rest, "repipe: {message}");
    let left = rest.len();
    let _ = std::io::stderr().write_all(text.get(..text.len().saturating_sub(left)).unwrap_or_default());
    if let Some(before) = BEFORE_END.get() {
        before();
    }
    std::process::exit(1);
}

/// Lets all threads allocate from one heap. The C library gives each a heap of its own, which takes 64 MiB of address
/// space, and keeps what one thread frees from the others. Large pieces go back to the system when they are freed, which
/// the C library stops to do once it has seen some. To be called by a command whose threads allocate little.
pub fn share_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // From malloc.h.
        const M_TRIM_THRESHOLD: std::ffi::c_int = -1;
        const M_MMAP_THRESHOLD: std::ffi::c_int = -3;
        const M_ARENA_MAX: std::ffi::c_int = -8;
        const THRESHOLD: std::ffi::c_int = 32 << 10;
        #[allow(unsafe_code)]
        unsafe extern "C" {
            fn mallopt(param: std::ffi::c_int, value: std::ffi::c_int) -> std::ffi::c_int;
        }
        // SAFETY: `mallopt` may be called at any time with any values; these set what is done from now on.
        #[allow(unsafe_code)]
        unsafe {
            mallopt(M_ARENA_MAX, 1);
            mallopt(M_MMAP_THRESHOLD, THRESHOLD);
            mallopt(M_TRIM_THRESHOLD, THRESHOLD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lack_of_a_signal_stack_ends_the_process() {
        assert!(lacks_signal_stack(
            "failed to allocate an alternative stack: Cannot allocate memory (os error 12)"
        ));
        assert!(lacks_signal_stack(
            "failed to set up alternative stack guard page: Cannot allocate memory (os error 12)"
        ));
        assert!(!lacks_signal_stack("index out of bounds"));
    }

    #[test]
    fn what_may_fail_is_told() {
        let mut vec: Vec<u8> = Vec::new();
        let too_much = isize::MAX as usize - 16;
        assert!(may_fail(|| vec.try_reserve_exact(too_much)).is_err());
        assert!(!MAY_FAIL.get());
    }
}
