//! Rows and fields written, in both modes.

use super::{Field, Row, RowMode, Table, schema};
use crate::kv::{Costed, KvTx, OrderedKv};
use crate::scratch::with_buffer;
use crate::tall::check_length;
use crate::tuple::{Key, Pack, PackField, PackedFields, pack, split_packed};
use crate::{OpCost, Result};

/// Call `f` with the key of the cell at `place` of the row at `at`.
fn with_cell<T>(at: &[u8], place: u64, f: impl FnOnce(&[u8]) -> T) -> T {
    with_buffer(|cell| {
        cell.extend_from_slice(at);
        place.pack_field(cell, 0);
        f(cell)
    })
}

impl<S: OrderedKv, K: Key, R: Row> Table<S, K, R> {
    /// Call `f` with where the row of `key` lies.
    pub(super) fn at<T>(&self, key: &K, f: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        with_buffer(|at| {
            self.rows.key_into(key, at);
            // Six bytes hold the place of any field.
            let longest = if self.mode == RowMode::Cells { at.len() + 6 } else { at.len() };
            check_length(key, longest, self.store.caps().key_bytes_max)?;
            f(at)
        })
    }

    /// Set the row of `key`.
    pub fn put(&self, key: &K, row: &R) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.put_in(tx, key, row))?.cost)
    }

    /// [`put`](Self::put) in the caller's transaction.
    pub fn put_in(&self, tx: &mut impl KvTx, key: &K, row: &R) -> Result<()> {
        let fields_max = self.check(tx)?;
        self.at(key, |at| self.replace(tx, at, row, fields_max))
    }

    /// Write `row` over whatever is there; rows have had up to `fields_max` fields.
    fn replace(&self, tx: &mut impl KvTx, at: &[u8], row: &R, fields_max: u64) -> Result<()> {
        if self.mode == RowMode::Cells {
            for place in R::FIELDS.len() as u64..fields_max {
                with_cell(at, place, |cell| tx.delete(cell));
            }
        }
        self.write(tx, at, row, None)
    }

    /// Write `row`, or of its cells those that differ from `old`.
    fn write(&self, tx: &mut impl KvTx, at: &[u8], row: &R, old: Option<&[u8]>) -> Result<()> {
        with_buffer(|value| {
            (R::VERSION,).pack_into(value);
            let version = value.len();
            row.pack_into(value);
            if self.mode == RowMode::Packed {
                tx.put(at, value);
                return Ok(());
            }
            let (version, fields) = value.split_at(version);
            if old.is_none() {
                tx.put(at, version);
            }
            let (mut fields, mut before) = (PackedFields::new(fields), old.map(PackedFields::new));
            for place in 0.. {
                let Some(field) = fields.next()? else { return Ok(()) };
                if before.as_mut().map(PackedFields::next).transpose()?.flatten() != Some(field) {
                    with_cell(at, place, |cell| tx.put(cell, field));
                }
            }
            Ok(())
        })
    }

    /// Change the row of `key` in place, if there is one; tells whether there was. `change` may run more than
    /// once, each time on what is stored then. Reads the row; writes it whole if packed, otherwise the
    /// fields that differ.
    pub fn patch(&self, key: &K, mut change: impl FnMut(&mut R)) -> Result<Costed<bool>> {
        self.store.update(|tx| self.patch_in(tx, key, &mut change))
    }

    /// [`patch`](Self::patch) in the caller's transaction.
    pub fn patch_in(&self, tx: &mut impl KvTx, key: &K, change: impl FnOnce(&mut R)) -> Result<bool> {
        let fields_max = self.check(tx)?;
        let Some((version, mut row)) = self.load(tx, key)? else { return Ok(false) };
        let old = pack(&row);
        change(&mut row);
        self.at(key, |at| {
            if version == R::VERSION {
                self.write(tx, at, &row, Some(&old))
            } else {
                self.replace(tx, at, &row, fields_max)
            }
        })?;
        Ok(true)
    }

    /// Set one field of the row of `key`, if there is one; tells whether there was. Reads and writes the whole
    /// row if packed, or if it is of an older version; otherwise it reads the row's version and writes the
    /// field.
    pub fn set<T: PackField>(&self, key: &K, field: Field<R, T>, value: &T) -> Result<Costed<bool>> {
        self.store.update(|tx| self.set_in(tx, key, field, value))
    }

    /// [`set`](Self::set) in the caller's transaction.
    pub fn set_in<T: PackField>(
        &self,
        tx: &mut impl KvTx,
        key: &K,
        field: Field<R, T>,
        value: &T,
    ) -> Result<bool> {
        let fields_max = self.check(tx)?;
        self.at(key, |at| {
            with_buffer(|packed| {
                value.pack_field(packed, 0);
                self.set_at(tx, key, at, field, packed, fields_max)
            })
        })
    }

    /// [`set`](Self::set) where the row of `key` lies at `at` and the value is encoded.
    fn set_at<T>(
        &self,
        tx: &mut impl KvTx,
        key: &K,
        at: &[u8],
        field: Field<R, T>,
        value: &[u8],
        fields_max: u64,
    ) -> Result<bool> {
        if self.mode == RowMode::Cells {
            let Some(header) = tx.get(at)? else { return Ok(false) };
            if schema::open(at, &header)?.0 == R::VERSION {
                with_cell(at, field.place.into(), |cell| tx.put(cell, value));
                return Ok(true);
            }
        }
        let Some((_, row)) = self.load(tx, key)? else { return Ok(false) };
        let packed = pack(&row);
        let mut fields = split_packed(&packed)?;
        if let Some(place) = fields.get_mut(usize::try_from(field.place).unwrap_or(usize::MAX)) {
            *place = value;
        }
        let row = schema::decode(at, R::VERSION, &fields.concat())?;
        self.replace(tx, at, &row, fields_max)?;
        Ok(true)
    }

    /// Remove the row of `key`, if there is one.
    pub fn remove(&self, key: &K) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.remove_in(tx, key))?.cost)
    }

    /// [`remove`](Self::remove) in the caller's transaction.
    pub fn remove_in(&self, tx: &mut impl KvTx, key: &K) -> Result<()> {
        self.check(tx)?;
        self.at(key, |at| {
            match self.mode {
                RowMode::Packed => tx.delete(at),
                RowMode::Cells => tx.delete_range(self.rows.under(key)),
            }
            Ok(())
        })
    }
}
