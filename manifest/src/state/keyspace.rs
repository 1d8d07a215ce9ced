//! One keyspace of the state: its tables in ordered sets, level by level.
#![expect(
    clippy::mutable_key_type,
    reason = "a handle's order is that of its description, which never changes"
)]

use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use esker_base::table_meta::TableMeta;
use esker_base::{FileNumber, SeqNo};

use crate::level::Level;
use crate::limits::LEVELS;
use crate::table_handle::TableHandle;
use crate::tree::Tree;
use crate::version::KeyspaceState;

/// One keyspace's tables, and what the last version shows of them.
pub(super) struct Keyspace {
    pub(super) name: Arc<str>,
    newest: BTreeSet<NewestFirst>,
    /// Levels 1 to 6.
    sorted: [BTreeSet<BySmallest>; LEVELS - 1],
    /// What `publish` made last.
    pub(super) published: Arc<KeyspaceState>,
    /// Which levels differ from `published`: bit `n` for level `n`.
    changed: u8,
}

impl Keyspace {
    pub(super) fn new(name: Arc<str>, published: Arc<KeyspaceState>) -> Keyspace {
        Keyspace { name, newest: BTreeSet::new(), sorted: Default::default(), published, changed: 0 }
    }

    fn sorted_level(&self, level: u8) -> Option<&BTreeSet<BySmallest>> {
        self.sorted.get(usize::from(level).checked_sub(1)?)
    }

    fn sorted_level_mut(&mut self, level: u8) -> Option<&mut BTreeSet<BySmallest>> {
        self.sorted.get_mut(usize::from(level).checked_sub(1)?)
    }

    pub(super) fn insert(&mut self, level: u8, table: &Arc<TableHandle>) {
        match self.sorted_level_mut(level) {
            Some(sorted) => sorted.insert(BySmallest(Arc::clone(table))),
            None => self.newest.insert(NewestFirst(Arc::clone(table))),
        };
        self.changed |= 1 << level;
    }

    pub(super) fn remove(&mut self, level: u8, table: &Arc<TableHandle>) {
        match self.sorted_level_mut(level) {
            Some(sorted) => sorted.remove(table.meta.bounds.smallest.as_slice()),
            None => self.newest.remove(&NewestFirst(Arc::clone(table))),
        };
        self.changed |= 1 << level;
    }

    /// A table of a sorted level whose bounds overlap those of `meta`. In level 0 tables may overlap, and
    /// none is returned.
    pub(super) fn overlapping(&self, level: u8, meta: &TableMeta) -> Option<&Arc<TableHandle>> {
        let sorted = self.sorted_level(level)?;
        let smallest = meta.bounds.smallest.as_slice();
        let up_to = (Bound::Unbounded, Bound::Included(smallest));
        let before = sorted.range::<[u8], _>(up_to).next_back().map(|t| &t.0);
        let behind = (Bound::Excluded(smallest), Bound::Unbounded);
        let after = sorted.range::<[u8], _>(behind).next().map(|t| &t.0);
        [before, after].into_iter().flatten().find(|table| table.meta.bounds.overlaps(&meta.bounds))
    }

    /// Every table with its level.
    pub(super) fn tables(&self) -> impl Iterator<Item = (u8, &Arc<TableHandle>)> {
        let newest = self.newest.iter().map(|table| (0, &table.0));
        let sorted = (1u8..).zip(&self.sorted).flat_map(|(n, level)| level.iter().map(move |t| (n, &t.0)));
        newest.chain(sorted)
    }

    /// Make `published` show the tables as they are now.
    pub(super) fn publish(&mut self) {
        if self.changed == 0 {
            return;
        }
        let mut levels = self.published.tree.levels.clone();
        for (number, level) in (0u8..).zip(&mut levels) {
            if self.changed & (1 << number) != 0 {
                *level = match self.sorted_level(number) {
                    Some(sorted) => Level::of(sorted.iter().map(|t| Arc::clone(&t.0)).collect(), true),
                    None => Level::of(self.newest.iter().map(|t| Arc::clone(&t.0)).collect(), false),
                };
            }
        }
        self.changed = 0;
        self.published = Arc::new(KeyspaceState {
            tree: Arc::new(Tree::of(levels)),
            ..KeyspaceState::clone(&self.published)
        });
    }
}

/// A table of a sorted level, ordered by its smallest key.
struct BySmallest(Arc<TableHandle>);

impl Borrow<[u8]> for BySmallest {
    fn borrow(&self) -> &[u8] {
        &self.0.meta.bounds.smallest
    }
}

impl Ord for BySmallest {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.meta.bounds.smallest.cmp(&other.0.meta.bounds.smallest)
    }
}

impl PartialOrd for BySmallest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for BySmallest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for BySmallest {}

/// A table of level 0, ordered as [`Level::newest_first`] orders.
struct NewestFirst(Arc<TableHandle>);

impl NewestFirst {
    fn rank(&self) -> Reverse<(SeqNo, FileNumber)> {
        Reverse((self.0.meta.largest_seqno, self.0.meta.number))
    }
}

impl Ord for NewestFirst {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for NewestFirst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for NewestFirst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for NewestFirst {}
