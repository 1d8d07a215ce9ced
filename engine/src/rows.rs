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
//! A value in a blob file is read when the walk comes to its row, or lent if the cache holds it, unless nobody wants values ([`apart`]).
//!
//! A range tombstone that hides an entry also hides everything it covers in sources that hold nothing
//! newer than it: those are moved past its end at once instead of stepping through the dead. A run of
//! single tombstones is crossed with the help of what earlier scans have found ([`dead`]).

mod apart;
pub(crate) mod dead;
mod home;
mod lent;
mod progress;
mod reverse;

use std::ops::Bound;
use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::cursor::{EntryView, Lent};
use esker_base::memory;
use esker_base::merge::{Merge, RunStep};
use esker_base::planted::{self, Planted};
use esker_base::range_tombstone::Fragment;
use esker_base::{Cursor, Error, InternalKey, Kind, MergeOperator, OpCost, Result, SeqNo};
use esker_sstable::BlobWalk;

use self::home::Home;
use self::lent::Standing;
use self::progress::{Progress, disorder};
use crate::get::{CHAIN_BYTES_MAX, count_operand};
use crate::operators;
use crate::scan_view::ScanView;
use crate::source::{Source, SourceInfo, Sources};
use crate::transaction::OWN;

/// After this many tombstones in a row more are expected: what it takes to pass them faster ([`Merge::pass_hiding`]) costs
/// as much as passing two.
const LONG_RUN: u32 = 8;

/// Which writes a reader sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// Committed ones up to this number.
    pub(crate) read_seqno: SeqNo,
    /// A transaction's own, before this number of theirs; `ZERO` for none.
    pub(crate) own: SeqNo,
}

impl Sight {
    #[inline]
    fn sees(self, seqno: SeqNo) -> bool {
        seqno <= self.read_seqno || (seqno >= OWN && seqno < self.own)
    }

    /// The largest number that may be seen: where a seek begins.
    #[inline]
    fn largest(self) -> SeqNo {
        self.read_seqno.max(self.own)
    }

    /// The largest number below `unseen`, which is not seen, that may be.
    fn below(self, unseen: SeqNo) -> SeqNo {
        if self.own > OWN && unseen >= self.own { SeqNo(self.own.0 - 1) } else { self.read_seqno }
    }

    /// The newest tombstone of `fragment` that is seen.
    #[inline]
    fn newest(self, fragment: &Fragment) -> Option<SeqNo> {
        fragment.seqnos.iter().copied().find(|&seqno| self.sees(seqno))
    }
}

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
    home: Home,
}

/// What a step in a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Run {
    /// The next row is the leading source's, and nobody else has its key.
    On,
    /// The merge stands on an entry that is to be looked at, or nowhere.
    Ended,
    /// Nothing has moved.
    Stays,
}

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Walk {
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
            home: Home::default(),
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
        self.home.count_seek();
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
        let mut run = Run::Stays;
        if self.stand == Stand::Alone {
            if self.next_of_run() {
                return Ok(());
            }
            run = self.run_on();
        }
        if run == Run::On { Ok(()) } else { self.next_out_of_run(run) }
    }

    /// Step to the row before.
    #[inline]
    pub(crate) fn prev(&mut self) -> Result<()> {
        let run = if self.stand == Stand::AloneReverse { self.run_back() } else { Run::Stays };
        if run == Run::On { Ok(()) } else { self.prev_out_of_run(run) }
    }

    /// A step of the leading source, whose entry leads alone.
    #[inline(never)]
    fn run_on(&mut self) -> Run {
        self.stand = Stand::Nowhere;
        match self.step_of_leader() {
            RunStep::Leads { entry, is_row } if is_row || self.looks_like_row(Bounds::past_end) => {
                self.lend(Stand::Alone, entry);
                self.begin_run();
                Run::On
            }
            RunStep::Ended => {
                self.is_interrupted();
                self.run_on_elsewhere()
            }
            RunStep::Leads { .. } => Run::Ended,
            RunStep::Stays => {
                self.stand = Stand::Alone;
                Run::Stays
            }
        }
    }

    /// Another source leads, or has the leader's key as well. Mostly another run begins where the merge stands now, with an entry
    /// that is a row as it stands.
    #[inline]
    fn run_on_elsewhere(&mut self) -> Run {
        let Some(entry) = self.merge.known_row().or_else(|| self.row_by_looks()) else { return Run::Ended };
        let (passed, alone) = self.merge.pass_older_at_hand();
        self.cost.entries_skipped += passed;
        if !alone {
            return Run::Ended;
        }
        self.lend(Stand::Alone, entry);
        Run::On
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
    fn run_back(&mut self) -> Run {
        self.stand = Stand::Nowhere;
        match self.merge.prev_in_run() {
            RunStep::Leads { entry, is_row }
                if is_row
                    || self.merge.is_behind_distinct() && self.looks_like_row(Bounds::before_start) =>
            {
                self.lend(Stand::AloneReverse, entry);
                Run::On
            }
            RunStep::Leads { .. } => self.run_back_overwritten(),
            RunStep::Ended => {
                self.count_visit();
                self.run_back_elsewhere()
            }
            RunStep::Stays => {
                self.stand = Stand::AloneReverse;
                Run::Stays
            }
        }
    }

    /// The same backwards, on an entry that is not known to be its key's newest.
    #[inline(never)]
    fn run_back_overwritten(&mut self) -> Run {
        if self.pass_overwritten() && self.looks_like_row(Bounds::before_start) {
            self.lend_entry(Stand::AloneReverse);
            return Run::On;
        }
        Run::Ended
    }

    /// The same backwards, where what a newer version hides comes first.
    #[inline]
    fn run_back_elsewhere(&mut self) -> Run {
        if self.has_tombstones {
            return Run::Ended;
        }
        while let Some(entry) = self.merge.known_row().or_else(|| self.row_behind_by_looks()) {
            if self.merge.leads_alone() {
                self.lend(Stand::AloneReverse, entry);
                return Run::On;
            }
            if !self.is_overwritten() || self.merge.prev_in_run() == RunStep::Stays {
                break;
            }
            self.cost.entries_skipped += 1;
        }
        Run::Ended
    }

    /// Step to the next row where that takes more than a step of the leading source.
    #[inline(never)]
    fn next_out_of_run(&mut self, run: Run) -> Result<()> {
        self.guard(|rows, stand| match stand {
            _ if run == Run::Ended => rows.find_forward(false),
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
    fn prev_out_of_run(&mut self, run: Run) -> Result<()> {
        self.guard(|rows, stand| match stand {
            _ if run == Run::Ended => rows.find_reverse(),
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
        if self.run_back_elsewhere() == Run::On { Ok(()) } else { self.find_reverse() }
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

    /// From the merge's position, find the next row. `passed`: entries of `self.key` are old versions
    /// of a key already dealt with.
    #[inline]
    fn find_forward(&mut self, passed: bool) -> Result<()> {
        match self.walk_forward(passed, self.dead_run)? {
            Walk::Done => Ok(()),
            Walk::DeadRun => self.cross_dead_run(true),
        }
    }

    /// [`Rows::find_forward`], over no more than `dead_max` dead rows.
    fn walk_forward(&mut self, mut passed: bool, dead_max: u32) -> Result<Walk> {
        self.stand = Stand::Nowhere;
        let mut dead = 0;
        loop {
            if !self.merge.valid() {
                return Ok(Walk::Done);
            }
            let entry = self.merge.entry();
            if passed && entry.key == self.key.as_slice() {
                self.cost.entries_skipped += self.merge.next_older(SeqNo::ZERO)?;
                continue;
            }
            if self.bounds.past_end(entry.key) {
                return Ok(Walk::Done);
            }
            if !self.sight.sees(entry.seqno) {
                // Written after this reader began; an older version may follow.
                let newest = self.sight.below(entry.seqno);
                self.cost.entries_skipped += self.merge.next_older(newest)?;
                continue;
            }
            if dead == dead_max {
                return Ok(Walk::DeadRun);
            }
            if !self.has_tombstones && entry.kind == Kind::Put {
                self.cost.entries_skipped += self.merge.pass_older()?;
                self.lend_entry(Stand::Alone);
                return Ok(Walk::Done);
            }
            if !self.has_tombstones && entry.kind == Kind::Delete {
                let (more, has_key) = self.pass_dead(dead_max - dead)?;
                dead += more;
                passed = has_key;
                continue;
            }
            self.copy_key();
            passed = true;
            if self.has_tombstones && self.skip_covered()? {
                self.cost.tombstones_skipped += 1;
                dead += 1;
                continue;
            }
            match self.merge.kind() {
                Kind::Put => {
                    self.lend_entry(Stand::OnEntry);
                    return Ok(Walk::Done);
                }
                Kind::BlobPut => return self.stand_apart(),
                Kind::Delete | Kind::RangeDelete => {
                    self.cost.tombstones_skipped += 1;
                    self.merge.next()?;
                    dead += 1;
                }
                Kind::Merge => {
                    self.fold_forward()?;
                    self.lend_copies(Stand::FoldedForward);
                    return Ok(Walk::Done);
                }
            }
        }
    }

    /// Pass the merge's entry, a tombstone, with what it hides, and the tombstones that follow, up to `dead_max` in all; how
    /// many, and whether `self.key` is the last one's key, of which there may be more.
    fn pass_dead(&mut self, dead_max: u32) -> Result<(u32, bool)> {
        let sight = self.sight;
        let bounds = self.bounded.then(|| Arc::clone(&self.bounds));
        let is_dead = |source: &Source| {
            source.kind() == Kind::Delete
                && sight.sees(source.seqno())
                && !bounds.as_ref().is_some_and(|bounds| bounds.past_end(source.key()))
        };
        let mut dead = 0;
        loop {
            if dead >= LONG_RUN {
                let passed = self.merge.pass_hiding(dead_max - dead - 1, is_dead)?;
                self.cost.entries_skipped += passed.hidden;
                dead += passed.leading;
                if !self.merge.leads(is_dead) {
                    break;
                }
            }
            self.cost.entries_skipped += self.merge.pass_older()?;
            dead += 1;
            if dead == dead_max || matches!(self.merge.next_in_run(), RunStep::Stays) {
                self.cost.tombstones_skipped += u64::from(dead);
                self.copy_key();
                self.merge.next()?;
                return Ok((dead, true));
            }
            if !self.merge.leads(is_dead) {
                break;
            }
        }
        self.cost.tombstones_skipped += u64::from(dead);
        Ok((dead, false))
    }

    /// Whether a range tombstone hides the merge's entry. Then everything up to its end that it hides is passed: sources
    /// without anything newer go straight there, the others step over the hidden entry.
    fn skip_covered(&mut self) -> Result<bool> {
        let Some((cover, end)) = cover_of(self.merge.internal_key(), &self.infos, self.sight) else {
            return Ok(false);
        };
        let target = InternalKey::before_all(end);
        let leader = self.merge.leader();
        let infos = &self.infos;
        for (index, source) in self.merge.sources_mut().iter_mut().enumerate() {
            if !source.valid() {
                continue;
            }
            if infos[index].largest_seqno < cover {
                if source.internal_key() < target {
                    self.cost.seeks += 1;
                    self.progress.skip().map_err(|_stuck| disorder(source))?;
                    source.seek(target)?;
                }
            } else if Some(index) == leader {
                source.next()?;
            }
        }
        self.merge.resettle()?;
        Ok(true)
    }

    /// Fold the operands from the merge's position on into `self.value`; the merge moves past them
    /// and past the base.
    fn fold_forward(&mut self) -> Result<()> {
        let (mut operands, mut held) = (Vec::new(), 0);
        self.keep_operand(&mut operands, &mut held)?;
        let mut base: Option<Vec<u8>> = None;
        loop {
            self.merge.next()?;
            if !self.merge.valid() || self.merge.key() != self.key.as_slice() {
                break;
            }
            if !self.sight.sees(self.merge.seqno()) {
                // Between a transaction's own writes and what its snapshot sees.
                self.cost.entries_skipped += 1;
                continue;
            }
            if self.has_tombstones && cover_of(self.merge.internal_key(), &self.infos, self.sight).is_some()
            {
                break;
            }
            match self.merge.kind() {
                Kind::Merge => self.keep_operand(&mut operands, &mut held)?,
                Kind::Put => {
                    base = Some(memory::copied(self.merge.value(), "a value")?);
                    break;
                }
                Kind::BlobPut => {
                    self.read_blob()?;
                    base = Some(memory::copied(self.blobs.last(), "a value")?);
                    break;
                }
                Kind::Delete | Kind::RangeDelete => break,
            }
        }
        let oldest_first: Vec<&[u8]> = operands.iter().rev().map(Vec::as_slice).collect();
        self.value = operators::fold(self.operator.as_ref(), &self.key, base.as_deref(), &oldest_first)?;
        Ok(())
    }

    /// Keep a copy of the merge's operand; `held` counts the bytes of those that came from tables.
    fn keep_operand(&self, operands: &mut Vec<Vec<u8>>, held: &mut usize) -> Result<()> {
        let operand = self.merge.value();
        if self.merge.leader().is_some_and(|leader| self.infos[leader].level.is_some()) {
            count_operand(&self.key, operand, held, self.chain_bytes_max)?;
        }
        operands.push(memory::copied(operand, "a merge operand")?);
        Ok(())
    }
}

/// The newest visible range tombstone that hides `entry`, and where it ends: that may be a long key, which is lent.
fn cover_of<'a>(
    entry: InternalKey<'_>,
    infos: &'a [SourceInfo],
    sight: Sight,
) -> Option<(SeqNo, &'a [u8])> {
    let fragments =
        infos.iter().flat_map(|info| &info.tombstones).filter_map(|t| t.fragment_at(entry.user));
    let covering = fragments.filter_map(|fragment| Some((sight.newest(fragment)?, fragment)));
    let (cover, fragment) = covering.max_by_key(|(cover, _)| *cover)?;
    (cover > entry.seqno).then_some((cover, fragment.end.as_slice()))
}

#[cfg(test)]
mod tests;
