//! What running jobs use, so that no two jobs get in each other's way.
//!
//! A job occupies its input tables and, in every level that its data passes on the way down, the key
//! range of all its inputs. Two jobs conflict if they share a table, or overlap in a level that both
//! pass. That keeps, for any key, newer data above older: nothing can be put below, or beside, a place
//! where a running job is about to put something. (A level-0 job passes all levels down to the base
//! level: if the base level moves while it runs, the next job cannot slip under its outputs.)

use std::collections::HashSet;
use std::ops::RangeInclusive;

use esker_base::table_meta::KeyBounds;
use esker_base::{FileNumber, KeyspaceId};

use crate::plan::Plan;

/// A running job's place in [`Busy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(u64);

/// The running jobs. Whoever starts jobs keeps this, under a lock of its own.
///
/// ```
/// use esker_compaction::Busy;
/// let busy = Busy::default();
/// assert_eq!(busy.jobs(), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Busy {
    jobs: Vec<Job>,
    tables: HashSet<FileNumber>,
    next: u64,
}

#[derive(Clone, Debug)]
struct Job {
    id: JobId,
    keyspace: KeyspaceId,
    tables: Vec<FileNumber>,
    levels: RangeInclusive<u8>,
    bounds: KeyBounds,
}

impl Busy {
    /// How many jobs run.
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Whether a running job reads or moves this table.
    #[inline]
    pub fn uses(&self, table: FileNumber) -> bool {
        self.tables.contains(&table)
    }

    /// Whether `plan` can run beside the running jobs.
    pub fn allows(&self, plan: &Plan) -> bool {
        !plan.tables().any(|(_, table)| self.uses(table.number()))
            && self.leaves_way(plan.keyspace, plan.from_level(), plan.output_level, &plan.bounds)
    }

    /// Whether data within `bounds` can go down from level `from` to level `to` of `keyspace`, or be written anew there if
    /// they are the same, with no running job's in its way.
    pub fn leaves_way(&self, keyspace: KeyspaceId, from: u8, to: u8, bounds: &KeyBounds) -> bool {
        let levels = passed(from, to);
        let apart = |job: &Job| {
            job.keyspace != keyspace
                || job.levels.start() > levels.end()
                || levels.start() > job.levels.end()
                || !job.bounds.overlaps(bounds)
        };
        self.jobs.iter().all(apart)
    }

    /// `plan` is being carried out from now on. Panics if that is not allowed.
    pub fn start(&mut self, plan: &Plan) -> JobId {
        assert!(self.allows(plan), "two compactions would overlap: {plan}");
        let id = JobId(self.next);
        self.next += 1;
        let tables: Vec<FileNumber> = plan.tables().map(|(_, table)| table.number()).collect();
        self.tables.extend(&tables);
        let (keyspace, bounds) = (plan.keyspace, plan.bounds.clone());
        let levels = passed(plan.from_level(), plan.output_level);
        self.jobs.push(Job { id, keyspace, tables, levels, bounds });
        id
    }

    /// The job has ended: its outputs are installed, or it failed and left nothing.
    pub fn end(&mut self, id: JobId) {
        if let Some(at) = self.jobs.iter().position(|job| job.id == id) {
            for number in self.jobs.swap_remove(at).tables {
                self.tables.remove(&number);
            }
        }
    }
}

/// The levels that data enters on its way from one level to another.
fn passed(from: u8, to: u8) -> RangeInclusive<u8> {
    (from + 1).min(to)..=to
}

#[cfg(test)]
mod tests;
