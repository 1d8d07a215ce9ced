//! What each server takes for its part of the work: its stream is replayed alone, on a store of its own, so
//! that servers do not compete for this machine.

use esker_layouts::kv::{KvRead, KvTx, OrderedKv, ScanOptions};
use esker_layouts::{OpCost, Result};

use super::SERVERS;
use super::cluster::Shards;
use super::orders::put_raw;
use super::traced::Access;
use crate::lab::stats::median;
use crate::lab::stopwatch;
use crate::lab::store::{Setup, Store};

/// Rows in one commit while history is loaded.
const BATCH: usize = 500;

/// What one put asks of the store.
#[derive(Clone, Debug, Default)]
pub(super) struct Put {
    pub(super) key: Vec<u8>,
    pub(super) value: usize,
    /// Whether the key is read before it is written.
    pub(super) reads_itself: bool,
    /// Other keys that are read: the list of epochs of a salted table.
    pub(super) others: Vec<Vec<u8>>,
}

impl Put {
    /// The put that made these accesses.
    pub(super) fn of(accesses: Vec<Access>) -> Put {
        let mut put = Put::default();
        let mut gets = Vec::new();
        for access in accesses {
            match access {
                Access::Put(key, value) => (put.key, put.value) = (key, value),
                Access::Get(key) => gets.push(key),
                Access::Scan(range) => gets.push(range.start),
                Access::Visit(visit) => gets.push(visit.range.start),
            }
        }
        put.others = gets.iter().filter(|key| **key != put.key).cloned().collect();
        put.reads_itself = put.others.len() < gets.len();
        put
    }
}

/// The puts of one order: history, and what is measured in windows.
pub(super) struct Stream<'a> {
    pub(super) history: &'a [Put],
    pub(super) windows: Vec<&'a [Put]>,
}

/// The time of each server.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    /// Nanoseconds for the puts of each window.
    pub(super) own: Vec<[f64; SERVERS]>,
    /// Nanoseconds for the other keys that the puts of each window read.
    pub(super) others: Vec<[f64; SERVERS]>,
    /// Nanoseconds for its part of each read.
    pub(super) reads: Vec<[f64; SERVERS]>,
}

impl Served {
    /// Of each part of the work the median over several replays: what a server takes when nothing else comes
    /// between.
    pub(super) fn median(replays: &[Served]) -> Served {
        let cells = |of: fn(&Served) -> &Vec<[f64; SERVERS]>| -> Vec<[f64; SERVERS]> {
            let rows = replays.first().map_or(0, |first| of(first).len());
            let cell = |row: usize, server: usize| {
                let times: Vec<f64> = replays.iter().map(|served| of(served)[row][server]).collect();
                median(&times)
            };
            (0..rows).map(|row| std::array::from_fn(|server| cell(row, server))).collect()
        };
        Served {
            own: cells(|served| &served.own),
            others: cells(|served| &served.others),
            reads: cells(|served| &served.reads),
        }
    }
}

/// Bytes written to tables for each byte put; nanoseconds a put; bytes of tables at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Single {
    pub(super) amplification: Option<f64>,
    pub(super) nanos: f64,
    pub(super) table_bytes: Option<u64>,
}

/// Replay `stream` and then `reads`, each an operation's accesses, on every server by itself.
pub(super) fn replay<S: Store>(
    store: &S,
    setup: &Setup,
    shards: &Shards,
    stream: &Stream<'_>,
    reads: &[Vec<Access>],
) -> Result<Served> {
    let mut served = Served {
        own: vec![[0.0; SERVERS]; stream.windows.len()],
        others: vec![[0.0; SERVERS]; stream.windows.len()],
        reads: vec![[0.0; SERVERS]; reads.len()],
    };
    for server in 0..SERVERS {
        let here = |key: &Vec<u8>| shards.server(key) == server;
        let idle = !stream.windows.iter().flat_map(|puts| puts.iter()).any(|put| here(&put.key))
            && !reads.iter().flatten().any(|access| asks(shards, access, server));
        if idle {
            continue;
        }
        let kv = store.open_as(setup)?;
        load(&kv, stream, here)?;
        store.settle(&kv)?;
        for (window, puts) in stream.windows.iter().enumerate() {
            let (own, others) = window_of(&kv, puts, here)?;
            served.own[window][server] = own;
            served.others[window][server] = others;
        }
        store.settle(&kv)?;
        for (read, accesses) in reads.iter().enumerate() {
            let asked: Vec<&Access> =
                accesses.iter().filter(|access| asks(shards, access, server)).collect();
            if !asked.is_empty() {
                let (done, nanos) =
                    stopwatch::timed(|| asked.iter().try_for_each(|access| ask(&kv, access).map(drop)));
                done?;
                served.reads[read][server] = nanos as f64;
            }
        }
    }
    Ok(served)
}

/// What `server` has of history, and the other keys that puts read.
fn load<K: OrderedKv>(kv: &K, stream: &Stream<'_>, here: impl Fn(&Vec<u8>) -> bool) -> Result<()> {
    let mut others: Vec<&Vec<u8>> =
        stream.windows.iter().flat_map(|puts| puts.iter().flat_map(|put| &put.others)).collect();
    others.sort();
    others.dedup();
    for key in others.into_iter().filter(|key| here(key)) {
        // As long as a list of one epoch.
        put_raw(kv, key, &[b'x'; 16])?;
    }
    let rows: Vec<&Put> = stream.history.iter().filter(|put| here(&put.key)).collect();
    for batch in rows.chunks(BATCH) {
        kv.update(|tx| {
            for put in batch {
                tx.put(&put.key, &vec![b'x'; put.value]);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Nanoseconds for the puts among `puts` whose keys are `here`, and for the other keys here that puts read.
fn window_of<K: OrderedKv>(kv: &K, puts: &[Put], here: impl Fn(&Vec<u8>) -> bool) -> Result<(f64, f64)> {
    let own: Vec<&Put> = puts.iter().filter(|put| here(&put.key)).collect();
    let others: Vec<&Vec<u8>> = puts.iter().flat_map(|put| &put.others).filter(|key| here(key)).collect();
    let (done, own) = stopwatch::timed(|| own.iter().try_for_each(|put| again(kv, put)));
    done?;
    let (done, others) =
        stopwatch::timed(|| others.iter().try_for_each(|key| kv.read()?.get(key).map(|_| ())));
    done?;
    Ok((own as f64, others as f64))
}

/// Make `put` once more.
fn again<K: OrderedKv>(kv: &K, put: &Put) -> Result<()> {
    let value = [b'x'; 256];
    let value = value.get(..put.value).unwrap_or(&value);
    let done = kv.update(|tx| {
        if put.reads_itself {
            tx.get(&put.key)?;
        }
        tx.put(&put.key, value);
        Ok(())
    });
    done.map(|_| ())
}

/// Whether `server` is asked by `access`.
pub(super) fn asks(shards: &Shards, access: &Access, server: usize) -> bool {
    match access {
        Access::Get(key) | Access::Put(key, _) => shards.server(key) == server,
        Access::Scan(range) => shards.servers(range).contains(&server),
        Access::Visit(visit) => shards.servers(&visit.range).contains(&server),
    }
}

/// Read on `kv` what `access` read of it; what that cost.
pub(super) fn ask<K: OrderedKv>(kv: &K, access: &Access) -> Result<OpCost> {
    let read = kv.read()?;
    match access {
        Access::Get(key) | Access::Put(key, _) => {
            read.get(key)?;
        }
        // The store holds its server's rows alone, so the whole range is its part of it.
        Access::Scan(range) => {
            read.scan(range.clone(), ScanOptions::new())?.try_for_each(|row| row.map(|_| ()))?;
        }
        Access::Visit(visit) => read.visit(visit.range.clone(), |key, _| Ok(visit.go(key)))?,
    }
    Ok(read.cost())
}

/// All puts on one server.
pub(super) fn alone<S: Store>(store: &S, setup: &Setup, puts: &[Put]) -> Result<Single> {
    let kv = store.open_as(setup)?;
    let (done, nanos) = stopwatch::timed(|| {
        puts.iter().try_for_each(|put| {
            put.others.iter().try_for_each(|key| kv.read()?.get(key).map(|_| ()))?;
            again(&kv, put)
        })
    });
    done?;
    store.settle(&kv)?;
    let written = store.table_bytes_written(&kv);
    let given: u64 = puts.iter().map(|put| (put.key.len() + put.value) as u64).sum();
    Ok(Single {
        amplification: written.map(|written| written as f64 / given.max(1) as f64),
        nanos: nanos as f64 / puts.len().max(1) as f64,
        table_bytes: store.disk_bytes(&kv),
    })
}
