//! LMDB through heed: one unnamed tree; unsynced mode is `MDB_NOSYNC` (pages are written at commit, the
//! system syncs them when it likes).
#![expect(
    unsafe_code,
    reason = "heed opens a memory-mapped file, and leaves syncing out, only on the caller's word"
)]

use std::ops::Bound;
use std::path::Path;
use std::time::Instant;

use heed::types::{Bytes, DecodeIgnore};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithTls};

use crate::keys::Key;
use crate::store::{Direction, GETS_PER_TRANSACTION, Reader, Result, Settings, Store, show};

/// Address space for the file: more than any workload here fills.
const MAP_BYTES: usize = 64 << 30;

type Rows = Database<'static, Bytes, Bytes>;

/// An open environment and its unnamed tree.
pub(crate) struct Lmdb {
    env: Env,
    rows: Rows,
}

/// A read transaction that is renewed every so many gets.
pub(crate) struct LmdbReader<'a> {
    env: &'a Env,
    rows: Rows,
    transaction: Option<RoTxn<'a, WithTls>>,
    gets_left: u32,
}

impl<'a> LmdbReader<'a> {
    /// The transaction under way, a new one if the old one is spent.
    #[inline]
    fn transaction(&mut self) -> Result<&RoTxn<'a, WithTls>> {
        if self.gets_left == 0 {
            // A thread holds one at a time: the old one goes first.
            self.transaction = None;
            self.gets_left = GETS_PER_TRANSACTION;
        }
        self.gets_left -= 1;
        match &mut self.transaction {
            Some(transaction) => Ok(transaction),
            none => Ok(none.insert(self.env.read_txn()?)),
        }
    }
}

impl Store for Lmdb {
    const BATCHED: bool = true;
    const LZ4: bool = false;
    type Reader<'a> = LmdbReader<'a>;

    fn open(dir: &Path, settings: Settings) -> Result<Self> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        if !settings.sync {
            // SAFETY: without syncs a power loss may corrupt the file; it is thrown away after the run.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        if settings.beyond_memory {
            // SAFETY: a hint about reads.
            unsafe { options.flags(EnvFlags::NO_READ_AHEAD) };
        }
        if settings.tuned {
            // SAFETY: nobody writes through a stray pointer here; the file is thrown away after the run.
            unsafe { options.flags(EnvFlags::WRITE_MAP) };
        }
        // SAFETY: the directory is this process's own: nobody else writes to the mapped file.
        let env = unsafe { options.open(dir)? };
        let transaction = env.write_txn()?;
        let rows = env
            .create_databases_and_commit(transaction, |opener, transaction| {
                let rows = opener.create_database::<Bytes, Bytes>(transaction, None)?;
                Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(rows))
            })?
            .unwrap_commit();
        Ok(Lmdb { env, rows })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_all(&[(key, value)])
    }

    fn put_all<K: AsRef<[u8]>>(&self, rows: &[(K, &[u8])]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in rows {
            self.rows.put(&mut transaction, key.as_ref(), value)?;
        }
        Ok(transaction.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_all(&[key])
    }

    fn delete_all<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for key in keys {
            self.rows.delete(&mut transaction, key.as_ref())?;
        }
        Ok(transaction.commit()?)
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<bool> {
        let mut transaction = self.env.write_txn()?;
        let range = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
        self.rows.delete_range(&mut transaction, &range)?;
        transaction.commit()?;
        Ok(true)
    }

    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<LmdbReader<'_>> {
        Ok(LmdbReader { env: &self.env, rows: self.rows, transaction: None, gets_left: 0 })
    }

    fn close(self) -> Result<()> {
        self.env.force_sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

impl Reader for LmdbReader<'_> {
    fn get(&mut self, key: &[u8], see: impl FnOnce(&[u8])) -> Result<bool> {
        let rows = self.rows;
        Ok(rows.get(self.transaction()?, key)?.map(see).is_some())
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        mut see: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let rows = self.rows;
        let transaction = self.transaction()?;
        let see = |(key, value): &(&[u8], &[u8])| see(key, value);
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        match direction {
            Direction::Forward => show(rows.range(transaction, &(from, Bound::Unbounded))?, limit, see),
            Direction::Reverse => show(rows.rev_range(transaction, &(Bound::Unbounded, from))?, limit, see),
        }
    }

    fn prefix(&mut self, prefix: &[u8], mut see: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let rows = self.rows;
        let found = rows.prefix_iter(self.transaction()?, prefix)?;
        show(found, u64::MAX, |(key, value): &(&[u8], &[u8])| see(key, value))
    }

    fn keys(&mut self, limit: u64, mut see: impl FnMut(&[u8])) -> Result<u64> {
        let rows = self.rows.remap_data_type::<DecodeIgnore>();
        show(rows.iter(self.transaction()?)?, limit, |(key, ()): &(&[u8], ())| see(key))
    }
}
