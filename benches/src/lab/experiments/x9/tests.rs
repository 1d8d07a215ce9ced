use esker_layouts::OpCost;

use super::*;
use crate::lab::Silent;
use crate::lab::experiments::weighed::{Row, at_rest, for_loads, put_all, weigh};
use crate::lab::store::{EngineFactory, MapFactory};
use crate::lab::verdict::Outcome;

fn tiny() -> LabOptions {
    LabOptions::new(Scale::Tiny, vec![Experiment::X9])
}

const YES: Outcome = Outcome::Reproduced;
const NO: Outcome = Outcome::NotReproduced;

#[test]
fn every_cost_equals_its_formula_on_both_stores() {
    let on_map = run(&MapFactory, &tiny(), &mut Silent).expect("the lab runs");
    let on_engine = run(&EngineFactory, &tiny(), &mut Silent).expect("the lab runs");
    for study in [&on_map, &on_engine] {
        study.expect_counted();
    }
    let claims = ["B3", "B3", "B3", "B10", "B15", "B20"];
    assert_eq!(on_engine.claims.iter().map(|claim| claim.rows.as_str()).collect::<Vec<_>>(), claims);
    // A map has neither tables nor blocks: of it only the regions are said.
    assert_eq!(on_engine.verdicts(), [YES, Outcome::Refuted, YES, YES, YES, YES]);
    assert_eq!(on_map.verdicts(), [NO, NO, NO, NO, NO, YES]);
    assert!(on_engine.compared() > on_map.compared(), "its filters and blocks as well");
}

/// Stores whose filter is not there.
struct Unfiltered;

impl<K: OrderedKv> Access<K> for Unfiltered {
    fn has(&self, kv: &K, key: &[u8]) -> esker_layouts::Result<Costed<bool>> {
        RealAccess.has(kv, key)
    }
    fn bits(&self, _: u8) -> u8 {
        0
    }
}

#[test]
fn a_filter_that_is_not_there_comes_out_as_a_mismatch() {
    let study = run_with(&EngineFactory, &Unfiltered, &tiny(), &mut Silent).expect("the answers are right");
    let differs: Vec<&str> =
        study.formulas.iter().filter(|f| !f.tally.all_equal()).map(|f| f.operation.as_str()).collect();
    for operation in
        ["row: an absent row", "row+column: an absent column of a row", "four tables: a cell that is there"]
    {
        assert!(differs.contains(&operation), "{differs:?}");
    }
    assert!(!differs.iter().any(|operation| operation.contains("cold") || operation.contains("regions")));
    assert_eq!(study.verdicts()[..3], [NO, NO, NO]);
}

/// A read that looks a second time where once is enough.
struct Twice;

impl<K: OrderedKv> Access<K> for Twice {
    fn has(&self, kv: &K, key: &[u8]) -> esker_layouts::Result<Costed<bool>> {
        let first = RealAccess.has(kv, key)?;
        let mut cost = RealAccess.has(kv, key)?.cost;
        cost.add(&first.cost);
        Ok(Costed { value: first.value, cost })
    }
}

#[test]
fn a_wasteful_read_comes_out_as_a_mismatch_on_both_stores() {
    let on_map = run_with(&MapFactory, &Twice, &tiny(), &mut Silent).expect("the answers are right");
    let on_engine = run_with(&EngineFactory, &Twice, &tiny(), &mut Silent).expect("the answers are right");
    for study in [on_map, on_engine] {
        for operation in ["row: ", "four tables: ", "narrow row: cold", "narrow row: warm"] {
            assert!(!study.tally(operation).all_equal(), "{operation}");
        }
        assert!(study.tally("wide row, scanned").all_equal() && study.tally("regions").all_equal());
    }
}

/// A filter that rules out keys that are there.
struct Denies;

impl<K: OrderedKv> Access<K> for Denies {
    fn has(&self, kv: &K, key: &[u8]) -> esker_layouts::Result<Costed<bool>> {
        let denied = key.last().is_some_and(|last| last % 4 == 0);
        Ok(RealAccess.has(kv, key)?.map(|found| found && !denied))
    }
}

#[test]
fn a_filter_that_lies_stops_the_lab() {
    let error = run_with(&EngineFactory, &Denies, &tiny(), &mut Silent).expect_err("keys are missing");
    assert!(error.to_string().contains("with false; right is true"), "{error}");
}

#[test]
fn the_formula_of_false_positives_is_between_a_plain_filter_s_and_twice_it() {
    for bits in [4u8, 8, 10, 12, 16] {
        let probes = f64::from(u32::from(bits) * 6 / 10);
        let plain = (1.0 - (-probes / f64::from(bits)).exp()).powf(probes);
        let blocked = filters::false_positives(100_000, bits);
        assert!(blocked > plain && blocked < 2.5 * plain, "{bits} bits: {blocked} and {plain}");
    }
    assert!((filters::false_positives(100_000, 0) - 1.0).abs() < f64::EPSILON, "no filter");
}

#[test]
fn even_and_uneven_regions_are_told_apart() {
    let even = Spread { keys: vec![5; 16], busiest_user: 0 };
    assert_eq!((even.top(), even.variation(), even.effective()), (1.0 / 16.0, 0.0, 16.0));
    let one = Spread { keys: [vec![80], vec![0; 15]].concat(), busiest_user: 80 };
    assert_eq!((one.top(), one.effective()), (1.0, 1.0));
    assert!(one.variation() > 3.8);
}

/// Tables of 2,000 keys under `options`: what they weigh with all of their parts, and what a get of an absent
/// key costs.
fn made_with(options: esker::KeyspaceOptions) -> (Weighed, u64, OpCost) {
    let mut setup = for_loads();
    setup.keyspace = options;
    let rows: Vec<Row> = (0..2_000u32).map(|n| ((2 * n).to_be_bytes().into(), vec![b'v'; 40])).collect();
    let kv = EngineFactory.open_as(&setup).expect("a store");
    put_all(&kv, &rows).expect("loads");
    let kv = at_rest(&EngineFactory, kv, &setup).expect("opens again with the options it has stored");
    let weighed = weigh(&kv, |_, _| ()).expect("reads");
    let absent = RealAccess.has(&kv, &2_001u32.to_be_bytes()).expect("asks").cost;
    (weighed, EngineFactory.disk_bytes(&kv).expect("on disk"), absent)
}

/// What `docs/src/layouts.md` says of a keyspace's options.
#[test]
fn the_options_of_a_keyspace_take_effect_and_are_stored() {
    let default = esker::KeyspaceOptions::default;
    let (plain, disk, absent) = made_with(default());
    assert_eq!((absent.tables, absent.filter_negatives), (1, 1), "the filter is there by default");
    let (large, ..) = made_with(esker::KeyspaceOptions { block_bytes: 64 << 10, ..default() });
    assert!(large.blocks * 10 < plain.blocks, "{large:?} {plain:?}");
    let (same, smaller, absent) = made_with(esker::KeyspaceOptions { filter_bits_per_key: 0, ..default() });
    assert_eq!((same, absent.filter_negatives), (plain, 0));
    assert!(smaller < disk, "no filter in the file");
    assert_eq!(absent.blocks_from_disk + absent.blocks_from_cache, 1, "so the block is read");
    let (packed, ..) = made_with(default().with_compression(esker::Compression::Lz4));
    assert!(packed.block_bytes * 2 < plain.block_bytes, "{packed:?} {plain:?}");

    let directory = tempfile::tempdir().expect("a directory");
    let db = esker::Database::open(directory.path()).expect("opens");
    let given = esker::KeyspaceOptions { block_bytes: 1 << 14, filter_bits_per_key: 4, ..default() };
    db.keyspace("games", given.with_merge_operator("add-i64")).expect("made");
    db.close().expect("closes");
    let db = esker::Database::open(directory.path()).expect("opens");
    let error = db.keyspace("games", default()).expect_err("other options than it was made with");
    assert!(error.to_string().contains("block_bytes"), "{error}");
}
