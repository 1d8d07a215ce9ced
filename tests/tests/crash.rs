//! The crash suites, at the size that every change can wait for. `soak` runs them at any size.

use esker_tests::crash::{Effort, Outcome, crash_many, in_turn};
use esker_tests::determinism;
use esker_tests::setup::Mode;

fn expect_none(suite: &str, outcome: &Outcome) {
    println!("{suite}: {} cases; crashed at points: {}", outcome.cases, outcome.hits);
    if let Some(failure) = outcome.failures.first() {
        panic!("{}\n  replay: soak {suite} {}", failure.what, failure.replay);
    }
}

/// One case in ten has run twice and was compared with itself.
fn expect_doubled(outcome: &Outcome) {
    assert!(outcome.doubled * 20 >= outcome.cases, "{} of {} ran twice", outcome.doubled, outcome.cases);
}

#[test]
fn power_loss_at_every_call_of_many_histories() {
    let effort = Effort { per_history: Some(500), depth: 0, failures_max: 1 };
    let outcome = crash_many(in_turn(1, &Mode::ALL), 10_000, effort, 2);
    expect_none("crash", &outcome);
    assert!(outcome.cases >= 10_000);
    expect_doubled(&outcome);
    for point in esker_tests::points::Point::ALL.into_iter().take(6) {
        assert!(outcome.hits.of(point) > 100, "{point:?} was hit {} times", outcome.hits.of(point));
    }
}

#[test]
fn power_loss_in_the_recovery_from_power_loss() {
    let effort = Effort { per_history: Some(12), depth: 2, failures_max: 1 };
    let outcome = crash_many(in_turn(1_000, &Mode::ALL), 2_500, effort, 2);
    expect_none("nested", &outcome);
    expect_doubled(&outcome);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    expect_none("determinism", &determinism::many(in_turn(2_000, &Mode::ALL), 15));
}
