//! esker, through its public interface.

use std::path::Path;
use std::time::Instant;

use esker::{
    Compression, Database, DatabaseOptions, Durability, Keyspace, KeyspaceOptions, LogWrites, RowCursor,
    TableSource,
};

use crate::keys::Key;
use crate::store::{BLOCK_BYTES, Direction, FILTER_BITS, MEMTABLES, Reader, Result, Settings, Store};

/// An open database and its only keyspace.
pub(crate) struct Esker {
    db: Database,
    rows: Keyspace,
}

/// Gets see the newest state, scans that of the first one.
pub(crate) struct EskerReader<'a> {
    rows: &'a Keyspace,
    cursor: Option<RowCursor>,
}

/// What the documentation of [`DatabaseOptions`] recommends for data that fits in memory.
fn tune(options: &mut DatabaseOptions) {
    // No copy of a block in the cache: reads go to the page cache itself.
    options.table_source = TableSource::Mapped;
    // No call of the system for a put.
    options.log_writes = LogWrites::Mapped;
}

impl EskerReader<'_> {
    /// The one cursor, made when it is first asked for.
    #[inline]
    fn cursor(&mut self) -> Result<&mut RowCursor> {
        Ok(match &mut self.cursor {
            Some(cursor) => cursor,
            none => none.insert(self.rows.cursor()?),
        })
    }
}

impl Store for Esker {
    const BATCHED: bool = false;
    const LZ4: bool = true;
    type Reader<'a> = EskerReader<'a>;

    fn open(dir: &Path, settings: Settings) -> Result<Self> {
        let mut options = DatabaseOptions {
            durability: if settings.sync { Durability::Sync } else { Durability::Os },
            cache_bytes: settings.cache_bytes as u64,
            memtable_bytes_max: settings.memtable_bytes as u64,
            sealed_memtables_max: MEMTABLES - 1,
            // One thread compacts, one flushes.
            compaction_threads: 1,
            ..DatabaseOptions::default()
        };
        if settings.mapped_log {
            options.log_writes = LogWrites::Mapped;
        }
        if settings.tuned {
            tune(&mut options);
        }
        let db = Database::builder(dir).options(options).open()?;
        let compression = if settings.lz4 { Compression::Lz4 } else { Compression::None };
        let rows = db.keyspace(
            "rows",
            KeyspaceOptions {
                block_bytes: BLOCK_BYTES,
                filter_bits_per_key: FILTER_BITS,
                compression: vec![compression],
                ..KeyspaceOptions::default()
            },
        )?;
        Ok(Esker { db, rows })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.rows.put(key, value)?)
    }

    fn put_all<K: AsRef<[u8]>>(&self, rows: &[(K, &[u8])]) -> Result<()> {
        let mut batch = self.db.batch();
        for (key, value) in rows {
            batch.put(&self.rows, key, value)?;
        }
        Ok(batch.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.rows.delete(key)?)
    }

    fn delete_all<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        let mut batch = self.db.batch();
        for key in keys {
            batch.delete(&self.rows, key)?;
        }
        Ok(batch.commit()?)
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<bool> {
        self.rows.delete_range(*from..*to)?;
        Ok(true)
    }

    fn settle(&self) -> Result<Instant> {
        self.db.wait_for_compactions()?;
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<EskerReader<'_>> {
        Ok(EskerReader { rows: &self.rows, cursor: None })
    }

    fn close(self) -> Result<()> {
        drop(self.rows);
        Ok(self.db.close()?)
    }
}

impl Reader for EskerReader<'_> {
    fn get(&mut self, key: &[u8], see: impl FnOnce(&[u8])) -> Result<bool> {
        Ok(self.rows.get_with(key, see)?.is_some())
    }

    fn multi_get(&mut self, keys: &[Key], mut see: impl FnMut(&[u8])) -> Result<u64> {
        let mut found = 0;
        for value in self.rows.multi_get(keys)?.iter().flatten() {
            see(value);
            found += 1;
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
        let cursor = self.cursor()?;
        let forward = direction == Direction::Forward;
        let mut valid = match (from, forward) {
            (Some(key), true) => cursor.seek(key)?,
            (Some(key), false) => cursor.seek_for_prev(key)?,
            (None, true) => cursor.seek_first()?,
            (None, false) => cursor.seek_last()?,
        };
        let mut seen = 0;
        while valid && seen < rows {
            see(cursor.key(), cursor.value());
            seen += 1;
            if seen < rows {
                valid = if forward { cursor.next()? } else { cursor.prev()? };
            }
        }
        Ok(seen)
    }

    fn prefix(&mut self, prefix: &[u8], mut see: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let cursor = self.cursor()?;
        let mut valid = cursor.seek(prefix)?;
        let mut seen = 0;
        while valid && cursor.key().starts_with(prefix) {
            see(cursor.key(), cursor.value());
            seen += 1;
            valid = cursor.next()?;
        }
        Ok(seen)
    }

    /// Values are not copied until they are asked for; there is no cheaper way.
    fn keys(&mut self, rows: u64, mut see: impl FnMut(&[u8])) -> Result<u64> {
        let mut cursor = self.rows.cursor()?.keys_only();
        let mut valid = cursor.seek_first()?;
        let mut seen = 0;
        while valid && seen < rows {
            see(cursor.key());
            seen += 1;
            valid = seen < rows && cursor.next()?;
        }
        Ok(seen)
    }
}
