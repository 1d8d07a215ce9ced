//! Indexes made, remade and given up beside writers.

use super::{IndexedTable, LAYOUT, State, records};
use crate::kv::{Bytes, Costed, KvRead, KvTx, OrderedKv, ScanOptions};
use crate::tuple::{Key, KeyError, Space};
use crate::{Error, OpCost, Result};

/// What a step of a build did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    /// How many rows it looked at.
    pub rows: usize,
    /// The state after it; [`State::Building`] means that there is more to do.
    pub state: State,
}

/// The row with the packed key `packed` cannot be in the index `name`.
#[cold]
fn refused(name: &str, packed: &[u8], error: &Error) -> Error {
    let why = format!(
        "index {name:?} cannot have it ({error}); replace or delete the row and build on, or drop the index"
    );
    Error::bad_input("row", &crate::error::show(packed), why)
}

impl<S: OrderedKv, K: Key> IndexedTable<S, K> {
    /// Build the index `name` from where it stands to the end, `step` rows (at least one) in a
    /// transaction. Several builders of one index do no harm and no good.
    ///
    /// [`Error::BadInput`] for a row that the index's function refuses, or whose entry is too long for the store,
    /// which it names. Such a row can be replaced and deleted as any other; the build then goes on where it stood.
    pub fn build(&self, name: &str, step: usize) -> Result<State> {
        loop {
            let built = self.build_step(name, step)?.value;
            if built.state != State::Building {
                return Ok(built.state);
            }
        }
    }

    /// One transaction of [`build`](Self::build). A process that stops between steps goes on with the
    /// next. An index that is not building is left as it is.
    pub fn build_step(&self, name: &str, rows: usize) -> Result<Costed<Built>> {
        let limit = rows.max(1);
        self.store.update(|tx| {
            let mut slot = self.slot(tx, name)?;
            if slot.record.state != State::Building {
                return Ok(Built { rows: 0, state: slot.record.state });
            }
            let cursor = slot.record.cursor(&self.space);
            let all = self.rows();
            let mut range = all.under(&());
            if let Some(last) = tx.get(&cursor)? {
                range.start = [last.as_ref(), &[0]].concat();
            }
            let rows: Vec<(Bytes, Bytes)> =
                tx.scan(range, ScanOptions::new().limit(limit))?.collect::<Result<_>>()?;
            for (at, row) in &rows {
                let key: K = all.unpack(at).map_err(|error: KeyError| Error::foreign(LAYOUT, at, error))?;
                let packed = at.get(all.prefix().len()..).unwrap_or_default();
                let entries = slot.index.entries(&key, row);
                let entries = entries.map_err(|error| refused(name, packed, &error))?;
                for (fields, included) in entries.iter() {
                    let linked = self.link_found(tx, &slot.record, fields, packed, included);
                    linked.map_err(|error| match error {
                        Error::BadInput { .. } => refused(name, packed, &error),
                        other => other,
                    })?;
                }
            }
            match rows.last() {
                Some((last, _)) if rows.len() == limit => tx.put(&cursor, last),
                _ => {
                    let violations = slot.record.violations(&self.space).under(&());
                    let any = tx.scan(violations, ScanOptions::new().limit(1).keys_only())?.next();
                    let any = any.transpose()?.is_some();
                    slot.record.state = if any { State::UniquePending } else { State::Ready };
                    slot.record.save(tx, &self.space);
                    tx.delete(&cursor);
                }
            }
            Ok(Built { rows: rows.len(), state: slot.record.state })
        })
    }

    /// Remove the stale entries of the index `name`, if it is verified on read, comparing `step` entries (at
    /// least one) with their rows in a transaction; how many were removed. It may run at any time beside
    /// writers, or never: lookups answer the same.
    pub fn clean(&self, name: &str, step: usize) -> Result<u64> {
        let limit = step.max(1);
        let mut removed = 0;
        let mut from: Option<Vec<u8>> = None;
        loop {
            let done = self.store.update(|tx| {
                let slot = self.slot(tx, name)?;
                if !slot.record.verified_on_read {
                    return Ok((0, None));
                }
                let entries = slot.record.entries(&self.space);
                let (behind, mut range) = (entries.prefix().len(), entries.under(&()));
                range.start = from.clone().unwrap_or(range.start);
                let entries: Vec<(Bytes, Bytes)> =
                    tx.scan(range, ScanOptions::new().limit(limit))?.collect::<Result<_>>()?;
                let mut stale = 0;
                for entry in &entries {
                    let hit = Self::hit(&slot.record, behind, entry.clone())?;
                    let row = tx.get(&self.row_key(&hit.key)?)?;
                    if !row.map_or(Ok(false), |row| slot.index.has(&hit, &row))? {
                        tx.delete(&entry.0);
                        stale += 1;
                    }
                }
                let last = entries.last().filter(|_| entries.len() == limit);
                Ok((stale, last.map(|(at, _)| [at.as_ref(), &[0]].concat())))
            })?;
            removed += done.value.0;
            from = done.value.1;
            if from.is_none() {
                return Ok(removed);
            }
        }
    }

    /// Stop maintaining the index `name` and remove its entries.
    pub fn disable(&self, name: &str) -> Result<OpCost> {
        self.restart(name, State::Disabled)
    }

    /// Remove the entries of the index `name`, disabled or not, and start building it anew.
    pub fn rebuild(&self, name: &str) -> Result<OpCost> {
        self.restart(name, State::Building)
    }

    fn restart(&self, name: &str, state: State) -> Result<OpCost> {
        let done = self.store.update(|tx| {
            let mut record = self.slot(tx, name)?.record;
            record.clear(tx, &self.space);
            record.state = state;
            record.save(tx, &self.space);
            Ok(())
        })?;
        Ok(done.cost)
    }

    /// Remove the index `name` of the table in `space` for good, known to a handle or not. Tells whether there
    /// was one.
    ///
    /// Handles that know it can neither write nor make views any more, also when an index was made anew under
    /// its name, be it with the same definition: they get [`Error::BadInput`] and have to be opened anew.
    /// Views made before go on at their moment.
    pub fn drop_index(store: &S, space: &Space, name: &str) -> Result<bool> {
        let done = store.update(|tx| {
            let records = records::load(tx, space)?;
            let Some(record) = records.iter().find(|record| record.name == name) else { return Ok(false) };
            record.clear(tx, space);
            record.remove(tx, space, records::free(tx, space, &records)?);
            Ok(true)
        })?;
        Ok(done.value)
    }
}
