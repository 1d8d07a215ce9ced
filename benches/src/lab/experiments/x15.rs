//! X15: secondary indexes: what they save a reader, what they cost a writer, and whether they can be wrong.
//!
//! [`people`] has the table, [`asked`] measures reads and writes, [`raced`] lets threads work against
//! each other, [`findings`] judges and draws.

mod asked;
mod findings;
mod people;
mod raced;

use people::{Kind, OpenPeople, Person, RealPeople, Shape};

use super::random;
use super::samples::failed;
use super::weighed::{loaded, without_log};
use crate::lab::store::Store;
use crate::lab::study::Study;
use crate::lab::{Experiment, LabOptions, Progress, Result, Scale};

/// Ages a person may have.
const AGES: u64 = 50;
/// Rows in one commit while loading.
const BATCH: usize = 500;

pub(in crate::lab) fn run<S: Store>(
    store: &S,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    run_with(store, &RealPeople, options, progress)
}

/// How much there is, and how much is asked.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    rows: u64,
    cities: u64,
    /// Lookups and writes of each kind.
    samples: usize,
    /// Full scans.
    scans: usize,
    /// Rounds of racing inserts.
    rounds: u64,
}

fn sizes(options: &LabOptions) -> Sizes {
    match options.scale {
        Scale::Tiny => Sizes { rows: 240, cities: 8, samples: 10, scans: 2, rounds: 3 },
        Scale::Smoke => Sizes { rows: 20_000, cities: 100, samples: 200, scans: 3, rounds: 50 },
        Scale::Desk => Sizes { rows: 1_000_000, cities: 1_000, samples: 1_000, scans: 5, rounds: 500 },
        Scale::Large => Sizes { rows: 10_000_000, cities: 1_000, samples: 1_000, scans: 3, rounds: 1_000 },
    }
}

/// The people, in the order of their ids.
fn people(sizes: &Sizes, options: &LabOptions) -> Vec<Person> {
    let mut random = random(options, &[15, 1]);
    (0..sizes.rows)
        .map(|id| Person {
            mail: format!("p{id}@example.org"),
            city: random.u64(..sizes.cities),
            age: random.u64(..AGES),
            name: format!("Person {id}"),
            note: "#".repeat(40),
        })
        .collect()
}

fn run_with<S: Store>(
    store: &S,
    open: &impl OpenPeople<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    let sizes = sizes(options);
    let people = people(&sizes, options);
    let shapes = shapes();
    progress.begin(Experiment::X15, shapes.len() as u64 + 2);
    let mut asked = asked::Asked::new(&sizes, &people, options);
    let mut order: Vec<usize> = (0..shapes.len()).collect();
    random(options, &[15, 2]).shuffle(&mut order);
    for (name, shape) in order.into_iter().map(|at| shapes[at]) {
        let kv = store.open_as(&without_log()).map_err(failed("open a store"))?;
        load(open.open(&kv, shape).map_err(failed("open the table"))?.as_ref(), &people)?;
        let kv = loaded(store, kv)?;
        let table = open.open(&kv, shape).map_err(failed("open the table"))?;
        asked.reads(table.as_ref(), name, shape)?;
        asked.writes(table.as_ref(), name, shape)?;
        progress.step(name);
    }
    let kv = store.open().map_err(failed("open a store"))?;
    let raced = raced::inserts(&kv, open, &sizes, &mut asked.study)?;
    progress.step("racing inserts");
    let kv = store.open().map_err(failed("open a store"))?;
    let built = raced::build(&kv, open, &people, &sizes, &mut asked.study, options)?;
    progress.step("an index built beside writers");
    Ok(findings::study(&asked, &[raced, built], &sizes, options))
}

/// Tables with one index more each, and one whose indexes are verified on read.
fn shapes() -> Vec<(&'static str, Shape)> {
    let names = ["no index", "1 index", "2 indexes", "3 indexes", "4 indexes"];
    let mut shapes: Vec<(&'static str, Shape)> = names
        .into_iter()
        .enumerate()
        .map(|(count, name)| {
            (name, Shape { kinds: &Kind::ALL[..count], covering: false, verified_on_read: false })
        })
        .collect();
    let city = &Kind::ALL[1..2];
    // Alone with the index by city, so that the three differ in one thing.
    shapes.push((IN_STEP, Shape { kinds: city, covering: false, verified_on_read: false }));
    shapes.push((COVERING, Shape { kinds: city, covering: true, verified_on_read: false }));
    shapes.push((VERIFIED, Shape { kinds: city, covering: false, verified_on_read: true }));
    shapes
}

const IN_STEP: &str = "by city, kept in step";
const COVERING: &str = "by city, covering";
const VERIFIED: &str = "by city, verified on read";

fn load(table: &dyn people::People, people: &[Person]) -> Result<()> {
    let numbered: Vec<(u64, Person)> = (0..).zip(people.iter().cloned()).collect();
    for batch in numbered.chunks(BATCH) {
        table.put_all(batch).map_err(failed("load the table"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
