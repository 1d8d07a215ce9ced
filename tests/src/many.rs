//! Running the histories of a suite on several threads until enough was done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::crash::Outcome;

/// Run histories number 0, 1, and so on, on `threads` threads, until `count` cases were done or
/// `failures_max` have failed.
#[expect(clippy::disallowed_methods, reason = "the threads of a test, each with worlds of its own")]
pub fn many(
    count: u64,
    threads: usize,
    failures_max: usize,
    history: impl Fn(u64) -> Outcome + Sync,
) -> Outcome {
    let total = Mutex::new(Outcome::default());
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let outcome = history(next.fetch_add(1, Ordering::Relaxed));
                    let mut total = total.lock();
                    total.add(outcome);
                    if total.cases >= count || total.failures.len() >= failures_max {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    total.into_inner()
}
