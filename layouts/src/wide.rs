//! Wide rows: a table whose rows have any columns, in families, as a sorted map of sorted maps.
//!
//! A row has a key, its cells have a family (declared at open), a column name (any bytes, made up by the
//! writer) and a value. Cells of a family lie together, ordered by row and then by column:
//!
//! - everything about one row changes in one transaction ([`RowChange`]), also across families;
//! - a range of columns of one row is one exact scan, however wide the row is;
//! - a scan over rows goes through the wanted families only, and a wanted range of columns is reached by
//!   seeks where rows are wide ([`Query`]);
//! - results come in pages limited in rows, cells and bytes ([`WideView::page`]).
//!
//! Rows and columns are byte strings and compare bytewise. For typed ones write
//! [`pack`]ed tuples: their order is kept, and `Space::root().under(…)` gives the
//! range of columns (or rows) under whole fields.
//!
//! ```
//! use esker_layouts::map::MapStore;
//! use esker_layouts::tuple::{KeyRange, Space};
//! use esker_layouts::wide::{Query, RowChange, WideTable};
//!
//! let store = MapStore::new();
//! let table = WideTable::open(&store, &Space::new(&("interest",)), &["games", "profile"])?;
//! let change = RowChange::new()
//!     .put("games", b"chess", b"3")
//!     .put("games", b"go", b"1")
//!     .put("profile", b"name", "Оля".as_bytes());
//! table.apply(b"QQ12", &change)?;
//! table.put(b"QQ12", "games", b"go", b"2")?;
//!
//! let view = table.view()?;
//! assert_eq!(view.get(b"QQ12", "games", b"go")?.as_deref(), Some(&b"2"[..]));
//! let page = view.page(&Query::row(b"QQ12").family("games").columns(KeyRange::prefix(b"c")))?;
//! assert_eq!((page.cells[0].column.as_slice(), page.cells.len()), (&b"chess"[..], 1));
//! assert_eq!(view.cost().keys_read, 2); // the two cells asked for, nothing else of the row
//! # Ok::<(), esker_layouts::Error>(())
//! ```
//!
//! Cells hold one value; a family whose columns keep their last versions is a [`History`].
//!
//! # Costs
//!
//! A change is one call and blind: a put, delete or add reads nothing. Deleting a row is one range
//! delete per family. [`check_and_apply`](WideTable::check_and_apply) and
//! [`increment`](WideTable::increment) read the one cell they depend on. A row with several families
//! costs one scan per family.
//!
//! # Invariants
//!
//! 1. A family's number is given once, in a transaction, and never changes; data of a family lies under
//!    its number.
//! 2. One handle's families are a subset of the stored ones: opening adds what is missing.

mod change;
mod filter;
mod history;
mod read;
mod visit;

use crate::kv::{Costed, KeyRange, KvRead, KvTx, Needs, OrderedKv, Write};
use crate::scratch::with_buffer;
use crate::tuple::{Space, pack, unpack};
use crate::{Error, OpCost, Result};

pub use change::{Check, RowChange};
pub use filter::Filter;
pub use history::{History, Version};
pub use read::{Cell, Page, PageToken, Query, WideView};
pub use visit::CellRef;

const LAYOUT: &str = "wide";
/// The first field behind the space: the families' numbers.
const FAMILIES: u64 = 0;
/// The first field behind the space: the cells.
const CELLS: u64 = 1;
/// The first field behind the space: how many versions the columns of a family keep.
const HISTORY: u64 = 2;

/// A family that this handle knows.
#[derive(Clone, Debug)]
struct Family {
    name: String,
    number: u64,
    /// The cells of the family: (row, column).
    cells: Space,
}

/// A table of wide rows. A handle; open as many as you like.
#[derive(Debug)]
pub struct WideTable<S> {
    store: S,
    space: Space,
    /// Ascending by number, which is the order of a row's families in results.
    families: Vec<Family>,
}

impl<S: OrderedKv> WideTable<S> {
    /// The table in `space` with at least the families `families`, created where absent. Nothing else
    /// may write in `space`.
    ///
    /// [`Error::BadInput`] for no family, an empty or a repeated name; [`Error::Unsupported`] if the
    /// store lacks transactions or merges; [`Error::Foreign`] if the space holds other data.
    pub fn open(store: S, space: &Space, families: &[&str]) -> Result<Self> {
        let needs = Needs { transactions: true, merge: true, ..Needs::default() };
        needs.check(LAYOUT, store.caps())?;
        if families.is_empty() {
            return Err(Error::bad_input("list of families", "", "it is empty; name at least one family"));
        }
        for (i, name) in families.iter().enumerate() {
            if name.is_empty() {
                return Err(Error::bad_input("family", name, "it is empty; give every family a name"));
            }
            if families.iter().take(i).any(|other| other == name) {
                return Err(Error::bad_input("family", name, "it is named twice; name each family once"));
            }
        }
        let known = store.update(|tx| register(tx, space, families))?.value;
        let mut families: Vec<Family> = known
            .into_iter()
            .map(|(name, number)| Family { cells: space.sub(&(CELLS, number)), name, number })
            .collect();
        families.sort_by_key(|family| family.number);
        Ok(WideTable { store, space: space.clone(), families })
    }

    /// The families of this handle, in the order in which a row's cells are returned.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.families.iter().map(|family| family.name.as_str())
    }

    fn family(&self, name: &str) -> Result<&Family> {
        self.family_named(name.as_bytes())
    }

    #[inline]
    fn family_named(&self, name: &[u8]) -> Result<&Family> {
        let family = self.families.iter().find(|family| family.name.as_bytes() == name);
        family.ok_or_else(|| self.unknown_family(name))
    }

    #[cold]
    fn unknown_family(&self, name: &[u8]) -> Error {
        let known: Vec<&str> = self.families().collect();
        let why = format!("this table was opened with {}; add it there", known.join(", "));
        Error::bad_input("family", &String::from_utf8_lossy(name), why)
    }

    /// Write the key of a cell over `at`; refuses one that is too long for the store.
    fn cell_into(&self, row: &[u8], family: &Family, column: &[u8], at: &mut Vec<u8>) -> Result<()> {
        at.clear();
        family.cells.key_into(&(row, column), at);
        self.check_cell(at.len(), column)
    }

    /// Refuse a cell whose key of `len` bytes is too long for the store.
    #[inline]
    fn check_cell(&self, len: usize, column: &[u8]) -> Result<()> {
        let max = self.store.caps().key_bytes_max;
        if len <= max { Ok(()) } else { Err(cell_too_long(len, max, column)) }
    }

    /// Call `f` with the key of a cell.
    fn with_cell<T>(
        &self,
        row: &[u8],
        family: &Family,
        column: &[u8],
        f: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        with_buffer(|at| {
            self.cell_into(row, family, column, at)?;
            f(at)
        })
    }

    /// Set one cell: a [`RowChange`] of one put, for less. [`Error::BadInput`] if the family is unknown or the
    /// cell's key is too long for the store.
    pub fn put(&self, row: &[u8], family: &str, column: &[u8], value: &[u8]) -> Result<OpCost> {
        let mut cost = OpCost::default();
        self.with_cell(row, self.family(family)?, column, |at| {
            cost = self.store.put(at, value)?;
            Ok(())
        })?;
        Ok(cost)
    }

    /// Change one row, all or nothing. [`Error::BadInput`] for a family that this handle was not opened with, and if a cell's
    /// key is too long for the store. All that names a family errs so.
    pub fn apply(&self, row: &[u8], change: &RowChange) -> Result<OpCost> {
        self.store.write(|write| change.each(self, row, write))
    }

    /// [`apply`](Self::apply) as part of a transaction of the caller's: for several rows, or rows and
    /// other layouts' data, at once. A change that is refused leaves nothing there.
    pub fn apply_in(&self, tx: &mut impl KvTx, row: &[u8], change: &RowChange) -> Result<()> {
        change.each(self, row, &mut |_| {})?;
        change.each(self, row, &mut |write: Write<'_>| write.apply(tx))
    }

    /// Apply `change` to `row` if the cell `family:column` of the row is as `check` says, atomically.
    /// Tells whether it was applied; a cell in another state is an answer, not an error.
    pub fn check_and_apply(
        &self,
        row: &[u8],
        family: &str,
        column: &[u8],
        check: &Check,
        change: &RowChange,
    ) -> Result<Costed<bool>> {
        self.store.update(|tx| self.check_and_apply_in(tx, row, family, column, check, change))
    }

    /// [`check_and_apply`](Self::check_and_apply) in the caller's transaction: the cell is as it is seen there.
    pub fn check_and_apply_in(
        &self,
        tx: &mut impl KvTx,
        row: &[u8],
        family: &str,
        column: &[u8],
        check: &Check,
        change: &RowChange,
    ) -> Result<bool> {
        let found = self.view_in(&*tx).get(row, family, column)?;
        let holds = check.holds(found.as_deref());
        if holds {
            self.apply_in(tx, row, change)?;
        }
        Ok(holds)
    }

    /// Add `by` to a counter cell (absent counts as 0) and return the sum. Counters are those of
    /// [`Merge::Add`](crate::kv::Merge::Add): eight bytes, little-endian.
    ///
    /// [`Error::Merge`] if the cell is no number or the sum does not fit. Reads the cell, so concurrent
    /// increments of one cell conflict and run again; where the sum is not needed,
    /// [`RowChange::add`] does not.
    pub fn increment(&self, row: &[u8], family: &str, column: &[u8], by: i64) -> Result<Costed<i64>> {
        self.store.update(|tx| self.increment_in(tx, row, family, column, by))
    }

    /// [`increment`](Self::increment) in the caller's transaction.
    pub fn increment_in(
        &self,
        tx: &mut impl KvTx,
        row: &[u8],
        family: &str,
        column: &[u8],
        by: i64,
    ) -> Result<i64> {
        self.with_cell(row, self.family(family)?, column, |at| {
            let sum = crate::kv::Merge::Add(by).apply(at, tx.get(at)?.as_deref())?;
            tx.put(at, &sum);
            Ok(sum.as_slice().try_into().map_or(0, i64::from_le_bytes))
        })
    }

    /// Remove every cell of a family, as one range delete. The family stays.
    pub fn clear_family(&self, family: &str) -> Result<OpCost> {
        let range = self.family(family)?.cells.under(&());
        self.store.write(|write| {
            write(Write::DeleteRange(&range));
            Ok(())
        })
    }

    /// [`clear_family`](Self::clear_family) in the caller's transaction.
    pub fn clear_family_in(&self, tx: &mut impl KvTx, family: &str) -> Result<()> {
        tx.delete_range(self.family(family)?.cells.under(&()));
        Ok(())
    }

    /// The table at this moment. Pages read from one view fit together whatever is written meanwhile.
    pub fn view(&self) -> Result<WideView<'_, S>> {
        Ok(self.view_in(self.store.read()?))
    }

    /// The table as the caller's snapshot or transaction has it: `view_in(&*tx)`.
    pub fn view_in<R: KvRead>(&self, read: R) -> WideView<'_, S, R> {
        WideView::new(self, read)
    }
}

#[cold]
fn cell_too_long(len: usize, max: usize, column: &[u8]) -> Error {
    let why =
        format!("row and column need {len} bytes as a key and the store takes {max}; shorten one of them");
    Error::bad_input("cell", &String::from_utf8_lossy(column), why)
}

/// The numbers of `families`, giving new ones where there are none.
fn register(tx: &mut impl KvTx, space: &Space, families: &[&str]) -> Result<Vec<(String, u64)>> {
    let mut known = Vec::new();
    let records: KeyRange = space.under(&(FAMILIES,));
    for row in tx.scan(records, crate::kv::ScanOptions::new())? {
        let (key, value) = row?;
        let foreign = |error| Error::foreign(LAYOUT, &key, error);
        let (_, name): (u64, String) = space.unpack(&key).map_err(foreign)?;
        let (number,): (u64,) = unpack(&value).map_err(foreign)?;
        known.push((name, number));
    }
    for name in families {
        if !known.iter().any(|(other, _)| other == name) {
            let at = space.key(&(FAMILIES, *name));
            let last = known.iter().map(|(_, number)| *number).max();
            let next = last.map_or(Some(0), |last| last.checked_add(1));
            let next = next.ok_or_else(|| Error::no_next(LAYOUT, &at))?;
            tx.put(&at, &pack(&(next,)));
            known.push(((*name).to_owned(), next));
        }
    }
    known.retain(|(name, _)| families.contains(&name.as_str()));
    Ok(known)
}

#[cfg(test)]
mod tests;
