//! redb: one table of byte strings in one file.

use std::path::PathBuf;

use esker_layouts::Result;
use esker_layouts::kv::{Bytes, Caps, KeyRange};
use redb::{AccessGuard, Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};
use tempfile::TempDir;

use super::optimistic::{Backend, Optimistic, Rows, View};
use super::{directory, foreign};
use crate::lab::store::{Setup, Store};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

static CAPS: Caps = Caps {
    name: "redb",
    key_bytes_max: esker::limits::KEY_BYTES_MAX,
    value_bytes_max: esker::limits::VALUE_BYTES_MAX,
    transactions: true,
    reverse: true,
    merge: true,
    range_delete: false,
    // The last commits before the process ends may not be in the file.
    durable: false,
};

/// A database in a temporary directory.
pub struct Redb {
    // Fields drop in order: the database closes before its directory goes.
    db: Database,
    file: PathBuf,
    _directory: TempDir,
}

impl Redb {
    fn create() -> Result<Redb> {
        let directory = directory()?;
        let file = directory.path().join("redb");
        let db = Database::create(&file).map_err(|error| foreign("create", &file, error))?;
        let redb = Redb { db, file, _directory: directory };
        redb.write(Vec::new())?;
        Ok(redb)
    }

    fn failed<E: Into<redb::Error>>(&self, op: &'static str) -> impl Fn(E) -> esker_layouts::Error {
        move |error| foreign(op, &self.file, error.into())
    }

    /// Make everything committed durable.
    fn sync(&self) -> Result<()> {
        let mut transaction = self.db.begin_write().map_err(self.failed("begin"))?;
        transaction.set_durability(Durability::Immediate).map_err(self.failed("begin"))?;
        transaction.commit().map_err(self.failed("commit"))
    }

    fn bytes(&self) -> Option<u64> {
        let stats = self.db.begin_write().ok()?.stats().ok()?;
        Some(stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes())
    }
}

impl Backend for Redb {
    type View = RedbView;

    fn caps(&self) -> &Caps {
        &CAPS
    }

    fn view(&self) -> Result<RedbView> {
        let transaction = self.db.begin_read().map_err(self.failed("read"))?;
        let table = transaction.open_table(ROWS).map_err(self.failed("read"))?;
        Ok(RedbView { table, file: self.file.clone() })
    }

    fn write(&self, changes: Vec<(Bytes, Option<Bytes>)>) -> Result<()> {
        let mut transaction = self.db.begin_write().map_err(self.failed("begin"))?;
        transaction.set_durability(Durability::None).map_err(self.failed("begin"))?;
        let mut table = transaction.open_table(ROWS).map_err(self.failed("write"))?;
        for (key, value) in &changes {
            match value {
                Some(value) => table.insert(&key[..], &value[..]),
                None => table.remove(&key[..]),
            }
            .map_err(self.failed("write"))?;
        }
        drop(table);
        transaction.commit().map_err(self.failed("commit"))
    }
}

/// A snapshot of the table.
pub struct RedbView {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
    file: PathBuf,
}

fn owned(guard: &AccessGuard<'_, &'static [u8]>) -> Bytes {
    Bytes::copy_from_slice(guard.value())
}

impl View for RedbView {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let found = self.table.get(key).map_err(|error| foreign("read", &self.file, error))?;
        Ok(found.map(|value| owned(&value)))
    }

    fn rows(&self, range: &KeyRange, reverse: bool) -> Result<Rows<'_>> {
        let start = range.start.as_slice();
        let rows = match range.end.as_deref() {
            Some(end) => self.table.range::<&[u8]>(start..end),
            None => self.table.range::<&[u8]>(start..),
        };
        let rows = rows.map_err(|error| foreign("read", &self.file, error))?;
        let own = |row: redb::Result<_, redb::StorageError>| match row {
            Ok((key, value)) => Ok((owned(&key), owned(&value))),
            Err(error) => Err(foreign("read", &self.file, error)),
        };
        Ok(if reverse { Box::new(rows.rev().map(own)) } else { Box::new(rows.map(own)) })
    }
}

/// Opens redb databases, each in a temporary directory of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedbFactory;

impl Store for RedbFactory {
    type Kv = Optimistic<Redb>;

    fn name(&self) -> &'static str {
        "redb 4 (commits not synced), in a temporary directory"
    }

    fn open_as(&self, _setup: &Setup) -> Result<Optimistic<Redb>> {
        Ok(Optimistic::new(Redb::create()?))
    }

    fn settle(&self, kv: &Optimistic<Redb>) -> Result<()> {
        kv.backend().sync()
    }

    fn compact(&self, kv: &Optimistic<Redb>) -> Result<()> {
        kv.backend().sync()
    }

    fn disk_bytes(&self, kv: &Optimistic<Redb>) -> Option<u64> {
        kv.backend().bytes()
    }
}
