//! Locks and atomics, by build: parking_lot and std in production, loom's or shuttle's models under
//! `--cfg loom` and `--cfg shuttle`. Code that may be model-checked takes its primitives from here.
//!
//! All locks here are without poisoning: a panic in a callback must not make a database unreadable.

#[cfg(not(any(loom, shuttle)))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::{Arc, atomic};

#[cfg(loom)]
pub use loom::sync::{Arc, atomic};
#[cfg(shuttle)]
pub use shuttle::sync::{Arc, atomic};

#[cfg(any(loom, shuttle))]
pub use model::{Condvar, Mutex, MutexGuard};

/// parking_lot's shapes over the model checkers' std-like locks.
#[cfg(any(loom, shuttle))]
mod model {
    #[cfg(loom)]
    use loom::sync as inner;
    #[cfg(shuttle)]
    use shuttle::sync as inner;

    /// A mutex whose `lock` returns the guard itself.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(inner::Mutex<T>);
    /// The guard of [`Mutex`]; `None` only while a condition variable has it.
    pub struct MutexGuard<'a, T>(Option<inner::MutexGuard<'a, T>>);
    /// A condition variable that waits on a [`MutexGuard`] in place.
    #[derive(Debug, Default)]
    pub struct Condvar(inner::Condvar);

    impl<T> Mutex<T> {
        /// A mutex around `value`.
        pub fn new(value: T) -> Self {
            Mutex(inner::Mutex::new(value))
        }
        /// Wait for the lock.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect("models do not poison")))
        }
        /// The lock, unless somebody has it.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
        }
    }

    impl<T> std::ops::Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0.as_ref().expect("guard is in a condition variable")
        }
    }

    impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("guard is in a condition variable")
        }
    }

    impl Condvar {
        /// A condition variable.
        pub fn new() -> Self {
            Condvar(inner::Condvar::new())
        }
        /// Release the lock, wait for a notification, take the lock again.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("guard is in a condition variable");
            guard.0 = Some(self.0.wait(held).expect("models do not poison"));
        }
        /// Wake one waiter.
        pub fn notify_one(&self) -> bool {
            self.0.notify_one();
            true
        }
        /// Wake every waiter.
        pub fn notify_all(&self) -> usize {
            self.0.notify_all();
            0
        }
    }
}
