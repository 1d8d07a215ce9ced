//! Background work on threads: one for flushes, a few for compactions, one for removing files, one for upkeep.
//!
//! Each lane has a queue of its own, whose jobs take turns step by step. One whose moment has come goes first, so that it waits
//! for two steps at most, however many jobs there are, unless others' moments have come too. A worker without work sleeps on the
//! lane's condition variable, until the next timer at the latest; nothing polls.
//!
//! Locks: one mutex a lane, held for queue operations only, never across a step or the drop of a job.
#![expect(clippy::disallowed_methods, reason = "threads start, wait and read the clock here")]

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use esker_base::event_count::EventCount;
use esker_base::sync::thread::{self, JoinHandle, ThreadId};
use esker_base::sync::{Condvar, Instant, Mutex};
use esker_base::{Error, Result};

use super::contain::{discard, step};
use super::{Job, Lane, Progress, Scheduler};
use crate::os::load::Load;
use crate::os::own_processor::OwnProcessor;
use crate::os::priority;
use crate::os::process::{self, Process};

/// The production scheduler. Dropping it stops it.
pub struct Threads {
    /// One for each lane, in the order of [`Lane::ALL`].
    queues: [Arc<Queue>; Lane::ALL.len()],
    workers: Mutex<Vec<JoinHandle<()>>>,
    worker_ids: Vec<(ThreadId, Lane)>,
    compaction_width: usize,
    processors: usize,
    load: Mutex<Load>,
    own_processor: Arc<OwnProcessor>,
    /// The process in which the threads are: a forked child has none of them.
    process: Process,
}

/// The jobs of one lane.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Signalled when there is something to do for a worker, or to stop for.
    work: Condvar,
    /// Signalled when a worker has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Box<dyn Job>>,
    /// Jobs that wait for a moment, by that moment; the number keeps jobs with equal moments in order.
    timers: BTreeMap<(Instant, u64), Box<dyn Job>>,
    timers_made: u64,
    /// The last job that a worker took had waited for its moment.
    timer_was_last: bool,
    stopping: bool,
    workers: usize,
    /// The workers that stop the scheduler from within a step. They wait for all others; only a thread that
    /// joins them waits for their steps.
    stop_from_within: Vec<ThreadId>,
}

impl State {
    /// The moment that comes first.
    fn next_due(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((due, _), _)| *due)
    }

    fn is_timer_due(&self) -> bool {
        self.next_due().is_some_and(|due| due <= Instant::now())
    }
}

impl Threads {
    /// Start the threads, `compaction_threads` (at least 1) of them for compactions. Errs if the
    /// system has no thread to give; those already started are stopped again. Errs, too, in a process that
    /// was forked while such threads ran.
    pub fn new(compaction_threads: usize) -> Result<Threads> {
        let compaction_threads = compaction_threads.max(1);
        // If the number is not known, no thread steps back for another.
        let processors = std::thread::available_parallelism().map_or(usize::MAX, NonZero::get);
        let mut threads = Threads {
            queues: Lane::ALL.map(|_| Arc::default()),
            workers: Mutex::default(),
            worker_ids: Vec::new(),
            compaction_width: compaction_threads,
            processors,
            load: Mutex::new(Load::now()),
            // The workers that count: the flush's and the compactions'.
            own_processor: Arc::new(OwnProcessor::new(1 + compaction_threads, processors)),
            process: Process::current(),
        };
        // Names fit the 15 bytes that Linux shows.
        threads.start(Lane::Flush, "esker-flush".to_owned())?;
        for number in 0..compaction_threads {
            threads.start(Lane::Compaction, format!("esker-compact{number}"))?;
        }
        threads.start(Lane::Removal, "esker-removal".to_owned())?;
        threads.start(Lane::Upkeep, "esker-upkeep".to_owned())?;
        Ok(threads)
    }

    fn start(&mut self, lane: Lane, name: String) -> Result<()> {
        if process::is_orphaned() {
            let why = "this process was forked from one that had a database open, and locks do not outlive that; \
                       open databases in a program that was started anew (exec), or fork before the first open";
            return Err(Error::io("start thread", name, io::Error::new(io::ErrorKind::Unsupported, why)));
        }
        let queue = Arc::clone(self.queue(lane));
        queue.state.lock().workers += 1;
        process::worker_began();
        let handle = thread::Builder::new().name(name.clone()).spawn({
            let queue = Arc::clone(&queue);
            let own_processor = Arc::clone(&self.own_processor);
            move || {
                own_processor.begin_worker();
                // As long as level 0 and the disk have room, nobody waits for these, while a writer's put
                // takes only a microsecond.
                if matches!(lane, Lane::Compaction | Lane::Removal) {
                    priority::go_behind_others();
                }
                work(&queue, &own_processor);
                process::worker_ended();
            }
        });
        match handle {
            Ok(handle) => {
                self.worker_ids.push((handle.thread().id(), lane));
                self.workers.get_mut().push(handle);
                Ok(())
            }
            Err(source) => {
                process::worker_ended();
                queue.state.lock().workers -= 1;
                Err(Error::io("start thread", name, source))
            }
        }
    }

    fn queue(&self, lane: Lane) -> &Arc<Queue> {
        &self.queues[lane as usize]
    }

    /// The lane that the calling thread works for.
    fn own_lane(&self) -> Option<Lane> {
        let mine = thread::current().id();
        self.worker_ids.iter().find(|(worker, _)| *worker == mine).map(|(_, lane)| *lane)
    }
}

/// A worker's life.
fn work(queue: &Queue, own_processor: &OwnProcessor) {
    while let Some(mut job) = queue.next() {
        own_processor.note_work();
        let outcome = step(&mut *job);
        let mut state = queue.state.lock();
        match outcome {
            Progress::More if !state.stopping => {
                state.ready.push_back(job);
                continue;
            }
            Progress::After(pause) if !state.stopping => {
                if let Some(due) = Instant::now().checked_add(pause) {
                    let number = state.timers_made;
                    state.timers_made += 1;
                    state.timers.insert((due, number), job);
                    // A sleeping worker may have to wake earlier than it meant to; this one looks at
                    // the timers itself.
                    drop(state);
                    queue.work.notify_one();
                    continue;
                }
            }
            _ => {}
        }
        drop(state);
        discard(job);
    }
    own_processor.end_worker();
    let mut state = queue.state.lock();
    state.workers -= 1;
    let mine = thread::current().id();
    state.stop_from_within.retain(|worker| *worker != mine);
    drop(state);
    queue.ended.notify_all();
}

impl Queue {
    /// The next job to step, once there is one; `None` to end.
    fn next(&self) -> Option<Box<dyn Job>> {
        let mut state = self.state.lock();
        loop {
            if state.stopping {
                return None;
            }
            // A job whose moment has come goes before those that were ready, however many they are: it was promised to somebody.
            // But not twice in a row, since timers may be due all the time.
            let its_turn = !state.timer_was_last || state.ready.is_empty();
            let timed = if its_turn && state.is_timer_due() { state.timers.pop_first() } else { None };
            state.timer_was_last = timed.is_some();
            if let Some(job) = timed.map(|(_, job)| job).or_else(|| state.ready.pop_front()) {
                // Another worker that was notified of this job may have found that this one was faster:
                // notify one for the jobs that are left.
                if !state.ready.is_empty() || state.is_timer_due() {
                    self.work.notify_one();
                }
                return Some(job);
            }
            match state.next_due() {
                Some(due) => {
                    self.work.wait_until(&mut state, due);
                }
                None => self.work.wait(&mut state),
            }
        }
    }
}

impl Scheduler for Threads {
    fn spawn(&self, lane: Lane, job: Box<dyn Job>) {
        let queue = self.queue(lane);
        let mut state = queue.state.lock();
        if state.stopping {
            drop(state);
            discard(job);
            return;
        }
        state.ready.push_back(job);
        drop(state);
        queue.work.notify_one();
    }

    fn breathe(&self) {}

    fn wait(&self, event: &EventCount, seen: u64, timeout: Option<Duration>) -> bool {
        self.own_processor.note_waiting();
        if let Some(timeout) = timeout {
            return event.wait_for(seen, timeout);
        }
        event.wait(seen);
        true
    }

    /// Called from a job's step, this waits for the steps of all other jobs: whoever then gives up the lock
    /// on a directory must have nobody write to it any more.
    ///
    /// In a forked child there is nobody to stop, and locks may be held by threads that are not there.
    fn stop(&self) {
        if !self.process.is_surely_current() {
            return;
        }
        for queue in &self.queues {
            queue.state.lock().stopping = true;
            queue.work.notify_all();
        }
        let own = self.own_lane();
        if let Some(lane) = own {
            let mine = thread::current().id();
            let queue = self.queue(lane);
            let mut state = queue.state.lock();
            if !state.stop_from_within.contains(&mine) {
                state.stop_from_within.push(mine);
            }
            drop(state);
            queue.ended.notify_all();
        }
        for queue in &self.queues {
            let mut state = queue.state.lock();
            while state.workers > state.stop_from_within.len() {
                queue.ended.wait(&mut state);
            }
            let jobs = (std::mem::take(&mut state.ready), std::mem::take(&mut state.timers));
            drop(state);
            jobs.0.into_iter().chain(jobs.1.into_values()).for_each(discard);
        }
        if own.is_some() {
            return;
        }
        let workers = std::mem::take(&mut *self.workers.lock());
        for worker in workers {
            // A worker catches every panic of a job; if it has died all the same, it has ended, too.
            let _ = worker.join();
        }
    }

    fn is_within(&self, lane: Lane) -> bool {
        self.own_lane() == Some(lane)
    }

    fn width(&self, lane: Lane) -> usize {
        lane.width(self.compaction_width)
    }

    fn processors(&self) -> usize {
        self.processors
    }

    fn spared_a_processor(&self) -> bool {
        self.load.lock().spared_one_of(self.processors)
    }

    fn note_writing(&self) {
        self.own_processor.note_writing();
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
        let left = std::mem::take(self.workers.get_mut());
        if self.process.is_surely_current() {
            // One of them was the last to have this, and they end by themselves.
            drop(left);
        } else {
            // In a forked child they name no thread.
            left.into_iter().for_each(std::mem::forget);
        }
    }
}
