//! Rows and fields read back, in both modes.

use std::marker::PhantomData;

use super::{Field, LAYOUT, Row, RowMode, Table, schema};
use crate::kv::{Bytes, Go, KeyRange, KvRead, OrderedKv, ScanOptions};
use crate::scratch::with_buffer;
use crate::tuple::{Fields, Key, KeyError, Pack, Space, UnpackField, pack, split_packed, unpack};
use crate::{Error, OpCost, Result};

/// A table at one moment, or as a transaction sees it.
pub struct TableView<'t, S: OrderedKv + 't, K, R, In = <S as OrderedKv>::Read<'t>> {
    table: &'t Table<S, K, R>,
    read: In,
}

impl<S: OrderedKv, K, R, In> std::fmt::Debug for TableView<'_, S, K, R, In> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableView").field("table", &self.table).finish_non_exhaustive()
    }
}

impl<'t, S: OrderedKv, K: Key, R: Row, In: KvRead> TableView<'t, S, K, R, In> {
    pub(super) fn new(table: &'t Table<S, K, R>, read: In) -> Self {
        TableView { table, read }
    }

    /// The row of `key`: one get if packed, one scan of its cells otherwise.
    pub fn get(&self, key: &K) -> Result<Option<R>> {
        Ok(self.table.load(&self.read, key)?.map(|(_, row)| row))
    }

    /// Whether there is a row of `key`: one get without the value.
    pub fn exists(&self, key: &K) -> Result<bool> {
        // Of cells, the first: a row is all there or not at all.
        self.table.at(key, |at| self.read.contains(at))
    }

    /// One field of the row of `key`, `None` if there is no such row. Reads the whole row if packed, or if it
    /// is of an older version, which goes through [`Row::upgrade`] as in [`get`](Self::get); otherwise one
    /// batched get of the row's version and the field. [`Error::Schema`] if the row is of a newer version.
    pub fn field<T: UnpackField>(&self, key: &K, field: Field<R, T>) -> Result<Option<T>> {
        self.table.at(key, |at| self.field_at(key, at, field))
    }

    fn field_at<T: UnpackField>(&self, key: &K, at: &[u8], field: Field<R, T>) -> Result<Option<T>> {
        let foreign = |error: KeyError| Error::foreign(LAYOUT, at, error);
        let place = usize::try_from(field.place).unwrap_or(usize::MAX);
        let field_of = |row: &R| -> Result<Option<T>> {
            let packed = pack(row);
            let encoded = split_packed(&packed)?.get(place).copied().unwrap_or_default();
            Ok(Some(unpack::<(T,)>(encoded).map_err(foreign)?.0))
        };
        match self.table.mode {
            RowMode::Packed => {
                let Some(value) = self.read.get(at)? else { return Ok(None) };
                let (version, fields) = schema::open(at, &value)?;
                // The row of another version may have fewer fields than are to be skipped, or others.
                if version != R::VERSION {
                    return field_of(&schema::decode::<R>(at, version, fields)?);
                }
                let mut fields = Fields::new(fields);
                for _ in 0..place {
                    fields.skip().map_err(foreign)?;
                }
                fields.field().map(Some).map_err(foreign)
            }
            RowMode::Cells => {
                let found = with_buffer(|cell| {
                    cell.extend_from_slice(at);
                    (field.place,).pack_into(cell);
                    self.read.get_many(&[at, cell])
                })?;
                let mut found = found.into_iter();
                let Some(header) = found.next().flatten() else { return Ok(None) };
                if schema::open(at, &header)?.0 != R::VERSION {
                    return self.get(key)?.map_or(Ok(None), |row| field_of(&row));
                }
                let encoded = found.next().flatten().ok_or_else(|| schema::incomplete(at))?;
                Ok(Some(unpack::<(T,)>(&encoded).map_err(foreign)?.0))
            }
        }
    }

    /// The rows in `range`, which [`Table::keys`] and [`Table::under`] make, in the order of the keys or
    /// against it. Limits count the rows returned, whole; in bytes all keys and values that a row is stored as, the
    /// space's prefix with each key. `keys_only` has no effect: a row is its values.
    pub fn rows(&self, range: KeyRange, options: ScanOptions) -> Result<Rows<In::Scan<'_>, K, R>> {
        // A packed row is one key; cells are gathered here, so only here can rows be counted.
        let scan = self.read.scan(range, ScanOptions { keys_only: false, ..options.unlimited() })?;
        Ok(Rows {
            scan,
            space: self.table.rows.clone(),
            mode: self.table.mode,
            next: None,
            left: options.limit.unwrap_or(usize::MAX),
            bytes_left: options.bytes_limit.unwrap_or(u64::MAX),
            of: PhantomData,
        })
    }

    /// What the reads of this view have cost so far.
    pub fn cost(&self) -> OpCost {
        self.read.cost()
    }
}

impl<S: OrderedKv, K: Key, R: Row> Table<S, K, R> {
    /// The row of `key` with the version under which it lies.
    pub(super) fn load(&self, read: &impl KvRead, key: &K) -> Result<Option<(u64, R)>> {
        self.at(key, |at| match self.mode {
            RowMode::Packed => {
                let Some(value) = read.get(at)? else { return Ok(None) };
                let (version, fields) = schema::open(at, &value)?;
                Ok(Some((version, schema::decode(at, version, fields)?)))
            }
            RowMode::Cells => Self::load_cells(read, at),
        })
    }

    /// The row whose cells begin with `at`.
    fn load_cells(read: &impl KvRead, at: &[u8]) -> Result<Option<(u64, R)>> {
        let range = KeyRange { start: at.to_vec(), end: Some([at, &[0xFF]].concat()) };
        with_buffer(|fields| {
            let mut gathered = Gathered { version: None, next: 0 };
            read.visit(range, |key, value| {
                gathered.take(at, key, value, fields)?;
                Ok(Go::On)
            })?;
            let row = gathered.version.map(|version| Ok((version, schema::decode(at, version, fields)?)));
            row.transpose()
        })
    }
}

/// The cells of a row as they come, forward.
struct Gathered {
    /// From the first cell.
    version: Option<u64>,
    /// The place of the next field.
    next: u32,
}

impl Gathered {
    /// Take the cell `key` of the row at `at`; its field goes behind the others in `fields`.
    fn take(&mut self, at: &[u8], key: &[u8], value: &[u8], fields: &mut Vec<u8>) -> Result<()> {
        if self.version.is_none() {
            if key != at {
                return Err(schema::incomplete(at));
            }
            self.version = Some(schema::open(at, value)?.0);
            return Ok(());
        }
        let mut place = Fields::starting_at(key, at.len().min(key.len()));
        if place.field::<u32>().ok() != Some(self.next) || place.finish().is_err() {
            return Err(schema::incomplete(key));
        }
        self.next += 1;
        fields.extend_from_slice(value);
        Ok(())
    }
}

/// The row whose cells, forward, are `cells`.
fn gather<R: Row>(at: &[u8], cells: &[(Bytes, Bytes)]) -> Result<R> {
    let (mut gathered, mut fields) = (Gathered { version: None, next: 0 }, Vec::new());
    cells.iter().try_for_each(|(key, value)| gathered.take(at, key, value, &mut fields))?;
    schema::decode(at, gathered.version.ok_or_else(|| schema::incomplete(at))?, &fields)
}

/// Rows of a table.
pub struct Rows<I, K, R> {
    scan: I,
    space: Space,
    mode: RowMode,
    /// The first entry of the row after the last.
    next: Option<(Bytes, Bytes)>,
    left: usize,
    bytes_left: u64,
    of: PhantomData<fn() -> (K, R)>,
}

impl<I, K, R> std::fmt::Debug for Rows<I, K, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("space", &self.space).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl<I: Iterator<Item = Result<(Bytes, Bytes)>>, K: Key, R: Row> Rows<I, K, R> {
    /// The key of the row that the entry at `at` belongs to, and how long it is.
    fn row_of(&self, at: &[u8]) -> Result<(K, usize)> {
        let read = || {
            let mut fields = self.space.fields(at)?;
            let key = K::unpack_from(&mut fields)?;
            if self.mode == RowMode::Packed {
                fields.finish()?;
            }
            Ok((key, fields.position()))
        };
        read().map_err(|error: KeyError| Error::foreign(LAYOUT, at, error))
    }

    fn step(&mut self) -> Result<Option<(K, R)>> {
        if self.left == 0 || self.bytes_left == 0 {
            return Ok(None);
        }
        let first =
            self.next.take().map_or_else(|| self.scan.next().transpose(), |entry| Ok(Some(entry)))?;
        let Some(first) = first else { return Ok(None) };
        let (key, len) = self.row_of(&first.0)?;
        let at = first.0.slice(..len);
        let mut entries = vec![first];
        if self.mode == RowMode::Cells {
            loop {
                let Some(entry) = self.scan.next().transpose()? else { break };
                // Another row's key may begin with the same bytes: "a" and "a\0".
                if entry.0.starts_with(&at) && self.row_of(&entry.0)?.1 == len {
                    entries.push(entry);
                } else {
                    self.next = Some(entry);
                    break;
                }
            }
        }
        let bytes: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.bytes_left = self.bytes_left.saturating_sub(bytes as u64);
        self.left -= 1;
        let row = if let (RowMode::Packed, [(_, value)]) = (self.mode, entries.as_slice()) {
            let (version, fields) = schema::open(&at, value)?;
            schema::decode(&at, version, fields)?
        } else {
            entries.sort();
            gather(&at, &entries)?
        };
        Ok(Some((key, row)))
    }
}

impl<I: Iterator<Item = Result<(Bytes, Bytes)>>, K: Key, R: Row> Iterator for Rows<I, K, R> {
    type Item = Result<(K, R)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.step().transpose();
        if matches!(next, Some(Err(_))) {
            self.left = 0;
        }
        next
    }
}
