//! No descriptors for a while: commits are aborted or refused and nothing else, what is in memory and in open
//! tables is read, and the same handle goes on by itself once there are descriptors again (row 21).
//!
//! Simulated: from a random moment of a history on, every call that would take a descriptor fails but a few,
//! and a few operations later none does. `kill` has real processes that have few descriptors all their life.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_vfs::fault::{Cause, Fault, Operation};
use fastrand::Rng;

use crate::driver::Violation;
use crate::fault::{failing_disk, holds_after, impatient, operations, recovers};
use crate::points::Point;
use crate::setup::Setup;
use crate::shortage::Shortage;
use crate::survivor::{Counts, Survivor, Trouble};

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

/// Descriptors that run out for a while.
pub const SIMULATED: Shortage = Shortage { one, hits: Point::Flush };
