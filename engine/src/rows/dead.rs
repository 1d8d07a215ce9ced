//! Crossing a run of dead rows: ask whether it is known, walk what is not, remember what was found.

use std::ops::Bound;

use esker_base::key::after;
use esker_base::{Cursor, Error, InternalKey, KeyspaceId, Result};

use super::progress::disorder;
use super::{Rows, Stand, WalkEnd};
use crate::core::Core;
use crate::dead_ranges::KeyRange;

/// After this many times [`Rows`]'s `dead_run` a run is worth remembering.
pub(crate) const REMEMBERED_AFTER: u32 = 4;

impl Rows {
    /// `dead_run` dead rows have been passed, the last of them `self.key`, and the merge stands on an entry
    /// that was not looked at: find the next row from there.
    #[cold]
    pub(super) fn cross_dead_run(&mut self, forward: bool) -> Result<()> {
        let Some((keyspace, core)) = self.owner.find() else {
            // The database is closed: nothing is known, and nobody wants to hear.
            return if forward { self.walk_forward(true, u32::MAX) } else { self.walk_reverse(u32::MAX) }
                .map(drop);
        };
        let from = self.key.clone();
        self.cross(&core, keyspace, &from, forward)?;
        // Too late or not, this walk is over: the next one begins later.
        let _in_time =
            core.dead_ranges.confirm(keyspace, &self.dead_since(&from, forward), self.sight.read_seqno);
        Ok(())
    }

    /// Walk to the next row, leaving out what is known to be dead, and have what lies ahead of `from` watched.
    fn cross(&mut self, core: &Core, keyspace: KeyspaceId, from: &[u8], forward: bool) -> Result<()> {
        let read_seqno = self.sight.read_seqno;
        let mut passed = 1;
        loop {
            // What is watched since after this walk's number helps walks that began later. To watch it anew would undo that.
            if passed >= REMEMBERED_AFTER && core.dead_ranges.watched(keyspace, from, &self.key).is_none() {
                self.watch(core, keyspace, from, forward);
            }
            if let Some(range) = core.dead_ranges.dead(keyspace, &self.key, read_seqno)
                && !self.leave(&range, forward)?
            {
                return Ok(());
            }
            let stride = self.dead_run.saturating_mul(REMEMBERED_AFTER - 1);
            // Nobody will look again for what is walked through once it is remembered.
            let since = core.dead_ranges.watched(keyspace, from, &self.key);
            let once = passed >= REMEMBERED_AFTER && since.is_some_and(|since| since <= read_seqno);
            self.keep(!once);
            let walk = if forward { self.walk_forward(true, stride) } else { self.walk_reverse(stride) };
            self.keep(true);
            if walk? == WalkEnd::Done {
                return Ok(());
            }
            passed = REMEMBERED_AFTER;
        }
    }

    /// Whether the cache keeps what is read from now on.
    fn keep(&mut self, keeps: bool) {
        self.merge.sources_mut().iter_mut().for_each(|source| source.keep(keeps));
    }

    /// Move the merge out of a dead range; whether there is anything behind it.
    fn leave(&mut self, range: &KeyRange, forward: bool) -> Result<bool> {
        self.cost.seeks += 1;
        if forward {
            let Some(end) = range.end.as_deref().filter(|end| !self.bounds.past_end(end)) else {
                self.stand = Stand::Nowhere;
                return Ok(false);
            };
            self.progress.leave(end, true).map_err(|_stuck| self.blame())?;
            self.merge.seek(InternalKey::before_all(end))?;
        } else {
            if self.bounds.before_start(&range.start) {
                self.stand = Stand::Nowhere;
                return Ok(false);
            }
            self.progress.leave(&range.start, false).map_err(|_stuck| self.blame())?;
            self.merge.seek_before(InternalKey::before_all(&range.start))?;
        }
        Ok(true)
    }

    /// The error of a walk that the leading source has led back.
    pub(super) fn blame(&mut self) -> Error {
        let leader = self.merge.leader().unwrap_or_default();
        disorder(&self.merge.sources_mut()[leader])
    }

    /// Watch what lies ahead, if no commit is under way just now.
    fn watch(&self, core: &Core, keyspace: KeyspaceId, from: &[u8], forward: bool) {
        let Some(state) = core.commits.try_lock() else { return };
        let range = if forward {
            KeyRange { start: from.to_vec(), end: self.end_of_bounds() }
        } else {
            KeyRange { start: self.start_of_bounds(), end: Some(after(from)) }
        };
        core.dead_ranges.watch(keyspace, range, from, !forward, state.last_seqno);
    }

    /// What was walked through between `from` and the row that this stands on, or the end of the bounds.
    fn dead_since(&self, from: &[u8], forward: bool) -> KeyRange {
        let row = self.valid().then(|| self.key().to_vec());
        if forward {
            KeyRange { start: from.to_vec(), end: row.or_else(|| self.end_of_bounds()) }
        } else {
            let start = row.map_or_else(|| self.start_of_bounds(), |row| after(&row));
            KeyRange { start, end: Some(after(from)) }
        }
    }

    fn end_of_bounds(&self) -> Option<Vec<u8>> {
        match &self.bounds.end {
            Bound::Unbounded => None,
            Bound::Included(end) => Some(after(end)),
            Bound::Excluded(end) => Some(end.clone()),
        }
    }

    fn start_of_bounds(&self) -> Vec<u8> {
        match &self.bounds.start {
            Bound::Unbounded => Vec::new(),
            Bound::Included(start) => start.clone(),
            Bound::Excluded(start) => after(start),
        }
    }
}
