//! Tall tables: many small rows, each under a composite key.
//!
//! A key is a tuple of typed fields, such as (game, user, day); a row is a value. What a wide table keeps
//! as columns of a row is here rows under a common prefix, so "who follows this game" is one scan of the
//! keys under `("chess",)` and "does this user" is one get. Rows are independent: there is no change of
//! all rows under a prefix but [`delete_under`](TallTable::delete_under), or a transaction of one's own.
//!
//! Put first what is asked for most: a scan serves any number of *leading* fields, given whole, and one
//! range in the field behind them. A key's fields delimit themselves, so user 12 never matches 121, and
//! the range of everything under user 12345 holds nothing of user 12346.
//!
//! ```
//! use esker_layouts::kv::ScanOptions;
//! use esker_layouts::map::MapStore;
//! use esker_layouts::tall::TallTable;
//! use esker_layouts::tuple::Space;
//!
//! let store = MapStore::new();
//! let mail: TallTable<_, (u64, u64, String)> = TallTable::open(&store, &Space::new(&("mail",)))?;
//! mail.put(&(12345, 20130101, "5fc38314".into()), b"Hi Lars, ...")?;
//! mail.put(&(12345, 20130102, "725aae5f".into()), b"Welcome, and ...")?;
//! mail.put(&(12346, 20130101, "cc6775b3".into()), b"To Whom It ...")?;
//!
//! let view = mail.view()?;
//! let of_a_day = view.rows(mail.keys().under(&(12345, 20130101)), ScanOptions::new())?;
//! let messages: Vec<_> = of_a_day.map(|row| row.map(|((_, _, id), _)| id)).collect::<Result<_, _>>()?;
//! assert_eq!(messages, ["5fc38314"]);
//! assert_eq!(view.cost().keys_read, 1);
//! # Ok::<(), esker_layouts::Error>(())
//! ```

use std::fmt;
use std::marker::PhantomData;

use crate::kv::{Bytes, Go, KeyRange, KvRead, KvTx, OrderedKv, ScanOptions, Write};
use crate::scratch::with_buffer;
use crate::tuple::{Fields, Key, Pack, Prefix, Space, pack};
use crate::{Error, OpCost, Result};

const LAYOUT: &str = "tall";

/// A table whose keys are the tuples `K`. A handle; open as many as you like.
pub struct TallTable<S, K> {
    store: S,
    keys: Space,
    key: PhantomData<fn() -> K>,
}

impl<S, K> fmt::Debug for TallTable<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TallTable").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Refuse the packed key `key` of a row, `len` bytes long in the store, if the store cannot hold it.
#[inline]
pub(crate) fn check_length(key: &impl Pack, len: usize, max: usize) -> Result<()> {
    if len <= max { Ok(()) } else { Err(too_long(key, len, max)) }
}

#[cold]
fn too_long(key: &impl Pack, len: usize, max: usize) -> Error {
    let why = format!("it has {len} bytes as a key and the store takes {max}; shorten its fields");
    Error::bad_input("key", &crate::error::show(&pack(key)), why)
}

impl<S: OrderedKv, K: Key> TallTable<S, K> {
    /// The table in `space`. Nothing else may write there. Needs nothing special of the store.
    pub fn open(store: S, space: &Space) -> Result<Self> {
        Ok(TallTable { store, keys: space.clone(), key: PhantomData })
    }

    /// The space of the keys, which makes the ranges for scans: `keys().under(&(first, second))`,
    /// `keys().between(…)`, `keys().starts_with(…)`. The fields must have the types that they have in
    /// `K`: an integer is never equal to a text. For derived keys [`under`](Self::under) sees to that.
    pub fn keys(&self) -> &Space {
        &self.keys
    }

    /// The keys that begin so, for scans: `table.under(&Mail::prefix_user("ann"))`.
    pub fn under(&self, prefix: &Prefix<K, impl Pack>) -> KeyRange {
        self.keys.under(prefix)
    }

    /// Call `f` with where the row of `key` lies.
    fn at<T>(&self, key: &K, f: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        with_buffer(|at| {
            self.keys.key_into(key, at);
            check_length(key, at.len(), self.store.caps().key_bytes_max)?;
            f(at)
        })
    }

    /// Set the row of `key`: one blind write.
    pub fn put(&self, key: &K, value: &[u8]) -> Result<OpCost> {
        self.at(key, |at| self.store.put(at, value))
    }

    /// [`put`](Self::put) in the caller's transaction.
    pub fn put_in(&self, tx: &mut impl KvTx, key: &K, value: &[u8]) -> Result<()> {
        self.at(key, |at| {
            tx.put(at, value);
            Ok(())
        })
    }

    /// Remove the row of `key`, if there is one: one blind write.
    pub fn delete(&self, key: &K) -> Result<OpCost> {
        self.at(key, |at| self.store.delete(at))
    }

    /// [`delete`](Self::delete) in the caller's transaction.
    pub fn delete_in(&self, tx: &mut impl KvTx, key: &K) -> Result<()> {
        self.at(key, |at| {
            tx.delete(at);
            Ok(())
        })
    }

    /// Remove every row whose key starts with the fields `fields`, as one range delete.
    pub fn delete_under(&self, fields: &impl Pack) -> Result<OpCost> {
        let range = self.keys.under(fields);
        self.store.write(|write| {
            write(Write::DeleteRange(&range));
            Ok(())
        })
    }

    /// [`delete_under`](Self::delete_under) in the caller's transaction.
    pub fn delete_under_in(&self, tx: &mut impl KvTx, fields: &impl Pack) {
        tx.delete_range(self.keys.under(fields));
    }

    /// The table at this moment.
    pub fn view(&self) -> Result<TallView<'_, S, K>> {
        Ok(self.view_in(self.store.read()?))
    }

    /// The table as the caller's snapshot or transaction has it: `view_in(&*tx)`.
    ///
    /// ```
    /// use esker_layouts::kv::OrderedKv;
    /// use esker_layouts::map::MapStore;
    /// use esker_layouts::tall::TallTable;
    /// use esker_layouts::tuple::Space;
    ///
    /// let store = MapStore::new();
    /// let plays: TallTable<_, (String,)> = TallTable::open(&store, &Space::root())?;
    /// let play = |game: &str| store.update(|tx| {
    ///     let game = (game.to_owned(),);
    ///     let times = plays.view_in(&*tx).get(&game)?.map_or(0, |value| value[0]);
    ///     plays.put_in(tx, &game, &[times + 1])
    /// });
    /// play("chess")?;
    /// play("chess")?;
    /// assert_eq!(plays.view()?.get(&("chess".into(),))?.as_deref(), Some(&[2][..]));
    /// # Ok::<(), esker_layouts::Error>(())
    /// ```
    pub fn view_in<R: KvRead>(&self, read: R) -> TallView<'_, S, K, R> {
        TallView { table: self, read }
    }
}

/// A table at one moment, or as a transaction sees it.
pub struct TallView<'t, S: OrderedKv + 't, K, R = <S as OrderedKv>::Read<'t>> {
    table: &'t TallTable<S, K>,
    read: R,
}

/// Rows of a page, and what is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<K> {
    /// The rows.
    pub rows: Vec<(K, Bytes)>,
    /// The rest of the range if a limit ended the page. There may be no row in it.
    pub rest: Option<KeyRange>,
}

impl<S: OrderedKv, K, R> std::fmt::Debug for TallView<'_, S, K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TallView").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<S: OrderedKv, K: Key, R: KvRead> TallView<'_, S, K, R> {
    /// The row of `key`: one get.
    pub fn get(&self, key: &K) -> Result<Option<Bytes>> {
        self.table.at(key, |at| self.read.get(at))
    }

    /// Whether there is a row of `key`: one get without the value.
    pub fn exists(&self, key: &K) -> Result<bool> {
        self.table.at(key, |at| self.read.contains(at))
    }

    /// The rows in `range`, which [`TallTable::keys`] makes, in the order of the keys or against it. Limits count
    /// the rows returned; in bytes their keys as they are stored, the space's prefix with them, and their values.
    pub fn rows(
        &self,
        range: KeyRange,
        options: ScanOptions,
    ) -> Result<impl Iterator<Item = Result<(K, Bytes)>>> {
        let keys = &self.table.keys;
        let decode = |(key, value): (Bytes, Bytes)| match keys.unpack(&key) {
            Ok(fields) => Ok((fields, value)),
            Err(error) => Err(Error::foreign(LAYOUT, &key, error)),
        };
        Ok(self.read.scan(range, options)?.map(move |row| row.and_then(decode)))
    }

    /// Lend the rows in `range` to `visit`, in key order: the fields of the key, to be read as far as they
    /// are wanted, and the value. Keeps nothing and copies nothing; see [`KvRead::visit`].
    ///
    /// ```
    /// use esker_layouts::kv::Go;
    /// use esker_layouts::map::MapStore;
    /// use esker_layouts::tall::TallTable;
    /// use esker_layouts::tuple::Space;
    ///
    /// let store = MapStore::new();
    /// let plays: TallTable<_, (String, String)> = TallTable::open(&store, &Space::root())?;
    /// plays.put(&("chess".into(), "ann".into()), b"3")?;
    /// plays.put(&("chess".into(), "bob".into()), b"1")?;
    /// let mut longest = 0;
    /// plays.view()?.visit(plays.keys().under(&("chess",)), |fields, _| {
    ///     let _game = fields.text()?;
    ///     longest = longest.max(fields.text()?.len());
    ///     Ok(Go::On)
    /// })?;
    /// assert_eq!(longest, 3);
    /// # Ok::<(), esker_layouts::Error>(())
    /// ```
    pub fn visit(
        &self,
        range: KeyRange,
        mut visit: impl FnMut(&mut Fields<'_>, &[u8]) -> Result<Go>,
    ) -> Result<()> {
        let keys = &self.table.keys;
        let prefix = keys.prefix();
        // What lies between two keys of the table is the table's: no row need be asked.
        let is_ours = range.start.starts_with(prefix)
            && range.end.as_ref().is_some_and(|end| end.starts_with(prefix));
        self.read.visit(range, |key, value| {
            let foreign = |error| Error::foreign(LAYOUT, key, error);
            let mut fields = if is_ours {
                Fields::starting_at(key, prefix.len())
            } else {
                keys.fields(key).map_err(foreign)?
            };
            visit(&mut fields, value).map_err(|error| match error {
                Error::Key(error) => foreign(error),
                other => other,
            })
        })
    }

    /// [`visit`](Self::visit) the rows whose keys start with the fields `fields`, given whole: lends the fields
    /// behind those.
    ///
    /// ```
    /// use esker_layouts::kv::Go;
    /// use esker_layouts::map::MapStore;
    /// use esker_layouts::tall::TallTable;
    /// use esker_layouts::tuple::Space;
    ///
    /// let store = MapStore::new();
    /// let plays: TallTable<_, (String, String)> = TallTable::open(&store, &Space::root())?;
    /// plays.put(&("chess".into(), "ann".into()), b"3")?;
    /// plays.put(&("go".into(), "bob".into()), b"1")?;
    /// let mut players = Vec::new();
    /// plays.view()?.visit_under(&("chess",), |fields, _| {
    ///     players.push(fields.text()?.into_owned());
    ///     Ok(Go::On)
    /// })?;
    /// assert_eq!(players, ["ann"]);
    /// # Ok::<(), esker_layouts::Error>(())
    /// ```
    pub fn visit_under(
        &self,
        fields: &impl Pack,
        mut visit: impl FnMut(&mut Fields<'_>, &[u8]) -> Result<Go>,
    ) -> Result<()> {
        let range = self.table.keys.under(fields);
        let start = range.start.len();
        self.read.visit(range, |key, value| {
            // Every key in the range begins with its start.
            visit(&mut Fields::starting_at(key, start.min(key.len())), value).map_err(|error| match error {
                Error::Key(error) => Error::foreign(LAYOUT, key, error),
                other => other,
            })
        })
    }

    /// The first rows in `range` up to the limits of `options`, which count as in [`rows`](Self::rows), and the
    /// range that is left behind them.
    /// [`Error::BadInput`] for a limit of 0.
    pub fn page(&self, range: KeyRange, options: ScanOptions) -> Result<Page<K>> {
        if options.limit == Some(0) || options.bytes_limit == Some(0) {
            return Err(Error::bad_input("limit", "0", "a page has at least one row; give 1 or more"));
        }
        let (mut rows, mut bytes) = (Vec::new(), 0u64);
        let mut rest = range.clone();
        for row in self.rows(range, options)? {
            let (key, value) = row?;
            let packed = self.table.keys.key(&key);
            bytes = bytes.saturating_add((packed.len() + value.len()) as u64);
            rows.push((key, value));
            if options.reverse {
                rest.end = Some(packed);
            } else {
                rest.start = [packed.as_slice(), &[0]].concat();
            }
        }
        let limited =
            options.limit == Some(rows.len()) || options.bytes_limit.is_some_and(|limit| bytes >= limit);
        Ok(Page { rows, rest: Some(rest).filter(|_| limited) })
    }

    /// What the reads of this view have cost so far.
    pub fn cost(&self) -> OpCost {
        self.read.cost()
    }
}

#[cfg(test)]
mod tests;
