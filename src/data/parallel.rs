//! The same work on several threads, as many as can be had.

use std::thread::{Builder, scope};

/// Runs `work` on this thread and, at the same time, on up to `threads - 1` others; returns when all are done. Where no
/// more threads can be started, those that there are do it: `work` has to take its part from what is left to do.
pub fn on_threads(threads: usize, work: impl Fn() + Sync) {
    scope(|scope| {
        for _ in 1..threads {
            if Builder::new().spawn_scoped(scope, &work).is_err() {
                break;
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::on_threads;

    #[test]
    fn all_is_done_once_by_any_number_of_threads() {
        for threads in [0, 1, 2, 7] {
            let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
            on_threads(threads, || {
                while let n @ 0..100 = next.fetch_add(1, Relaxed) {
                    sum.fetch_add(n, Relaxed);
                }
            });
            assert_eq!(sum.into_inner(), 4950, "{threads}");
        }
    }
}
