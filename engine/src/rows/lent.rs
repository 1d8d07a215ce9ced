//! The row on which [`Rows`] stand, and where its key and value lie.
//!
//! Rows lend what a source lends to them, or what they have copied. To ask through the merge each time which of its
//! sources leads, and that one in which block and where, was a fifth of a scan's instructions; so the place is kept
//! beside them. A borrow cannot be kept beside what it borrows from: hence pointers.
//!
//! Invariants:
//! 1. `Rows::standing` and a stand other than [`Stand::Nowhere`] are set by [`Rows::lend`] alone.
//! 2. Whoever is about to move the merge, or to change `Rows::key`, `Rows::value` or `Rows::blobs`, sets the stand to `Nowhere` first
//!    ([`Rows::guard`], `run_on`, `run_back`), so that also a panic on the way leaves nobody on a row that is gone.
//! 3. What a row's bytes lie in does not move with the `Rows`: a block, a chunk of an arena, or the buffer of a vector.

#![expect(unsafe_code, reason = "a loan kept beside its lender has no safe form")]

use esker_base::Cursor;
use esker_base::cursor::Lent;

use super::{Rows, Stand};

/// See the module.
#[derive(Debug)]
pub(super) struct Standing(Lent);

// SAFETY: (1) what it points to belongs to the `Rows` it is part of, or is shared with others who never change it; (2) it
// is read only, through a borrow of those `Rows`. So it may be where they may be.
unsafe impl Send for Standing {}
// SAFETY: as for `Send`.
unsafe impl Sync for Standing {}

impl Standing {
    pub(super) fn nowhere() -> Standing {
        Standing(Lent { key: &[], value: &[] })
    }
}

impl Rows {
    /// Stand on a row whose bytes lie there, and count it.
    #[inline(always)]
    pub(super) fn lend(&mut self, stand: Stand, row: Lent) {
        self.cost.keys_read += 1;
        self.cost.bytes_read += (row.key.len() + row.value.len()) as u64;
        self.standing = Standing(row);
        self.stand = stand;
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

    /// Stand on a row whose key is a copy, and whose value was the last to be read from a blob file.
    #[inline]
    pub(super) fn lend_blob(&mut self, stand: Stand) {
        self.lend(stand, Lent { key: self.key.as_slice(), value: self.blobs.last() });
    }

    /// The row's key.
    #[inline(always)]
    pub(crate) fn key(&self) -> &[u8] {
        assert!(self.valid(), "key() of a cursor that stands on no row");
        // SAFETY: (1) `lend` had a borrow of these bytes; (2) by invariants 1 and 2 nothing that lends them has moved or
        // changed since, for then this would stand nowhere; (3) by invariant 3 they are where they were; (4) nobody
        // can move or change them while the borrow that is handed out lives, since that takes `&mut self`.
        unsafe { &*self.standing.0.key }
    }

    /// The row's value.
    #[inline(always)]
    pub(crate) fn value(&self) -> &[u8] {
        assert!(self.valid(), "value() of a cursor that stands on no row");
        // SAFETY: as for `key`.
        unsafe { &*self.standing.0.value }
    }
}

#[cfg(test)]
mod tests;
