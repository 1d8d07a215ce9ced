//! parking_lot's shapes over the model checkers' std-like locks.

#[cfg(loom)]
use loom::sync as inner;
#[cfg(shuttle)]
use shuttle::sync as inner;

/// A mutex whose `lock` returns the guard itself.
#[derive(Debug, Default)]
pub struct Mutex<T>(inner::Mutex<T>);

/// The guard of [`Mutex`].
pub struct MutexGuard<'a, T> {
    /// `None` only while a condition variable has it.
    pub(super) held: Option<inner::MutexGuard<'a, T>>,
    #[cfg(shuttle)]
    pub(super) of: &'a Mutex<T>,
}

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
        MutexGuard {
            held: Some(unpoisoned(self.0.lock())),
            #[cfg(shuttle)]
            of: self,
        }
    }

    /// The lock, unless somebody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard {
            held: Some(held),
            #[cfg(shuttle)]
            of: self,
        })
    }

    /// What the mutex holds, for its owner.
    pub fn get_mut(&mut self) -> &mut T {
        unpoisoned(self.0.get_mut())
    }
}

/// What a lock gave, whether or not somebody panicked while holding it.
pub(super) fn unpoisoned<T>(locked: std::sync::LockResult<T>) -> T {
    locked.unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl<T> std::ops::Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.held.as_ref().expect("guard is in a condition variable")
    }
}

impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("guard is in a condition variable")
    }
}

impl Condvar {
    /// A condition variable.
    pub fn new() -> Self {
        Condvar(inner::Condvar::new())
    }

    /// Release the lock, wait for a notification, take the lock again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("guard is in a condition variable");
        guard.held = Some(unpoisoned(self.0.wait(held)));
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
