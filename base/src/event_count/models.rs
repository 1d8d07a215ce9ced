//! Every interleaving of waiters and notifiers: no wake-up is lost (loom reports a thread that sleeps for
//! ever), and what was done before a notification is seen after the wait.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path tests/models/Cargo.toml`.

use loom::thread;

use super::EventCount;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, Ordering};

/// A counter to wait for. Relaxed: the event alone has to order it.
struct Shared {
    event: EventCount,
    count: AtomicU32,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { event: EventCount::new(), count: AtomicU32::new(0) })
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.event.notify_all();
    }

    fn wait_for(&self, wanted: u32) {
        loop {
            let seen = self.event.epoch();
            if self.count.load(Ordering::Relaxed) >= wanted {
                return;
            }
            self.event.wait(seen);
        }
    }
}

/// All interleavings with up to three preemptions: with three threads the rest takes hours.
fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

/// Run `notifiers` threads that add one each and `waiters` that wait for all of them; the calling thread
/// is one of the waiters.
fn run(notifiers: u32, waiters: u32) {
    model(move || {
        let shared = Shared::new();
        let mut threads = Vec::new();
        for _ in 0..notifiers {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || shared.add()));
        }
        for _ in 1..waiters {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || shared.wait_for(notifiers)));
        }
        shared.wait_for(notifiers);
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        assert_eq!(u64::from(notifiers), shared.event.epoch());
    });
}

#[test]
fn one_waiter_misses_no_notification() {
    run(1, 1);
}

#[test]
fn one_waiter_misses_neither_of_two_notifications() {
    run(2, 1);
}

#[test]
fn two_waiters_are_both_woken() {
    run(1, 2);
}

#[test]
fn what_was_done_before_the_notification_is_seen_after_the_wait() {
    model(|| {
        let shared = Shared::new();
        let writer = Arc::clone(&shared);
        let seen = shared.event.epoch();
        let thread = thread::spawn(move || writer.add());
        shared.event.wait(seen);
        assert_eq!(shared.count.load(Ordering::Relaxed), 1);
        thread.join().expect("no thread panics");
    });
}
