//! Every planted bug is found, and without it nothing is.
#![expect(clippy::disallowed_methods, reason = "how long a hunt takes is part of the promise")]

use std::time::{Duration, Instant};

use esker_tests::planted::Bug;

/// A hunt may take this long.
const HUNT_MAX: Duration = Duration::from_mins(1);

/// The suites find each bug of `bugs`, and without it they find nothing.
fn caught(bugs: impl Iterator<Item = Bug>) {
    let mut missed = Vec::new();
    for bug in bugs {
        let began = Instant::now();
        let with = bug.hunt(true, 1, 20_000);
        let took = began.elapsed();
        match with.failures.first() {
            None => missed.push(format!("{bug} was not found in {} cases", with.cases)),
            Some(_) if took > HUNT_MAX => missed.push(format!("{bug} was found only after {took:?}")),
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
