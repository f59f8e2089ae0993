//! Large allocations that may fail, and the one place that can make room for them.

use std::sync::RwLock;

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

/// Room for exactly `additional` more elements; on failure shrinks and tries once more.
pub fn reserve<T>(vec: &mut Vec<T>, additional: usize) -> Result<(), OutOfMemory> {
    if vec.try_reserve_exact(additional).is_ok() {
        return Ok(());
    }
    let freed = {
        let hook = SHRINK.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        hook.as_ref().map_or(0, |shrink| shrink())
    };
    if freed > 0 && vec.try_reserve_exact(additional).is_ok() {
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
