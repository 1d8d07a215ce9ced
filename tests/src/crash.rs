//! Crash enumeration: a history runs once; then every moment of it is a moment at which power fails,
//! in every way that the simulated disk knows.
//!
//! A case counts only if its image is distinct and something was unsynced at the moment of the crash.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use esker_vfs::mem::{CrashPoint, MemFs, Policy};
use fastrand::Rng;
use parking_lot::Mutex;

use crate::check::{Expected, check};
use crate::driver::{Recording, Violation, run};
use crate::ops::history;
use crate::points::Hits;
use crate::setup::{Mode, Setup};

/// How many operations a history has.
pub const HISTORY_LEN: usize = 200;
/// Seeds tried for each policy that has a use for one.
const SEEDS_PER_POLICY: u64 = 3;
/// Random subsets of many pending units, beside the single omissions and survivors.
const SAMPLES: usize = 16;

/// Which of the disks that a crash could leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// What a policy leaves, with its seed.
    Policy(Policy, u64),
    /// These of the pending units.
    Units(Vec<bool>),
}

impl Choice {
    /// The disk that it leaves at `point`.
    pub fn image(&self, point: &CrashPoint) -> MemFs {
        match self {
            Choice::Policy(policy, seed) => point.image(*policy, *seed),
            Choice::Units(taken) => point.image_subset(taken),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Policy(policy, seed) => write!(f, "{policy:?}:{seed}"),
            Choice::Units(taken) => {
                let bits: String = taken.iter().map(|taken| if *taken { '1' } else { '0' }).collect();
                write!(f, "units:{bits}")
            }
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let (what, which) = text.split_once(':').ok_or("a choice is POLICY:SEED or units:BITS")?;
        if what == "units" {
            return Ok(Choice::Units(which.chars().map(|bit| bit == '1').collect()));
        }
        let policy = Policy::ALL.into_iter().find(|policy| format!("{policy:?}") == what);
        let policy = policy.ok_or_else(|| format!("there is no policy {what:?}"))?;
        Ok(Choice::Policy(policy, which.parse().map_err(|_| format!("{which:?} is no seed"))?))
    }
}

/// One case, as it can be asked for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The history's seed.
    pub seed: u64,
    /// Its mode.
    pub mode: Mode,
    /// How many calls came before the crash.
    pub calls: usize,
    /// What the crash left.
    pub choice: Choice,
}

/// A case that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The case; `None` if the history itself failed.
    pub case: Option<Case>,
    /// Where and how.
    pub what: Violation,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--seed {} --mode {} --case {}@{}", self.seed, self.mode, self.calls, self.choice)
    }
}

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// At most this many distinct images of one history, spread evenly over its moments; `None` for
    /// every one that the policies and subsets give.
    pub per_history: Option<usize>,
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
        self.failures.extend(other.failures);
    }
}

/// The choices at `point`, the likeliest to tell something first: the policies, then subsets.
fn choices(point: &CrashPoint, random: &mut Rng) -> Vec<Choice> {
    let mut choices = Vec::new();
    for policy in Policy::ALL {
        for _ in 0..if policy.is_seeded() { SEEDS_PER_POLICY } else { 1 } {
            choices.push(Choice::Policy(policy, if policy.is_seeded() { random.u64(..1 << 32) } else { 0 }));
        }
    }
    choices.extend(point.selections(SAMPLES, random.u64(..)).map(Choice::Units));
    choices
}

/// Crash one history at every moment. `wanted` may end it early: it is asked before each image.
pub fn crash_history(setup: &Setup, effort: Effort, wanted: &(dyn Fn() -> bool + Sync)) -> Outcome {
    let mut outcome = Outcome { histories: 1, ..Outcome::default() };
    let recording = match record(setup) {
        Ok(recording) => recording,
        Err(what) => {
            outcome.failures.push(Failure { case: None, what });
            return outcome;
        }
    };
    let mut random = Rng::with_seed(setup.seed ^ 0x6372_6173_685f_6174);
    let mut seen: BTreeSet<u64> = BTreeSet::new();
    let moments: Vec<CrashPoint> = recording.disk.sweep().filter(|point| !point.is_settled()).collect();
    outcome.moments = moments.len() as u64;
    let per_moment = effort.per_history.map(|max| max.div_ceil(moments.len().max(1)));
    for point in &moments {
        let mut choices = choices(point, &mut random);
        if per_moment.is_some_and(|max| max < choices.len()) {
            random.shuffle(&mut choices);
        }
        let mut left = per_moment.unwrap_or(usize::MAX);
        for choice in choices {
            if left == 0 {
                break;
            }
            if !wanted() || outcome.failures.len() >= effort.failures_max {
                return outcome;
            }
            let image = choice.image(point);
            let hash = image.content_hash();
            if !seen.insert(hash) {
                continue;
            }
            left -= 1;
            outcome.cases += 1;
            outcome.hits.count(recording.points.of_call(point.calls().wrapping_sub(1)));
            let case = Case { seed: setup.seed, mode: setup.mode, calls: point.calls(), choice };
            if let Err(what) = judge(setup, &recording, &case, &image) {
                outcome.failures.push(Failure { case: Some(case), what });
            }
        }
    }
    outcome
}

/// Run the history of `setup`.
pub fn record(setup: &Setup) -> Result<Recording, Violation> {
    let ops = history(setup.seed, HISTORY_LEN, setup.mode.always_logs());
    contained(|| run(setup, &ops))
}

/// Check one image of `recording`.
fn judge(setup: &Setup, recording: &Recording, case: &Case, image: &MemFs) -> Result<(), Violation> {
    let expected = Expected { oracle: &recording.oracle, allowed: recording.oracle.allowed(case.calls) };
    // Order of background work and way of checking follow from the case.
    let seed = esker_base::checksum::key_hash(case.to_string().as_bytes());
    contained(|| check(setup, image, &expected, seed)).map_err(|what| {
        let call = case.calls.checked_sub(1).map_or_else(
            || "before any call".to_owned(),
            |last| format!("after call {last} ({})", recording.disk.describe_call(last)),
        );
        format!("crash {call}, {}: {what}", case.choice)
    })
}

/// Run one case again.
pub fn replay(setup: &Setup, case: &Case) -> Result<(), Violation> {
    let recording = record(setup)?;
    let image = case.choice.image(&recording.disk.crash_point(case.calls));
    judge(setup, &recording, case, &image)
}

/// A panic is a violation like any other (P6).
pub fn contained<T>(action: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", message.unwrap_or_else(|| "without a message".to_owned())))
    })
}

/// Crash histories from `first_seed` on, on `threads` threads, until `count` cases were checked. Seeds go
/// through the `modes` in turn.
#[expect(clippy::disallowed_methods, reason = "the threads of a test, each with worlds of its own")]
pub fn crash_many(first_seed: u64, count: u64, modes: &[Mode], effort: Effort, threads: usize) -> Outcome {
    let total = Mutex::new(Outcome::default());
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && done.load(Ordering::Relaxed) < count {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let mode = modes[usize::try_from(nth % modes.len() as u64).expect("an index")];
                    let setup = Setup::new(first_seed.wrapping_add(nth), mode);
                    let wanted = || !stop.load(Ordering::Relaxed);
                    let outcome = crash_history(&setup, effort, &wanted);
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
