//! The model suites, at the size that every change can wait for. `soak` runs them at any size.

use esker_tests::crash::Outcome;
use esker_tests::model;
use esker_tests::points::Point;

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
    for point in [Point::Rotation, Point::Flush, Point::Compaction, Point::Recovery] {
        assert!(outcome.hits.of(point) > 100, "{point:?} was hit {} times", outcome.hits.of(point));
    }
}
