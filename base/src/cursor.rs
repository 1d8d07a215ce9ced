//! The cursor contract: how every sorted source of entries is walked.
//!
//! A cursor stands on one entry or nowhere (`valid() == false`). Entries come in internal-key order:
//! user key ascending, then sequence number descending. Range tombstones are not entries; sources
//! hand them out apart.
//!
//! Rules, for every implementation:
//! 1. A new cursor stands nowhere. `next` and `prev` may only be called while it is valid.
//! 2. Walking off either end makes it invalid; from there only a `seek*` call moves it again.
//! 3. After its first error a cursor is invalid for ever and every later move returns that error.
//! 4. `key` and `value` lend bytes that live until the next move; calling them while invalid is a
//!    programmer's mistake and panics.
//! 5. Direction may change at any step, and costs the same both ways up to a constant. (Only a merge needs
//!    a seek to turn round.)

use crate::{InternalKey, Kind, OpCost, Result, SeqNo};

/// Into how many steps an approach is divided: see [`Cursor::approach`].
pub const APPROACH_STEPS: u8 = 4;

/// A walk over sorted entries. See the module for the rules.
pub trait Cursor {
    /// Stand on the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Stand on the last entry.
    fn seek_last(&mut self) -> Result<()>;
    /// Stand on the first entry at or after `target` in internal order.
    fn seek(&mut self, target: InternalKey<'_>) -> Result<()>;
    /// Stand on the last entry strictly before `target` in internal order.
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()>;
    /// Step to the following entry.
    fn next(&mut self) -> Result<()>;
    /// Step to the preceding entry.
    fn prev(&mut self) -> Result<()>;
    /// Come nearer to where a [`seek`](Cursor::seek) to `target` will look, which has to be the next call:
    /// step `step` of [`APPROACH_STEPS`], counted from 0. Each step has the processor load what the next
    /// one will look at, so that the sources of a merge, which take their steps in turns, do not wait for
    /// memory one after another. The cursor's position is lost. A failure on the way is returned by the
    /// seek.
    #[inline]
    fn approach(&mut self, _target: InternalKey<'_>, _step: u8) {}
    /// The same for a [`seek_before`](Cursor::seek_before).
    #[inline]
    fn approach_before(&mut self, target: InternalKey<'_>, step: u8) {
        self.approach(target, step);
    }
    /// Step to the following entry. Of the entries that follow with the same user key and a number above
    /// `seqno`, any may be left out. Returns how many entries were stepped over, this one among them.
    #[inline]
    fn next_older(&mut self, _seqno: SeqNo) -> Result<u64> {
        self.next().map(|()| 1)
    }
    /// Step to the following user key's first entry if that entry is at hand and known to be that: no I/O,
    /// and it cannot fail. The older versions of this key that lie between are counted in the cost. `None`,
    /// and nothing has moved, if it is not at hand or this is not known.
    #[inline]
    fn next_distinct(&mut self) -> Option<Stepped<'_>> {
        None
    }
    /// Step to the preceding entry, on the same terms, if it has another user key; that entry may be an
    /// older version of its key than the one before it.
    #[inline]
    fn prev_distinct(&mut self) -> Option<Stepped<'_>> {
        None
    }
    /// For a walk backwards, to which a key's versions come oldest first: step to a newer version of this
    /// user key that is a put with a number not above `seqno`; of several that are at hand, to the newest.
    /// No I/O, and it cannot fail. Returns how many entries were passed, all of them older than that put;
    /// 0, and nothing has moved, if there is no such put or this is not known.
    #[inline]
    fn pass_overwritten(&mut self, _seqno: SeqNo) -> u64 {
        0
    }
    /// The entry on which the cursor stands in a walk forward, or `back`, if it is known to be a row ([`Stepped::is_row`]).
    #[inline]
    fn known_row(&self, _back: bool) -> Option<Stepped<'_>> {
        None
    }
    /// Whether the preceding entry is known to have another user key: this one is then the newest version
    /// that the cursor has of its key.
    #[inline]
    fn is_behind_distinct(&self) -> bool {
        false
    }
    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;
    /// The entry's user key.
    fn key(&self) -> &[u8];
    /// The entry's sequence number.
    fn seqno(&self) -> SeqNo;
    /// The entry's kind.
    fn kind(&self) -> Kind;
    /// The entry's value (empty for a tombstone, the operand for a merge).
    fn value(&self) -> &[u8];
    /// Add what this cursor has cost so far to `cost` (blocks, seeks, bytes) and start again at zero.
    fn drain_cost(&mut self, cost: &mut OpCost);

    /// The entry's internal key.
    #[inline]
    fn internal_key(&self) -> InternalKey<'_> {
        InternalKey { user: self.key(), seqno: self.seqno() }
    }

    /// All of the entry at once.
    #[inline]
    fn entry(&self) -> EntryView<'_> {
        EntryView { key: self.key(), seqno: self.seqno(), kind: self.kind(), value: self.value() }
    }
}

/// An entry that a cheap step has led to, with what the cursor knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stepped<'a> {
    /// The head of the user key ([`crate::key::head`]). A cursor that puts its key together knows it sooner than the
    /// key can be read.
    pub head: u64,
    /// The user key.
    pub key: &'a [u8],
    /// Its value or operand.
    pub value: &'a [u8],
    /// True if the cursor knows that this entry is a row of the scan it serves: it is a put, not newer than the scan's
    /// number, not beyond the end of its bounds towards which the step went, and the newest version of its key that this
    /// cursor has. False means that the cursor does not know, not that the entry is no row.
    pub is_row: bool,
}

/// Where the bytes of an entry lie that a cursor lends: a [`Stepped`] without its lifetime, for a caller
/// who keeps it beside the cursor. The bytes may be looked at until the cursor moves or is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// The user key.
    pub key: *const [u8],
    /// Its value or operand.
    pub value: *const [u8],
}

impl From<Stepped<'_>> for Lent {
    #[inline]
    fn from(entry: Stepped<'_>) -> Lent {
        Lent { key: entry.key, value: entry.value }
    }
}

/// How far one source's entries go before what another one holds next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below<'a> {
    /// Entries whose heads are below this one.
    Head(u64),
    /// Entries whose keys are below this one. It has the same head as the entry from which they go on, and
    /// is larger.
    Key(&'a [u8]),
}

/// An entry as a cursor lends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryView<'a> {
    /// The user key.
    pub key: &'a [u8],
    /// The write's number.
    pub seqno: SeqNo,
    /// What the write did.
    pub kind: Kind,
    /// Its value or operand.
    pub value: &'a [u8],
}

/// A sorted `Vec` as a cursor: the reference implementation that tests compare others with, and the
/// source for small in-memory pieces.
#[derive(Clone, Debug, Default)]
pub struct VecCursor {
    entries: Vec<OwnedEntry>,
    /// Index of the current entry; `entries.len()` when invalid.
    at: usize,
}

/// An entry that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedEntry {
    /// The user key.
    pub key: Vec<u8>,
    /// The write's number.
    pub seqno: SeqNo,
    /// What the write did.
    pub kind: Kind,
    /// Its value or operand.
    pub value: Vec<u8>,
}

impl OwnedEntry {
    /// The entry's internal key.
    pub fn internal_key(&self) -> InternalKey<'_> {
        InternalKey { user: &self.key, seqno: self.seqno }
    }
}

impl VecCursor {
    /// A cursor over `entries`, which are sorted first.
    pub fn new(mut entries: Vec<OwnedEntry>) -> Self {
        entries.sort_by(|a, b| a.internal_key().cmp(&b.internal_key()));
        let at = entries.len();
        VecCursor { entries, at }
    }

    fn here(&self) -> &OwnedEntry {
        &self.entries[self.at]
    }

    /// Index of the first entry not before `target`.
    fn lower_bound(&self, target: InternalKey<'_>) -> usize {
        self.entries.partition_point(|e| e.internal_key() < target)
    }
}

impl Cursor for VecCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        self.at = self.entries.len().saturating_sub(1);
        Ok(())
    }
    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.at = self.lower_bound(target);
        Ok(())
    }
    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.at = self.lower_bound(target).checked_sub(1).unwrap_or(self.entries.len());
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        assert!(self.valid(), "next() on a cursor that stands nowhere");
        self.at += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        assert!(self.valid(), "prev() on a cursor that stands nowhere");
        self.at = self.at.checked_sub(1).unwrap_or(self.entries.len());
        Ok(())
    }
    fn next_distinct(&mut self) -> Option<Stepped<'_>> {
        let [here, next] = self.entries.get(self.at..)?.first_chunk()?;
        if here.key == next.key {
            return None;
        }
        self.at += 1;
        let head = crate::key::head(&next.key);
        Some(Stepped { head, key: &next.key, value: &next.value, is_row: false })
    }
    fn prev_distinct(&mut self) -> Option<Stepped<'_>> {
        let before = self.at.checked_sub(1)?;
        let [prev, here] = self.entries.get(before..)?.first_chunk()?;
        if here.key == prev.key {
            return None;
        }
        self.at = before;
        let head = crate::key::head(&prev.key);
        Some(Stepped { head, key: &prev.key, value: &prev.value, is_row: false })
    }
    fn pass_overwritten(&mut self, seqno: SeqNo) -> u64 {
        let here = &self.entries[self.at];
        let newer =
            self.entries[..self.at].iter().rev().take_while(|e| e.key == here.key && e.seqno <= seqno);
        let newest = newer.zip(1..).filter(|(newer, _)| newer.kind.is_put()).last();
        let passed = newest.map_or(0, |(_, passed)| passed);
        self.at -= passed;
        passed as u64
    }
    fn valid(&self) -> bool {
        self.at < self.entries.len()
    }
    fn key(&self) -> &[u8] {
        &self.here().key
    }
    fn seqno(&self) -> SeqNo {
        self.here().seqno
    }
    fn kind(&self) -> Kind {
        self.here().kind
    }
    fn value(&self) -> &[u8] {
        &self.here().value
    }
    fn drain_cost(&mut self, _cost: &mut OpCost) {}
}
