//! Full disks: commits are aborted and nothing else, reads go on, and work resumes by itself once there is
//! space again.
//!
//! Simulated, space runs out at a random moment of a history and returns a few operations later. For real,
//! a small filesystem in memory is filled, and somebody else's file makes room ([`real`]).

pub mod real;

use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use fastrand::Rng;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

use crate::case::Failure;
use crate::crash::contained;
use crate::determinism;
use crate::driver::Violation;
use crate::fault::{Swept, holds_after, impatient, operations, recovers};
use crate::points::Point;
use crate::setup::Setup;
use crate::spread::spread;
use crate::survivor::{Counts, Survivor, Trouble};

/// Full disks of one history.
const PER_HISTORY: u64 = 20;
/// For how many operations a disk stays full.
const FULL: usize = 15;

/// How many bytes are in use on `disk`.
fn used(disk: &MemFs) -> Result<u64, Violation> {
    const ALL: u64 = 1 << 40;
    disk.set_capacity(Some(ALL));
    let free = disk.free_space(Path::new("/")).map_err(|e| e.to_string())?;
    Ok(ALL - free.unwrap_or(ALL))
}

/// Fill the disk under the history of `setup` at a moment of `nth`'s choice. `None` if nobody noticed.
fn one(setup: &Setup, nth: u64) -> Result<Option<Counts>, Violation> {
    let setup = &impatient(setup);
    let ops = operations(setup);
    let mut random = Rng::with_seed(setup.seed ^ (nth << 40));
    let from = random.usize(0..ops.len() - FULL);
    let disk = MemFs::simulated();
    let mut survivor = Survivor::new(setup, &disk, Arc::new(disk.clone()));
    survivor.open()?.map_err(|e| e.to_string())?;
    let (before, rest) = ops.split_at(from);
    for op in before {
        survivor.op(op)?;
    }
    disk.set_capacity(Some(used(&disk)? + random.u64(0..12) * 4096));
    survivor.trouble = Trouble::Here;
    let (full, after) = rest.split_at(FULL);
    for op in full {
        if survivor.is_open() {
            survivor.op(op).map_err(|what| format!("on a full disk, {op:.60?}: {what}"))?;
        }
    }
    let counts = survivor.counts;
    if counts.in_doubt > 0 {
        return Err("a full disk puts a commit in doubt".to_owned());
    }
    if counts.unread > 0 {
        return Err("a full disk keeps somebody from reading".to_owned());
    }
    disk.set_capacity(None);
    if let Some(stopped) = survivor.refuses_writes() {
        return Err(format!("a full disk has stopped writes for good: {stopped}"));
    }
    recovers(&mut survivor, None).map_err(|what| format!("once there is space, {what}"))?;
    for op in after {
        survivor.op(op).map_err(|what| format!("later, {op:.60?}: {what}"))?;
    }
    holds_after(&mut survivor, setup, &disk, nth)?;
    Ok((counts.aborted + counts.refused + counts.unopened > 0).then_some(counts))
}

/// Fill `count` simulated disks.
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
                        Point::Log
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

/// Run one simulated case again.
pub fn replay(setup: &Setup, nth: u64) -> Result<(), Violation> {
    let counts = determinism::run(true, || contained(|| one(setup, nth)))?;
    println!("{counts:?}");
    Ok(())
}
