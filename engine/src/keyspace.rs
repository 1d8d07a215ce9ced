//! A keyspace: one ordered map of a database, and the single-key calls on it.

use std::ops::RangeBounds;
use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::limits;
use esker_base::planted::{self, Planted};
use esker_base::{Error, KeyspaceId, Kind, MergeOperator, OpCost, Result};

use crate::batch::{Op, Ops, RangeDelete};
use crate::commit::Work;
use crate::core::Core;
use crate::get::View;
use crate::options::KeyspaceOptions;
use crate::reader::Reader;
use crate::scan::{RowCursor, Scan, bounds_of, bounds_of_prefix};
use crate::snapshot::Snapshot;
use crate::{Database, Key, Value};

/// One ordered map of a database. A cheap handle: clone it, share it between threads.
///
/// Keys and values are byte strings; keys sort bytewise. Keys are at most 65,535 bytes long, values at
/// most 1 GiB.
#[derive(Clone)]
pub struct Keyspace {
    inner: Arc<Inner>,
}

struct Inner {
    db: Database,
    id: KeyspaceId,
    name: String,
    options: KeyspaceOptions,
    operator: Option<Arc<dyn MergeOperator>>,
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.inner.name).field("id", &self.inner.id.0).finish()
    }
}

impl Keyspace {
    pub(crate) fn new(
        db: Database,
        id: KeyspaceId,
        name: String,
        options: KeyspaceOptions,
    ) -> Result<Self> {
        let operator = match options.merge_operator.as_deref() {
            Some(name) => Some(db.core().operators.find(name)?),
            None => None,
        };
        if let Some(operator) = &operator {
            db.core().know_operator(id, operator);
        }
        Ok(Keyspace { inner: Arc::new(Inner { db, id, name, options, operator }) })
    }

    /// The database that it belongs to.
    pub fn database(&self) -> &Database {
        &self.inner.db
    }

    /// The keyspace's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The keyspace's number, as file listings and events show it.
    pub fn id(&self) -> KeyspaceId {
        self.inner.id
    }

    /// The options it was created with.
    pub fn options(&self) -> &KeyspaceOptions {
        &self.inner.options
    }

    /// Set `key` to `value`.
    ///
    /// # Errors
    /// Nothing was written: [`Error::TooLarge`] (a key of more than 65,535 bytes, a value of more than 1 GiB), [`Error::WouldStall`],
    /// [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Closed`], [`Error::NoSuchKeyspace`], [`Error::OutOfMemory`]. The commit failed:
    /// [`Error::Aborted`] (it will never appear), [`Error::InDoubt`] (it may appear, whole, after the next open; this handle
    /// takes no more writes).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(Kind::Put, key.as_ref(), value.as_ref(), &mut OpCost::default())
    }

    /// [`Keyspace::put`], adding to `cost` what it took.
    pub fn put_costed(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        cost: &mut OpCost,
    ) -> Result<()> {
        self.write(Kind::Put, key.as_ref(), value.as_ref(), cost)
    }

    #[inline]
    fn write(&self, kind: Kind, key: &[u8], value: &[u8], cost: &mut OpCost) -> Result<()> {
        limits::check_key(key)?;
        limits::check_value(value)?;
        debug_assert!(kind != Kind::RangeDelete, "a range delete comes as a batch");
        let op = Op { keyspace: self.id(), kind, key, value };
        self.core().commit_work(Work::One(op), None, cost).map_err(|error| self.named(error))
    }

    /// Delete `key`; Ok also if there is none. Errs as [`Keyspace::put`] does.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(Kind::Delete, key.as_ref(), &[], &mut OpCost::default())
    }

    /// [`Keyspace::delete`], adding to `cost` what it took.
    pub fn delete_costed(&self, key: impl AsRef<[u8]>, cost: &mut OpCost) -> Result<()> {
        self.write(Kind::Delete, key.as_ref(), &[], cost)
    }

    /// Delete every key in `range`, in constant time. An unbounded end deletes to the end; a range that ends before it begins
    /// deletes nothing. Errs as [`Keyspace::put`] does.
    ///
    /// Every thousand range deletes seal the memtable, whatever its size: to delete a few keys, call [`Keyspace::delete`]
    /// for each.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let log = db.keyspace("log", esker::KeyspaceOptions::default())?;
    /// for day in ["2026-01-01", "2026-01-02", "2026-02-01"] {
    ///     log.put(day, "")?;
    /// }
    /// log.delete_range("2026-01".."2026-02")?;
    /// assert_eq!(log.iter().count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.delete_range_costed(range, &mut OpCost::default())
    }

    /// [`Keyspace::delete_range`], adding to `cost` what it took: a tombstone, however many keys it deletes, and one more where the
    /// range has no end.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let log = db.keyspace("log", esker::KeyspaceOptions::default())?;
    /// let mut cost = esker::OpCost::default();
    /// log.delete_range_costed("2026-01".."2026-02", &mut cost)?;
    /// assert_eq!((cost.tombstones_written, cost.bytes_written), (1, 14));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_range_costed<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        cost: &mut OpCost,
    ) -> Result<()> {
        self.delete_within(bounds_of(&range), cost)
    }

    /// Delete every key that starts with `prefix`, in constant time; an empty one deletes all. Errs as [`Keyspace::put`] does.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_prefix_costed(prefix, &mut OpCost::default())
    }

    /// [`Keyspace::delete_prefix`], adding to `cost` what it took, as [`Keyspace::delete_range_costed`] does.
    pub fn delete_prefix_costed(&self, prefix: impl AsRef<[u8]>, cost: &mut OpCost) -> Result<()> {
        self.delete_within(bounds_of_prefix(prefix.as_ref()), cost)
    }

    fn delete_within(&self, bounds: Bounds, cost: &mut OpCost) -> Result<()> {
        let mut ops = Ops::default();
        ops.push_all(RangeDelete::of(bounds).ops(self.id()))?;
        self.core().commit(&ops, None, cost).map_err(|error| self.named(error))
    }

    /// Delete every key, in constant time: a [`delete_range`](Self::delete_range) of all, which takes 128 KiB of the log and 192 KiB of the
    /// memtable, for it names the longest key there can be. The space of what was deleted comes back as compactions meet it, or at once by
    /// [`compact_range`](Self::compact_range); a keyspace that is not needed any more goes by [`Database::drop_keyspace`]. Errs as [`Keyspace::put`] does.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let cache = db.keyspace("cache", esker::KeyspaceOptions::default())?;
    /// cache.put("page", "text")?;
    /// cache.clear()?;
    /// assert!(cache.iter().next().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) -> Result<()> {
        self.delete_range::<&[u8]>(..)
    }

    /// [`Keyspace::clear`], adding to `cost` what it took: two tombstones, one of them of the longest key.
    pub fn clear_costed(&self, cost: &mut OpCost) -> Result<()> {
        self.delete_range_costed::<&[u8]>(.., cost)
    }

    /// Give `operand` for `key` to the keyspace's merge operator: a write for which the value need not be known. An operand that the
    /// operator refuses (overflow, a wrong length) is written all the same: reads of the key err with [`Error::Merge`] then.
    ///
    /// If the memtable holds what the operand can be folded onto, at most 512 bytes long, the commit folds it at once. If it holds a long chain of
    /// operands instead, the commit reads the value below them, which other commits wait for and no [`OpCost`] counts.
    ///
    /// Errs as [`Keyspace::put`] does, and with [`Error::InvalidArgument`] if the keyspace has no operator.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let options = esker::KeyspaceOptions::default().with_merge_operator("add-i64");
    /// let likes = db.keyspace("likes", options)?;
    /// likes.merge("post-7", 1i64.to_le_bytes())?;
    /// likes.merge("post-7", 1i64.to_le_bytes())?;
    /// assert_eq!(likes.get("post-7")?.as_deref(), Some(&2i64.to_le_bytes()[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.require_operator()?;
        self.write(Kind::Merge, key.as_ref(), operand.as_ref(), &mut OpCost::default())
    }

    /// [`Keyspace::merge`], adding to `cost` what it took.
    pub fn merge_costed(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        cost: &mut OpCost,
    ) -> Result<()> {
        self.require_operator()?;
        self.write(Kind::Merge, key.as_ref(), operand.as_ref(), cost)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Error::Corruption`], [`Error::MissingFile`] and [`Error::Io`] of a file that has to be read: the next try may succeed, and other keys can
    /// be read. [`Error::Merge`] and [`Error::CallbackPanicked`] of the merge operator; [`Error::OutOfMemory`] for a value of more than 1 MiB;
    /// [`Error::NoSuchKeyspace`] if it was dropped; [`Error::Closed`]. All reads err so.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_costed(key, &mut OpCost::default())
    }

    /// [`Keyspace::get`], adding to `cost` what it took.
    pub fn get_costed(&self, key: impl AsRef<[u8]>, cost: &mut OpCost) -> Result<Option<Value>> {
        self.counted(cost, |view, cost| view.get_bytes(key.as_ref(), cost))
    }

    /// Read the keyspace as it is now; what that costs goes into `cost` and the metrics.
    #[inline]
    fn counted<R>(
        &self,
        cost: &mut OpCost,
        read: impl FnOnce(&View<'_>, &mut OpCost) -> Result<R>,
    ) -> Result<R> {
        let found = self
            .core()
            .count_read(self.id(), None, cost, |cost| self.with_view(|view| read(view, cost)))?;
        if planted::is(Planted::DamageSpreads) && found.as_ref().is_err_and(Error::is_corruption) {
            self.core().health.close();
        }
        found
    }

    /// Hand the value of `key` to `take` without copying it. The bytes live for the call only.
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, take: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get_with_costed(key, &mut OpCost::default(), take)
    }

    /// [`Keyspace::get_with`], adding to `cost` what it took.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// # let map = db.keyspace("map", esker::KeyspaceOptions::default())?;
    /// map.put("a", "value")?;
    /// let mut cost = esker::OpCost::default();
    /// assert_eq!(map.get_with_costed("a", &mut cost, <[u8]>::len)?, Some(5));
    /// assert_eq!((cost.calls, cost.keys_read), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_with_costed<R>(
        &self,
        key: impl AsRef<[u8]>,
        cost: &mut OpCost,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.counted(cost, |view, cost| view.get(key.as_ref(), cost, take))
    }

    /// Whether `key` has a value. One in a blob file is not read.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_costed(key, &mut OpCost::default())
    }

    /// [`contains`](Self::contains), adding to `cost` what it took.
    pub fn contains_costed(&self, key: impl AsRef<[u8]>, cost: &mut OpCost) -> Result<bool> {
        self.counted(cost, |view, cost| view.contains(key.as_ref(), cost))
    }

    /// The values of `keys`, in their order, all from one moment. The first error ends it. Errs as [`Keyspace::get`] does.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let users = db.keyspace("users", esker::KeyspaceOptions::default())?;
    /// users.put("7", "Olya")?;
    /// let found = users.multi_get(&["7", "8"])?;
    /// assert_eq!((found[0].as_deref(), found[1].as_deref()), (Some(&b"Olya"[..]), None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.multi_get_costed(keys, &mut OpCost::default())
    }

    /// [`Keyspace::multi_get`], adding to `cost` what it took: a call for each of `keys`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// # let users = db.keyspace("users", esker::KeyspaceOptions::default())?;
    /// users.put("7", "Olya")?;
    /// let mut cost = esker::OpCost::default();
    /// users.multi_get_costed(&["7", "8"], &mut cost)?;
    /// assert_eq!((cost.calls, cost.keys_read), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multi_get_costed<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        cost: &mut OpCost,
    ) -> Result<Vec<Option<Value>>> {
        self.counted(cost, |view, cost| view.multi_get(keys, cost))
    }

    /// The rows in `range`, as they are now; it may be empty or end before it begins. An iterator from both ends, which reads
    /// as it goes, and keeps what it sees in memory and on the disk until it is dropped. A long scan takes what room there is in
    /// the cache, and pushes nothing out of it.
    ///
    /// # Errors
    /// The call has none: a dropped keyspace ([`Error::NoSuchKeyspace`]) or closed database ([`Error::Closed`]) is the first item.
    /// A read error ([`Keyspace::get`] lists them) is yielded where it occurs. Either ends the scan.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let log = db.keyspace("log", esker::KeyspaceOptions::default())?;
    /// for (day, what) in [("2026-01-01", "snow"), ("2026-01-02", "rain"), ("2026-02-01", "fog")] {
    ///     log.put(day, what)?;
    /// }
    /// for row in log.range("2026-01".."2026-02") {
    ///     let (day, what) = row?;
    ///     assert!(day.starts_with(b"2026-01") && (&*what == b"snow" || &*what == b"rain"));
    /// }
    /// let (last, _) = log.range("2026-01"..).next_back().expect("there are rows")?;
    /// assert_eq!(&*last, b"2026-02-01");
    /// db.drop_keyspace("log")?;
    /// assert!(matches!(log.range("2026-01"..).next(), Some(Err(esker::Error::NoSuchKeyspace { .. }))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        Scan::new(self.scan_view(), bounds_of(&range))
    }

    /// The rows whose keys start with `prefix`. An iterator from both ends; errs as [`Keyspace::range`] does.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        Scan::new(self.scan_view(), bounds_of_prefix(prefix.as_ref()))
    }

    /// All rows. An iterator from both ends; errs as [`Keyspace::range`] does.
    pub fn iter(&self) -> Scan {
        self.range::<&[u8]>(..)
    }

    /// A repositionable, lending cursor over all rows as they are now. It stands on none until it is sent somewhere. Like a
    /// [reader](Keyspace::reader) it keeps what it sees until it is dropped.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`], [`Error::Closed`]; and, since ranges that were deleted are looked up beforehand, of a table that has
    /// some: [`Error::Corruption`], [`Error::MissingFile`], [`Error::Io`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let letters = db.keyspace("letters", esker::KeyspaceOptions::default())?;
    /// letters.put("a", "1")?;
    /// let mut cursor = letters.cursor()?;
    /// letters.put("b", "2")?; // after its moment
    /// assert!(!cursor.valid());
    /// assert!(cursor.seek_last()?);
    /// assert_eq!((cursor.key(), cursor.value()), (&b"a"[..], &b"1"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cursor(&self) -> Result<RowCursor> {
        self.cursor_over::<&[u8]>(..)
    }

    /// A repositionable, lending cursor over the rows in `range`: it stands nowhere outside it.
    ///
    /// # Errors
    /// As [`reader`](Self::reader).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let letters = db.keyspace("letters", esker::KeyspaceOptions::default())?;
    /// for key in ["a", "b", "c"] {
    ///     letters.put(key, "x")?;
    /// }
    /// let mut cursor = letters.cursor_over("b".."c")?;
    /// assert!(cursor.seek("a")?);
    /// assert_eq!(cursor.key(), b"b");
    /// assert!(!cursor.next()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cursor_over<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<RowCursor> {
        RowCursor::new(self.scan_view()?, bounds_of(&range))
    }

    /// The keyspace at this moment, for several reads that must agree, and to learn what they cost. Reads nothing by itself.
    ///
    /// Until it is dropped it keeps the memtables of its moment in memory (each up to
    /// [`memtable_bytes_max`](crate::DatabaseOptions::memtable_bytes_max) bytes, or some more) and its tables and blob files on the
    /// disk, also those that have been replaced since.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`], [`Error::Closed`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let users = db.keyspace("users", esker::KeyspaceOptions::default())?;
    /// users.put("7", "Olya")?;
    /// let reader = users.reader()?;
    /// users.delete("7")?;
    /// assert_eq!(reader.get("7")?.as_deref(), Some(&b"Olya"[..]));
    /// assert_eq!(reader.prefix("7").count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reader(&self) -> Result<Reader> {
        Reader::now(self)
    }

    /// The keyspace as `snapshot` sees it.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`] if it has been dropped since; [`Error::Closed`].
    ///
    /// # Panics
    /// If the snapshot is one of another database.
    pub fn at(&self, snapshot: &Snapshot) -> Result<Reader> {
        self.check_belongs_to(snapshot.core());
        Reader::at(self, snapshot)
    }

    /// Set `key` to `new` (`None`: delete it) if its value is `expected` (`None`: if it has none); whether it was. A
    /// [transaction](Database::transact), so it errs as that does.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let config = db.keyspace("config", esker::KeyspaceOptions::default())?;
    /// assert!(config.compare_and_swap("leader", None, Some(b"node-1"))?);
    /// assert!(!config.compare_and_swap("leader", None, Some(b"node-2"))?);
    /// assert!(config.compare_and_swap("leader", Some(b"node-1"), None)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.compare_and_swap_costed(key, expected, new, &mut OpCost::default())
    }

    /// [`Keyspace::compare_and_swap`], adding to `cost` what its reads, its commits and its tries after a conflict took.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// # let config = db.keyspace("config", esker::KeyspaceOptions::default())?;
    /// let mut cost = esker::OpCost::default();
    /// assert!(config.compare_and_swap_costed("leader", None, Some(b"node-1"), &mut cost)?);
    /// // It has read the key, which had no value, and committed one.
    /// assert_eq!((cost.calls, cost.keys_read, cost.keys_written), (2, 0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare_and_swap_costed(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        cost: &mut OpCost,
    ) -> Result<bool> {
        let key = key.as_ref();
        let mut reads = OpCost::default();
        let swapped = self.inner.db.transact_costed(cost, |tx| {
            if tx.get_costed(self, key, &mut reads)?.as_deref() != expected {
                return Ok(false);
            }
            match new {
                Some(value) => tx.put(self, key, value)?,
                None => tx.delete(self, key)?,
            }
            Ok(true)
        });
        cost.add(&reads);
        swapped.map_err(|error| self.named(error))
    }

    /// About how many bytes the keys in `range` take in tables and blob files, as stored, with what compactions have not dropped
    /// yet; memory is not counted. Of a table that reaches beyond the range the blocks within it are counted, which errs by up to a
    /// block at each end, and of its values in blob files as large a part as of the table, which errs by more where long values
    /// do not lie evenly. Errs as [`Keyspace::get`] does.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let log = db.keyspace("log", esker::KeyspaceOptions::default())?;
    /// log.put("2026-01-01", [0; 1000])?;
    /// assert_eq!(log.approximate_size("2026".."2027")?, 0); // it is in memory
    /// db.flush()?;
    /// assert!(log.approximate_size("2026".."2027")? > 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.reader()?.approximate_size(range)
    }

    /// Compact everything in `range` down to its last level, dropping what is dead and no snapshot sees, and return when
    /// it is done and the replaced files that no reader holds are removed. Flushes the memtable first, and works on the caller's thread. Ok if the keyspace is dropped
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Closed`]; what a flush, a read or a write of a table errs with, after which nothing has
    /// changed for readers.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let users = db.keyspace("users", esker::KeyspaceOptions::default())?;
    /// users.compact_range("a".."b")?;
    /// users.compact_range::<&[u8]>(..)?; // all of it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.core().compact_range(self.id(), &bounds_of(&range))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.inner.db.core()
    }

    pub(crate) fn operator(&self) -> Option<&Arc<dyn MergeOperator>> {
        self.inner.operator.as_ref()
    }

    pub(crate) fn gone(&self) -> Error {
        Error::NoSuchKeyspace { name: self.inner.name.clone() }
    }

    /// `error`, of a commit to this keyspace alone, with its name.
    fn named(&self, error: Error) -> Error {
        if matches!(error, Error::KeyspaceDropped { .. }) { self.gone() } else { error }
    }

    /// A batch, transaction or snapshot of one database must not meet a keyspace of another.
    pub(crate) fn check_belongs_to(&self, core: &Arc<Core>) {
        assert!(
            Arc::ptr_eq(self.core(), core),
            "keyspace {:?} belongs to another database than the batch, transaction or snapshot",
            self.inner.name
        );
    }

    /// Whether merges work here.
    pub(crate) fn has_operator(&self) -> bool {
        self.inner.operator.is_some()
    }

    pub(crate) fn require_operator(&self) -> Result<()> {
        if self.inner.operator.is_some() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "keyspace {:?} has no merge operator; create it with KeyspaceOptions::with_merge_operator",
            self.inner.name
        )))
    }
}

impl IntoIterator for &Keyspace {
    type Item = Result<(Key, Value)>;
    type IntoIter = Scan;
    fn into_iter(self) -> Scan {
        self.iter()
    }
}
