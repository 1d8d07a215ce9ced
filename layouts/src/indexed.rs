//! Tables with secondary indexes that cannot disagree with them.
//!
//! A row lies under its primary key; an [`Index`] says which values it is found by besides. Both are
//! written in one transaction, so a lookup never shows a row that is not so, and never misses one.
//!
//! - [`Index::unique`]: one row per value; of writers that race for a value one wins and the others get
//!   [`Error::Duplicate`]. [`Index::multi`]: any number of rows.
//! - An entry may have several fields (a compound index): lookups give the first ones, or the ones after
//!   the first ([`skip_scan`](IndexedView::skip_scan)) at a seek per distinct first field.
//! - An entry may carry a copy of parts of the row (a covering index): a lookup then needs no second read.
//! - A row may have several entries in an index, or none.
//!
//! ```
//! use esker_layouts::indexed::{Entry, Index, IndexedTable};
//! use esker_layouts::kv::ScanOptions;
//! use esker_layouts::map::MapStore;
//! use esker_layouts::tuple::{Space, unpack};
//!
//! // Rows are (mail address, city, name).
//! let row = |row: &[u8]| unpack::<(String, String, String)>(row);
//! let by_mail = Index::unique("mail", 1, move |_: &(u64,), bytes| Ok(vec![Entry::new(&(row(bytes)?.0,))]));
//! let by_city = Index::multi("city", 1, move |_, bytes| {
//!     let (_, city, name) = row(bytes)?;
//!     Ok(vec![Entry::new(&(city,)).including(name.as_bytes())])
//! });
//! let store = MapStore::new();
//! let users = IndexedTable::open(&store, &Space::new(&("users",)), vec![by_mail, by_city])?;
//! let packed = |mail, city, name| esker_layouts::tuple::pack(&(mail, city, name));
//! users.put(&(1,), &packed("ann@x", "Oslo", "Ann"))?;
//! users.put(&(2,), &packed("bo@x", "Oslo", "Bo"))?;
//! assert!(users.put(&(3,), &packed("bo@x", "Rome", "Bo")).is_err());
//!
//! let view = users.view()?;
//! let names: Vec<_> = view.lookup("city", &("Oslo",), ScanOptions::new())?;
//! assert_eq!((names.len(), names[1].included.as_ref()), (2, &b"Bo"[..]));
//! # Ok::<(), esker_layouts::Error>(())
//! ```
//!
//! # States
//!
//! An index added to a table with rows starts [`Building`](State::Building): writers maintain it from
//! the start, and [`build`](IndexedTable::build) walks the table beside them in small transactions, each
//! of which may be repeated. Then it is [`Ready`](State::Ready), or, if a unique index met rows with one
//! value, [`UniquePending`](State::UniquePending): the rows are [listed](IndexedView::violations), new
//! violations are refused, and once every listed value has a single row the index becomes ready by
//! itself. Lookups want a ready index. A [disabled](IndexedTable::disable) index is not maintained, and
//! comes back by [`rebuild`](IndexedTable::rebuild).
//!
//! While a unique index is building, a new row is compared with the entries that exist: one that
//! duplicates a row the builder has not reached is accepted and listed later.
//!
//! # Costs
//!
//! A write reads the list of indexes (one scan) and the old row (one get), and touches only entries that
//! differ; each added entry of a unique index is one more get. A put into a table without indexes, or with
//! indexes [verified on read](Index::verified_on_read) only, does not read the old row; their lookups read the
//! rows of all entries they meet.
//!
//! # Invariants
//!
//! 1. In every state but disabled: each entry belongs to a row that has it, or had it if the index is
//!    verified on read; once built, each row has all its entries, but for the rows listed as violations. [`verify`](IndexedView::verify) compares.
//! 2. Writers read the list of indexes in their transaction, so a change of state conflicts with writers
//!    under way; a handle that does not know an index that has to be maintained cannot write, nor one that was
//!    opened with an index since [dropped](IndexedTable::drop_index), whether or not there is a new one of that
//!    name: an index is told by its number, and no number is given twice.
//! 3. A value of null is never unique: entries with a null field, ascending or descending, do not exclude each other. A
//!    null within a field that is a tuple is a part of a value.

mod build;
mod definition;
mod maintain;
mod read;
mod records;
mod verify;

use std::fmt;

use crate::kv::{Bytes, KvRead, KvTx, Needs, OrderedKv};
use crate::scratch::with_buffer;
use crate::tall::check_length;
use crate::tuple::{Key, Space};
use crate::{Error, OpCost, Result};

pub use build::Built;
use definition::Entries;
pub use definition::{Entry, Index, State};
use maintain::Turn;
pub use read::{Hit, IndexedView};
use records::Slot;
pub use verify::{Problem, Report};

const LAYOUT: &str = "indexed";

/// A table of rows under primary keys `K`, with indexes. A handle; open as many as you like, all with
/// the same indexes.
pub struct IndexedTable<S, K> {
    store: S,
    space: Space,
    rows: Space,
    indexes: Vec<Index<K>>,
    /// The numbers of the indexes, in the same order, as they were when the table was opened.
    numbers: Vec<u64>,
}

impl<S, K> fmt::Debug for IndexedTable<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedTable").field("indexes", &self.indexes).finish_non_exhaustive()
    }
}

impl<S: OrderedKv, K: Key> IndexedTable<S, K> {
    /// The table in `space` with `indexes`. An index that is new to a table without rows is ready at
    /// once, otherwise it has to be [built](Self::build). Nothing else may write in `space`.
    ///
    /// [`Error::BadInput`] if a name is empty or repeated, if a unique index is to be verified on read, if an index was made with another
    /// definition (kind, number of fields, version), or if the table has an index that is not named and not
    /// disabled; [`Error::Unsupported`] if the store lacks transactions.
    pub fn open(store: S, space: &Space, indexes: Vec<Index<K>>) -> Result<Self> {
        Needs { transactions: true, ..Needs::default() }.check(LAYOUT, store.caps())?;
        for (i, index) in indexes.iter().enumerate() {
            if index.unique && index.verified_on_read {
                let why = "a unique index is kept in step by writers, who read it anyway; leave out verified_on_read";
                return Err(Error::bad_input("index", index.name(), why));
            }
            let repeated = indexes.iter().take(i).any(|other| other.name() == index.name());
            if index.name().is_empty() || repeated {
                return Err(Error::bad_input("index", index.name(), "give every index a name of its own"));
            }
        }
        let rows = space.sub(&(records::ROWS,));
        let mut table = IndexedTable { store, space: space.clone(), rows, indexes, numbers: Vec::new() };
        table.numbers = table.store.update(|tx| table.register(tx))?.value;
        Ok(table)
    }

    fn rows(&self) -> &Space {
        &self.rows
    }

    fn row_key(&self, key: &K) -> Result<Vec<u8>> {
        let bytes = self.rows.key(key);
        check_length(key, bytes.len(), self.store.caps().key_bytes_max)?;
        Ok(bytes)
    }

    /// Call `f` with where the row of `key` lies, and the packed key.
    fn at<T>(&self, key: &K, f: impl FnOnce(&[u8], &[u8]) -> Result<T>) -> Result<T> {
        with_buffer(|at| {
            self.rows.key_into(key, at);
            check_length(key, at.len(), self.store.caps().key_bytes_max)?;
            f(at, at.get(self.rows.prefix().len()..).unwrap_or_default())
        })
    }

    /// Set the row of `key`, with its entries. [`Error::Duplicate`] if another row has a value that is to
    /// be unique; [`Error::BadInput`], as of every write, where [`view`](Self::view) gives it.
    pub fn put(&self, key: &K, row: &[u8]) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.put_in(tx, key, row))?.cost)
    }

    /// [`put`](Self::put) in the caller's transaction. A row that is refused leaves nothing there: whoever passes
    /// over [`Error::Duplicate`], say, may go on with the transaction. After an error of the store it must be
    /// given up, by returning the error.
    pub fn put_in(&self, tx: &mut impl KvTx, key: &K, row: &[u8]) -> Result<()> {
        let slots = self.maintained(tx)?;
        if !slots.iter().all(|slot| slot.record.verified_on_read) {
            return self.change(tx, key, Some(row), slots).map(|_| ());
        }
        self.at(key, |at, packed| {
            // Nobody need know which entries the old row had.
            let mut turns = Vec::with_capacity(slots.len());
            for slot in slots {
                turns.push(Turn { before: Entries::default(), after: slot.index.entries(key, row)?, slot });
            }
            self.write(tx, at, packed, Some(row), turns)
        })
    }

    /// The indexes that writers keep up.
    fn maintained(&self, tx: &mut impl KvTx) -> Result<Vec<Slot<'_, K>>> {
        let mut slots = self.slots(tx)?;
        slots.retain(|slot| slot.record.state != State::Disabled);
        Ok(slots)
    }

    /// Set the row of `key` if there is none: [`Error::Unexpected`] if there is.
    pub fn insert(&self, key: &K, row: &[u8]) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.insert_in(tx, key, row))?.cost)
    }

    /// [`insert`](Self::insert) in the caller's transaction; a row that is refused leaves nothing there.
    pub fn insert_in(&self, tx: &mut impl KvTx, key: &K, row: &[u8]) -> Result<()> {
        let at = self.row_key(key)?;
        if tx.contains(&at)? {
            return Err(Error::Unexpected { key: esker::printable(&at), expected: "absent" });
        }
        self.put_in(tx, key, row)
    }

    /// Remove the row of `key` with its entries; tells whether there was one.
    pub fn delete(&self, key: &K) -> Result<crate::kv::Costed<bool>> {
        self.store.update(|tx| self.delete_in(tx, key))
    }

    /// [`delete`](Self::delete) in the caller's transaction.
    pub fn delete_in(&self, tx: &mut impl KvTx, key: &K) -> Result<bool> {
        let slots = self.maintained(tx)?;
        self.change(tx, key, None, slots)
    }

    /// Set or remove a row with all that follows; whether there was one before.
    fn change(
        &self,
        tx: &mut impl KvTx,
        key: &K,
        row: Option<&[u8]>,
        slots: Vec<Slot<'_, K>>,
    ) -> Result<bool> {
        self.at(key, |at, packed| {
            let old: Option<Bytes> = tx.get(at)?;
            if row.is_none() && old.is_none() {
                return Ok(false);
            }
            let mut turns = Vec::with_capacity(slots.len());
            for slot in slots {
                // A row that the index's function refuses, older than the index, has had no entries.
                let before = old.as_deref().and_then(|row| slot.index.entries(key, row).ok());
                let after = row.map(|row| slot.index.entries(key, row)).transpose()?;
                let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
                turns.push(Turn { slot, before, after });
            }
            self.write(tx, at, packed, row, turns)?;
            Ok(old.is_some())
        })
    }

    /// Write the row at `at`, whose packed key is `packed`, or remove it, and turn its entries. What may be
    /// refused is looked at before the first write.
    fn write(
        &self,
        tx: &mut impl KvTx,
        at: &[u8],
        packed: &[u8],
        row: Option<&[u8]>,
        mut turns: Vec<Turn<'_, K>>,
    ) -> Result<()> {
        for turn in &turns {
            self.admit(tx, turn, packed)?;
        }
        match row {
            Some(row) => tx.put(at, row),
            None => tx.delete(at),
        }
        turns.iter_mut().try_for_each(|turn| self.maintain(tx, turn, packed))
    }

    /// The table at this moment. [`Error::BadInput`] if it has an index that this handle does not know and that is
    /// not disabled, or has one no more that this handle was opened with.
    pub fn view(&self) -> Result<IndexedView<'_, S, K>> {
        self.view_in(self.store.read()?)
    }

    /// The table as the caller's snapshot or transaction has it: `view_in(&*tx)?`. Reads the list of indexes.
    /// Errors are those of [`view`](Self::view).
    pub fn view_in<R: KvRead>(&self, read: R) -> Result<IndexedView<'_, S, K, R>> {
        IndexedView::new(self, read)
    }
}

#[cfg(test)]
mod tests;
