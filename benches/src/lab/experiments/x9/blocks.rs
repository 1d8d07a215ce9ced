//! One fact read from a wide row and from a narrow one, cold and warm, in blocks of several sizes.

use esker_layouts::OpCost;
use esker_layouts::kv::{Costed, KvRead, OrderedKv, ScanOptions};
use esker_layouts::tuple::Space;

use super::{Access, Measured, Sizes, failed, random, right};
use crate::lab::experiments::weighed::{Row, at_rest, for_loads, put_all, weigh};
use crate::lab::store::{Setup, Store};
use crate::lab::study::Study;
use crate::lab::{LabOptions, Result};

/// Bytes of a value.
const VALUE: usize = 8;

/// Where the facts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layout {
    /// (user, game): the games of a user are a row.
    Wide,
    /// (game, user): a fact is a row.
    Tall,
}

impl Layout {
    pub(super) const ALL: [Layout; 2] = [Layout::Wide, Layout::Tall];

    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::Wide => "wide rows",
            Layout::Tall => "tall table",
        }
    }

    /// How a fact can be read.
    fn readings(self) -> &'static [Reading] {
        match self {
            Layout::Wide => &[Reading::WideRow, Reading::WideCell],
            Layout::Tall => &[Reading::Narrow],
        }
    }
}

/// How a fact is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reading {
    /// The user's whole row, its columns gone through: the article's listing.
    WideRow,
    /// A get of the cell in the wide row.
    WideCell,
    /// A get of the narrow row.
    Narrow,
}

impl Reading {
    pub(super) const ALL: [Reading; 3] = [Reading::WideRow, Reading::WideCell, Reading::Narrow];

    pub(super) fn name(self) -> &'static str {
        match self {
            Reading::WideRow => "wide row, scanned",
            Reading::WideCell => "wide row, one cell",
            Reading::Narrow => "narrow row",
        }
    }
}

/// What is in the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// Opened again without a block cache: every block comes from the file.
    Cold,
    /// Asked for once before.
    Warm,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Cold => "cold",
            State::Warm => "warm",
        }
    }
}

fn space() -> Space {
    Space::new(&("b",))
}

fn key(layout: Layout, user: u64, game: u64) -> Vec<u8> {
    match layout {
        Layout::Wide => space().key(&(user, game)),
        Layout::Tall => space().key(&(game, user)),
    }
}

/// Load, weigh, and read in both states.
#[expect(clippy::too_many_arguments, reason = "the parts of an experiment, handed down once")]
pub(super) fn ask<S: Store>(
    store: &S,
    access: &impl Access<S::Kv>,
    block_bytes: u32,
    layout: Layout,
    sizes: &Sizes,
    options: &LabOptions,
    study: &mut Study,
    measured: &mut Measured,
) -> Result<()> {
    let mut setup = for_loads();
    setup.keyspace.block_bytes = block_bytes;
    let kv = store.open_as(&setup).map_err(failed("open a store"))?;
    let facts = (0..sizes.users).flat_map(|user| (0..sizes.games).map(move |game| (user, game)));
    let rows: Vec<Row> = facts.map(|(user, game)| (key(layout, user, game), vec![b'n'; VALUE])).collect();
    put_all(&kv, &rows)?;
    let kv = at_rest(store, kv, &setup)?;
    let weighed = weigh(&kv, |_, _| ())?;
    let raw: u64 = rows.iter().map(|(key, _)| key.len() as u64).sum();
    let formula = "a key a fact, its bytes the same in both orders";
    let counted = (weighed.keys, weighed.key_bytes, weighed.value_bytes);
    study.compare(
        "weight of the facts",
        formula,
        &counted,
        &(rows.len() as u64, raw, (rows.len() * VALUE) as u64),
    );
    measured.weights.insert((block_bytes, layout), (weighed, store.disk_bytes(&kv)));
    let mut uncached = setup.clone();
    uncached.database.cache_bytes = 0;
    let kv = store.reopen_as(kv, &uncached).map_err(failed("open the store again"))?;
    let asked = Reads { block_bytes, layout, counts: weighed.blocks > 0, sizes, options };
    asked.all(&kv, access, State::Cold, study, measured)?;
    let kv = store.reopen_as(kv, &warm(&setup)).map_err(failed("open the store again"))?;
    asked.all(&kv, access, State::Warm, study, measured)
}

/// With the default cache.
fn warm(setup: &Setup) -> Setup {
    let mut setup = setup.clone();
    setup.database.cache_bytes = Setup::default().database.cache_bytes;
    setup
}

/// Reads of one store.
struct Reads<'a> {
    block_bytes: u32,
    layout: Layout,
    /// Whether the store counts blocks.
    counts: bool,
    sizes: &'a Sizes,
    options: &'a LabOptions,
}

impl Reads<'_> {
    fn all<K: OrderedKv>(
        &self,
        kv: &K,
        access: &impl Access<K>,
        state: State,
        study: &mut Study,
        measured: &mut Measured,
    ) -> Result<()> {
        let Sizes { users, games, .. } = *self.sizes;
        let mut random = random(self.options, &[9, 4]);
        for _ in 0..self.sizes.reads {
            let (user, game) = (random.u64(..users), random.u64(..games));
            for reading in self.layout.readings() {
                let read = || match reading {
                    Reading::WideRow => scan(kv, user, game),
                    Reading::WideCell | Reading::Narrow => access.has(kv, &key(self.layout, user, game)),
                };
                if state == State::Warm {
                    read().map_err(failed("read once before"))?;
                }
                let samples = measured.reads.entry((self.block_bytes, *reading, state)).or_default();
                let found = samples.call(reading.name(), read)?;
                right(reading.name(), "whether the user plays the game", &found.value, &true)?;
                self.compare(*reading, state, user, &found.cost, study);
            }
        }
        Ok(())
    }

    fn compare(&self, reading: Reading, state: State, user: u64, cost: &OpCost, study: &mut Study) {
        let scanned = reading == Reading::WideRow;
        let (keys, seeks) = if scanned { (self.sizes.games, 1) } else { (1, 0) };
        let formula = if scanned { "1 call, 1 seek, a key for each column" } else { "1 call, 1 key" };
        let operation = format!("{}: {}", reading.name(), state.name());
        study.compare(&operation, formula, &(cost.calls, cost.seeks, cost.keys_read), &(1, seeks, keys));
        if !self.counts {
            return;
        }
        let (disk, cache) = (cost.blocks_from_disk, cost.blocks_from_cache);
        let (wanted, unwanted) = if state == State::Cold { (disk, cache) } else { (cache, disk) };
        // A row begins anywhere in a block, and its end may be the next one's beginning.
        let row = key(Layout::Wide, user, self.sizes.games).len() + VALUE;
        let most =
            if scanned { 2 + self.sizes.games * row as u64 / u64::from(self.block_bytes) } else { 1 };
        let formula = match (state, scanned) {
            (State::Cold, false) => "1 block, from the file",
            (State::Warm, false) => "1 block, from the cache",
            (State::Cold, true) => "the row's blocks and at most two more, from the file",
            (State::Warm, true) => "the row's blocks and at most two more, from the cache",
        };
        study.compare(&operation, formula, &((1..=most).contains(&wanted), unwanted), &(true, 0));
    }
}

/// Go through the columns of `user`'s row: whether `game` is one.
fn scan<K: OrderedKv>(kv: &K, user: u64, game: u64) -> esker_layouts::Result<Costed<bool>> {
    let wanted = key(Layout::Wide, user, game);
    let read = kv.read()?;
    let mut found = false;
    for row in read.scan(space().under(&(user,)), ScanOptions::new())? {
        let (key, _) = row?;
        found |= key == wanted.as_slice();
    }
    Ok(Costed { value: found, cost: read.cost() })
}
