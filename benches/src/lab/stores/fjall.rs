//! fjall: one keyspace with default settings. It has no empty key, so every key has a byte in front.

use std::ops::Bound;

use esker_layouts::Result;
use esker_layouts::kv::{Bytes, Caps, KeyRange};
use fjall::{
    Database, Guard, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Readable, Snapshot,
};
use tempfile::TempDir;

use super::optimistic::{Backend, Optimistic, Rows, View};
use super::{directory, foreign};
use crate::lab::store::{Setup, Store};

/// In front of every key, and the least byte behind all keys.
const FRONT: u8 = 1;
const BEHIND: u8 = 2;

static CAPS: Caps = Caps {
    name: "fjall",
    // One byte less than it takes.
    key_bytes_max: 65_534,
    value_bytes_max: esker::limits::VALUE_BYTES_MAX,
    transactions: true,
    reverse: true,
    merge: true,
    range_delete: false,
    durable: true,
};

/// A database in a temporary directory.
pub struct Fjall {
    // Fields drop in order: the database closes before its directory goes.
    rows: Keyspace,
    db: Database,
    directory: TempDir,
}

impl Fjall {
    fn create() -> Result<Fjall> {
        let directory = directory()?;
        let failed = |error| foreign("create", directory.path(), error);
        let db = Database::builder(directory.path()).open().map_err(failed)?;
        let rows = db.keyspace("rows", KeyspaceCreateOptions::default).map_err(failed)?;
        Ok(Fjall { rows, db, directory })
    }

    fn failed(&self, op: &'static str) -> impl Fn(fjall::Error) -> esker_layouts::Error {
        move |error| foreign(op, self.directory.path(), error)
    }

    /// Wait until everything is in tables and no compaction runs.
    #[expect(clippy::disallowed_methods, reason = "fjall can only be asked, there is nothing to wait at")]
    fn settle(&self) -> Result<()> {
        self.rows.rotate_memtable_and_wait().map_err(self.failed("flush"))?;
        while self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0 {
            std::thread::yield_now();
        }
        Ok(())
    }
}

fn prefixed(key: &[u8]) -> Vec<u8> {
    [&[FRONT], key].concat()
}

impl Backend for Fjall {
    type View = FjallView;

    fn caps(&self) -> &Caps {
        &CAPS
    }

    fn view(&self) -> Result<FjallView> {
        Ok(FjallView { snapshot: self.db.snapshot(), rows: self.rows.clone() })
    }

    fn write(&self, changes: Vec<(Bytes, Option<Bytes>)>) -> Result<()> {
        let batch = OwnedWriteBatch::with_capacity(self.db.clone(), changes.len());
        let mut batch = batch.durability(Some(PersistMode::Buffer));
        for (key, value) in &changes {
            match value {
                Some(value) => batch.insert(&self.rows, prefixed(key), &value[..]),
                None => batch.remove(&self.rows, prefixed(key)),
            }
        }
        batch.commit().map_err(self.failed("commit"))
    }
}

/// A snapshot of the keyspace.
pub struct FjallView {
    snapshot: Snapshot,
    rows: Keyspace,
}

impl FjallView {
    fn failed(&self, error: fjall::Error) -> esker_layouts::Error {
        foreign("read", self.rows.path(), error)
    }
}

impl View for FjallView {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let found = self.snapshot.get(&self.rows, prefixed(key)).map_err(|error| self.failed(error))?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn rows(&self, range: &KeyRange, reverse: bool) -> Result<Rows<'_>> {
        // fjall panics at a bound longer than its keys. Such a bound lies right behind its own beginning, with no key between.
        let max = CAPS.key_bytes_max;
        let start = match range.start.get(..max) {
            Some(start) if range.start.len() > max => Bound::Excluded(prefixed(start)),
            _ => Bound::Included(prefixed(&range.start)),
        };
        let end = match range.end.as_deref() {
            Some(end) if end.len() > max => Bound::Included(prefixed(&end[..max])),
            Some(end) => Bound::Excluded(prefixed(end)),
            None => Bound::Excluded(vec![BEHIND]),
        };
        let rows = self.snapshot.range(&self.rows, (start, end));
        let own = |row: Guard| match row.into_inner() {
            Ok((key, value)) => {
                let key = key.get(1..).unwrap_or_default();
                Ok((Bytes::copy_from_slice(key), Bytes::copy_from_slice(&value)))
            }
            Err(error) => Err(self.failed(error)),
        };
        Ok(if reverse { Box::new(rows.rev().map(own)) } else { Box::new(rows.map(own)) })
    }
}

/// Opens fjall databases, each in a temporary directory of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct FjallFactory;

impl Store for FjallFactory {
    type Kv = Optimistic<Fjall>;

    fn name(&self) -> &'static str {
        "fjall 3 (default settings, no compression: durable to a process kill), in a temporary directory"
    }

    fn open_as(&self, _setup: &Setup) -> Result<Optimistic<Fjall>> {
        Ok(Optimistic::new(Fjall::create()?))
    }

    fn settle(&self, kv: &Optimistic<Fjall>) -> Result<()> {
        kv.backend().settle()
    }

    fn compact(&self, kv: &Optimistic<Fjall>) -> Result<()> {
        let fjall = kv.backend();
        fjall.settle()?;
        fjall.rows.major_compact().map_err(fjall.failed("compact"))
    }

    fn disk_bytes(&self, kv: &Optimistic<Fjall>) -> Option<u64> {
        Some(kv.backend().rows.disk_space())
    }
}
