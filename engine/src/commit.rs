//! The commit queue: the one way a write takes into the log and the memtable.
//!
//! Writers queue. Whoever finds that nobody leads does: it takes everything queued so far, gives each
//! commit its sequence numbers, writes their log records with one call (a long batch at the end with another), applies them to the memtable,
//! publishes the last number, and wakes the others with their outcomes. Syncs run outside the queue
//! ([`GroupSync`](crate::group_sync::GroupSync)). A commit becomes visible before it is durable; its caller hears of it only after it
//! has the durability it asked for.
//!
//! 1. A commit that fails before its log record is written has no effect and takes no number.
//! 2. If writing the log fails and the record is provably not there, the commit is `Aborted` and the
//!    queue goes on; otherwise it is `InDoubt` and the queue takes no more writes.
//! 3. A panic on the way is a failure like any other: the group is `InDoubt`, the queue takes no more writes.
//! 4. What is published is in the memtable; what is in the memtable is in the log (unless `NoLog`).
//!
//! Locks. `queue`, for a few instructions: a writer takes it to queue up, a leader to take the queued writers (holding the
//! commit lock) or to choose who leads next. `state`, the *commit lock*, is held for the length of one group: its write to
//! the log is under it, syncs of the log are not. What else is taken under it stands in `core`.

mod group;
mod lead;
mod queue;
mod work;

use esker_base::sync::atomic::Ordering;
use esker_base::{Error, OpCost, Result};

use crate::batch::Ops;
use crate::core::Core;
use crate::group_sync::LogPosition;
use crate::options::Durability;
pub(crate) use group::{CommitState, apply};
pub(crate) use queue::CommitQueue;
use work::OwnedWork;
pub(crate) use work::Work;

impl Core {
    /// Commit `ops` with at least the database's durability.
    pub(crate) fn commit(
        &self,
        ops: &Ops,
        durability: Option<Durability>,
        cost: &mut OpCost,
    ) -> Result<()> {
        if ops.count() == 0 {
            return self.health.check();
        }
        self.commit_work(Work::Batch(ops), durability, cost)
    }

    /// Commit `work` and wait for its durability.
    pub(crate) fn commit_work(
        &self,
        work: Work<'_>,
        durability: Option<Durability>,
        cost: &mut OpCost,
    ) -> Result<()> {
        let durability = self.effective_durability(durability)?;
        self.check_writable()?;
        if durability == Durability::Sync {
            // A system call, but a sync takes a thousand times as long.
            self.check_process()?;
        }
        self.admit(work.bytes() as u64)?;
        let checking = match work {
            Work::One(_) | Work::Batch(_) => None,
            Work::Transaction(_, reads) => {
                // First, since another attempt mends a conflict but brings no keyspace back.
                self.check_keyspaces(&work)?;
                let checking = self.commits.begin_check();
                // Validate here, outside the queue, so that the leader only checks what was committed since.
                reads.check(self)?;
                Some(checking)
            }
        };
        let position = self.commits.commit(self, work).map_err(|error| *error)?;
        drop(checking);
        cost.calls += 1;
        cost.tombstones_written += work.deletes();
        cost.keys_written += work.ops() - work.deletes();
        cost.bytes_written += work.user_bytes();
        if durability == Durability::Sync
            && let Some(position) = position
        {
            // The record is in the log and visible; if the sync fails its fate is open.
            self.wait_durable(position).map_err(|cause| Error::InDoubt { cause: Box::new(cause) })?;
        }
        self.breathe();
        Ok(())
    }

    /// Whether a keyspace was dropped since the database was opened.
    #[inline]
    pub(crate) fn any_keyspace_dropped(&self) -> bool {
        self.keyspace_drops.load(Ordering::Acquire) > 0
    }

    /// Err if an operation goes to a keyspace that was dropped. What counts is asked under the commit lock, which a drop holds:
    /// whoever has seen the drop sees nothing of a commit that comes after it.
    #[inline]
    fn check_keyspaces(&self, work: &Work<'_>) -> Result<()> {
        if self.any_keyspace_dropped() { self.look_for_keyspaces(work) } else { Ok(()) }
    }

    /// [`Core::check_keyspaces`] once any was dropped.
    #[cold]
    fn look_for_keyspaces(&self, work: &Work<'_>) -> Result<()> {
        let current = self.current.load();
        let mut gone = None;
        work.for_each(|op| {
            if current.version.keyspace(op.keyspace).is_none() {
                gone = Some(op.keyspace);
            }
        });
        match gone {
            None => Ok(()),
            Some(id) => Err(Error::KeyspaceDropped { id }),
        }
    }

    /// The stronger of the database's durability and what a batch asked for.
    fn effective_durability(&self, asked: Option<Durability>) -> Result<Durability> {
        let own = self.options.durability;
        let Some(asked) = asked else { return Ok(own) };
        let quicker = match (asked, own) {
            (Durability::Interval(asked), Durability::Interval(own)) => asked < own,
            _ => false,
        };
        if asked.strength() <= own.strength() && !quicker {
            return Ok(own);
        }
        if own == Durability::NoLog {
            return Err(Error::invalid(
                "a NoLog database has no log to make a batch durable with; call persist() after the commit",
            ));
        }
        // The timer of an interval is the database's: where it has none, or a slower one, a sync now keeps
        // what the interval promises.
        Ok(Durability::Sync)
    }
}

/// The outcome of one commit: where its log record ends, `None` without a log. Boxed error: the result is moved several times
/// and should stay small.
type Answer = Result<Option<LogPosition>, Box<Error>>;
