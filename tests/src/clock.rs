//! Clocks that jump: ten years ahead or back, standing still, or running backwards, from each call of theirs
//! on. No answer of the database may depend on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker_vfs::clock::Clock;
use parking_lot::Mutex;

use crate::case::Failure;
use crate::crash::{Outcome, record};
use crate::determinism;
use crate::driver::Violation;
use crate::setup::Setup;
use crate::spread::spread;

const TEN_YEARS: Duration = Duration::from_hours(10 * 365 * 24);

/// What a clock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leap {
    /// The calendar is ten years ahead.
    Ahead,
    /// The calendar is ten years back.
    Back,
    /// Both clocks stand still.
    Frozen,
    /// The clock that never goes back has gone back by an hour.
    Rewound,
}

impl Leap {
    /// All of them.
    pub const ALL: [Leap; 4] = [Leap::Ahead, Leap::Back, Leap::Frozen, Leap::Rewound];
}

/// A clock's leap, at a certain call of it.
#[derive(Clone, Debug)]
pub struct Jump {
    leap: Leap,
    at: u64,
    calls: Arc<AtomicU64>,
    frozen: Arc<Mutex<Option<Duration>>>,
}

impl Jump {
    /// `leap` at call number `at`.
    pub fn new(leap: Leap, at: u64) -> Jump {
        Jump { leap, at, calls: Arc::default(), frozen: Arc::default() }
    }

    /// `clock`, with this jump.
    pub fn over(&self, clock: Arc<dyn Clock>) -> Arc<dyn Clock> {
        Arc::new(JumpingClock { inner: clock, jump: self.clone() })
    }
}

struct JumpingClock {
    inner: Arc<dyn Clock>,
    jump: Jump,
}

impl JumpingClock {
    fn leapt(&self) -> Option<Leap> {
        let nth = self.jump.calls.fetch_add(1, Ordering::Relaxed);
        (nth >= self.jump.at).then_some(self.jump.leap)
    }
}

impl Clock for JumpingClock {
    fn monotonic(&self) -> Duration {
        let now = self.inner.monotonic();
        match self.leapt() {
            Some(Leap::Frozen) => *self.jump.frozen.lock().get_or_insert(now),
            Some(Leap::Rewound) => now.saturating_sub(Duration::from_hours(1)),
            _ => now,
        }
    }

    fn wall_millis(&self) -> u64 {
        let ten_years = u64::try_from(TEN_YEARS.as_millis()).unwrap_or(u64::MAX);
        let now = self.inner.wall_millis();
        match self.leapt() {
            Some(Leap::Ahead) => now.saturating_add(ten_years),
            Some(Leap::Back) => now.saturating_sub(ten_years),
            Some(Leap::Frozen) => 0,
            _ => now,
        }
    }
}

fn one(setup: &Setup, leap: Leap, at: u64) -> Result<u64, Violation> {
    let jump = Jump::new(leap, at);
    let calls = Arc::clone(&jump.calls);
    record(&Setup { jump: Some(jump), ..setup.clone() })?;
    Ok(calls.load(Ordering::Relaxed))
}

/// Let clocks leap in histories until `count` have, at most `per_history` in each.
pub fn sweep(setup: impl Fn(u64) -> Setup, count: u64, per_history: usize, threads: usize) -> Outcome {
    let total = Mutex::new(Outcome::default());
    let mut nth = 0;
    loop {
        let setup = setup(nth);
        nth += 1;
        total.lock().histories += 1;
        let calls = one(&setup, Leap::Ahead, u64::MAX).unwrap_or(1);
        let mut all: Vec<(Leap, u64)> =
            Leap::ALL.iter().flat_map(|&l| (0..calls).map(move |at| (l, at))).collect();
        if per_history > 0 && all.len() > per_history {
            all = (0..per_history).map(|i| all[i * all.len() / per_history]).collect();
        }
        spread(threads, &all, |&(leap, at)| {
            let doubled = determinism::chosen(setup.seed ^ (at << 8) ^ leap as u64);
            let ran = determinism::run(doubled, || one(&setup, leap, at));
            let mut total = total.lock();
            match ran {
                Ok(calls) => {
                    total.cases += u64::from(calls > at);
                    total.doubled += u64::from(calls > at && doubled);
                }
                Err(what) => {
                    let replay =
                        format!("--seed {} --mode {} --case {leap:?}:{at}", setup.seed, setup.mode);
                    total.failures.push(Failure { replay, what: format!("{leap:?} at call {at}: {what}") });
                }
            }
            total.failures.is_empty() && total.cases < count
        });
        let total = total.lock();
        if !total.failures.is_empty() || total.cases >= count {
            break;
        }
    }
    total.into_inner()
}

/// Run one case, `LEAP:AT`, again.
pub fn replay(setup: &Setup, case: &str) -> Result<(), Violation> {
    let (leap, at) = case.split_once(':').ok_or("a case is LEAP:AT")?;
    let leap = Leap::ALL.into_iter().find(|it| format!("{it:?}") == leap).ok_or("there is no such leap")?;
    let at = at.parse().map_err(|_| format!("{at:?} is no number"))?;
    determinism::run(true, || one(setup, leap, at)).map(drop)
}
