//! An event count: how one part waits for another without polling and without missing a wake-up.
//!
//! The waiter reads [`Gate::epoch`], checks its condition, and only then waits for the epoch to move
//! on; whoever makes the condition true calls [`Gate::open`] afterwards. A wake-up between the check
//! and the wait moves the epoch, so the wait returns at once.
//!
//! Epoch and number of waiters share one atomic word, so every opening and every arrival of a waiter
//! stand in one order: an opener either sees the waiter, or the waiter sees the opening. No fence and no
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
pub struct Gate {
    /// Epoch, then [`EPOCH_SHIFT`] bits of waiters: `open` skips the lock when there are none. The epoch
    /// wraps after 2^44 openings, which only a wait that lasts exactly so many could mistake.
    word: AtomicU64,
    lock: Mutex<()>,
    opened: Condvar,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A gate nobody waits at.
    pub fn new() -> Self {
        Gate { word: AtomicU64::new(0), lock: Mutex::new(()), opened: Condvar::new() }
    }

    /// How often the gate was opened. Read it before checking the condition to wait for.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.word.load(Ordering::Acquire) >> EPOCH_SHIFT
    }

    /// Wake everybody who waits. What the caller did before is seen by whoever sees the new epoch.
    #[inline]
    pub fn open(&self) {
        let before = self.word.fetch_add(1 << EPOCH_SHIFT, Ordering::AcqRel);
        if before & WAITERS > 0 {
            // A waiter between its look at the epoch and its sleep holds the lock: let it fall asleep.
            drop(self.lock.lock());
            self.opened.notify_all();
        }
    }

    /// Wait until the epoch differs from `seen`.
    pub fn wait(&self, seen: u64) {
        self.word.fetch_add(1, Ordering::AcqRel);
        let mut guard = self.lock.lock();
        while self.epoch() == seen {
            self.opened.wait(&mut guard);
        }
        drop(guard);
        self.word.fetch_sub(1, Ordering::AcqRel);
    }

    /// Wait until the epoch differs from `seen` or `timeout` has passed; whether the gate opened.
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
            timed_out = self.opened.wait_for(&mut guard, timeout).timed_out();
        }
        drop(guard);
        self.word.fetch_sub(1, Ordering::AcqRel);
        self.epoch() != seen
    }
}
