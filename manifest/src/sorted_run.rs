//! A sorted run: tables in the order of their smallest keys, whose bounds do not overlap. A lookup asks it
//! for the one table that may hold a key, and a scan walks it as one source. A level below level 0 is one
//! such run; level 0 is divided into as few runs as keep the newest first.
//!
//! Keys of one run often begin alike: what all smallest keys share is compared once, and the eight bytes
//! behind it, of every smallest key, stand in one flat array. So a lookup compares words that lie side by
//! side. It follows a pointer only to the one table at which it ends, and where words are equal.
//!
//! A run is immutable.

use std::cmp::Ordering;
use std::ops::{Bound, Range};
use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::key::{head, shared_prefix, strip_prefix};

use crate::table_handle::TableHandle;

#[cfg(test)]
mod tests;

/// One run. See the module.
#[derive(Debug)]
pub struct SortedRun {
    tables: Arc<[Arc<TableHandle>]>,
    /// What all smallest keys begin with.
    prefix: Box<[u8]>,
    /// The head of what follows in each table's smallest key.
    heads: Box<[u64]>,
    /// The head of each table's largest key, all of it.
    tails: Box<[u64]>,
}

impl SortedRun {
    /// A run of tables that stand by smallest key and do not overlap.
    pub(crate) fn of(tables: Arc<[Arc<TableHandle>]>) -> SortedRun {
        let (prefix, heads) = heads_of(&tables);
        let tails = tables.iter().map(|table| head(&table.meta.bounds.largest)).collect();
        SortedRun { tables, prefix, heads, tails }
    }

    /// As few runs as hold `tables` so that of any two tables that overlap the newer one stands in an
    /// earlier run. `tables` stand newest first, as the runs do.
    pub(crate) fn newest_first(tables: &[Arc<TableHandle>]) -> Vec<SortedRun> {
        // Oldest run first; in each, tables by smallest key.
        let mut runs: Vec<Vec<Arc<TableHandle>>> = Vec::new();
        for table in tables.iter().rev() {
            let bounds = &table.meta.bounds;
            let reaching = |run: &[Arc<TableHandle>]| {
                run.partition_point(|other| other.meta.bounds.ends_before(&bounds.smallest))
            };
            let overlaps = |run: &Vec<Arc<TableHandle>>| {
                run.get(reaching(run)).is_some_and(|other| other.meta.bounds.overlaps(bounds))
            };
            let above = runs.iter().rposition(overlaps).map_or(0, |below| below + 1);
            match runs.get_mut(above) {
                Some(run) => run.insert(reaching(run), Arc::clone(table)),
                None => runs.push(vec![Arc::clone(table)]),
            }
        }
        runs.into_iter().rev().map(|run| SortedRun::of(run.into())).collect()
    }

    /// The tables, by smallest key.
    #[inline]
    pub fn tables(&self) -> &[Arc<TableHandle>] {
        &self.tables
    }

    /// How many tables begin at or before `key`.
    #[inline]
    pub(crate) fn begun(&self, key: &[u8]) -> usize {
        let Some(rest) = strip_prefix(key, &self.prefix) else {
            return if key < &*self.prefix { 0 } else { self.tables.len() };
        };
        let wanted = head(rest);
        let low = self.heads.partition_point(|&head| head < wanted);
        let rest = self.heads.get(low..).unwrap_or_default();
        // Heads pad short keys with zeros, so equal heads decide nothing: look at the keys themselves.
        let ties =
            if rest.first() == Some(&wanted) { rest.partition_point(|&head| head <= wanted) } else { 0 };
        let tied = self.tables.get(low..low + ties).unwrap_or_default();
        low + tied.partition_point(|table| table.meta.bounds.smallest.as_slice() <= key)
    }

    /// Whether all of table `index` lies before `key`.
    #[inline]
    fn ends_before(&self, index: usize, key: &[u8]) -> bool {
        match self.tails.get(index).map(|tail| tail.cmp(&head(key))) {
            Some(Ordering::Greater) => false,
            Some(Ordering::Less) => true,
            _ => self.tables.get(index).is_none_or(|table| table.meta.bounds.ends_before(key)),
        }
    }

    /// The one table whose bounds hold `key`.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<TableHandle>> {
        let last = self.begun(key).checked_sub(1)?;
        if self.ends_before(last, key) { None } else { self.tables.get(last) }
    }

    /// The index of the first table that does not end before `key` (the one that holds it, or else the first
    /// behind it); the number of tables if every one does. A walk forward from `key` begins there.
    #[inline]
    pub fn first_reaching(&self, key: &[u8]) -> usize {
        let begun = self.begun(key);
        match begun.checked_sub(1) {
            Some(last) if !self.ends_before(last, key) => last,
            _ => begun,
        }
    }

    /// The tables that may have a key within `bounds`.
    pub fn meeting(&self, bounds: &Bounds) -> Range<usize> {
        let first = match &bounds.start {
            Bound::Unbounded => 0,
            Bound::Included(start) | Bound::Excluded(start) => self.first_reaching(start),
        };
        let end = match &bounds.end {
            Bound::Unbounded => self.tables.len(),
            Bound::Included(end) => self.begun(end),
            Bound::Excluded(end) => {
                let begun = self.begun(end);
                let last = begun.checked_sub(1).and_then(|last| self.tables.get(last));
                begun - usize::from(last.is_some_and(|table| table.meta.bounds.smallest == *end))
            }
        };
        first..end.max(first)
    }

    /// The index of the last table that begins at or before `key`, if there is one. A walk backwards from
    /// `key` begins there.
    #[inline]
    pub fn last_begun(&self, key: &[u8]) -> Option<usize> {
        self.begun(key).checked_sub(1)
    }
}

/// What the smallest keys of tables in order share, and the heads of what follows.
fn heads_of(tables: &[Arc<TableHandle>]) -> (Box<[u8]>, Box<[u64]>) {
    let (Some(first), Some(last)) = (tables.first(), tables.last()) else { return Default::default() };
    let first = first.meta.bounds.smallest.as_slice();
    // The keys are in order: what the first and the last share, all share.
    let (prefix, _) = first.split_at(shared_prefix(first, &last.meta.bounds.smallest));
    let head_of = |table: &Arc<TableHandle>| table.meta.bounds.smallest.get(prefix.len()..).map_or(0, head);
    (prefix.into(), tables.iter().map(head_of).collect())
}
