//! No descriptors for a while: commits are aborted or refused and nothing else, what is in memory and in open
//! tables is read, and the same handle goes on by itself once there are descriptors again (row 21).
//!
//! Simulated: from a random moment of a history on, every call that would take a descriptor fails but a few,
//! and a few operations later none does. `kill` has real processes that have few descriptors all their life.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_vfs::fault::{Cause, Fault, Operation};
use fastrand::Rng;
use parking_lot::Mutex;

use crate::case::Failure;
use crate::crash::contained;
use crate::determinism;
use crate::driver::Violation;
use crate::fault::{Swept, failing_disk, holds_after, impatient, operations, recovers};
use crate::points::Point;
use crate::setup::Setup;
use crate::spread::spread;
use crate::survivor::{Counts, Survivor, Trouble};

/// Shortages of one history.
const PER_HISTORY: u64 = 20;
/// For how many operations there are none.
const WITHOUT: usize = 15;

/// Whether the operation takes a descriptor.
fn takes_one(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Create
            | Operation::Open
            | Operation::OpenWritable
            | Operation::Map
            | Operation::List
            | Operation::OpenDir
    )
}

/// Take the descriptors away at a moment of `nth`'s choice. `None` if nobody noticed.
fn one(setup: &Setup, nth: u64) -> Result<Option<Counts>, Violation> {
    let setup = &impatient(setup);
    let ops = operations(setup);
    let mut random = Rng::with_seed(setup.seed ^ (nth << 40) ^ 0x6673);
    let from = random.usize(0..ops.len() - WITHOUT);
    let (disk, fs) = failing_disk();
    let mut survivor = Survivor::new(setup, &disk, Arc::new(fs.clone()));
    survivor.watch(fs.clone());
    survivor.open()?.map_err(|e| e.to_string())?;
    let (before, rest) = ops.split_at(from);
    for op in before {
        survivor.op(op)?;
    }
    // So many are left, and somebody closes one now and then.
    let (spare, every) = (random.u64(0..4), random.u64(2..8));
    let asked = AtomicU64::new(0);
    let none_left = move |operation| {
        let nth = asked.fetch_add(u64::from(takes_one(operation)), Ordering::Relaxed);
        takes_one(operation) && nth >= spare && !nth.is_multiple_of(every)
    };
    fs.plan(Fault::when(move |call| none_left(call.operation)).cause(Cause::Descriptors).sticky());
    survivor.trouble = Trouble::Here;
    let (without, after) = rest.split_at(WITHOUT);
    for op in without {
        if survivor.is_open() {
            survivor.op(op).map_err(|what| format!("without descriptors, {op:.60?}: {what}"))?;
        }
    }
    let counts = survivor.counts;
    if counts.in_doubt > 0 {
        return Err("a lack of descriptors puts a commit in doubt".to_owned());
    }
    fs.clear();
    if let Some(stopped) = survivor.refuses_writes() {
        return Err(format!("a lack of descriptors has stopped writes for good: {stopped}"));
    }
    recovers(&mut survivor, None).map_err(|what| format!("once there are descriptors, {what}"))?;
    for op in after {
        survivor.op(op).map_err(|what| format!("later, {op:.60?}: {what}"))?;
    }
    holds_after(&mut survivor, setup, &disk, nth)?;
    Ok((!fs.fired().is_empty()).then_some(counts))
}

/// `count` shortages.
pub fn simulated(setup: impl Fn(u64) -> Setup, count: u64, threads: usize, failures_max: usize) -> Swept {
    let total = Mutex::new(Swept::default());
    let mut nth = 0;
    while total.lock().outcome.cases < count && total.lock().outcome.failures.len() < failures_max {
        let setup = setup(nth);
        nth += 1;
        total.lock().outcome.histories += 1;
        let rounds: Vec<u64> = (0..PER_HISTORY).collect();
        spread(threads, &rounds, |&round| {
            let doubled = determinism::chosen(setup.seed ^ (round << 40));
            let ran = determinism::run(doubled, || contained(|| one(&setup, round)));
            let mut total = total.lock();
            match ran {
                Ok(None) => {}
                Ok(Some(counts)) => {
                    total.counts.add(&counts);
                    total.outcome.cases += 1;
                    total.outcome.doubled += u64::from(doubled);
                    total.outcome.hits.count(if counts.unopened > 0 {
                        Point::Recovery
                    } else {
                        Point::Flush
                    });
                }
                Err(what) => {
                    total.outcome.cases += 1;
                    let replay = format!("--seed {} --mode {} --case {round}", setup.seed, setup.mode);
                    total.outcome.failures.push(Failure { replay, what });
                }
            }
            total.outcome.cases < count && total.outcome.failures.len() < failures_max
        });
    }
    total.into_inner()
}

/// Run one case again.
pub fn replay(setup: &Setup, nth: u64) -> Result<(), Violation> {
    let counts = determinism::run(true, || contained(|| one(setup, nth)))?;
    println!("{counts:?}");
    Ok(())
}
