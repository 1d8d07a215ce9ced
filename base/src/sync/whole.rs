//! What the whole engine needs beyond a mutex and a condition variable, as shuttle can run it.
//!
//! Time has no model in shuttle. Here it stands still until somebody who waits for a moment draws that it
//! has come ([`Condvar::wait_until`]); so a wait with a timeout may end at any point of a schedule.

use std::cell::Cell;
use std::ops::Deref;
use std::time::Duration;

use shuttle::rand::RngCore as _;
use shuttle::sync as inner;
use shuttle::thread::{self, ThreadId};

use super::model::{Condvar, Mutex, MutexGuard, unpoisoned};

pub use inner::{RwLockReadGuard, RwLockWriteGuard};

/// A lock for one writer or many readers, whose methods return the guards themselves.
#[derive(Debug, Default)]
pub struct RwLock<T>(inner::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        RwLock(inner::RwLock::new(value))
    }

    /// Wait until nobody writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        unpoisoned(self.0.read())
    }

    /// Wait until nobody reads or writes.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        unpoisoned(self.0.write())
    }
}

/// A mutex that the thread that holds it may lock again.
#[derive(Debug, Default)]
pub struct ReentrantMutex<T> {
    /// Who holds it, and how often.
    owner: Mutex<Option<(ThreadId, usize)>>,
    value: T,
}

/// The guard of [`ReentrantMutex`].
pub struct ReentrantMutexGuard<'a, T>(&'a ReentrantMutex<T>);

impl<T> ReentrantMutex<T> {
    /// A mutex around `value`.
    pub fn new(value: T) -> Self {
        ReentrantMutex { owner: Mutex::new(None), value }
    }

    /// The lock, unless another thread has it.
    pub fn try_lock(&self) -> Option<ReentrantMutexGuard<'_, T>> {
        let mine = thread::current().id();
        let mut owner = self.owner.lock();
        if owner.is_some_and(|(holder, _)| holder != mine) {
            return None;
        }
        *owner = Some((mine, owner.map_or(1, |(_, times)| times + 1)));
        Some(ReentrantMutexGuard(self))
    }

    /// Whether a thread holds it.
    pub fn is_locked(&self) -> bool {
        self.owner.lock().is_some()
    }

    /// Whether this thread holds it.
    pub fn is_owned_by_current_thread(&self) -> bool {
        self.owner.lock().is_some_and(|(holder, _)| holder == thread::current().id())
    }
}

impl<T> Deref for ReentrantMutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> Drop for ReentrantMutexGuard<'_, T> {
    fn drop(&mut self) {
        let mut owner = self.0.owner.lock();
        *owner = owner.and_then(|(holder, times)| (times > 1).then(|| (holder, times - 1)));
    }
}

thread_local! {
    /// The time; each thread of the system runs executions of its own. Only differences count, so it need
    /// not begin anew with each.
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// A moment of the model's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    /// This moment.
    pub fn now() -> Self {
        Instant(NOW.get())
    }

    /// The moment `time` after this one.
    pub fn checked_add(self, time: Duration) -> Option<Self> {
        self.0.checked_add(time).map(Instant)
    }
}

/// Whether a wait ended because its time had passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut(bool);

impl TimedOut {
    /// Whether it did.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Release the lock and take it again, after a notification or not, at `due` or before: parking_lot
    /// allows all of these, and so each is drawn. It cannot be a wait for a notification, which would be
    /// called a deadlock when none comes.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, due: Instant) -> TimedOut {
        guard.held = None;
        thread::yield_now();
        *guard = guard.of.lock();
        let passed = shuttle::rand::thread_rng().next_u32() % 8 == 0;
        if passed {
            NOW.set(NOW.get().max(due.0));
        }
        TimedOut(passed)
    }

    /// [`Condvar::wait_until`] that is `timeout` away.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> TimedOut {
        let due = NOW.get().saturating_add(timeout);
        self.wait_until(guard, Instant(due))
    }
}
