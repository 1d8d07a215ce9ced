//! Reads of all buckets as one table.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, RangeBounds};

use super::epochs::{Epoch, Epochs};
use super::{LAYOUT, SaltedTable};
use crate::kv::{Bytes, KeyRange, KvRead, Limits, OrderedKv, ScanOptions};
use crate::ordered_merge::OrderedMerge;
use crate::tuple::{Key, Pack, Space, pack, split_packed, unpack};
use crate::{Error, OpCost, Result};

/// A salted table at one moment, or as a transaction sees it.
pub struct SaltedView<'t, S: OrderedKv + 't, K, R = <S as OrderedKv>::Read<'t>> {
    table: &'t SaltedTable<S, K>,
    read: R,
    epochs: Cow<'t, Epochs>,
}

impl<S: OrderedKv, K, R> std::fmt::Debug for SaltedView<'_, S, K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SaltedView").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<'t, S: OrderedKv, K: Key, R: KvRead> SaltedView<'t, S, K, R> {
    pub(super) fn new(table: &'t SaltedTable<S, K>, read: R) -> Result<Self> {
        let epochs = table.known.now(&read, &table.epochs)?;
        Ok(SaltedView { table, read, epochs })
    }

    /// The row of `key`: one batched get of its place in each epoch. A key that is too long for the store has none.
    pub fn get(&self, key: &K) -> Result<Option<Bytes>> {
        if self.epochs.oldest().is_none() {
            let mut found = None;
            self.table.each_place(&self.epochs, key, |place| {
                if self.table.fits(place) {
                    found = self.read.get(place)?;
                }
                Ok(ControlFlow::Break(()))
            })?;
            return Ok(found);
        }
        let mut places = Vec::new();
        self.table.each_place(&self.epochs, key, |place| {
            if self.table.fits(place) {
                places.push(place.to_vec());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let places: Vec<&[u8]> = places.iter().map(Vec::as_slice).collect();
        Ok(self.read.get_many(&places)?.into_iter().flatten().next())
    }

    /// The rows whose keys start with `fields`, given whole, in the order of the keys or against it.
    /// Reads one bucket per epoch if all chosen fields are among `fields`, otherwise all.
    ///
    /// Limits count the rows returned; in bytes the encoded fields of their keys, without space and bucket, and
    /// their values.
    pub fn rows(&self, fields: &impl Pack, options: ScanOptions) -> Result<Rows<'_, R, K>> {
        let given = pack(fields);
        self.merged(&Space::root().under(fields), &split_packed(&given)?, options)
    }

    /// The rows between two keys. Reads one bucket per epoch if the keys agree in their first fields and
    /// all chosen fields are among those. Limits count as in [`rows`](Self::rows).
    pub fn between(&self, bounds: impl RangeBounds<K>, options: ScanOptions) -> Result<Rows<'_, R, K>> {
        let packed = |bound: Bound<&K>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => pack(key),
            Bound::Unbounded => Vec::new(),
        };
        let (start, end) = (packed(bounds.start_bound()), packed(bounds.end_bound()));
        let shared: Vec<&[u8]> = split_packed(&start)?
            .into_iter()
            .zip(split_packed(&end)?)
            .take_while(|(a, b)| a == b)
            .map(|(field, _)| field)
            .collect();
        self.merged(&Space::root().between(bounds), &shared, options)
    }

    /// The merge of what `range`, a range of keys without their buckets, holds in every bucket that may
    /// hold keys with the first fields `given`.
    fn merged(&self, range: &KeyRange, given: &[&[u8]], options: ScanOptions) -> Result<Rows<'_, R, K>> {
        let mut sources = Vec::new();
        for epoch in self.epochs.newest_first() {
            let buckets = match epoch.salt.bucket(given) {
                Some(bucket) => bucket..bucket + 1,
                None => 0..epoch.salt.buckets(),
            };
            for bucket in buckets {
                sources.push(self.bucket(epoch, bucket, range, options.unlimited())?);
            }
        }
        Ok(Rows {
            fan_out: sources.len(),
            merge: OrderedMerge::new(sources, options.reverse),
            left: Limits::new(options),
            key: PhantomData,
        })
    }

    fn bucket(
        &self,
        epoch: &Epoch,
        bucket: u32,
        range: &KeyRange,
        options: ScanOptions,
    ) -> Result<BucketScan<R::Scan<'_>>> {
        let mut rows = Vec::with_capacity(self.table.space.prefix().len() + 64);
        epoch.rows_into(&self.table.space, bucket, &mut rows);
        let prefix = rows.len();
        let end = [rows.as_slice(), range.end.as_deref().unwrap_or(&[0xFF])].concat();
        rows.extend_from_slice(&range.start);
        let range = KeyRange { start: rows, end: Some(end) };
        Ok(BucketScan { prefix, scan: self.read.scan(range, options)? })
    }

    /// What the reads of this view have cost so far.
    pub fn cost(&self) -> OpCost {
        self.read.cost()
    }
}

/// The rows of one bucket, by their keys without the bucket.
struct BucketScan<I> {
    prefix: usize,
    scan: I,
}

impl<I: Iterator<Item = Result<(Bytes, Bytes)>>> Iterator for BucketScan<I> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.scan.next()?;
        Some(row.map(|(mut place, value)| {
            // A slice would share it with one that is dropped right away.
            let prefix = self.prefix.min(place.len());
            bytes::Buf::advance(&mut place, prefix);
            (place, value)
        }))
    }
}

/// Rows of a salted table in the order of their keys.
pub struct Rows<'a, R: KvRead + 'a, K> {
    fan_out: usize,
    merge: OrderedMerge<Bytes, Bytes, BucketScan<R::Scan<'a>>>,
    left: Limits,
    key: PhantomData<fn() -> K>,
}

impl<R: KvRead, K> std::fmt::Debug for Rows<'_, R, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("fan_out", &self.fan_out).finish_non_exhaustive()
    }
}

impl<R: KvRead, K> Rows<'_, R, K> {
    /// How many buckets are read.
    pub fn fan_out(&self) -> usize {
        self.fan_out
    }
}

impl<R: KvRead, K: Key> Iterator for Rows<'_, R, K> {
    type Item = Result<(K, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.reached() {
            return None;
        }
        let next = self.merge.next()?;
        Some(next.and_then(|row| {
            self.left.take(&row);
            let key = unpack(&row.0).map_err(|error| Error::foreign(LAYOUT, &row.0, error))?;
            Ok((key, row.1))
        }))
    }
}
