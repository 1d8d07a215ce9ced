//! Walking forwards.
//!
//! The merge comes to a key's newest version first, so the first that the reader sees decides, unless a range tombstone hides it
//! or it is an operand.

use std::sync::Arc;

use esker_base::memory;
use esker_base::merge::RunStep;
use esker_base::{Cursor, InternalKey, Kind, Result, SeqNo};

use super::progress::disorder;
use super::sight::Sight;
use super::{Rows, Stand, WalkEnd};
use crate::get::count_operand;
use crate::operators;
use crate::source::{Source, SourceInfo};

/// After this many tombstones in a row more are expected: what it takes to pass them faster ([`Merge::pass_hiding`]) costs
/// as much as passing two.
const LONG_RUN: u32 = 8;

impl Rows {
    /// From the merge's position, find the next row. `passed`: entries of `self.key` are old versions
    /// of a key already dealt with.
    #[inline]
    pub(super) fn find_forward(&mut self, passed: bool) -> Result<()> {
        match self.walk_forward(passed, self.dead_run)? {
            WalkEnd::Done => Ok(()),
            WalkEnd::DeadRun => self.cross_dead_run(true),
        }
    }

    /// [`Rows::find_forward`], over no more than `dead_max` dead rows.
    pub(super) fn walk_forward(&mut self, mut passed: bool, dead_max: u32) -> Result<WalkEnd> {
        self.stand = Stand::Nowhere;
        let mut dead = 0;
        loop {
            if !self.merge.valid() {
                return Ok(WalkEnd::Done);
            }
            let entry = self.merge.entry();
            if passed && entry.key == self.key.as_slice() {
                self.cost.entries_skipped += self.merge.next_older(SeqNo::ZERO)?;
                continue;
            }
            if self.bounds.past_end(entry.key) {
                return Ok(WalkEnd::Done);
            }
            if !self.sight.sees(entry.seqno) {
                // Written after this reader began; an older version may follow.
                let newest = self.sight.below(entry.seqno);
                self.cost.entries_skipped += self.merge.next_older(newest)?;
                continue;
            }
            if dead == dead_max {
                return Ok(WalkEnd::DeadRun);
            }
            if !self.has_tombstones && entry.kind == Kind::Put {
                self.cost.entries_skipped += self.merge.pass_older()?;
                self.lend_entry(Stand::Alone);
                return Ok(WalkEnd::Done);
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
                    return Ok(WalkEnd::Done);
                }
                Kind::BlobPut => return self.stand_on_blob(),
                Kind::Delete | Kind::RangeDelete => {
                    self.cost.tombstones_skipped += 1;
                    self.merge.next()?;
                    dead += 1;
                }
                Kind::Merge => {
                    self.fold_forward()?;
                    self.lend_copies(Stand::FoldedForward);
                    return Ok(WalkEnd::Done);
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
    pub(super) fn fold_forward(&mut self) -> Result<()> {
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
    pub(super) fn keep_operand(&self, operands: &mut Vec<Vec<u8>>, held: &mut usize) -> Result<()> {
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
