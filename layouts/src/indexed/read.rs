//! Lookups.

use std::ops::RangeBounds;

use super::maintain::open_unique;
use super::records::{Record, Slot};
use super::{Index, IndexedTable, LAYOUT, State};
use crate::kv::{Bytes, KeyRange, KvRead, Limits, OrderedKv, ScanOptions};
use crate::tuple::{Fields, Key, KeyError, KeyErrorKind, Pack, Unpack, pack, split, unpack};
use crate::{Error, OpCost, Result};

/// Hits that a lookup makes room for at once.
const HITS_EXPECTED: usize = 16;

/// Rows that a lookup which compares entries with their rows holds at a time.
const ROWS_AT_ONCE: usize = 256;

/// An entry found by a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit<K> {
    /// The row's primary key.
    pub key: K,
    /// What the entry includes of the row.
    pub included: Bytes,
    /// The entry's key, which holds the fields, and where they lie in it.
    at: Bytes,
    start: usize,
    end: usize,
}

impl<K> Hit<K> {
    /// The packed fields.
    pub(super) fn packed(&self) -> &[u8] {
        self.at.get(self.start..self.end).unwrap_or_default()
    }

    /// How long the entry is, its key and its value, in an index that is not unique: the value is then what it
    /// includes.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.at.len() + self.included.len()
    }

    /// The entry's fields as a tuple type; [`Error::Key`] if they are of another.
    pub fn fields<F: Unpack>(&self) -> Result<F> {
        Ok(unpack(self.packed())?)
    }
}

/// A table with its indexes at one moment, or as a transaction sees them.
pub struct IndexedView<'t, S: OrderedKv + 't, K, R = <S as OrderedKv>::Read<'t>> {
    pub(super) table: &'t IndexedTable<S, K>,
    pub(super) read: R,
    pub(super) slots: Vec<Slot<'t, K>>,
}

impl<S: OrderedKv, K, R> std::fmt::Debug for IndexedView<'_, S, K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexedView").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<'t, S: OrderedKv, K: Key, R: KvRead> IndexedView<'t, S, K, R> {
    pub(super) fn new(table: &'t IndexedTable<S, K>, read: R) -> Result<Self> {
        let slots = table.slots(&read)?;
        Ok(IndexedView { table, read, slots })
    }

    /// The row of a primary key: one get.
    pub fn get(&self, key: &K) -> Result<Option<Bytes>> {
        self.table.at(key, |at, _| self.read.get(at))
    }

    /// The state of the index `name`.
    pub fn state(&self, name: &str) -> Result<State> {
        Ok(self.slot(name)?.record.state)
    }

    pub(super) fn slot(&self, name: &str) -> Result<&Slot<'t, K>> {
        let slot = self.slots.iter().find(|slot| slot.record.name == name);
        slot.ok_or_else(|| Error::bad_input("index", name, "the table was opened without it; add it there"))
    }

    fn ready(&self, name: &str) -> Result<&Slot<'t, K>> {
        let slot = self.slot(name)?;
        match slot.record.state {
            State::Ready => Ok(slot),
            state => Err(Error::IndexNotReady { index: name.to_owned(), state: state.name() }),
        }
    }

    /// The entries of the index `name` whose first fields are `fields`, in the order of the index and
    /// then of the rows' keys: one scan, and one batched get of the rows for each 256 entries if they are
    /// [verified on read](super::Index::verified_on_read); one more each time stale entries leave room within
    /// the limits. [`Error::IndexNotReady`] unless the index is ready.
    ///
    /// Limits count the entries returned, never stale ones; in bytes their keys and values as they are stored,
    /// the space's prefix with them. `keys_only` has no effect.
    pub fn lookup(&self, name: &str, fields: &impl Pack, options: ScanOptions) -> Result<Vec<Hit<K>>> {
        let slot = self.ready(name)?;
        self.hits(slot, slot.record.entries(&self.table.space).under(fields), options)
    }

    /// The entries between two bounds of whole first fields; otherwise as [`lookup`](Self::lookup).
    pub fn between<F: Pack>(
        &self,
        name: &str,
        bounds: impl RangeBounds<F>,
        options: ScanOptions,
    ) -> Result<Vec<Hit<K>>> {
        let slot = self.ready(name)?;
        self.hits(slot, slot.record.entries(&self.table.space).between(bounds), options)
    }

    /// The rows of the entries that [`lookup`](Self::lookup) finds, by one batched get more unless they are
    /// verified on read. Limits count the entries, not the rows: by bytes of entries, however long the rows are.
    pub fn rows(&self, name: &str, fields: &impl Pack, options: ScanOptions) -> Result<Vec<(K, Bytes)>> {
        let slot = self.ready(name)?;
        let range = slot.record.entries(&self.table.space).under(fields);
        if slot.record.verified_on_read {
            let mut rows = Vec::new();
            self.live(slot, range, options, |hit, row| rows.push((hit.key, row)))?;
            return Ok(rows);
        }
        let hits = self.hits(slot, range, options)?;
        let rows = self.rows_of(&hits)?;
        let present = hits.into_iter().zip(rows).filter_map(|(hit, row)| Some((hit.key, row?)));
        Ok(present.collect())
    }

    fn rows_of(&self, hits: &[Hit<K>]) -> Result<Vec<Option<Bytes>>> {
        let places: Vec<Vec<u8>> =
            hits.iter().map(|hit| self.table.row_key(&hit.key)).collect::<Result<_>>()?;
        let places: Vec<&[u8]> = places.iter().map(Vec::as_slice).collect();
        self.read.get_many(&places)
    }

    /// Hand to `keep` the entries in `range` whose rows have them, with the rows, up to the limits, which count these
    /// entries alone. One scan, and batched gets of up to [`ROWS_AT_ONCE`] rows, as many as the limits leave room
    /// for: again for as long as entries were stale.
    fn live(
        &self,
        slot: &Slot<'t, K>,
        range: KeyRange,
        options: ScanOptions,
        mut keep: impl FnMut(Hit<K>, Bytes),
    ) -> Result<()> {
        let start = slot.record.entries(&self.table.space).prefix().len();
        let all = ScanOptions { keys_only: false, ..options.unlimited() };
        let mut entries = self.read.scan(range, all)?;
        let mut left = Limits::new(options);
        let mut is_last = false;
        while !is_last && !left.reached() {
            let mut piece = left.clone();
            let mut hits = Vec::new();
            while !piece.reached() && hits.len() < ROWS_AT_ONCE {
                let Some(entry) = entries.next().transpose()? else {
                    is_last = true;
                    break;
                };
                piece.take(&entry);
                hits.push(IndexedTable::<S, K>::hit(&slot.record, start, entry)?);
            }
            if hits.is_empty() {
                break;
            }
            let rows = self.rows_of(&hits)?;
            for (hit, row) in hits.into_iter().zip(rows) {
                if let Some(row) = row
                    && slot.index.has(&hit, &row)?
                {
                    left.take_bytes(hit.entry_bytes());
                    keep(hit, row);
                }
            }
        }
        Ok(())
    }

    /// The entries of a compound index whose fields *after the first* start with `fields`, for every
    /// first field: one seek and one scan per distinct first field, so worth it where those are few.
    pub fn skip_scan(&self, name: &str, fields: &impl Pack) -> Result<Vec<Hit<K>>> {
        let slot = self.ready(name)?;
        let entries = slot.record.entries(&self.table.space);
        let wanted = pack(fields);
        let mut rest = entries.under(&());
        let mut hits = Vec::new();
        let one = ScanOptions::new().limit(1).keys_only();
        loop {
            let Some(next) = self.read.scan(rest.clone(), one)?.next() else { return Ok(hits) };
            let (at, _) = next?;
            let behind = at.get(entries.prefix().len()..).unwrap_or_default();
            let parts = split(behind).map_err(|error| Error::foreign(LAYOUT, &at, error))?;
            let first = [entries.prefix(), parts.first().copied().unwrap_or_default()].concat();
            let start = [first.as_slice(), &wanted].concat();
            let end = Some([start.as_slice(), &[0xFF]].concat());
            hits.extend(self.hits(slot, KeyRange { start, end }, ScanOptions::new())?);
            rest.start = [first.as_slice(), &[0xFF]].concat();
        }
    }

    pub(super) fn hits(
        &self,
        slot: &Slot<'t, K>,
        range: KeyRange,
        options: ScanOptions,
    ) -> Result<Vec<Hit<K>>> {
        if slot.record.verified_on_read {
            let mut hits = Vec::new();
            self.live(slot, range, options, |hit, _| hits.push(hit))?;
            return Ok(hits);
        }
        // The keys of unique entries' rows lie in the values.
        let options = ScanOptions { keys_only: false, ..options };
        let start = slot.record.entries(&self.table.space).prefix().len();
        let most = options.limit.unwrap_or(HITS_EXPECTED).min(HITS_EXPECTED);
        let mut hits = Vec::with_capacity(most);
        for entry in self.read.scan(range, options)? {
            hits.push(IndexedTable::<S, K>::hit(&slot.record, start, entry?)?);
        }
        Ok(hits)
    }

    /// The rows that share values of the unique index `name`, by value: what has to be changed before
    /// the index becomes ready. Nothing unless the index is building or pending.
    pub fn violations(&self, name: &str) -> Result<Vec<Hit<K>>> {
        let slot = self.slot(name)?;
        let space = slot.record.violations(&self.table.space);
        let start = space.prefix().len();
        let mut rows = Vec::new();
        for row in self.read.scan(space.under(&()), ScanOptions::new())? {
            let (at, included) = row?;
            let foreign = |error: KeyError| Error::foreign(LAYOUT, &at, error);
            let parts = split(at.get(start..).unwrap_or_default()).map_err(foreign)?;
            let short = KeyError { at: at.len(), kind: KeyErrorKind::Truncated };
            let last = parts.last().copied().ok_or(short).map_err(foreign)?;
            let (row,): (Vec<u8>,) = unpack(last).map_err(foreign)?;
            let key = unpack(&row).map_err(foreign)?;
            let end = at.len() - last.len();
            rows.push(Hit { key, included, at, start, end });
        }
        Ok(rows)
    }

    /// What the reads of this view have cost so far.
    pub fn cost(&self) -> OpCost {
        self.read.cost()
    }
}

impl<S: OrderedKv, K: Key> IndexedTable<S, K> {
    /// The entry stored as a key and a value; its fields start at byte `start` of the key.
    pub(super) fn hit(record: &Record, start: usize, (at, value): (Bytes, Bytes)) -> Result<Hit<K>> {
        let foreign = |error: KeyError| Error::foreign(LAYOUT, &at, error);
        let start = start.min(at.len());
        let mut key = Fields::starting_at(&at, start);
        for _ in 0..record.fields {
            key.skip().map_err(foreign)?;
        }
        let end = key.position();
        if key.at_end() {
            let (row, included) = open_unique(&at, &value)?;
            return Ok(Hit {
                key: unpack(&row).map_err(foreign)?,
                included: included.into(),
                at,
                start,
                end,
            });
        }
        let row = key.bytes().and_then(|row| key.finish().map(|()| row)).map_err(foreign)?;
        Ok(Hit { key: unpack(&row).map_err(foreign)?, included: value, at, start, end })
    }
}

impl<K> Index<K> {
    /// Whether `row` has the entry `hit`.
    pub(super) fn has(&self, hit: &Hit<K>, row: &[u8]) -> Result<bool> {
        Ok(self
            .entries(&hit.key, row)?
            .get(hit.packed())
            .is_some_and(|included| *included == *hit.included))
    }
}
