//! Full disks: commits are aborted and nothing else, reads go on, and work resumes by itself once there is
//! space again.
//!
//! Simulated, space runs out at a random moment of a history and returns a few operations later. For real,
//! a small filesystem in memory is filled, and somebody else's file makes room ([`real`]).

pub mod real;

use esker_vfs::fs::Fs;
use esker_vfs::mem::MemFs;
use fastrand::Rng;
use std::path::Path;
use std::sync::Arc;

use crate::driver::Violation;
use crate::fault::{holds_after, impatient, operations, recovers};
use crate::points::Point;
use crate::setup::Setup;
use crate::shortage::Shortage;
use crate::survivor::{Counts, Survivor, Trouble};

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

/// Simulated disks that are full for a while.
pub const SIMULATED: Shortage = Shortage { one, hits: Point::Log };
