//! The transactions suite: is what commits serialisable?
//!
//! White box ([`white`]): every transaction leaves its number in a list that tells the order of commits;
//! replayed in that order against the model, each must have read what it says it read. Sixteen threads, or
//! many transactions at once in step mode while the filesystem fails. Black box ([`lists`]): lists are
//! appended to and read, and a graph of who must come before whom ([`cycles`]) must have no cycle; accounts
//! ([`bank`]) must always hold the same sum.
//!
//! A case is a transaction that was tried.

use crate::case::Failure;
use crate::crash::{Outcome, contained};
use crate::determinism;
use crate::driver::Violation;
use crate::many::many;
use crate::planted::Bug;
use crate::points::Hits;

pub mod bank;
pub mod cycles;
pub mod lists;
pub mod white;

/// Threads of a history that has them.
pub const THREADS: usize = 16;

/// What a history came to: transactions tried, and what it went through.
pub type Tried = (u64, Hits);

/// Let another thread go on.
#[expect(clippy::disallowed_methods, reason = "the threads of a test meet more often so")]
fn give_way() {
    std::thread::yield_now();
}

/// The history of `seed`: its kind follows from it.
pub fn history(seed: u64, bug: Option<Bug>) -> Outcome {
    let in_steps = matches!(seed % 6, 2 | 3);
    // Two histories in six are in step mode: of all, one in nine runs twice.
    let doubled = in_steps && determinism::chosen_of(3, seed);
    let outcome = determinism::run(doubled, || {
        contained(|| match seed % 6 {
            0 | 1 => white::with_threads(seed, bug),
            2 | 3 => white::with_faults(seed, bug),
            4 => lists::with_threads(seed, bug),
            _ => bank::with_threads(seed, bug),
        })
    });
    let mut all = outcome_of(seed, outcome);
    all.doubled = if doubled { all.cases } else { 0 };
    all
}

fn outcome_of(seed: u64, outcome: Result<Tried, Violation>) -> Outcome {
    let mut all = Outcome { histories: 1, moments: 1, ..Outcome::default() };
    match outcome {
        Ok((tried, hits)) => (all.cases, all.hits) = (tried, hits),
        Err(what) => {
            all.cases = 1;
            all.failures.push(Failure { replay: format!("--seed {seed} --count 1"), what });
        }
    }
    all
}

/// Histories from seed `first` on, until `count` transactions were tried.
pub fn histories(first: u64, count: u64, threads: usize, failures_max: usize) -> Outcome {
    many(count, threads, failures_max, |nth| history(first.wrapping_add(nth), None))
}
