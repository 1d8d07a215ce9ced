//! An event count: how one part waits for another without polling and without missing a wake-up.
//!
//! The waiter reads [`Gate::epoch`], checks its condition, and only then waits for the epoch to move
//! on; whoever makes the condition true calls [`Gate::open`] afterwards. A wake-up between the check
//! and the wait moves the epoch, so the wait returns at once.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

/// See the module.
#[derive(Debug, Default)]
pub struct Gate {
    epoch: AtomicU64,
    /// Waiters present: `open` skips the lock when there are none.
    waiters: AtomicU32,
    lock: Mutex<()>,
    opened: Condvar,
}

impl Gate {
    /// A gate nobody waits at.
    pub fn new() -> Self {
        Gate {
            epoch: AtomicU64::new(0),
            waiters: AtomicU32::new(0),
            lock: Mutex::new(()),
            opened: Condvar::new(),
        }
    }

    /// How often the gate was opened. Read it before checking the condition to wait for.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Wake everybody who waits.
    #[inline]
    pub fn open(&self) {
        // SeqCst on both sides: either the opener sees the waiter, or the waiter sees the epoch.
        self.epoch.fetch_add(1, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.opened.notify_all();
        }
    }

    /// Wait until the epoch differs from `seen`.
    pub fn wait(&self, seen: u64) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock();
        while self.epoch() == seen {
            self.opened.wait(&mut guard);
        }
        drop(guard);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wait until the epoch differs from `seen` or `timeout` has passed; whether the gate opened.
    #[cfg(not(any(loom, shuttle)))]
    #[expect(
        clippy::disallowed_methods,
        reason = "schedulers wait through this, everybody else through them"
    )]
    pub fn wait_for(&self, seen: u64, timeout: std::time::Duration) -> bool {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock();
        let mut timed_out = false;
        while self.epoch() == seen && !timed_out {
            timed_out = self.opened.wait_for(&mut guard, timeout).timed_out();
        }
        drop(guard);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        self.epoch() != seen
    }
}
