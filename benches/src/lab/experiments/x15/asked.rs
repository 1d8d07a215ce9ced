//! Lookups and writes, each checked, counted and timed.

use std::collections::{BTreeMap, BTreeSet};

use esker_layouts::kv::Costed;

use super::people::{Finding, Kind, People, Person, Reading, Shape};
use super::{AGES, Sizes};
use crate::lab::experiments::random;
use crate::lab::experiments::samples::{Samples, right};
use crate::lab::study::Study;
use crate::lab::{LabOptions, Result};

/// What a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Write {
    /// A row that was not there.
    New,
    /// A field in no index.
    Note,
    /// The city.
    City,
}

impl Write {
    pub(super) const ALL: [Write; 3] = [Write::New, Write::Note, Write::City];

    pub(super) fn name(self) -> &'static str {
        match self {
            Write::New => "put a new row",
            Write::Note => "change a field in no index",
            Write::City => "change the city",
        }
    }
}

/// All that was measured on tables at rest.
pub(super) struct Asked<'a> {
    pub(super) study: Study,
    /// By table and question.
    pub(super) reads: BTreeMap<(&'static str, &'static str), Samples>,
    pub(super) writes: BTreeMap<(&'static str, Write), Samples>,
    /// Lookups after the writes: by table.
    pub(super) stale: BTreeMap<&'static str, Samples>,
    people: &'a [Person],
    sizes: &'a Sizes,
    options: &'a LabOptions,
}

pub(super) const BATCHED: &str = "names of a city, rows in one batch";
pub(super) const SINGLE: &str = "names of a city, rows one by one";
pub(super) const COVERED: &str = "names of a city, from the entries";
pub(super) const CHECKED: &str = "names of a city, entries verified";
pub(super) const UNIQUE: &str = "who has a mail address";
pub(super) const SCAN: &str = "who is of an age, full scan";
pub(super) const SKIP: &str = "who is of an age, skip scan over cities";
pub(super) const OWN: &str = "who is of an age, index of its own";

impl<'a> Asked<'a> {
    pub(super) fn new(sizes: &'a Sizes, people: &'a [Person], options: &'a LabOptions) -> Self {
        Asked {
            study: Study::new("X15", "", "D13–D16", ""),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            stale: BTreeMap::new(),
            people,
            sizes,
            options,
        }
    }

    pub(super) fn reads(&mut self, table: &dyn People, name: &'static str, shape: Shape) -> Result<()> {
        let mut random = random(self.options, &[15, 3]);
        let rows = self.people.len() as u64;
        let cities = self.people.iter().map(|person| person.city).collect::<BTreeSet<_>>().len() as u64;
        let mut readings: Vec<(Reading, &'static str)> = match shape.kinds {
            [Kind::City] if shape.covering => vec![(Reading::Covered, COVERED)],
            [Kind::City] if shape.verified_on_read => vec![(Reading::Batched, CHECKED)],
            [Kind::City] => vec![(Reading::Batched, BATCHED), (Reading::Single, SINGLE)],
            _ => Vec::new(),
        };
        for _ in 0..self.sizes.samples {
            let city = random.u64(..self.sizes.cities);
            // The first one brings the city's rows into the caches for the next.
            random.shuffle(&mut readings);
            for (reading, question) in &readings {
                self.city(table, name, question, *reading, self.people, city, None)?;
            }
        }
        if shape.kinds.len() < Kind::ALL.len() {
            return Ok(());
        }
        for turn in 0..self.sizes.samples {
            let id = random.u64(..rows);
            let mail = &self.people[usize::try_from(id).unwrap_or(usize::MAX)].mail;
            let samples = self.reads.entry((name, UNIQUE)).or_default();
            let found = samples.call(UNIQUE, || table.by_mail(mail))?;
            right(name, UNIQUE, &found.value, &vec![id])?;
            self.study.compare(UNIQUE, "1 call, 1 key", &counted(&found), &(1, 1));
            let age = random.u64(..AGES);
            let expected: BTreeSet<u64> = ids(self.people, |person| person.age == age);
            let hits = expected.len() as u64;
            for (finding, question, formula, cost) in [
                (Finding::FullScan, SCAN, "1 call, every row", (1, rows)),
                (
                    Finding::SkipScan,
                    SKIP,
                    "with C cities and N hits: 2·C + 1 calls, C + N keys",
                    (2 * cities + 1, cities + hits),
                ),
                (Finding::OwnIndex, OWN, "1 call, a key for each hit", (1, hits)),
            ] {
                if finding == Finding::FullScan && turn >= self.sizes.scans {
                    continue;
                }
                let samples = self.reads.entry((name, question)).or_default();
                let found = samples.call(question, || table.of_age(age, finding))?;
                right(name, question, &found.value, &expected)?;
                self.study.compare(question, formula, &counted(&found), &cost);
            }
        }
        Ok(())
    }

    /// Names of the people in `city`; `met` says how many entries a lookup meets, if not as many as people.
    #[expect(clippy::too_many_arguments, reason = "what is asked, of whom, and what is right")]
    fn city(
        &mut self,
        table: &dyn People,
        name: &'static str,
        question: &'static str,
        reading: Reading,
        people: &[Person],
        city: u64,
        met: Option<u64>,
    ) -> Result<()> {
        let expected: BTreeSet<(u64, String)> = ids(people, |person| person.city == city)
            .into_iter()
            .map(|id| (id, people[usize::try_from(id).unwrap_or(usize::MAX)].name.clone()))
            .collect();
        let hits = expected.len() as u64;
        let samples = if met.is_some() {
            self.stale.entry(name).or_default()
        } else {
            self.reads.entry((name, question)).or_default()
        };
        let found = samples.call(question, || table.names(city, reading))?;
        right(name, question, &found.value, &expected)?;
        let entries = met.unwrap_or(hits);
        let (formula, cost) = match reading {
            Reading::Covered => ("N people: 1 call, N keys", (1, entries)),
            Reading::Batched if met.is_some() => {
                ("E entries, stale ones among them: 2 calls, 2·E keys", (2, 2 * entries))
            }
            Reading::Batched => ("N people: 2 calls, 2·N keys", (2, 2 * entries)),
            Reading::Single => ("N people: 1 + N calls, 2·N keys", (1 + entries, 2 * entries)),
        };
        self.study.compare(&format!("{name}: {question}"), formula, &counted(&found), &cost);
        Ok(())
    }

    /// Puts of each kind; for the tables with an index by city alone, the lookups once more.
    pub(super) fn writes(&mut self, table: &dyn People, name: &'static str, shape: Shape) -> Result<()> {
        let mut random = random(self.options, &[15, 4]);
        let mut people = self.people.to_vec();
        let indexes = shape.kinds.len() as u64;
        // Entries that were ever written, for the table that leaves them.
        let mut ever: BTreeSet<(u64, u64)> = (0..).zip(&people).map(|(id, p)| (p.city, id)).collect();
        for turn in 0..self.sizes.samples {
            let mut kinds = Write::ALL;
            random.shuffle(&mut kinds);
            for write in kinds {
                let id = match write {
                    Write::New => people.len(),
                    _ => random.usize(..self.people.len()),
                };
                let mut person = people.get(id).unwrap_or(&people[0]).clone();
                match write {
                    Write::New => person.mail = format!("n{id}@example.org"),
                    Write::Note => person.note = format!("{turn:040}"),
                    Write::City => person.city = (person.city + 1) % self.sizes.cities,
                }
                let number = id as u64;
                let samples = self.writes.entry((name, write)).or_default();
                let done = samples.call(write.name(), || {
                    table.put(number, &person).map(|cost| Costed { value: (), cost })
                })?;
                ever.insert((person.city, number));
                if id == people.len() {
                    people.push(person);
                } else {
                    people[id] = person;
                }
                let moved = shape.kinds.iter().filter(|k| matches!(k, Kind::City | Kind::CityAge)).count();
                let in_step = match write {
                    Write::New => (1 + indexes, 0),
                    Write::Note => (1, 0),
                    Write::City => (1 + moved as u64, moved as u64),
                };
                let (formula, written, reads) = if shape.verified_on_read {
                    ("1 + indexes put, nothing deleted, the row not read", (1 + indexes, 0), (2, indexes))
                } else {
                    // The index by mail address asks who has the address, if the row had another.
                    let asks = u64::from(shape.kinds.contains(&Kind::Mail) && write == Write::New);
                    let old = u64::from(indexes > 0);
                    let keys = indexes + if write == Write::New { 0 } else { old };
                    let formula =
                        "1 + indexes that change put, as many deleted as move, 1 get of the row if indexed";
                    (formula, in_step, (2 + old + asks, keys))
                };
                let counted = (
                    (done.cost.keys_written, done.cost.tombstones_written),
                    (done.cost.calls, done.cost.keys_read),
                );
                let operation = format!("{}: {name}", write.name());
                self.study.compare(&operation, formula, &counted, &(written, reads));
            }
        }
        if let [Kind::City] = shape.kinds {
            for _ in 0..self.sizes.samples {
                let city = random.u64(..self.sizes.cities);
                let entries = ever.range((city, 0)..(city + 1, 0)).count() as u64;
                let live = people.iter().filter(|person| person.city == city).count() as u64;
                let met = if shape.verified_on_read { entries } else { live };
                let reading = if shape.covering { Reading::Covered } else { Reading::Batched };
                let question = "names of a city, after the writes";
                self.city(table, name, question, reading, &people, city, Some(met))?;
            }
        }
        Ok(())
    }
}

fn counted<T>(found: &Costed<T>) -> (u64, u64) {
    (found.cost.calls, found.cost.keys_read)
}

fn ids(people: &[Person], wanted: impl Fn(&Person) -> bool) -> BTreeSet<u64> {
    (0..).zip(people).filter(|(_, person)| wanted(person)).map(|(id, _)| id).collect()
}
