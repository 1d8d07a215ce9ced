use super::*;
use crate::lab::Silent;
use crate::lab::store::{EngineFactory, MapFactory};
use crate::lab::study::{Exhibit, Value};
use crate::lab::verdict::Outcome;

fn tiny() -> LabOptions {
    LabOptions::new(Scale::Tiny, vec![Experiment::X12])
}

/// Tombstones that the scan at `moment` passed, of 1,000 keys dropped in `way`.
fn passed(study: &Study, way: Way, moment: Moment) -> f64 {
    let tables = study.exhibits.iter().filter_map(|exhibit| match exhibit {
        Exhibit::Table(table) if table.title == "Scans" => Some(table),
        _ => None,
    });
    let wanted = [Value::from(way.name()), Value::from(1_000u64), Value::from(moment.name())];
    let row = tables.flat_map(|table| &table.rows).find(|row| row.starts_with(&wanted)).expect("measured");
    match row[3] {
        Value::Number(number) => number,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn every_cost_equals_its_formula_on_both_stores() {
    let on_map = run(&MapFactory, &tiny(), &mut Silent).expect("the lab runs");
    let on_engine = run(&EngineFactory, &tiny(), &mut Silent).expect("the lab runs");
    for study in [&on_map, &on_engine] {
        study.expect_counted();
        assert_eq!((study.outcomes(Outcome::Reproduced), study.claims.len()), (2, 2));
    }
    // The second scan walks a little before it asks what is known to be dead; the last finds nothing.
    for way in Way::ALL {
        let scans = Moment::ALL.map(|moment| passed(&on_engine, way, moment));
        let loops = way != Way::Range;
        assert!(
            (!loops || scans[0] >= 1_000.0) && scans[1] <= 128.0 && scans[2] == 0.0,
            "{way:?}: {scans:?}"
        );
    }
}

/// A range delete as a store offers it that has none: the keys one by one.
struct Loops;

impl<K: OrderedKv> Drops<K> for Loops {
    fn remove(&self, kv: &K, way: Way, amount: u64) -> esker_layouts::Result<OpCost> {
        RealDrops.remove(kv, if way == Way::Range { Way::Singly } else { way }, amount)
    }
}

#[test]
fn a_range_delete_that_loops_comes_out_as_a_mismatch() {
    let study = run_with(&MapFactory, &Loops, &tiny(), &mut Silent).expect("everything is gone");
    for formula in &study.formulas {
        let wrong = formula.operation == "drop, one range delete";
        assert_eq!(formula.tally.all_equal(), !wrong, "{formula:?}");
    }
    assert_eq!(study.claims[0].verdict.outcome, Outcome::ShapeOnly);
}

/// Leaves a key behind.
struct Leaves;

impl<K: OrderedKv> Drops<K> for Leaves {
    fn remove(&self, kv: &K, _: Way, amount: u64) -> esker_layouts::Result<OpCost> {
        RealDrops.remove(kv, Way::Singly, amount - 1)
    }
}

#[test]
fn a_key_left_behind_stops_the_lab() {
    let error = run_with(&MapFactory, &Leaves, &tiny(), &mut Silent).expect_err("one is left");
    assert!(error.to_string().contains("how many keys are left with 3; right is 2"), "{error}");
}
