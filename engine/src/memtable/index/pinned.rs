//! A place in an index that keeps the memory it points into alive: what a cursor holds.
//!
//! The lifetimes of places are those of the arena; [`Pinned::lasting`] says why it is sound that they are longer here.

use std::sync::Arc;

use esker_base::cursor::APPROACH_STEPS;
use esker_base::{InternalKey, SeqNo};

use super::super::arena::Arena;
use super::super::entry::{Entry, Reach};
use super::Index;
use super::descent::Way;
use super::place::Place;

/// The first step of an approach goes down to this level at once: the levels above have a few hundred nodes, which are in
/// the processor's caches mostly. Each further step goes down one level, and the last prefetches the entries.
const LEVELS_APART: u8 = APPROACH_STEPS - 2;
/// With this step what was sought turns out to be the beginning of a walk. (Beside other sources of a merge, the first step
/// often only leads to an entry that waits for its turn.)
const BEGINNING_STEP: u8 = 2;
/// Versions of a key that are stepped over before what lies behind them is searched for.
const VERSIONS_STEPPED: u64 = 8;

/// What a walk has cost.
#[derive(Default, Debug)]
pub(in super::super) struct Walked {
    /// Positionings.
    pub(in super::super) seeks: u64,
    /// Versions of a key that steps to another key have passed.
    pub(in super::super) passed: u64,
}

/// A place, or nowhere, that keeps the memory it points into alive.
#[derive(Debug)]
pub(in super::super) struct Pinned {
    /// Never handed out for longer than `self` is borrowed.
    place: Option<Place<'static>>,
    /// How far the way to a place is known that will be sought.
    way: Option<Way<'static>>,
    /// Steps since a place was sought, up to [`BEGINNING_STEP`].
    steps: u8,
    /// What is prefetched of an entry ahead of a walk.
    reach: Reach,
    arena: Arc<Arena>,
}

impl Pinned {
    /// Nowhere, in an index over `arena`, whose entries mostly end within `reach`.
    pub(in super::super) fn nowhere(arena: Arc<Arena>, reach: Reach) -> Self {
        Pinned { place: None, way: None, steps: 0, reach, arena }
    }

    /// `index`, which is to be one over this arena, for as long as the borrower keeps what it finds to itself.
    #[inline]
    fn lasting(&self, index: &Index) -> &'static Index {
        assert!(Arc::ptr_eq(&self.arena, &index.arena), "an index of another memtable");
        // SAFETY: (1) what is found in an index (places, ways) points to nodes and entries alone, all of them in
        // `index.arena`, and not to the index; (2) that is the arena which `self` keeps alive; (3) this is private, used
        // within a call that has `index`, and its callers keep what they find in `place` and `way`, which are private,
        // and what is handed out of them borrows `self`. So the longer lifetime is never used beyond the memory's.
        unsafe { std::mem::transmute::<&Index, &'static Index>(index) }
    }

    /// Come nearer to where a seek to `target` in `index` will look: see [`Cursor::approach`](esker_base::Cursor::approach).
    #[inline]
    pub(in super::super) fn approach(&mut self, index: &Index, target: InternalKey<'_>, step: u8) {
        if step == 0 {
            self.way = Way::begin::<false>(self.lasting(index));
        }
        let Some(way) = &mut self.way else { return };
        match LEVELS_APART.checked_sub(step) {
            Some(level) => way.go_down::<false>(target, level),
            None => {
                if let Some(leaf) = way.leaf() {
                    let permutation = leaf.permutation();
                    let (rank, _) = leaf.find(permutation, target);
                    leaf.prefetch_ranks(permutation, rank.saturating_sub(1)..rank + 1, self.reach);
                }
            }
        }
    }

    /// Stand on the first entry.
    pub(in super::super) fn first(&mut self, index: &Index) {
        self.place = self.lasting(index).first();
        self.may_begin(Place::prefetch_next);
    }

    /// Stand on the last entry.
    pub(in super::super) fn last(&mut self, index: &Index) {
        self.place = self.lasting(index).last();
        self.may_begin(Place::prefetch_prev);
    }

    /// Stand on the first entry not before `target`.
    #[inline]
    pub(in super::super) fn seek(&mut self, index: &Index, target: InternalKey<'_>) {
        let way = self.way.take();
        self.place = self.lasting(index).seek(target, way);
        self.may_begin(Place::prefetch_next);
    }

    /// Stand on the last entry before `target`.
    pub(in super::super) fn seek_before(&mut self, index: &Index, target: InternalKey<'_>) {
        let way = self.way.take();
        self.place = self.lasting(index).seek_before(target, way);
        self.may_begin(Place::prefetch_prev);
    }

    /// A walk may begin here, whose first entries are to be prefetched.
    #[inline]
    fn may_begin(&mut self, prefetch: impl FnOnce(Place<'static>, Reach)) {
        self.steps = 0;
        if let Some(place) = self.place {
            prefetch(place, self.reach);
        }
    }

    /// The place here, which a step leaves. If a walk begins with it, more is to be prefetched.
    #[inline]
    fn leave(&mut self, prefetch: impl FnOnce(Place<'static>, Reach)) -> Option<Place<'static>> {
        let here = self.place?;
        if self.steps < BEGINNING_STEP {
            self.steps += 1;
            if self.steps == BEGINNING_STEP {
                prefetch(here, self.reach);
            }
        }
        Some(here)
    }

    /// The entry here.
    #[inline]
    pub(in super::super) fn entry(&self) -> Option<Entry<'_>> {
        self.place.map(Place::entry)
    }

    /// Go to the following entry.
    #[inline]
    pub(in super::super) fn next(&mut self) {
        self.place = self.leave(Place::prefetch_begun_next).and_then(|here| here.next(self.reach));
    }

    /// Go to the following entry, and on past those of the same user key with a number above `seqno`: step by step, and if
    /// they are many, by a search in `index`. How many steps it took, and whether there was a search.
    #[inline(never)]
    pub(in super::super) fn next_older(&mut self, index: &Index, seqno: SeqNo) -> (u64, bool) {
        let Some(here) = self.place else { return (0, false) };
        for stepped in 1..=VERSIONS_STEPPED {
            self.next();
            let ends = |there: Place<'_>| there.entry.seqno() <= seqno || there.has_other_key(here);
            if self.place.is_none_or(ends) {
                return (stepped, false);
            }
        }
        self.seek(index, InternalKey::new(here.entry.key(), seqno));
        (VERSIONS_STEPPED, true)
    }

    /// Go to the preceding entry.
    #[inline]
    pub(in super::super) fn prev(&mut self) {
        self.place = self.leave(Place::prefetch_begun_prev).and_then(|here| here.prev(self.reach));
    }

    /// Go to the first entry of the following user key, if there is one: past older versions of this one step by step, and if
    /// they are many, by a search in the index; `cost` counts both. Else nothing has moved.
    #[inline]
    pub(in super::super) fn next_distinct<'i>(
        &mut self,
        index: impl FnOnce() -> Option<&'i Index>,
        cost: &mut Walked,
    ) -> Option<Entry<'_>> {
        let here = self.leave(Place::prefetch_begun_next)?;
        let mut there = here.next(self.reach)?;
        let mut versions = 0;
        while !there.has_other_key(here) {
            versions += 1;
            if versions == VERSIONS_STEPPED {
                return self.seek_distinct(index, cost);
            }
            there = there.next(self.reach)?;
        }
        if versions > 0 {
            cost.passed += versions;
        }
        self.place = Some(there);
        Some(there.entry)
    }

    /// [`Pinned::next_distinct`] over so many versions that the steps have not come to an end.
    #[cold]
    #[inline(never)]
    fn seek_distinct<'i>(
        &mut self,
        index: impl FnOnce() -> Option<&'i Index>,
        cost: &mut Walked,
    ) -> Option<Entry<'_>> {
        let here = self.place?;
        let oldest = InternalKey::new(here.entry.key(), SeqNo::ZERO);
        let there = self.lasting(index()?).seek(oldest, None).filter(|there| there.has_other_key(here))?;
        cost.passed += VERSIONS_STEPPED;
        cost.seeks += 1;
        self.place = Some(there);
        self.may_begin(Place::prefetch_next);
        Some(there.entry)
    }

    /// Go to the preceding entry if there is one and it has another user key, which entry then is given; and whether it is known to
    /// be the newest version of that key.
    #[inline]
    pub(in super::super) fn prev_distinct(&mut self) -> Option<(Entry<'_>, bool)> {
        let here = self.leave(Place::prefetch_begun_prev)?;
        let there = here.prev(self.reach).filter(|there| there.has_other_key(here))?;
        self.place = Some(there);
        Some((there.entry, there.is_behind_distinct()))
    }

    /// Go to the last of the puts that precede as versions of the same user key, with numbers not above `seqno`: step by step,
    /// and where they are many, to the newest version if a search in the index, which `cost` counts, finds that it is one. How
    /// many versions were passed.
    #[inline]
    pub(in super::super) fn pass_overwritten<'i>(
        &mut self,
        index: impl FnOnce() -> Option<&'i Index>,
        seqno: SeqNo,
        cost: &mut Walked,
    ) -> u64 {
        let Some(here) = self.place else { return 0 };
        let mut there = here;
        for passed in 0..VERSIONS_STEPPED {
            let overwrites =
                |newer: &Place<'_>| newer.entry.seqno() <= seqno && newer.entry.kind().is_put();
            let before =
                there.prev(self.reach).filter(|before| !before.has_other_key(here)).filter(overwrites);
            let Some(newer) = before else {
                self.place = Some(there);
                return passed;
            };
            there = newer;
        }
        cost.seeks += 1;
        let newest = index().and_then(|index| self.newest(index, here, seqno));
        self.place = newest.or(Some(there));
        VERSIONS_STEPPED
    }

    /// The newest version of the entry at `here` with a number not above `seqno`, if it is a put.
    #[cold]
    fn newest(&self, index: &Index, here: Place<'_>, seqno: SeqNo) -> Option<Place<'static>> {
        let there = self.lasting(index).seek(InternalKey::new(here.entry.key(), seqno), None)?;
        (!there.has_other_key(here) && there.entry.kind().is_put()).then_some(there)
    }

    /// Whether there is a preceding entry, with another user key.
    #[inline]
    pub(in super::super) fn is_behind_distinct(&self) -> bool {
        self.place.is_some_and(Place::is_behind_distinct)
    }
}
