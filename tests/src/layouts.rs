//! The layouts under power loss: a history of operations of all of them in one database, and at every moment
//! of it a crash. What is recovered must be, for all layouts together, the state after a number of operations
//! between those acknowledged for good and those begun; and each layout's own invariants must hold in it.
//!
//! A layout is a [`Subject`]: it does one operation at a time, each one commit, and shows what it holds
//! through its public interface, having compared everything that it keeps twice. Every subject has a keyspace
//! of its own.

pub mod fields;
pub mod relations;
pub mod rows;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use esker::{Database, Durability};
use esker_layouts::engine::EngineStore;
use esker_layouts::kv::MergeOps;
use esker_vfs::mem::MemFs;
use esker_vfs::sim::Simulation;
use fastrand::Rng;

use crate::case::Failure;
use crate::crash::{contained, crashes};
use crate::driver::Violation;
use crate::setup::{DIR, Mode, Setup};

/// How many users, rows, elements a subject plays with.
pub const FEW: u64 = 8;

/// A layout as the suite sees it.
pub trait Subject: Sync {
    /// Its name, which is its keyspace's.
    fn name(&self) -> String;

    /// One operation, drawn from `random`, that commits at most once.
    ///
    /// # Errors
    /// What the layout said.
    fn step(&self, store: &EngineStore, random: &mut Rng) -> esker_layouts::Result<()>;

    /// Everything it holds, in words.
    ///
    /// # Errors
    /// What the layout said, or which invariant does not hold.
    fn look(&self, store: &EngineStore) -> Result<String, Violation>;
}

/// `shown` for [`Subject::look`].
pub fn show(shown: &impl Debug) -> String {
    format!("{shown:?}")
}

/// An error in words.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` wants it")]
pub fn told(error: impl ToString) -> Violation {
    error.to_string()
}

/// Every layout there is.
pub fn all() -> Vec<Box<dyn Subject>> {
    let mut subjects = relations::subjects();
    subjects.extend(rows::subjects());
    subjects.extend(fields::subjects());
    subjects
}

/// What was tried and found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Distinct images that were recovered.
    pub cases: u64,
    /// After how many of the operations a recovered state was, at least and at most.
    pub found: Option<(usize, usize)>,
    /// What failed.
    pub failures: Vec<Failure>,
}

/// A database with a store for each subject.
struct Stores {
    database: Database,
    each: Vec<EngineStore>,
}

fn open(
    setup: &Setup,
    durability: Durability,
    disk: &MemFs,
    seed: u64,
    subjects: &[Box<dyn Subject>],
) -> Result<Stores, Violation> {
    let world = Simulation::on(disk.clone(), seed);
    let options = esker::DatabaseOptions { durability, ..setup.options.clone() };
    let builder =
        Database::builder(DIR).options(options).env(world.env()).merge_operator(Arc::new(MergeOps));
    let database = builder.open().map_err(|e| format!("open: {e}"))?;
    let store = |name: String| EngineStore::of(database.clone(), &name).map_err(told);
    let each = subjects.iter().map(|subject| store(subject.name())).collect::<Result<_, _>>()?;
    Ok(Stores { database, each })
}

/// An operation that was done.
struct Done {
    /// The trace's length before it and when it had returned.
    calls: (usize, usize),
    /// What each subject held then; shared with the state before where it is the same.
    state: Vec<Arc<str>>,
}

/// Run `ops` operations of `subjects` in `mode`, [`Mode::Sync`] or [`Mode::Os`], and crash them in at most
/// `most` ways.
pub fn crash_layouts(
    seed: u64,
    mode: Mode,
    ops: usize,
    most: usize,
    subjects: &[Box<dyn Subject>],
) -> Result<Outcome, Violation> {
    let setup = Setup::new(seed, mode);
    let durability = mode.durability(0);
    let disk = MemFs::simulated();
    let mut random = Rng::with_seed(seed);
    let stores = open(&setup, durability, &disk, seed, subjects)?;
    let look = |stores: &Stores, nth: usize| -> Result<Arc<str>, Violation> {
        let (subject, store) = (&subjects[nth], &stores.each[nth]);
        subject.look(store).map(Into::into).map_err(|what| format!("{}: {what}", subject.name()))
    };
    let state = (0..subjects.len()).map(|nth| look(&stores, nth)).collect::<Result<Vec<_>, _>>()?;
    // Every table has been opened, so it exists, and stays.
    stores.database.flush().map_err(told)?;
    let begin = disk.trace_len();
    let mut history = vec![Done { calls: (0, begin), state }];
    for nth in 0..ops {
        let which = random.usize(0..subjects.len());
        let before = disk.trace_len();
        let stepped = subjects[which].step(&stores.each[which], &mut random);
        stepped.map_err(|e| format!("operation {nth}, {}: {e}", subjects[which].name()))?;
        if random.u8(..) < 8 {
            stores.database.flush().map_err(told)?;
        }
        let calls = (before, disk.trace_len());
        let mut state = history.last().map(|done| done.state.clone()).unwrap_or_default();
        state[which] = look(&stores, which)?;
        history.push(Done { calls, state });
    }
    let mut outcome = Outcome::default();
    let mut seen = BTreeSet::new();
    let (_, all) = crashes(&disk, Some(most), seed);
    for (crash, image) in all {
        if crash.calls < begin || !seen.insert(image.content_hash()) {
            continue;
        }
        outcome.cases += 1;
        let begun = history.iter().filter(|done| done.calls.0 <= crash.calls).count();
        let synced = history.iter().filter(|done| done.calls.1 <= crash.calls).count();
        let least = if mode == Mode::Sync { synced.max(1) } else { 1 };
        let recovered = contained(|| {
            let stores = open(&setup, durability, &image, seed ^ crash.calls as u64, subjects)?;
            let found: Vec<Arc<str>> =
                (0..subjects.len()).map(|nth| look(&stores, nth)).collect::<Result<_, _>>()?;
            let allowed = history.iter().enumerate().skip(least - 1).take(begun + 1 - least);
            let after = allowed.filter(|(_, done)| done.state == found).map(|(nth, _)| nth).next_back();
            after.ok_or_else(|| difference(subjects, &found, &history, least - 1..begun))
        });
        match recovered {
            Ok(after) => {
                let (low, high) = outcome.found.unwrap_or((after, after));
                outcome.found = Some((low.min(after), high.max(after)));
            }
            Err(what) => {
                let place = crash.describe(&disk);
                outcome
                    .failures
                    .push(Failure { replay: format!("seed {seed}"), what: format!("{place}: {what}") });
                break;
            }
        }
    }
    Ok(outcome)
}

/// Which subject's state is none of those allowed.
fn difference(
    subjects: &[Box<dyn Subject>],
    found: &[Arc<str>],
    history: &[Done],
    allowed: std::ops::Range<usize>,
) -> Violation {
    for (nth, found) in found.iter().enumerate() {
        let states =
            || history.get(allowed.clone()).unwrap_or_default().iter().map(|done| &done.state[nth]);
        if !states().any(|state| state == found) {
            let last = states().next_back();
            return format!(
                "{} holds {found}, after operation {}: {last:?}",
                subjects[nth].name(),
                allowed.end
            );
        }
    }
    format!(
        "each layout is as it was after one of the operations {allowed:?}, but not all after the same one"
    )
}
