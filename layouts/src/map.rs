//! The reference store: a multi-version `BTreeMap` in memory.
//!
//! It is the model other stores are compared with, and the store of tests and demonstrations. It keeps
//! its promises by the simplest means that do not distort costs: a snapshot is a version number, a
//! commit compares the writes of later commits with what it read, and old versions go as soon as no
//! snapshot needs them.
//!
//! # Invariants
//!
//! 1. Each key's versions ascend; the newest version of a live key is a value.
//! 2. `log` holds the writes of every commit later than the oldest live snapshot, ascending.
//! 3. No version is kept that neither the newest reader nor a live snapshot can see, once `collect` ran.
//!
//! # Threads and locks
//!
//! One lock around the state. A scan takes it for one page of rows at a time, so a scan that is alive
//! never blocks a commit, not even of its own thread.

mod read;
mod state;
mod tx;

use parking_lot::RwLock;

pub use read::{MapRead, MapScan};
use state::State;
pub use tx::{MapTx, MapTxScan};

use crate::kv::{Caps, Costed, KvRead, OrderedKv};
use crate::{Error, OpCost, Result};

/// How often a transaction is tried before it gives up.
const ATTEMPTS_MAX: u32 = 1_000;

static CAPS: Caps = Caps {
    name: "map",
    key_bytes_max: esker::limits::KEY_BYTES_MAX,
    value_bytes_max: esker::limits::VALUE_BYTES_MAX,
    transactions: true,
    reverse: true,
    merge: true,
    range_delete: false,
    durable: false,
};

/// A store in memory. See the module.
#[derive(Debug, Default)]
pub struct MapStore {
    state: RwLock<State>,
}

impl MapStore {
    /// An empty store.
    pub fn new() -> MapStore {
        MapStore::default()
    }

    /// How many versions are kept, live or not: what old snapshots cost.
    pub fn versions(&self) -> usize {
        self.state.read().versions()
    }

    fn snapshot(&self) -> MapRead<'_> {
        MapRead::new(&self.state)
    }
}

impl OrderedKv for MapStore {
    type Read<'a> = MapRead<'a>;
    type Tx<'a> = MapTx<'a>;

    fn caps(&self) -> &Caps {
        &CAPS
    }

    fn read(&self) -> Result<MapRead<'_>> {
        Ok(self.snapshot())
    }

    fn update<T>(&self, mut f: impl FnMut(&mut MapTx<'_>) -> Result<T>) -> Result<Costed<T>> {
        let mut cost = OpCost::default();
        for attempt in 0..ATTEMPTS_MAX {
            let mut tx = MapTx::new(self.snapshot());
            let value = f(&mut tx)?;
            cost.add(&tx.cost());
            if let Some(commit) = tx.commit()? {
                cost.add(&commit);
                cost.retries += u64::from(attempt);
                return Ok(Costed { value, cost });
            }
        }
        Err(Error::Conflict { attempts: ATTEMPTS_MAX })
    }
}

#[cfg(test)]
mod tests;
