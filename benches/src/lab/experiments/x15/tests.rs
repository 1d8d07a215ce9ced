use std::collections::BTreeSet;
use std::sync::{Arc, Barrier, Mutex};

use esker_layouts::OpCost;
use esker_layouts::kv::{Costed, KvRead, KvTx, OrderedKv};
use esker_layouts::map::MapStore;

use super::people::{Finding, Health, People, Reading};
use super::*;
use crate::lab::Silent;
use crate::lab::store::{EngineFactory, MapFactory};
use crate::lab::study::{Exhibit, Value};
use crate::lab::verdict::Outcome;

fn tiny() -> LabOptions {
    LabOptions::new(Scale::Tiny, vec![Experiment::X15])
}

/// The last column of the table of promises.
fn promises(study: &Study) -> Vec<String> {
    let tables = study.exhibits.iter().filter_map(|exhibit| match exhibit {
        Exhibit::Table(table) if table.title.starts_with("Promises") => Some(table),
        _ => None,
    });
    let word = |value: Option<&Value>| match value {
        Some(Value::Text(text)) => text.clone(),
        other => panic!("{other:?}"),
    };
    tables.flat_map(|table| table.rows.iter().map(|row| word(row.last()))).collect()
}

#[test]
fn every_cost_equals_its_formula_on_both_stores() {
    let on_map = run(&MapFactory, &tiny(), &mut Silent).expect("the lab runs");
    let on_engine = run(&EngineFactory, &tiny(), &mut Silent).expect("the lab runs");
    for study in [&on_map, &on_engine] {
        study.expect_counted();
        let outcomes = study.verdicts();
        let (yes, no) = (Outcome::Reproduced, Outcome::Refuted);
        assert_eq!(outcomes, [yes, yes, no, yes, yes], "a second field can be searched alone");
        assert_eq!(promises(study), ["pass", "pass"]);
    }
    assert_eq!(on_map.compared(), on_engine.compared(), "the same questions");
    assert!(on_map.compared() > 300);
}

/// A table as somebody writes it who checks first and inserts then, in two transactions; and who reads
/// the row though the entry has what is asked.
struct Naive<'k> {
    store: &'k MapStore,
    inner: Box<dyn People + 'k>,
    all_have_looked: Barrier,
}

impl People for Naive<'_> {
    fn put(&self, id: u64, person: &Person) -> esker_layouts::Result<OpCost> {
        if !person.name.is_empty() {
            return self.inner.put(id, person);
        }
        // A racer: nobody has the value yet, so it goes on.
        let free = self.store.read()?.get(person.mail.as_bytes())?.is_none();
        self.all_have_looked.wait();
        assert!(free);
        Ok(self
            .store
            .update(|tx| {
                tx.put(person.mail.as_bytes(), &id.to_be_bytes());
                Ok(())
            })?
            .cost)
    }
    fn put_all(&self, people: &[(u64, Person)]) -> esker_layouts::Result<OpCost> {
        self.inner.put_all(people)
    }
    fn by_mail(&self, mail: &str) -> esker_layouts::Result<Costed<Vec<u64>>> {
        self.inner.by_mail(mail)
    }
    fn names(&self, city: u64, reading: Reading) -> esker_layouts::Result<Costed<BTreeSet<(u64, String)>>> {
        self.inner.names(city, if reading == Reading::Covered { Reading::Batched } else { reading })
    }
    fn of_age(&self, age: u64, finding: Finding) -> esker_layouts::Result<Costed<BTreeSet<u64>>> {
        self.inner.of_age(age, finding)
    }
    fn build(&self, step: usize) -> esker_layouts::Result<()> {
        self.inner.build(step)
    }
    fn health(&self, kind: Kind) -> esker_layouts::Result<Health> {
        self.inner.health(kind)
    }
}

struct Hasty;

impl OpenPeople<MapStore> for Hasty {
    fn open<'k>(&self, store: &'k MapStore, shape: Shape) -> esker_layouts::Result<Box<dyn People + 'k>> {
        let inner = RealPeople.open(store, shape)?;
        Ok(Box::new(Naive { store, inner, all_have_looked: Barrier::new(16) }))
    }
}

#[test]
fn a_wrong_table_comes_out_as_a_mismatch() {
    let study = run_with(&MapFactory, &Hasty, &tiny(), &mut Silent).expect("the answers are right");
    assert!(!study.counters_equal());
    for formula in &study.formulas {
        let wrong =
            ["16 racing", "the table after", COVERING].iter().any(|w| formula.operation.starts_with(w));
        assert_eq!(formula.tally.all_equal(), !wrong, "{formula:?}");
    }
    let racing = study.formulas.iter().find(|f| f.operation.starts_with("16 racing")).expect("compared");
    assert_eq!(
        racing.tally.first_mismatch.as_deref(),
        Some("counted (16, 0), the formula says (1, 15)"),
        "all of them win"
    );
    let outcomes = study.verdicts();
    assert_eq!(outcomes[0], Outcome::NotReproduced);
    assert_eq!(outcomes[1], Outcome::ShapeOnly);
    assert_eq!(promises(&study), ["fail", "pass"]);
}

/// Notes how the names of a city are read, table by table.
struct Noted<'k>(Box<dyn People + 'k>, Notes);

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Vec<Reading>>>>);

impl People for Noted<'_> {
    fn put(&self, id: u64, person: &Person) -> esker_layouts::Result<OpCost> {
        self.0.put(id, person)
    }
    fn put_all(&self, people: &[(u64, Person)]) -> esker_layouts::Result<OpCost> {
        self.0.put_all(people)
    }
    fn by_mail(&self, mail: &str) -> esker_layouts::Result<Costed<Vec<u64>>> {
        self.0.by_mail(mail)
    }
    fn names(&self, city: u64, reading: Reading) -> esker_layouts::Result<Costed<BTreeSet<(u64, String)>>> {
        self.1.0.lock().expect("lock").last_mut().expect("a table").push(reading);
        self.0.names(city, reading)
    }
    fn of_age(&self, age: u64, finding: Finding) -> esker_layouts::Result<Costed<BTreeSet<u64>>> {
        self.0.of_age(age, finding)
    }
    fn build(&self, step: usize) -> esker_layouts::Result<()> {
        self.0.build(step)
    }
    fn health(&self, kind: Kind) -> esker_layouts::Result<Health> {
        self.0.health(kind)
    }
}

impl<K: OrderedKv> OpenPeople<K> for Notes {
    fn open<'k>(&self, store: &'k K, shape: Shape) -> esker_layouts::Result<Box<dyn People + 'k>> {
        self.0.lock().expect("lock").push(Vec::new());
        Ok(Box::new(Noted(RealPeople.open(store, shape)?, self.clone())))
    }
}

#[test]
fn neither_way_to_read_a_city_is_always_the_first() {
    let notes = Notes::default();
    run_with(&MapFactory, &notes, &tiny(), &mut Silent).expect("the lab runs");
    let tables = notes.0.lock().expect("lock");
    let both = tables.iter().find(|read| read.contains(&Reading::Single)).expect("read one by one");
    let turns = both.chunks(2).take(sizes(&tiny()).samples);
    let single_first = turns.clone().filter(|turn| turn[0] == Reading::Single).count();
    assert!(turns.clone().all(|turn| turn[0] != turn[1]));
    assert!((1..turns.len()).contains(&single_first), "{single_first} of {}", turns.len());
}

/// Forgets a person.
struct Forgetful;

struct Forgets<'k>(Box<dyn People + 'k>);

impl People for Forgets<'_> {
    fn put(&self, id: u64, person: &Person) -> esker_layouts::Result<OpCost> {
        self.0.put(id, person)
    }
    fn put_all(&self, people: &[(u64, Person)]) -> esker_layouts::Result<OpCost> {
        self.0.put_all(people)
    }
    fn by_mail(&self, mail: &str) -> esker_layouts::Result<Costed<Vec<u64>>> {
        self.0.by_mail(mail)
    }
    fn names(&self, city: u64, reading: Reading) -> esker_layouts::Result<Costed<BTreeSet<(u64, String)>>> {
        self.0.names(city, reading)
    }
    fn of_age(&self, age: u64, finding: Finding) -> esker_layouts::Result<Costed<BTreeSet<u64>>> {
        let mut found = self.0.of_age(age, finding)?;
        if finding == Finding::SkipScan {
            found.value.pop_last();
        }
        Ok(found)
    }
    fn build(&self, step: usize) -> esker_layouts::Result<()> {
        self.0.build(step)
    }
    fn health(&self, kind: Kind) -> esker_layouts::Result<Health> {
        self.0.health(kind)
    }
}

impl<K: OrderedKv> OpenPeople<K> for Forgetful {
    fn open<'k>(&self, store: &'k K, shape: Shape) -> esker_layouts::Result<Box<dyn People + 'k>> {
        Ok(Box::new(Forgets(RealPeople.open(store, shape)?)))
    }
}

#[test]
fn a_wrong_answer_stops_the_lab() {
    let error = run_with(&MapFactory, &Forgetful, &tiny(), &mut Silent).expect_err("it forgets");
    assert!(error.to_string().contains("skip scan over cities"), "{error}");
}
