//! One table of events in eight orders of its keys.

use esker_layouts::hashed::{HashBy, HashedTable};
use esker_layouts::kv::{Bytes, Costed, KeyRange, KvRead, KvTx, OrderedKv, ScanOptions};
use esker_layouts::promoted::PromotedTable;
use esker_layouts::salted::{Salt, SaltedTable};
use esker_layouts::tall::TallTable;
use esker_layouts::tuple::{Space, Uuid};
use esker_layouts::{OpCost, Result};

use super::SERVERS;
use super::events::{Event, SOURCES};
use super::slides::{self, SlidesSalt};

/// Bytes of a value.
pub(super) const VALUE: [u8; 64] = [b'x'; 64];

/// The order of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Time, then source.
    Growing,
    /// The slides' salt before stamps of whole seconds.
    SlidesSeconds,
    /// The slides' salt before stamps of milliseconds.
    SlidesMillis,
    /// A bucket by a hash of time and source, of so many.
    Salted(u32),
    /// Source, then time.
    Promoted,
    /// The digest of time and source.
    Hashed,
}

impl Order {
    pub(super) const ALL: [Order; 8] = [
        Order::Growing,
        Order::SlidesSeconds,
        Order::SlidesMillis,
        Order::Salted(4),
        Order::Salted(16),
        Order::Salted(64),
        Order::Promoted,
        Order::Hashed,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Growing => "growing keys",
            Order::SlidesSeconds => "slides' salt, seconds",
            Order::SlidesMillis => "slides' salt, milliseconds",
            Order::Salted(4) => "4 buckets",
            Order::Salted(16) => "16 buckets",
            Order::Salted(_) => "64 buckets",
            Order::Promoted => "source first",
            Order::Hashed => "MD5 of the key",
        }
    }

    /// The event as this order's writers stamp it.
    pub(super) fn stamp(self, event: Event) -> Event {
        if self == Order::SlidesSeconds { event.in_seconds() } else { event }
    }

    /// Where somebody who knows the layout cuts the key space ahead, one cut between two shards; `history`
    /// are keys already written, ascending.
    pub(super) fn cuts(self, history: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let rows = space().sub(&(ROWS,));
        let servers = SERVERS as u64;
        match self {
            // Nothing is known of keys to come; those that are there are divided evenly.
            Order::Growing => {
                (1..SERVERS).filter_map(|cut| history.get(cut * history.len() / SERVERS).cloned()).collect()
            }
            Order::SlidesSeconds | Order::SlidesMillis => {
                (1..slides::PREFIXES).map(|prefix| slides::start(&space(), prefix)).collect()
            }
            Order::Salted(buckets) => (1..buckets).map(|bucket| rows.key(&(FIRST_EPOCH, bucket))).collect(),
            Order::Promoted => (1..servers).map(|cut| rows.key(&(cut * SOURCES / servers,))).collect(),
            Order::Hashed => (1..SERVERS).map(|cut| rows.key(&(Uuid(slice_of_digests(cut)),))).collect(),
        }
    }
}

/// The first digest of slice `slice` of as many even ones as there are servers.
pub(super) fn slice_of_digests(slice: usize) -> [u8; 16] {
    let mut digest = [0; 16];
    digest[0] = u8::try_from(slice * 256 / SERVERS).unwrap_or(u8::MAX);
    digest
}

/// As the format of salted, hashed and promoted tables has it: rows lie under 1, in salted tables then under
/// the number of their epoch.
pub(super) const ROWS: u64 = 1;
pub(super) const FIRST_EPOCH: u64 = 0;

pub(super) fn space() -> Space {
    Space::new(&("events",))
}

/// A table of events.
pub(super) trait Events {
    fn put(&self, event: Event) -> Result<OpCost>;

    /// Put all of them in one transaction.
    fn put_all(&self, events: &[Event]) -> Result<OpCost>;

    fn get(&self, event: Event) -> Result<Costed<bool>>;

    /// The events with `from` <= time < `to`, in the order of their keys (time, source).
    fn between(&self, from: u64, to: u64) -> Result<Costed<Vec<Event>>>;

    /// The same as the slides tell to read it; `None` where they do not.
    fn as_told(&self, _from: u64, _to: u64) -> Result<Option<usize>> {
        Ok(None)
    }
}

/// Opens tables; tests put wrong ones in their place.
pub(super) trait OpenEvents<K> {
    fn open<'k>(&self, store: &'k K, order: Order) -> Result<Box<dyn Events + 'k>>;
}

pub(super) struct RealEvents;

impl<K: OrderedKv> OpenEvents<K> for RealEvents {
    fn open<'k>(&self, store: &'k K, order: Order) -> Result<Box<dyn Events + 'k>> {
        let space = space();
        Ok(match order {
            Order::Growing => Box::new(Growing { store, table: TallTable::open(store, &space)? }),
            Order::SlidesSeconds | Order::SlidesMillis => Box::new(SlidesSalt::new(store, space)),
            Order::Salted(buckets) => {
                let table = SaltedTable::open(store, &space, &Salt::new(buckets, &[0, 1]))?;
                Box::new(Salted { store, table })
            }
            Order::Promoted => Box::new(Promoted { store, table: PromotedTable::open(store, &space, 1)? }),
            Order::Hashed => {
                Box::new(Hashed { store, table: HashedTable::open(store, &space, HashBy::WholeKey)? })
            }
        })
    }
}

type TimeSource = (u64, u64);

fn key(event: Event) -> TimeSource {
    (event.time, event.source)
}

fn events(rows: impl Iterator<Item = Result<(TimeSource, Bytes)>>) -> Result<Vec<Event>> {
    rows.map(|row| row.map(|((time, source), _)| Event { time, source })).collect()
}

/// Run `f` as one transaction; what it cost.
pub(super) fn in_one<S: OrderedKv>(
    store: &S,
    f: impl FnMut(&mut S::Tx<'_>) -> Result<()>,
) -> Result<OpCost> {
    Ok(store.update(f)?.cost)
}

/// Puts as all tables have them.
macro_rules! puts {
    () => {
        fn put(&self, event: Event) -> Result<OpCost> {
            self.table.put(&key(event), &VALUE)
        }
        fn put_all(&self, events: &[Event]) -> Result<OpCost> {
            in_one(self.store, |tx| {
                events.iter().try_for_each(|event| self.table.put_in(tx, &key(*event), &VALUE))
            })
        }
    };
}

/// A get as all tables with views have it.
macro_rules! get_in_a_view {
    () => {
        fn get(&self, event: Event) -> Result<Costed<bool>> {
            let view = self.table.view()?;
            Ok(Costed { value: view.get(&key(event))?.is_some(), cost: view.cost() })
        }
    };
}

struct Growing<'k, S> {
    store: &'k S,
    table: TallTable<&'k S, TimeSource>,
}

impl<S: OrderedKv> Events for Growing<'_, S> {
    puts!();
    get_in_a_view!();
    fn between(&self, from: u64, to: u64) -> Result<Costed<Vec<Event>>> {
        let view = self.table.view()?;
        let range = self.table.keys().between((from,)..(to,));
        let value = events(view.rows(range, ScanOptions::new())?)?;
        Ok(Costed { value, cost: view.cost() })
    }
}

struct Salted<'k, S> {
    store: &'k S,
    table: SaltedTable<&'k S, TimeSource>,
}

impl<S: OrderedKv> Events for Salted<'_, S> {
    puts!();
    get_in_a_view!();
    fn between(&self, from: u64, to: u64) -> Result<Costed<Vec<Event>>> {
        let view = self.table.view()?;
        let value = events(view.between((from, 0)..(to, 0), ScanOptions::new())?)?;
        Ok(Costed { value, cost: view.cost() })
    }
}

struct Promoted<'k, S> {
    store: &'k S,
    table: PromotedTable<&'k S, TimeSource>,
}

impl<S: OrderedKv> Events for Promoted<'_, S> {
    puts!();
    get_in_a_view!();
    fn between(&self, from: u64, to: u64) -> Result<Costed<Vec<Event>>> {
        let view = self.table.view()?;
        let value = events(view.between((from,)..(to,), ScanOptions::new())?)?;
        Ok(Costed { value, cost: view.cost() })
    }
}

struct Hashed<'k, S> {
    store: &'k S,
    table: HashedTable<&'k S, TimeSource>,
}

impl<S: OrderedKv> Events for Hashed<'_, S> {
    puts!();
    fn get(&self, event: Event) -> Result<Costed<bool>> {
        Ok(self.table.get(&key(event))?.map(|row| row.is_some()))
    }
    fn between(&self, from: u64, to: u64) -> Result<Costed<Vec<Event>>> {
        // Nothing of the order is left: everything is read and filtered.
        Ok(self.table.under(&())?.map(|rows| {
            let rows = rows.into_iter().map(|((time, source), _)| Event { time, source });
            let mut found: Vec<Event> = rows.filter(|event| (from..to).contains(&event.time)).collect();
            found.sort_unstable();
            found
        }))
    }
}

/// The keys of `range`, or nothing where there is none.
pub(super) fn count(read: &impl KvRead, range: KeyRange) -> Result<usize> {
    read.scan(range, ScanOptions::new())?.try_fold(0, |count, row| row.map(|_| count + 1))
}

/// Put `value` under `key` in a commit of its own.
pub(super) fn put_raw<S: OrderedKv>(store: &S, key: &[u8], value: &[u8]) -> Result<OpCost> {
    in_one(store, |tx| {
        tx.put(key, value);
        Ok(())
    })
}
