//! Table against indexes.

use std::fmt;

use super::maintain::{alone, open_unique, with_row};
use super::records::Slot;
use super::{IndexedTable, IndexedView, LAYOUT, State};
use crate::error::show;
use crate::kv::{KvRead, OrderedKv, ScanOptions};
use crate::tuple::{Key, KeyError, pack};
use crate::{Error, Result};

/// How many problems a report names; it counts them all.
const NAMED_MAX: usize = 100;

/// A place where an index and its table disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The index.
    pub index: String,
    /// Whether the row lacks the entry; otherwise the entry has no such row.
    pub missing: bool,
    /// The entry's fields, as a tuple.
    pub value: String,
    /// The row's primary key, as a tuple.
    pub row: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { index, value, row, .. } = self;
        if self.missing {
            write!(f, "index {index:?} lacks the entry {value} of row {row}")
        } else {
            write!(f, "index {index:?} has the entry {value} for row {row}, which has no such value")
        }
    }
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows compared.
    pub rows: u64,
    /// Entries compared, of all indexes.
    pub entries: u64,
    /// Entries of indexes verified on read that their rows have no more. They are no problems.
    pub stale: u64,
    /// How many problems there are.
    pub count: u64,
    /// The first hundred of them.
    pub problems: Vec<Problem>,
}

impl Report {
    fn add<K>(&mut self, slot: &Slot<'_, K>, missing: bool, value: &[u8], row: &[u8]) {
        self.count += 1;
        if self.problems.len() < NAMED_MAX {
            let (index, value, row) = (slot.record.name.clone(), show(value), show(row));
            self.problems.push(Problem { index, missing, value, row });
        }
    }
}

impl<'t, S: OrderedKv, K: Key, R: KvRead> IndexedView<'t, S, K, R> {
    /// Compare every complete index with the table, both ways, at the moment of the view. Reads a row
    /// for each entry; holds one at a time.
    pub fn verify(&self) -> Result<Report> {
        let mut report = Report::default();
        let complete =
            |slot: &&Slot<'t, K>| matches!(slot.record.state, State::Ready | State::UniquePending);
        let slots: Vec<&Slot<'t, K>> = self.slots.iter().filter(complete).collect();
        let rows = self.table.rows();
        for row in self.read.scan(rows.under(&()), ScanOptions::new())? {
            let (at, value) = row?;
            let key: K = rows.unpack(&at).map_err(|error: KeyError| Error::foreign(LAYOUT, &at, error))?;
            let packed = pack(&key);
            report.rows += 1;
            for slot in &slots {
                for (fields, included) in slot.index.entries(&key, &value)?.iter() {
                    if !self.has_entry(slot, fields, &packed, included)? {
                        report.add(slot, true, fields, &packed);
                    }
                }
            }
        }
        for slot in &slots {
            let entries = slot.record.entries(&self.table.space);
            for entry in self.read.scan(entries.under(&()), ScanOptions::new())? {
                let hit = IndexedTable::<S, K>::hit(&slot.record, entries.prefix().len(), entry?)?;
                report.entries += 1;
                let row = self.get(&hit.key)?;
                let right = row.map_or(Ok(false), |row| slot.index.has(&hit, &row))?;
                if !right && slot.record.verified_on_read {
                    report.stale += 1;
                } else if !right {
                    report.add(slot, false, hit.packed(), &pack(&hit.key));
                }
            }
        }
        Ok(report)
    }

    /// Whether the row has its entry, or is listed because another has it.
    fn has_entry(&self, slot: &Slot<'t, K>, fields: &[u8], row: &[u8], included: &[u8]) -> Result<bool> {
        let entries = slot.record.entries(&self.table.space);
        if !slot.record.excludes(fields)? {
            let stored = self.read.get(&with_row(&entries, fields, row))?;
            return Ok(stored.as_deref() == Some(included));
        }
        let at = alone(&entries, fields);
        let Some(value) = self.read.get(&at)? else { return Ok(false) };
        let (holder, copy) = open_unique(&at, &value)?;
        if holder == row {
            return Ok(copy == included);
        }
        self.read.contains(&with_row(&slot.record.violations(&self.table.space), fields, row))
    }
}
