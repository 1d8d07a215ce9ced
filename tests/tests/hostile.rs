//! Hostile directories, at the size that every change can wait for. `soak hostile` runs them at any size.

use std::path::Path;

use esker_tests::hostile::real::{Report, roots, stands, unwritable};
use esker_tests::hostile::{Fault, many};
use esker_tests::real::{no_memory_mounts, say_skipped};

#[test]
fn hostile_directories_do_no_harm() {
    let report = many(Path::new(env!("CARGO_BIN_EXE_soak")), 1, 4_000, 2, None);
    println!("{}; {}", report.ends, report.outcome.hits);
    if let Some(failure) = report.outcome.failures.first() {
        panic!("{}\n  replay: soak hostile {}", failure.what, failure.replay);
    }
    assert_eq!(report.outcome.cases, 4_000);
    assert!(report.ends.opened > 300 && report.ends.refused > 300, "{}", report.ends);
}

/// A forged table whose keys are not in order, under a range tombstone: a scan that seeks past what is hidden came
/// back to where it had been, for ever.
#[test]
fn a_table_out_of_order_leads_no_scan_in_circles() {
    let report = many(Path::new(env!("CARGO_BIN_EXE_soak")), 9959, 1, 1, None);
    assert!(report.outcome.failures.is_empty(), "{:?}", report.outcome.failures);
    assert_eq!(report.ends.opened, 1);
}

#[test]
fn planted_harm_is_noticed() {
    for (fault, told) in [
        (Fault::Allocates, "KiB of memory"),
        (Fault::Reserves, "touched or not"),
        (Fault::Panics, "panic: index out of bounds"),
        (Fault::PanicsInAJob, "caught: panicked at"),
        (Fault::PanicsInAThread, "caught: panicked at"),
        (Fault::Aborts, "died"),
        (Fault::Escapes, "beside the directory"),
    ] {
        let report = many(Path::new(env!("CARGO_BIN_EXE_soak")), 1, 100, 1, Some(fault));
        let found = report.outcome.failures.iter().any(|failure| failure.what.contains(told));
        assert!(found, "{fault} was not noticed: {:?}", report.outcome.failures);
    }
}

#[test]
fn a_child_that_dies_is_followed_to_the_case_it_died_of() {
    let exe = Path::new(env!("CARGO_BIN_EXE_soak"));
    let died = |first: u64, count: u64| {
        let report = many(exe, first, count, 1, Some(Fault::Aborts));
        let cases = report.outcome.failures.iter().map(|failure| failure.replay.replace("--case ", ""));
        cases.map(|case| case.parse::<u64>().expect("a number")).collect::<Vec<_>>()
    };
    let all = died(1, 60);
    assert!(all.len() > 1, "they die too seldom: {all:?}");
    let alone: Vec<u64> = (1..=all[all.len() - 1]).flat_map(|case| died(case, 1)).collect();
    assert_eq!(all, alone);
}

fn expect_none(suite: &str, report: &Report) {
    let (opened, refused) = report.ends;
    println!("{suite}: {} cases, {opened} opened, {refused} refused", report.outcome.cases);
    for what in &report.skipped {
        say_skipped(suite, what);
    }
    let failures: Vec<&str> = report.outcome.failures.iter().map(|failure| failure.what.as_str()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(report.outcome.cases > 0, "everything was skipped");
}

/// A directory on a disk in memory, if there is one: syncs are not the point.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

#[test]
fn what_stands_in_for_a_file_is_not_followed() {
    let dir = in_memory();
    expect_none("stands", &stands(dir.path()).expect("the golden database"));
}

#[test]
fn what_stands_in_for_the_directory_is_not_followed() {
    let dir = in_memory();
    expect_none("roots", &roots(dir.path()).expect("the golden database"));
}

/// Row 17, for real: immutable files, and a mount for reading.
#[test]
fn what_may_not_be_written_is_read() {
    if let Some(why) = no_memory_mounts() {
        say_skipped("unwritable", &why);
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    expect_none("unwritable", &unwritable(dir.path()).expect("the golden database"));
}
