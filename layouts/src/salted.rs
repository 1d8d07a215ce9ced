//! Salted keys: spread over buckets by a hash of chosen fields, read back in order.
//!
//! Keys that grow steadily, such as times, all go to one end of the key space: to one server, where
//! ranges are spread over servers. A salted table puts a bucket in front of the key. Which one is the
//! unsigned remainder of a fixed hash of the *chosen* fields, so that
//!
//! - rows that agree in those fields share a bucket, and a question that gives those fields reads one
//!   bucket instead of all ([`Rows::fan_out`] tells how many a scan reads);
//! - every other range is the ordered merge of all buckets, forward or in reverse. Limits count what the merge
//!   returns.
//!
//! # Epochs
//!
//! The number of buckets and the chosen fields belong to an *epoch*. [`rebucket`](SaltedTable::rebucket)
//! starts a new one: from then on rows are written in the newest epoch and removed from the older ones,
//! reads look in all, and [`move_rows`](SaltedTable::move_rows) carries the rest over, a bounded piece
//! at a time, beside readers and writers. An empty old epoch disappears.
//!
//! ```
//! use esker_layouts::kv::ScanOptions;
//! use esker_layouts::map::MapStore;
//! use esker_layouts::salted::{Salt, SaltedTable};
//! use esker_layouts::tuple::Space;
//!
//! let store = MapStore::new();
//! // Key: (second, source). Eight buckets by source: each source's points stay together.
//! let points: SaltedTable<_, (u64, String)> =
//!     SaltedTable::open(&store, &Space::new(&("points",)), &Salt::new(8, &[1]))?;
//! for second in 0..100 {
//!     points.put(&(second, format!("source {}", second % 10)), b"")?;
//! }
//! let view = points.view()?;
//! let newest = view.rows(&(), ScanOptions::new().reverse().limit(3))?;
//! assert_eq!(newest.fan_out(), 8);
//! let seconds: Vec<u64> = newest.map(|row| row.map(|(key, _)| key.0)).collect::<Result<_, _>>()?;
//! assert_eq!(seconds, [99, 98, 97]);
//!
//! points.rebucket(&Salt::new(32, &[1]))?;
//! while !points.move_rows(10)?.value.done {}
//! assert_eq!(points.view()?.rows(&(), ScanOptions::new())?.count(), 100);
//! # Ok::<(), esker_layouts::Error>(())
//! ```
//!
//! # Costs
//!
//! Every call reads the list of epochs: one get. A put is then blind, and one tombstone for each older
//! epoch; a get is one batched get. A scan is one scan per bucket it fans out to.
//!
//! # Invariants
//!
//! 1. A key lies in at most one epoch and there in the bucket of its fields.
//! 2. Whoever writes has read the list of epochs in the same transaction, so a change of the list
//!    conflicts with writers under way, and no row is put in an epoch that is not the newest.
//! 3. Epoch numbers are not reused.

mod epochs;
mod read;

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use crate::kv::{Costed, KvRead, KvTx, Needs, OrderedKv, ScanOptions};
use crate::scratch::with_buffer;
use crate::tall::check_length;
use crate::tuple::{Key, Space, pack};
use crate::{Error, OpCost, Result};

pub use epochs::{BUCKETS_MAX, Salt};
use epochs::{EPOCHS, EPOCHS_MAX, Epoch, Known, ROWS, save};
pub use read::{Rows, SaltedView};

const LAYOUT: &str = "salted";

/// A table of salted keys `K`. A handle; open as many as you like.
pub struct SaltedTable<S, K> {
    store: S,
    space: Space,
    /// Where the list of epochs lies.
    epochs: Vec<u8>,
    /// The list when the table was opened: as long as it stays, it need not be decoded again.
    known: Known,
    key: PhantomData<fn() -> K>,
}

impl<S, K> fmt::Debug for SaltedTable<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaltedTable").field("space", &self.space).finish_non_exhaustive()
    }
}

/// What a call of [`SaltedTable::move_rows`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// How many rows were carried to the newest epoch.
    pub rows: usize,
    /// Whether one epoch is left, so there is nothing more to move.
    pub done: bool,
}

/// The row of `key`, of an older epoch, has no place in the newest: its key would have `len` bytes of at most `max`.
#[cold]
fn stuck(key: &impl Key, len: usize, max: usize) -> Error {
    let why = format!(
        "in the newest epoch it has {len} bytes as a key and the store takes {max}; delete it, or rebucket to fewer \
         buckets, and move on"
    );
    Error::bad_input("row", &crate::error::show(&pack(key)), why)
}

impl<S: OrderedKv, K: Key> SaltedTable<S, K> {
    /// The table in `space`, created with `salt` if absent. An existing table keeps its own salt; see
    /// [`rebucket`](Self::rebucket) and [`salt`](Self::salt). Nothing else may write in `space`.
    ///
    /// [`Error::BadInput`] for no buckets, more than [`BUCKETS_MAX`] (1,024), or no fields;
    /// [`Error::Unsupported`] if the store lacks transactions. That keys have the fields is seen by the first put.
    pub fn open(store: S, space: &Space, salt: &Salt) -> Result<Self> {
        Needs { transactions: true, ..Needs::default() }.check(LAYOUT, store.caps())?;
        salt.check()?;
        let epochs = space.key(&(EPOCHS,));
        let known = store.update(|tx| {
            if tx.get(&epochs)?.is_none() {
                save(tx, &epochs, &[Epoch { number: 0, salt: salt.clone() }]);
            }
            Known::load(tx, &epochs)
        })?;
        Ok(SaltedTable { store, space: space.clone(), epochs, known: known.value, key: PhantomData })
    }

    /// The salt of new rows.
    pub fn salt(&self) -> Result<Salt> {
        Ok(self.known.now(&self.store.read()?, &self.epochs)?.newest().salt.clone())
    }

    /// Call `f` with the places of `key`, newest epoch first, until it says so. Each place lives for its call. Those
    /// that are too long for the store are among them: see [`fits`](Self::fits).
    fn each_place(
        &self,
        epochs: &epochs::Epochs,
        key: &K,
        mut f: impl FnMut(&[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        with_buffer(|packed| {
            key.pack_into(packed);
            with_buffer(|place| {
                for epoch in epochs.newest_first() {
                    let Some(bucket) = epoch.salt.bucket_of(packed)? else {
                        let fields = epoch.salt.fields();
                        let why = format!("the table is salted by fields {fields:?} counted from 0");
                        return Err(Error::bad_input("key", &crate::error::show(packed), why));
                    };
                    place.clear();
                    epoch.rows_into(&self.space, bucket, place);
                    place.extend_from_slice(packed);
                    if f(place)?.is_break() {
                        break;
                    }
                }
                Ok(())
            })
        })
    }

    /// Whether the store takes a key as long as `place`. Where it does not, no row lies: epochs put more or fewer bytes
    /// before a key, so a key may fit one alone.
    fn fits(&self, place: &[u8]) -> bool {
        place.len() <= self.store.caps().key_bytes_max
    }

    /// Refuse `key` if an epoch cannot place it, for what writes in several: before the first write.
    fn check_places(&self, epochs: &epochs::Epochs, key: &K) -> Result<()> {
        if epochs.oldest().is_some() {
            self.each_place(epochs, key, |_| Ok(ControlFlow::Continue(())))?;
        }
        Ok(())
    }

    /// Set the row of `key`. [`Error::BadInput`] if it has no field in one of the salted places, or is too long for the
    /// store; [`Error::Conflict`] after too many changes of the salt meanwhile.
    pub fn put(&self, key: &K, value: &[u8]) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.put_in(tx, key, value))?.cost)
    }

    /// [`put`](Self::put) in the caller's transaction.
    pub fn put_in(&self, tx: &mut impl KvTx, key: &K, value: &[u8]) -> Result<()> {
        let epochs = self.known.now(tx, &self.epochs)?;
        self.check_places(&epochs, key)?;
        let mut newest = true;
        self.each_place(&epochs, key, |place| {
            if newest {
                check_length(key, place.len(), self.store.caps().key_bytes_max)?;
                tx.put(place, value);
            } else if self.fits(place) {
                tx.delete(place);
            }
            newest = false;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Remove the row of `key`, if there is one. [`Error::BadInput`] if it has no field in one of the salted places.
    pub fn delete(&self, key: &K) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.delete_in(tx, key))?.cost)
    }

    /// [`delete`](Self::delete) in the caller's transaction.
    pub fn delete_in(&self, tx: &mut impl KvTx, key: &K) -> Result<()> {
        let epochs = self.known.now(tx, &self.epochs)?;
        self.check_places(&epochs, key)?;
        self.each_place(&epochs, key, |place| {
            if self.fits(place) {
                tx.delete(place);
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Write new rows with `salt` from now on. Rows that are there stay where they are until they are
    /// written or [moved](Self::move_rows). Tells whether anything changed: the salt in force is no
    /// change.
    ///
    /// [`Error::BadInput`] as for [`open`](Self::open), and while rows lie in eight epochs: each one makes reads dearer.
    pub fn rebucket(&self, salt: &Salt) -> Result<bool> {
        salt.check()?;
        let done = self.store.update(|tx| {
            let mut epochs = self.known.now(tx, &self.epochs)?.into_owned().into_oldest_first();
            let newest = epochs.last().map_or(0, |epoch| epoch.number);
            if epochs.last().is_some_and(|epoch| epoch.salt == *salt) {
                return Ok(false);
            }
            if epochs.len() >= EPOCHS_MAX {
                let why = format!("{EPOCHS_MAX} epochs hold rows; move their rows first");
                return Err(Error::bad_input("salt", &format!("{salt:?}"), why));
            }
            let number = newest.checked_add(1).ok_or_else(|| Error::no_next(LAYOUT, &self.epochs))?;
            epochs.push(Epoch { number, salt: salt.clone() });
            save(tx, &self.epochs, &epochs);
            Ok(true)
        })?;
        Ok(done.value)
    }

    /// Carry up to `limit` rows (at least one) of the oldest epoch to the newest, in one transaction, and
    /// drop the epoch once it is empty. Call it until it is done. Small limits conflict less with
    /// writers of the same rows.
    ///
    /// [`Error::BadInput`] for a row whose key is too long for the store with the bytes that the newest epoch puts before
    /// it, which it names. Such a row can be read and deleted where it is.
    pub fn move_rows(&self, limit: usize) -> Result<Costed<Moved>> {
        let limit = limit.max(1);
        self.store.update(|tx| {
            let epochs = self.known.now(tx, &self.epochs)?;
            let Some(oldest) = epochs.oldest() else { return Ok(Moved { rows: 0, done: true }) };
            let old = self.space.sub(&(ROWS, oldest.number));
            let rows: Vec<_> =
                tx.scan(old.under(&()), ScanOptions::new().limit(limit))?.collect::<Result<_>>()?;
            for (place, value) in &rows {
                let foreign = |error| Error::foreign(LAYOUT, place, error);
                let mut fields = old.fields(place).map_err(foreign)?;
                fields.field::<u64>().map_err(foreign)?;
                let key: K = crate::tuple::unpack(place.get(fields.position()..).unwrap_or_default())
                    .map_err(foreign)?;
                tx.delete(place);
                self.each_place(&epochs, &key, |newest| {
                    if !self.fits(newest) {
                        return Err(stuck(&key, newest.len(), self.store.caps().key_bytes_max));
                    }
                    tx.put(newest, value);
                    Ok(ControlFlow::Break(()))
                })?;
            }
            let mut left = epochs.into_owned().into_oldest_first();
            if rows.len() < limit {
                left.remove(0);
                save(tx, &self.epochs, &left);
            }
            Ok(Moved { rows: rows.len(), done: left.len() == 1 })
        })
    }

    /// The table at this moment.
    pub fn view(&self) -> Result<SaltedView<'_, S, K>> {
        self.view_in(self.store.read()?)
    }

    /// The table as the caller's snapshot or transaction has it: `view_in(&*tx)?`. Reads the list of epochs.
    pub fn view_in<R: KvRead>(&self, read: R) -> Result<SaltedView<'_, S, K, R>> {
        SaltedView::new(self, read)
    }
}

#[cfg(test)]
mod tests;
