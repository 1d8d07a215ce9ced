//! The I/O error sweep: a history runs once to count its calls, then once for each call and each way in
//! which that can fail, for once or from then on, with the call's effect and without.
//!
//! While the fault lasts, calls answer as the model or err as promised (P4, P5). Once it is lifted, what
//! failed once goes on by itself; a handle that has stopped serves reads; the next open shows a state that
//! was promised, and so does every disk that a crash could leave from then on.
//!
//! A case counts only if its call was reached and failed. Short and interrupted calls are below this seam:
//! `esker_vfs::os` goes on after them, and its own tests see to that.

mod kind;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker::{DatabaseOptions, Error, WhenStalled};
use esker_base::checksum::key_hash;
use esker_base::filename::FileName;
use esker_vfs::clock::SimClock;
use esker_vfs::fault::{Fault, FaultFs, Operation};
use esker_vfs::mem::{MemFs, Policy};
use fastrand::Rng;
use parking_lot::Mutex;

pub use kind::{FaultAt, Kind, Span, kinds, takes_space};

use crate::case::Failure;
use crate::check::{Expected, check};
use crate::crash::{HISTORY_LEN, Outcome, contained};
use crate::determinism;
use crate::driver::Violation;
use crate::ops::{Op, history};
use crate::points::{Point, Tables};
use crate::setup::Setup;
use crate::spread::spread;
use crate::survivor::{Counts, PATIENCE, Survivor, Trouble};

/// For how many operations a fault that lasts is there.
const LASTS: usize = 15;
/// How many operations follow when it is over.
const AFTER: usize = 25;

/// A call of a history in which nothing fails.
#[derive(Clone, Copy, Debug)]
struct Site {
    operation: Operation,
    point: Point,
}

/// A call, and the file of ours that it names.
type Called = (Operation, Option<FileName>);

/// What was tried and found.
#[derive(Debug, Default)]
pub struct Swept {
    /// As of every suite.
    pub outcome: Outcome,
    /// What the faults came to.
    pub counts: Counts,
}

/// The setup of a history in which things go wrong: nobody waits for ever.
pub fn impatient(setup: &Setup) -> Setup {
    let options = DatabaseOptions { when_stalled: WhenStalled::WaitFor(PATIENCE), ..setup.options.clone() };
    Setup { options, ..setup.clone() }
}

/// The operations of `setup`'s history.
pub fn operations(setup: &Setup) -> Vec<Op> {
    history(setup.seed, HISTORY_LEN, setup.mode.always_logs())
}

/// A disk, and the filesystem over it that is to fail.
pub fn failing_disk() -> (MemFs, FaultFs) {
    let disk = MemFs::simulated();
    let fs = FaultFs::over(&disk, Arc::new(SimClock::new()));
    (disk, fs)
}

/// What each call of a history does when nothing fails.
fn sites(setup: &Setup, ops: &[Op]) -> Result<Vec<Site>, Violation> {
    let (disk, fs) = failing_disk();
    let seen: Arc<Mutex<Vec<Called>>> = Arc::default();
    let calls = Arc::clone(&seen);
    fs.plan(Fault::when(move |call| {
        let name = call.path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
        calls.lock().push((call.operation, name));
        false
    }));
    let mut survivor = Survivor::new(setup, &disk, Arc::new(fs.clone()));
    let mut opens = Vec::new();
    survivor.open()?.map_err(|e| e.to_string())?;
    opens.push(0..fs.calls());
    for op in ops {
        let before = fs.calls();
        survivor.op(op)?;
        if *op == Op::Reopen {
            opens.push(before..fs.calls());
        }
    }
    let tables = survivor.tables.lock().clone();
    let calls = seen.lock();
    let site = |(number, (operation, name)): (u64, &Called)| {
        let opening = opens.iter().any(|open| open.contains(&number));
        let point = if opening { Point::Recovery } else { point_of(*operation, *name, &tables) };
        Site { operation: *operation, point }
    };
    Ok((0..).zip(calls.iter()).map(site).collect())
}

/// What a call on the file `name` is for.
fn point_of(operation: Operation, name: Option<FileName>, tables: &Tables) -> Point {
    match name {
        Some(FileName::Log(_)) if operation == Operation::Remove => Point::Flush,
        Some(FileName::Log(_)) if matches!(operation, Operation::Create | Operation::Allocate) => {
            Point::Rotation
        }
        Some(FileName::Log(_)) => Point::Log,
        Some(FileName::Table(number)) => tables.maker(number),
        Some(FileName::Blob(number)) => tables.maker_of_values(number),
        _ => Point::Manifest,
    }
}

/// Every way in which a call of the history may fail, all calls before another kind.
fn faults(sites: &[Site]) -> Vec<FaultAt> {
    let per_site: Vec<Vec<Kind>> = sites.iter().map(|site| kinds(site.operation)).collect();
    let rounds = per_site.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = Vec::new();
    for round in 0..rounds {
        for (call, (site, kinds)) in (0..).zip(sites.iter().zip(&per_site)) {
            let operation = site.operation;
            all.extend(kinds.get(round).map(|&kind| FaultAt { call, operation, kind }));
        }
    }
    all
}

/// Run the history of `setup` with one fault; what it came to, or `None` if the call was never reached.
fn one(setup: &Setup, ops: &[Op], at: FaultAt) -> Result<Option<Counts>, Violation> {
    let (disk, fs) = failing_disk();
    let mut survivor = Survivor::new(setup, &disk, Arc::new(fs.clone()));
    survivor.watch(fs.clone());
    fs.plan(at.plan());
    survivor.trouble = Trouble::Here;
    let fired = || !fs.fired().is_empty();
    let mut rest = ops.iter();
    let mut left = if at.kind.span == Span::Once { LASTS / 2 } else { LASTS };
    if survivor.open()?.is_err() && !fired() {
        return Err("the first open fails before anything does".to_owned());
    }
    while left > 0 {
        left -= usize::from(fired());
        if !survivor.is_open() {
            // Once more, and once more after that; then the fault has to go.
            drop(survivor.open()?);
            continue;
        }
        let Some(op) = rest.next() else { break };
        let before = survivor.counts;
        survivor.op(op).map_err(|what| format!("{op:.60?}: {what}"))?;
        let quiet = Counts { acknowledged: survivor.counts.acknowledged, ..before };
        if !fired() && survivor.counts != quiet {
            return Err(format!("{op:.60?} fails before anything does"));
        }
    }
    if !fired() {
        return Ok(None);
    }
    fs.clear();
    crash(&survivor, setup, &disk, None, at.call)?;
    recovers(&mut survivor, Some(at)).map_err(|what| format!("once nothing fails any more, {what}"))?;
    for op in rest.take(AFTER) {
        survivor.op(op).map_err(|what| format!("later, {op:.60?}: {what}"))?;
    }
    holds_after(&mut survivor, setup, &disk, at.call)?;
    Ok(Some(survivor.counts))
}

/// Nothing fails any more: the handle goes on, or has stopped and says so; then the next does.
/// `at` is the fault that was lifted, if it was a single one.
pub fn recovers(survivor: &mut Survivor<'_>, at: Option<FaultAt>) -> Result<(), Violation> {
    // What was tried while it failed is tried again after a pause.
    if let Some(world) = survivor.world() {
        world.steps.settle();
        world.clock.advance(Duration::from_secs(2));
    }
    survivor.rest();
    survivor.trouble = Trouble::None;
    if !survivor.is_open() {
        return survivor.open()?.map_err(|e| e.to_string());
    }
    if let Some(stopped) = survivor.refuses_writes() {
        if at.is_some_and(|at| at.kind.span == Span::Once && !at.operation.syncs()) {
            return Err(format!("a single failure has stopped writes: {stopped}"));
        }
        return reopens(survivor, &stopped);
    }
    match survivor.db().map(esker::Database::flush) {
        // The set of files had stopped, and writers hear of it now.
        Some(Err(stopped @ Error::Poisoned { .. })) if at.is_none_or(|at| at.operation.syncs()) => {
            return reopens(survivor, &stopped);
        }
        Some(Err(error)) => return Err(format!("flush: {error}")),
        _ => {}
    }
    survivor.rest();
    if let Some(db) = survivor.db() {
        db.wait_for_compactions().map_err(|e| format!("waiting for compactions: {e}"))?;
    }
    survivor.read_everything()
}

/// The handle has `stopped`: it serves reads, and the next one goes on.
fn reopens(survivor: &mut Survivor<'_>, stopped: &Error) -> Result<(), Violation> {
    survivor.note_stopped(stopped);
    survivor.read_everything()?;
    let _ = survivor.close()?;
    survivor.open()?.map_err(|e| e.to_string())
}

/// Crash `disk` after so many `calls`, or now, and check what that leaves.
pub fn crash(
    survivor: &Survivor<'_>,
    setup: &Setup,
    disk: &MemFs,
    calls: Option<usize>,
    seed: u64,
) -> Result<(), Violation> {
    if !survivor.speaks_of_crashes() {
        return Ok(());
    }
    let mut random = Rng::with_seed(setup.seed ^ seed);
    let now = disk.trace_len();
    let policy = match calls {
        None if random.bool() => Policy::Strict,
        _ => Policy::ALL[random.usize(0..Policy::ALL.len())],
    };
    let (calls, seed) = (calls.unwrap_or(now), random.u64(..1 << 32));
    let image = disk.crash_point(calls).image(policy, seed);
    let expected = Expected::after(survivor.oracle(), calls);
    check(setup, &image, &expected, seed).map_err(|what| {
        let last = calls.checked_sub(1).map_or_else(String::new, |last| disk.describe_call(last));
        format!("then a crash after call {calls} of {now} ({last}), {policy:?}:{seed}: {what}")
    })
}

/// After all of it: crashes leave what was promised, and so does a close.
pub fn holds_after(
    survivor: &mut Survivor<'_>,
    setup: &Setup,
    disk: &MemFs,
    seed: u64,
) -> Result<(), Violation> {
    let mut random = Rng::with_seed(setup.seed ^ seed);
    crash(survivor, setup, disk, None, random.u64(..))?;
    crash(survivor, setup, disk, Some(random.usize(survivor.sound_from()..=disk.trace_len())), seed)?;
    survivor.close()?.map_err(|e| format!("the last close: {e}"))?;
    survivor.open()?.map_err(|e| format!("the last open: {e}"))?;
    let verified = survivor.db().map(esker::Database::verify);
    verified.map_or(Ok(()), |it| it.map(drop).map_err(|e| format!("verify: {e}")))
}

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// At most so many faults of one history, spread over all; 0 for every one.
    pub per_history: usize,
    /// Pass over so many faults of the first history.
    pub skip: usize,
    /// Only syncs.
    pub only_syncs: bool,
    /// Stop after this many failures.
    pub failures_max: usize,
}

/// Sweep histories until `count` faults have happened. `setup` makes the one of each number.
pub fn sweep_many(setup: impl Fn(u64) -> Setup, count: u64, sweep: Sweep, threads: usize) -> Swept {
    let total = Mutex::new(Swept::default());
    let done = AtomicU64::new(0);
    for nth in 0.. {
        let setup = impatient(&setup(nth));
        let ops = operations(&setup);
        total.lock().outcome.histories += 1;
        let sites = match contained(|| sites(&setup, &ops)) {
            Ok(sites) => sites,
            Err(what) => {
                let replay = format!("--seed {} --mode {}", setup.seed, setup.mode);
                total.lock().outcome.failures.push(Failure { replay, what });
                break;
            }
        };
        total.lock().outcome.moments += sites.len() as u64;
        let mut all = faults(&sites);
        all.retain(|at| !sweep.only_syncs || at.operation.syncs());
        if sweep.per_history > 0 && all.len() > sweep.per_history {
            let phase = usize::try_from(setup.seed).unwrap_or(0) % (all.len() / sweep.per_history);
            all = (0..sweep.per_history).map(|i| all[i * all.len() / sweep.per_history + phase]).collect();
        }
        all.drain(..if nth == 0 { sweep.skip.min(all.len()) } else { 0 });
        spread(threads, &all, |at| {
            let doubled = determinism::chosen(setup.seed ^ key_hash(at.to_string().as_bytes()));
            let ran = determinism::run(doubled, || contained(|| one(&setup, &ops, *at)));
            let mut total = total.lock();
            match ran {
                Ok(None) => {}
                Ok(Some(counts)) => {
                    total.counts.add(&counts);
                    total.outcome.cases += 1;
                    total.outcome.doubled += u64::from(doubled);
                    let site = usize::try_from(at.call).ok().and_then(|call| sites.get(call));
                    total.outcome.hits.count(site.map_or(Point::Other, |site| site.point));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Err(what) => {
                    total.outcome.cases += 1;
                    let replay = format!("--seed {} --mode {} --case {at}", setup.seed, setup.mode);
                    total.outcome.failures.push(Failure { replay, what: format!("{at}: {what}") });
                }
            }
            done.load(Ordering::Relaxed) < count && total.outcome.failures.len() < sweep.failures_max
        });
        let failed = total.lock().outcome.failures.len() >= sweep.failures_max;
        if failed || done.load(Ordering::Relaxed) >= count {
            break;
        }
    }
    total.into_inner()
}

/// Run one case again.
pub fn replay(setup: &Setup, at: FaultAt) -> Result<(), Violation> {
    let setup = impatient(setup);
    match determinism::run(true, || contained(|| one(&setup, &operations(&setup), at)))? {
        Some(counts) => {
            println!("{counts:?}");
            Ok(())
        }
        None => Err("the call was never reached".to_owned()),
    }
}
