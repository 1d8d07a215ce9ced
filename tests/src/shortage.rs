//! Something runs out for a while under a history, and comes back: what `enospc` and `descriptors` share.

use parking_lot::Mutex;

use crate::case::Failure;
use crate::crash::contained;
use crate::determinism;
use crate::driver::Violation;
use crate::fault::Swept;
use crate::points::Point;
use crate::setup::Setup;
use crate::spread::spread;
use crate::survivor::Counts;

/// Shortages of one history.
const PER_HISTORY: u64 = 20;

/// What runs out.
pub struct Shortage {
    /// Let it run out at a moment of the second value's choice. `None` if nobody noticed.
    pub one: fn(&Setup, u64) -> Result<Option<Counts>, Violation>,
    /// What it hits while the database is open.
    pub hits: Point,
}

impl Shortage {
    /// `count` shortages.
    pub fn simulated(
        &self,
        setup: impl Fn(u64) -> Setup,
        count: u64,
        threads: usize,
        failures_max: usize,
    ) -> Swept {
        let total = Mutex::new(Swept::default());
        let goes_on =
            |total: &Swept| total.outcome.cases < count && total.outcome.failures.len() < failures_max;
        let mut nth = 0;
        while goes_on(&total.lock()) {
            let setup = setup(nth);
            nth += 1;
            total.lock().outcome.histories += 1;
            let rounds: Vec<u64> = (0..PER_HISTORY).collect();
            spread(threads, &rounds, |&round| {
                let doubled = determinism::chosen(setup.seed ^ (round << 40));
                let ran = determinism::run(doubled, || contained(|| (self.one)(&setup, round)));
                let mut total = total.lock();
                match ran {
                    Ok(None) => {}
                    Ok(Some(counts)) => {
                        total.counts.add(&counts);
                        total.outcome.cases += 1;
                        total.outcome.doubled += u64::from(doubled);
                        let point = if counts.unopened > 0 { Point::Recovery } else { self.hits };
                        total.outcome.hits.count(point);
                    }
                    Err(what) => {
                        total.outcome.cases += 1;
                        let replay = format!("--seed {} --mode {} --case {round}", setup.seed, setup.mode);
                        total.outcome.failures.push(Failure { replay, what });
                    }
                }
                goes_on(&total)
            });
        }
        total.into_inner()
    }

    /// Run one case again.
    pub fn replay(&self, setup: &Setup, nth: u64) -> Result<(), Violation> {
        let counts = determinism::run(true, || contained(|| (self.one)(setup, nth)))?;
        println!("{counts:?}");
        Ok(())
    }
}
