//! Rows: what a reader sees of the merged sources — for each key its newest visible version, unless a
//! tombstone hides it, with merge operands folded.
//!
//! Forward, the merge stands on the row itself: key and value are lent from the source. Reverse, a
//! key's versions come oldest first, so the walk passes over them and keeps copies ([`reverse`]), unless the entry
//! is known to be the key's only one. A change of direction seeks.
//!
//! Most rows of a tree lie in long runs of one source, each the only version of its key: there a step is
//! one of that source and a comparison with the runner-up's head, or with its key where the heads are equal ([`RunStep`]), and one
//! within a table's block needs no more than the block ([`RowRun`](esker_sstable::RowRun)). Of whole blocks tables know that all their rows
//! are puts which the scan sees, in its bounds, and then none is looked at for that ([`is_row`](esker_base::cursor::Stepped::is_row));
//! memtables know it of each entry to which a step has led.
//!
//! A value in a blob file is read when the walk comes to its row, or lent if the cache holds it, unless nobody wants values ([`blob`]).
//!
//! A range tombstone that hides an entry also hides everything it covers in sources that hold nothing
//! newer than it: those are moved past its end at once instead of stepping through the dead. A run of
//! single tombstones is crossed with the help of what earlier scans have found ([`dead`]).

mod blob;
pub(crate) mod dead;
mod forward;
mod lent;
mod owner;
mod progress;
mod reverse;
mod sight;

use std::ops::Bound;
use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::cursor::{EntryView, Lent};
use esker_base::merge::{Merge, RunStep};
use esker_base::planted::{self, Planted};
use esker_base::{Cursor, Error, InternalKey, Kind, MergeOperator, OpCost, Result, SeqNo};
use esker_sstable::BlobWalk;

use self::lent::Standing;
use self::owner::Owner;
use self::progress::Progress;
pub(crate) use self::sight::Sight;
use crate::get::CHAIN_BYTES_MAX;
use crate::scan_view::ScanView;
use crate::source::{Source, SourceInfo, Sources};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stand {
    /// On no row; the merge's position means nothing.
    Nowhere,
    /// On a row; the merge, walking forward, stands on its entry, which is lent, but for a value in a blob file. Others of its key may follow: where there
    /// are range tombstones, they are not passed ahead.
    OnEntry,
    /// The same, with no entry of the row's key in another source.
    Alone,
    /// On a row; the merge, walking backwards, stands on the only entry of its key, which is lent.
    AloneReverse,
    /// On a row whose value is in `value`; going forward, the merge stands after its versions.
    FoldedForward,
    /// On a row whose key and value are copies; the merge stands before the key's versions.
    Reverse,
}

impl Stand {
    /// Whether the row is the merge's entry, whose key and value are lent, or one of a run.
    #[inline]
    fn lends(self) -> bool {
        matches!(self, Stand::OnEntry | Stand::Alone | Stand::AloneReverse)
    }
}

/// See the module.
pub(crate) struct Rows {
    merge: Merge<Source>,
    infos: Vec<SourceInfo>,
    /// Whether any source has range tombstones.
    has_tombstones: bool,
    sight: Sight,
    bounds: Arc<Bounds>,
    /// Whether either end of the bounds is one.
    bounded: bool,
    operator: Option<Arc<dyn MergeOperator>>,
    stand: Stand,
    /// Where the row's bytes lie.
    standing: Standing,
    /// The row's key where it cannot be lent, or the last key passed.
    key: Vec<u8>,
    /// The row's value where it cannot be lent.
    value: Vec<u8>,
    /// Reads values from blob files.
    blobs: BlobWalk,
    /// Nobody asks for values: those in blob files are not read, and lent as nothing.
    keys_only: bool,
    /// See [`CHAIN_BYTES_MAX`].
    chain_bytes_max: usize,
    cost: OpCost,
    progress: Progress,
    failed: Option<Error>,
    /// Passing this many dead rows in a row takes the walk to [`Rows::cross_dead_run`].
    dead_run: u32,
    /// Who knows of dead ranges, and is told what walks cost.
    owner: Owner,
}

/// What a step in a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RunOutcome {
    /// The next row is the leading source's, and nobody else has its key.
    On,
    /// The merge stands on an entry that is to be looked at, or nowhere.
    Ended,
    /// Nothing has moved.
    Stays,
}

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WalkEnd {
    /// On a row, or nowhere.
    Done,
    /// On an entry that is still to be looked at, after as many dead rows in a row as it was to pass.
    DeadRun,
}

impl Rows {
    /// Those of `view` within `bounds`.
    pub(crate) fn of(view: &Arc<ScanView>, bounds: Arc<Bounds>) -> Result<Rows> {
        let sources = Sources::of(view, &bounds, None)?;
        let own = view.own.as_ref().map_or(SeqNo::ZERO, |(_, upto)| *upto);
        let sight = Sight { read_seqno: view.read_seqno, own };
        let mut rows = Rows::new(sources, sight, bounds, view.operator.clone());
        rows.belong_to(view);
        Ok(rows)
    }

    pub(crate) fn new(
        sources: Sources,
        sight: Sight,
        bounds: Arc<Bounds>,
        operator: Option<Arc<dyn MergeOperator>>,
    ) -> Self {
        let Sources { cursors, infos } = sources;
        let has_tombstones = infos.iter().any(|info| !info.tombstones.is_empty());
        let cost = OpCost { calls: 1, ..OpCost::default() };
        let fragments = infos.iter().flat_map(|info| &info.tombstones).map(|t| t.list().len()).sum();
        Rows {
            progress: Progress::new(cursors.len(), fragments),
            merge: Merge::new(cursors),
            infos,
            has_tombstones,
            sight,
            bounded: !bounds.are_unbounded(),
            bounds,
            operator,
            stand: Stand::Nowhere,
            standing: Standing::nowhere(),
            key: Vec::new(),
            value: Vec::new(),
            blobs: BlobWalk::from_cache(),
            keys_only: false,
            chain_bytes_max: CHAIN_BYTES_MAX,
            cost,
            failed: None,
            dead_run: u32::MAX,
            owner: Owner::default(),
        }
    }

    /// Whether this stands on a row.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.stand != Stand::Nowhere
    }

    /// Somebody sends this elsewhere, or turns it round.
    #[inline]
    fn begin_walk(&mut self) {
        self.cost.seeks += 1;
        self.owner.count_seek();
        self.progress.begin();
    }

    /// What all walks have cost so far.
    pub(crate) fn cost(&mut self) -> OpCost {
        self.merge.drain_cost(&mut self.cost);
        self.cost
    }

    /// Stand on the first row within the bounds.
    pub(crate) fn seek_first(&mut self) -> Result<()> {
        let bounds = Arc::clone(&self.bounds);
        match &bounds.start {
            Bound::Unbounded => self.anew(|rows| {
                rows.merge.seek_first()?;
                rows.find_forward(false)
            }),
            Bound::Included(start) => self.seek(start),
            Bound::Excluded(start) => self.anew(|rows| {
                rows.merge.seek(InternalKey::new(start, SeqNo::ZERO))?;
                rows.set_key(start);
                rows.find_forward(true)
            }),
        }
    }

    /// Stand on the last row within the bounds.
    pub(crate) fn seek_last(&mut self) -> Result<()> {
        let bounds = Arc::clone(&self.bounds);
        match &bounds.end {
            Bound::Unbounded => self.anew(|rows| {
                rows.merge.seek_last()?;
                rows.find_reverse()
            }),
            Bound::Included(end) => self.seek_for_prev(end),
            Bound::Excluded(end) => self.anew(|rows| {
                rows.merge.seek_before(InternalKey::before_all(end))?;
                rows.find_reverse()
            }),
        }
    }

    /// Stand on the first row at or after `key` within the bounds.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.before_start(key) {
            return self.seek_first();
        }
        self.anew(|rows| {
            rows.merge.seek(InternalKey::new(key, rows.sight.largest()))?;
            rows.find_forward(false)
        })
    }

    /// Stand on the last row at or before `key` within the bounds.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if self.bounds.past_end(key) {
            return self.seek_last();
        }
        self.anew(|rows| {
            // The smallest key behind `key`.
            rows.set_key(key);
            rows.key.push(0);
            rows.merge.seek_before(InternalKey::before_all(&rows.key))?;
            rows.find_reverse()
        })
    }

    /// Step to the next row.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        let mut run = RunOutcome::Stays;
        if self.stand == Stand::Alone {
            if self.next_of_run() {
                return Ok(());
            }
            run = self.run_on();
        }
        if run == RunOutcome::On { Ok(()) } else { self.next_out_of_run(run) }
    }

    /// Step to the row before.
    #[inline]
    pub(crate) fn prev(&mut self) -> Result<()> {
        let run = if self.stand == Stand::AloneReverse { self.run_back() } else { RunOutcome::Stays };
        if run == RunOutcome::On { Ok(()) } else { self.prev_out_of_run(run) }
    }

    /// A step of the leading source, whose entry leads alone.
    #[inline(never)]
    fn run_on(&mut self) -> RunOutcome {
        self.stand = Stand::Nowhere;
        match self.step_of_leader() {
            RunStep::Leads { entry, is_row } if is_row || self.looks_like_row(Bounds::past_end) => {
                self.lend(Stand::Alone, entry);
                self.begin_run();
                RunOutcome::On
            }
            RunStep::Ended => {
                self.is_interrupted();
                self.run_on_elsewhere()
            }
            RunStep::Leads { .. } => RunOutcome::Ended,
            RunStep::Stays => {
                self.stand = Stand::Alone;
                RunOutcome::Stays
            }
        }
    }

    /// Another source leads, or has the leader's key as well. Mostly another run begins where the merge stands now, with an entry
    /// that is a row as it stands.
    #[inline]
    fn run_on_elsewhere(&mut self) -> RunOutcome {
        let Some(entry) = self.merge.known_row().or_else(|| self.row_by_looks()) else {
            return RunOutcome::Ended;
        };
        let (passed, alone) = self.merge.pass_older_at_hand();
        self.cost.entries_skipped += passed;
        if !alone {
            return RunOutcome::Ended;
        }
        self.lend(Stand::Alone, entry);
        RunOutcome::On
    }

    /// The merge's entry, if it is a row of which its source does not say so: a memtable does with a cheap step alone.
    #[inline(never)]
    fn row_by_looks(&self) -> Option<Lent> {
        let entry = self.merge.valid().then(|| self.merge.entry())?;
        self.is_row(&entry, Bounds::past_end).then_some(Lent { key: entry.key, value: entry.value })
    }

    /// The same for a walk backwards, if its source has no newer version of the key, to which the walk would come yet.
    #[inline(never)]
    fn row_behind_by_looks(&self) -> Option<Lent> {
        let entry = (self.merge.valid() && self.merge.is_behind_distinct()).then(|| self.merge.entry())?;
        self.is_row(&entry, Bounds::before_start).then_some(Lent { key: entry.key, value: entry.value })
    }

    /// [`Rows::run_on`] backwards.
    #[inline(never)]
    fn run_back(&mut self) -> RunOutcome {
        self.stand = Stand::Nowhere;
        match self.merge.prev_in_run() {
            RunStep::Leads { entry, is_row }
                if is_row
                    || self.merge.is_behind_distinct() && self.looks_like_row(Bounds::before_start) =>
            {
                self.lend(Stand::AloneReverse, entry);
                RunOutcome::On
            }
            RunStep::Leads { .. } => self.run_back_overwritten(),
            RunStep::Ended => {
                self.count_visit();
                self.run_back_elsewhere()
            }
            RunStep::Stays => {
                self.stand = Stand::AloneReverse;
                RunOutcome::Stays
            }
        }
    }

    /// The same backwards, on an entry that is not known to be its key's newest.
    #[inline(never)]
    fn run_back_overwritten(&mut self) -> RunOutcome {
        if self.pass_overwritten() && self.looks_like_row(Bounds::before_start) {
            self.lend_entry(Stand::AloneReverse);
            return RunOutcome::On;
        }
        RunOutcome::Ended
    }

    /// The same backwards, where what a newer version hides comes first.
    #[inline]
    fn run_back_elsewhere(&mut self) -> RunOutcome {
        if self.has_tombstones {
            return RunOutcome::Ended;
        }
        while let Some(entry) = self.merge.known_row().or_else(|| self.row_behind_by_looks()) {
            if self.merge.leads_alone() {
                self.lend(Stand::AloneReverse, entry);
                return RunOutcome::On;
            }
            if !self.is_overwritten() || self.merge.prev_in_run() == RunStep::Stays {
                break;
            }
            self.cost.entries_skipped += 1;
        }
        RunOutcome::Ended
    }

    /// Step to the next row where that takes more than a step of the leading source.
    #[inline(never)]
    fn next_out_of_run(&mut self, run: RunOutcome) -> Result<()> {
        self.guard(|rows, stand| match stand {
            _ if run == RunOutcome::Ended => rows.find_forward(false),
            Stand::Alone | Stand::OnEntry => {
                rows.own_key(stand);
                rows.merge.next()?;
                rows.find_forward(true)
            }
            Stand::FoldedForward => rows.find_forward(true),
            Stand::Reverse | Stand::AloneReverse => {
                rows.own_key(stand);
                rows.begin_walk();
                rows.merge.seek(InternalKey::new(&rows.key, SeqNo::ZERO))?;
                if planted::is(Planted::TurningCursor) && rows.merge.valid() {
                    rows.merge.next()?;
                }
                rows.find_forward(true)
            }
            Stand::Nowhere => panic!("next() of a cursor that stands on no row"),
        })
    }

    /// Step to the row before where that takes more than a step of the leading source.
    #[inline(never)]
    fn prev_out_of_run(&mut self, run: RunOutcome) -> Result<()> {
        self.guard(|rows, stand| match stand {
            _ if run == RunOutcome::Ended => rows.find_reverse(),
            Stand::AloneReverse => {
                rows.merge.prev()?;
                rows.find_before_run()
            }
            Stand::Reverse => rows.find_before_run(),
            Stand::OnEntry | Stand::Alone | Stand::FoldedForward => {
                rows.own_key(stand);
                rows.begin_walk();
                rows.merge.seek_before(InternalKey::before_all(&rows.key))?;
                rows.find_reverse()
            }
            Stand::Nowhere => panic!("prev() of a cursor that stands on no row"),
        })
    }

    /// From the merge's position backwards, where no run is known to go on, find the next row.
    #[inline]
    fn find_before_run(&mut self) -> Result<()> {
        if self.run_back_elsewhere() == RunOutcome::On { Ok(()) } else { self.find_reverse() }
    }

    /// Run `step`, which is told where this stood and finds it standing nowhere; a failure is for ever.
    #[inline]
    fn guard(&mut self, step: impl FnOnce(&mut Self, Stand) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.failed {
            return if planted::is(Planted::HealedCursor) { Ok(()) } else { Err(error.clone()) };
        }
        let stand = std::mem::replace(&mut self.stand, Stand::Nowhere);
        self.end_run();
        let outcome = step(self, stand);
        if let Err(error) = &outcome {
            self.failed = Some(error.clone());
            self.stand = Stand::Nowhere;
        }
        outcome
    }

    #[inline]
    fn set_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    /// Copy the key of the merge's entry.
    #[inline]
    fn copy_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(self.merge.key());
    }

    /// Copy the row's key, if it was lent by the merge's source, which is about to move.
    #[inline]
    fn own_key(&mut self, stand: Stand) {
        if stand.lends() {
            self.copy_key();
        }
    }

    /// Whether the merge's entry is a row as it stands, though the leading source does not say so: a put that the reader sees, and
    /// not `outside` the bounds. The caller has passed all newer entries of its key.
    #[inline(never)]
    fn looks_like_row(&self, outside: impl FnOnce(&Bounds, &[u8]) -> bool) -> bool {
        self.is_row(&self.merge.entry(), outside)
    }

    #[inline]
    fn is_row(&self, entry: &EntryView<'_>, outside: impl FnOnce(&Bounds, &[u8]) -> bool) -> bool {
        entry.kind == Kind::Put
            && self.sight.sees(entry.seqno)
            && (!self.bounded || !outside(&self.bounds, entry.key))
    }
}

#[cfg(test)]
mod tests;
