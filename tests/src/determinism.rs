//! The same seed twice gives the same calls, the same steps and the same bytes.

use crate::case::{Case, Failure};
use crate::crash::{Outcome, record};
use crate::driver::{Recording, Violation};
use crate::setup::Setup;

/// Everything that must be equal.
fn fingerprint(recording: &Recording) -> [(&'static str, u64); 4] {
    [
        ("calls on the disk", recording.disk.trace_hash()),
        ("steps of background work", recording.steps_hash),
        ("bytes of the files", recording.disk.content_hash()),
        ("number of calls", recording.disk.trace_len() as u64),
    ]
}

/// Run the history of `setup` twice and compare.
pub fn twice(setup: &Setup) -> Result<(), Violation> {
    let (first, second) = (fingerprint(&record(setup)?), fingerprint(&record(setup)?));
    match first.iter().zip(&second).find(|(first, second)| first != second) {
        None => Ok(()),
        Some(((what, _), _)) => Err(format!("two runs differ in the {what}")),
    }
}

/// [`twice`] for `count` setups.
pub fn many(setup: impl Fn(u64) -> Setup, count: u64) -> Outcome {
    let mut outcome = Outcome::default();
    for nth in 0..count {
        let setup = setup(nth);
        outcome.cases += 1;
        outcome.histories += 2;
        if let Err(what) = twice(&setup) {
            outcome.failures.push(Failure { replay: Case::of(&setup).to_string(), what });
        }
    }
    outcome
}
