//! Turns for transactions that keep losing.
//!
//! Optimistic transactions that are short win against one that is long, again and again. So one that has lost
//! a few times takes the turn, one at a time, and those that have not yet lost give way to it before they begin.
//! They do so for a bounded time: the closure that has the turn may itself wait for something that somebody who
//! gives way holds.
//!
//! Locks: `taken`, while the closure with the turn runs. It is reentrant, since a closure may run a transaction
//! of its own, which has the turn with it.

use std::time::Duration;

use esker_base::gate::Gate;
use esker_base::sync::{ReentrantMutex, ReentrantMutexGuard};
use esker_vfs::scheduler::Scheduler;

/// How long a transaction that has not lost lets another have its turn before it begins all the same.
const GIVES_WAY_MAX: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(crate) struct Turns {
    taken: ReentrantMutex<()>,
    /// Opened when a turn ends.
    over: Gate,
}

/// The turn; it ends when this is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    held: Option<ReentrantMutexGuard<'a, ()>>,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Turns { taken: ReentrantMutex::new(()), over: Gate::new() }
    }

    /// Wait for the turn.
    pub(crate) fn take(&self) -> Turn<'_> {
        Turn { turns: self, held: Some(self.taken.lock()) }
    }

    /// Let another thread's turn end first, if that does not take too long.
    pub(crate) fn give_way(&self, scheduler: &dyn Scheduler) {
        let seen = self.over.epoch();
        if self.taken.is_locked() && !self.taken.is_owned_by_current_thread() {
            scheduler.wait(&self.over, seen, Some(GIVES_WAY_MAX));
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.held = None;
        self.turns.over.open();
    }
}
