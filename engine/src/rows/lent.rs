//! The row on which [`Rows`] stand, and where its key and value lie.
//!
//! Rows lend what a source lends to them, or what they have copied. To ask through the merge each time which of its
//! sources leads, and that one in which block and where, was a fifth of a scan's instructions; so the place is kept
//! beside them. A borrow cannot be kept beside what it borrows from: hence pointers.
//!
//! Invariants:
//! 1. `Rows::standing` and a stand other than [`Stand::Nowhere`] are set by [`Rows::lend`] alone.
//! 2. Whoever is about to move the merge or the run, or to change `Rows::key`, `Rows::value` or `Rows::blobs`, sets the stand to
//!    `Nowhere` first ([`Rows::guard`], `anew`, `run_on`, `run_back`, `next_of_run`), so that also a panic on the way leaves nobody on
//!    a row that is gone.
//! 3. What a row's bytes lie in does not move with the `Rows`: a block, a chunk of an arena, or the buffer of a vector.
//! 4. While there is a run, the merge stands where that began, on the row before its first; it goes to where the run has come
//!    before anything else moves it ([`Rows::end_run`], [`Rows::step_of_leader`]), unless it is sent elsewhere ([`Rows::drop_run`]). The
//!    run has the buffer of that source's key meanwhile; its bytes stay where they are.

#![expect(unsafe_code, reason = "a loan kept beside its lender has no safe form")]

use esker_base::cursor::Lent;
use esker_base::merge::RunStep;
use esker_base::{Cursor, Result};
use esker_sstable::{RowRun, TableCursor};

use super::{Rows, Stand};
use crate::source::Source;

/// Where there are fewer steps than this between two changes of source (the way to another and the way back), to begin and
/// end a run costs more than it saves: three interleaved runs of level 0 took 45 to 50 ns a row with runs and 44 without.
const LONG: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct Standing {
    row: Lent,
    /// The run to which it belongs: the merge stands where it began.
    run: RowRun,
    /// The block in which the run lies; empty where there is none.
    bytes: *const [u8],
    /// Steps since the source changed; and sixteen times the moving average of how many there were between two such changes,
    /// in which the last counts for a sixteenth.
    steps: u32,
    lately: u32,
}

// SAFETY: (1) what it points to belongs to the `Rows` it is part of, or is shared with others who never change it; (2) it
// is read only, through a borrow of those `Rows`. So it may be where they may be.
unsafe impl Send for Standing {}
// SAFETY: as for `Send`.
unsafe impl Sync for Standing {}

impl Standing {
    pub(super) fn nowhere() -> Standing {
        let row = Lent { key: &[], value: &[] };
        Standing { row, run: RowRun::default(), bytes: &[], steps: 0, lately: 16 * LONG }
    }

    /// The run, if there is one, which is to be ended.
    #[inline]
    fn take_run(&mut self) -> Option<&mut RowRun> {
        if self.bytes.is_empty() {
            return None;
        }
        self.bytes = &[];
        self.steps = self.steps.saturating_add(self.run.taken());
        Some(&mut self.run)
    }
}

/// The cursor in whose block the leader's run lies.
#[inline]
fn table_of(leader: &mut Source) -> &mut TableCursor {
    leader.table().expect("only a table has runs")
}

impl Rows {
    /// Stand on a row whose bytes lie there, and count it.
    #[inline(always)]
    pub(super) fn lend(&mut self, stand: Stand, row: Lent) {
        self.cost.keys_read += 1;
        self.cost.bytes_read += (row.key.len() + row.value.len()) as u64;
        self.standing.row = row;
        self.stand = stand;
    }

    /// The leading source has taken a step to a row: count it, and where such steps lately were many, begin the run of what
    /// follows in its block.
    #[inline(always)]
    pub(super) fn begin_run(&mut self) {
        self.standing.steps = self.standing.steps.saturating_add(1);
        if self.standing.lately < 16 * LONG || !self.merge.leads(Source::has_runs) {
            return;
        }
        let (leader, below) = self.merge.leader_below();
        let Some(table) = leader.table() else { return };
        if let Some(bytes) = table.begin_run(below, &mut self.standing.run) {
            self.standing.bytes = bytes;
        }
    }

    /// Another source leads with the next row, or holds its key as well.
    #[inline]
    pub(super) fn is_interrupted(&mut self) {
        self.count_visit();
        let Standing { steps, lately, .. } = &mut self.standing;
        *lately = *lately - *lately / 16 + std::mem::take(steps).min(1 << 16);
    }

    /// Stand on the next row of the run, if there is one; else nowhere, if there is a run.
    #[inline(always)]
    pub(super) fn next_of_run(&mut self) -> bool {
        if !self.standing.run.goes_on() {
            return false;
        }
        // SAFETY: (1) the leading source lent these bytes when the run began, and does so until it moves; (2) whoever moves
        // it ends the run first (`Rows::guard`, `run_on`); (3) a block does not move with the `Rows`, and never changes.
        let bytes = unsafe { &*self.standing.bytes };
        self.stand = Stand::Nowhere;
        let Some((key, value)) = self.standing.run.next(bytes) else { return false };
        let row = Lent { key, value };
        self.lend(Stand::Alone, row);
        true
    }

    /// A step of the leading source from its last row, where there is a run, of which nothing is left, or from the merge's entry.
    #[inline]
    pub(super) fn step_of_leader(&mut self) -> RunStep {
        match self.standing.take_run() {
            Some(run) => self.merge.next_behind_run(|leader| table_of(leader).step_off_run(run)),
            None => self.merge.next_in_run(),
        }
    }

    /// Leave the run, if there is one: the merge goes to its last row.
    #[inline]
    pub(super) fn end_run(&mut self) {
        if let Some(run) = self.standing.take_run() {
            self.merge.lead_on(|leader| table_of(leader).end_run(run));
        }
    }

    /// Run `seek`, which goes elsewhere: where this stood does not matter any more.
    #[inline]
    pub(super) fn anew(&mut self, seek: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.stand = Stand::Nowhere;
        self.drop_run();
        self.guard(|rows, _| {
            rows.begin_walk();
            seek(rows)
        })
    }

    /// Leave the run, if there is one, before the merge is sent elsewhere: its leader stands nowhere then.
    #[inline]
    fn drop_run(&mut self) {
        if let Some(run) = self.standing.take_run() {
            let (leader, _below) = self.merge.leader_below();
            table_of(leader).drop_run(run);
        }
    }

    /// Stand on the merge's entry.
    #[inline]
    pub(super) fn lend_entry(&mut self, stand: Stand) {
        let entry = self.merge.entry();
        self.lend(stand, Lent { key: entry.key, value: entry.value });
    }

    /// Stand on a row whose key and value are copies.
    #[inline]
    pub(super) fn lend_copies(&mut self, stand: Stand) {
        self.lend(stand, Lent { key: self.key.as_slice(), value: self.value.as_slice() });
    }

    /// The row's key.
    #[inline(always)]
    pub(crate) fn key(&self) -> &[u8] {
        assert!(self.valid(), "key() of a cursor that stands on no row");
        // SAFETY: (1) `lend` had a borrow of these bytes; (2) by invariants 1 and 2 nothing that lends them has moved or
        // changed since, for then this would stand nowhere; (3) by invariant 3 they are where they were; (4) nobody
        // can move or change them while the borrow that is handed out lives, since that takes `&mut self`.
        unsafe { &*self.standing.row.key }
    }

    /// The row's value.
    #[inline(always)]
    pub(crate) fn value(&self) -> &[u8] {
        assert!(self.valid(), "value() of a cursor that stands on no row");
        // SAFETY: as for `key`.
        unsafe { &*self.standing.row.value }
    }
}

#[cfg(test)]
mod tests;
