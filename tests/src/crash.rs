//! Crash enumeration: a history runs once; then every moment of it is a moment at which power fails,
//! in every way that the simulated disk knows.
//!
//! A case counts only if its image is distinct and something was unsynced at the moment of the crash.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use esker_vfs::mem::{CrashPoint, MemFs, Policy};
use fastrand::Rng;
use parking_lot::Mutex;

use crate::case::{Case, Choice, Crash, Failure};
use crate::check::{Expected, check};
use crate::determinism;
use crate::driver::{Recording, Violation, run};
use crate::nested;
use crate::ops::history;
use crate::panics::{heard, heard_since};
use crate::points::Hits;
use crate::setup::{Mode, Setup};

/// How many operations a history has.
pub const HISTORY_LEN: usize = 200;
/// Seeds tried for each policy that has a use for one.
const SEEDS_PER_POLICY: u64 = 3;
/// Random subsets of many pending units, beside the single omissions and survivors.
const SAMPLES: usize = 16;

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// At most this many distinct images of one history, spread evenly over its moments; `None` for
    /// every one that the policies and subsets give.
    pub per_history: Option<usize>,
    /// How many further crashes, each in the recovery from the one before.
    pub depth: usize,
    /// Stop after this many failures.
    pub failures_max: usize,
}

/// What was tried and found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Distinct images that held unsynced state, and were checked.
    pub cases: u64,
    /// By what the call before the crash was for.
    pub hits: Hits,
    /// Crash moments with something pending.
    pub moments: u64,
    /// Histories.
    pub histories: u64,
    /// Cases that ran twice and were compared with themselves.
    pub doubled: u64,
    /// What failed.
    pub failures: Vec<Failure>,
}

impl Outcome {
    /// Those of `other` too.
    pub fn add(&mut self, other: Outcome) {
        self.cases += other.cases;
        self.hits.add(&other.hits);
        self.moments += other.moments;
        self.histories += other.histories;
        self.doubled += other.doubled;
        self.failures.extend(other.failures);
    }
}

/// The choices at `point`: all policies and subsets, or `most` drawn from them.
fn choices(point: &CrashPoint, most: Option<usize>, random: &mut Rng) -> Vec<Choice> {
    let mut choices = Vec::new();
    for policy in Policy::ALL {
        for _ in 0..if policy.is_seeded() { SEEDS_PER_POLICY } else { 1 } {
            choices
                .push(Choice::Policy(policy, if policy.is_seeded() { random.u64(..1 << 32) } else { 0 }));
        }
    }
    let Some(most) = most else {
        choices.extend(point.selections(SAMPLES, random.u64(..)).map(Choice::Units));
        return choices;
    };
    let units = point.pending_units().len();
    for unit in 0..units {
        choices.push(Choice::Units((0..units).map(|other| other != unit).collect()));
        choices.push(Choice::Units((0..units).map(|other| other == unit).collect()));
    }
    // As many subsets as all of that, so that few units are gone through entirely by and by.
    for _ in 0..choices.len().min(1 << units.min(16)) {
        choices.push(Choice::Units((0..units).map(|_| random.bool()).collect()));
    }
    random.shuffle(&mut choices);
    choices.truncate(most);
    choices
}

/// The crashes of `disk` at the moments with something pending: in all ways, or in at most `most` ways in
/// all, spread evenly. How many such moments there are, and the crashes in order.
pub(crate) fn crashes(
    disk: &MemFs,
    most: Option<usize>,
    seed: u64,
) -> (usize, impl Iterator<Item = (Crash, MemFs)> + use<>) {
    let mut moments: Vec<CrashPoint> = disk.sweep().filter(|point| !point.is_settled()).collect();
    if let Some(most) = most {
        // Fewer cases than moments: another phase for each seed.
        let every = moments.len().div_ceil(most.max(1)).max(1);
        let first = usize::try_from(seed % every as u64).expect("an index");
        moments = moments.into_iter().skip(first).step_by(every).collect();
    }
    let count = moments.len();
    let per_moment = most.map(|most| most.div_ceil(count.max(1)));
    let mut random = Rng::with_seed(seed);
    let all = moments.into_iter().flat_map(move |point| {
        let choices = choices(&point, per_moment, &mut random);
        let calls = point.calls();
        choices.into_iter().map(move |choice| {
            let image = choice.image(&point);
            (Crash { calls, choice }, image)
        })
    });
    (count, all)
}

/// Crash one history at every moment. `wanted` may end it early: it is asked before each image.
pub fn crash_history(setup: &Setup, effort: Effort, wanted: &(dyn Fn() -> bool + Sync)) -> Outcome {
    let mut outcome = Outcome { histories: 1, ..Outcome::default() };
    let mut recording = None;
    let recorded = determinism::run(determinism::chosen(setup.seed), || {
        recording = Some(record(setup)?);
        Ok(())
    });
    let recording = match (recorded, recording) {
        (Ok(()), Some(recording)) => recording,
        (outcome_of_it, _) => {
            let replay = Case::of(setup).to_string();
            let what = outcome_of_it.err().unwrap_or_default();
            outcome.failures.push(Failure { replay, what });
            return outcome;
        }
    };
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let (moments, crashes) = crashes(&recording.disk, effort.per_history, setup.seed);
    outcome.moments = moments as u64;
    let mut deeper = Outcome::default();
    for (crash, image) in crashes {
        if !wanted() || outcome.failures.len() >= effort.failures_max {
            break;
        }
        if !seen.insert(image.content_hash()) {
            continue;
        }
        outcome.cases += 1;
        outcome.hits.count(recording.points.of_call(crash.calls.wrapping_sub(1)));
        let expected = Expected::after(&recording.oracle, crash.calls);
        let place = crash.describe(&recording.disk);
        let case = Case::of(setup).then(crash);
        let seed = case.derived_seed();
        // Every tenth of a history's, not one in ten by chance: where cases are few, with hundreds in each, chance may leave all out.
        let doubled = (seen.len() as u64).wrapping_add(setup.seed).is_multiple_of(determinism::ONE_IN);
        outcome.doubled += u64::from(doubled);
        // Whoever checks an image changes it.
        let mut fresh = Some(image);
        let mut image = || fresh.take().unwrap_or_else(|| case.crashes[0].image(&recording.disk));
        let ran = determinism::run(doubled, || {
            let image = image();
            if effort.depth == 0 {
                return contained(|| check(setup, &image, &expected, seed)).map(|()| 0);
            }
            let mut below = Outcome::default();
            nested::crash_recovery(setup, &case, &image, &expected, effort.depth, &mut below);
            let cases = below.cases;
            deeper = below;
            Ok(cases)
        });
        let mut below = std::mem::take(&mut deeper);
        below.doubled = if doubled { below.cases } else { 0 };
        outcome.add(below);
        if let Err(what) = ran {
            outcome.failures.push(Failure { replay: case.to_string(), what: format!("{place}: {what}") });
        }
    }
    outcome
}

/// Run the history of `setup`.
pub fn record(setup: &Setup) -> Result<Recording, Violation> {
    let ops = history(setup.seed, HISTORY_LEN, setup.mode.always_logs());
    contained(|| run(setup, &ops))
}

/// Run one case again.
pub fn replay(setup: &Setup, case: &Case) -> Result<(), Violation> {
    let Some((first, later)) = case.crashes.split_first() else {
        return determinism::run(true, || record(setup).map(drop));
    };
    let recording = record(setup)?;
    let expected = Expected::after(&recording.oracle, first.calls);
    println!("{}; commits {:?} may be there", first.describe(&recording.disk), expected.allowed);
    determinism::run(true, || {
        let image = first.image(&recording.disk);
        contained(|| nested::replay(setup, &Case::of(setup).then(first.clone()), later, &image, &expected))
    })
}

/// A panic is a violation like any other (P6), a job's too, which ends with the job.
pub fn contained<T>(action: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    let before = heard();
    let came = catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", message.unwrap_or_else(|| "without a message".to_owned())))
    });
    match (came, heard_since(before)) {
        (came, None) => came,
        (Ok(_), Some(heard)) => Err(format!("a panic was caught: {heard}")),
        (Err(what), Some(heard)) => Err(format!("{what}; a panic was caught: {heard}")),
    }
}

/// Crash histories on `threads` threads until `count` cases were checked. `setup` makes the one of each
/// number, from 0 on.
#[expect(clippy::disallowed_methods, reason = "the threads of a test, each with worlds of its own")]
pub fn crash_many(
    setup: impl Fn(u64) -> Setup + Sync,
    count: u64,
    effort: Effort,
    threads: usize,
) -> Outcome {
    let total = Mutex::new(Outcome::default());
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && done.load(Ordering::Relaxed) < count {
                    let setup = setup(next.fetch_add(1, Ordering::Relaxed));
                    let outcome = crash_history(&setup, effort, &|| !stop.load(Ordering::Relaxed));
                    done.fetch_add(outcome.cases, Ordering::Relaxed);
                    let mut total = total.lock();
                    total.add(outcome);
                    if total.failures.len() >= effort.failures_max {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    total.into_inner()
}

/// The setups of seeds from `first` on, going through the `modes` in turn.
pub fn in_turn(first: u64, modes: &[Mode]) -> impl Fn(u64) -> Setup + Sync {
    move |nth| {
        let mode = modes[usize::try_from(nth % modes.len() as u64).expect("an index")];
        Setup::new(first.wrapping_add(nth), mode)
    }
}
