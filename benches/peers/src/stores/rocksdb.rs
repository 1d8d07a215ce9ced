//! RocksDB: plain `DB`, pinned slices, HyperClockCache; filters and indexes stay in memory (its default).

use std::path::Path;
use std::time::Instant;

use rocksdb::{
    BlockBasedOptions, BlockBasedTablePinningTier, Cache, DB, DBCompressionType, DBRawIterator,
    DEFAULT_COLUMN_FAMILY_NAME, DataBlockIndexType, Options, ReadOptions, WaitForCompactOptions,
    WriteBatch, WriteOptions,
};

use crate::keys::Key;
use crate::store::{BLOCK_BYTES, Direction, FILTER_BITS, MEMTABLES, Reader, Result, Settings, Store};

/// An open database, and how it writes and gets: options that were made for each call would be part of its time.
pub(crate) struct Rocks {
    db: DB,
    writes: WriteOptions,
    gets: ReadOptions,
}

/// Gets see the newest state, scans that of the first one.
pub(crate) struct RocksReader<'a> {
    db: &'a DB,
    gets: &'a ReadOptions,
    rows: Option<DBRawIterator<'a>>,
}

/// What its wiki recommends beyond the defaults: "Setup Options and Basic Tuning", "Data Block Hash
/// Index", "Pipelined Write", and "RocksDB Tuning Guide" for databases in memory, but that its cache stays (it holds
/// indexes, filters and blobs), as do checksums (those of mapped blocks are compared at each reading). Levels of dynamic size
/// are its default by now.
fn tune(options: &mut Options, tables: &mut BlockBasedOptions, cache: &Cache) {
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_bytes_per_sync(1 << 20);
    options.set_compaction_readahead_size(2 << 20);
    options.set_enable_pipelined_write(true);
    // Blocks are read where they lie, and have more keys in full.
    options.set_allow_mmap_reads(true);
    tables.set_block_restart_interval(4);
    // Long values in files of their own, and cached.
    options.set_enable_blob_files(true);
    options.set_min_blob_size(4 << 10);
    options.set_enable_blob_gc(true);
    options.set_blob_cache(cache);
    // Filters and indexes count against the cache, and stay in it.
    tables.set_cache_index_and_filter_blocks(true);
    tables.set_cache_index_and_filter_blocks_with_high_priority(true);
    tables.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::All);
    tables.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    tables.set_data_block_hash_ratio(0.75);
    tables.set_optimize_filters_for_memory(true);
}

impl Store for Rocks {
    const BATCHED: bool = false;
    const LZ4: bool = true;
    type Reader<'a> = RocksReader<'a>;

    fn open(dir: &Path, settings: Settings) -> Result<Self> {
        let mut tables = BlockBasedOptions::default();
        let cache = Cache::new_hyper_clock_cache(settings.cache_bytes, 0);
        tables.set_block_cache(&cache);
        tables.set_bloom_filter(f64::from(FILTER_BITS), false);
        tables.set_block_size(BLOCK_BYTES as usize);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_write_buffer_size(settings.memtable_bytes);
        options.set_max_write_buffer_number(i32::try_from(MEMTABLES)?);
        // One thread compacts, one flushes.
        options.set_max_background_jobs(2);
        options.set_compression_type(if settings.lz4 {
            DBCompressionType::Lz4
        } else {
            DBCompressionType::None
        });
        if settings.tuned {
            tune(&mut options, &mut tables, &cache);
        }
        options.set_block_based_table_factory(&tables);
        let mut writes = WriteOptions::default();
        writes.set_sync(settings.sync);
        // Named, because the batched get wants its handle.
        let families = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
        Ok(Rocks {
            db: DB::open_cf_with_opts(&options, dir, families)?,
            writes,
            gets: ReadOptions::default(),
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_opt(key, value, &self.writes)?)
    }

    fn put_all<K: AsRef<[u8]>>(&self, rows: &[(K, &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, value) in rows {
            batch.put(key, value);
        }
        Ok(self.db.write_opt(batch, &self.writes)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete_opt(key, &self.writes)?)
    }

    fn delete_all<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for key in keys {
            batch.delete(key);
        }
        Ok(self.db.write_opt(batch, &self.writes)?)
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<bool> {
        let mut batch = WriteBatch::default();
        batch.delete_range(from, to);
        self.db.write_opt(batch, &self.writes)?;
        Ok(true)
    }

    fn settle(&self) -> Result<Instant> {
        self.db.wait_for_compact(&WaitForCompactOptions::default())?;
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<RocksReader<'_>> {
        Ok(RocksReader { db: &self.db, gets: &self.gets, rows: None })
    }

    /// Waits for background work and leaves what is in memory to the log: the next open replays it.
    fn close(self) -> Result<()> {
        drop(self.db);
        Ok(())
    }
}

impl Reader for RocksReader<'_> {
    fn get(&mut self, key: &[u8], see: impl FnOnce(&[u8])) -> Result<bool> {
        Ok(self.db.get_pinned_opt(key, self.gets)?.map(|value| see(&value)).is_some())
    }

    fn multi_get(&mut self, keys: &[Key], mut see: impl FnMut(&[u8])) -> Result<u64> {
        let rows =
            self.db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).ok_or("there is no default column family")?;
        let mut found = 0;
        for value in self.db.batched_multi_get_cf_opt(rows, keys, false, self.gets) {
            if let Some(value) = value? {
                see(&value);
                found += 1;
            }
        }
        Ok(found)
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        direction: Direction,
        rows: u64,
        mut see: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let cursor = self.rows.get_or_insert_with(|| self.db.raw_iterator());
        let forward = direction == Direction::Forward;
        match (from, forward) {
            (Some(key), true) => cursor.seek(key),
            (Some(key), false) => cursor.seek_for_prev(key),
            (None, true) => cursor.seek_to_first(),
            (None, false) => cursor.seek_to_last(),
        }
        let mut seen = 0;
        while seen < rows {
            let Some((key, value)) = cursor.item() else { break };
            see(key, value);
            seen += 1;
            if seen < rows {
                if forward {
                    cursor.next();
                } else {
                    cursor.prev();
                }
            }
        }
        cursor.status()?;
        Ok(seen)
    }

    fn prefix(&mut self, prefix: &[u8], mut see: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let cursor = self.rows.get_or_insert_with(|| self.db.raw_iterator());
        cursor.seek(prefix);
        let mut seen = 0;
        while let Some((key, value)) = cursor.item()
            && key.starts_with(prefix)
        {
            see(key, value);
            seen += 1;
            cursor.next();
        }
        cursor.status()?;
        Ok(seen)
    }

    fn keys(&mut self, rows: u64, mut see: impl FnMut(&[u8])) -> Result<u64> {
        let cursor = self.rows.get_or_insert_with(|| self.db.raw_iterator());
        cursor.seek_to_first();
        let mut seen = 0;
        while seen < rows {
            let Some(key) = cursor.key() else { break };
            see(key);
            seen += 1;
            cursor.next();
        }
        cursor.status()?;
        Ok(seen)
    }
}
