//! The layouts under power loss.

use esker_tests::layouts::rows::Torn;
use esker_tests::layouts::{Subject, all, crash_layouts};
use esker_tests::setup::Mode;

#[test]
fn power_loss_leaves_every_layout_whole() {
    for (seed, mode) in [(1, Mode::Sync), (2, Mode::Os), (3, Mode::Sync)] {
        let outcome = crash_layouts(seed, mode, 400, 250, &all()).expect("a history without faults");
        println!("{mode}: {} cases, after operations {:?}", outcome.cases, outcome.found);
        if let Some(failure) = outcome.failures.first() {
            panic!("{}: {}", failure.replay, failure.what);
        }
        let (least, most) = outcome.found.expect("there were cases");
        assert!(
            outcome.cases > 150 && least < 50 && most > 350,
            "{} cases, {least} to {most}",
            outcome.cases
        );
    }
}

/// The suite finds a layout whose row and count go in two commits.
#[test]
fn half_a_change_is_found() {
    let subjects: Vec<Box<dyn Subject>> = vec![Box::new(Torn)];
    let outcome = crash_layouts(1, Mode::Sync, 40, 400, &subjects).expect("a history without faults");
    let failure = outcome.failures.first().expect("a crash between the two commits");
    assert!(failure.what.contains("rows, counted"), "{}", failure.what);
}
