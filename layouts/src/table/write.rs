//! Rows and fields written, in both modes.

use super::{Field, Row, RowMode, Table, schema};
use crate::kv::{Costed, KvTx, OrderedKv};
use crate::tall::check_length;
use crate::tuple::{Key, PackField, pack, split};
use crate::{OpCost, Result};

impl<S: OrderedKv, K: Key, R: Row> Table<'_, S, K, R> {
    pub(super) fn row_key(&self, key: &K) -> Result<Vec<u8>> {
        let bytes = self.rows.key(key);
        // Six bytes hold the place of any field.
        let longest = if self.mode == RowMode::Cells { bytes.len() + 6 } else { bytes.len() };
        check_length(key, longest, self.store.caps().key_bytes_max)?;
        Ok(bytes)
    }

    /// Set the row of `key`.
    pub fn put(&self, key: &K, row: &R) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.put_in(tx, key, row))?.cost)
    }

    /// [`put`](Self::put) in the caller's transaction.
    pub fn put_in(&self, tx: &mut impl KvTx, key: &K, row: &R) -> Result<()> {
        let fields_max = self.check(tx)?;
        self.replace(tx, key, &self.row_key(key)?, row, fields_max)
    }

    /// Write `row` over whatever is there; rows have had up to `fields_max` fields.
    fn replace(&self, tx: &mut impl KvTx, key: &K, at: &[u8], row: &R, fields_max: u64) -> Result<()> {
        if self.mode == RowMode::Cells {
            let cells = self.rows.sub(key);
            (R::FIELDS.len() as u64..fields_max).for_each(|place| tx.delete(&cells.key(&(place,))));
        }
        self.write(tx, key, at, row, None)
    }

    /// Write `row`, or of its cells those that differ from `old`.
    fn write(&self, tx: &mut impl KvTx, key: &K, at: &[u8], row: &R, old: Option<&[u8]>) -> Result<()> {
        let (version, fields) = (pack(&(R::VERSION,)), pack(row));
        if self.mode == RowMode::Packed {
            tx.put(at, &[version, fields].concat());
            return Ok(());
        }
        if old.is_none() {
            tx.put(at, &version);
        }
        let cells = self.rows.sub(key);
        let before = old.map(split).transpose()?.unwrap_or_default();
        for (place, field) in split(&fields)?.into_iter().enumerate() {
            if before.get(place) != Some(&field) {
                tx.put(&cells.key(&(place as u64,)), field);
            }
        }
        Ok(())
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
        let at = self.row_key(key)?;
        let Some((version, mut row)) = self.load(tx, key)? else { return Ok(false) };
        let old = pack(&row);
        change(&mut row);
        if version == R::VERSION {
            self.write(tx, key, &at, &row, Some(&old))?;
        } else {
            self.replace(tx, key, &at, &row, fields_max)?;
        }
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
        let at = self.row_key(key)?;
        let value = pack(&(value,));
        if self.mode == RowMode::Cells {
            let Some(header) = tx.get(&at)? else { return Ok(false) };
            if schema::open(&at, &header)?.0 == R::VERSION {
                tx.put(&self.rows.sub(key).key(&(field.place,)), &value);
                return Ok(true);
            }
        }
        let Some((_, row)) = self.load(tx, key)? else { return Ok(false) };
        let packed = pack(&row);
        let mut fields = split(&packed)?;
        if let Some(place) = fields.get_mut(usize::try_from(field.place).unwrap_or(usize::MAX)) {
            *place = &value;
        }
        let row = schema::decode(&at, R::VERSION, &fields.concat())?;
        self.replace(tx, key, &at, &row, fields_max)?;
        Ok(true)
    }

    /// Remove the row of `key`, if there is one.
    pub fn remove(&self, key: &K) -> Result<OpCost> {
        Ok(self.store.update(|tx| self.remove_in(tx, key))?.cost)
    }

    /// [`remove`](Self::remove) in the caller's transaction.
    pub fn remove_in(&self, tx: &mut impl KvTx, key: &K) -> Result<()> {
        self.check(tx)?;
        let at = self.row_key(key)?;
        match self.mode {
            RowMode::Packed => tx.delete(&at),
            RowMode::Cells => tx.delete_range(self.rows.under(key)),
        }
        Ok(())
    }
}
