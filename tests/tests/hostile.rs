//! Hostile directories, at the size that every change can wait for. `soak hostile` runs them at any size.

use std::path::Path;

use esker_tests::hostile::{Fault, many};

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

#[test]
fn planted_harm_is_noticed() {
    for (fault, told) in [
        (Fault::Allocates, "KiB of memory"),
        (Fault::Panics, "panic: index out of bounds"),
        (Fault::Aborts, "died"),
        (Fault::Escapes, "beside the directory"),
    ] {
        let report = many(Path::new(env!("CARGO_BIN_EXE_soak")), 1, 100, 1, Some(fault));
        let found = report.outcome.failures.iter().any(|failure| failure.what.contains(told));
        assert!(found, "{fault} was not noticed: {:?}", report.outcome.failures);
    }
}
