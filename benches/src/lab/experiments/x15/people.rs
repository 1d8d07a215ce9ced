//! The table of people and its four indexes.

use std::collections::BTreeSet;

use esker_layouts::OpCost;
use esker_layouts::indexed::{Entry, Index, IndexedTable, State};
use esker_layouts::kv::{Costed, KvRead, OrderedKv, ScanOptions};
use esker_layouts::tuple::{Space, pack, unpack};

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) mail: String,
    pub(super) city: u64,
    pub(super) age: u64,
    pub(super) name: String,
    pub(super) note: String,
}

type Row = (String, u64, u64, String, String);

impl Person {
    fn pack(&self) -> Vec<u8> {
        pack(&(self.mail.as_str(), self.city, self.age, self.name.as_str(), self.note.as_str()))
    }
}

/// An index; the order is that in which tables get them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Unique.
    Mail,
    City,
    /// Compound.
    CityAge,
    Age,
}

impl Kind {
    pub(super) const ALL: [Kind; 4] = [Kind::Mail, Kind::City, Kind::CityAge, Kind::Age];

    fn name(self) -> &'static str {
        match self {
            Kind::Mail => "mail",
            Kind::City => "city",
            Kind::CityAge => "city-age",
            Kind::Age => "age",
        }
    }
}

/// How a table is indexed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) kinds: &'static [Kind],
    /// The index by city has the name in its entries.
    pub(super) covering: bool,
    /// Entries are compared with their rows when they are looked up.
    pub(super) verified_on_read: bool,
}

fn index(kind: Kind, shape: Shape) -> Index<(u64,)> {
    let Shape { covering, verified_on_read, .. } = shape;
    let entries = move |_: &(u64,), row: &[u8]| {
        let (mail, city, age, name, _): Row = unpack(row)?;
        let entry = match kind {
            Kind::Mail => Entry::new(&(mail,)),
            Kind::City if covering => Entry::new(&(city,)).including(name.as_bytes()),
            Kind::City => Entry::new(&(city,)),
            Kind::CityAge => Entry::new(&(city, age)),
            Kind::Age => Entry::new(&(age,)),
        };
        Ok(vec![entry])
    };
    let fields = if kind == Kind::CityAge { 2 } else { 1 };
    match kind {
        Kind::Mail => Index::unique(kind.name(), fields, entries),
        _ if verified_on_read => Index::multi(kind.name(), fields, entries).verified_on_read(),
        _ => Index::multi(kind.name(), fields, entries),
    }
}

/// How the names of a city's people are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// From the entries.
    Covered,
    /// From the rows, in one batch.
    Batched,
    /// From the rows, one by one.
    Single,
}

/// How people of an age are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    FullScan,
    /// In the index by city and age, city by city.
    SkipScan,
    /// In an index of its own.
    OwnIndex,
}

/// How an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Health {
    pub(super) ready: bool,
    /// Where table and indexes disagree.
    pub(super) problems: usize,
    /// Rows that share a unique value.
    pub(super) violations: usize,
    pub(super) rows: u64,
}

/// The table as the experiment uses it.
pub(super) trait People: Sync {
    fn put(&self, id: u64, person: &Person) -> esker_layouts::Result<OpCost>;
    fn put_all(&self, people: &[(u64, Person)]) -> esker_layouts::Result<OpCost>;
    fn by_mail(&self, mail: &str) -> esker_layouts::Result<Costed<Vec<u64>>>;
    fn names(&self, city: u64, reading: Reading) -> esker_layouts::Result<Costed<BTreeSet<(u64, String)>>>;
    fn of_age(&self, age: u64, finding: Finding) -> esker_layouts::Result<Costed<BTreeSet<u64>>>;
    /// Build the index by city, beside writers.
    fn build(&self, step: usize) -> esker_layouts::Result<()>;
    fn health(&self, kind: Kind) -> esker_layouts::Result<Health>;
}

/// Opens the table over a store; tests put a wrong one in its place.
pub(super) trait OpenPeople<K> {
    fn open<'k>(&self, store: &'k K, shape: Shape) -> esker_layouts::Result<Box<dyn People + 'k>>;
}

pub(super) struct RealPeople;

impl<K: OrderedKv> OpenPeople<K> for RealPeople {
    fn open<'k>(&self, store: &'k K, shape: Shape) -> esker_layouts::Result<Box<dyn People + 'k>> {
        let indexes = shape.kinds.iter().map(|kind| index(*kind, shape)).collect();
        Ok(Box::new(Table { store, table: IndexedTable::open(store, &space(), indexes)? }))
    }
}

fn space() -> Space {
    Space::new(&("people",))
}

/// Where the rows lie: `FORMAT.md` of the layouts says so.
pub(super) fn rows() -> Space {
    space().sub(&(1u64,))
}

struct Table<'k, S> {
    store: &'k S,
    table: IndexedTable<&'k S, (u64,)>,
}

fn name(row: &[u8]) -> esker_layouts::Result<String> {
    Ok(unpack::<Row>(row)?.3)
}

impl<S: OrderedKv> People for Table<'_, S> {
    fn put(&self, id: u64, person: &Person) -> esker_layouts::Result<OpCost> {
        self.table.put(&(id,), &person.pack())
    }

    fn put_all(&self, people: &[(u64, Person)]) -> esker_layouts::Result<OpCost> {
        let done = self.store.update(|tx| {
            people.iter().try_for_each(|(id, person)| self.table.put_in(tx, &(*id,), &person.pack()))
        })?;
        Ok(done.cost)
    }

    fn by_mail(&self, mail: &str) -> esker_layouts::Result<Costed<Vec<u64>>> {
        let view = self.table.view()?;
        let before = view.cost();
        let hits = view.lookup(Kind::Mail.name(), &(mail,), ScanOptions::new())?;
        let value = hits.into_iter().map(|hit| hit.key.0).collect();
        Ok(Costed { value, cost: view.cost().since(&before) })
    }

    fn names(&self, city: u64, reading: Reading) -> esker_layouts::Result<Costed<BTreeSet<(u64, String)>>> {
        let view = self.table.view()?;
        // The list of indexes is read by opening the view, once for any number of lookups.
        let before = view.cost();
        let (by_city, all) = (Kind::City.name(), ScanOptions::new());
        let mut value = BTreeSet::new();
        match reading {
            Reading::Covered => {
                for hit in view.lookup(by_city, &(city,), all)? {
                    value.insert((hit.key.0, String::from_utf8_lossy(&hit.included).into_owned()));
                }
            }
            Reading::Batched => {
                for ((id,), row) in view.rows(by_city, &(city,), all)? {
                    value.insert((id, name(&row)?));
                }
            }
            Reading::Single => {
                for hit in view.lookup(by_city, &(city,), all)? {
                    if let Some(row) = view.get(&hit.key)? {
                        value.insert((hit.key.0, name(&row)?));
                    }
                }
            }
        }
        Ok(Costed { value, cost: view.cost().since(&before) })
    }

    fn of_age(&self, age: u64, finding: Finding) -> esker_layouts::Result<Costed<BTreeSet<u64>>> {
        if finding == Finding::FullScan {
            let (read, rows) = (self.store.read()?, rows());
            let mut value = BTreeSet::new();
            for row in read.scan(rows.under(&()), ScanOptions::new())? {
                let (at, row) = row?;
                if unpack::<Row>(&row)?.2 == age {
                    value.insert(rows.unpack::<(u64,)>(&at)?.0);
                }
            }
            return Ok(Costed { value, cost: read.cost() });
        }
        let view = self.table.view()?;
        let before = view.cost();
        let hits = match finding {
            Finding::SkipScan => view.skip_scan(Kind::CityAge.name(), &(age,))?,
            _ => view.lookup(Kind::Age.name(), &(age,), ScanOptions::new())?,
        };
        let value = hits.into_iter().map(|hit| hit.key.0).collect();
        Ok(Costed { value, cost: view.cost().since(&before) })
    }

    fn build(&self, step: usize) -> esker_layouts::Result<()> {
        self.table.build(Kind::City.name(), step).map(|_| ())
    }

    fn health(&self, kind: Kind) -> esker_layouts::Result<Health> {
        let view = self.table.view()?;
        let report = view.verify()?;
        Ok(Health {
            ready: view.state(kind.name())? == State::Ready,
            problems: report.problems.len(),
            violations: view.violations(kind.name())?.len(),
            rows: report.rows,
        })
    }
}
