//! Crashes in the recovery from a crash, and in the recovery from that.
//!
//! Until a recovery has returned, any state that the first crash allowed is allowed. Once it has
//! returned, somebody may have seen what it found: every later recovery finds exactly that (P3).

use std::collections::BTreeSet;

use esker_vfs::mem::MemFs;
use fastrand::Rng;

use crate::case::{Case, Crash, Failure};
use crate::check::{Expected, check, recover};
use crate::crash::{Outcome, contained, crashes};
use crate::driver::Violation;
use crate::oracle::contents_hash;
use crate::points::Point;
use crate::setup::Setup;

/// Crashes of one recovery.
const CRASHES: usize = 24;

/// What a recovery did to its disk.
struct Recovered<'a> {
    /// How many calls had been made when it returned.
    calls: usize,
    /// What is allowed from then on.
    expected: Expected<'a>,
}

/// Recover `image`, close, and say what is to be expected of crashes meanwhile.
fn recovered<'a>(
    setup: &Setup,
    image: &MemFs,
    expected: &Expected<'a>,
    seed: u64,
) -> Result<Recovered<'a>, Violation> {
    let (db, contents) = recover(setup, image, expected, seed)?;
    let calls = image.trace_len();
    let found = expected.oracle.find(contents_hash(&contents), &expected.allowed);
    let found = found.ok_or("a state that is none")?;
    db.close().map_err(|e| format!("close after recovery: {e}"))?;
    let there: BTreeSet<String> = contents.into_keys().collect();
    let (certain, possible) = (there.clone(), there);
    let expected = Expected { oracle: expected.oracle, allowed: found..=found, certain, possible };
    Ok(Recovered { calls, expected })
}

/// What a crash after `crash` of the recovery may leave.
fn allowed_after<'a>(recovered: &Recovered<'a>, before: &Expected<'a>, crash: &Crash) -> Expected<'a> {
    if crash.calls >= recovered.calls { recovered.expected.clone() } else { before.clone() }
}

/// Recover `image`, which `case` leads to, and crash that recovery in a few ways; `depth` deep.
pub fn crash_recovery(
    setup: &Setup,
    case: &Case,
    image: &MemFs,
    expected: &Expected<'_>,
    depth: usize,
    outcome: &mut Outcome,
) {
    let seed = case.derived_seed();
    let recovered = match contained(|| recovered(setup, image, expected, seed)) {
        Ok(recovered) => recovered,
        Err(what) => {
            outcome.failures.push(Failure { replay: case.to_string(), what });
            return;
        }
    };
    let mut random = Rng::with_seed(seed);
    let (_, crashes) = crashes(image, Some(CRASHES), seed);
    for (crash, left) in crashes {
        let expected = allowed_after(&recovered, expected, &crash);
        let place = crash.describe(image);
        let case = case.then(crash);
        outcome.cases += 1;
        outcome.hits.count(Point::Recovery);
        if depth > 1 && random.u8(0..4) == 0 {
            crash_recovery(setup, &case, &left, &expected, depth - 1, outcome);
        } else if let Err(what) = contained(|| check(setup, &left, &expected, case.derived_seed())) {
            let what = format!("in the recovery, {place}: {what}");
            outcome.failures.push(Failure { replay: case.to_string(), what });
        }
    }
}

/// Run the crashes `later` in the recovery from `image`, which `case` has led to, and check what is left.
pub fn replay(
    setup: &Setup,
    case: &Case,
    later: &[Crash],
    image: &MemFs,
    expected: &Expected<'_>,
) -> Result<(), Violation> {
    let Some((crash, later)) = later.split_first() else {
        return check(setup, image, expected, case.derived_seed());
    };
    let recovered = recovered(setup, image, expected, case.derived_seed())?;
    let expected = allowed_after(&recovered, expected, crash);
    println!("in the recovery, {}; commits {:?} may be there", crash.describe(image), expected.allowed);
    let left = crash.image(image);
    replay(setup, &case.then(crash.clone()), later, &left, &expected)
}
