//! The traits between jobs and whatever runs them; [`scheduler`](super) has the rules.

use std::time::Duration;

use esker_base::event_count::EventCount;

/// What kind of work a job is; each lane has threads of its own so that a flush never queues behind a
/// compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Writing memtables to tables, for which writers wait. Other work that runs here ends as soon as there
    /// is a flush.
    Flush,
    /// Merging tables, and other work that takes milliseconds of a processor for each piece: bringing in
    /// memory for memtables.
    Compaction,
    /// Removing files. Each takes milliseconds, in which the device has to be told, but hardly any time of
    /// a processor.
    Removal,
    /// Timed syncs and preparing the log's next part: short work that writers may come to wait for. In turns with it, by short
    /// steps: bringing new tables and memory into the cache, walking over rows deleted together.
    Upkeep,
}

impl Lane {
    /// All lanes, in the order in which they are declared.
    pub const ALL: [Lane; 4] = [Lane::Flush, Lane::Compaction, Lane::Removal, Lane::Upkeep];

    /// How many jobs of this lane run at once where `compactions` of them do in the lane of compactions.
    pub(super) fn width(self, compactions: usize) -> usize {
        match self {
            Lane::Compaction => compactions,
            Lane::Flush | Lane::Removal | Lane::Upkeep => 1,
        }
    }
}

/// A lane's place in [`Lane::ALL`] is its number.
const _: () = {
    let mut place = 0;
    while place < Lane::ALL.len() {
        assert!(Lane::ALL[place] as usize == place);
        place += 1;
    }
};

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// There is more to do, but not before this time has passed.
    After(Duration),
    /// The job is finished.
    Done,
}

/// A resumable piece of background work.
pub trait Job: Send {
    /// Its name, for events and traces.
    fn name(&self) -> &'static str;
    /// Do a bounded piece of it.
    fn step(&mut self) -> Progress;
    /// `step` panicked with `message`; the job is dropped after this call.
    fn panicked(&mut self, message: &str);
}

/// Runs jobs.
pub trait Scheduler: Send + Sync {
    /// Take over `job`. After [`Scheduler::stop`] the job is dropped without a step.
    fn spawn(&self, lane: Lane, job: Box<dyn Job>);
    /// A foreground call passes here, holding nothing: step mode may run steps now.
    fn breathe(&self);
    /// Wait until `event` is notified past the epoch `seen`, or until `timeout` has passed; whether it
    /// was notified. Step mode runs steps meanwhile.
    fn wait(&self, event: &EventCount, seen: u64, timeout: Option<Duration>) -> bool;
    /// Finish the steps under way, drop all jobs, and return when no job runs any more but those whose
    /// steps have called this. Idempotent.
    fn stop(&self);
    /// Whether the caller is a step of `lane`: then it must not wait for that lane, which would wait for
    /// it. Step mode cannot tell threads apart: there the answer is whether such a step is under way.
    fn is_within(&self, lane: Lane) -> bool;
    /// How many jobs of `lane` may make progress at the same time.
    fn width(&self, lane: Lane) -> usize;
    /// How many threads, callers' and those of lanes, can run at the same moment.
    fn processors(&self) -> usize;
    /// Whether callers and lanes have left a processor unused, half of the time at least, since this was last asked:
    /// what nobody waits for may have it.
    fn spared_a_processor(&self) -> bool;
    /// The calling thread writes; one that goes on without a pause calls this every few milliseconds. If
    /// processors are few, the lanes' threads leave it its own, unless other callers want processors too or
    /// wait for the lanes.
    fn note_writing(&self);
}
