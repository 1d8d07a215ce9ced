//! One level of a tree: its tables in the order a lookup wants them.
//!
//! 1. **Level 0** holds what flushes wrote: tables may overlap, and stand newest first (by largest sequence
//!    number, then by file number). A flush writes several tables side by side, so a lookup or scan goes
//!    through the level's [runs](Level::runs), not through its tables.
//! 2. **Every other level** is *sorted*: tables stand by smallest key, and no key lies in the bounds of two.
//!    It is one run.
//! 3. A level is immutable; a copy shares everything.

use std::sync::Arc;

use esker_base::table_meta::KeyBounds;

use crate::sorted_run::SortedRun;
use crate::table_handle::TableHandle;

#[cfg(test)]
mod tests;

/// One level. See the module.
#[derive(Clone, Debug)]
pub struct Level {
    tables: Arc<[Arc<TableHandle>]>,
    /// The same tables as runs. A sorted level has one run, or none if it is empty.
    runs: Arc<[SortedRun]>,
    /// Sum of the tables' sizes.
    bytes: u64,
    /// The most tables that cover one key.
    depth: usize,
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
        let bytes = tables.iter().fold(0u64, |sum, table| sum.saturating_add(table.meta.file_bytes));
        let tables: Arc<[Arc<TableHandle>]> = tables.into();
        let runs = match (tables.is_empty(), sorted) {
            (true, _) => Vec::new(),
            (false, true) => vec![SortedRun::of(Arc::clone(&tables))],
            (false, false) => SortedRun::newest_first(&tables),
        };
        let depth = if sorted { tables.len().min(1) } else { depth_of(&tables) };
        Level { tables, runs: runs.into(), bytes, depth, sorted }
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

    /// The most tables that cover one key: at worst, a read of one key looks into this many. It is counted
    /// once, when the level is made.
    #[inline]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Whether tables stand by smallest key and do not overlap: true for every level but level 0.
    #[inline]
    pub fn is_sorted(&self) -> bool {
        self.sorted
    }

    /// The tables as runs without overlap. Of two tables that overlap, the newer one stands in an earlier
    /// run: a lookup of a key's newest version asks one run after the other.
    #[inline]
    pub fn runs(&self) -> &[SortedRun] {
        &self.runs
    }

    /// Of a sorted level: the index of the first table that does not end before `key` (the one that holds
    /// it, or else the first behind it); [`len`](Level::len) if every table does. A walk forward from `key`
    /// begins there. Panics for level 0.
    #[inline]
    pub fn first_reaching(&self, key: &[u8]) -> usize {
        assert!(self.sorted, "tables of level 0 are not in key order");
        self.runs.first().map_or(0, |run| run.first_reaching(key))
    }

    /// The tables that may hold a key inside `bounds`, in this level's order.
    pub fn overlapping<'a>(
        &'a self,
        bounds: &'a KeyBounds,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<TableHandle>> + 'a {
        let from = if self.sorted { self.first_reaching(&bounds.smallest) } else { 0 };
        let begun = |run: &SortedRun| run.begun(&bounds.largest).max(from);
        let to = if self.sorted { self.runs.first().map_or(0, begun) } else { self.len() };
        let candidates = self.tables.get(from..to).unwrap_or_default();
        candidates.iter().filter(move |table| table.meta.bounds.overlaps(bounds))
    }
}

/// The most of these tables that cover one key. Takes memory in proportion to their number, however they overlap.
fn depth_of(tables: &[Arc<TableHandle>]) -> usize {
    // The places at which tables begin and end: before a key, or right behind it.
    let bounds = || tables.iter().map(|table| &table.meta.bounds);
    let mut starts: Vec<_> = bounds().map(|bounds| (&bounds.smallest, false)).collect();
    let mut ends: Vec<_> = bounds().map(|bounds| (&bounds.largest, !bounds.largest_exclusive)).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let mut ended = 0;
    let open = (1usize..).zip(&starts).map(|(begun, start)| {
        ended += ends.iter().skip(ended).take_while(|end| *end <= start).count();
        begun.saturating_sub(ended)
    });
    open.max().unwrap_or(0)
}
