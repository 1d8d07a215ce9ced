//! One level of a tree: its tables in the order a lookup wants them.
//!
//! 1. **Level 0** holds what flushes wrote: tables may overlap, and stand newest first (by largest sequence
//!    number, then by file number).
//! 2. **Every other level** is *sorted*: tables stand by smallest key, and no key lies in the bounds of two.
//!    Keys of one level often begin alike: what all smallest keys share is compared once, and the eight bytes
//!    behind it, of every smallest key, stand in one flat array. So a lookup compares words that lie side by
//!    side, and follows a pointer only to the one table it ends at (or to those whose words are equal, by
//!    bisection).
//! 3. A level is immutable; a copy shares everything.

use std::cmp::Ordering;
use std::sync::Arc;

use esker_base::key::{head, shared_prefix};
use esker_base::table_meta::KeyBounds;

use crate::table_handle::TableHandle;

#[cfg(test)]
mod tests;

/// One level. See the module.
#[derive(Clone, Debug)]
pub struct Level {
    tables: Arc<[Arc<TableHandle>]>,
    /// Of a sorted level: what all smallest keys begin with.
    prefix: Arc<[u8]>,
    /// Of a sorted level: the head of what follows in each table's smallest key. Empty in level 0.
    heads: Arc<[u64]>,
    /// Sum of the tables' sizes.
    bytes: u64,
    sorted: bool,
}

impl Level {
    /// Level 0 of these tables, in any order.
    pub fn newest_first(mut tables: Vec<Arc<TableHandle>>) -> Level {
        tables.sort_by_key(|table| std::cmp::Reverse((table.meta.largest_seqno, table.meta.number)));
        Level::of(tables, false)
    }

    /// A level from 1 on of these tables, in any order. Panics if two overlap.
    pub fn sorted(mut tables: Vec<Arc<TableHandle>>) -> Level {
        tables.sort_by(|a, b| a.meta.bounds.smallest.cmp(&b.meta.bounds.smallest));
        for (left, right) in tables.iter().zip(tables.iter().skip(1)) {
            assert!(
                left.meta.bounds.ends_before(&right.meta.bounds.smallest),
                "tables {} and {} of one level overlap",
                left.meta.number,
                right.meta.number
            );
        }
        Level::of(tables, true)
    }

    /// A level of tables that are in order.
    pub(crate) fn of(tables: Vec<Arc<TableHandle>>, sorted: bool) -> Level {
        let (prefix, heads) = if sorted { heads_of(&tables) } else { Default::default() };
        let bytes = tables.iter().fold(0u64, |sum, table| sum.saturating_add(table.meta.file_bytes));
        Level { tables: tables.into(), prefix, heads, bytes, sorted }
    }

    /// The tables: newest first in level 0, by smallest key in every other.
    #[inline]
    pub fn tables(&self) -> &[Arc<TableHandle>] {
        &self.tables
    }

    /// How many tables there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Sum of the tables' sizes, in bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether tables stand by smallest key and do not overlap: true for every level but level 0.
    #[inline]
    pub fn is_sorted(&self) -> bool {
        self.sorted
    }

    /// How many tables of a sorted level begin at or before `key`.
    #[inline]
    fn begun(&self, key: &[u8]) -> usize {
        let (front, behind) = key.split_at_checked(self.prefix.len()).unwrap_or((key, &[]));
        match front.cmp(&self.prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.len(),
            Ordering::Equal => {}
        }
        let wanted = head(behind);
        let low = self.heads.partition_point(|&head| head < wanted);
        let rest = self.heads.get(low..).unwrap_or_default();
        // Heads pad short keys with zeros, so equal heads decide nothing: look at the keys themselves.
        let ties =
            if rest.first() == Some(&wanted) { rest.partition_point(|&head| head <= wanted) } else { 0 };
        let tied = self.tables.get(low..low + ties).unwrap_or_default();
        low + tied.partition_point(|table| table.meta.bounds.smallest.as_slice() <= key)
    }

    /// Of a sorted level: the one table whose bounds hold `key`. Level 0 is walked with
    /// [`tables`](Level::tables); asking it is a programmer's mistake and panics.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<TableHandle>> {
        assert!(self.sorted, "tables of level 0 overlap: any of them may hold the key");
        let table = self.tables.get(self.begun(key).checked_sub(1)?)?;
        (!table.meta.bounds.ends_before(key)).then_some(table)
    }

    /// Of a sorted level: the index of the first table that does not end before `key` (the one that holds
    /// it, or else the first behind it); [`len`](Level::len) if every table does. A walk forward from `key`
    /// begins there. Panics for level 0.
    #[inline]
    pub fn first_reaching(&self, key: &[u8]) -> usize {
        assert!(self.sorted, "tables of level 0 are not in key order");
        let begun = self.begun(key);
        match begun.checked_sub(1).and_then(|last| self.tables.get(last)) {
            Some(table) if !table.meta.bounds.ends_before(key) => begun - 1,
            _ => begun,
        }
    }

    /// The tables that may hold a key inside `bounds`, in this level's order.
    pub fn overlapping<'a>(
        &'a self,
        bounds: &'a KeyBounds,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<TableHandle>> + 'a {
        let from = if self.sorted { self.first_reaching(&bounds.smallest) } else { 0 };
        let to = if self.sorted { self.begun(&bounds.largest).max(from) } else { self.len() };
        let candidates = self.tables.get(from..to).unwrap_or_default();
        candidates.iter().filter(move |table| table.meta.bounds.overlaps(bounds))
    }
}

/// What the smallest keys of tables in order share, and the heads of what follows.
fn heads_of(tables: &[Arc<TableHandle>]) -> (Arc<[u8]>, Arc<[u64]>) {
    let (Some(first), Some(last)) = (tables.first(), tables.last()) else { return Default::default() };
    let first = first.meta.bounds.smallest.as_slice();
    // In order: what the first and the last key share, all share.
    let (prefix, _) = first.split_at(shared_prefix(first, &last.meta.bounds.smallest));
    let behind = |table: &Arc<TableHandle>| table.meta.bounds.smallest.get(prefix.len()..).map_or(0, head);
    (prefix.into(), tables.iter().map(behind).collect())
}
