//! Large allocations that may fail, and the one place that can make room for them.

use std::io::{self, Read};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::data::allocator::may_fail;

/// Memory could not be had, even after making room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of memory")]
pub struct OutOfMemory;

type Hook = Box<dyn Fn() -> usize + Send + Sync>;

static SHRINK: RwLock<Option<Hook>> = RwLock::new(None);

/// Sets what is called once when a large allocation fails, before it is tried a second time: the session's
/// shrink. It returns the bytes it freed. It must take no lock that a loading thread may hold: it should skip
/// what it can't lock at once.
pub fn set_shrink_hook(hook: Option<Box<dyn Fn() -> usize + Send + Sync>>) {
    let mut slot = SHRINK.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    *slot = hook;
}

/// Whether something was left out for want of memory by one who had nobody to tell.
static SHORT: AtomicBool = AtomicBool::new(false);

/// Notes a failure whose consequence is that something is not shown, if it is for want of memory or address space.
pub(super) fn note(kind: io::ErrorKind) {
    if kind == io::ErrorKind::OutOfMemory {
        SHORT.store(true, Ordering::Relaxed);
    }
}

/// As [`note`], of a failure by its cause.
pub(super) fn note_failure(e: &crate::error::Error) {
    let cause = std::error::Error::source(e).and_then(|cause| cause.downcast_ref::<io::Error>());
    note(cause.map_or(io::ErrorKind::Other, io::Error::kind));
}

/// Whether a failure was noted.
pub(super) fn was_short() -> bool {
    SHORT.load(Ordering::Relaxed)
}

/// Room for exactly `additional` more elements; on failure shrinks and tries once more.
pub fn reserve<T>(vec: &mut Vec<T>, additional: usize) -> Result<(), OutOfMemory> {
    if may_fail(|| vec.try_reserve_exact(additional)).is_ok() {
        return Ok(());
    }
    let freed = {
        let hook = SHRINK.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        hook.as_ref().map_or(0, |shrink| shrink())
    };
    if freed > 0 && may_fail(|| vec.try_reserve_exact(additional)).is_ok() {
        return Ok(());
    }
    Err(OutOfMemory)
}

/// Appends one element, growing by half when full, through [`reserve`].
pub(super) fn push<T>(vec: &mut Vec<T>, value: T) -> Result<(), OutOfMemory> {
    if vec.len() == vec.capacity() {
        reserve(vec, (vec.len() / 2).max(64))?;
    }
    vec.push(value);
    Ok(())
}

/// Bytes of a vector's buffer, spare capacity included.
pub(super) fn buffer<T>(vec: &Vec<T>) -> usize {
    vec.capacity().saturating_mul(size_of::<T>())
}

/// Room for at least `additional` more elements, growing by half when full.
pub(super) fn reserve_amortized<T>(vec: &mut Vec<T>, additional: usize) -> Result<(), OutOfMemory> {
    if vec.capacity() - vec.len() < additional {
        reserve(vec, additional.max(vec.len() / 2).max(64))?;
    }
    Ok(())
}

/// Bytes asked for at a time by [`read_to_end`].
const STEP: usize = 64 << 10;

/// All that a reader has, at most `most` bytes of it, in memory that grows through [`reserve`]: an error of the kind
/// `OutOfMemory` if there is none.
pub(super) fn read_to_end(mut reader: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let left = most.saturating_sub(bytes.len() as u64);
        let step = STEP.min(usize::try_from(left).unwrap_or(STEP));
        if step == 0 {
            return Ok(bytes);
        }
        reserve_amortized(&mut bytes, step).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let before = bytes.len();
        reader.by_ref().take(step as u64).read_to_end(&mut bytes)?;
        if bytes.len() == before {
            return Ok(bytes);
        }
    }
}
