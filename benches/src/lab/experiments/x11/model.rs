//! Formulas, and what sixteen servers would take together.

use esker_layouts::tuple::Uuid;

use super::SERVERS;
use super::cluster::Shards;
use super::events::SOURCES;
use super::orders::{Order, ROWS, space};
use super::queue::{Stop, p99};
use super::serve::{Put, Served};
use super::slides::PREFIXES;
use crate::lab::stats::median;

/// Where the shards, cut ahead, send a new key, in words.
pub(super) fn routing(order: Order) -> &'static str {
    match order {
        Order::Growing => "the last server: it is greater than every key before",
        Order::SlidesSeconds | Order::SlidesMillis => {
            "the server of its prefix, or the last one: negative prefixes sort behind all others"
        }
        Order::Salted(_) => "the server of its bucket",
        Order::Promoted => "the server of its source",
        Order::Hashed => "the server of its digest's first four bits",
    }
}

/// [`routing`] by the key alone; `None` for a key that is not of this order.
pub(super) fn server(order: Order, key: &[u8]) -> Option<usize> {
    let rows = space().sub(&(ROWS,));
    match order {
        Order::Growing => Some(SERVERS - 1),
        Order::SlidesSeconds | Order::SlidesMillis => {
            let prefix = i8::from_be_bytes([*key.get(space().prefix().len())?]);
            Some(usize::try_from(prefix).unwrap_or(SERVERS - 1))
        }
        Order::Salted(_) => {
            let (_, bucket, _, _): (u64, u32, u64, u64) = rows.unpack(key).ok()?;
            Some(usize::try_from(bucket).ok()? % SERVERS)
        }
        Order::Promoted => {
            let (source, _): (u64, u64) = rows.unpack(key).ok()?;
            usize::try_from(source * SERVERS as u64 / SOURCES).ok()
        }
        Order::Hashed => {
            let (digest,): (Uuid,) = rows.unpack(key).ok()?;
            Some(usize::from(digest.0[0] >> 4))
        }
    }
}

/// What a read of the events between two times must cost, in words, and in calls and keys: of `events` and
/// `sources` in all, `found` lie there. `one_call`: whether the store visits rows in one call, however often it seeks.
pub(super) fn range(
    order: Order,
    found: u64,
    events: u64,
    sources: u64,
    one_call: bool,
) -> (&'static str, (u64, u64)) {
    match order {
        Order::Growing => ("1 call, a key for each event found", (1, found)),
        Order::SlidesSeconds | Order::SlidesMillis => {
            let prefixes = 2 * PREFIXES.unsigned_abs() - 1;
            ("a call for each of 31 prefixes, a key for each event found", (u64::from(prefixes), found))
        }
        Order::Salted(buckets) => {
            let calls = 1 + u64::from(buckets);
            ("the list of epochs, a call for each bucket, a key for each event found", (calls, 1 + found))
        }
        Order::Promoted if one_call => (
            "with S sources: 1 call of S seeks and S keys to find them, S calls and a key for each event found",
            (1 + sources, sources + found),
        ),
        Order::Promoted => (
            "with S sources: S + 1 calls and S keys to find them, S calls and a key for each event found",
            (2 * sources + 1, sources + found),
        ),
        Order::Hashed => ("1 call, every key", (1, events)),
    }
}

/// Modelled: what servers take together, each replay by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Modelled {
    /// All puts: on one server after the other; and until the busiest of each window is done, summed up.
    pub(super) work: f64,
    pub(super) makespan: f64,
    /// The same if clients kept what puts read beside their own key.
    pub(super) kept_work: f64,
    pub(super) kept_makespan: f64,
    /// All range reads, in the same way: until the busiest server has answered all of them.
    pub(super) reads_work: f64,
    pub(super) reads_makespan: f64,
    /// Of each range read, in the median: its parts one after the other, and its slowest part.
    pub(super) read_work: f64,
    pub(super) read_slowest: f64,
    /// Nanoseconds of each server for puts, and for the other keys.
    own: [f64; SERVERS],
    others: [f64; SERVERS],
    /// The stops of each put.
    requests: Vec<Vec<Stop>>,
}

fn greatest(times: impl Iterator<Item = f64>) -> f64 {
    times.fold(0.0, f64::max)
}

/// Work, and the busiest of each row, summed up.
fn together(windows: impl Iterator<Item = [f64; SERVERS]>) -> (f64, f64) {
    windows.fold((0.0, 0.0), |(work, makespan), window| {
        (work + window.iter().sum::<f64>(), makespan + greatest(window.into_iter()))
    })
}

fn sum(rows: &[[f64; SERVERS]]) -> [f64; SERVERS] {
    std::array::from_fn(|server| rows.iter().map(|row| row[server]).sum())
}

impl Modelled {
    /// What the servers of `served` take together.
    pub(super) fn of(served: &Served) -> Modelled {
        let both = served.own.iter().zip(&served.others);
        let both = both.map(|(own, others)| std::array::from_fn(|server| own[server] + others[server]));
        let (work, makespan) = together(both);
        let (kept_work, kept_makespan) = together(served.own.iter().copied());
        let (reads_work, reads_makespan) = together(std::iter::once(sum(&served.reads)));
        let works: Vec<f64> = served.reads.iter().map(|read| read.iter().sum()).collect();
        let slowest: Vec<f64> = served.reads.iter().map(|read| greatest(read.iter().copied())).collect();
        Modelled {
            work,
            makespan,
            kept_work,
            kept_makespan,
            reads_work,
            reads_makespan,
            read_work: median(&works),
            read_slowest: median(&slowest),
            own: sum(&served.own),
            others: sum(&served.others),
            requests: Vec::new(),
        }
    }

    /// The stops of each of `puts`, with the mean service of its servers.
    pub(super) fn lines(&mut self, shards: &Shards, puts: &[Put]) {
        let (mut own, mut others) = ([0.0; SERVERS], [0.0; SERVERS]);
        for put in puts {
            own[shards.server(&put.key)] += 1.0;
            for key in &put.others {
                others[shards.server(key)] += 1.0;
            }
        }
        let mean = |nanos: &[f64; SERVERS], counts: [f64; SERVERS]| -> [f64; SERVERS] {
            std::array::from_fn(|server| nanos[server] / counts[server].max(1.0))
        };
        let (own, others) = (mean(&self.own, own), mean(&self.others, others));
        let stop = |key: &Vec<u8>, nanos: &[f64; SERVERS]| {
            let server = shards.server(key);
            Stop { server, service: nanos[server] }
        };
        let stops = |put: &Put| {
            let first = put.others.iter().map(|key| stop(key, &others));
            first.chain(std::iter::once(stop(&put.key, &own))).collect()
        };
        self.requests = puts.iter().map(stops).collect();
    }

    /// The mean service of a put, all its stops together.
    pub(super) fn service(&self) -> f64 {
        let all: f64 = self.requests.iter().flatten().map(|stop| stop.service).sum();
        all / self.requests.len().max(1) as f64
    }

    /// The 99th percentile of the time of a put if one is due every `every` nanoseconds.
    pub(super) fn p99(&self, every: f64) -> f64 {
        p99(self.requests.iter().map(Vec::as_slice), every)
    }

    /// So many times as fast as one server after the other: puts as the layout makes them; if clients kept what
    /// is read beside; range reads.
    pub(super) fn speed_ups(&self) -> [f64; 3] {
        let times = |work: f64, makespan: f64| work / makespan.max(1.0);
        [
            times(self.work, self.makespan),
            times(self.kept_work, self.kept_makespan),
            times(self.reads_work, self.reads_makespan),
        ]
    }
}
