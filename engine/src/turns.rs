//! Turns for transactions that keep losing.
//!
//! Optimistic transactions that are short win against one that is long, again and again. So one that has lost
//! a few times takes the turn, one at a time, and those that have not yet lost give way to it before they begin.
//! Whoever waits, to give way or for the turn, waits for the end of one turn for a bounded time: the closure that has it
//! may itself wait for something that somebody who waits here holds, a lock of the user's perhaps. Nothing that is
//! true of a transaction rests on its turn.
//!
//! Locks: `taken`, while the closure with the turn runs; it is only tried for. It is reentrant, since a closure may
//! run a transaction of its own, which has the turn with it.

use std::time::Duration;

use esker_base::event_count::EventCount;
use esker_base::sync::{ReentrantMutex, ReentrantMutexGuard};
use esker_vfs::scheduler::Scheduler;

/// How long a transaction waits for the end of another's turn before it begins all the same.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(crate) struct Turns {
    taken: ReentrantMutex<()>,
    /// Opened when a turn has ended, and nobody has it.
    over: EventCount,
}

/// The turn; it ends when this is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    held: Option<ReentrantMutexGuard<'a, ()>>,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Turns { taken: ReentrantMutex::new(()), over: EventCount::new() }
    }

    /// The turn, once those end that others have; `None` if one of these takes too long.
    pub(crate) fn take(&self, scheduler: &dyn Scheduler) -> Option<Turn<'_>> {
        loop {
            let seen = self.over.epoch();
            if let Some(held) = self.taken.try_lock() {
                return Some(Turn { turns: self, held: Some(held) });
            }
            if !scheduler.wait(&self.over, seen, Some(WAIT_MAX)) {
                return None;
            }
        }
    }

    /// Let another thread's turn end first, if that does not take too long.
    pub(crate) fn give_way(&self, scheduler: &dyn Scheduler) {
        let seen = self.over.epoch();
        if self.taken.is_locked() && !self.taken.is_owned_by_current_thread() {
            scheduler.wait(&self.over, seen, Some(WAIT_MAX));
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.held = None;
        // One within another's closure goes on with that.
        if !self.turns.taken.is_owned_by_current_thread() {
            self.turns.over.notify_all();
        }
    }
}
