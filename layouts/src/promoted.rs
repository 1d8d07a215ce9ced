//! Keys with an evenly spread field moved to the front.
//!
//! Rows whose keys begin with what grows, such as the time, are all written at one end of the key space; in a
//! store that is split by key, on one server. A table with a *promoted* field stores (source, time) for the
//! key (time, source): writes spread over the sources, and everything of one source lies together. The price
//! is paid by ranges over the main field: one scan per promoted value, merged back into the order of the
//! keys, and [`Rows::fan_out`] tells how many that were. Where the values are many and the ranges common, use
//! [`salted`](crate::salted), whose fan-out is chosen.
//!
//! ```
//! use esker_layouts::kv::ScanOptions;
//! use esker_layouts::map::MapStore;
//! use esker_layouts::promoted::PromotedTable;
//! use esker_layouts::tuple::Space;
//!
//! let store = MapStore::new();
//! // Keys (time, source); field 1 is promoted.
//! let series: PromotedTable<_, (u64, String)> =
//!     PromotedTable::open(&store, &Space::new(&("temperature",)), 1)?;
//! for (time, source) in [(1, "attic"), (2, "cellar"), (3, "attic"), (9, "cellar")] {
//!     series.put(&(time, source.to_owned()), b"21.5")?;
//! }
//! let view = series.view()?;
//! let rows = view.between((2,)..(9,), ScanOptions::new())?;
//! assert_eq!(rows.fan_out(), 2);
//! let times: Vec<u64> = rows.map(|row| row.map(|((time, _), _)| time)).collect::<Result<_, _>>()?;
//! assert_eq!(times, [2, 3]);
//! assert_eq!(view.of(&"attic", ScanOptions::new())?.fan_out(), 1);
//! # Ok::<(), esker_layouts::Error>(())
//! ```
//!
//! # Costs
//!
//! Writes are blind: one put or delete. A range over the main field finds the promoted values by one seek
//! each, in one call where the store can visit rows, and then starts one scan each, which read one row ahead of
//! what they return.
//!
//! # Invariants
//!
//! 1. A row lies under (promoted field, the other fields in their order).
//! 2. Which field is promoted is given once, when the table is created.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use bytes::{Buf as _, BytesMut};

use crate::kv::{Bytes, Go, KeyRange, KvRead, KvTx, Limits, Needs, OrderedKv, ScanOptions};
use crate::ordered_merge::OrderedMerge;
use crate::scratch::{Scratch, with_buffer};
use crate::tall::check_length;
use crate::tuple::{Element, Fields, Key, KeyError, Pack, PackField, Space, pack, split_packed, unpack};
use crate::{Error, OpCost, Result};

const LAYOUT: &str = "promoted";
/// The first field behind the space: which field is promoted.
const FORM: u64 = 0;
/// The first field behind the space: the rows.
const ROWS: u64 = 1;

/// A table of keys `K` with a promoted field. A handle; open as many as you like.
pub struct PromotedTable<S, K> {
    store: S,
    rows: Space,
    place: usize,
    key: PhantomData<fn() -> K>,
}

impl<S, K> fmt::Debug for PromotedTable<S, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromotedTable").field("place", &self.place).finish_non_exhaustive()
    }
}

impl<S: OrderedKv, K: Key> PromotedTable<S, K> {
    /// The table in `space` with the field at `place`, counted from 0, promoted; created if absent. Nothing
    /// else may write there.
    ///
    /// [`Error::BadInput`] if the table was made with another field promoted; [`Error::Unsupported`] if the
    /// store lacks transactions. That keys have such a field is not looked at here: without, each put, delete and get errs with
    /// [`Error::BadInput`].
    pub fn open(store: S, space: &Space, place: u32) -> Result<Self> {
        Needs { transactions: true, ..Needs::default() }.check(LAYOUT, store.caps())?;
        let form = space.key(&(FORM,));
        let stored = store.update(|tx| {
            if let Some(stored) = tx.get(&form)? {
                return unpack(&stored).map_err(|error| Error::foreign(LAYOUT, &form, error));
            }
            tx.put(&form, &pack(&(place,)));
            Ok((place,))
        })?;
        if stored.value != (place,) {
            let why =
                format!("the table was made with field {} promoted; open it with that", stored.value.0);
            return Err(Error::bad_input("promoted field", &place.to_string(), why));
        }
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        Ok(PromotedTable { store, rows: space.sub(&(ROWS,)), place, key: PhantomData })
    }

    /// Call `f` with where the row of `key` lies.
    fn at<T>(&self, key: &K, f: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        with_buffer(|at| {
            at.extend_from_slice(self.rows.prefix());
            let start = at.len();
            let (mut fields, mut from, mut promoted) = (0, start, None);
            key.pack_each(at, &mut |packed| {
                if fields == self.place {
                    promoted = Some((from, packed.len()));
                }
                fields += 1;
                from = packed.len();
            })?;
            let Some((from, to)) = promoted else {
                let why = format!("it has {fields} fields, and field {} from 0 is promoted", self.place);
                let packed = at.get(start..).unwrap_or_default();
                return Err(Error::bad_input("key", &crate::error::show(packed), why));
            };
            if let Some(head) = at.get_mut(start..to) {
                head.rotate_right(to - from);
            }
            check_length(key, at.len(), self.store.caps().key_bytes_max)?;
            f(at)
        })
    }

    /// Where in `stored`, the key of a row behind the table's prefix, the promoted field, its first `promoted` bytes, has its
    /// place: behind the fields that were before it in the key that was given. Fields behind that are still to be checked.
    #[inline]
    fn place_in(&self, stored: &[u8], promoted: usize) -> Result<usize, KeyError> {
        let mut fields = Fields::starting_at(stored, promoted.min(stored.len()));
        (0..self.place).try_for_each(|_| fields.skip())?;
        Ok(fields.position())
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

    /// The table at this moment.
    pub fn view(&self) -> Result<PromotedView<'_, S, K>> {
        Ok(self.view_in(self.store.read()?))
    }

    /// The table as the caller's snapshot or transaction has it: `view_in(&*tx)`.
    pub fn view_in<R: KvRead>(&self, read: R) -> PromotedView<'_, S, K, R> {
        PromotedView { table: self, read }
    }

    /// Where, among the rows of the promoted value `value`, the key that begins with `fields` would divide
    /// them: before everything that begins so, or `behind` it.
    #[inline]
    fn cut(&self, value: &[u8], fields: &[&[u8]], behind: bool) -> Vec<u8> {
        let (head, rest) = fields.split_at(self.place.min(fields.len()));
        let prefix = self.rows.prefix();
        let fields_len = fields.iter().map(|field| field.len()).sum::<usize>();
        let mut at = Vec::with_capacity(prefix.len() + value.len() + fields_len + 1);
        at.extend_from_slice(prefix);
        at.extend_from_slice(value);
        for field in head {
            at.extend_from_slice(field);
        }
        let past = match rest.split_first() {
            None => behind,
            Some((own, rest)) if *own == value => {
                for field in rest {
                    at.extend_from_slice(field);
                }
                behind
            }
            // All rows with this head lie on one side of the cut.
            Some((own, _)) => *own > value,
        };
        if past {
            at.push(0xFF);
        }
        at
    }
}

/// A table with a promoted field at one moment, or as a transaction sees it.
pub struct PromotedView<'t, S: OrderedKv + 't, K, R = <S as OrderedKv>::Read<'t>> {
    table: &'t PromotedTable<S, K>,
    read: R,
}

impl<S: OrderedKv, K, R> std::fmt::Debug for PromotedView<'_, S, K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromotedView").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<S: OrderedKv, K: Key, R: KvRead> PromotedView<'_, S, K, R> {
    /// The row of `key`: one get.
    pub fn get(&self, key: &K) -> Result<Option<Bytes>> {
        self.table.at(key, |at| self.read.get(at))
    }

    /// The rows between two keys or beginnings of keys, in the order of the keys or against it. An included
    /// bound brings in everything that begins so, an excluded one keeps all of it out. One seek and one scan
    /// per promoted value.
    ///
    /// Limits count the rows returned; in bytes the encoded fields of their keys, without the space, and their
    /// values.
    pub fn between<P: Pack>(
        &self,
        bounds: impl RangeBounds<P>,
        options: ScanOptions,
    ) -> Result<Rows<'_, S, K, R>> {
        self.merged(&self.values()?, &bounds, options)
    }

    /// The rows whose promoted field is `value` between two keys or beginnings of keys: one scan. Limits count as
    /// in [`between`](Self::between).
    pub fn between_of<V: PackField, P: Pack>(
        &self,
        value: &V,
        bounds: impl RangeBounds<P>,
        options: ScanOptions,
    ) -> Result<Rows<'_, S, K, R>> {
        self.merged(&[pack(&(value,))], &bounds, options)
    }

    /// All rows whose promoted field is `value`: one scan. Limits count as in [`between`](Self::between).
    pub fn of<V: PackField>(&self, value: &V, options: ScanOptions) -> Result<Rows<'_, S, K, R>> {
        self.between_of::<V, ()>(value, .., options)
    }

    /// The promoted values that have rows, encoded, in their order: one seek each and one more.
    fn values(&self) -> Result<Vec<Vec<u8>>> {
        let rows = &self.table.rows;
        let start = rows.prefix().len();
        let mut values: Vec<Vec<u8>> = Vec::new();
        self.read.visit(rows.under(&()), |at, _| {
            let mut fields = Fields::starting_at(at, start.min(at.len()));
            Element::unpack(&mut fields).map_err(|error| Error::foreign(LAYOUT, at, error))?;
            let behind = fields.position();
            values.push(at.get(start..behind).unwrap_or_default().to_vec());
            // Behind everything that begins with this value.
            Ok(Go::To([at.get(..behind).unwrap_or_default(), &[0xFF]].concat()))
        })?;
        Ok(values)
    }

    fn merged<P: Pack>(
        &self,
        values: &[Vec<u8>],
        bounds: &impl RangeBounds<P>,
        options: ScanOptions,
    ) -> Result<Rows<'_, S, K, R>> {
        let packed = |bound: Bound<&P>| match bound {
            Bound::Included(fields) => (pack(fields), true),
            Bound::Excluded(fields) => (pack(fields), false),
            Bound::Unbounded => (Vec::new(), true),
        };
        let ((start, from), (end, to)) = (packed(bounds.start_bound()), packed(bounds.end_bound()));
        let (first, last) = (split_packed(&start)?, split_packed(&end)?);
        let mut sources = Vec::with_capacity(values.len());
        for value in values {
            let start = self.table.cut(value, &first, !from);
            let range = KeyRange { start, end: Some(self.table.cut(value, &last, to)) };
            if !range.is_empty() {
                let scan = self.read.scan(range, options.unlimited())?;
                sources.push(ValueScan { table: self.table, promoted: value.len(), scan });
            }
        }
        let fan_out = sources.len();
        let source = match sources.pop_if(|_| fan_out == 1) {
            Some(only) => Source::One(only, Scratch::default()),
            None => Source::Merged(OrderedMerge::new(sources, options.reverse)),
        };
        Ok(Rows { fan_out, source, left: Limits::new(options), key: PhantomData })
    }

    /// What the reads of this view have cost so far.
    pub fn cost(&self) -> OpCost {
        self.read.cost()
    }
}

/// The rows of one promoted value.
struct ValueScan<'t, S, K, I> {
    table: &'t PromotedTable<S, K>,
    /// Bytes of the promoted value.
    promoted: usize,
    scan: I,
}

impl<S: OrderedKv, K: Key, I: Iterator<Item = Result<(Bytes, Bytes)>>> ValueScan<'_, S, K, I> {
    fn foreign(at: &[u8]) -> impl FnOnce(KeyError) -> Error {
        |error| Error::foreign(LAYOUT, at, error)
    }

    /// The next row, its key unpacked with the help of `packed`.
    fn decoded(&mut self, packed: &mut Vec<u8>) -> Result<Option<(K, Bytes)>> {
        let Some((at, value)) = self.scan.next().transpose()? else { return Ok(None) };
        let stored = at.get(self.table.rows.prefix().len()..).unwrap_or_default();
        let place = self.table.place_in(stored, self.promoted).map_err(Self::foreign(&at))?;
        let (head, behind) = stored.split_at(place.min(stored.len()));
        let (own, before) = head.split_at(self.promoted.min(head.len()));
        packed.clear();
        for part in [before, own, behind] {
            packed.extend_from_slice(part);
        }
        Ok(Some((unpack(packed).map_err(Self::foreign(&at))?, value)))
    }
}

/// By their packed keys.
impl<S: OrderedKv, K: Key, I: Iterator<Item = Result<(Bytes, Bytes)>>> Iterator for ValueScan<'_, S, K, I> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.scan.next()?;
        Some(row.and_then(|(at, value)| {
            let start = self.table.rows.prefix().len();
            // Nobody else has these bytes, unless the store keeps them: then they are copied.
            let mut key = BytesMut::from(at);
            let stored = key.get(start..).unwrap_or_default();
            let place = self.table.place_in(stored, self.promoted).map_err(Self::foreign(&key))?;
            if let Some(head) = key.get_mut(start..start + place) {
                head.rotate_left(self.promoted.min(place));
            }
            let mut key = key.freeze();
            key.advance(start.min(key.len()));
            Ok((key, value))
        }))
    }
}

/// Where the rows come from.
enum Source<'t, S: OrderedKv, K: Key, I: Iterator<Item = Result<(Bytes, Bytes)>>> {
    /// One value, whose rows lie in the order of their keys, and a buffer to turn them in.
    One(ValueScan<'t, S, K, I>, Scratch),
    Merged(OrderedMerge<Bytes, Bytes, ValueScan<'t, S, K, I>>),
}

/// Rows of a table with a promoted field in the order of their keys.
pub struct Rows<'a, S: OrderedKv, K: Key, R: KvRead + 'a> {
    fan_out: usize,
    source: Source<'a, S, K, R::Scan<'a>>,
    left: Limits,
    key: PhantomData<fn() -> K>,
}

impl<S: OrderedKv, K: Key, R: KvRead> std::fmt::Debug for Rows<'_, S, K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("fan_out", &self.fan_out).finish_non_exhaustive()
    }
}

impl<S: OrderedKv, K: Key, R: KvRead> Rows<'_, S, K, R> {
    /// How many promoted values are read.
    pub fn fan_out(&self) -> usize {
        self.fan_out
    }
}

impl<S: OrderedKv, K: Key, R: KvRead> Iterator for Rows<'_, S, K, R> {
    type Item = Result<(K, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.reached() {
            return None;
        }
        let row = match &mut self.source {
            Source::One(scan, packed) => scan.decoded(packed).inspect(|row| {
                let value = row.as_ref().map_or(0, |(_, value)| value.len());
                self.left.take_bytes(packed.len() + value);
            }),
            Source::Merged(merge) => merge.next().transpose().and_then(|row| {
                let Some((packed, value)) = row else { return Ok(None) };
                self.left.take_bytes(packed.len() + value.len());
                let key = unpack(&packed).map_err(|error| Error::foreign(LAYOUT, &packed, error))?;
                Ok(Some((key, value)))
            }),
        };
        if row.is_err() {
            self.left.end();
        }
        row.transpose()
    }
}

#[cfg(test)]
mod tests;
