//! X11: hot spots. The same events under eight orders of their keys: which servers of a cluster that divides
//! the key space by ranges do the work, and what a reader pays for spreading it.
//!
//! Three kinds of figures, kept apart in everything that is shown:
//!
//! - *counted*: which server each access goes to, from the keys that reach the store ([`traced`], [`cluster`]);
//! - *measured*: what a server takes for its stream, replayed alone on a store of its own ([`serve`]);
//! - *modelled*: what sixteen machines would take together, from both ([`model`], [`queue`]). There is one
//!   machine here, no network and no replication.
//!
//! [`events`] are the writers, [`orders`] the layouts, [`slides`] the slides' salt to the letter, [`findings`] and
//! [`exhibits`] judge and draw. How skewed users spread is asked in X9.

mod cluster;
mod events;
mod exhibits;
mod findings;
mod model;
mod orders;
mod queue;
mod serve;
mod slides;
mod traced;

use std::collections::BTreeMap;

use esker_layouts::kv::{Go, KeyRange, KvRead, OrderedKv};

use cluster::{Shards, Splitting};
use events::Event;
use model::Modelled;
use orders::{Events, OpenEvents, Order, RealEvents};
use serve::{Put, Stream};
use traced::{Access, Traced};

use super::random;
use super::samples::{Samples, failed, right};
use crate::lab::store::{Setup, Store};
use crate::lab::study::Study;
use crate::lab::{Experiment, LabOptions, Progress, Result, Scale};

/// Servers of the cluster.
const SERVERS: usize = 16;
/// Events in one commit while history is loaded.
const BATCH: usize = 256;
/// Of the heat map: slices of the key space, and moments.
const SLICES: usize = 32;
const MOMENTS: usize = 48;

/// How much there is.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// The first half is history, the second is measured.
    events: usize,
    windows: usize,
    /// Reads of each kind.
    reads: usize,
    /// Buffers of a server: small, so that flushes and compactions fall into what is measured.
    memtable_bytes: u64,
    repeat: u32,
}

fn sizes(options: &LabOptions) -> Sizes {
    let (events, windows, reads, memtable_bytes) = match options.scale {
        Scale::Tiny => (1_024, 8, 3, 8 << 10),
        Scale::Smoke => (16_384, 32, 10, 64 << 10),
        Scale::Desk => (262_144, 128, 30, 256 << 10),
        Scale::Large => (2_097_152, 128, 30, 1 << 20),
    };
    // A replay opens up to 128 stores.
    let repeat = match options.scale {
        Scale::Tiny | Scale::Smoke => 1,
        Scale::Desk | Scale::Large => options.repetitions().min(5),
    };
    Sizes { events, windows, reads, memtable_bytes, repeat }
}

impl Sizes {
    fn history(&self) -> usize {
        self.events / 2
    }

    /// The window of the put numbered `put` behind history.
    fn window(&self, put: usize) -> usize {
        put * self.windows / (self.events - self.history())
    }

    fn setup(&self) -> Setup {
        // 16 servers on this machine's one disk would wait for each other's syncs.
        let mut setup = Setup { in_memory: true, ..Setup::default() };
        setup.database.memtable_bytes_max = self.memtable_bytes;
        setup.database.table_bytes = self.memtable_bytes;
        setup
    }
}

/// What was counted and measured of one order.
#[derive(Default)]
struct Found {
    /// Puts of each window on each server, the shards cut ahead.
    puts: Vec<[u64; SERVERS]>,
    /// The same with the other keys that puts read.
    calls: Vec<[u64; SERVERS]>,
    /// Puts of each window on each server, the shards split by size.
    split: Vec<[u64; SERVERS]>,
    shards: usize,
    /// Puts by slice of the key space, from its end down, and moment.
    map: Vec<Vec<f64>>,
    ranges: Samples,
    gets: Samples,
    /// Servers asked by each range read.
    asked: Vec<u64>,
    /// Events returned by all range reads, and by the same as the slides tell to read.
    returned: u64,
    as_told: Option<u64>,
    single: serve::Single,
    modelled: Modelled,
}

pub(in crate::lab) fn run<S: Store>(
    store: &S,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    run_with(store, &RealEvents, options, progress)
}

fn run_with<S: Store>(
    store: &S,
    open: &impl OpenEvents<Traced<S::Kv>>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    let sizes = sizes(options);
    progress.begin(Experiment::X11, Order::ALL.len() as u64 * 2);
    let happened = events::events(&sizes, options);
    let mut study = Study::new("X11", "", "C6–C10", "");
    let mut found = BTreeMap::new();
    let mut order: Vec<Order> = Order::ALL.to_vec();
    random(options, &[11, 2]).shuffle(&mut order);
    for order in order {
        let events: Vec<Event> = happened.iter().map(|event| order.stamp(*event)).collect();
        let mut one = Measuring { order, sizes: &sizes, study: &mut study, found: Found::default() };
        let kv = Traced::new(store.open_as(&sizes.setup()).map_err(failed("open a store"))?);
        let table = open.open(&kv, order).map_err(failed("open the table"))?;
        let puts = one.write(&kv, table.as_ref(), &events)?;
        store.settle(kv.store()).map_err(failed("settle"))?;
        progress.step(&format!("{}, routed", order.name()));
        let shards = one.route(&puts);
        let reads = one.read(&kv, table.as_ref(), &events, &shards, options)?;
        one.serve(store, &shards, &puts, &reads)?;
        found.insert(order, one.found);
        progress.step(&format!("{}, served", order.name()));
    }
    Ok(findings::study(study, &found, &sizes, options))
}

/// One order under measurement.
struct Measuring<'a> {
    order: Order,
    sizes: &'a Sizes,
    study: &'a mut Study,
    found: Found,
}

impl Measuring<'_> {
    fn operation(&self, what: &str) -> String {
        format!("{}: {what}", self.order.name())
    }

    /// Put everything; what each put asked of the store.
    fn write<K>(&mut self, kv: &Traced<K>, table: &dyn Events, events: &[Event]) -> Result<Vec<Put>> {
        let (history, measured) = events.split_at(self.sizes.history());
        let mut puts: Vec<Put> = Vec::with_capacity(events.len());
        for batch in history.chunks(BATCH) {
            let (done, accesses) = kv.trace(|| table.put_all(batch));
            done.map_err(failed("load history"))?;
            let rows = accesses.into_iter().filter_map(|access| match access {
                Access::Put(key, value) => Some(Put { key, value, ..Put::default() }),
                Access::Get(_) | Access::Scan(_) | Access::Visit(_) => None,
            });
            puts.extend(rows);
        }
        let operation = self.operation("put");
        let (formula, expected) = match self.order {
            Order::Growing | Order::SlidesSeconds | Order::SlidesMillis | Order::Promoted => {
                ("1 call, nothing read, 1 key written", (1, 0, 1))
            }
            Order::Salted(_) => ("2 calls, the list of epochs read, 1 key written", (2, 1, 1)),
            Order::Hashed => ("2 calls, the key read in vain, 1 key written", (2, 0, 1)),
        };
        for event in measured {
            let (done, accesses) = kv.trace(|| table.put(*event));
            let cost = done.map_err(failed("put an event"))?;
            let counted = (cost.calls, cost.keys_read, cost.keys_written);
            self.study.compare(&operation, formula, &counted, &expected);
            puts.push(Put::of(accesses));
        }
        Ok(puts)
    }

    /// Count which servers the measured puts go to; the shards, cut ahead.
    fn route(&mut self, puts: &[Put]) -> Shards {
        let history = self.sizes.history();
        let mut keys: Vec<Vec<u8>> = puts.iter().map(|put| put.key.clone()).collect();
        keys.sort();
        self.found.map = map(&keys, puts);
        keys.clear();
        keys.extend(puts.iter().take(history).map(|put| put.key.clone()));
        keys.sort();
        let shards = Shards::new(self.order.cuts(&keys));
        let mut splitting = Splitting::new(puts.len() / SERVERS);
        let operation = self.operation("route a put");
        let formula = model::routing(self.order);
        for counts in [&mut self.found.puts, &mut self.found.calls, &mut self.found.split] {
            *counts = vec![[0; SERVERS]; self.sizes.windows];
        }
        for (number, put) in puts.iter().enumerate() {
            let by_size = splitting.put(&put.key);
            let Some(number) = number.checked_sub(history) else { continue };
            let window = self.sizes.window(number);
            let server = shards.server(&put.key);
            self.study.compare(&operation, formula, &Some(server), &model::server(self.order, &put.key));
            self.found.puts[window][server] += 1;
            self.found.calls[window][server] += 1 + u64::from(put.reads_itself);
            for other in &put.others {
                self.found.calls[window][shards.server(other)] += 1;
            }
            self.found.split[window][by_size] += 1;
        }
        self.found.shards = splitting.shards();
        shards
    }

    /// Ask for events between two times, and for single ones; what each range read asked of the store.
    fn read<K: OrderedKv + 'static>(
        &mut self,
        kv: &Traced<K>,
        table: &dyn Events,
        events: &[Event],
        shards: &Shards,
        options: &LabOptions,
    ) -> Result<Vec<Vec<Access>>> {
        let mut random = random(options, &[11, 3]);
        let mut reads = Vec::new();
        let long = (events.len() / 100).max(8);
        let sources = events.iter().map(|event| event.source).collect::<std::collections::BTreeSet<_>>();
        let one_call = visits_in_one_call(kv).map_err(failed("visit the table"))?;
        for _ in 0..self.sizes.reads {
            let first = random.usize(..events.len() - long);
            let (from, to) = (events[first].time, events[first + long].time);
            let start = events.partition_point(|event| event.time < from);
            let mut expected = events[start..events.partition_point(|event| event.time < to)].to_vec();
            expected.sort_unstable();
            let doing = "read the events between two times";
            let (done, accesses) = kv.trace(|| table.between(from, to));
            done.map_err(failed(doing))?;
            let done = self.found.ranges.call(doing, || table.between(from, to))?;
            right(self.order.name(), doing, &done.value, &expected)?;
            let returned = expected.len() as u64;
            let (formula, cost) =
                model::range(self.order, returned, events.len() as u64, sources.len() as u64, one_call);
            let counted = (done.cost.calls, done.cost.keys_read);
            self.study.compare(&self.operation("events between two times"), formula, &counted, &cost);
            self.found.returned += returned;
            if let Some(told) = table.as_told(from, to).map_err(failed(doing))? {
                // Counted in another way than the reader does: from the stamps.
                let positive = expected.iter().filter(|event| slides::prefix(event.time) >= 0).count();
                let operation = self.operation("read as the slides tell");
                self.study.compare(&operation, "finds what has a prefix of 0 or more", &told, &positive);
                *self.found.as_told.get_or_insert_default() += told as u64;
            }
            let asked = |server: &usize| accesses.iter().any(|access| serve::asks(shards, access, *server));
            self.found.asked.push((0..SERVERS).filter(asked).count() as u64);
            reads.push(accesses);
        }
        for _ in 0..self.sizes.reads * 10 {
            let event = events[random.usize(..events.len())];
            let done = self.found.gets.call("read an event", || table.get(event))?;
            right(self.order.name(), "read an event", &done.value, &true)?;
            let (formula, cost) = match self.order {
                Order::Salted(_) => ("2 calls, 2 keys: the list of epochs and the row", (2, 2)),
                _ => ("1 call, 1 key", (1, 1)),
            };
            let counted = (done.cost.calls, done.cost.keys_read);
            self.study.compare(&self.operation("one event"), formula, &counted, &cost);
        }
        Ok(reads)
    }

    /// Measure what each server takes, and model what they take together.
    fn serve<S: Store>(
        &mut self,
        store: &S,
        shards: &Shards,
        puts: &[Put],
        reads: &[Vec<Access>],
    ) -> Result<()> {
        let (history, measured) = puts.split_at(self.sizes.history());
        let (windows, all) = (self.sizes.windows, measured.len());
        let first = |window: usize| (window * all).div_ceil(windows);
        let windows = (0..windows).map(|window| &measured[first(window)..first(window + 1)]).collect();
        let setup = self.sizes.setup();
        let stream = Stream { history, windows };
        let replay = |_| serve::replay(store, &setup, shards, &stream, reads);
        let replays: esker_layouts::Result<Vec<serve::Served>> =
            (0..self.sizes.repeat).map(replay).collect();
        let replays = replays.map_err(failed("replay the stream of a server"))?;
        self.found.modelled = Modelled::of(&serve::Served::median(&replays));
        self.found.modelled.lines(shards, measured);
        self.found.single = serve::alone(store, &setup, puts).map_err(failed("put all on one server"))?;
        Ok(())
    }
}

/// Whether `kv`, which is not empty, visits rows in one call with all its seeks; other stores make a call of each.
fn visits_in_one_call(kv: &impl OrderedKv) -> esker_layouts::Result<bool> {
    let read = kv.read()?;
    read.visit(KeyRange::all(), |_, _| Ok(Go::To(vec![0xFF])))?;
    Ok(read.cost().calls == 1)
}

/// Puts by slice of the key space, from its end down, and moment. Slices have equally many of the `keys`,
/// ascending.
fn map(keys: &[Vec<u8>], puts: &[Put]) -> Vec<Vec<f64>> {
    let cuts: Vec<&Vec<u8>> = (1..SLICES).filter_map(|cut| keys.get(cut * keys.len() / SLICES)).collect();
    let mut map = vec![vec![0.0; MOMENTS]; SLICES];
    for (number, put) in puts.iter().enumerate() {
        let slice = cuts.partition_point(|cut| **cut <= put.key);
        map[SLICES - 1 - slice][number * MOMENTS / puts.len()] += 1.0;
    }
    map
}

#[cfg(test)]
mod tests;
