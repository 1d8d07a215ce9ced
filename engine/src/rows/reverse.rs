//! Walking backwards.
//!
//! The versions of a key come oldest first, so which of them is the row is known when all are passed. Where they are many, it
//! is looked for from the other end.

use std::sync::Arc;

use esker_base::blob::BlobPointer;
use esker_base::{Cursor, InternalKey, Kind, Result, SeqNo};
use esker_sstable::BlobReader;

use super::{Rows, Stand, WalkEnd};
use crate::operators;

/// After so many versions of a key its newest is looked for.
const VERSIONS_PASSED: u32 = 8;

/// What the newest version of a key has come to.
enum Newest {
    NoRow,
    /// A row with its value in `Rows::value`.
    Copied,
    /// A row with its value in a blob file, which was the last to be read if anybody wants values.
    Apart,
}

/// What the versions of a key that were passed so far come to.
#[derive(Default)]
struct Collected {
    /// There is a value: in `Rows::value`, or in a blob file.
    found: bool,
    /// The value lies in a blob file: it is read once it is known to be the newest.
    blob: Option<(Arc<BlobReader>, BlobPointer)>,
    /// Operands since the last put or delete, oldest first.
    operands: Vec<Vec<u8>>,
    /// Memory that those of them take that are from tables, in bytes.
    held: usize,
}

impl Collected {
    /// A put or a delete hides whatever is older.
    fn begin_anew(&mut self, found: bool) {
        self.found = found;
        self.blob = None;
        self.operands.clear();
        self.held = 0;
    }
}

impl Rows {
    /// From the merge's position backwards, find the next row. The merge stands on the oldest entry
    /// of some key, or nowhere.
    #[inline]
    pub(super) fn find_reverse(&mut self) -> Result<()> {
        match self.walk_reverse(self.dead_run)? {
            WalkEnd::Done => Ok(()),
            WalkEnd::DeadRun => self.cross_dead_run(false),
        }
    }

    /// [`Rows::find_reverse`], over no more than `dead_max` dead rows.
    pub(super) fn walk_reverse(&mut self, dead_max: u32) -> Result<WalkEnd> {
        self.stand = Stand::Nowhere;
        let mut dead = 0;
        loop {
            if !self.merge.valid() || self.bounds.before_start(self.merge.key()) {
                return Ok(WalkEnd::Done);
            }
            if dead == dead_max {
                return Ok(WalkEnd::DeadRun);
            }
            if !self.has_tombstones && (self.merge.is_behind_distinct() || self.pass_overwritten()) {
                if self.is_overwritten() {
                    self.cost.entries_skipped += 1;
                    self.merge.prev()?;
                    continue;
                }
                if self.merge.leads_alone() && self.looks_like_row(|_, _| false) {
                    self.lend_entry(Stand::AloneReverse);
                    return Ok(WalkEnd::Done);
                }
            }
            self.copy_key();
            if self.collect_reverse()? {
                return Ok(WalkEnd::Done);
            }
            dead += 1;
        }
    }

    /// Where there are no range tombstones, pass what the leading source knows to be overwritten by one of its own puts;
    /// whether the merge then stands on its leader's newest version of a key.
    pub(super) fn pass_overwritten(&mut self) -> bool {
        let passed = self.merge.pass_overwritten(self.sight.read_seqno);
        self.cost.entries_skipped += passed;
        passed > 0 && self.merge.is_behind_distinct()
    }

    /// Whether another source has a put of the merge's key that is seen and, since the walk goes backwards, newer.
    #[inline]
    pub(super) fn is_overwritten(&self) -> bool {
        !self.merge.leads_alone()
            && self
                .merge
                .second()
                .is_some_and(|newer| newer.kind().is_put() && self.sight.sees(newer.seqno()))
    }

    /// Pass over all versions of `self.key`, oldest first, and stand on its row; whether there is one.
    fn collect_reverse(&mut self) -> Result<bool> {
        let mut collected = Collected::default();
        let cover = if self.has_tombstones { self.newest_cover() } else { SeqNo::ZERO };
        let mut passed = 0;
        while self.merge.valid() && self.merge.key() == self.key.as_slice() {
            if passed == VERSIONS_PASSED {
                return self.collect_from_newest(cover);
            }
            passed += 1;
            let seqno = self.merge.seqno();
            if !self.sight.sees(seqno) {
                self.cost.entries_skipped += 1;
            } else if seqno < cover {
                self.cost.tombstones_skipped += 1;
            } else {
                match self.merge.kind() {
                    Kind::Put => {
                        self.cost.entries_skipped += u64::from(collected.found);
                        collected.begin_anew(true);
                        self.value.clear();
                        self.value.extend_from_slice(self.merge.value());
                    }
                    Kind::BlobPut => {
                        self.cost.entries_skipped += u64::from(collected.found);
                        collected.begin_anew(true);
                        let leader = self.merge.leader().expect("the merge stands on an entry");
                        let (reader, pointer) = self.merge.sources()[leader].blob()?;
                        collected.blob = Some((Arc::clone(reader), pointer));
                    }
                    Kind::Delete | Kind::RangeDelete => {
                        self.cost.tombstones_skipped += 1;
                        collected.begin_anew(false);
                    }
                    // Too long a chain, unless something newer hides it: the newest come first from the other side.
                    Kind::Merge => {
                        let Collected { operands, held, .. } = &mut collected;
                        if self.keep_operand(operands, held).is_err() {
                            return self.collect_from_newest(cover);
                        }
                    }
                }
            }
            self.merge.prev()?;
        }
        self.stand_on_collected(&collected)
    }

    /// Stand on the row of `self.key`, whose versions have come to `collected`; whether there is one.
    ///
    /// Operands are folded whoever asks: that this works is part of what a walk says.
    fn stand_on_collected(&mut self, collected: &Collected) -> Result<bool> {
        let Collected { found, blob, operands, .. } = collected;
        let wanted = blob.as_ref().filter(|_| !self.keys_only || !operands.is_empty());
        if let Some((reader, pointer)) = wanted {
            self.blobs.value(reader, &self.key, pointer, &mut self.cost)?;
        }
        if !operands.is_empty() {
            let value = if blob.is_some() { self.blobs.last() } else { &self.value };
            let base = found.then_some(value);
            let oldest_first: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
            self.value = operators::fold(self.operator.as_ref(), &self.key, base, &oldest_first)?;
            self.lend_copies(Stand::Reverse);
        } else if blob.is_some() {
            self.lend_blob(Stand::Reverse);
        } else if *found {
            self.lend_copies(Stand::Reverse);
        }
        Ok(self.valid())
    }

    /// Stand on the row of `self.key`, found from the newest of its versions on, and have the merge stand before all of
    /// them; whether there is a row. A range tombstone hides those below `cover`.
    #[cold]
    fn collect_from_newest(&mut self, cover: SeqNo) -> Result<bool> {
        self.progress.round(&self.key).map_err(|_stuck| self.blame())?;
        self.cost.seeks += 2;
        self.merge.seek(InternalKey::new(&self.key, self.sight.largest()))?;
        let newest = self.read_newest(cover)?;
        self.merge.seek_before(InternalKey::before_all(&self.key))?;
        match newest {
            Newest::NoRow => {}
            Newest::Copied => self.lend_copies(Stand::Reverse),
            Newest::Apart => self.lend_blob(Stand::Reverse),
        }
        Ok(self.valid())
    }

    /// Going forward from the merge's position, read the newest version of `self.key` that is seen.
    fn read_newest(&mut self, cover: SeqNo) -> Result<Newest> {
        while self.merge.valid() && self.merge.key() == self.key.as_slice() {
            let seqno = self.merge.seqno();
            if !self.sight.sees(seqno) {
                self.cost.entries_skipped += self.merge.next_older(self.sight.below(seqno))?;
                continue;
            }
            if seqno < cover {
                self.cost.tombstones_skipped += 1;
                return Ok(Newest::NoRow);
            }
            match self.merge.kind() {
                Kind::Put => {
                    self.value.clear();
                    self.value.extend_from_slice(self.merge.value());
                }
                Kind::BlobPut => {
                    if !self.keys_only {
                        self.read_blob()?;
                    }
                    return Ok(Newest::Apart);
                }
                Kind::Delete | Kind::RangeDelete => {
                    self.cost.tombstones_skipped += 1;
                    return Ok(Newest::NoRow);
                }
                Kind::Merge => self.fold_forward()?,
            }
            return Ok(Newest::Copied);
        }
        Ok(Newest::NoRow)
    }

    /// The newest visible range tombstone over `self.key`.
    fn newest_cover(&self) -> SeqNo {
        let tombstones = self.infos.iter().flat_map(|info| &info.tombstones);
        tombstones.filter_map(|t| self.sight.newest(t.fragment_at(&self.key)?)).max().unwrap_or(SeqNo::ZERO)
    }
}
