//! What fails under a database, at the size that every change can wait for. `soak` runs it at any size.

use esker_tests::crash::{Outcome, in_turn};
use esker_tests::fault::{Sweep, sweep_many};
use esker_tests::lies::Lie;
use esker_tests::planted::Bug;
use esker_tests::points::Point;
use esker_tests::powercut::{Stop, stop_many};
use esker_tests::setup::{Mode, Setup};
use esker_tests::{callbacks, clock, descriptors, enospc, real};

fn expect_none(suite: &str, outcome: &Outcome) {
    println!("{suite}: {} cases; at points: {}", outcome.cases, outcome.hits);
    if let Some(failure) = outcome.failures.first() {
        panic!("{}\n  replay: soak {suite} {}", failure.what, failure.replay);
    }
}

/// One case in ten has run twice and was compared with itself.
fn expect_doubled(outcome: &Outcome) {
    assert!(outcome.doubled * 20 >= outcome.cases, "{} of {} ran twice", outcome.doubled, outcome.cases);
}

#[test]
fn errors_at_calls_all_over_many_histories() {
    let sweep = Sweep { per_history: 150, skip: 0, only_syncs: false, failures_max: 1 };
    let swept = sweep_many(in_turn(100, &Mode::ALL), 1_500, sweep, 2);
    expect_none("fault", &swept.outcome);
    expect_doubled(&swept.outcome);
    assert!(swept.outcome.cases >= 1_500);
    for point in Point::ALL.into_iter().take(6) {
        assert!(swept.outcome.hits.of(point) > 10, "{point:?}: {}", swept.outcome.hits.of(point));
    }
    let counts = swept.counts;
    for (what, count) in [
        ("aborted", counts.aborted),
        ("in doubt", counts.in_doubt),
        ("refused", counts.refused),
        ("unread", counts.unread),
        ("unopened", counts.unopened),
        ("stopped", counts.stopped),
    ] {
        assert!(count > 10, "{what}: {count}");
    }
}

#[test]
fn syncs_that_fail_are_believed_never_again() {
    let sweep = Sweep { per_history: 80, skip: 0, only_syncs: true, failures_max: 1 };
    let outcome = sweep_many(in_turn(200, &Mode::ALL), 400, sweep, 2).outcome;
    expect_none("badsync", &outcome);
    expect_doubled(&outcome);
}

#[test]
fn full_disks_are_left_behind_without_reopening() {
    let swept = enospc::SIMULATED.simulated(in_turn(300, &Mode::ALL), 100, 2, 1);
    expect_none("enospc", &swept.outcome);
    expect_doubled(&swept.outcome);
    assert!(swept.counts.aborted > 20, "{:?}", swept.counts);
}

#[test]
fn a_lack_of_descriptors_is_left_behind_without_reopening() {
    let swept = descriptors::SIMULATED.simulated(in_turn(600, &Mode::ALL), 100, 2, 1);
    expect_none("descriptors", &swept.outcome);
    expect_doubled(&swept.outcome);
    assert!(swept.counts.refused + swept.counts.aborted > 20, "{:?}", swept.counts);
}

#[test]
fn real_full_disks_are_left_behind_without_reopening() {
    if let Some(why) = real::no_memory_mounts() {
        real::say_skipped("enospc-real", &why);
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let modes = [Mode::Sync, Mode::Interval, Mode::Os, Mode::NoLog];
    let (outcome, (aborted, refused)) = enospc::real::disks(dir.path(), 1, &modes, 8);
    expect_none("enospc-real", &outcome);
    assert!(aborted + refused > 100, "{aborted} commits were aborted, {refused} refused");
}

#[test]
fn panics_of_callbacks_are_contained() {
    let (outcome, by) = callbacks::sweep(in_turn(400, &Mode::ALL), 400, 50, 2);
    expect_none("callbacks", &outcome);
    expect_doubled(&outcome);
    for what in ["fold", "listener", "transaction", "get_with", "scan"] {
        assert!(by.contains_key(what), "{what} never panicked: {by:?}");
    }
}

#[test]
fn clocks_may_do_as_they_like() {
    let outcome = clock::sweep(in_turn(500, &Mode::ALL), 100, 20, 2);
    expect_none("clock", &outcome);
    expect_doubled(&outcome);
}

/// One power loss in each history is held against what the mode promises.
#[test]
fn what_is_lost_under_a_leaping_clock_is_noticed() {
    let bug = Bug::named("acknowledged-early");
    let setup = |nth| Setup { bug, ..Setup::new(500 + nth, Mode::Sync) };
    let outcome = clock::sweep(setup, 100, 20, 2);
    assert!(!outcome.failures.is_empty(), "not found in {} cases", outcome.cases);
}

/// A directory for real filesystems, or a visible skip.
fn bench(suite: &str) -> Option<tempfile::TempDir> {
    if let Some(why) = real::unavailable() {
        real::say_skipped(suite, &why);
        return None;
    }
    Some(tempfile::tempdir().expect("a directory"))
}

#[test]
fn real_power_cuts_take_nothing_durable() {
    let Some(dir) = bench("powercut") else { return };
    let modes = [Mode::Sync, Mode::Interval, Mode::Os, Mode::NoLog];
    expect_none("powercut", &stop_many(dir.path(), Stop::Power, 1, &modes, 12, None));
}

#[test]
fn a_commit_acknowledged_early_is_caught_by_a_real_power_cut() {
    let Some(dir) = bench("powercut") else { return };
    let outcome = stop_many(dir.path(), Stop::Power, 1, &[Mode::Sync], 30, Some(Lie::LogSync));
    assert_eq!(outcome.failures.len(), 1, "not found in {} power cuts", outcome.cases);
}

#[test]
fn a_real_disk_that_fails_is_not_believed_again() {
    let Some(dir) = bench("badsync-real") else { return };
    expect_none(
        "badsync-real",
        &stop_many(dir.path(), Stop::NoBacking, 1, &[Mode::Sync, Mode::Os], 4, None),
    );
}
