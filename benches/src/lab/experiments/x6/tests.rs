use esker_layouts::kv::OrderedKv;
use esker_layouts::map::MapStore;

use super::*;
use crate::lab::store::{EngineFactory, MapFactory};
use crate::lab::study::{Exhibit, Value};
use crate::lab::verdict::Outcome;
use crate::lab::{RealLayouts, Silent};

fn tiny() -> LabOptions {
    LabOptions::new(Scale::Tiny, vec![Experiment::X6])
}

/// The numbers in the row of `table` that starts with `name`.
fn row(study: &Study, table: &str, name: &[Value]) -> Vec<f64> {
    let tables = study.exhibits.iter().filter_map(|exhibit| match exhibit {
        Exhibit::Table(found) if found.title.starts_with(table) => Some(found),
        _ => None,
    });
    let row = tables.flat_map(|table| &table.rows).find(|row| row.starts_with(name)).expect("measured");
    row.iter()
        .filter_map(|value| if let Value::Number(number) = value { Some(*number) } else { None })
        .collect()
}

#[test]
fn every_cost_equals_its_formula_on_both_stores() {
    let on_map = run(&MapFactory, &RealLayouts, &tiny(), &mut Silent).expect("the lab runs");
    let on_engine = run(&EngineFactory, &RealLayouts, &tiny(), &mut Silent).expect("the lab runs");
    for study in [&on_map, &on_engine] {
        study.expect_counted();
        let outcomes = study.verdicts();
        let yes = Outcome::Reproduced;
        assert_eq!(outcomes, [yes, yes, yes, yes, yes, Outcome::Refuted], "a family's name is stored once");
    }
    assert_eq!(on_map.compared(), on_engine.compared(), "the same questions");
    // Nine cases, two layouts: four rounds of four operations, and a weight. Three lengths are weighed scrambled,
    // six layouts and a family by their keys.
    assert_eq!(on_map.compared(), 9 * 2 * (4 * 4 + 1) + 3 * 2 + 6 + 1);
}

#[test]
fn shared_starts_are_stored_once_and_long_keys_fill_blocks_sooner() {
    let study = run(&EngineFactory, &RealLayouts, &tiny(), &mut Silent).expect("the lab runs");
    let of = |ids: &str, length: u64, way: &str| {
        let name = [Value::from(ids), Value::from(length), Value::from(way)];
        let all = row(&study, "Bytes of a fact", &name);
        let [_, key, value, stored, alone, saved, fill] = all[..] else { panic!("{all:?}") };
        (key, value, stored, alone, saved, fill)
    };
    let numbered = of("numbered", 64, "V4");
    assert_eq!((numbered.0, numbered.1), (131.0, 0.0));
    assert!(numbered.2 < numbered.3 && numbered.4 > 0.3, "{numbered:?}");
    let hashed = of("random", 64, "V5");
    assert_eq!((hashed.0, hashed.1), (32.0, 132.0));
    let random = of("random", 64, "V4");
    assert!(
        random.4.abs() < 0.2 && (random.3 - numbered.3).abs() < f64::EPSILON,
        "little to share: {random:?}"
    );
    assert!(of("random", 4, "V4").5 > of("random", 64, "V4").5, "more entries in a block");
}

#[test]
fn the_key_sizes_of_the_layouts_are_those_of_their_formats() {
    let study = run(&EngineFactory, &RealLayouts, &tiny(), &mut Silent).expect("the lab runs");
    let of = |layout: &str| row(&study, "Key sizes", &[Value::from(layout)]);
    // Keys a fact, and the mean key: two texts of 16 bytes with both their ends, or one with a delimiter.
    assert_eq!(of("V3, columns named by friend")[..2], [1.0, 36.0]);
    assert_eq!(of("V4, user.friend")[..2], [1.0, 35.0]);
    assert_eq!(of("V5, digests")[..2], [1.0, 32.0]);
    assert_eq!(of("tall table")[..2], [1.0, 39.0]);
}

/// V5 as somebody writes it who hashes and stores the ids in the key as well.
struct Doubled;

struct Twice<'k> {
    store: &'k MapStore,
    inner: Box<dyn FriendStore + 'k>,
}

impl FriendStore for Twice<'_> {
    fn add(&self, user: &str, friend: &str) -> esker_layouts::Result<OpCost> {
        use esker_layouts::kv::KvTx;
        let key = [digest(user).as_slice(), user.as_bytes(), &digest(friend), friend.as_bytes()].concat();
        let done = self.store.update(|tx| {
            tx.put(&key, b"");
            Ok(())
        })?;
        Ok(done.cost)
    }
    fn check(&self, user: &str, friend: &str) -> esker_layouts::Result<Costed<bool>> {
        self.inner.check(user, friend)
    }
    fn remove(&self, user: &str, friend: &str) -> esker_layouts::Result<OpCost> {
        self.inner.remove(user, friend)
    }
    fn list(&self, user: &str) -> esker_layouts::Result<Costed<Vec<String>>> {
        self.inner.list(user)
    }
    fn load(&self, user: &str, friends: &[&str]) -> esker_layouts::Result<OpCost> {
        self.inner.load(user, friends)
    }
}

impl OpenLayout<MapStore> for Doubled {
    fn open<'k>(
        &self,
        store: &'k MapStore,
        layout: Layout,
    ) -> esker_layouts::Result<Box<dyn FriendStore + 'k>> {
        let inner = RealLayouts.open(store, layout)?;
        Ok(if layout == Layout::Hash { Box::new(Twice { store, inner }) } else { inner })
    }
}

#[test]
fn a_wrong_key_comes_out_as_a_mismatch() {
    let study = run(&MapFactory, &Doubled, &tiny(), &mut Silent).expect("the answers are right");
    for formula in &study.formulas {
        assert_eq!(formula.tally.all_equal(), formula.operation != "V5: add", "{formula:?}");
    }
    let outcomes = study.verdicts();
    let (yes, shape) = (Outcome::Reproduced, Outcome::ShapeOnly);
    assert_eq!(outcomes, [yes, shape, shape, yes, shape, Outcome::Refuted]);
}

/// V4 that forgets where the user ends.
struct Undelimited;

struct Joined<'k>(Box<dyn FriendStore + 'k>);

impl FriendStore for Joined<'_> {
    fn add(&self, user: &str, friend: &str) -> esker_layouts::Result<OpCost> {
        self.0.add(user, friend)
    }
    fn check(&self, user: &str, _: &str) -> esker_layouts::Result<Costed<bool>> {
        let all = self.0.list(user)?;
        Ok(Costed { value: !all.value.is_empty(), cost: all.cost })
    }
    fn remove(&self, user: &str, friend: &str) -> esker_layouts::Result<OpCost> {
        self.0.remove(user, friend)
    }
    fn list(&self, user: &str) -> esker_layouts::Result<Costed<Vec<String>>> {
        self.0.list(user)
    }
    fn load(&self, user: &str, friends: &[&str]) -> esker_layouts::Result<OpCost> {
        self.0.load(user, friends)
    }
}

impl<K: OrderedKv> OpenLayout<K> for Undelimited {
    fn open<'k>(&self, store: &'k K, layout: Layout) -> esker_layouts::Result<Box<dyn FriendStore + 'k>> {
        Ok(Box::new(Joined(RealLayouts.open(store, layout)?)))
    }
}

#[test]
fn a_wrong_answer_stops_the_lab() {
    let error = run(&MapFactory, &Undelimited, &tiny(), &mut Silent).expect_err("everyone is a friend");
    assert!(error.to_string().contains("check a stranger with true; right is false"), "{error}");
}

#[test]
fn the_crossover_lies_where_the_difference_changes_its_sign() {
    let found = findings::crossing(&[4.0, 16.0, 64.0], &[1.0, 1.0, -1.0]).expect("it falls");
    assert!((found - 32.0).abs() < 1e-9, "half way from 16 to 64 on a logarithmic axis: {found}");
    assert_eq!(findings::crossing(&[4.0, 16.0], &[1.0, 0.5]), None, "V5 is dearer at every length");
    assert_eq!(findings::crossing(&[4.0, 16.0], &[-1.0, -0.5]), None, "never");
}

#[test]
fn a_ratio_s_interval_holds_it_and_narrows_to_nothing_without_noise() {
    let mut random = fastrand::Rng::with_seed(1);
    let exact = findings::ratio(&[30.0; 9], &[20.0; 9], &mut random);
    assert_eq!((exact.low, exact.median, exact.high), (1.5, 1.5, 1.5));
}
