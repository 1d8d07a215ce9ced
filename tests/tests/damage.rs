//! The damage suites, at the size that every change can wait for. `soak damage` runs them at any size.

use esker_tests::damage::newest::newest_log;
use esker_tests::damage::{Effort, live, many};
use esker_tests::setup::{Mode, Setup};

const EFFORT: Effort = Effort { threads: 2, failures_max: 3 };

#[test]
fn damage_is_an_error_or_makes_no_difference() {
    let (outcome, verdicts) = many(1, None, 6_000, EFFORT, None).expect("the golden database");
    println!("{verdicts}; {}", outcome.hits);
    if let Some(failure) = outcome.failures.first() {
        panic!("{}\n  replay: soak damage {}", failure.what, failure.replay);
    }
    assert_eq!(outcome.cases, 6_000);
    for point in esker_tests::points::Point::ALL.into_iter().take(6) {
        assert!(outcome.hits.of(point) > 15, "{point:?} was hit {} times", outcome.hits.of(point));
    }
}

#[test]
fn the_newest_log_is_missed() {
    for seed in 0..4 {
        newest_log(&Setup::new(seed, Mode::Os)).expect("an error that names the log");
    }
}

#[test]
fn verify_finds_damage_under_an_open_database() {
    for read_only in [true, false] {
        let tried = live::under_an_open_database(read_only, 5).expect("verify finds it");
        assert!(tried.bytes > 3_000, "{tried:?}");
    }
}
