//! Cases over threads.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Do `each` for the items of `items`, on `threads` threads, until it says that it is enough.
#[expect(clippy::disallowed_methods, reason = "the threads of a test, each with worlds of its own")]
pub fn spread<T: Sync>(threads: usize, items: &[T], each: impl Fn(&T) -> bool + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !each(item) {
                        next.store(items.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
}
