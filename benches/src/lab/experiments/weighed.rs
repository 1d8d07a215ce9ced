//! What a store holds and what that weighs: found by reading all of it.

use esker::{DatabaseOptions, Durability};
use esker_layouts::kv::{Bytes, KeyRange, KvRead, KvTx, OrderedKv, ScanOptions};

use super::samples::failed;
use crate::lab::Result;
use crate::lab::store::{Setup, Store};

/// Rows in one commit while loading.
const BATCH: usize = 1_000;

/// A row to load.
pub(super) type Row = (Vec<u8>, Vec<u8>);

/// Keys and what they weigh, before and after the store has laid them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weighed {
    pub(super) keys: u64,
    /// Bytes of all keys, as the layout wrote them.
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
    /// Blocks of data; 0 if the store does not count any.
    pub(super) blocks: u64,
    /// Their bytes, as stored; 0 if the store does not count them.
    pub(super) block_bytes: u64,
}

impl Weighed {
    /// Bytes in blocks for each of `facts`; `None` if the store does not count them.
    pub(super) fn stored(&self, facts: u64) -> Option<f64> {
        (self.block_bytes > 0).then(|| self.block_bytes as f64 / facts.max(1) as f64)
    }

    /// Entries of a block in the mean; `None` if the store does not count blocks.
    pub(super) fn fill(&self) -> Option<f64> {
        (self.blocks > 0).then(|| self.keys as f64 / self.blocks as f64)
    }
}

/// Read all of `kv`, which has been opened with nothing in its cache: then every block comes from the file,
/// once. Its rows go to `each`.
pub(super) fn weigh<K: OrderedKv>(kv: &K, mut each: impl FnMut(Bytes, Bytes)) -> Result<Weighed> {
    let mut weighed = Weighed::default();
    let mut walk = || {
        let read = kv.read()?;
        for row in read.scan(KeyRange::all(), ScanOptions::new())? {
            let (key, value) = row?;
            weighed.keys += 1;
            weighed.key_bytes += key.len() as u64;
            weighed.value_bytes += value.len() as u64;
            each(key, value);
        }
        Ok(read.cost())
    };
    let cost = walk().map_err(failed("read everything"))?;
    weighed.blocks = cost.blocks_from_disk + cost.blocks_from_cache;
    weighed.block_bytes = cost.bytes_from_disk;
    Ok(weighed)
}

/// Put `rows` into `kv`.
pub(super) fn put_all<K: OrderedKv>(kv: &K, rows: &[Row]) -> Result<()> {
    for batch in rows.chunks(BATCH) {
        let done = kv.update(|tx| {
            for (key, value) in batch {
                tx.put(key, value);
            }
            Ok(())
        });
        done.map_err(failed("load the store"))?;
    }
    Ok(())
}

/// Everything merged into the last level, closed, and opened again as `setup` says, with a log.
pub(super) fn at_rest<S: Store>(store: &S, kv: S::Kv, setup: &Setup) -> Result<S::Kv> {
    store.compact(&kv).map_err(failed("compact"))?;
    reopened(store, kv, setup)
}

/// `kv`, which was loaded [`without_log`], in tables, opened again with the default settings, and read once, so that it
/// is warm. Whatever is written from here on goes to the log, as in every other store.
pub(super) fn loaded<S: Store>(store: &S, kv: S::Kv) -> Result<S::Kv> {
    store.settle(&kv).map_err(failed("settle"))?;
    let kv = reopened(store, kv, &Setup::default())?;
    weigh(&kv, |_, _| ())?;
    Ok(kv)
}

fn reopened<S: Store>(store: &S, kv: S::Kv, setup: &Setup) -> Result<S::Kv> {
    let mut setup = setup.clone();
    setup.database.durability = DatabaseOptions::default().durability;
    store.reopen_as(kv, &setup).map_err(failed("open the store again"))
}

/// A setup for loads that are not measured: no log, since the store goes away with its directory.
pub(super) fn without_log() -> Setup {
    let mut setup = Setup::default();
    setup.database.durability = Durability::NoLog;
    setup
}

/// [`without_log`], and tables so large that all of a store is one.
pub(super) fn for_loads() -> Setup {
    let mut setup = without_log();
    setup.database.table_bytes = 1 << 34;
    setup
}
