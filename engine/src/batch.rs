//! Atomic batches.

mod ops;
mod range_delete;
#[cfg(test)]
mod tests;

use std::ops::RangeBounds;

use esker_base::bounds::Bounds;
use esker_base::limits;
use esker_base::{Kind, Result};

use crate::keyspace::Keyspace;
use crate::options::Durability;
use crate::scan::{bounds_of, bounds_of_prefix};
use crate::{Database, OpCost};
pub(crate) use ops::{Op, Ops, decode_op};
pub(crate) use range_delete::RangeDelete;

/// Writes that take effect together or not at all, across keyspaces, in the order they were added. At most 2 GiB, encoded.
///
/// A keyspace of another database is a programmer's mistake: it panics.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let db = esker::Database::open(dir.path())?;
/// let users = db.keyspace("users", esker::KeyspaceOptions::default())?;
/// let names = db.keyspace("names", esker::KeyspaceOptions::default())?;
/// let mut batch = db.batch();
/// batch.put(&users, b"7", b"Olya")?;
/// batch.put(&names, b"Olya", b"7")?;
/// batch.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a batch has no effect until `commit`"]
pub struct Batch {
    db: Database,
    ops: Ops,
    durability: Option<Durability>,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("db", &self.db)
            .field("operations", &self.ops.count())
            .finish_non_exhaustive()
    }
}

impl Batch {
    pub(crate) fn new(db: Database) -> Self {
        Batch { db, ops: Ops::default(), durability: None }
    }

    /// Ask for a stronger durability than the database's for this commit; everything before it in the
    /// log becomes durable with it. A weaker one has no effect; an interval shorter than the database's, or
    /// where it has none, means a sync at once; in a `NoLog` database a stronger one is refused by `commit`, with
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let orders = db.keyspace("orders", esker::KeyspaceOptions::default())?;
    /// let mut batch = db.batch();
    /// batch.put(&orders, "7", "paid")?;
    /// batch.durability(esker::Durability::Sync);
    /// batch.commit()?; // on the device now, and so is what was committed before
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = Some(durability);
        self
    }

    /// Set `key` to `value`.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge): a key of more than 65,535 bytes, a value of more than 1 GiB, or a batch of more than 2 GiB (what is added
    /// counted with 32 bytes an operation besides); [`Error::OutOfMemory`](crate::Error::OutOfMemory). The batch is as it was before. All that adds to it
    /// errs so.
    ///
    /// # Panics
    /// If `keyspace` belongs to another database.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.push(keyspace, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Delete `key`, whether or not it has a value. Errs and panics as [`Batch::put`] does.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.push(keyspace, Kind::Delete, key.as_ref(), &[])
    }

    /// Give `operand` for `key` to the keyspace's merge operator. Errs as [`Batch::put`] does, and with
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the keyspace has none.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        keyspace.require_operator()?;
        self.push(keyspace, Kind::Merge, key.as_ref(), operand.as_ref())
    }

    /// Delete every key in `range`, in constant time; see [`Keyspace::delete_range`]. A range without an end is two
    /// operations; one within which no key can lie, none. Bounds may be longer than keys.
    ///
    /// # Errors
    /// As [`Batch::put`] does for a batch that is too large.
    pub fn delete_range<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<()> {
        self.delete_within(keyspace, bounds_of(&range))
    }

    /// Delete every key that starts with `prefix`, in constant time; an empty one deletes all.
    ///
    /// # Errors
    /// As [`Batch::delete_range`].
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_within(keyspace, bounds_of_prefix(prefix.as_ref()))
    }

    /// Number of operations so far.
    pub fn len(&self) -> u64 {
        self.ops.count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ops.count() == 0
    }

    /// Make all of it visible at once. Returns when the durability asked for is reached. An empty
    /// batch does nothing.
    ///
    /// # Errors
    /// [`Error::Aborted`](crate::Error::Aborted): it will never appear;
    /// [`Error::InDoubt`](crate::Error::InDoubt): it may appear, whole, after the next open; anything
    /// else, [`Error::KeyspaceDropped`](crate::Error::KeyspaceDropped) among it, was refused before it had any effect.
    pub fn commit(self) -> Result<()> {
        self.commit_costed(&mut OpCost::default())
    }

    /// [`Batch::commit`], adding to `cost` what it took.
    pub fn commit_costed(self, cost: &mut OpCost) -> Result<()> {
        self.db.core().commit(&self.ops, self.durability, cost)
    }

    fn delete_within(&mut self, keyspace: &Keyspace, bounds: Bounds) -> Result<()> {
        keyspace.check_belongs_to(self.db.core());
        self.ops.push_all(RangeDelete::of(bounds).ops(keyspace.id()))
    }

    fn push(&mut self, keyspace: &Keyspace, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        limits::check_key(key)?;
        limits::check_value(value)?;
        keyspace.check_belongs_to(self.db.core());
        self.ops.push(Op { keyspace: keyspace.id(), kind, key, value })
    }
}
