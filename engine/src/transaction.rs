//! Serialisable, optimistic transactions.
//!
//! A transaction reads one snapshot with its own writes laid over it, notes every key and range it
//! has read ([`read_set`]), and at commit, inside the commit queue, is refused with [`Error::Conflict`] if any of
//! them was written after its snapshot. So what it read is still true at the moment it commits: the
//! commit order is a serial order. (Backward validation: Kung and Robinson, "On Optimistic Methods
//! for Concurrency Control", 1981.) Nothing is locked, nobody waits for a transaction.
//!
//! Its own writes lie in a memtable of their own with sequence numbers from [`OWN`] on, far above any
//! real one, so that gets, scans, merges and range deletes see them by the code that reads everything
//! else.

mod range_set;
pub(crate) mod read_set;

use std::iter;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::limits;
use esker_base::memory;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{Error, KeyspaceId, Kind, OpCost, Result, SeqNo};

use crate::batch::{Op, Ops, RangeDelete};
use crate::commit::{Work, apply};
use crate::get::View;
use crate::keyspace::Keyspace;
use crate::memtable::{Memtable, MemtableWriter};
use crate::options::Durability;
use crate::scan::{Scan, bounds_of, bounds_of_prefix};
use crate::scan_view::ScanView;
use crate::snapshot_list::Pin;
use crate::superversion::SuperVersion;
use crate::transaction::read_set::{ReadSet, ScanRead};
use crate::{Database, Key, Value};

/// The first sequence number of a transaction's own writes: the manifest refuses a database that has come to it.
pub(crate) const OWN: SeqNo = esker_manifest::limits::SEQNO_END;

/// How often `transact` runs its closure before it gives the conflict to its caller.
const ATTEMPTS_MAX: u32 = 256;
/// From this attempt on, a transaction that keeps losing takes priority over others.
const PRIORITY_FROM: u32 = 4;

/// Reads and writes that commit together if nothing it read has changed, or not at all. Dropping it
/// rolls it back.
///
/// It keeps in memory each key and range it reads, and its writes twice (at most 2 GiB, as a [`Batch`](crate::Batch)). While it lives, compaction
/// keeps what it sees. A keyspace of another database is a programmer's mistake: it panics.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = esker::Database::open(dir.path())?;
/// let accounts = db.keyspace("accounts", esker::KeyspaceOptions::default())?;
/// accounts.put("a", [10])?;
/// accounts.put("b", [0])?;
/// db.transact(|tx| {
///     let a = tx.get(&accounts, "a")?.map_or(0, |v| v[0]);
///     let b = tx.get(&accounts, "b")?.map_or(0, |v| v[0]);
///     tx.put(&accounts, "a", [a - 3])?;
///     tx.put(&accounts, "b", [b + 3])
/// })?;
/// assert_eq!(accounts.get("b")?.as_deref(), Some(&[3][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a transaction has no effect until `commit`"]
pub struct Transaction {
    db: Database,
    pin: Arc<Pin>,
    superversion: Arc<SuperVersion>,
    reads: Arc<ReadSet>,
    /// The writes, in order, for the log.
    ops: Ops,
    /// The same writes, to be read.
    own: Arc<Memtable>,
    writer: MemtableWriter,
    /// How many of the writes the last scan sees.
    scanned: AtomicU64,
    durability: Option<Durability>,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("db", &self.db)
            .field("snapshot", &self.pin.seqno())
            .field("operations", &self.ops.count())
            .finish_non_exhaustive()
    }
}

impl Transaction {
    pub(crate) fn begin(db: &Database) -> Result<Self> {
        let core = db.core();
        core.health.check_open()?;
        let pin = Arc::new(core.snapshots.pin());
        let superversion = core.current.load_full();
        let (own, writer) = Memtable::new();
        let reads = Arc::new(ReadSet::new(pin.seqno()));
        Ok(Transaction {
            db: db.clone(),
            pin,
            superversion,
            reads,
            ops: Ops::default(),
            own,
            writer,
            scanned: AtomicU64::new(0),
            durability: None,
        })
    }

    /// Ask for a stronger durability than the database's; see
    /// [`Batch::durability`](crate::Batch::durability).
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = Some(durability);
        self
    }

    /// The value of `key`, with this transaction's own writes. The transaction has then read `key`, also if this errs: its commit
    /// conflicts with whoever writes to it meanwhile.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; [`Error::NoSuchKeyspace`] for a keyspace that was dropped before the transaction began. All its
    /// reads err so, scans with their first item.
    ///
    /// # Panics
    /// If `keyspace` belongs to another database. So do all calls that take one.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_costed(keyspace, key, &mut OpCost::default())
    }

    /// [`Transaction::get`], adding to `cost` what it took.
    pub fn get_costed(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        cost: &mut OpCost,
    ) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.read(keyspace, iter::once(key), cost, |view, cost| view.get_bytes(key, cost))
    }

    /// The value that `key` had when the transaction began: as [`Transaction::get`], but without its own writes. If they commit,
    /// that is the value they came upon.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let stock = db.keyspace("stock", esker::KeyspaceOptions::default())?;
    /// stock.put("bolts", [3])?;
    /// let (before, now) = db.transact(|tx| {
    ///     tx.put(&stock, "bolts", [5])?;
    ///     Ok((tx.get_from_snapshot(&stock, "bolts")?, tx.get(&stock, "bolts")?))
    /// })?;
    /// assert_eq!((before.as_deref(), now.as_deref()), (Some(&[3][..]), Some(&[5][..])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_from_snapshot(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.read(keyspace, iter::once(key), &mut OpCost::default(), |view, cost| {
            View { own: None, ..*view }.get_bytes(key, cost)
        })
    }

    /// The values of `keys`, in their order, with this transaction's own writes: as so many times [`Transaction::get`], and sooner.
    /// All of `keys` count as read, also if it errs.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let stock = db.keyspace("stock", esker::KeyspaceOptions::default())?;
    /// stock.put("bolts", [3])?;
    /// let there = db.transact(|tx| {
    ///     tx.put(&stock, "nuts", [5])?;
    ///     tx.multi_get(&stock, &["nuts", "screws", "bolts"])
    /// })?;
    /// let there: Vec<_> = there.iter().map(|value| value.as_ref().map(|value| value[0])).collect();
    /// assert_eq!(there, [Some(5), None, Some(3)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.multi_get_costed(keyspace, keys, &mut OpCost::default())
    }

    /// [`Transaction::multi_get`], adding to `cost` what it took.
    pub fn multi_get_costed<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        cost: &mut OpCost,
    ) -> Result<Vec<Option<Value>>> {
        let seen = keys.iter().map(AsRef::as_ref);
        self.read(keyspace, seen, cost, |view, cost| view.multi_get(keys, cost))
    }

    /// What `read` says of `keys`, which the transaction has then read; what it costs goes into `cost` and the metrics.
    fn read<'a, R>(
        &self,
        keyspace: &Keyspace,
        keys: impl Iterator<Item = &'a [u8]>,
        cost: &mut OpCost,
        read: impl FnOnce(&View<'_>, &mut OpCost) -> Result<R>,
    ) -> Result<R> {
        let superversion = self.superversion_with(keyspace)?;
        self.reads.saw_keys(keyspace.id(), keys);
        let view = View::new(&superversion, keyspace.id(), self.pin.seqno());
        let view = view.ok_or_else(|| keyspace.gone())?;
        let view = View { operator: keyspace.operator(), own: Some(&self.own), ..view };
        let log = superversion.active.log;
        keyspace.core().count_read(keyspace.id(), Some(log), cost, |cost| read(&view, cost))
    }

    /// Whether `key` has a value, with this transaction's own writes. One in a blob file is not read.
    pub fn contains(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_costed(keyspace, key, &mut OpCost::default())
    }

    /// [`Transaction::contains`], adding to `cost` what it took.
    pub fn contains_costed(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        cost: &mut OpCost,
    ) -> Result<bool> {
        let key = key.as_ref();
        self.read(keyspace, iter::once(key), cost, |view, cost| view.contains(key, cost))
    }

    /// The rows in `range`, with this transaction's own writes up to now.
    pub fn range<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> TransactionScan {
        self.scan(keyspace, bounds_of(&range))
    }

    /// The rows whose keys start with `prefix`, with this transaction's own writes up to now.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> TransactionScan {
        self.scan(keyspace, bounds_of_prefix(prefix.as_ref()))
    }

    /// All rows, with this transaction's own writes up to now.
    pub fn iter(&self, keyspace: &Keyspace) -> TransactionScan {
        self.scan(keyspace, Bounds { start: Bound::Unbounded, end: Bound::Unbounded })
    }

    /// Set `key` to `value`: for this transaction's own reads from here on, for others with its commit.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: a key of more than 65,535 bytes, a value of more than 1 GiB, or writes of more than 2 GiB (what is
    /// added counted with 32 bytes an operation besides); [`Error::OutOfMemory`]. The transaction is as it was before. All that adds to it errs so. That the
    /// keyspace was dropped is for the commit to tell.
    ///
    /// # Panics
    /// If `keyspace` belongs to another database.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write(keyspace, Kind::Put, key.as_ref(), value.as_ref())
    }

    /// Delete `key`, whether or not it has a value; the transaction has not read it by that. Errs and panics as [`Transaction::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(keyspace, Kind::Delete, key.as_ref(), &[])
    }

    /// Give `operand` for `key` to the keyspace's merge operator. The transaction has not read the key by that, so it conflicts
    /// with nobody. What its commit may read: see [`Keyspace::merge`]. Errs as [`Transaction::put`], and with [`Error::InvalidArgument`]
    /// if the keyspace has no operator.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        keyspace.require_operator()?;
        self.write(keyspace, Kind::Merge, key.as_ref(), operand.as_ref())
    }

    /// Delete every key in `range`, in constant time; see [`Batch::delete_range`](crate::Batch::delete_range), also for errors.
    pub fn delete_range<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<()> {
        self.delete_within(keyspace, bounds_of(&range))
    }

    /// Delete every key that starts with `prefix`, in constant time; an empty one deletes all. Errs as
    /// [`Batch::delete_range`](crate::Batch::delete_range).
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_within(keyspace, bounds_of_prefix(prefix.as_ref()))
    }

    /// Note `range` as read without reading it: if another commit has written into it by then, this one's errs with
    /// [`Error::Conflict`], unless the range is again as it was (a row that was put and deleted, or a delete of no row, may have left no
    /// trace).
    pub fn watch_range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) {
        if self.superversion_with(keyspace).is_ok() {
            self.reads.saw_range(keyspace.id(), bounds_of(&range));
        }
    }

    /// Commit. One without writes has nothing to be checked: what it read was so at its snapshot, and it is Ok unless the database
    /// is closed.
    ///
    /// # Errors
    /// [`Error::Conflict`]: something it read was written since, or a keyspace that it read was dropped; nothing of it took
    /// effect. [`Error::KeyspaceDropped`], which is told first: one that it writes to was. Otherwise as [`Batch::commit`](crate::Batch::commit).
    pub fn commit(self) -> Result<()> {
        self.commit_costed(&mut OpCost::default())
    }

    /// [`Transaction::commit`], adding to `cost` what it took.
    pub fn commit_costed(self, cost: &mut OpCost) -> Result<()> {
        if self.ops.count() == 0 {
            // Everything it read is true at its snapshot: it commits there.
            return self.db.core().health.check_open();
        }
        self.reads.begin_commit();
        self.db.core().commit_work(Work::Transaction(&self.ops, &self.reads), self.durability, cost)
    }

    /// Let it go without any effect. The same as dropping it.
    pub fn rollback(self) {
        drop(self);
    }

    /// The number of the last operation that its snapshot sees.
    pub fn snapshot_seqno(&self) -> SeqNo {
        self.pin.seqno()
    }

    fn write(&mut self, keyspace: &Keyspace, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        limits::check_key(key)?;
        limits::check_value(value)?;
        keyspace.check_belongs_to(self.db.core());
        self.add(iter::once(Op { keyspace: keyspace.id(), kind, key, value }))
    }

    fn delete_within(&mut self, keyspace: &Keyspace, bounds: Bounds) -> Result<()> {
        keyspace.check_belongs_to(self.db.core());
        self.add(RangeDelete::of(bounds).ops(keyspace.id()))
    }

    /// Write `ops`: all of them or none.
    #[inline]
    fn add<'a>(&mut self, ops: impl Iterator<Item = Op<'a>> + Clone) -> Result<()> {
        let mut seqno = OWN.plus(self.ops.count());
        let bytes = ops.clone().map(|op| op.user_bytes()).sum();
        memory::probe(bytes, "a transaction's own copy of its writes")?;
        self.ops.push_all(ops.clone())?;
        // A get sees all of the writes: those between two scans become visible together.
        self.writer.begin_group(OWN.plus(self.scanned.load(Ordering::Relaxed)));
        for op in ops {
            apply(&mut self.writer.writes(), op, seqno);
            seqno = seqno.plus(1);
        }
        Ok(())
    }

    /// What the transaction reads `keyspace` through: what it pinned at its begin, or, for a keyspace that
    /// was created since, the present, of which its sequence number shows nothing. So a new keyspace is
    /// empty to it but for its own writes, and whatever others write there conflicts.
    ///
    /// Err once the database is closed, which that promises.
    fn superversion_with(&self, keyspace: &Keyspace) -> Result<Arc<SuperVersion>> {
        keyspace.check_belongs_to(self.db.core());
        self.db.core().health.check_open()?;
        let knows = |superversion: &SuperVersion| superversion.version.keyspace(keyspace.id()).is_some();
        if knows(&self.superversion) {
            return Ok(Arc::clone(&self.superversion));
        }
        let now = self.db.core().current.load_full();
        if knows(&now) { Ok(now) } else { Err(keyspace.gone()) }
    }

    fn scan(&self, keyspace: &Keyspace, bounds: Bounds) -> TransactionScan {
        let view = self.superversion_with(keyspace);
        // A keyspace that was gone before has nothing to be read, now or later.
        let bounds = if view.is_ok() { bounds } else { Bounds::nothing() };
        // Its own writes as they are now: later ones must not slip into a scan under way.
        let writes = self.ops.count();
        self.scanned.store(writes, Ordering::Relaxed);
        let view = view.and_then(|superversion| {
            let pin = Some(Arc::clone(&self.pin));
            let view = keyspace.view_of(superversion, self.pin.seqno(), pin)?;
            Ok(ScanView { own: Some((Arc::clone(&self.own), SeqNo(OWN.0 + writes))), ..view })
        });
        TransactionScan {
            scan: Scan::new(view, bounds.clone()),
            front: ScanRead::begin(&self.reads, keyspace.id()),
            back: None,
            reads: Arc::clone(&self.reads),
            keyspace: keyspace.id(),
            bounds,
        }
    }
}

/// Rows read by a transaction. What has been read so far, and no more, counts as read: from the range's
/// start to the last row yielded from the front, and likewise from the back; all of it once the scan
/// is exhausted.
///
/// A scan ends with its transaction: once the commit of one with writes has begun, however that ends, the next step errs with
/// [`Error::InvalidArgument`], since nobody checks what it would read.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = esker::Database::open(dir.path())?;
/// let map = db.keyspace("map", esker::KeyspaceOptions::default())?;
/// map.put("a", "1")?;
/// let mut transaction = db.begin()?;
/// let mut scan = transaction.iter(&map);
/// transaction.put(&map, "b", "2")?;
/// transaction.commit()?;
/// assert!(matches!(scan.next(), Some(Err(esker::Error::InvalidArgument { .. }))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TransactionScan {
    scan: Scan,
    reads: Arc<ReadSet>,
    keyspace: KeyspaceId,
    bounds: Bounds,
    /// What has been read from the front.
    front: ScanRead,
    /// And from the back, once anything has: a range of its own, so that the middle stays unread.
    back: Option<ScanRead>,
}

impl std::fmt::Debug for TransactionScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionScan")
            .field("keyspace", &self.keyspace)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

impl TransactionScan {
    /// What the scan has cost so far, a row included that was read and then refused, since the transaction had ended.
    pub fn cost(&mut self) -> OpCost {
        self.scan.cost()
    }

    /// Leave values out: see [`Scan::keys_only`]. Its rows count as read all the same.
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.scan = self.scan.keys_only();
        self
    }

    /// The next row of the scan from the front, or from the back, noted as read.
    fn step(&mut self, forward: bool) -> Option<Result<(Key, Value)>> {
        if self.scan.is_finished() {
            return None;
        }
        let row = if forward { self.scan.next() } else { self.scan.next_back() };
        let noted = match &row {
            Some(Ok((key, _))) => {
                let read = if forward {
                    &self.front
                } else {
                    self.back.get_or_insert_with(|| ScanRead::begin(&self.reads, self.keyspace))
                };
                read.read_to(&self.bounds, forward, key)
            }
            // Exhausted, or failed: count all of it.
            Some(Err(_)) | None => self.front.read_whole(&self.bounds),
        };
        match noted {
            Ok(()) => row,
            Err(error) => {
                self.scan.finish();
                Some(Err(error))
            }
        }
    }
}

impl Iterator for TransactionScan {
    type Item = Result<(Key, Value)>;
    fn next(&mut self) -> Option<Self::Item> {
        self.step(true)
    }
}

impl std::iter::FusedIterator for TransactionScan {}

impl DoubleEndedIterator for TransactionScan {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(false)
    }
}

impl Database {
    /// Begin a transaction to be committed by hand.
    ///
    /// # Errors
    /// [`Error::Closed`]. On a database opened for reading only it may read; its commit errs with [`Error::ReadOnly`] if it has writes.
    pub fn begin(&self) -> Result<Transaction> {
        Transaction::begin(self)
    }

    /// Run `body` in a transaction and commit it, trying again on a conflict, up to 256
    /// times. `body` may run several times: it must not have effects of its own. If it errs, the transaction is rolled
    /// back and the error handed on.
    ///
    /// From its fourth attempt on a call has priority over others, one call at a time. While another has it, a call waits before
    /// each of its first three attempts for 100 ms at most, and for the priority until another's takes longer than that: then it
    /// tries without. So a call may wait in `body` for what whoever calls holds elsewhere, a lock perhaps.
    ///
    /// # Errors
    /// [`Error::Conflict`] after the last attempt; otherwise as [`Transaction::commit`].
    pub fn transact<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.try_transact(body)
    }

    /// [`Database::transact`], adding to `cost` what commits and retries took.
    pub fn transact_costed<T>(
        &self,
        cost: &mut OpCost,
        body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        self.try_transact_costed(cost, body)
    }

    /// [`Database::transact`] for a `body` with errors of its own.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = esker::Database::open(dir.path())?;
    /// let seats = db.keyspace("seats", esker::KeyspaceOptions::default())?;
    /// let book = |seat: &str| {
    ///     db.try_transact(|tx| {
    ///         if tx.contains(&seats, seat)? {
    ///             return Err(format!("seat {seat} is taken").into());
    ///         }
    ///         Ok::<_, Box<dyn std::error::Error>>(tx.put(&seats, seat, "")?)
    ///     })
    /// };
    /// book("12A")?;
    /// assert_eq!(book("12A").unwrap_err().to_string(), "seat 12A is taken");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_transact<T, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.try_transact_costed(&mut OpCost::default(), body)
    }

    /// [`Database::try_transact`], adding to `cost` what commits and retries took.
    pub fn try_transact_costed<T, E: From<Error>>(
        &self,
        cost: &mut OpCost,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut attempts = 0;
        let mut priority = None;
        loop {
            attempts += 1;
            if attempts < PRIORITY_FROM {
                self.core().conflict_priority.give_way(&*self.core().env.scheduler);
            } else if priority.is_none() {
                priority = self.core().conflict_priority.take(&*self.core().env.scheduler);
            }
            let mut tx = Transaction::begin(self)?;
            let value = body(&mut tx)?;
            match tx.commit_costed(cost) {
                Err(Error::Conflict { .. }) if attempts < ATTEMPTS_MAX => {
                    cost.retries += 1;
                    self.core().metrics.count_conflict();
                }
                Err(Error::Conflict { .. }) => return Err(Error::Conflict { attempts }.into()),
                outcome => return Ok(outcome.map(|()| value)?),
            }
        }
    }
}

#[cfg(test)]
mod tests;
