//! The ordered index of one keyspace in one memtable: a B+tree in the arena with one writer and
//! readers that never wait, never validate what they read and (but for the first of a memtable) write nothing.
//!
//! A node has 14 slots of (head, entry); an inner node has a child to the right of each and one before
//! them all. A *head* is the eight key bytes behind the prefix that all keys of the node's range share,
//! so most searches end in the node's first two cache lines. Slots are filled in order of arrival and
//! never change; one word, the node's [`Permutation`], says which slot has which rank, as Masstree's does.
//!
//! Invariants:
//! 1. Once a permutation names a slot, the slot's head and entry never change. A slot's child pointer may
//!    change (see 4). Nodes never go away before the arena does. (Before the first reader comes, there is nobody to see this
//!    broken, and nodes that were replaced are used again: [`nodes`].)
//! 2. A node covers a range of keys, given by the separators above it, and the leaves' ranges follow
//!    each other without gap or overlap. All keys of the range share the node's `prefix_len` bytes.
//! 3. A full node is replaced, not halved: its content goes to two new nodes, links and parent are
//!    turned to them, and the old node stays as it is, for ever. The exception is a node that is full
//!    because keys arrive in order: it stays, and a new node takes over the empty rest of its range.
//! 4. In an inner node, a child is replaced only after the permutation that names its new right sibling
//!    is there.
//!
//! Why a reader finds every entry up to its sequence number `U`, though it may walk through nodes that
//! have been replaced meanwhile. Call a node *good* if it was in the tree at some time after `U` was
//! published. A good node holds every entry up to `U` of its range: had one gone elsewhere, the node
//! would have been replaced before `U` was published. The reader's loads come after that (it loaded `U`
//! with acquire), so the root, child or neighbour it loads is what was there then or later: good, if
//! loaded from a good node, because a replaced node's pointers are what they were when it was replaced.
//! By induction all it ever reaches is good, and by 2 it neither skips nor repeats. A node that gave the
//! rest of its range away after `U` was published has lost nothing up to `U`: that rest was empty. If it
//! was given away before, the reader sees the separator that says so.
//!
//! Why a reader takes the right child: it loads the permutation, then the child, then looks whether the
//! permutation is still the same, and starts again at this node if not. By 4, whoever sees the replacement (release,
//! acquire) sees the new permutation too; whoever sees the old child finds everything good in it.
//!
//! Memory order: whatever makes something reachable (a permutation, a root, a child, a neighbour) is a
//! release store by the writer and an acquire load by readers; the slots behind a permutation are relaxed.
#![expect(unsafe_code, reason = "nodes lie in the arena and point to each other and to entries")]

mod descent;
mod insert;
mod node;
mod nodes;
mod pending;

use std::sync::Arc;

use esker_base::cursor::APPROACH_STEPS;
use esker_base::{InternalKey, SeqNo};

use super::arena::Arena;
use super::entry::{Entry, Reach};
pub(super) use descent::Descent;
use descent::Way;
pub(super) use insert::IndexWriter;
use node::{Link, NodeRef, Permutation};
pub(super) use pending::Pending;

/// An approach goes down to this level at once, a few hundred nodes that are near the processor mostly; then each step goes
/// down one, and the last to the entries.
const LEVELS_APART: u8 = APPROACH_STEPS - 2;

/// This many entries are prefetched where a walk may begin.
const ENTRIES_AHEAD: usize = 4;
/// With this step what was sought turns out to be the beginning of a walk. (Beside other sources of a merge, the first step
/// often only leads to an entry that waits for its turn.)
const BEGINNING_STEP: u8 = 2;
/// This many entries are prefetched from where a walk begins. Those of later leaves are while it goes through the ones before.
const ENTRIES_BEGUN: usize = 9;

/// So many versions of a key are stepped over before what lies behind them is searched for.
const VERSIONS_STEPPED: u64 = 8;

/// What a walk has cost.
#[derive(Default, Debug)]
pub(super) struct Walked {
    /// Positionings.
    pub(super) seeks: u64,
    /// Versions of a key that steps to another key have passed.
    pub(super) passed: u64,
}

/// The entries of one keyspace, in order.
#[derive(Debug)]
pub(super) struct Index {
    /// The top node; none until the first insert.
    root: Link,
    /// The last leaf. The writer's own.
    last: Link,
    /// Where nodes and entries lie: alive for at least as long as any pointer in the tree.
    arena: Arc<Arena>,
}

impl Index {
    /// An empty index over `arena`.
    pub(super) fn new(arena: Arc<Arena>) -> Self {
        Index { root: Link::none(), last: Link::none(), arena }
    }

    /// The leaf whose range holds `target`, with its permutation, for the writer or a reader. If there is a `way` that leads there, it
    /// need not be gone again; for a reader, one that was begun after its number was published.
    #[inline]
    fn leaf<'a, const WRITER: bool>(
        &'a self,
        target: InternalKey<'_>,
        way: Option<Way<'a>>,
    ) -> Option<(NodeRef<'a>, Permutation)> {
        if let Some(leaf) = way.and_then(Way::leaf) {
            return Some((leaf, leaf.permutation()));
        }
        let mut node = self.top::<WRITER>()?;
        for level in (0..node.level()).rev() {
            node = if WRITER { node.child_for(target) } else { node.child_seen_for(target) };
            node.prefetch(level);
        }
        Some((node, node.permutation()))
    }

    /// The top node, if there is one: where every way of the writer, or of a reader, begins.
    #[inline]
    fn top<const WRITER: bool>(&self) -> Option<NodeRef<'_>> {
        if !WRITER {
            self.arena.first_read().note();
        }
        self.root.get()
    }

    /// The newest version of `target.user` with a number not above `target.seqno`.
    #[inline]
    pub(super) fn get(&self, target: InternalKey<'_>) -> Option<Entry<'_>> {
        let (leaf, permutation) = self.leaf::<false>(target, None)?;
        let (rank, same_head) = leaf.find(permutation, target);
        let entry = if rank == permutation.count() {
            // The versions of one key may lie in two leaves.
            first_behind(leaf, target)?.entry
        } else if same_head {
            leaf.entry(permutation, rank)
        } else {
            return None;
        };
        (entry.key() == target.user).then_some(entry)
    }

    /// The first entry not before `target`, on the `way` there.
    #[inline]
    fn seek<'a>(&'a self, target: InternalKey<'_>, way: Option<Way<'a>>) -> Option<Place<'a>> {
        let (leaf, permutation) = self.leaf::<false>(target, way)?;
        let (rank, _) = leaf.find(permutation, target);
        if rank == permutation.count() {
            return first_behind(leaf, target);
        }
        Some(at(leaf, permutation, rank))
    }

    /// The last entry before `target`, on the `way` there.
    fn seek_before<'a>(&'a self, target: InternalKey<'_>, way: Option<Way<'a>>) -> Option<Place<'a>> {
        let (leaf, permutation) = self.leaf::<false>(target, way)?;
        let (rank, _) = leaf.find(permutation, target);
        Some(if rank == 0 { last_of(leaf.previous()?) } else { at(leaf, permutation, rank - 1) })
    }

    /// The first entry.
    fn first(&self) -> Option<Place<'_>> {
        let mut node = self.top::<false>()?;
        while !node.is_leaf() {
            node = node.child(node.permutation(), 0);
        }
        Some(first_of(node))
    }

    /// The last entry.
    fn last(&self) -> Option<Place<'_>> {
        let mut node = self.top::<false>()?;
        while !node.is_leaf() {
            let permutation = node.permutation();
            let child = node.child(permutation, permutation.count());
            if node.permutation() == permutation {
                node = child;
            }
        }
        // A reader that came through a permutation from before an append is one leaf short.
        while let Some(next) = node.next() {
            node = next;
        }
        Some(last_of(node))
    }

    /// The separators of the top two levels of nodes, in order.
    pub(super) fn separators(&self) -> Vec<&[u8]> {
        let mut keys = Vec::new();
        if let Some(root) = self.top::<false>() {
            collect_separators(root, 1, &mut keys);
        }
        keys
    }
}

/// The separators of `node` and of `levels` levels of nodes below it.
fn collect_separators<'a>(node: NodeRef<'a>, levels: usize, keys: &mut Vec<&'a [u8]>) {
    if node.is_leaf() {
        return;
    }
    let permutation = node.permutation();
    for rank in 0..=permutation.count() {
        if levels > 0 {
            collect_separators(node.child(permutation, rank), levels - 1, keys);
        }
        if rank < permutation.count() {
            keys.push(node.entry(permutation, rank).key());
        }
    }
}

/// A place in an index, with the entry that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    leaf: NodeRef<'a>,
    /// The leaf's permutation when the place was taken; later entries of the leaf are passed by.
    permutation: Permutation,
    rank: usize,
    entry: Entry<'a>,
}

#[inline]
fn at(leaf: NodeRef<'_>, permutation: Permutation, rank: usize) -> Place<'_> {
    Place { leaf, permutation, rank, entry: leaf.entry(permutation, rank) }
}

/// The first entry of a leaf (no leaf is empty).
#[inline]
fn first_of(leaf: NodeRef<'_>) -> Place<'_> {
    at(leaf, leaf.permutation(), 0)
}

/// The first entry not before `target` behind `leaf`, whose range holds `target` (or held it when the reader came to it) and
/// whose entries are all before it.
///
/// Mostly that is the next leaf's first. But a leaf that is full of keys in order gives the rest of its
/// range away, and a reader that came by an older permutation then has to look on. By then that rest may have
/// been divided again, so `target` need not lie in the next leaf's range, nor share its prefix: heads tell
/// where it belongs only in a leaf that has entries on both sides of it.
fn first_behind<'a>(leaf: NodeRef<'a>, target: InternalKey<'_>) -> Option<Place<'a>> {
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
fn last_of(leaf: NodeRef<'_>) -> Place<'_> {
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
    fn has_other_key(self, other: Place<'_>) -> bool {
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
    fn prefetch_next(self, reach: Reach) {
        self.leaf.prefetch_ranks(self.permutation, self.rank + 1..self.rank + 1 + ENTRIES_AHEAD, reach);
        if let Some(ahead) = self.leaf.next() {
            ahead.prefetch_all(0);
        }
    }

    /// The same for a walk backwards.
    #[inline]
    fn prefetch_prev(self, reach: Reach) {
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
    fn prefetch_begun_next(self, reach: Reach) {
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
    fn prefetch_begun_prev(self, reach: Reach) {
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
    fn is_behind_distinct(self) -> bool {
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

/// A place, or nowhere, that keeps the memory it points into alive.
#[derive(Debug)]
pub(super) struct Pinned {
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
    pub(super) fn nowhere(arena: Arc<Arena>, reach: Reach) -> Self {
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
    pub(super) fn approach(&mut self, index: &Index, target: InternalKey<'_>, step: u8) {
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
    pub(super) fn first(&mut self, index: &Index) {
        self.place = self.lasting(index).first();
        self.may_begin(Place::prefetch_next);
    }

    /// Stand on the last entry.
    pub(super) fn last(&mut self, index: &Index) {
        self.place = self.lasting(index).last();
        self.may_begin(Place::prefetch_prev);
    }

    /// Stand on the first entry not before `target`.
    #[inline]
    pub(super) fn seek(&mut self, index: &Index, target: InternalKey<'_>) {
        let way = self.way.take();
        self.place = self.lasting(index).seek(target, way);
        self.may_begin(Place::prefetch_next);
    }

    /// Stand on the last entry before `target`.
    pub(super) fn seek_before(&mut self, index: &Index, target: InternalKey<'_>) {
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
    pub(super) fn entry(&self) -> Option<Entry<'_>> {
        self.place.map(Place::entry)
    }

    /// Go to the following entry.
    #[inline]
    pub(super) fn next(&mut self) {
        self.place = self.leave(Place::prefetch_begun_next).and_then(|here| here.next(self.reach));
    }

    /// Go to the following entry, and on past those of the same user key with a number above `seqno`: step by step, and if
    /// they are many, by a search in `index`. How many steps it took, and whether there was a search.
    #[inline(never)]
    pub(super) fn next_older(&mut self, index: &Index, seqno: SeqNo) -> (u64, bool) {
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
    pub(super) fn prev(&mut self) {
        self.place = self.leave(Place::prefetch_begun_prev).and_then(|here| here.prev(self.reach));
    }

    /// Go to the first entry of the following user key, if there is one: past older versions of this one step by step, and if
    /// they are many, by a search in the index; `cost` counts both. Else nothing has moved.
    #[inline]
    pub(super) fn next_distinct<'i>(
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
    pub(super) fn prev_distinct(&mut self) -> Option<(Entry<'_>, bool)> {
        let here = self.leave(Place::prefetch_begun_prev)?;
        let there = here.prev(self.reach).filter(|there| there.has_other_key(here))?;
        self.place = Some(there);
        Some((there.entry, there.is_behind_distinct()))
    }

    /// Go to the last of the puts that precede as versions of the same user key, with numbers not above `seqno`: step by step,
    /// and where they are many, to the newest version if a search in the index, which `cost` counts, finds that it is one. How
    /// many versions were passed.
    #[inline]
    pub(super) fn pass_overwritten<'i>(
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
    pub(super) fn is_behind_distinct(&self) -> bool {
        self.place.is_some_and(Place::is_behind_distinct)
    }
}
