//! fjall: a plain database with one keyspace.

use std::path::Path;
use std::time::{Duration, Instant};

use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};

use crate::keys::Key;
use crate::store::{BLOCK_BYTES, Direction, FILTER_BITS, Reader, Result, Settings, Store, show};

/// How often [`Fjall::settle`] looks, and for how long nothing must have been under way.
const LOOK: Duration = Duration::from_millis(2);
const QUIET: Duration = Duration::from_millis(300);

/// An open database and its only keyspace.
pub(crate) struct Fjall {
    db: Database,
    rows: Keyspace,
    sync: bool,
}

/// Every read sees the newest state: there is no cursor to keep.
pub(crate) struct FjallReader<'a> {
    rows: &'a Keyspace,
}

impl Fjall {
    /// Commit a batch that `fill` fills, as durable as the settings ask for.
    fn commit(
        &self,
        capacity: usize,
        fill: impl FnOnce(&mut fjall::OwnedWriteBatch, &Keyspace),
    ) -> Result<()> {
        let mode = if self.sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch =
            fjall::OwnedWriteBatch::with_capacity(self.db.clone(), capacity).durability(Some(mode));
        fill(&mut batch, &self.rows);
        Ok(batch.commit()?)
    }
}

impl Store for Fjall {
    const BATCHED: bool = false;
    const LZ4: bool = true;
    type Reader<'a> = FjallReader<'a>;

    fn open(dir: &Path, settings: Settings) -> Result<Self> {
        let db = Database::builder(dir).cache_size(settings.cache_bytes as u64).worker_threads(2).open()?;
        let rows = db.keyspace("rows", || {
            let compression = if settings.lz4 { CompressionType::Lz4 } else { CompressionType::None };
            let bloom = BloomConstructionPolicy::BitsPerKey(f32::from(FILTER_BITS));
            let separation = settings.tuned.then(KvSeparationOptions::default);
            KeyspaceCreateOptions::default()
                .with_kv_separation(separation)
                .max_memtable_size(settings.memtable_bytes as u64)
                .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
                .data_block_compression_policy(CompressionPolicy::all(compression))
                .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bloom)))
        })?;
        Ok(Fjall { db, rows, sync: settings.sync })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.sync {
            return self.commit(1, |batch, rows| batch.insert(rows, key, value));
        }
        Ok(self.rows.insert(key, value)?)
    }

    fn put_all<K: AsRef<[u8]>>(&self, rows: &[(K, &[u8])]) -> Result<()> {
        self.commit(rows.len(), |batch, keyspace| {
            for (key, value) in rows {
                batch.insert(keyspace, key.as_ref(), *value);
            }
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.rows.remove(key)?)
    }

    fn delete_all<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        self.commit(keys.len(), |batch, keyspace| {
            for key in keys {
                batch.remove(keyspace, key.as_ref());
            }
        })
    }

    fn delete_range(&self, _from: &Key, _to: &Key) -> Result<bool> {
        Ok(false)
    }

    /// There is no call that waits: look until nothing has been under way for a while, and answer when
    /// that began.
    fn settle(&self) -> Result<Instant> {
        let mut since = Instant::now();
        let mut completed = self.db.compactions_completed();
        while since.elapsed() < QUIET {
            std::thread::sleep(LOOK);
            let now = self.db.compactions_completed();
            let flushing = self.db.outstanding_flushes() > 0 || self.rows.sealed_memtable_count() > 0;
            if flushing || self.db.active_compactions() > 0 || now != completed {
                completed = now;
                since = Instant::now();
            }
        }
        Ok(since)
    }

    fn reader(&self) -> Result<FjallReader<'_>> {
        Ok(FjallReader { rows: &self.rows })
    }

    /// Leaves what is in memory to the journal: the next open replays it.
    fn close(self) -> Result<()> {
        drop((self.rows, self.db));
        Ok(())
    }
}

impl Reader for FjallReader<'_> {
    fn get(&mut self, key: &[u8], see: impl FnOnce(&[u8])) -> Result<bool> {
        Ok(self.rows.get(key)?.map(|value| see(&value)).is_some())
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        direction: Direction,
        rows: u64,
        mut see: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let range = match (from, direction) {
            (Some(key), Direction::Forward) => self.rows.range(key..),
            (Some(key), Direction::Reverse) => self.rows.range(..=key),
            (None, _) => self.rows.iter(),
        };
        let see = |(key, value): &fjall::KvPair| see(key, value);
        match direction {
            Direction::Forward => show(range.map(fjall::Guard::into_inner), rows, see),
            Direction::Reverse => show(range.rev().map(fjall::Guard::into_inner), rows, see),
        }
    }

    fn prefix(&mut self, prefix: &[u8], mut see: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let rows = self.rows.prefix(prefix).map(fjall::Guard::into_inner);
        show(rows, u64::MAX, |(key, value): &fjall::KvPair| see(key, value))
    }

    fn keys(&mut self, rows: u64, mut see: impl FnMut(&[u8])) -> Result<u64> {
        show(self.rows.iter().map(fjall::Guard::key), rows, |key| see(key))
    }
}
