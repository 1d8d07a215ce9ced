//! Entries kept in step with their rows.

use super::definition::Entries;
use super::records::{Record, Slot};
use super::{IndexedTable, LAYOUT, State};
use crate::kv::{Bytes, KeyRange, KvRead, KvTx, OrderedKv, ScanOptions};
use crate::scratch::with_buffer;
use crate::tuple::{Fields, Key, KeyError, Pack, PackField, PackedFields, Space, is_null, pack, unpack};
use crate::{Error, Result};

/// Whether packed fields include a null, ascending or descending, which is never unique.
fn has_null(fields: &[u8]) -> Result<bool> {
    let mut fields = PackedFields::new(fields);
    while let Some(field) = fields.next()? {
        if is_null(field) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// (field…, row's key) in `space`.
pub(super) fn with_row(space: &Space, fields: &[u8], row: &[u8]) -> Vec<u8> {
    [space.prefix(), fields, &pack(&(row,))].concat()
}

/// (field…) in `space`.
pub(super) fn alone(space: &Space, fields: &[u8]) -> Vec<u8> {
    [space.prefix(), fields].concat()
}

/// The row's key and the copy in the value of a unique entry.
pub(super) fn open_unique(at: &[u8], value: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    unpack(value).map_err(|error: KeyError| Error::foreign(LAYOUT, at, error))
}

/// Who has a unique entry.
enum Holder {
    Nobody,
    /// The row that was asked for.
    This,
    Other(Vec<u8>),
}

/// Who has the unique entry `at`, seen from `row`.
fn holder(read: &impl KvRead, at: &[u8], row: &[u8]) -> Result<Holder> {
    let Some(value) = read.get(at)? else { return Ok(Holder::Nobody) };
    let mut fields = Fields::new(&value);
    let holder = fields.bytes().and_then(|holder| {
        fields.bytes()?;
        fields.finish().map(|()| holder)
    });
    let holder = holder.map_err(|error| Error::foreign(LAYOUT, at, error))?;
    Ok(if *holder == *row { Holder::This } else { Holder::Other(holder.into_owned()) })
}

/// An index with the entries in it that a row had and will have.
pub(super) struct Turn<'t, K> {
    pub(super) slot: Slot<'t, K>,
    pub(super) before: Entries,
    pub(super) after: Entries,
}

/// The first `limit` rows listed under `at`, where the list of a value's rows begins.
fn listed_first(read: &impl KvRead, at: &[u8], limit: usize) -> Result<Vec<Vec<u8>>> {
    let range = KeyRange { start: at.to_vec(), end: Some([at, &[0xFF]].concat()) };
    let row = |listed: Result<(Bytes, Bytes)>| {
        let (key, _) = listed?;
        let row = unpack(key.get(at.len()..).unwrap_or_default());
        let (row,) = row.map_err(|error: KeyError| Error::foreign(LAYOUT, &key, error))?;
        Ok(row)
    };
    read.scan(range, ScanOptions::new().limit(limit).keys_only())?.map(row).collect()
}

/// Write a unique entry, which names its row.
fn put_held(tx: &mut impl KvTx, at: &[u8], row: &[u8], included: &[u8]) {
    with_buffer(|value| {
        (row, included).pack_into(value);
        tx.put(at, value);
    });
}

impl Record {
    /// Whether the entry with `fields` excludes others with the same.
    pub(super) fn excludes(&self, fields: &[u8]) -> Result<bool> {
        Ok(self.unique && !has_null(fields)?)
    }
}

impl<S: OrderedKv, K: Key> IndexedTable<S, K> {
    /// Err if an entry that the row `row` is to have cannot be written: it is too long for the store, or another
    /// row has the value.
    pub(super) fn admit(&self, read: &impl KvRead, turn: &Turn<'_, K>, row: &[u8]) -> Result<()> {
        let Turn { slot, before, after } = turn;
        for (fields, included) in after.iter() {
            let old = before.get(fields);
            if old == Some(included) {
                continue;
            }
            self.with_entry(&slot.record, fields, row, |at, excludes| {
                self.check_entry(fields, at)?;
                if excludes
                    && old.is_none()
                    && let Holder::Other(holder) = holder(read, at, row)?
                {
                    let (value, holder) = (crate::error::show(fields), crate::error::show(&holder));
                    return Err(Error::Duplicate { index: slot.record.name.clone(), value, holder });
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Turn the entries of the row `row`, touching only what differs. They have been [admitted](Self::admit).
    pub(super) fn maintain(&self, tx: &mut impl KvTx, turn: &mut Turn<'_, K>, row: &[u8]) -> Result<()> {
        let Turn { slot, before, after } = turn;
        for (fields, _) in before.iter().filter(|(fields, _)| after.get(fields).is_none()) {
            self.unlink(tx, slot, fields, row)?;
        }
        for (fields, included) in after.iter() {
            match before.get(fields) {
                Some(old) if old == included => {}
                Some(_) => self.refresh(tx, &slot.record, fields, row, included)?,
                None => self.link(tx, &slot.record, fields, row, included)?,
            }
        }
        Ok(())
    }

    /// Call `f` with the key of the entry `fields` of `row`, and whether it excludes others with the same fields:
    /// then the key does not end with the row.
    fn with_entry<T>(
        &self,
        record: &Record,
        fields: &[u8],
        row: &[u8],
        f: impl FnOnce(&[u8], bool) -> Result<T>,
    ) -> Result<T> {
        let excludes = record.excludes(fields)?;
        with_buffer(|at| {
            record.entries_into(&self.space, at);
            at.extend_from_slice(fields);
            if !excludes {
                row.pack_field(at, 0);
            }
            f(at, excludes)
        })
    }

    /// Write an entry that nobody has.
    fn link(
        &self,
        tx: &mut impl KvTx,
        record: &Record,
        fields: &[u8],
        row: &[u8],
        included: &[u8],
    ) -> Result<()> {
        self.with_entry(record, fields, row, |at, excludes| {
            if excludes {
                put_held(tx, at, row, included);
            } else {
                tx.put(at, included);
            }
            Ok(())
        })
    }

    /// Write an entry of a row that the builder found, or list the row if another has the value.
    pub(super) fn link_found(
        &self,
        tx: &mut impl KvTx,
        record: &Record,
        fields: &[u8],
        row: &[u8],
        included: &[u8],
    ) -> Result<()> {
        self.with_entry(record, fields, row, |at, excludes| {
            self.check_entry(fields, at)?;
            if !excludes {
                tx.put(at, included);
                return Ok(());
            }
            match holder(tx, at, row)? {
                Holder::Other(holder) => {
                    let violations = record.violations(&self.space);
                    for row in [row, holder.as_slice()] {
                        let listed = with_row(&violations, fields, row);
                        self.check_entry(fields, &listed)?;
                        tx.put(&listed, b"");
                    }
                }
                Holder::This | Holder::Nobody => put_held(tx, at, row, included),
            }
            Ok(())
        })
    }

    /// Write a new copy into an entry that the row has.
    fn refresh(
        &self,
        tx: &mut impl KvTx,
        record: &Record,
        fields: &[u8],
        row: &[u8],
        included: &[u8],
    ) -> Result<()> {
        self.with_entry(record, fields, row, |at, excludes| {
            if !excludes {
                tx.put(at, included);
                return Ok(());
            }
            // A row that is listed as a violation has no entry of its own; one not built yet gets it now.
            match holder(tx, at, row)? {
                Holder::Other(_) => {}
                Holder::This | Holder::Nobody => put_held(tx, at, row, included),
            }
            Ok(())
        })
    }

    /// Refuse the entry at `at` if it is too long for the store.
    fn check_entry(&self, fields: &[u8], at: &[u8]) -> Result<()> {
        let max = self.store.caps().key_bytes_max;
        if at.len() > max {
            let why = format!(
                "with the row's key it has {} bytes and the store takes {max}; shorten it",
                at.len()
            );
            return Err(Error::bad_input("entry", &crate::error::show(fields), why));
        }
        Ok(())
    }

    /// Remove an entry of a row. If others have waited for the value, one of them gets the entry; when
    /// one row is left with it, the value is no violation any more.
    fn unlink(&self, tx: &mut impl KvTx, slot: &mut Slot<'_, K>, fields: &[u8], row: &[u8]) -> Result<()> {
        let complete = matches!(slot.record.state, State::Ready | State::Disabled);
        let (mine, waited) = self.with_entry(&slot.record, fields, row, |at, excludes| {
            if at.len() > self.store.caps().key_bytes_max {
                // A row older than the index may ask for what the store does not take: it has never been there.
                return Ok((false, false));
            }
            let mine = !excludes || matches!(holder(tx, at, row)?, Holder::This);
            let waited = excludes && !complete;
            if mine && !waited {
                tx.delete(at);
            }
            Ok((mine, waited))
        })?;
        if !waited {
            return Ok(());
        }
        let heir = self.strike(tx, slot, fields, row)?;
        if mine {
            let at = alone(&slot.record.entries(&self.space), fields);
            match heir {
                None => tx.delete(&at),
                Some(heir) => {
                    let included = self.included(tx, slot, fields, &heir)?;
                    put_held(tx, &at, &heir, &included);
                }
            }
        }
        Ok(())
    }

    /// Take `row` from the list of rows that share `fields`; the first of the others. However many there are, the
    /// list is read up to the second of them.
    fn strike(
        &self,
        tx: &mut impl KvTx,
        slot: &mut Slot<'_, K>,
        fields: &[u8],
        row: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let violations = slot.record.violations(&self.space);
        let listed = with_row(&violations, fields, row);
        if listed.len() > self.store.caps().key_bytes_max || !tx.contains(&listed)? {
            return Ok(None);
        }
        tx.delete(&listed);
        let mut others = listed_first(tx, &alone(&violations, fields), 2)?;
        if others.len() < 2 {
            if let [last] = others.as_slice() {
                tx.delete(&with_row(&violations, fields, last));
            }
            if slot.record.state == State::UniquePending {
                let any = tx.scan(violations.under(&()), ScanOptions::new().limit(1).keys_only())?.next();
                if any.transpose()?.is_none() {
                    slot.record.state = State::Ready;
                    slot.record.save(tx, &self.space);
                }
            }
        }
        Ok((!others.is_empty()).then(|| others.swap_remove(0)))
    }

    /// What the entry `fields` of the row with the packed key `row` includes.
    fn included(
        &self,
        read: &impl KvRead,
        slot: &Slot<'_, K>,
        fields: &[u8],
        row: &[u8],
    ) -> Result<Vec<u8>> {
        let at = [self.rows().prefix(), row].concat();
        let value = read.get(&at)?.unwrap_or_default();
        let key: K = unpack(row).map_err(|error: KeyError| Error::foreign(LAYOUT, &at, error))?;
        let entries = slot.index.entries(&key, &value).unwrap_or_default();
        Ok(entries.get(fields).unwrap_or_default().to_vec())
    }
}
