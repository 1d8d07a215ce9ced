//! The model suites, at the size that every change can wait for. `soak` runs them at any size.

use esker_tests::crash::Outcome;
use esker_tests::points::Point;
use esker_tests::{metamorphic, model, transactions};

fn expect_none(suite: &str, outcome: &Outcome) {
    println!("{suite}: {} cases; went through points: {}", outcome.cases, outcome.hits);
    if let Some(failure) = outcome.failures.first() {
        panic!("{}\n  replay: soak {suite} {}", failure.what, failure.replay);
    }
}

#[test]
fn every_answer_is_that_of_sorted_maps() {
    let outcome = model::histories(1, 300_000, 2, 1);
    expect_none("model", &outcome);
    assert!(outcome.cases >= 300_000);
    assert!(outcome.doubled > 0);
    for point in [Point::Rotation, Point::Flush, Point::Compaction, Point::Recovery] {
        assert!(outcome.hits.of(point) > 100, "{point:?} was hit {} times", outcome.hits.of(point));
    }
}

#[test]
fn every_configuration_gives_the_same_answers() {
    let outcome = metamorphic::scripts(1, 4 * metamorphic::CONFIGURATIONS, 2, 1);
    expect_none("metamorphic", &outcome);
    assert!(outcome.cases >= 4 * metamorphic::CONFIGURATIONS);
    assert!(outcome.doubled * 20 >= outcome.cases, "{} of {} ran twice", outcome.doubled, outcome.cases);
    assert!(outcome.hits.of(Point::Compaction) > 100 && outcome.hits.of(Point::Recovery) > 100);
}

#[test]
fn what_commits_is_serialisable() {
    let outcome = transactions::histories(1, 20_000, 2, 1);
    expect_none("transactions", &outcome);
    assert!(outcome.cases >= 20_000);
    assert!(outcome.doubled > 0);
}
