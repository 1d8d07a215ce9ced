//! Background work without threads: whoever calls the engine runs the steps, picked by seed.
//!
//! A run is a function of the seed and of the calls made: the same calls with the same seed pick the
//! same steps in the same order, which [`Steps::trace_hash`] shows. Time is a [`SimClock`] that only
//! moves here (a little with each step and breath, and to the next timer when nothing else can run)
//! and where a test moves it.
//!
//! Invariants:
//! 1. As many jobs of a lane as [`Threads`](super::threads::Threads) would run at once, and no more,
//!    stand inside a step at a time. Only one step is under way, except that a step that waits lets
//!    other jobs' steps run meanwhile.
//! 2. [`Steps::breathe`](Scheduler::breathe) inside a step does nothing: steps do not pile up.
//! 3. A wait that nothing can end panics and says who waits and which jobs there are; threads would
//!    hang there for ever.
//!
//! Threads: made for one. Calls from several are safe, but then the order is no function of the seed,
//! and the deadlock check may accuse a wait that another thread was about to end.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use esker_base::event_count::EventCount;
use esker_base::sync::Mutex;

use super::contain::{discard, step};
use super::{Job, Lane, Progress, Scheduler};
use crate::clock::{Clock, SimClock};
use crate::trace::TraceHash;

/// Simulated time that one step takes.
pub const STEP_TIME: Duration = Duration::from_micros(10);
/// Simulated time that passes at each breath of a foreground call.
pub const BREATH_TIME: Duration = Duration::from_micros(1);

/// The step-mode scheduler.
pub struct Steps {
    clock: Arc<SimClock>,
    compaction_width: usize,
    state: Mutex<State>,
}

/// A job that step mode has taken over, as [`Steps::jobs`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState {
    /// The lane it runs in.
    pub lane: Lane,
    /// Its name.
    pub name: &'static str,
    /// The moment before which it does not run, if it asked for one.
    pub due: Option<Duration>,
    /// Whether a step of it is under way (it waits for another job).
    pub stepping: bool,
}

struct State {
    random: fastrand::Rng,
    /// One breath in this many runs steps ...
    breath_odds: u32,
    /// ... and then up to this many. Both are drawn from the seed, so that seeds differ in how far
    /// background work lags behind.
    breath_steps: u32,
    /// In the order of their arrival.
    slots: Vec<Slot>,
    arrivals: u64,
    stopped: bool,
    steps: u64,
    breaths: u64,
    trace: TraceHash,
    /// What the deadlock check said; the panic goes through every step on the stack.
    deadlock: Option<String>,
}

struct Slot {
    number: u64,
    lane: Lane,
    name: &'static str,
    due: Option<Duration>,
    /// `None` while a step of it is under way.
    job: Option<Box<dyn Job>>,
}

impl Steps {
    /// A scheduler whose picks follow from `seed`, with a clock of its own at zero and two
    /// compactions at a time.
    pub fn new(seed: u64) -> Self {
        Self::with_width(seed, 2)
    }

    /// As [`Steps::new`], with `compaction_width` (at least 1) compactions at a time.
    pub fn with_width(seed: u64, compaction_width: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let breath_odds = [1, 3, 10, 40][random.usize(0..4)];
        let breath_steps = [1, 3, 10][random.usize(0..3)];
        Steps {
            clock: Arc::new(SimClock::new()),
            compaction_width: compaction_width.max(1),
            state: Mutex::new(State {
                random,
                breath_odds,
                breath_steps,
                slots: Vec::new(),
                arrivals: 0,
                stopped: false,
                steps: 0,
                breaths: 0,
                trace: TraceHash::default(),
                deadlock: None,
            }),
        }
    }

    /// The clock that this scheduler moves.
    pub fn clock(&self) -> Arc<SimClock> {
        Arc::clone(&self.clock)
    }

    /// How many steps have run.
    pub fn step_count(&self) -> u64 {
        self.state.lock().steps
    }

    /// A hash over the steps run so far: which jobs, after how many foreground breaths, with which
    /// outcome.
    pub fn trace_hash(&self) -> u64 {
        self.state.lock().trace.value()
    }

    /// The jobs at hand, in the order of their arrival.
    pub fn jobs(&self) -> Vec<JobState> {
        self.state.lock().slots.iter().map(Slot::show).collect()
    }

    /// Run one step of a job picked by seed, and say which; `None` if none can run now.
    pub fn step(&self) -> Option<&'static str> {
        self.step_among(|_| true)
    }

    /// Run one step of a job of `lane`, and say which; `None` if none can run now.
    pub fn step_lane(&self, lane: Lane) -> Option<&'static str> {
        self.step_among(|slot| slot.lane == lane)
    }

    /// Run steps until every job is finished or waits for its moment; how many that took.
    pub fn settle(&self) -> u64 {
        let before = self.step_count();
        while self.step().is_some() {}
        self.step_count() - before
    }

    fn step_among(&self, wanted: impl Fn(&Slot) -> bool) -> Option<&'static str> {
        let mut state = self.state.lock();
        let now = self.clock.monotonic();
        let runnable: Vec<usize> = (0..state.slots.len())
            .filter(|&index| {
                let slot = &state.slots[index];
                wanted(slot)
                    && slot.job.is_some()
                    && slot.due.is_none_or(|due| due <= now)
                    && state.stepping(slot.lane) < self.width(slot.lane)
            })
            .collect();
        if runnable.is_empty() {
            return None;
        }
        let pick = state.random.usize(0..runnable.len());
        let slot = &mut state.slots[runnable[pick]];
        let (number, name) = (slot.number, slot.name);
        let mut job = slot.job.take()?;
        state.steps += 1;
        let breaths = state.breaths;
        state.trace.number(breaths);
        state.trace.number(number);
        state.trace.bytes(name.as_bytes());
        drop(state);

        self.clock.advance(STEP_TIME);
        let progress = step(&mut *job);
        self.after_step(number, job, progress);
        Some(name)
    }

    /// Put the job back, or drop it if it is finished.
    fn after_step(&self, number: u64, job: Box<dyn Job>, progress: Progress) {
        let mut state = self.state.lock();
        let index = state.slots.iter().position(|slot| slot.number == number);
        let due = match progress {
            Progress::After(pause) => Some(self.clock.monotonic().saturating_add(pause)),
            Progress::More | Progress::Done => None,
        };
        state.trace.number(match progress {
            Progress::More => 1,
            Progress::After(_) => 2,
            Progress::Done => 3,
        });
        let mut finished = Some(job);
        if let Some(index) = index {
            if progress == Progress::Done || state.stopped {
                state.slots.remove(index);
            } else {
                let slot = &mut state.slots[index];
                slot.due = due;
                slot.job = finished.take();
            }
        }
        let deadlock = state.deadlock.clone();
        drop(state);
        if let Some(job) = finished {
            discard(job);
        }
        // The step's panic was caught like any other; this one is about the run, not about the job.
        if let Some(message) = deadlock {
            resume_unwind(Box::new(message));
        }
    }

    /// Nothing can run now: move the clock to the next timer if it comes before `deadline`.
    fn skip_to_timer(&self, deadline: Option<Duration>) -> bool {
        let state = self.state.lock();
        let next = state
            .slots
            .iter()
            .filter(|slot| slot.job.is_some() && state.stepping(slot.lane) < self.width(slot.lane))
            .filter_map(|slot| slot.due)
            .min();
        drop(state);
        match next {
            Some(due) if deadline.is_none_or(|deadline| due <= deadline) => {
                self.clock.advance_to(due);
                true
            }
            _ => false,
        }
    }

    /// Nothing can ever end this wait.
    fn deadlock(&self) -> ! {
        let jobs = self.jobs();
        let within: Vec<&str> = jobs.iter().filter(|job| job.stepping).map(|job| job.name).collect();
        let waiter = match within.last() {
            Some(job) => format!("a step of {job:?} waits"),
            None => "a foreground call waits".to_owned(),
        };
        let message = format!(
            "deadlock after {} steps: {waiter} without a timeout, and no job can make progress; jobs: {jobs:?}",
            self.step_count()
        );
        self.state.lock().deadlock = Some(message.clone());
        panic!("{message}");
    }
}

impl State {
    /// How many jobs of `lane` stand inside a step.
    fn stepping(&self, lane: Lane) -> usize {
        self.slots.iter().filter(|slot| slot.lane == lane && slot.job.is_none()).count()
    }

    fn within_step(&self) -> bool {
        self.slots.iter().any(|slot| slot.job.is_none())
    }
}

impl Slot {
    fn show(&self) -> JobState {
        JobState { lane: self.lane, name: self.name, due: self.due, stepping: self.job.is_none() }
    }
}

impl Scheduler for Steps {
    fn spawn(&self, lane: Lane, job: Box<dyn Job>) {
        let mut state = self.state.lock();
        if state.stopped {
            drop(state);
            discard(job);
            return;
        }
        let number = state.arrivals;
        state.arrivals += 1;
        let name = job.name();
        state.slots.push(Slot { number, lane, name, due: None, job: Some(job) });
    }

    fn breathe(&self) {
        let mut state = self.state.lock();
        if state.within_step() {
            return;
        }
        state.breaths += 1;
        let (odds, most) = (state.breath_odds, state.breath_steps);
        let steps = if state.random.u32(0..odds) == 0 { state.random.u32(1..=most) } else { 0 };
        drop(state);
        self.clock.advance(BREATH_TIME);
        for _ in 0..steps {
            if self.step().is_none() {
                break;
            }
        }
    }

    fn wait(&self, event: &EventCount, seen: u64, timeout: Option<Duration>) -> bool {
        let deadline = timeout.map(|timeout| self.clock.monotonic().saturating_add(timeout));
        loop {
            if event.epoch() != seen {
                return true;
            }
            if deadline.is_some_and(|deadline| self.clock.monotonic() >= deadline) {
                return false;
            }
            if self.step().is_some() || self.skip_to_timer(deadline) {
                continue;
            }
            match deadline {
                Some(deadline) => self.clock.advance_to(deadline),
                None => self.deadlock(),
            }
        }
    }

    fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let (stepping, idle): (Vec<Slot>, Vec<Slot>) =
            std::mem::take(&mut state.slots).into_iter().partition(|slot| slot.job.is_none());
        // Called from within a step: the jobs on the stack are dropped when their steps return.
        state.slots = stepping;
        drop(state);
        idle.into_iter().filter_map(|slot| slot.job).for_each(discard);
    }

    fn is_within(&self, lane: Lane) -> bool {
        self.state.lock().stepping(lane) > 0
    }

    fn width(&self, lane: Lane) -> usize {
        lane.width(self.compaction_width)
    }

    /// Too few for all that there is to do, whatever this machine has: a run with a seed has to be the same everywhere.
    fn processors(&self) -> usize {
        2
    }

    /// Steps run where the caller rests.
    fn spared_a_processor(&self) -> bool {
        true
    }

    fn note_writing(&self) {}
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.stop();
    }
}
