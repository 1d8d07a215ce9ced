//! An event count: how one part waits for another without polling and without missing a wake-up.
//!
//! The waiter reads [`EventCount::epoch`], checks its condition, and only then waits for the epoch to move
//! on; the thread that makes the condition true calls [`EventCount::notify_all`] afterwards. A notification between the
//! check and the wait moves the epoch, so the wait returns at once.
//!
//! Epoch and number of waiters share one atomic word, so every notification and every arrival of a waiter
//! stand in one order: a notifier either sees the waiter, or the waiter sees the notification. No fence and no
//! sequential consistency is needed, and loom checks it (`models.rs`).

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

#[cfg(all(test, loom))]
mod models;

/// The low bits of the word count waiters: more than a process has threads.
const EPOCH_SHIFT: u32 = 20;
const WAITERS: u64 = (1 << EPOCH_SHIFT) - 1;

/// See the module.
#[derive(Debug)]
pub struct EventCount {
    /// Epoch, then [`EPOCH_SHIFT`] bits of waiters: `notify_all` skips the lock when there are none. The
    /// epoch wraps after 2^44 notifications: only a wait that lasts for exactly as many could miss one by
    /// that.
    word: AtomicU64,
    lock: Mutex<()>,
    notified: Condvar,
}

impl Default for EventCount {
    fn default() -> Self {
        Self::new()
    }
}

impl EventCount {
    /// An event count nobody waits for.
    pub fn new() -> Self {
        EventCount { word: AtomicU64::new(0), lock: Mutex::new(()), notified: Condvar::new() }
    }

    /// How many notifications there were. Read it before checking the condition to wait for.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.word.load(Ordering::Acquire) >> EPOCH_SHIFT
    }

    /// Wake all waiters. What the caller did before is seen by every thread that sees the new epoch.
    #[inline]
    pub fn notify_all(&self) {
        let before = self.word.fetch_add(1 << EPOCH_SHIFT, Ordering::AcqRel);
        if before & WAITERS > 0 {
            // A waiter holds the lock between its look at the epoch and its sleep: taking the lock lets it
            // fall asleep first.
            drop(self.lock.lock());
            self.notified.notify_all();
        }
    }

    /// Wait until the epoch differs from `seen`.
    pub fn wait(&self, seen: u64) {
        self.word.fetch_add(1, Ordering::AcqRel);
        let mut guard = self.lock.lock();
        while self.epoch() == seen {
            self.notified.wait(&mut guard);
        }
        drop(guard);
        self.word.fetch_sub(1, Ordering::AcqRel);
    }

    /// Wait until the epoch differs from `seen` or `timeout` has passed; whether there was a notification.
    #[cfg(not(loom))]
    #[cfg_attr(
        not(shuttle),
        expect(
            clippy::disallowed_methods,
            reason = "schedulers wait through this, everybody else through them"
        )
    )]
    pub fn wait_for(&self, seen: u64, timeout: std::time::Duration) -> bool {
        self.word.fetch_add(1, Ordering::AcqRel);
        let mut guard = self.lock.lock();
        let mut timed_out = false;
        while self.epoch() == seen && !timed_out {
            timed_out = self.notified.wait_for(&mut guard, timeout).timed_out();
        }
        drop(guard);
        self.word.fetch_sub(1, Ordering::AcqRel);
        self.epoch() != seen
    }
}
