//! Clocks that jump: ten years ahead or back, standing still, or running backwards, from each call of theirs
//! on. No answer of the database may depend on it, and power is lost once in each history: nothing that the mode
//! promises may be gone by then, nor hang on the clock that recovery finds.
//!
//! The interval of `Durability::Interval` is counted by the clock that never goes back. While that stands still, or
//! is behind where it was when the next sync was set, only `persist` and the like make anything durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker_vfs::clock::Clock;
use parking_lot::Mutex;

use crate::case::Failure;
use crate::check::{Expected, check};
use crate::crash::{Outcome, contained, crashes, record};
use crate::determinism;
use crate::driver::Violation;
use crate::setup::Setup;
use crate::spread::spread;

const TEN_YEARS: Duration = Duration::from_hours(10 * 365 * 24);
const AN_HOUR: Duration = Duration::from_hours(1);

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

    /// Whether it has come.
    pub fn has_come(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > self.at
    }

    /// Whether the clock that never goes back has counted on since a moment at which the jump had come, or not yet.
    pub fn has_counted_on(&self, had_come: bool) -> bool {
        match self.leap {
            Leap::Ahead | Leap::Back => true,
            Leap::Frozen => !self.has_come(),
            Leap::Rewound => had_come == self.has_come(),
        }
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
        // A simulated clock starts at zero: there is to be an hour to go back by.
        let now = self.inner.monotonic().saturating_add(AN_HOUR);
        match self.leapt() {
            Some(Leap::Frozen) => *self.jump.frozen.lock().get_or_insert(now),
            Some(Leap::Rewound) => now.saturating_sub(AN_HOUR),
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

/// What is drawn for a case follows from this.
fn key(setup: &Setup, leap: Leap, at: u64) -> u64 {
    setup.seed ^ (at << 8) ^ leap as u64
}

/// Let the clock leap in a history, and power be lost at one moment of it. How often the history asked the clock.
fn one(setup: &Setup, leap: Leap, at: u64) -> Result<u64, Violation> {
    let jump = Jump::new(leap, at);
    let asked = Arc::clone(&jump.calls);
    let setup = Setup { jump: Some(jump), ..setup.clone() };
    let recording = record(&setup)?;
    let calls = asked.load(Ordering::Relaxed);
    let seed = key(&setup, leap, at);
    for (crash, image) in crashes(&recording.disk, Some(1), seed).1 {
        let expected = Expected::after(&recording.oracle, crash.calls);
        // The clock goes on as the leap has left it.
        contained(|| check(&setup, &image, &expected, seed))
            .map_err(|what| format!("{}: {what}", crash.describe(&recording.disk)))?;
    }
    Ok(calls)
}

/// Let clocks leap in histories until `count` have, at most `per_history` in each.
pub fn sweep(setup: impl Fn(u64) -> Setup, count: u64, per_history: usize, threads: usize) -> Outcome {
    let total = Mutex::new(Outcome::default());
    let mut nth = 0;
    loop {
        let setup = setup(nth);
        nth += 1;
        total.lock().histories += 1;
        // No clock is asked so often.
        let calls = match one(&setup, Leap::Ahead, u64::MAX) {
            Ok(calls) => calls,
            Err(what) => {
                let replay =
                    format!("--seed {} --mode {} --case Ahead:{}", setup.seed, setup.mode, u64::MAX);
                let mut total = total.into_inner();
                total.failures.push(Failure { replay, what: format!("without a leap: {what}") });
                return total;
            }
        };
        let mut all: Vec<(Leap, u64)> =
            Leap::ALL.iter().flat_map(|&l| (0..calls).map(move |at| (l, at))).collect();
        if per_history > 0 && all.len() > per_history {
            all = (0..per_history).map(|i| all[i * all.len() / per_history]).collect();
        }
        spread(threads, &all, |&(leap, at)| {
            let doubled = determinism::chosen(key(&setup, leap, at));
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

#[cfg(test)]
mod tests {
    use super::*;
    use esker_vfs::clock::SimClock;

    #[test]
    fn a_rewound_clock_runs_back_and_then_on() {
        let clock = Arc::new(SimClock::new());
        let leaping = Jump::new(Leap::Rewound, 1).over(Arc::<SimClock>::clone(&clock));
        let before = leaping.monotonic();
        let back = leaping.monotonic();
        assert_eq!(before.checked_sub(back), Some(AN_HOUR));
        clock.advance(Duration::from_millis(3));
        assert_eq!(leaping.monotonic(), back + Duration::from_millis(3));
    }
}
