//! What a layout asks of an ordered store.
//!
//! [`OrderedKv`] is a store: it opens snapshots ([`KvRead`]) and runs transactions ([`KvTx`]). A
//! transaction reads one snapshot plus its own writes and commits all or nothing; if another commit
//! changed anything it read, it runs again. What a store offers beyond that is in its [`Caps`]; a layout
//! says what it [`Needs`] and refuses at open.
//!
//! # Costs
//!
//! Stores count, layouts do not. One call is one get, one batched get, one scan, or one commit that
//! writes; buffering a write inside a transaction is none. `keys_read` counts keys handed to the caller,
//! so an absent key costs a call and no key. A transaction that is tried again pays for every try.
//!
//! ```
//! use esker_layouts::kv::{KvRead, KvTx, OrderedKv, ScanOptions};
//! use esker_layouts::map::MapStore;
//! use esker_layouts::tuple::KeyRange;
//!
//! let store = MapStore::new();
//! let done = store.update(|tx| {
//!     tx.put(b"b", b"2");
//!     tx.put(b"a", b"1");
//!     Ok(())
//! })?;
//! assert_eq!((done.cost.calls, done.cost.keys_written), (1, 2));
//!
//! let read = store.read()?;
//! let newest = read.scan(KeyRange::all(), ScanOptions::new().reverse().limit(1))?.next();
//! assert_eq!(newest.transpose()?.map(|(key, _)| key), Some("b".into()));
//! assert_eq!(read.cost().keys_read, 1);
//! # Ok::<(), esker_layouts::Error>(())
//! ```

mod caps;
mod forward;
mod merge;

pub use bytes::Bytes;
pub use caps::{Caps, Needs};
pub use merge::{Merge, MergeOps};

pub use crate::tuple::KeyRange;
use crate::{Error, OpCost, Result};

/// A key and its value. Both share memory with the store where it can.
pub type Row = (Bytes, Bytes);

/// A value with what it cost to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costed<T> {
    /// The result.
    pub value: T,
    /// What the store counted, over all tries.
    pub cost: OpCost,
}

impl<T> Costed<T> {
    /// The same cost with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Costed<U> {
        Costed { value: f(self.value), cost: self.cost }
    }
}

/// An ordered key-value store. Handles are shared between threads. A reference to a store is one, and so is an
/// [`Arc`](std::sync::Arc): a layout's handle owns what it was opened with.
pub trait OrderedKv: Send + Sync {
    /// A snapshot.
    type Read<'a>: KvRead
    where
        Self: 'a;
    /// A transaction. Without a bound, unlike [`Read`](Self::Read): closures take it with any lifetime, for which a
    /// reference to a store would otherwise have to live for ever.
    ///
    /// A store that is generic or has a lifetime may therefore not say `where Self: 'a` here, nor have transactions that
    /// hold `&'a Self`. Let them hold what the store itself refers to, or an [`Arc`](std::sync::Arc) of it; or implement
    /// this trait for the owner without a lifetime: a reference to it is a store, too.
    type Tx<'a>: KvTx;

    /// What the store offers.
    fn caps(&self) -> &Caps;

    /// A stable view of everything committed so far.
    fn read(&self) -> Result<Self::Read<'_>>;

    /// Run `f` as one transaction and commit it. `f` runs again, on a fresh snapshot, after a conflict;
    /// it must not keep state from a try that did not commit. An error of `f` drops its writes.
    ///
    /// After too many conflicts (256 tries of the engine's, 1,000 of the map's): [`Error::Conflict`].
    fn update<T>(&self, f: impl FnMut(&mut Self::Tx<'_>) -> Result<T>) -> Result<Costed<T>>;

    /// Make writes that depend on no read, all or none. `writes` hands them over in order; it may run again,
    /// and its error drops them all. As [`update`](Self::update) with writes only, for less where a store
    /// can: it neither reads a snapshot nor keeps writes readable, and nothing conflicts with it.
    ///
    /// ```
    /// use esker_layouts::kv::{OrderedKv, Write};
    /// use esker_layouts::map::MapStore;
    ///
    /// let store = MapStore::new();
    /// let cost = store.write(|write| {
    ///     write(Write::Put(b"a", b"1"));
    ///     write(Write::Delete(b"b"));
    ///     Ok(())
    /// })?;
    /// assert_eq!((cost.calls, cost.keys_written, cost.tombstones_written), (1, 1, 1));
    /// assert_eq!(store.get(b"a")?.value.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), esker_layouts::Error>(())
    /// ```
    fn write(&self, mut writes: impl FnMut(&mut dyn FnMut(Write<'_>)) -> Result<()>) -> Result<OpCost> {
        Ok(self.update(|tx| writes(&mut |write| write.apply(tx)))?.cost)
    }

    /// Set the value of `key`: a [`write`](Self::write) of one put.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<OpCost> {
        self.write(|write| {
            write(Write::Put(key, value));
            Ok(())
        })
    }

    /// Remove `key`: a [`write`](Self::write) of one delete.
    fn delete(&self, key: &[u8]) -> Result<OpCost> {
        self.write(|write| {
            write(Write::Delete(key));
            Ok(())
        })
    }

    /// The value of `key` as it is now: a [`read`](Self::read) of one get.
    fn get(&self, key: &[u8]) -> Result<Costed<Option<Bytes>>> {
        let read = self.read()?;
        let value = read.get(key)?;
        Ok(Costed { value, cost: read.cost() })
    }

    /// Whether `key` exists now: a [`read`](Self::read) of one [`contains`](KvRead::contains).
    fn contains(&self, key: &[u8]) -> Result<Costed<bool>> {
        let read = self.read()?;
        let value = read.contains(key)?;
        Ok(Costed { value, cost: read.cost() })
    }
}

/// A write that depends on no read; see [`KvTx`] for each.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// Set the value of a key.
    Put(&'a [u8], &'a [u8]),
    /// Remove a key.
    Delete(&'a [u8]),
    /// Remove every key in a range.
    DeleteRange(&'a KeyRange),
    /// Combine with the value that a key has.
    Merge(&'a [u8], &'a Merge),
}

impl Write<'_> {
    /// Buffer it in a transaction.
    pub fn apply(self, tx: &mut impl KvTx) {
        match self {
            Write::Put(key, value) => tx.put(key, value),
            Write::Delete(key) => tx.delete(key),
            Write::DeleteRange(range) => tx.delete_range(range.clone()),
            Write::Merge(key, merge) => tx.merge(key, merge.clone()),
        }
    }
}

/// Reads of one snapshot, or of a transaction including its own writes. A reference to either is one, too.
pub trait KvRead {
    /// Rows in key order, or against it.
    type Scan<'a>: Iterator<Item = Result<Row>>
    where
        Self: 'a;

    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// Whether `key` exists, without reading its value.
    fn contains(&self, key: &[u8]) -> Result<bool>;

    /// The values of `keys`, in their order, in one call.
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>>;

    /// The rows in `range`. A scan that was dropped early has cost only what it read.
    fn scan(&self, range: KeyRange, options: ScanOptions) -> Result<Self::Scan<'_>>;

    /// Lend the rows in `range`, in key order, to `visit` one by one: key and value, which live for the
    /// call only. Where nothing is kept of most rows, this is several times faster than
    /// [`scan`](Self::scan), which copies each. `visit` says where to [`Go`] from there.
    fn visit(&self, range: KeyRange, mut visit: impl FnMut(&[u8], &[u8]) -> Result<Go>) -> Result<()> {
        let mut rest = range;
        'from: loop {
            for row in self.scan(rest.clone(), ScanOptions::new())? {
                let (key, value) = row?;
                match visit(&key, &value)? {
                    Go::On => {}
                    Go::Stop => return Ok(()),
                    Go::To(next) => {
                        let behind = KeyRange::point(&key).end.unwrap_or_default();
                        rest.start = next.max(behind);
                        continue 'from;
                    }
                }
            }
            return Ok(());
        }
    }

    /// What the reads so far have cost.
    fn cost(&self) -> OpCost;
}

/// Writes of a transaction, buffered until it commits.
pub trait KvTx: KvRead {
    /// Set the value of `key`.
    fn put(&mut self, key: &[u8], value: &[u8]);
    /// Remove `key`. Removing an absent key is allowed and writes a tombstone all the same.
    fn delete(&mut self, key: &[u8]);
    /// Remove every key in `range`, as one write.
    fn delete_range(&mut self, range: KeyRange);
    /// Combine `merge` with the value that `key` has when the transaction commits, without reading it:
    /// two transactions that merge into one key do not conflict.
    fn merge(&mut self, key: &[u8], merge: Merge);
    /// Commit only if `key` is as `expected` then; else [`Error::Unexpected`].
    /// Speaks of the committed state, not of this transaction's own writes. A key that has come to be so only
    /// since the transaction began may be refused, too.
    fn expect(&mut self, key: &[u8], expected: Expect);
    /// Conflict with every later commit that writes in `range`, as if it had been scanned, unless the range is again as it was.
    fn watch_range(&mut self, range: KeyRange);
}

/// What a conditional write expects of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key has this value.
    Value(Bytes),
}

impl Expect {
    /// Err unless the value `found` at `key` is the expected one.
    pub(crate) fn check(&self, key: &[u8], found: Option<&Bytes>) -> Result<()> {
        let (holds, expected) = match self {
            Expect::Absent => (found.is_none(), "absent"),
            Expect::Value(value) => (found == Some(value), "at the expected value"),
        };
        if holds { Ok(()) } else { Err(Error::Unexpected { key: esker::printable(key), expected }) }
    }
}

/// Where a visit goes from the row it was lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Go {
    /// To the next row.
    On,
    /// To the first row at or after this key, but never back: a seek, for leaving many rows out.
    To(Vec<u8>),
    /// Nowhere: it has seen enough.
    Stop,
}

/// How a scan goes. Limits are exact in rows; a byte limit ends the scan after the row that reaches it,
/// so that a scan always makes progress. What a limited scan returns is a beginning of what it returns without
/// limits, in its direction, and it ends before that only at a limit that is reached.
///
/// A store's scan counts keys as they are stored. A layout's says what it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOptions {
    /// From the last key down.
    pub reverse: bool,
    /// Leave the values out (they come back empty and are not read).
    pub keys_only: bool,
    /// The most rows to return; with 0 none.
    pub limit: Option<usize>,
    /// Stop once the keys and values returned reach this many bytes; with 0 nothing is returned.
    pub bytes_limit: Option<u64>,
}

impl ScanOptions {
    /// Forward, whole rows, no limit.
    pub fn new() -> Self {
        ScanOptions::default()
    }
    /// From the last key down.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }
    /// Leave the values out.
    #[must_use]
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
        self
    }
    /// At most `rows` rows.
    #[must_use]
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = Some(rows);
        self
    }
    /// Stop once `bytes` bytes of keys and values are reached.
    #[must_use]
    pub fn bytes_limit(mut self, bytes: u64) -> Self {
        self.bytes_limit = Some(bytes);
        self
    }

    /// The same without limits: for the scans under one that keeps the limits itself. A scan counts the keys as
    /// they are stored, and every row; whoever returns other keys, merges scans or leaves rows out would
    /// take the end of a limit for the end of the range.
    pub(crate) fn unlimited(self) -> Self {
        ScanOptions { limit: None, bytes_limit: None, ..self }
    }
}

/// What a scan may still return.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    rows: usize,
    bytes: u64,
}

impl Limits {
    pub(crate) fn new(options: ScanOptions) -> Self {
        Limits { rows: options.limit.unwrap_or(usize::MAX), bytes: options.bytes_limit.unwrap_or(u64::MAX) }
    }

    pub(crate) fn reached(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }

    pub(crate) fn take(&mut self, row: &Row) {
        self.take_bytes(row.0.len() + row.1.len());
    }

    /// A row of `bytes` was taken.
    pub(crate) fn take_bytes(&mut self, bytes: usize) {
        self.rows -= 1;
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }

    /// No more rows.
    pub(crate) fn end(&mut self) {
        self.rows = 0;
    }
}
