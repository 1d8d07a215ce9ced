//! Where things lie, and the stored list of indexes.

use super::{Index, IndexedTable, LAYOUT, State};
use crate::kv::{Go, KvRead, KvTx, OrderedKv, ScanOptions};
use crate::tuple::{Fields, Key, KeyError, KeyErrorKind, Space, Unpack, pack, unpack};
use crate::{Error, Result};

/// The first field behind the space: the list of indexes.
const INDEXES: u64 = 0;
/// The first field behind the space: the rows.
pub(super) const ROWS: u64 = 1;
/// The first field behind the space: the entries.
const ENTRIES: u64 = 2;
/// The first field behind the space: rows that share a value that is to be unique.
const VIOLATIONS: u64 = 3;
/// The first field behind the space: how far indexes are built.
const CURSORS: u64 = 4;
/// The first field behind the space: the least number that no index has had, once one was dropped.
const FREE: u64 = 5;

/// What is stored about an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) number: u64,
    pub(super) unique: bool,
    pub(super) fields: u64,
    pub(super) version: u64,
    pub(super) state: State,
    pub(super) verified_on_read: bool,
}

/// An index of this handle with its record.
#[derive(Clone, Debug)]
pub(super) struct Slot<'t, K> {
    pub(super) index: &'t Index<K>,
    pub(super) record: Record,
}

impl Record {
    /// Append what the keys of the entries start with.
    pub(super) fn entries_into(&self, space: &Space, out: &mut Vec<u8>) {
        space.key_into(&(ENTRIES, self.number), out);
    }

    /// (field…, row's key) or, unique, (field…).
    pub(super) fn entries(&self, space: &Space) -> Space {
        space.sub(&(ENTRIES, self.number))
    }

    /// (field…, row's key).
    pub(super) fn violations(&self, space: &Space) -> Space {
        space.sub(&(VIOLATIONS, self.number))
    }

    pub(super) fn cursor(&self, space: &Space) -> Vec<u8> {
        space.key(&(CURSORS, self.number))
    }

    pub(super) fn save(&self, tx: &mut impl KvTx, space: &Space) {
        let mut value = pack(&(self.number, self.unique, self.fields, self.version, self.state.number()));
        if self.verified_on_read {
            value.extend_from_slice(&pack(&(true,)));
        }
        tx.put(&space.key(&(INDEXES, self.name.as_str())), &value);
    }

    /// Remove every entry and what was found out on the way.
    pub(super) fn clear(&self, tx: &mut impl KvTx, space: &Space) {
        tx.delete_range(self.entries(space).under(&()));
        tx.delete_range(self.violations(space).under(&()));
        tx.delete(&self.cursor(space));
    }

    /// Remove the record itself. `free` is the least number that no index of the table has had: all that is kept of
    /// the record is that its number was given.
    pub(super) fn remove(&self, tx: &mut impl KvTx, space: &Space, free: u64) {
        tx.delete(&space.key(&(INDEXES, self.name.as_str())));
        tx.put(&space.key(&(FREE,)), &pack(&(free,)));
    }
}

/// The least number that no index of the table in `space` has had, whose indexes are `records`. No number is given
/// twice: handles tell by it whether an index is the one that they were opened with.
pub(super) fn free(read: &impl KvRead, space: &Space, records: &[Record]) -> Result<u64> {
    let at = space.key(&(FREE,));
    let of_dropped = match read.get(&at)? {
        Some(stored) => unpack::<(u64,)>(&stored).map_err(|error| Error::foreign(LAYOUT, &at, error))?.0,
        None => 0,
    };
    Ok(records.iter().map(|record| record.number.saturating_add(1)).fold(of_dropped, u64::max))
}

/// The index `name` is not the one that the handle was opened with.
fn dropped(name: &str) -> Error {
    Error::bad_input("index", name, "it was dropped; open the table anew")
}

/// Hand the record of every index of the table in `space` to `visit`.
fn each(read: &impl KvRead, space: &Space, mut visit: impl FnMut(Record) -> Result<()>) -> Result<()> {
    let range = space.under(&(INDEXES,));
    let start = range.start.len();
    read.visit(range, |at, value| {
        let foreign = |error: KeyError| Error::foreign(LAYOUT, at, error);
        let mut key = Fields::starting_at(at, start.min(at.len()));
        let name = key.field::<String>().and_then(|name| key.finish().map(|()| name)).map_err(foreign)?;
        let mut stored = Fields::new(value);
        let (number, unique, fields, version, state): (_, _, _, _, u64) =
            Unpack::unpack_from(&mut stored).map_err(foreign)?;
        let verified_on_read = !stored.at_end() && stored.field().map_err(foreign)?;
        stored.finish().map_err(foreign)?;
        let state = State::ALL.into_iter().find(|known| known.number() == state);
        let unknown = KeyError { at: 0, kind: KeyErrorKind::IntegerRange("the states of an index") };
        let state = state.ok_or_else(|| foreign(unknown))?;
        visit(Record { name, number, unique, fields, version, state, verified_on_read })?;
        Ok(Go::On)
    })
}

/// Every index of the table in `space`.
pub(super) fn load(read: &impl KvRead, space: &Space) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    each(read, space, |record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

impl<S: OrderedKv, K: Key> IndexedTable<S, K> {
    /// This handle's indexes as they are now, in the order of their names. Refuses if the table has indexes it
    /// does not know, or lost one it does: one that was made anew under its name is another, whose entries
    /// another function may find.
    pub(super) fn slots(&self, read: &impl KvRead) -> Result<Vec<Slot<'_, K>>> {
        self.slots_numbered(read, &self.numbers)
    }

    /// [`slots`](Self::slots) where the indexes have the numbers `numbers`.
    fn slots_numbered(&self, read: &impl KvRead, numbers: &[u64]) -> Result<Vec<Slot<'_, K>>> {
        let mut slots: Vec<Slot<'_, K>> = Vec::with_capacity(self.indexes.len());
        each(read, &self.space, |record| {
            let mut known = self.indexes.iter().zip(numbers);
            match known.find(|(index, _)| index.name() == record.name) {
                Some((index, number)) if *number == record.number => slots.push(Slot { index, record }),
                Some(_) => return Err(dropped(&record.name)),
                None if record.state == State::Disabled => {}
                None => {
                    let why = "the table has it and this handle does not know it, so it would go stale; open \
                               the table with it, or disable or drop it";
                    return Err(Error::bad_input("table without index", &record.name, why));
                }
            }
            Ok(())
        })?;
        if slots.len() < self.indexes.len() {
            let found = |index: &&Index<K>| slots.iter().any(|slot| slot.record.name == index.name());
            let gone = self.indexes.iter().find(|index| !found(index)).map_or("", Index::name);
            return Err(dropped(gone));
        }
        Ok(slots)
    }

    /// The index `name` as it is now.
    pub(super) fn slot(&self, read: &impl KvRead, name: &str) -> Result<Slot<'_, K>> {
        let slot = self.slots(read)?.into_iter().find(|slot| slot.record.name == name);
        slot.ok_or_else(|| Error::bad_input("index", name, "the table was opened without it; add it there"))
    }

    /// Add the records that are missing, and check the others; the numbers of all.
    pub(super) fn register(&self, tx: &mut impl KvTx) -> Result<Vec<u64>> {
        let records = load(tx, &self.space)?;
        let mut free = free(tx, &self.space, &records)?;
        let first = tx.scan(self.rows().under(&()), ScanOptions::new().limit(1).keys_only())?.next();
        let state = if first.transpose()?.is_some() { State::Building } else { State::Ready };
        let stored = |index: &Index<K>| records.iter().find(|record| record.name == index.name());
        for (index, record) in self.indexes.iter().filter_map(|index| Some((index, stored(index)?))) {
            let made = (record.unique, record.fields, record.version, record.verified_on_read);
            if made != (index.unique, index.fields, index.version, index.verified_on_read) {
                let why = "its entries were made with another kind, number of fields or version; give the new \
                           index a new name, or drop the old one";
                return Err(Error::bad_input("index", index.name(), why));
            }
        }
        let mut numbers = Vec::with_capacity(self.indexes.len());
        for index in &self.indexes {
            if let Some(record) = stored(index) {
                numbers.push(record.number);
                continue;
            }
            let (name, number) = (index.name().to_owned(), free);
            let Index { unique, fields, version, verified_on_read, .. } = *index;
            let record = Record { name, number, unique, fields, version, state, verified_on_read };
            record.save(tx, &self.space);
            numbers.push(number);
            let why = "the table has had as many indexes as there are numbers";
            let next = number.checked_add(1);
            free = next.ok_or_else(|| Error::bad_input("index", index.name(), why))?;
        }
        self.slots_numbered(tx, &numbers)?;
        Ok(numbers)
    }
}
