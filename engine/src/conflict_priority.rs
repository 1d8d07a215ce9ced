//! Priority for transactions that keep losing.
//!
//! Optimistic transactions that are short win against one that is long, again and again. So one that has lost
//! a few times takes the priority, one at a time, and those that have not yet lost give way to it before they begin.
//! Whoever waits, to give way or for the priority, waits for one holder's end for a bounded time: the closure that holds it
//! may itself wait for something that somebody who waits here holds, a lock of the user's perhaps. Nothing that is
//! true of a transaction rests on its priority.
//!
//! Locks: `held`, while the closure with the priority runs; it is only tried for. It is reentrant, since a closure may
//! run a transaction of its own, which has the priority with it.

use std::time::Duration;

use esker_base::event_count::EventCount;
use esker_base::sync::{ReentrantMutex, ReentrantMutexGuard};
use esker_vfs::scheduler::Scheduler;

/// How long a transaction waits for the end of another's priority before it begins all the same.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(crate) struct ConflictPriority {
    held: ReentrantMutex<()>,
    /// Opened when a holder has ended, and nobody has the priority.
    released: EventCount,
}

/// The priority; it ends when this is dropped.
pub(crate) struct PriorityGuard<'a> {
    priority: &'a ConflictPriority,
    guard: Option<ReentrantMutexGuard<'a, ()>>,
}

impl ConflictPriority {
    pub(crate) fn new() -> Self {
        ConflictPriority { held: ReentrantMutex::new(()), released: EventCount::new() }
    }

    /// The priority, once those end that have it; `None` if one of these takes too long.
    pub(crate) fn take(&self, scheduler: &dyn Scheduler) -> Option<PriorityGuard<'_>> {
        loop {
            let seen = self.released.epoch();
            if let Some(guard) = self.held.try_lock() {
                return Some(PriorityGuard { priority: self, guard: Some(guard) });
            }
            if !scheduler.wait(&self.released, seen, Some(WAIT_MAX)) {
                return None;
            }
        }
    }

    /// Let another thread that has the priority end first, if that does not take too long.
    pub(crate) fn give_way(&self, scheduler: &dyn Scheduler) {
        let seen = self.released.epoch();
        if self.held.is_locked() && !self.held.is_owned_by_current_thread() {
            scheduler.wait(&self.released, seen, Some(WAIT_MAX));
        }
    }
}

impl Drop for PriorityGuard<'_> {
    fn drop(&mut self) {
        self.guard = None;
        // One within another's closure goes on with that.
        if !self.priority.held.is_owned_by_current_thread() {
            self.priority.released.notify_all();
        }
    }
}
