//! A place in an index, and the ways from it to its neighbours.

use esker_base::InternalKey;

use super::super::entry::{Entry, Reach};
use super::node::{NodeRef, Permutation};
/// This many entries are prefetched where a walk may begin.
const ENTRIES_AHEAD: usize = 4;
/// This many entries are prefetched from where a walk begins. Those of later leaves are while it goes through the ones before.
const ENTRIES_BEGUN: usize = 9;

/// A place in an index, with the entry that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    leaf: NodeRef<'a>,
    /// The leaf's permutation when the place was taken; later entries of the leaf are passed by.
    permutation: Permutation,
    rank: usize,
    pub(super) entry: Entry<'a>,
}

#[inline]
pub(super) fn at(leaf: NodeRef<'_>, permutation: Permutation, rank: usize) -> Place<'_> {
    Place { leaf, permutation, rank, entry: leaf.entry(permutation, rank) }
}

/// The first entry of a leaf (no leaf is empty).
#[inline]
pub(super) fn first_of(leaf: NodeRef<'_>) -> Place<'_> {
    at(leaf, leaf.permutation(), 0)
}

/// The first entry not before `target` behind `leaf`, whose range holds `target` (or held it when the reader came to it) and
/// whose entries are all before it.
///
/// Mostly that is the next leaf's first. But a leaf that is full of keys in order gives the rest of its
/// range away, and a reader that came by an older permutation then has to look on. By then that rest may have
/// been divided again, so `target` need not lie in the next leaf's range, nor share its prefix: heads tell
/// where it belongs only in a leaf that has entries on both sides of it.
pub(super) fn first_behind<'a>(leaf: NodeRef<'a>, target: InternalKey<'_>) -> Option<Place<'a>> {
    let mut next = leaf.next()?;
    loop {
        let first = first_of(next);
        if first.entry.compare(target).is_le() {
            return Some(first);
        }
        let permutation = first.permutation;
        if next.entry(permutation, permutation.count() - 1).compare(target).is_le() {
            let (rank, _) = next.find(permutation, target);
            return Some(at(next, permutation, rank));
        }
        next = next.next()?;
    }
}

/// The last entry of a leaf.
#[inline]
pub(super) fn last_of(leaf: NodeRef<'_>) -> Place<'_> {
    let permutation = leaf.permutation();
    at(leaf, permutation, permutation.count() - 1)
}

impl<'a> Place<'a> {
    /// The entry here.
    #[inline]
    pub(super) fn entry(self) -> Entry<'a> {
        self.entry
    }

    /// Whether the user key of `other` is another one.
    #[inline]
    pub(super) fn has_other_key(self, other: Place<'_>) -> bool {
        // Heads mostly decide, and lie in the leaf.
        self.leaf == other.leaf && self.head() != other.head() || self.entry.key() != other.entry.key()
    }

    /// The entry's head in its leaf.
    #[inline]
    fn head(self) -> u64 {
        self.leaf.head(self.permutation, self.rank)
    }

    /// A walk may begin here: prefetch the entries that follow in the leaf, and the leaf behind it.
    #[inline]
    pub(super) fn prefetch_next(self, reach: Reach) {
        self.leaf.prefetch_ranks(self.permutation, self.rank + 1..self.rank + 1 + ENTRIES_AHEAD, reach);
        if let Some(ahead) = self.leaf.next() {
            ahead.prefetch_all(0);
        }
    }

    /// The same for a walk backwards.
    #[inline]
    pub(super) fn prefetch_prev(self, reach: Reach) {
        self.leaf.prefetch_ranks(
            self.permutation,
            self.rank.saturating_sub(ENTRIES_AHEAD)..self.rank,
            reach,
        );
        if let Some(ahead) = self.leaf.previous() {
            ahead.prefetch_all(0);
        }
    }

    /// A walk has begun: prefetch more of what follows, in the next leaf too, where no step has done so yet.
    #[inline(never)]
    pub(super) fn prefetch_begun_next(self, reach: Reach) {
        // Of a leaf that the step before has come to nothing is under way yet.
        let first = if self.rank == 0 { 1 } else { self.rank + ENTRIES_AHEAD };
        let end = self.rank + 1 + ENTRIES_BEGUN;
        self.leaf.prefetch_ranks(self.permutation, first..end, reach);
        if let Some(over) = end.checked_sub(self.permutation.count())
            && let Some(ahead) = self.leaf.next()
        {
            ahead.prefetch_ranks(ahead.permutation(), 0..over, reach);
        }
    }

    /// The same for a walk backwards.
    #[inline(never)]
    pub(super) fn prefetch_begun_prev(self, reach: Reach) {
        let is_last = self.rank + 1 == self.permutation.count();
        let end = if is_last { self.rank } else { (self.rank + 1).saturating_sub(ENTRIES_AHEAD) };
        self.leaf.prefetch_ranks(self.permutation, self.rank.saturating_sub(ENTRIES_BEGUN)..end, reach);
        if let Some(over) = ENTRIES_BEGUN.checked_sub(self.rank)
            && let Some(ahead) = self.leaf.previous()
        {
            let permutation = ahead.permutation();
            let count = permutation.count();
            ahead.prefetch_ranks(permutation, count.saturating_sub(over)..count, reach);
        }
    }

    /// Whether there is a preceding entry, with another user key.
    #[inline]
    pub(super) fn is_behind_distinct(self) -> bool {
        self.before().is_some_and(|before| before.has_other_key(self))
    }

    /// The preceding entry, for one who looks and does not walk on.
    #[inline]
    fn before(self) -> Option<Place<'a>> {
        match self.rank.checked_sub(1) {
            Some(rank) => Some(at(self.leaf, self.permutation, rank)),
            None => self.leaf.previous().map(last_of),
        }
    }

    /// The following entry.
    #[inline(always)]
    pub(super) fn next(self, reach: Reach) -> Option<Place<'a>> {
        let rank = self.rank + 1;
        if rank < self.permutation.count() {
            if let Some(ahead) = self.leaf.next() {
                ahead.prefetch_pair(rank, reach);
            }
            return Some(at(self.leaf, self.permutation, rank));
        }
        first_of_next(self.leaf, reach)
    }

    /// The preceding entry.
    #[inline]
    pub(super) fn prev(self, reach: Reach) -> Option<Place<'a>> {
        if let Some(rank) = self.rank.checked_sub(1) {
            if let Some(ahead) = self.leaf.previous() {
                ahead.prefetch_pair(self.permutation.count() - self.rank, reach);
            }
            return Some(at(self.leaf, self.permutation, rank));
        }
        last_of_previous(self.leaf, reach)
    }
}

/// The first entry of the leaf behind `leaf`, for a walk that goes on there.
#[inline(never)]
fn first_of_next(leaf: NodeRef<'_>, reach: Reach) -> Option<Place<'_>> {
    let leaf = leaf.next()?;
    if let Some(ahead) = leaf.next() {
        ahead.prefetch_pair(0, reach);
        if let Some(further) = ahead.next() {
            further.prefetch_all(0);
        }
    }
    Some(first_of(leaf))
}

/// The last entry of the leaf before `leaf`, for a walk that goes on there.
#[inline(never)]
fn last_of_previous(leaf: NodeRef<'_>, reach: Reach) -> Option<Place<'_>> {
    let leaf = leaf.previous()?;
    if let Some(ahead) = leaf.previous() {
        ahead.prefetch_pair(0, reach);
        if let Some(further) = ahead.previous() {
            further.prefetch_all(0);
        }
    }
    Some(last_of(leaf))
}
