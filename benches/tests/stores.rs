//! The lab on other engines: they conform, and it counts on them what it counts on ours.

use esker_bench::lab::store::Store;
use esker_bench::lab::stores::{FjallFactory, RedbFactory};
use esker_bench::lab::{Experiment, LabOptions, Scale, Silent, StoreChoice, run};

#[test]
fn redb_conforms() {
    esker_layouts::conformance::check(|| RedbFactory.open().expect("open"));
}

#[test]
fn fjall_conforms() {
    esker_layouts::conformance::check(|| FjallFactory.open().expect("open"));
}

#[test]
fn the_lab_counts_on_them_what_the_formulas_say() {
    for store in [StoreChoice::Redb, StoreChoice::Fjall] {
        let options = LabOptions { store, ..LabOptions::new(Scale::Tiny, vec![Experiment::X1]) };
        let report = run(&options, &mut Silent).expect("the lab runs");
        assert!(report.counters_equal(), "{}", report.to_text());
        assert!(report.store.starts_with(if store == StoreChoice::Redb { "redb" } else { "fjall" }));
    }
}
