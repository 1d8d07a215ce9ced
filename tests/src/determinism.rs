//! The same case twice gives the same calls, the same steps and the same bytes.
//!
//! Every suite on simulated disks runs one case in ten twice and demands it. Whatever opens a database in step
//! mode tells of its world ([`note`]); while a case runs twice, the worlds of each run are kept, and what
//! their disks and schedulers have recorded is compared. Step mode is one thread, so what is kept is its own.

use std::cell::RefCell;
use std::fmt::Debug;

use esker_base::checksum::key_hash;
use esker_vfs::sim::Simulation;

use crate::case::{Case, Failure};
use crate::crash::{Outcome, record};
use crate::driver::Violation;
use crate::setup::Setup;

/// One case in so many runs twice.
pub const ONE_IN: u64 = 10;

/// What a message of this module has in it, and no other.
pub const MARK: &str = "the same case ran again and";

thread_local! {
    /// The worlds of the run that is watched, in the order in which databases were opened in them.
    static WORLDS: RefCell<Option<Vec<Simulation>>> = const { RefCell::new(None) };
}

/// A database is about to be opened in `world`.
pub fn note(world: &Simulation) {
    WORLDS.with_borrow_mut(|worlds| {
        if let Some(worlds) = worlds {
            worlds.push(world.clone());
        }
    });
}

/// Whether the case that `key` stands for is one of those that run twice.
pub fn chosen(key: u64) -> bool {
    chosen_of(ONE_IN, key)
}

/// Whether the case that `key` stands for is the one in `many`.
pub fn chosen_of(many: u64, key: u64) -> bool {
    key_hash(&key.to_le_bytes()).is_multiple_of(many)
}

/// Run `case`, and if `doubled` once more: both must come to the same by the same way.
///
/// # Errors
/// Those of the first run; or that the second differs, and in what.
pub fn run<T: PartialEq + Debug>(
    doubled: bool,
    mut case: impl FnMut() -> Result<T, Violation>,
) -> Result<T, Violation> {
    if !doubled {
        return case();
    }
    let (first, before) = watched(&mut case);
    let first = first?;
    let (second, after) = watched(&mut case);
    let second = second.map_err(|what| format!("{MARK} went wrong: {what}"))?;
    if first != second {
        return Err(format!("{MARK} came to {second:?}, not {first:?}"));
    }
    if before.len() != after.len() {
        return Err(format!("{MARK} opened {} databases, not {}", after.len(), before.len()));
    }
    let pairs = before.iter().zip(&after).enumerate();
    let all = pairs.flat_map(|(nth, (a, b))| a.iter().zip(b).map(move |both| (nth, both)));
    match all.into_iter().find(|(_, (a, b))| a != b) {
        None => Ok(first),
        Some((nth, ((what, _), _))) => Err(format!("{MARK} differs in the {what} of open number {nth}")),
    }
}

/// Run `case`, and everything that its worlds have recorded.
fn watched<T>(case: &mut impl FnMut() -> Result<T, Violation>) -> (Result<T, Violation>, Vec<Fingerprint>) {
    WORLDS.set(Some(Vec::new()));
    let outcome = case();
    let worlds = WORLDS.take().unwrap_or_default();
    (outcome, worlds.iter().map(fingerprint).collect())
}

/// What must be equal, and its name.
type Fingerprint = [(&'static str, u64); 5];

fn fingerprint(world: &Simulation) -> Fingerprint {
    [
        ("number of calls on the disk", world.disk.trace_len() as u64),
        ("calls on the disk", world.disk.trace_hash()),
        ("number of background steps", world.steps.step_count()),
        ("steps of background work", world.steps.trace_hash()),
        ("bytes of the files", world.disk.content_hash()),
    ]
}

/// Histories of `count` setups, each of which runs twice.
pub fn many(setup: impl Fn(u64) -> Setup, count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    for nth in 0..count {
        let setup = setup(nth);
        outcome.cases += 1;
        outcome.doubled += 1;
        outcome.histories += 2;
        if let Err(what) = run(true, || record(&setup).map(|recording| recording.steps_hash)) {
            outcome.failures.push(Failure { replay: Case::of(&setup).to_string(), what });
        }
    }
    outcome
}
