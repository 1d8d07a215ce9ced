//! Threads against each other: inserts of one unique value, and an index built beside writers.
#![expect(clippy::disallowed_methods, reason = "the promises are about threads side by side")]

use esker_layouts::Error;

use super::people::{Health, Kind, OpenPeople, People, Person, Shape};
use super::{Sizes, load};
use crate::lab::experiments::random;
use crate::lab::experiments::samples::failed;
use crate::lab::study::Study;
use crate::lab::{LabOptions, Result, stopwatch};

/// Writers that want one value.
const RACERS: u64 = 16;
/// Writers beside a build.
const WRITERS: u64 = 2;
/// Rows in one step of a build.
const STEP: usize = 100;

/// A promise, and whether it was kept.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) promise: String,
    pub(super) found: String,
    pub(super) kept: bool,
}

/// Sixteen writers insert one mail address, in rounds.
pub(super) fn inserts<K: Sync>(
    kv: &K,
    open: &impl OpenPeople<K>,
    sizes: &Sizes,
    study: &mut Study,
) -> Result<Check> {
    let doing = "insert one value from 16 threads";
    let shape = Shape { kinds: &Kind::ALL[..1], covering: false, verified_on_read: false };
    let table = open.open(kv, shape).map_err(failed(doing))?;
    let mut single = 0;
    for round in 0..sizes.rounds {
        let outcomes = race(table.as_ref(), round);
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
        let mut refused = 0;
        for outcome in outcomes {
            match outcome {
                Ok(_) => {}
                Err(Error::Duplicate { .. }) => refused += 1,
                Err(error) => return Err(failed(doing)(error)),
            }
        }
        single += u64::from(won == 1);
        let formula = "1 wins, 15 are told who has the value";
        study.compare("16 racing inserts of one value", formula, &(won, refused), &(1, RACERS - 1));
    }
    let health = table.health(Kind::Mail).map_err(failed(doing))?;
    let expected = Health { ready: true, problems: 0, violations: 0, rows: sizes.rounds };
    study.compare("the table after the races", "a row a round, no violation", &health, &expected);
    Ok(Check {
        promise: format!(
            "of {RACERS} racing inserts of one value exactly one wins, {} rounds",
            sizes.rounds
        ),
        found: format!("one winner in {single} rounds; {} rows, {}", health.rows, faults(&health)),
        kept: single == sizes.rounds && health == expected,
    })
}

fn race(table: &dyn People, round: u64) -> Vec<esker_layouts::Result<esker_layouts::OpCost>> {
    let person = |racer: u64| Person {
        mail: format!("{round}@example.org"),
        city: racer,
        age: 0,
        name: String::new(),
        note: String::new(),
    };
    std::thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| scope.spawn(move || table.put(round * RACERS + racer, &person(racer))))
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("a racer that panics is a bug")).collect()
    })
}

/// An index by city is added to the loaded table and built while writers move people between cities.
pub(super) fn build<K: Sync>(
    kv: &K,
    open: &impl OpenPeople<K>,
    people: &[Person],
    sizes: &Sizes,
    study: &mut Study,
    options: &LabOptions,
) -> Result<Check> {
    let doing = "build an index beside writers";
    let shape = |count| Shape { kinds: &Kind::ALL[..count], covering: false, verified_on_read: false };
    {
        let table = open.open(kv, shape(1)).map_err(failed(doing))?;
        load(table.as_ref(), people)?;
    }
    let table = open.open(kv, shape(2)).map_err(failed(doing))?;
    let table = table.as_ref();
    let write = |writer: u64| {
        let mut random = random(options, &[15, 5, writer]);
        for _ in 0..people.len().min(20 * sizes.samples) {
            let at = random.usize(..people.len());
            let mut person = people[at].clone();
            person.city = random.u64(..sizes.cities);
            table.put(at as u64, &person)?;
        }
        Ok::<(), Error>(())
    };
    let (outcome, nanos) = stopwatch::timed(|| {
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
            let built = table.build(STEP);
            let joined = writers.into_iter().map(|w| w.join().expect("a writer that panics is a bug"));
            built.and(joined.collect::<esker_layouts::Result<()>>())
        })
    });
    outcome.map_err(failed(doing))?;
    let health = table.health(Kind::City).map_err(failed(doing))?;
    let expected = Health { ready: true, problems: 0, violations: 0, rows: people.len() as u64 };
    study.compare(
        "an index built beside writers",
        "ready, and every row and entry agree",
        &health,
        &expected,
    );
    Ok(Check {
        promise: format!(
            "an index built over {} rows beside {WRITERS} writers is complete and right",
            people.len()
        ),
        found: format!(
            "{}ready after {:.1} s with the writers; {}",
            if health.ready { "" } else { "not " },
            nanos as f64 / 1e9,
            faults(&health)
        ),
        kept: health == expected,
    })
}

fn faults(health: &Health) -> String {
    format!("{} disagreements, {} violations", health.problems, health.violations)
}
