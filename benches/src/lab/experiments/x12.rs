//! X12: everything of a user is dropped: key by key, in batches, or by one range delete; and what later
//! scans pay for it, before and after a compaction.
//!
//! The engine remembers ranges that a scan found dead, so the first scan after the drop and the second
//! are told apart.

mod findings;

use std::collections::BTreeMap;

use esker_layouts::OpCost;
use esker_layouts::kv::{Bytes, Costed, KvRead, KvTx, OrderedKv, ScanOptions};
use esker_layouts::tuple::Space;

use super::random;
use super::samples::{Samples, failed, right};
use super::weighed::{loaded, without_log};
use crate::lab::store::Store;
use crate::lab::study::Study;
use crate::lab::{Experiment, LabOptions, Progress, Result, Scale};

/// Keys in one commit of a batched loop.
const BATCH: usize = 1_000;
/// The user whose keys are dropped; a key of the users before and after stays.
const USER: u64 = 2;
/// Bytes of a value.
const VALUE: usize = 50;
/// Singly no more than this many keys are dropped.
const SINGLE_MAX: u64 = 100_000;

/// How the keys of a user are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Singly,
    Batched,
    Range,
}

impl Way {
    const ALL: [Way; 3] = [Way::Singly, Way::Batched, Way::Range];

    fn name(self) -> &'static str {
        match self {
            Way::Singly => "a delete a key",
            Way::Batched => "deletes in batches of 1,000",
            Way::Range => "one range delete",
        }
    }
}

/// When a scan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    First,
    Second,
    Compacted,
}

impl Moment {
    const ALL: [Moment; 3] = [Moment::First, Moment::Second, Moment::Compacted];

    fn name(self) -> &'static str {
        match self {
            Moment::First => "first scan",
            Moment::Second => "second scan",
            Moment::Compacted => "after compaction",
        }
    }
}

/// Drops keys; tests put something wrong in its place.
trait Drops<K> {
    /// Drop the `amount` keys of the user `USER` in `way`.
    fn remove(&self, kv: &K, way: Way, amount: u64) -> esker_layouts::Result<OpCost>;
}

struct RealDrops;

fn space() -> Space {
    Space::new(&("data",))
}

fn key(user: u64, id: u64) -> Vec<u8> {
    space().key(&(user, id))
}

impl<K: OrderedKv> Drops<K> for RealDrops {
    fn remove(&self, kv: &K, way: Way, amount: u64) -> esker_layouts::Result<OpCost> {
        let all = space().under(&(USER,));
        let mut cost = OpCost::default();
        match way {
            Way::Singly => {
                for id in 0..amount {
                    let done = kv.update(|tx| {
                        tx.delete(&key(USER, id));
                        Ok(())
                    })?;
                    cost.add(&done.cost);
                }
            }
            Way::Batched => {
                let mut rest = all;
                loop {
                    let options = ScanOptions::new().keys_only().limit(BATCH);
                    let done = kv.update(|tx| {
                        let keys: Vec<(Bytes, Bytes)> =
                            tx.scan(rest.clone(), options)?.collect::<esker_layouts::Result<_>>()?;
                        for (key, _) in &keys {
                            tx.delete(key);
                        }
                        Ok(keys)
                    })?;
                    cost.add(&done.cost);
                    match done.value.last() {
                        Some((last, _)) if done.value.len() == BATCH => {
                            rest.start = [last.as_ref(), &[0]].concat();
                        }
                        _ => break,
                    }
                }
            }
            Way::Range => {
                let done = kv.update(|tx| {
                    tx.delete_range(all.clone());
                    Ok(())
                })?;
                cost.add(&done.cost);
            }
        }
        Ok(cost)
    }
}

fn amounts(scale: Scale) -> Vec<u64> {
    let last = match scale {
        Scale::Tiny => 3,
        Scale::Smoke => 5,
        Scale::Desk => 6,
        Scale::Large => 7,
    };
    (2..=last).map(|power| 10u64.pow(power)).collect()
}

/// What was measured, by way and amount.
#[derive(Default)]
struct Measured {
    drops: BTreeMap<(Way, u64), Samples>,
    scans: BTreeMap<(Way, u64, Moment), Samples>,
    /// Bytes in tables: loaded; dropped, flushed and at rest; all merged.
    bytes: BTreeMap<(Way, u64), [Option<u64>; 3]>,
}

pub(in crate::lab) fn run<S: Store>(
    store: &S,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    run_with(store, &RealDrops, options, progress)
}

fn run_with<S: Store>(
    store: &S,
    drops: &impl Drops<S::Kv>,
    options: &LabOptions,
    progress: &mut dyn Progress,
) -> Result<Study> {
    let mut cases: Vec<(u64, Way)> =
        amounts(options.scale).into_iter().flat_map(|amount| Way::ALL.map(|way| (amount, way))).collect();
    cases.retain(|(amount, way)| *way != Way::Singly || *amount <= SINGLE_MAX);
    progress.begin(Experiment::X12, cases.len() as u64 * u64::from(options.repetitions()));
    let mut study = Study::new("X12", "", "D4, D23", "");
    let mut measured = Measured::default();
    for repetition in 0..options.repetitions() {
        random(options, &[12, repetition.into()]).shuffle(&mut cases);
        for (amount, way) in &cases {
            drop_once(store, drops, *way, *amount, &mut study, &mut measured)?;
            progress.step(&format!("{amount} keys, {}", way.name()));
        }
    }
    Ok(findings::study(study, &measured, options))
}

/// Load, drop, scan twice, compact, scan.
fn drop_once<S: Store>(
    store: &S,
    drops: &impl Drops<S::Kv>,
    way: Way,
    amount: u64,
    study: &mut Study,
    measured: &mut Measured,
) -> Result<()> {
    let kv = store.open_as(&without_log()).map_err(failed("open a store"))?;
    load(&kv, amount).map_err(failed("load the keys"))?;
    let kv = loaded(store, kv)?;
    let loaded = store.disk_bytes(&kv);
    let samples = measured.drops.entry((way, amount)).or_default();
    let done = samples
        .call(way.name(), || drops.remove(&kv, way, amount).map(|cost| Costed { value: (), cost }))?;
    let (formula, expected) = written(way, amount);
    let counted = (
        (done.cost.keys_written, done.cost.tombstones_written, done.cost.bytes_written),
        (done.cost.calls, done.cost.keys_read),
    );
    study.compare(&format!("drop, {}", way.name()), formula, &counted, &expected);
    let mut dropped = None;
    for moment in Moment::ALL {
        if moment == Moment::Compacted {
            // Not before the first scans: a flush may bring on compactions that remove what was dropped.
            store.settle(&kv).map_err(failed("settle"))?;
            dropped = store.disk_bytes(&kv);
            store.compact(&kv).map_err(failed("compact"))?;
        }
        let samples = measured.scans.entry((way, amount, moment)).or_default();
        let found = samples.call("scan what is left", || {
            let read = kv.read()?;
            let rows: Vec<(Bytes, Bytes)> =
                read.scan(space().under(&()), ScanOptions::new())?.collect::<esker_layouts::Result<_>>()?;
            Ok(Costed { value: rows.len(), cost: read.cost() })
        })?;
        right(way.name(), "how many keys are left", &found.value, &2)?;
        let operation = format!("scan, {}, {}", way.name(), moment.name());
        study.compare(&operation, "1 call, 2 keys", &(found.cost.calls, found.cost.keys_read), &(1, 2));
        if moment == Moment::Compacted {
            let formula = "no tombstone and no older version is passed";
            let passed = (found.cost.tombstones_skipped, found.cost.entries_skipped);
            study.compare(&operation, formula, &(loaded.is_none() || passed == (0, 0)), &true);
        }
    }
    measured.bytes.insert((way, amount), [loaded, dropped, store.disk_bytes(&kv)]);
    Ok(())
}

fn load<K: OrderedKv>(kv: &K, amount: u64) -> esker_layouts::Result<()> {
    let mut keys = vec![(USER - 1, 0), (USER + 1, 0)];
    keys.extend((0..amount).map(|id| (USER, id)));
    for batch in keys.chunks(BATCH) {
        kv.update(|tx| {
            for (user, id) in batch {
                tx.put(&key(*user, *id), &[b'x'; VALUE]);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Keys, tombstones and bytes written; calls made and keys read.
type Written = ((u64, u64, u64), (u64, u64));

/// What a drop costs, in words and numbers.
fn written(way: Way, amount: u64) -> (&'static str, Written) {
    let bytes: u64 = (0..amount).map(|id| key(USER, id).len() as u64).sum();
    match way {
        Way::Singly => ("a tombstone and a call for each key", ((0, amount, bytes), (amount, 0))),
        Way::Batched => {
            let batch = BATCH as u64;
            // A last batch that is full is found out by one scan more.
            let calls = 2 * amount.div_ceil(batch) + u64::from(amount.is_multiple_of(batch));
            (
                "a tombstone for each key, read before; 2 calls a batch",
                ((0, amount, bytes), (calls, amount)),
            )
        }
        Way::Range => {
            let all = space().under(&(USER,));
            let bytes = (all.start.len() + all.end.map_or(0, |end| end.len())) as u64;
            ("one tombstone, its two bounds, one call, nothing read", ((0, 1, bytes), (1, 0)))
        }
    }
}

#[cfg(test)]
mod tests;
