//! Walks over rows that were deleted one by one, before readers do.
//!
//! Until a compaction has met them, tombstones and the rows they hide are walked through by the first scan that comes: 25 to
//! 30 ns each, 70 ms and more for millions, and from then on the range is known to be dead
//! ([`dead_ranges`](crate::dead_ranges)). So while a writer deletes rows that lie together, this finds that out behind it, a
//! thousand deletes a step. It holds nothing up and nothing depends on it. What is not cached it reads, as that first scan
//! would, and leaves out of the cache.

use std::ops::Bound;
use std::sync::{Arc, Weak};

use esker_base::bounds::Bounds;
use esker_base::key::after;
use esker_base::table_meta::KeyBounds;
use esker_base::{KeyspaceId, Result};
use esker_vfs::scheduler::{Job, Progress};

use crate::commit::CommitState;
use crate::core::Core;
use crate::dead_ranges::KeyRange;
use crate::deletes::{DeletedRange, worth_telling};
use crate::rows::Rows;
use crate::scan_view::ScanView;

/// See the module.
pub(super) struct Sweep {
    core: Weak<Core>,
    keyspace: KeyspaceId,
    start: Vec<u8>,
    /// From one to the next is a step; descending.
    ends: Vec<Vec<u8>>,
}

impl Core {
    /// Have the rows that were deleted lately walked over, if they may lie together. Called by the leader of the commit queue.
    #[cold]
    pub(crate) fn sweep(&self, state: &mut CommitState) {
        let Some(deleted) = state.deletes.take() else { return };
        let version = self.versions.current();
        let bounds = deleted.bounds();
        let tree = version.keyspace(deleted.keyspace).map(|state| &state.tree);
        let levels = tree.into_iter().flat_map(|tree| &tree.levels);
        let entries = levels.flat_map(|level| level.overlapping(&bounds)).map(|table| table.meta.entries);
        if !deleted.is_dense_in(entries.sum()) {
            return;
        }
        let KeyBounds { smallest, largest, .. } = bounds;
        let range = KeyRange { start: smallest.clone(), end: Some(after(&largest)) };
        self.dead_ranges.watch(deleted.keyspace, range, &smallest, false, state.last_seqno);
        self.jobs.sweep(deleted);
    }
}

impl Sweep {
    /// A walk over `deleted`, which is watched.
    pub(super) fn new(core: &Arc<Core>, deleted: DeletedRange) -> Sweep {
        let DeletedRange { keyspace, keys: mut ends, .. } = deleted;
        if let Some(last) = ends.last_mut() {
            *last = after(last);
        }
        ends.reverse();
        let start = ends.last().cloned().unwrap_or_default();
        Sweep { core: Arc::downgrade(core), keyspace, start, ends }
    }

    /// Walk through the rows of `range`, and tell what of it was found to be dead. Whether there is nothing more to find in it:
    /// not if the writer had what follows watched meanwhile, since when all of it counts as watched from then on. Left out, this
    /// part would be a gap, and each gap takes one of the few places that there are for ranges.
    fn walk(&self, core: &Arc<Core>, range: KeyRange) -> Result<bool> {
        let superversion = core.current.load_full();
        let read_seqno = superversion.read_seqno(&core.snapshots);
        // What is known already it would not ask for, and its own findings are told below, whole. An operand is the end of what is
        // dead, whatever comes of it.
        let Some(view) = ScanView::new(superversion, self.keyspace, read_seqno) else { return Ok(true) };
        let bounds = Bounds {
            start: Bound::Included(range.start.clone()),
            end: range.end.clone().map_or(Bound::Unbounded, Bound::Excluded),
        };
        let mut rows = Rows::of(&Arc::new(view), Arc::new(bounds))?;
        rows.seek_first()?;
        if rows.cost().tombstones_skipped < worth_telling(core.options.dead_run) {
            return Ok(true);
        }
        let end = if rows.valid() { Some(rows.key().to_vec()) } else { range.end };
        Ok(core.dead_ranges.confirm(self.keyspace, &KeyRange { end, ..range }, read_seqno))
    }
}

impl Job for Sweep {
    fn name(&self) -> &'static str {
        "walk over deleted rows"
    }

    fn step(&mut self) -> Progress {
        let Some(core) = self.core.upgrade().filter(|core| core.health.check().is_ok()) else {
            return Progress::Done;
        };
        let (Some(start), Some(end)) = (self.ends.pop(), self.ends.last()) else {
            core.dead_ranges.unwatch_living(self.keyspace, &self.start);
            return Progress::Done;
        };
        let range = KeyRange { start: start.clone(), end: Some(end.clone()) };
        // Whoever reads what cannot be read hears of it.
        let is_done = self.walk(&core, range).unwrap_or(true);
        if !is_done {
            self.ends.push(start);
        }
        Progress::More
    }

    fn panicked(&mut self, _message: &str) {}
}
