//! Every planted bug is found, and without it nothing is.
#![expect(clippy::disallowed_methods, reason = "how long a hunt takes is told")]

use std::time::Instant;

use esker_tests::crash::{Effort, Outcome, crash_many, in_turn};
use esker_tests::determinism::MARK;
use esker_tests::fault::{Sweep, sweep_many};
use esker_tests::planted::Bug;
use esker_tests::setup::{Mode, Setup};
use esker_tests::{callbacks, clock, enospc, metamorphic, model, transactions};

/// A hunt may take so many cases. (Not so much time: that would be the machine's.)
const HUNT_CASES: u64 = 10_000;

/// The suites find each bug of `bugs`, and without it they find nothing.
fn caught(bugs: impl Iterator<Item = Bug>) {
    let mut missed = Vec::new();
    for bug in bugs {
        let began = Instant::now();
        let with = bug.hunt(true, 1, HUNT_CASES);
        let took = began.elapsed();
        match with.failures.first() {
            None => missed.push(format!("{bug} was not found in {} cases", with.cases)),
            Some(failure) => {
                let what = failure.what.lines().next().unwrap_or_default();
                println!("{bug} ({}) after {} cases, {took:.1?}: {what}", bug.breaks(), with.cases);
            }
        }
        let without = bug.hunt(false, 1, with.cases.clamp(500, 10_000) / 50);
        if let Some(failure) = without.failures.first() {
            missed.push(format!("without {bug}: {}", failure.what));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn bugs_of_the_filesystem_are_caught() {
    caught(Bug::all().filter(|bug| bug.lie().is_some()));
}

#[test]
#[cfg_attr(not(feature = "planted"), ignore = "the bugs are inside the engine: --features planted")]
fn bugs_of_the_engine_are_caught() {
    caught(Bug::all().filter(|bug| bug.lie().is_none()));
}

#[test]
fn every_rule_and_promise_has_a_bug() {
    let broken: Vec<&str> = Bug::all().flat_map(|bug| bug.breaks().split(", ")).collect();
    let rules = (1..=10).map(|rule| format!("rule {rule}"));
    for wanted in rules.chain((1..=7).map(|promise| format!("P{promise}"))) {
        assert!(broken.contains(&wanted.as_str()), "no bug breaks {wanted}");
    }
    assert!(Bug::all().count() >= 24);
}

/// One case in ten of these runs twice: a disk whose answers follow from no seed is noticed by each.
#[test]
fn what_follows_from_no_seed_is_noticed_wherever_cases_run_twice() {
    let bug = Bug::named("moody-disk");
    let setup = |first: u64| move |nth: u64| Setup { bug, ..in_turn(first, &Mode::ALL)(nth) };
    let effort = |depth| Effort { per_history: Some(40), depth, failures_max: 1 };
    let sweep = |only_syncs| Sweep { per_history: 40, skip: 0, only_syncs, failures_max: 1 };
    let until_found = |history: &dyn Fn(u64) -> Outcome| {
        let mut all = (0..200).map(history);
        all.find(|outcome| !outcome.failures.is_empty()).unwrap_or_default()
    };
    let suites = [
        ("crash", crash_many(setup(1), 2_000, effort(0), 1)),
        ("nested", crash_many(setup(1), 2_000, effort(1), 1)),
        ("fault", sweep_many(setup(1), 400, sweep(false), 1).outcome),
        ("badsync", sweep_many(setup(1), 400, sweep(true), 1).outcome),
        ("enospc", enospc::SIMULATED.simulated(setup(1), 200, 1, 1).outcome),
        ("callbacks", callbacks::sweep(setup(1), 400, 40, 1).0),
        ("clock", clock::sweep(setup(1), 200, 20, 1)),
        ("model", until_found(&|seed| model::history(seed, bug))),
        ("metamorphic", until_found(&|seed| metamorphic::script(seed, bug, 1))),
        ("transactions", until_found(&|seed| transactions::history(seed * 6 + 2, bug))),
    ];
    for (suite, outcome) in suites {
        let what = outcome.failures.first().map(|failure| failure.what.as_str());
        assert!(what.is_some_and(|what| what.contains(MARK)), "{suite}: {what:?}");
    }
}
