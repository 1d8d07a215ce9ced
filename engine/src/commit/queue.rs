//! The queue of writers: who leads, who follows, and how an outcome comes back.

use std::sync::Arc;

use esker_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use esker_base::sync::{Condvar, Mutex, MutexGuard, give_way};

use super::group::{CommitState, commit_and_wake, commit_contained, commit_lone, unanswered};
use super::lead::Lead;
use super::{Answer, OwnedWork, Work};
use crate::core::Core;

/// What a group may hold before its leader stops adding to it: bounds the wait of the first in line
/// and the size of one write.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// How many groups a leader commits before it hands the lead to somebody else: bounds what its own caller
/// waits for others.
const GROUPS_MAX: usize = 8;
/// How often a writer looks for its outcome before it yields its processor: for 7 µs where a pause takes 55 ns.
/// A group takes one or two.
const SPINS: u32 = 128;
/// How often it yields before it sleeps. If an outcome is late, its leader mostly has no processor, and gets one sooner by
/// yielding; falling asleep and being woken takes 14 µs.
const YIELDS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 16 };

/// How often a leader looks whether as many writers have queued as were in the group before, until it goes without them: a
/// writer of that group needs about a microsecond to come back, and every group costs a system call.
const PATIENCE: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 24 };

/// Writers that wait, and what their leader works on. See the module.
pub(crate) struct CommitQueue {
    queue: Mutex<Vec<Arc<Writer>>>,
    /// Who leads, and how many are in `queue`: counted under its lock.
    lead: Lead,
    /// How many transactions are being checked or wait for their last check.
    checking: AtomicUsize,
    /// The commit lock. Leaders take turns anyway (`lead`): it keeps out rotation, closing, metrics and drops of keyspaces.
    state: Mutex<CommitState>,
}

/// While there is one, what is committed is noted.
pub(crate) struct Checking<'a>(&'a CommitQueue);

impl Drop for Checking<'_> {
    fn drop(&mut self) {
        self.0.checking.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CommitQueue {
    pub(crate) fn new(state: CommitState) -> Self {
        CommitQueue {
            queue: Mutex::new(Vec::new()),
            lead: Lead::default(),
            checking: AtomicUsize::new(0),
            state: Mutex::new(state),
        }
    }

    /// Take the commit lock: the leader's state, for rotation and closing.
    pub(crate) fn lock(&self) -> MutexGuard<'_, CommitState> {
        self.state.lock()
    }

    /// Take the commit lock, if nobody holds it just now.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, CommitState>> {
        self.state.try_lock()
    }

    /// How many writers are in the queue, with the one that leads.
    #[cfg(test)]
    pub(crate) fn writers(&self) -> usize {
        self.lead.waiting() + usize::from(self.lead.is_led())
    }

    /// From now until the guard is dropped, note what is committed, for a transaction that is being checked. A group that is
    /// under way may miss the request (it is relaxed); the transaction then finds that the first number after its own check
    /// is missing, and is checked anew ([`RecentWrites::after`](crate::recent_writes::RecentWrites::after)).
    pub(crate) fn begin_check(&self) -> Checking<'_> {
        self.checking.fetch_add(1, Ordering::Relaxed);
        Checking(self)
    }

    /// Whether a transaction is being checked beside the `group` ones that are about to be committed.
    #[inline]
    pub(super) fn is_checking(&self, group: usize) -> bool {
        self.checking.load(Ordering::Relaxed) > group
    }

    /// Commit `work`.
    #[inline]
    pub(crate) fn commit(&self, core: &Core, work: Work<'_>) -> Answer {
        if self.lead.begin() { self.lead(core, work) } else { self.queue_up(core, work) }
    }

    /// Wait behind a leader; should it go meanwhile, lead.
    #[inline(never)]
    fn queue_up(&self, core: &Core, work: Work<'_>) -> Answer {
        // A batch may be large: the copy is made while others may queue.
        let writer = Arc::new(Writer {
            work: work.to_owned()?,
            answered: AtomicBool::new(false),
            outcome: Mutex::new(Outcome::Waiting),
            woken: Condvar::new(),
        });
        {
            let mut queue = self.queue.lock();
            queue.push(Arc::clone(&writer));
            self.lead.add_waiting();
        }
        if self.lead.begin() {
            // Nobody leads any more: this writer does, those in the queue, with itself among them.
            self.lead_groups(core, self.begin_group(), None);
        }
        self.follow(core, &writer)
    }

    /// Wait for the outcome, or for the lead.
    fn follow(&self, core: &Core, writer: &Arc<Writer>) -> Answer {
        writer.watch();
        {
            let mut outcome = writer.outcome.lock();
            while matches!(*outcome, Outcome::Waiting) {
                writer.woken.wait(&mut outcome);
            }
            if let Outcome::Done(result) = std::mem::replace(&mut *outcome, Outcome::Waiting) {
                return result;
            }
        }
        self.lead(core, writer.work.as_work())
    }

    /// Commit `own`, with whoever has queued by now, and then others: see [`CommitQueue::lead_groups`].
    #[inline]
    fn lead(&self, core: &Core, own: Work<'_>) -> Answer {
        let mut state = self.begin_group();
        // By reference: a copy would load with wide instructions what narrow ones have just stored, and wait until the
        // stores are done (a store forwarding that fails).
        let op = match &own {
            Work::One(op) if self.lead.waiting() == 0 => op,
            _ => return self.lead_groups(core, state, Some(own)).unwrap_or_else(unanswered),
        };
        state.followers = 0;
        let outcome = commit_contained(core, &mut state, |state| commit_lone(core, state, op));
        let answer = outcome.map(|()| state.position());
        let events = std::mem::take(&mut state.events);
        drop(state);
        if !self.lead.leave() {
            self.lead_groups(core, self.begin_group(), None);
        }
        core.emit_all(&events);
        answer
    }

    /// Take the commit lock and wait for about as many writers as were in the last group.
    #[inline]
    fn begin_group(&self) -> MutexGuard<'_, CommitState> {
        let state = self.state.lock();
        self.wait_for_followers(state.followers);
        state
    }

    /// Spin until `expected` writers have queued, but not for long.
    #[inline]
    fn wait_for_followers(&self, expected: usize) {
        for _ in 0..PATIENCE {
            if self.lead.waiting() >= expected {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Commit `own`, if there is any, and whoever has queued by now, then whoever has queued meanwhile, until nobody is
    /// left or enough was done for others. The answer to `own`.
    #[inline(never)]
    fn lead_groups<'a>(
        &'a self,
        core: &Core,
        mut state: MutexGuard<'a, CommitState>,
        mut own: Option<Work<'_>>,
    ) -> Option<Answer> {
        let mut answer = None;
        let mut events = Vec::new();
        let mut groups = 0;
        let next = loop {
            let followers = self.take_followers(own);
            state.followers = followers.len();
            answer = answer.or(commit_and_wake(core, &mut state, own.take(), &followers));
            events.append(&mut state.events);
            drop(state);
            groups += 1;
            match self.leave(groups < GROUPS_MAX) {
                Leaving::Stay => state = self.begin_group(),
                Leaving::Free => break None,
                Leaving::To(next) => break Some(next),
            }
        };
        // Nobody commits until that thread is scheduled, so the lead is handed over only after `GROUPS_MAX` groups.
        if let Some(next) = next {
            next.wake(Outcome::Lead);
        }
        core.emit_all(&events);
        answer
    }

    /// The queued writers that fit into this group; at least one if there is no `own`.
    fn take_followers(&self, own: Option<Work<'_>>) -> Vec<Arc<Writer>> {
        // A writer that queues from now on is found by `leave`, so a lone batch need not take the lock here.
        if self.lead.waiting() == 0 {
            return Vec::new();
        }
        let mut bytes = own.map_or(0, |own| own.bytes());
        let mut queue = self.queue.lock();
        let fits = queue
            .iter()
            .take_while(|writer| {
                bytes += writer.work.as_work().bytes();
                bytes <= GROUP_BYTES_MAX
            })
            .count();
        let least = usize::from(own.is_none()).min(queue.len());
        let followers: Vec<_> = queue.drain(..fits.max(least)).collect();
        self.lead.take_waiting(followers.len());
        followers
    }

    /// What the leader does now: it goes if nobody waits, and hands the lead over if somebody does and `patient` is false.
    fn leave(&self, patient: bool) -> Leaving {
        if self.lead.leave() {
            return Leaving::Free;
        }
        if patient {
            return Leaving::Stay;
        }
        let mut queue = self.queue.lock();
        let next = queue.remove(0);
        self.lead.take_waiting(1);
        Leaving::To(next)
    }
}

/// What a leader does after a group.
enum Leaving {
    /// Commit the next group.
    Stay,
    /// Go; nobody leads.
    Free,
    /// Go, and hand the lead to this writer.
    To(Arc<Writer>),
}

/// A writer in the queue.
pub(super) struct Writer {
    pub(super) work: OwnedWork,
    /// Set with the outcome; the writer polls it before it sleeps.
    answered: AtomicBool,
    outcome: Mutex<Outcome>,
    woken: Condvar,
}

impl Writer {
    /// Wait a while for the outcome without sleeping: spin, then yield.
    fn watch(&self) {
        for _ in 0..YIELDS {
            for _ in 0..SPINS {
                if self.answered.load(Ordering::Acquire) {
                    return;
                }
                std::hint::spin_loop();
            }
            give_way();
        }
    }

    pub(super) fn wake(&self, outcome: Outcome) {
        *self.outcome.lock() = outcome;
        self.answered.store(true, Ordering::Release);
        self.woken.notify_one();
    }
}

pub(super) enum Outcome {
    Waiting,
    /// The leader has left: this writer leads now.
    Lead,
    Done(Answer),
}
