//! Black box: sixteen threads append to lists and read them, alone, several, or all by a scan.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::{Database, Error, Keyspace, Transaction};
use esker_vfs::mem::MemFs;
use fastrand::Rng;
use parking_lot::Mutex;

use super::cycles::{Appended, Call, Fate, ListKey, Observed, find};
use super::{THREADS, Tried};
use crate::driver::Violation;
use crate::planted::Bug;
use crate::points::Hits;
use crate::script::world::{Config, DIR};

/// Transactions of one thread.
const OF_A_THREAD: usize = 60;

struct Shared {
    db: Database,
    lists: Keyspace,
    keys: u64,
    values: AtomicU64,
}

#[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
fn told(error: Error) -> Violation {
    error.to_string()
}

fn key(key: ListKey) -> [u8; 8] {
    key.to_be_bytes()
}

fn values(list: Option<&[u8]>) -> Vec<Appended> {
    let values = list.unwrap_or_default().chunks_exact(8);
    values.filter_map(|value| Some(Appended::from_le_bytes(value.try_into().ok()?))).collect()
}

/// Sixteen threads.
#[expect(clippy::disallowed_methods, reason = "the threads of a test")]
pub fn with_threads(seed: u64, bug: Option<Bug>) -> Result<Tried, Violation> {
    let hits = Arc::<Mutex<Hits>>::default();
    let mut config = Config { bug, ..Config::draw(seed, true) };
    config.options.durability = esker::Durability::Os;
    let db = config.open(&MemFs::new(), Path::new(DIR), 0, false, &hits).map_err(told)?;
    let options = config.keyspaces.clone().with_merge_operator("append");
    let lists = db.keyspace("lists", options).map_err(told)?;
    let keys = [2, 5, 20][Rng::with_seed(seed).usize(0..3)];
    let shared = Shared { db, lists, keys, values: AtomicU64::new(1) };
    let outcomes: Vec<Result<Vec<Observed>, Violation>> = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let shared = &shared;
            move || {
                if let Some(bug) = bug {
                    bug.plant_in_engine();
                }
                let mut random = Rng::with_seed(seed.wrapping_mul(1_000).wrapping_add(thread));
                (0..OF_A_THREAD).map(|_| transaction(shared, &mut random)).collect()
            }
        };
        let threads: Vec<_> = (0..THREADS as u64).map(|thread| scope.spawn(work(thread))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .collect()
    });
    let mut history = Vec::new();
    for outcome in outcomes {
        history.extend(outcome?);
    }
    let tried = history.len() as u64;
    let mut last = Vec::new();
    scan(&shared, &mut shared.db.begin().map_err(told)?, &mut last)?;
    history.push(Observed { fate: Fate::Committed, calls: last });
    let anomalies = find(&history);
    if let Some(first) = anomalies.first() {
        return Err(format!("{first} (of {} anomalies)", anomalies.len()));
    }
    let Shared { db, lists, .. } = shared;
    drop(lists);
    db.close().map_err(told)?;
    let hits = *hits.lock();
    Ok((tried, hits))
}

/// Read all lists.
fn scan(shared: &Shared, tx: &mut Transaction, calls: &mut Vec<Call>) -> Result<(), Violation> {
    let mut found = vec![Vec::new(); usize::try_from(shared.keys).unwrap_or(0)];
    for row in tx.range::<&[u8]>(&shared.lists, ..) {
        let (row, list) = row.map_err(told)?;
        let list_key = row.as_ref().try_into().map(ListKey::from_be_bytes);
        let place = list_key.ok().and_then(|key| usize::try_from(key).ok());
        let Some(place) = place.and_then(|place| found.get_mut(place)) else {
            return Err(format!("a scan yields the key {row:?}"));
        };
        *place = values(Some(&list));
    }
    calls.extend((0..).zip(found).map(|(key, list)| Call::Read(key, list)));
    Ok(())
}

/// One transaction.
fn transaction(shared: &Shared, random: &mut Rng) -> Result<Observed, Violation> {
    let mut tx = shared.db.begin().map_err(told)?;
    let mut calls = Vec::new();
    for _ in 0..random.usize(1..6) {
        let list = random.u64(0..shared.keys);
        match random.u8(0..10) {
            0..4 => {
                let value = tx.get(&shared.lists, key(list)).map_err(told)?;
                calls.push(Call::Read(list, values(value.as_deref())));
            }
            4 => scan(shared, &mut tx, &mut calls)?,
            5..8 => {
                // Blindly.
                let value = shared.values.fetch_add(1, Ordering::Relaxed);
                tx.merge(&shared.lists, key(list), value.to_le_bytes()).map_err(told)?;
                calls.push(Call::Append(list, value));
            }
            _ => {
                let old = tx.get(&shared.lists, key(list)).map_err(told)?;
                calls.push(Call::Read(list, values(old.as_deref())));
                let value = shared.values.fetch_add(1, Ordering::Relaxed);
                let new = [old.as_deref().unwrap_or_default(), &value.to_le_bytes()].concat();
                tx.put(&shared.lists, key(list), new).map_err(told)?;
                calls.push(Call::Append(list, value));
            }
        }
        if random.bool() {
            super::give_way();
        }
    }
    let fate = if random.u8(0..20) == 0 {
        tx.rollback();
        Fate::Aborted
    } else {
        match tx.commit() {
            Ok(()) => Fate::Committed,
            Err(Error::Conflict { .. }) => Fate::Aborted,
            Err(other) => return Err(told(other)),
        }
    };
    Ok(Observed { fate, calls })
}
