//! Background work: which jobs run, and what happens when one fails.
//!
//! Jobs are resumable steps ([`esker_vfs::scheduler`]): the same code runs on threads and in step mode.
//! By lane:
//!
//! - *flush*: one flush at a time ([`flush`]);
//! - *compaction*: as many compactions as the lane is wide ([`compact`]), and in turns with them what brings in memory for memtables
//!   ([`SpareChunks`](crate::memtable::SpareChunks));
//! - *removal*: what removes files ([`garbage`]), on a thread of its own;
//! - *upkeep*: the upkeep job ([`upkeep`]), and in turns with it what makes the log's next part ready ([`preallocate`]), opens the
//!   tables that were there before ([`first_look`]), caches new ones ([`warm`]) and walks over deleted rows ([`sweep`]).
//!
//! Threads without work of their own help with parts of compactions and flushes ([`subcompaction`]). A failed job is contained:
//! its output is removed, its inputs stay, reads go on. A full disk is tried again for as long as it
//! takes; any other error of a call, and a panic of a merge operator, a few times in a row; what does
//! not pass by then stops writes, and damage does at once. What nobody needs is left alone: a merge that only reads
//! have asked for, if it fails, until level 0 is another; one that is to clean up, if the disk is full, until the tree is another
//! ([`shortage`]).
//!
//! Why a compaction that cannot be done stops writes, instead of being left alone: what lies above it could
//! not be merged either, and writers would wait for ever, later, at level 0. And a panic of the engine's
//! own, which is none of an operator's, is never tried again: it may have come in the middle of a commit of
//! the manifest.

mod compact;
mod first_look;
mod flush;
mod garbage;
mod parts;
mod preallocate;
mod shortage;
mod subcompaction;
mod sweep;
#[cfg(test)]
mod tests;
mod upkeep;
mod warm;

pub(crate) use compact::{Carrying, load};
pub(crate) use garbage::{collect_garbage_now, remove_files};

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use esker_base::event::Event;
use esker_base::filename::FileName;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_base::sync::thread::{self, ThreadId};
use esker_base::{Error, Result};
use esker_compaction::Busy;
use esker_vfs::scheduler::Lane;
use esker_wal::PreallocateTask;

use crate::core::Core;
use crate::deletes::DeletedRange;
use crate::health::closed;

/// How often a job fails for other reasons than what is scarce, a disk's space or descriptors, before writes stop.
const ATTEMPTS_MAX: u32 = 5;
/// Half the pause before the first retry; the pause doubles up to [`RETRY_PAUSE_MAX`].
const RETRY_PAUSE: Duration = Duration::from_millis(20);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Which jobs run.
#[derive(Default)]
pub(crate) struct Jobs {
    /// The database, for jobs to find it by; they end when it is gone.
    core: OnceLock<Weak<Core>>,
    state: Mutex<State>,
    /// Held while work for one more compaction is looked for: two that look must not both take the lane's last place.
    looking: Mutex<()>,
    /// Tables and ranges that running compactions use.
    busy: Mutex<Busy>,
    /// What full disks have told. Taken behind `busy`, with nothing behind it.
    shortage: Mutex<shortage::Shortage>,
    /// How many callers wait until nothing is left to compact.
    settling: AtomicUsize,
    /// How many wait for a flush.
    flush_waiters: AtomicUsize,
}

#[derive(Default)]
struct State {
    flushing: bool,
    compacting: usize,
    helping: subcompaction::Helping,
    waste: garbage::Waste,
    /// How many times a flush has failed, and why the last one did, if none has succeeded since.
    flush_failures: (u64, Option<Error>),
    closing: bool,
    by_hand: Vec<Hand>,
}

/// A thread that compacts by hand.
struct Hand {
    thread: ThreadId,
    doing: Doing,
}

/// What a thread that compacts by hand is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It compacts.
    Work,
    /// It waits, from within a callback, until nothing is left to compact: until the database is closed, if that comes first.
    Settle,
    /// It closes the database, from within a callback.
    Close,
}

impl State {
    /// Whether each thread that works by hand, but for this one, is doing something that `is_idle`.
    fn other_hands_are(&self, is_idle: impl Fn(Doing) -> bool) -> bool {
        let mine = thread::current().id();
        self.by_hand.iter().all(|hand| hand.thread == mine || is_idle(hand.doing))
    }

    /// What the calling thread is doing, if it works by hand.
    fn set_doing(&mut self, doing: Doing) {
        let mine = thread::current().id();
        self.by_hand.iter_mut().filter(|hand| hand.thread == mine).for_each(|hand| hand.doing = doing);
    }
}

/// A thread compacts by hand until this is dropped; the database does not close meanwhile.
pub(crate) struct ByHand<'a> {
    core: &'a Core,
}

impl Drop for ByHand<'_> {
    fn drop(&mut self) {
        let mine = thread::current().id();
        {
            let mut state = self.core.jobs.state.lock();
            if let Some(place) = state.by_hand.iter().position(|hand| hand.thread == mine) {
                state.by_hand.remove(place);
            }
        }
        self.core.progress.notify_all();
    }
}

impl Core {
    /// Work of a job is about to be done on the caller's thread.
    pub(crate) fn by_hand(&self) -> Result<ByHand<'_>> {
        let mut state = self.jobs.state.lock();
        if state.closing {
            return Err(closed());
        }
        state.by_hand.push(Hand { thread: thread::current().id(), doing: Doing::Work });
        Ok(ByHand { core: self })
    }

    /// Return when nobody works by hand any more, but perhaps threads that close from within a callback, as this one may: two that
    /// close would wait for each other. Whoever is at it hears at its next step that the database is closed.
    pub(crate) fn wait_for_hands(&self) {
        let _closes = self.hand_is(Doing::Close);
        loop {
            let seen = self.progress.epoch();
            if self.jobs.state.lock().other_hands_are(|doing| doing == Doing::Close) {
                return;
            }
            self.env.scheduler.wait(&self.progress, seen, None);
        }
    }

    /// From now until the guard is dropped, this is what the calling thread is doing, if it works by hand.
    pub(crate) fn hand_is(&self, doing: Doing) -> HandIs<'_> {
        self.jobs.state.lock().set_doing(doing);
        self.progress.notify_all();
        HandIs(&self.jobs.state)
    }
}

/// See [`Core::hand_is`].
pub(crate) struct HandIs<'a>(&'a Mutex<State>);

impl Drop for HandIs<'_> {
    fn drop(&mut self) {
        self.0.lock().set_doing(Doing::Work);
    }
}

/// A caller waits for background work until this is dropped.
pub(crate) struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(callers: &'a AtomicUsize) -> Self {
        callers.fetch_add(1, Ordering::Relaxed);
        Waiting(callers)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Jobs {
    /// Jobs may start from now on.
    pub(crate) fn attach(&self, core: &Arc<Core>) {
        let first = self.core.set(Arc::downgrade(core)).is_ok();
        assert!(first, "jobs are attached to one database once");
    }

    fn core(&self) -> Option<Arc<Core>> {
        self.core.get()?.upgrade()
    }

    /// Start a flush unless one runs: it goes on until nothing is sealed.
    pub(crate) fn start_flush(&self) {
        let Some(core) = self.core() else { return };
        let flushing = {
            let mut state = self.state.lock();
            if state.closing {
                return;
            }
            std::mem::replace(&mut state.flushing, true)
        };
        if flushing {
            // Somebody waits for the flush under way, now that there is another to come.
            self.start_helpers();
            return;
        }
        core.env.scheduler.spawn(Lane::Flush, Box::new(flush::Flush::new(&core)));
    }

    /// Start as many compactions as there may be and look for work.
    pub(crate) fn start_compactions(&self) {
        let Some(core) = self.core() else { return };
        loop {
            let job = {
                let _looking = self.looking.lock();
                {
                    let state = self.state.lock();
                    if state.closing || state.compacting >= core.env.scheduler.width(Lane::Compaction) {
                        return;
                    }
                }
                // Picking is pure and cheap; only a job that has work is spawned.
                let Some(job) = compact::Compaction::pick(&core) else { return };
                self.state.lock().compacting += 1;
                job
            };
            core.env.scheduler.spawn(Lane::Compaction, Box::new(job));
        }
    }

    /// Start the upkeep job.
    pub(crate) fn start_upkeep(&self) {
        let Some(core) = self.core() else { return };
        if let Some(job) = upkeep::Upkeep::new(&core) {
            core.env.scheduler.spawn(Lane::Upkeep, Box::new(job));
        }
    }

    /// Have the next part of the log made ready. Called by the leader of the commit queue.
    pub(crate) fn preallocate_log(&self, task: PreallocateTask) {
        let Some(core) = self.core() else { return };
        core.env.scheduler.spawn(Lane::Upkeep, Box::new(preallocate::Preallocate::new(task)));
    }

    /// Have a range of deleted rows walked over. Called by the leader of the commit queue.
    pub(crate) fn sweep(&self, deleted: DeletedRange) {
        let Some(core) = self.core() else { return };
        core.env.scheduler.spawn(Lane::Upkeep, Box::new(sweep::Sweep::new(&core, deleted)));
    }

    /// No job starts from now on; nobody need wait for one.
    pub(crate) fn close(&self) {
        self.state.lock().closing = true;
    }

    /// Err once jobs are closed: for whoever waits for one. Also a listener may, which the scheduler's stop waits for.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.state.lock().closing { Err(closed()) } else { Ok(()) }
    }

    /// From now until the guard is dropped, level 0 is compacted as if no flush were to come.
    pub(crate) fn settle(&self) -> Waiting<'_> {
        Waiting::among(&self.settling)
    }

    /// From now until the guard is dropped, idle threads share in flushes.
    pub(crate) fn wait_for_flush(&self) -> Waiting<'_> {
        Waiting::among(&self.flush_waiters)
    }

    fn flushes_are_awaited(&self) -> bool {
        self.flush_waiters.load(Ordering::Relaxed) > 0
    }

    fn settling(&self) -> bool {
        self.settling.load(Ordering::Relaxed) > 0
    }

    /// Whether no work is under way, in the background or by another thread's hand, or could start at once.
    pub(crate) fn idle(&self) -> bool {
        let state = self.state.lock();
        !state.flushing
            && state.compacting == 0
            && state.waste.is_gone()
            && state.other_hands_are(|doing| doing != Doing::Work)
    }

    /// Whether the calling thread works by hand.
    pub(crate) fn works_by_hand(&self) -> bool {
        let mine = thread::current().id();
        self.state.lock().by_hand.iter().any(|hand| hand.thread == mine)
    }

    /// How many times a flush has failed, and why the last one did, if none has succeeded since.
    pub(crate) fn flush_failures(&self) -> (u64, Option<Error>) {
        self.state.lock().flush_failures.clone()
    }

    pub(crate) fn busy(&self) -> esker_base::sync::MutexGuard<'_, Busy> {
        self.busy.lock()
    }

    /// The flush found nothing sealed: it ends, unless something was sealed just now.
    fn flush_ends(&self, core: &Core) -> bool {
        let ends = {
            let mut state = self.state.lock();
            let ends = core.current.load_full().sealed.is_empty() || state.closing;
            state.flushing = !ends;
            ends
        };
        // Whoever waits for idleness looks again: the last flush was reported while this job still ran.
        core.progress.notify_all();
        if ends {
            self.start_helpers();
        }
        ends
    }

    fn flush_failed(&self, error: Error, ends: bool) {
        let mut state = self.state.lock();
        state.flush_failures = (state.flush_failures.0 + 1, Some(error));
        state.flushing &= !ends;
    }

    fn flush_succeeded(&self) {
        self.state.lock().flush_failures.1 = None;
    }

    /// A compaction ends.
    fn compaction_ends(&self) {
        self.state.lock().compacting -= 1;
    }
}

/// How often a job has failed since it last succeeded.
#[derive(Default)]
struct Failures {
    /// In all: with each the pause before the next try grows.
    count: u32,
    /// Those that somebody else has nothing to do with. A disk that was full for long must not use up the tries that another
    /// error has.
    own: u32,
}

/// How a job goes on after a failure.
enum AfterFailure {
    /// Try again after this pause.
    Retry(Duration),
    /// Writes have been stopped.
    GiveUp,
}

/// Tell the listeners of a failure of `job`, and count it.
fn tell_failure(core: &Core, job: &'static str, error: &Error, will_retry: bool) {
    core.emit(&Event::JobFailed { job, error: error.clone(), will_retry });
    core.metrics.count_job_failure();
}

/// Whether the manifest, or all of the database, is in a state after which no commit is taken.
pub(crate) fn stops_writes(error: &Error) -> bool {
    matches!(error, Error::InDoubt { .. } | Error::Poisoned { .. })
}

/// Decide about another failure of `job`, tell the listeners, and stop writes if it will not pass.
fn after_failure(core: &Core, job: &'static str, error: &Error, failures: &mut Failures) -> AfterFailure {
    // Also where a full disk was the cause: no commit is taken after one in doubt.
    let stopped = stops_writes(error);
    // What somebody else uses up somebody else gives back: a disk's space, a process's descriptors.
    let scarce = error.is_no_space() || error.is_no_descriptors();
    failures.count = failures.count.saturating_add(1);
    failures.own += u32::from(!scarce);
    let passing = scarce || (!error.is_corruption() && failures.own < ATTEMPTS_MAX);
    let will_retry = passing && !stopped;
    tell_failure(core, job, error, will_retry);
    if error.is_no_descriptors() {
        core.give_up_descriptors();
    }
    if scarce {
        remove_files(core, core.recycled_log.give_up().map(FileName::Log));
    }
    if !will_retry {
        core.stop_writes(error);
        return AfterFailure::GiveUp;
    }
    core.progress.notify_all();
    let doubled = RETRY_PAUSE.saturating_mul(1 << failures.count.min(10));
    AfterFailure::Retry(doubled.min(RETRY_PAUSE_MAX))
}
