//! Every interleaving of waiters and openers: no wake-up is lost (loom reports a thread that sleeps for
//! ever), and what was done before an opening is seen after the wait.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path tests/models/Cargo.toml`.

use loom::thread;

use super::Gate;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, Ordering};

/// A counter to wait for. Relaxed: the gate alone has to order it.
struct Shared {
    gate: Gate,
    count: AtomicU32,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { gate: Gate::new(), count: AtomicU32::new(0) })
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.gate.open();
    }

    fn wait_for(&self, wanted: u32) {
        loop {
            let seen = self.gate.epoch();
            if self.count.load(Ordering::Relaxed) >= wanted {
                return;
            }
            self.gate.wait(seen);
        }
    }
}

/// All interleavings with up to three preemptions: with three threads the rest takes hours.
fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

/// Run `openers` threads that add one each and `waiters` that wait for all of them; the calling thread
/// is one of the waiters.
fn run(openers: u32, waiters: u32) {
    model(move || {
        let shared = Shared::new();
        let mut threads = Vec::new();
        for _ in 0..openers {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || shared.add()));
        }
        for _ in 1..waiters {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || shared.wait_for(openers)));
        }
        shared.wait_for(openers);
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(u64::from(openers), shared.gate.epoch());
    });
}

#[test]
fn one_waiter_misses_no_opening() {
    run(1, 1);
}

#[test]
fn one_waiter_misses_neither_of_two_openings() {
    run(2, 1);
}

#[test]
fn two_waiters_are_both_woken() {
    run(1, 2);
}

#[test]
fn what_was_done_before_the_opening_is_seen_after_the_wait() {
    model(|| {
        let shared = Shared::new();
        let writer = Arc::clone(&shared);
        let seen = shared.gate.epoch();
        let thread = thread::spawn(move || writer.add());
        shared.gate.wait(seen);
        assert_eq!(shared.count.load(Ordering::Relaxed), 1);
        thread.join().expect("no thread panics");
    });
}
