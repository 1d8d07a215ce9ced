//! The versions of one user key on their way through a run.
//!
//! Entries come newest first. Each is dropped, held back or emitted:
//!
//! 1. Hidden by a newer version or a range tombstone in its stripe: dropped (see
//!    [`drop_rules`](crate::drop_rules)).
//! 2. A tombstone with nothing below its key is dropped if it is in the oldest stripe; in a younger
//!    stripe it is held back until an older version that is no tombstone turns out to survive, and dropped
//!    if none does.
//! 3. Merge operands are held back until their base comes, their stripe ends, or the key ends.
//! 4. **Numbers become zero** where nothing lies below the run, for puts that every reader sees. That
//!    keeps every promise of a number. *Unique*: of the versions that every reader sees, one put at most
//!    survives (it hides the others); surviving versions that some reader does not see keep numbers that
//!    are greater than a snapshot's, hence not zero; no version is below; whatever comes later from above is newer, hence
//!    not zero. *Order*: it was the oldest surviving put and stays so. *Range tombstones*: one with a
//!    number below the put's would now hide it; in the run there is none left, because it would be in the
//!    oldest stripe with nothing below, hence spent; above the run there is none, because for any key
//!    what lies higher in the tree is newer (tombstones are clipped to their table's bounds, and tables
//!    of level 0 go down only together with all older ones they overlap). *Snapshots*: none is older than
//!    the put, so no reader, and no transaction (each holds a snapshot), asks whether it is newer than
//!    some number below its own. Level 0 is ordered by numbers and never gets zeros.

use std::sync::Arc;

use bytes::Bytes;
use esker_base::checksum::entry_hash;
use esker_base::planted::{self, Planted};
use esker_base::{Kind, MergeOperator, Result, SeqNo};

use crate::below::Below;
use crate::drop_rules::{RangeDeletes, Stripes, range_hides};
use crate::fold::{OPERAND_BYTES_MAX, Operands};

#[cfg(test)]
mod tests;

/// Where surviving entries go.
pub(crate) trait Emit {
    /// A key greater than every key before begins.
    fn advance(&mut self, key: &[u8]) -> Result<()>;
    /// An entry of the key last advanced to; `hash` is its content hash.
    fn emit(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8], hash: u64) -> Result<()>;
    /// The value of an entry of `key` that lies in a blob file.
    fn value_of(&mut self, key: &[u8], pointer: &[u8]) -> Result<Bytes>;
}

/// What happened to entries, in numbers of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Hidden by a newer version from every reader.
    pub hidden: u64,
    /// Hidden by a range tombstone from every reader.
    pub range_deleted: u64,
    /// Point tombstones with nothing left to hide.
    pub tombstones: u64,
    /// Operands (and bases) that became one value or one operand with another entry.
    pub folded: u64,
}

impl Dropped {
    /// Count `other` too.
    pub(crate) fn add(&mut self, other: Dropped) {
        self.hidden += other.hidden;
        self.range_deleted += other.range_deleted;
        self.tombstones += other.tombstones;
        self.folded += other.folded;
    }

    /// The sum of all.
    pub fn total(&self) -> u64 {
        self.hidden + self.range_deleted + self.tombstones + self.folded
    }
}

/// See the module.
pub(crate) struct Versions {
    stripes: Stripes,
    ranges: RangeDeletes,
    below: Below,
    /// Rule 4 applies.
    zero: bool,
    operator: Option<Arc<dyn MergeOperator>>,
    /// The user key whose versions are coming; meaningless before the first.
    key: Vec<u8>,
    /// Range tombstones over `key`, newest first.
    covering: Vec<SeqNo>,
    /// The last put or delete of `key` that came, kept or not.
    hider: Option<SeqNo>,
    /// Rule 2.
    held_deletes: Vec<SeqNo>,
    /// Rule 3.
    operands: Operands,
    pub(crate) dropped: Dropped,
    /// Numbers that became zero.
    pub(crate) zeroed: u64,
}

impl Versions {
    pub(crate) fn new(
        stripes: Stripes,
        ranges: RangeDeletes,
        below: Below,
        zero: bool,
        operator: Option<Arc<dyn MergeOperator>>,
    ) -> Versions {
        Versions {
            stripes,
            ranges,
            below,
            zero,
            operator,
            key: Vec::new(),
            covering: Vec::new(),
            hider: None,
            held_deletes: Vec::new(),
            operands: Operands::default(),
            dropped: Dropped::default(),
            zeroed: 0,
        }
    }

    /// The key whose versions are coming.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The versions of `key` follow; those of the key before are complete.
    #[inline]
    pub(crate) fn begin(&mut self, key: &[u8], out: &mut impl Emit) -> Result<()> {
        self.end(out)?;
        self.hider = None;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.covering.clear();
        self.covering.extend_from_slice(self.ranges.covering(key));
        out.advance(key)
    }

    /// The next older version of the key.
    #[inline]
    pub(crate) fn entry(
        &mut self,
        seqno: SeqNo,
        kind: Kind,
        value: &[u8],
        hash: u64,
        out: &mut impl Emit,
    ) -> Result<()> {
        if self.hider.is_some_and(|hider| self.stripes.together(seqno, hider)) {
            self.dropped.hidden += 1;
            return Ok(());
        }
        if !self.covering.is_empty() && range_hides(&self.covering, seqno, &self.stripes) {
            self.dropped.range_deleted += 1;
            return Ok(());
        }
        if !self.held_deletes.is_empty() && kind != Kind::Delete {
            self.emit_deletes(out)?;
        }
        match kind {
            Kind::Put | Kind::BlobPut => {
                self.hider = Some(seqno);
                if !self.operands.is_empty() && self.meet_value(seqno, kind, value, out)? {
                    return Ok(());
                }
                self.put(seqno, kind, value, hash, out)
            }
            Kind::Delete => {
                self.hider = Some(seqno);
                if !self.operands.is_empty() && self.meet_base(seqno, None, out)? {
                    return Ok(());
                }
                self.delete(seqno, hash, out)
            }
            _ => self.operand(seqno, kind, value, hash, out),
        }
    }

    /// No version of the key is left: settle what was held back.
    #[inline]
    pub(crate) fn end(&mut self, out: &mut impl Emit) -> Result<()> {
        self.dropped.tombstones += self.held_deletes.len() as u64;
        self.held_deletes.clear();
        if self.operands.is_empty() { Ok(()) } else { self.end_operands(out) }
    }

    #[inline]
    fn put(
        &mut self,
        seqno: SeqNo,
        kind: Kind,
        value: &[u8],
        hash: u64,
        out: &mut impl Emit,
    ) -> Result<()> {
        if self.zero && seqno != SeqNo::ZERO && self.stripes.is_oldest(seqno) {
            self.zeroed += 1;
            return self.emit(SeqNo::ZERO, kind, value, out);
        }
        out.emit(&self.key, seqno, kind, value, hash)
    }

    fn delete(&mut self, seqno: SeqNo, hash: u64, out: &mut impl Emit) -> Result<()> {
        if self.below.may_hold(&self.key) {
            return out.emit(&self.key, seqno, Kind::Delete, &[], hash);
        }
        if self.stripes.is_oldest(seqno) {
            self.dropped.tombstones += 1;
        } else {
            self.held_deletes.push(seqno);
        }
        Ok(())
    }

    /// Something older than the tombstones that are held back survives: they are needed.
    fn emit_deletes(&mut self, out: &mut impl Emit) -> Result<()> {
        for seqno in std::mem::take(&mut self.held_deletes) {
            self.emit(seqno, Kind::Delete, &[], out)?;
        }
        Ok(())
    }

    fn operand(
        &mut self,
        seqno: SeqNo,
        kind: Kind,
        value: &[u8],
        hash: u64,
        out: &mut impl Emit,
    ) -> Result<()> {
        if self.operator.is_none() {
            return out.emit(&self.key, seqno, kind, value, hash);
        }
        let full = self.operands.bytes() + value.len() > OPERAND_BYTES_MAX;
        if !self.operands.is_empty() && (full || !self.joins(seqno)) {
            self.emit_operands(out)?;
        }
        self.operands.push(seqno, value);
        Ok(())
    }

    /// Whether an older version is in the stripe of the operands held back.
    fn joins(&self, seqno: SeqNo) -> bool {
        planted::is(Planted::FoldAcrossSnapshot) || self.stripes.together(seqno, self.operands.oldest())
    }

    /// [`meet_base`](Self::meet_base) of a put, whose value is read only if they are folded.
    fn meet_value(&mut self, seqno: SeqNo, kind: Kind, value: &[u8], out: &mut impl Emit) -> Result<bool> {
        if kind == Kind::BlobPut && self.joins(seqno) {
            let value = out.value_of(&self.key, value)?;
            return self.meet_base(seqno, Some(&value), out);
        }
        self.meet_base(seqno, Some(value), out)
    }

    /// The base of the operands has come: fold them if it is in their stripe, and say whether that was
    /// done. Otherwise they are emitted.
    fn meet_base(&mut self, seqno: SeqNo, base: Option<&[u8]>, out: &mut impl Emit) -> Result<bool> {
        if self.joins(seqno) && self.fold(base, out)? {
            self.dropped.folded += 1;
            return Ok(true);
        }
        self.emit_operands(out)?;
        Ok(false)
    }

    fn end_operands(&mut self, out: &mut impl Emit) -> Result<()> {
        // Versions below the run are older than any range tombstone in it.
        let oldest = self.operands.oldest();
        let deleted = self.covering.last().is_some_and(|&tombstone| tombstone < oldest);
        if (deleted || !self.below.may_hold(&self.key)) && self.fold(None, out)? {
            return Ok(());
        }
        self.emit_operands(out)
    }

    /// Make one put of the operands and `base`, unless the operator refuses.
    fn fold(&mut self, base: Option<&[u8]>, out: &mut impl Emit) -> Result<bool> {
        let Some(operator) = &self.operator else { return Ok(false) };
        let Some(value) = self.operands.fold(&**operator, &self.key, base)? else { return Ok(false) };
        let newest = self.operands.newest();
        self.dropped.folded += self.operands.len() as u64 - 1;
        self.operands.clear();
        let hash = entry_hash(&self.key, newest.0, Kind::Put as u8, &value);
        self.put(newest, Kind::Put, &value, hash, out)?;
        Ok(true)
    }

    fn emit_operands(&mut self, out: &mut impl Emit) -> Result<()> {
        let Some(operator) = &self.operator else { return Ok(()) };
        let combined = self.operands.combined(&**operator, &self.key)?;
        self.dropped.folded += (self.operands.len() - combined.len()) as u64;
        for (seqno, operand) in combined {
            self.emit(seqno, Kind::Merge, &operand, out)?;
        }
        self.operands.clear();
        Ok(())
    }

    /// Emit an entry that is not as it came.
    fn emit(&self, seqno: SeqNo, kind: Kind, value: &[u8], out: &mut impl Emit) -> Result<()> {
        out.emit(&self.key, seqno, kind, value, entry_hash(&self.key, seqno.0, kind as u8, value))
    }
}
