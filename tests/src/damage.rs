//! Damage of every kind in every place of the golden database (rows 10 to 13): a read gives the model's
//! answer or an error that names the file, never anything else; what no damage touches is still read.
//!
//! Cases are numbered: three moments of the database, each with everything that [`kinds`] knows.

pub mod base;
pub mod kinds;
pub mod live;
pub mod look;
pub mod newest;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use esker_base::checksum::key_hash;
use parking_lot::Mutex;

use crate::case::Failure;
use crate::crash::{Outcome, contained};
use crate::driver::Violation;
use crate::golden;
use crate::planted::Bug;
use crate::points::Point;
use base::{Base, Moment};
use kinds::{Damage, Damages};
use look::{Scene, Verdict, Way};

/// Directories of the same database at earlier times, whose files are mixed in.
const EARLIER: usize = 12;

/// One moment of the database, and everything that can be done to it.
pub struct Ground {
    base: Base,
    damages: Damages,
}

/// The three moments.
pub struct Grounds {
    grounds: Vec<Ground>,
    seed: u64,
}

/// How to go about it.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Threads.
    pub threads: usize,
    /// Stop after this many failures.
    pub failures_max: usize,
}

/// What the cases came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdicts([u64; 4]);

impl std::fmt::Display for Verdicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [whole, shorter, errors, refused] = self.0;
        write!(
            f,
            "{whole} read whole, {errors} read with errors, {refused} refused, {shorter} without the end \
             of a log that nothing left shows to have been durable"
        )
    }
}

impl Grounds {
    /// All of them; `seed` draws random bytes and the ways of opening.
    ///
    /// # Errors
    /// If the golden database cannot be had.
    pub fn new(seed: u64) -> Result<Grounds, Violation> {
        let others = golden::others(EARLIER)?;
        let grounds = Moment::ALL.into_iter().map(|moment| {
            let base = Base::new(moment)?;
            let damages = Damages::new(base.files.clone(), others.clone(), seed);
            Ok(Ground { base, damages })
        });
        Ok(Grounds { grounds: grounds.collect::<Result<_, Violation>>()?, seed })
    }

    /// How many cases there are.
    pub fn count(&self) -> u64 {
        self.grounds.iter().map(|ground| ground.damages.count()).sum()
    }

    fn find(&self, case: u64) -> Option<(&Ground, Damage)> {
        let mut rest = case;
        for ground in &self.grounds {
            let count = ground.damages.count();
            if rest < count {
                return Some((ground, ground.damages.get(rest)));
            }
            rest -= count;
        }
        None
    }

    /// Run case number `case`, in one way or several.
    fn case(
        &self,
        case: u64,
        bug: Option<Bug>,
        note: &mut dyn FnMut(Point, Verdict),
    ) -> Result<(), Violation> {
        let (ground, damage) = self.find(case).ok_or("there is no such case")?;
        let files = ground.damages.apply(damage);
        let scene = Scene::new(&ground.base, &files, bug);
        let point = scene.differing.first().map_or(Point::Other, |name| ground.base.point(name));
        let drawn = key_hash(&[self.seed, case].map(u64::to_le_bytes).concat());
        // Always for reading only, buffered; one in three in another way too.
        let more = usize::try_from(drawn % 9).ok().filter(|more| *more < 3).map(|more| Way::ALL[more + 1]);
        for way in [Some(Way::ALL[0]), more].into_iter().flatten() {
            let told = |what| {
                let damage = ground.damages.describe(damage);
                format!("{}, {damage}, {way:?}: {what}", ground.base.moment)
            };
            let verdict = contained(|| scene.check(way, drawn)).map_err(told)?;
            note(if way.read_only { point } else { Point::Recovery }, verdict);
        }
        Ok(())
    }

    /// The number of case `nth` of `count`: drawn, or in order from `first` on.
    fn number(&self, nth: u64, first: Option<u64>) -> u64 {
        if let Some(first) = first {
            return first + nth;
        }
        key_hash(&[self.seed, nth, 0x6e75_6d62].map(u64::to_le_bytes).concat()) % self.count()
    }
}

/// Run `count` cases, drawn or in order from `first` on, on `threads` threads.
///
/// # Errors
/// If the golden database cannot be had.
#[expect(clippy::disallowed_methods, reason = "the threads of a test, each with worlds of its own")]
pub fn many(
    seed: u64,
    first: Option<u64>,
    count: u64,
    effort: Effort,
    bug: Option<Bug>,
) -> Result<(Outcome, Verdicts), Violation> {
    let grounds = Grounds::new(seed)?;
    let Effort { threads, failures_max } = effort;
    let count = first.map_or(count, |first| count.min(grounds.count().saturating_sub(first)));
    let total = Mutex::new((Outcome::default(), Verdicts::default()));
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut mine = Outcome::default();
                let mut verdicts = Verdicts::default();
                while !stop.load(Ordering::Relaxed) {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= count {
                        break;
                    }
                    let case = grounds.number(nth, first);
                    mine.cases += 1;
                    let mut note = |point, verdict| {
                        mine.hits.count(point);
                        verdicts.0[verdict as usize] += 1;
                    };
                    if let Err(what) = grounds.case(case, bug, &mut note) {
                        mine.failures
                            .push(Failure { replay: format!("--seed {seed} --case {case}"), what });
                        stop.fetch_or(mine.failures.len() >= failures_max, Ordering::Relaxed);
                    }
                }
                let mut total = total.lock();
                total.0.add(mine);
                total.1.0.iter_mut().zip(verdicts.0).for_each(|(sum, more)| *sum += more);
            });
        }
    });
    let (mut outcome, verdicts) = total.into_inner();
    outcome.failures.truncate(failures_max);
    outcome.histories = grounds.grounds.len() as u64;
    outcome.moments = count;
    Ok((outcome, verdicts))
}

/// Run one case again.
///
/// # Errors
/// What was wrong.
pub fn replay(seed: u64, case: u64) -> Result<(), Violation> {
    let grounds = Grounds::new(seed)?;
    let (ground, damage) = grounds.find(case).ok_or("there is no such case")?;
    println!("{}: {}", ground.base.moment, ground.damages.describe(damage));
    grounds.case(case, None, &mut |point, verdict| println!("{point:?}: {verdict:?}"))
}
