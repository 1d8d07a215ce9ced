//! The threads of a phase: start them, watch them, add up what they did.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark brings its own threads and reads the real clock"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::keys::share;
use super::options::{Workload, WorkloadOptions};
use super::store::{NullSession, Session};
use super::values::Values;
use super::worker::{Outcome, Shared, work};
use super::{Progress, Result};

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// Operations on the store that keeps nothing: enough that reading the clock twice does not count.
const NULL_OPERATIONS: u64 = 50_000;
/// Rounds of that; the first ones warm up.
const NULL_ROUNDS: usize = 8;

/// What all threads did.
pub(super) struct Phase {
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
}

fn shared<'a>(options: &WorkloadOptions, workload: Workload, values: &'a Values, rows: u64) -> Shared<'a> {
    Shared {
        workload,
        order: options.order,
        rows,
        batch: options.batch,
        seed: options.seed,
        values,
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    }
}

/// Run `workload` in the threads of `options`, each on a session from `session`.
pub(super) fn drive<S: Session + Send>(
    options: &WorkloadOptions,
    workload: Workload,
    values: &Values,
    session: impl Fn() -> S,
    progress: &mut dyn Progress,
) -> Result<Phase> {
    let mut shared = shared(options, workload, values, options.rows);
    if !workload.batches() {
        shared.batch = 1;
    }
    let (shared, threads) = (&shared, u64::from(options.threads));
    let sessions: Vec<S> = (0..threads).map(|_| session()).collect();
    let begun = Instant::now();
    let outcomes: Vec<Result<Outcome>> = std::thread::scope(|scope| {
        let (tell, hear) = channel();
        let workers: Vec<_> = (0..threads)
            .zip(sessions)
            .map(|(thread, mut session)| {
                let tell = tell.clone();
                scope.spawn(move || {
                    let share = share(shared.rows, thread, threads);
                    let outcome = work(&mut session, shared, share, thread);
                    if outcome.is_err() {
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                    let _still_watched = tell.send(());
                    outcome
                })
            })
            .collect();
        drop(tell);
        while hear.recv_timeout(SHOW_EVERY) != Err(RecvTimeoutError::Disconnected) {
            progress.at(shared.done.load(Ordering::Relaxed));
        }
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let took = begun.elapsed();
    let mut sum: Option<Outcome> = None;
    for outcome in outcomes {
        let outcome = outcome?;
        match &mut sum {
            None => sum = Some(outcome),
            Some(sum) => sum.add(&outcome),
        }
    }
    let outcome = sum.expect("there is at least one thread");
    Ok(Phase { outcome, took })
}

/// What an operation costs the harness alone, in nanoseconds: the least of several rounds, because
/// whatever else the machine does can only add to it.
pub(super) fn harness_nanos(options: &WorkloadOptions, values: &Values) -> Result<f64> {
    let operations = options.rows.min(NULL_OPERATIONS);
    let mut least = f64::INFINITY;
    for _ in 0..NULL_ROUNDS {
        let shared = shared(options, options.workload, values, options.rows);
        let mut session = NullSession::new(values);
        let (result, took) = timed(|| work(&mut session, &shared, 0..operations, 0));
        result?;
        least = least.min(took.as_nanos() as f64 / operations as f64);
    }
    Ok(least)
}

/// Run `work`, which cannot say how far it is, and how long it took.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let result = work();
    (result, begun.elapsed())
}

impl Outcome {
    fn add(&mut self, other: &Outcome) {
        for (mine, theirs) in self.timings.iter_mut().zip(&other.timings) {
            mine.histogram.add(&theirs.histogram).expect("histograms of equal bounds add up");
        }
        self.cost.add(&other.cost);
    }
}
