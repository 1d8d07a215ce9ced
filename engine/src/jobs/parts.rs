//! The parts of a compaction or a flush under way, for several threads to go on with.
//!
//! Nobody owns a part. Whoever has a moment takes the run of one that nobody is at, does a step of it and puts
//! it back: the job itself from the front, helpers from the back. So a helper may stay away after any
//! step, because a flush is due, and who is left goes on with what it was at. Invariants:
//!
//! 1. Only the job itself installs parts or gives them up, and it does so when nobody is at any.
//! 2. Helpers leave the last unfinished part alone. So the job waits for one step of a helper at most.
//! 3. Of a part whose step failed, or panicked, the error is left, which the job finds.
//!
//! Lock: `places`, held to exchange what lies in one of them, never across a step.

use esker_base::event_count::EventCount;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{Cursor, Error, Result};
use esker_compaction::MergeRun;
use esker_vfs::scheduler::Scheduler;

/// Bytes a step merges.
const STEP_BYTES: u64 = 256 << 10;

/// See the module.
pub(crate) struct Parts<C: Cursor> {
    /// Whose parts they are, for messages.
    job: &'static str,
    places: Mutex<Vec<Place<C>>>,
    /// How many steps have begun.
    steps: AtomicU64,
    /// Opened when a part was put back.
    returned: EventCount,
}

/// What helpers see of parts.
pub(super) trait Shared: Send + Sync {
    /// Whether a helper would find something to do.
    fn want_help(&self) -> bool;
    /// A helper does a step, if it finds one to do.
    fn help(&self);
}

/// Where a part is.
enum Place<C: Cursor> {
    /// Here, with more to do.
    Waiting(Box<MergeRun<C>>),
    /// Somebody is at it.
    Taken,
    Done(Box<MergeRun<C>>),
    Failed(Error),
    /// Nothing is left of it.
    Gone,
}

/// What the job itself finds to do.
enum Next<'a, C: Cursor> {
    Step(Taken<'a, C>),
    /// Somebody else is at every part that is not done.
    Wait,
    Done,
}

impl<C: Cursor> Parts<C> {
    /// The parts that these runs of `job` merge, ascending.
    pub(super) fn new(job: &'static str, runs: Vec<MergeRun<C>>) -> Self {
        let places = runs.into_iter().map(|run| Place::Waiting(Box::new(run))).collect();
        Parts { job, places: Mutex::new(places), steps: AtomicU64::new(0), returned: EventCount::new() }
    }

    /// The job itself does a step; whether all parts are done.
    pub(super) fn step(&self, scheduler: &dyn Scheduler) -> Result<bool> {
        loop {
            let seen = self.returned.epoch();
            match self.next()? {
                Next::Step(taken) => {
                    taken.step();
                    return Ok(false);
                }
                Next::Wait => {
                    scheduler.wait(&self.returned, seen, None);
                }
                Next::Done => return Ok(true),
            }
        }
    }

    fn next(&self) -> Result<Next<'_, C>> {
        let mut places = self.places.lock();
        if let Some(error) = places.iter().find_map(Place::error) {
            return Err(error.clone());
        }
        if let Some(at) = places.iter().position(Place::is_waiting) {
            return Ok(Next::Step(self.take(&mut places, at)));
        }
        let taken = places.iter().any(|place| matches!(place, Place::Taken));
        Ok(if taken { Next::Wait } else { Next::Done })
    }

    fn take(&self, places: &mut [Place<C>], at: usize) -> Taken<'_, C> {
        let Place::Waiting(run) = std::mem::replace(&mut places[at], Place::Taken) else {
            unreachable!("only a part that waits is taken")
        };
        Taken { run, back: Back { parts: self, at, place: None } }
    }

    /// About how many bytes were read so far, each once for it to be merged and once for the proof of what was written.
    pub(super) fn bytes_passed(&self) -> u64 {
        self.steps.load(Ordering::Relaxed).saturating_mul(STEP_BYTES)
    }

    /// The runs, which are done.
    pub(super) fn finish(&self) -> Vec<MergeRun<C>> {
        let places = std::mem::take(&mut *self.places.lock());
        let runs = places.into_iter().filter_map(|place| match place {
            Place::Done(run) => Some(*run),
            _ => None,
        });
        runs.collect()
    }

    /// Drop what is left, and with it what was written, when nobody is at it any more.
    pub(super) fn abandon(&self, scheduler: &dyn Scheduler) {
        loop {
            let seen = self.returned.epoch();
            let mut places = self.places.lock();
            let here = places.iter_mut().filter(|place| !matches!(place, Place::Taken));
            let dropped: Vec<Place<C>> = here.map(|place| std::mem::replace(place, Place::Gone)).collect();
            let all = dropped.len() == places.len();
            drop(places);
            drop(dropped);
            if all {
                return;
            }
            scheduler.wait(&self.returned, seen, None);
        }
    }
}

impl<C: Cursor + Send> Shared for Parts<C> {
    fn want_help(&self) -> bool {
        wants_help(&self.places.lock())
    }

    fn help(&self) {
        let taken = {
            let mut places = self.places.lock();
            let last = places.iter().rposition(Place::is_waiting);
            last.filter(|_| wants_help(&places)).map(|at| self.take(&mut places, at))
        };
        if let Some(taken) = taken {
            taken.step();
        }
    }
}

/// One part waits, and another is left for the job itself.
fn wants_help<C: Cursor>(places: &[Place<C>]) -> bool {
    let unfinished = places.iter().filter(|place| matches!(place, Place::Waiting(_) | Place::Taken));
    unfinished.count() > 1
        && places.iter().any(Place::is_waiting)
        && places.iter().all(|place| place.error().is_none())
}

impl<C: Cursor> Place<C> {
    fn is_waiting(&self) -> bool {
        matches!(self, Place::Waiting(_))
    }

    fn error(&self) -> Option<&Error> {
        match self {
            Place::Failed(error) => Some(error),
            _ => None,
        }
    }
}

/// A part that was taken from its place.
struct Taken<'a, C: Cursor> {
    run: Box<MergeRun<C>>,
    back: Back<'a, C>,
}

impl<C: Cursor> Taken<'_, C> {
    /// Do a step of it and put it back.
    fn step(self) {
        let Taken { mut run, mut back } = self;
        back.parts.steps.fetch_add(1, Ordering::Relaxed);
        back.place = Some(match run.step(STEP_BYTES) {
            Ok(true) => Place::Done(run),
            Ok(false) => Place::Waiting(run),
            Err(error) => {
                // Removes what it wrote.
                drop(run);
                Place::Failed(error)
            }
        });
    }
}

/// Puts a part back when dropped, in an unwinding too.
struct Back<'a, C: Cursor> {
    parts: &'a Parts<C>,
    at: usize,
    /// What there is to put back; nothing if the step panicked.
    place: Option<Place<C>>,
}

impl<C: Cursor> Drop for Back<'_, C> {
    fn drop(&mut self) {
        // Such a panic is never tried again, and its own job tells of it.
        let lost = || {
            let message = "a step of another part panicked".to_owned();
            let cause = Error::CallbackPanicked { callback: self.parts.job, message };
            Place::Failed(Error::Poisoned { cause: Box::new(cause) })
        };
        let place = self.place.take().unwrap_or_else(lost);
        self.parts.places.lock()[self.at] = place;
        self.parts.returned.notify_all();
    }
}
