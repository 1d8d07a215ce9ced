//! redb: one table of byte strings; unsynced mode is `Durability::None` (a commit is visible, and becomes
//! durable with the next durable one, which `settle` makes).

use std::path::Path;
use std::time::Instant;

use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, Table, TableDefinition, TableError,
    WriteTransaction,
};

use crate::keys::Key;
use crate::store::{Direction, GETS_PER_TRANSACTION, Reader, Result, Settings, Store, show};

const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");

/// An open database.
pub(crate) struct Redb {
    db: Database,
    sync: bool,
}

/// A read transaction's table, renewed every so many gets.
pub(crate) struct RedbReader<'a> {
    db: &'a Database,
    table: Option<ReadOnlyTable<&'static [u8], &'static [u8]>>,
    gets_left: u32,
}

impl RedbReader<'_> {
    #[inline]
    fn table(&mut self) -> Result<&ReadOnlyTable<&'static [u8], &'static [u8]>> {
        if self.gets_left == 0 {
            self.table = None;
            self.gets_left = GETS_PER_TRANSACTION;
        }
        self.gets_left -= 1;
        match &mut self.table {
            Some(table) => Ok(table),
            none => Ok(none.insert(self.db.begin_read()?.open_table(ROWS)?)),
        }
    }
}

impl Redb {
    fn begin(&self) -> Result<WriteTransaction> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(if self.sync { Durability::Immediate } else { Durability::None })?;
        Ok(transaction)
    }

    /// Run `change` in a transaction.
    fn commit(
        &self,
        change: impl FnOnce(&mut Table<'_, &'static [u8], &'static [u8]>) -> Result<()>,
    ) -> Result<()> {
        let transaction = self.begin()?;
        change(&mut transaction.open_table(ROWS)?)?;
        Ok(transaction.commit()?)
    }
}

impl Store for Redb {
    const BATCHED: bool = true;
    const LZ4: bool = false;
    const SURVIVES: bool = false;
    type Reader<'a> = RedbReader<'a>;

    fn open(dir: &Path, settings: Settings) -> Result<Self> {
        let db = Database::builder().set_cache_size(settings.cache_bytes).create(dir.join("redb"))?;
        // Only an empty file needs its table: a transaction would cost a reopening its syncs.
        let empty = matches!(db.begin_read()?.open_table(ROWS), Err(TableError::TableDoesNotExist(_)));
        if empty {
            let transaction = db.begin_write()?;
            transaction.open_table(ROWS)?;
            transaction.commit()?;
        }
        Ok(Redb { db, sync: settings.sync })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_all(&[(key, value)])
    }

    fn put_all<K: AsRef<[u8]>>(&self, rows: &[(K, &[u8])]) -> Result<()> {
        self.commit(|table| {
            for (key, value) in rows {
                table.insert(key.as_ref(), *value)?;
            }
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_all(&[key])
    }

    fn delete_all<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        self.commit(|table| {
            for key in keys {
                table.remove(key.as_ref())?;
            }
            Ok(())
        })
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<bool> {
        self.commit(|table| Ok(table.retain_in(from.as_slice()..to.as_slice(), |_, _| false)?))?;
        Ok(true)
    }

    fn settle(&self) -> Result<Instant> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.commit()?;
        Ok(Instant::now())
    }

    fn reader(&self) -> Result<RedbReader<'_>> {
        Ok(RedbReader { db: &self.db, table: None, gets_left: 0 })
    }

    fn close(self) -> Result<()> {
        self.settle()?;
        Ok(())
    }
}

impl Reader for RedbReader<'_> {
    fn get(&mut self, key: &[u8], see: impl FnOnce(&[u8])) -> Result<bool> {
        Ok(self.table()?.get(key)?.map(|value| see(value.value())).is_some())
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        direction: Direction,
        rows: u64,
        mut see: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let range = match (from, direction) {
            (Some(key), Direction::Forward) => self.table()?.range(key..)?,
            (Some(key), Direction::Reverse) => self.table()?.range(..=key)?,
            (None, _) => self.table()?.range::<&[u8]>(..)?,
        };
        let see = |(key, value): &(redb::AccessGuard<'_, &[u8]>, redb::AccessGuard<'_, &[u8]>)| {
            see(key.value(), value.value());
        };
        match direction {
            Direction::Forward => show(range, rows, see),
            Direction::Reverse => show(range.rev(), rows, see),
        }
    }

    fn prefix(&mut self, prefix: &[u8], mut see: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let table = self.table()?;
        let mut seen = 0;
        for row in table.range(prefix..)? {
            let (key, value) = row?;
            if !key.value().starts_with(prefix) {
                break;
            }
            see(key.value(), value.value());
            seen += 1;
        }
        Ok(seen)
    }
}
