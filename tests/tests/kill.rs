//! Real kills of a real process.

use std::path::Path;

use esker_tests::setup::Mode;
use esker_tests::{kill, rows};

/// A directory, on a disk in memory if there is one: the kills are real, the power stays on, and syncs are not the point.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

#[test]
fn nothing_acknowledged_is_lost_to_a_kill() {
    let exe = Path::new(env!("CARGO_BIN_EXE_soak"));
    for mode in [Mode::Sync, Mode::Interval, Mode::Os, Mode::NoLog] {
        let dir = scratch();
        let (outcome, children) = kill::cycles(exe, &dir.path().join("db"), 1, mode, 13);
        if let Some(failure) = outcome.failures.first() {
            panic!("{}\n  replay: soak kill {}", failure.what, failure.replay);
        }
        assert_eq!((outcome.cases, children.opened), (13, 13));
        assert!(children.acknowledged > 0, "they were killed before they had done anything");
    }
}

#[test]
fn rows_written_before_a_kill_are_all_there() {
    let exe = Path::new(env!("CARGO_BIN_EXE_soak"));
    let dir = scratch();
    assert_eq!(rows::write_kill_verify(exe, &dir.path().join("db"), 200_000), Ok(200_000));
}
