//! esker behind the layouts' traits: one keyspace of a database as an ordered store.
//!
//! ```
//! use esker_layouts::engine::EngineStore;
//! use esker_layouts::followers::{Layout, open};
//!
//! # let dir = tempfile::tempdir()?;
//! let store = EngineStore::open(dir.path(), "followers")?;
//! let friends = open(&store, Layout::Column)?;
//! friends.add("Вася", "Оля")?;
//! assert_eq!(friends.check("Вася", "Оля")?.cost.keys_read, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every counter is the engine's own: the adapter hands [`OpCost`] down and sums what comes back. One
//! thing is its own: a batched get, which the engine counts as one call a key, is one call here.
//!
//! A scan counts when it is exhausted or dropped. A refused merge (wrong length, overflow) is found by
//! the read that folds it, not by the commit.

mod read;
mod tx;

use std::path::Path;
use std::sync::Arc;

use esker::{Database, DatabaseBuilder, Keyspace, KeyspaceOptions, MergeOperator, Transaction};

use crate::kv::{Bytes, Caps, Costed, MergeOps, OrderedKv, Write};
use crate::{OpCost, Result};

pub use read::{EngineRead, EngineScan};
pub use tx::{EngineTx, EngineTxScan};

static CAPS: Caps = Caps {
    name: "esker",
    key_bytes_max: esker::limits::KEY_BYTES_MAX,
    value_bytes_max: esker::limits::VALUE_BYTES_MAX,
    transactions: true,
    reverse: true,
    merge: true,
    range_delete: true,
    durable: true,
};

/// One keyspace of a database. A cheap handle.
#[derive(Clone, Debug)]
pub struct EngineStore {
    db: Database,
    keyspace: Keyspace,
}

impl EngineStore {
    /// The keyspace `name` of the database in `dir`, both created if absent, with default settings.
    pub fn open(dir: impl AsRef<Path>, name: &str) -> Result<EngineStore> {
        Self::build(Database::builder(dir), name)
    }

    /// The keyspace `name` of the database that `builder` opens; [`MergeOps`] is registered with it.
    pub fn build(builder: DatabaseBuilder, name: &str) -> Result<EngineStore> {
        Self::build_with(builder, name, KeyspaceOptions::default())
    }

    /// [`build`](Self::build) with the keyspace options `options`, whose merge operator is replaced by
    /// [`MergeOps`].
    pub fn build_with(
        builder: DatabaseBuilder,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<EngineStore> {
        let db = builder.merge_operator(Arc::new(MergeOps)).open()?;
        let keyspace = db.keyspace(name, options.with_merge_operator(MergeOps.name()))?;
        Ok(EngineStore { db, keyspace })
    }

    /// The keyspace `name` of an open database, with which [`MergeOps`] must have been registered.
    pub fn of(db: Database, name: &str) -> Result<EngineStore> {
        let options = KeyspaceOptions::default().with_merge_operator(MergeOps.name());
        let keyspace = db.keyspace(name, options)?;
        Ok(EngineStore { db, keyspace })
    }

    /// A keyspace that is open, whatever its options.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if its merge operator is not [`MergeOps`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use esker_layouts::engine::EngineStore;
    /// use esker_layouts::kv::MergeOps;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let db = esker::Database::builder(dir.path()).merge_operator(Arc::new(MergeOps)).open()?;
    /// let options = esker::KeyspaceOptions { block_bytes: 16 << 10, ..Default::default() };
    /// let keyspace = db.keyspace("facts", options.with_merge_operator("esker-layouts"))?;
    /// let store = EngineStore::over(keyspace)?;
    /// # assert_eq!(store.keyspace().options().block_bytes, 16 << 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn over(keyspace: Keyspace) -> Result<EngineStore> {
        let operator = keyspace.options().merge_operator.as_deref();
        if operator != Some(MergeOps.name()) {
            let (name, own) = (keyspace.name(), MergeOps.name());
            let what = format!("keyspace {name:?} has the merge operator {operator:?}, not {own:?}");
            return Err(esker::Error::invalid(what).into());
        }
        Ok(EngineStore { db: keyspace.database().clone(), keyspace })
    }

    /// Run `f` in a transaction of the database's, over this keyspace: so one transaction spans the layouts of
    /// several keyspaces, and keys without a layout. What the reads take is added to `cost`.
    ///
    /// The layouts that `f` uses must have been opened with this store, or another handle of its keyspace: those of
    /// another would read and write their keys in this one, which nothing checks.
    ///
    /// # Errors
    /// Those of `f`, and those of writes that the engine refuses, after which the transaction must be given up: return
    /// the error from its closure.
    ///
    /// # Panics
    /// If `f` reads or writes and `transaction` is of another database.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use esker_layouts::{Error, OpCost};
    /// use esker_layouts::engine::EngineStore;
    /// use esker_layouts::kv::MergeOps;
    /// use esker_layouts::tall::TallTable;
    /// use esker_layouts::tuple::Space;
    /// use esker_layouts::vector::{Chunk, Vector};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let db = esker::Database::builder(dir.path()).merge_operator(Arc::new(MergeOps)).open()?;
    /// let (mail, log) = (EngineStore::of(db.clone(), "mail")?, EngineStore::of(db.clone(), "log")?);
    /// let raw = db.keyspace("raw", esker::KeyspaceOptions::default())?;
    /// let letters: TallTable<_, (String, u64)> = TallTable::open(&mail, &Space::root())?;
    /// let lines: Vector<_, String> = Vector::open(&log, &Space::root(), Chunk::Of(100))?;
    /// let mut cost = OpCost::default();
    /// db.try_transact(|transaction| {
    ///     mail.within(transaction, &mut cost, |tx| letters.put_in(tx, &("ann".into(), 1), b"Hi"))?;
    ///     log.within(transaction, &mut cost, |tx| lines.push_in(tx, &"ann has mail".into()))?;
    ///     transaction.put(&raw, "last", "ann")?;
    ///     Ok::<_, Error>(())
    /// })?;
    /// assert_eq!(lines.get(0)?.as_deref(), Some("ann has mail"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn within<T>(
        &self,
        transaction: &mut Transaction,
        cost: &mut OpCost,
        f: impl FnOnce(&mut EngineTx<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut tx = EngineTx::new(transaction, &self.keyspace);
        let value = f(&mut tx);
        let finished = tx.finish(cost);
        value.and_then(|value| finished.map(|()| value))
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// The keyspace.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }
}

impl OrderedKv for EngineStore {
    type Read<'a> = EngineRead;
    type Tx<'a> = EngineTx<'a>;

    fn caps(&self) -> &Caps {
        &CAPS
    }

    fn read(&self) -> Result<EngineRead> {
        Ok(EngineRead::new(self.keyspace.reader()?))
    }

    fn update<T>(&self, mut f: impl FnMut(&mut EngineTx<'_>) -> Result<T>) -> Result<Costed<T>> {
        let (mut cost, mut reads) = (OpCost::default(), OpCost::default());
        let value = self
            .db
            .try_transact_costed(&mut cost, |transaction| self.within(transaction, &mut reads, &mut f))?;
        cost.add(&reads);
        Ok(Costed { value, cost })
    }

    fn write(&self, mut writes: impl FnMut(&mut dyn FnMut(Write<'_>)) -> Result<()>) -> Result<OpCost> {
        let mut batch = self.db.batch();
        let mut refused = Ok(());
        writes(&mut |write| {
            let outcome = match write {
                Write::Put(key, value) => batch.put(&self.keyspace, key, value),
                Write::Delete(key) => batch.delete(&self.keyspace, key),
                Write::DeleteRange(range) => {
                    batch.delete_range::<&[u8]>(&self.keyspace, read::bounds(range))
                }
                Write::Merge(key, merge) => batch.merge(&self.keyspace, key, merge.encode()),
            };
            if let Err(error) = outcome
                && refused.is_ok()
            {
                refused = Err(error);
            }
        })?;
        refused?;
        let mut cost = OpCost::default();
        batch.commit_costed(&mut cost)?;
        Ok(cost)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<OpCost> {
        let mut cost = OpCost::default();
        self.keyspace.put_costed(key, value, &mut cost)?;
        Ok(cost)
    }

    fn delete(&self, key: &[u8]) -> Result<OpCost> {
        let mut cost = OpCost::default();
        self.keyspace.delete_costed(key, &mut cost)?;
        Ok(cost)
    }

    fn get(&self, key: &[u8]) -> Result<Costed<Option<Bytes>>> {
        let mut cost = OpCost::default();
        let value = self.keyspace.get_costed(key, &mut cost)?;
        Ok(Costed { value, cost })
    }

    fn contains(&self, key: &[u8]) -> Result<Costed<bool>> {
        let mut cost = OpCost::default();
        let value = self.keyspace.contains_costed(key, &mut cost)?;
        Ok(Costed { value, cost })
    }
}

#[cfg(test)]
mod tests;
