//! The ordered index of one keyspace in one memtable: a B+tree in the arena with one writer and
//! readers that never wait, never validate what they read and write nothing.
//!
//! A node has 14 slots of (head, entry); an inner node has a child to the right of each and one before
//! them all. A *head* is the eight key bytes behind the prefix that all keys of the node's range share,
//! so most searches end in the node's first two cache lines. Slots are filled in order of arrival and
//! never change; one word, the node's [`Order`], says which slot has which rank.
//!
//! Invariants:
//! 1. Once an order names a slot, the slot's head and entry never change. A slot's child pointer may
//!    change (see 4). Nodes never go away before the arena does.
//! 2. A node covers a range of keys, given by the separators above it, and the leaves' ranges follow
//!    each other without gap or overlap. All keys of the range share the node's `prefix_len` bytes.
//! 3. A full node is replaced, not halved: its content goes to two new nodes, links and parent are
//!    turned to them, and the old node stays as it is, for ever. The exception is a node that is full
//!    because keys arrive in order: it stays, and a new node takes over the empty rest of its range.
//! 4. In an inner node, a child is replaced only after the order that names its new right sibling is
//!    there.
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
//! Why a reader takes the right child: it loads the order, then the child, then looks whether the order
//! is still the same, and starts again at this node if not. By 4, whoever sees the replacement (release,
//! acquire) sees the new order too; whoever sees the old child finds everything good in it.
//!
//! Memory order: whatever makes something reachable (an order, a root, a child, a neighbour) is a
//! release store by the writer and an acquire load by readers; the slots behind an order are relaxed.
#![expect(unsafe_code, reason = "nodes lie in the arena and point to each other and to entries")]

mod descent;
mod insert;
mod node;
mod pending;

use std::sync::Arc;

use esker_base::InternalKey;
use esker_base::key::head;

use super::arena::{Arena, Entry};
pub(super) use descent::Descent;
pub(super) use insert::IndexWriter;
use node::{Link, NodeRef, Order};
pub(super) use pending::Pending;

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

    /// The leaf whose range holds `target`, with its order.
    #[inline]
    fn leaf(&self, target: InternalKey<'_>) -> Option<(NodeRef<'_>, Order)> {
        let mut node = self.root.get()?;
        let mut level = node.level();
        let mut order = node.order();
        while level > 0 {
            let child = node.child(order, node.find_after(order, target));
            let now = node.order();
            if now == order {
                level -= 1;
                node = child;
                node.prefetch(level);
                order = node.order();
            } else {
                // See the module: a child that was replaced since shows in the order.
                order = now;
            }
        }
        Some((node, order))
    }

    /// The newest version of `target.user` with a number not above `target.seqno`.
    #[inline]
    pub(super) fn get(&self, target: InternalKey<'_>) -> Option<Entry<'_>> {
        let (leaf, order) = self.leaf(target)?;
        let (rank, same_head) = leaf.find(order, target);
        let entry = if rank == order.count() {
            // The versions of one key may lie in two leaves.
            first_behind(leaf, target)?.entry
        } else if same_head {
            leaf.entry(order, rank)
        } else {
            return None;
        };
        (entry.key() == target.user).then_some(entry)
    }

    /// Go where a seek to `target` goes, and ask for the entries on either side of it.
    pub(super) fn approach(&self, target: InternalKey<'_>) {
        if let Some((leaf, order)) = self.leaf(target) {
            let (rank, _) = leaf.find(order, target);
            leaf.prefetch_around(order, rank);
        }
    }

    /// The first entry not before `target`.
    #[inline]
    pub(super) fn seek(&self, target: InternalKey<'_>) -> Option<Place<'_>> {
        let (leaf, order) = self.leaf(target)?;
        let (rank, _) = leaf.find(order, target);
        if rank == order.count() { first_behind(leaf, target) } else { Some(at(leaf, order, rank)) }
    }

    /// The last entry before `target`.
    pub(super) fn seek_before(&self, target: InternalKey<'_>) -> Option<Place<'_>> {
        let (leaf, order) = self.leaf(target)?;
        let (rank, _) = leaf.find(order, target);
        if rank == 0 { leaf.previous().map(last_of) } else { Some(at(leaf, order, rank - 1)) }
    }

    /// The first entry.
    pub(super) fn first(&self) -> Option<Place<'_>> {
        let mut node = self.root.get()?;
        while !node.is_leaf() {
            node = node.child(node.order(), 0);
        }
        Some(first_of(node))
    }

    /// The last entry.
    pub(super) fn last(&self) -> Option<Place<'_>> {
        let mut node = self.root.get()?;
        while !node.is_leaf() {
            let order = node.order();
            let child = node.child(order, order.count());
            if node.order() == order {
                node = child;
            }
        }
        // A reader that came through an order from before an append is one leaf short.
        while let Some(next) = node.next() {
            node = next;
        }
        Some(last_of(node))
    }

    /// The separators of the top two levels of nodes, in order.
    pub(super) fn separators(&self) -> Vec<&[u8]> {
        let mut keys = Vec::new();
        if let Some(root) = self.root.get() {
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
    let order = node.order();
    for rank in 0..=order.count() {
        if levels > 0 {
            collect_separators(node.child(order, rank), levels - 1, keys);
        }
        if rank < order.count() {
            keys.push(node.entry(order, rank).key());
        }
    }
}

/// A place in an index, with the entry that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    leaf: NodeRef<'a>,
    /// The leaf's order when the place was taken; later entries of the leaf are passed by.
    order: Order,
    rank: usize,
    entry: Entry<'a>,
}

#[inline]
fn at(leaf: NodeRef<'_>, order: Order, rank: usize) -> Place<'_> {
    Place { leaf, order, rank, entry: leaf.entry(order, rank) }
}

/// The first entry of a leaf (no leaf is empty).
#[inline]
fn first_of(leaf: NodeRef<'_>) -> Place<'_> {
    at(leaf, leaf.order(), 0)
}

/// The first entry not before `target` behind `leaf`, whose range holds `target` and whose entries are
/// all before it.
///
/// Mostly that is the next leaf's first. But a leaf that is full of keys in order gives the rest of its
/// range away, and a reader that came by an older order then has to look on.
fn first_behind<'a>(leaf: NodeRef<'a>, target: InternalKey<'_>) -> Option<Place<'a>> {
    let mut next = leaf.next()?;
    loop {
        let first = first_of(next);
        if first.entry.compare(target).is_le() {
            return Some(first);
        }
        // Now `target` lies in the range that `next` was made for.
        let (rank, _) = next.find(first.order, target);
        if rank < first.order.count() {
            return Some(at(next, first.order, rank));
        }
        next = next.next()?;
    }
}

/// The last entry of a leaf.
#[inline]
fn last_of(leaf: NodeRef<'_>) -> Place<'_> {
    let order = leaf.order();
    at(leaf, order, order.count() - 1)
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
        let (mine, theirs) = (self.entry.key(), other.entry.key());
        // The first eight bytes of neighbours mostly decide, without a call.
        head(mine) != head(theirs) || mine != theirs
    }

    /// The following entry.
    #[inline]
    pub(super) fn next(self) -> Option<Place<'a>> {
        let rank = self.rank + 1;
        if rank < self.order.count() {
            if let Some(ahead) = self.leaf.next() {
                ahead.prefetch_entries(rank);
            }
            return Some(at(self.leaf, self.order, rank));
        }
        first_of_next(self.leaf)
    }

    /// The preceding entry.
    #[inline]
    pub(super) fn prev(self) -> Option<Place<'a>> {
        if let Some(rank) = self.rank.checked_sub(1) {
            if let Some(ahead) = self.leaf.previous() {
                ahead.prefetch_entries(self.order.count() - self.rank);
            }
            return Some(at(self.leaf, self.order, rank));
        }
        last_of_previous(self.leaf)
    }
}

/// The first entry of the leaf behind `leaf`, for a walk that goes on there.
#[inline(never)]
fn first_of_next(leaf: NodeRef<'_>) -> Option<Place<'_>> {
    let leaf = leaf.next()?;
    if let Some(ahead) = leaf.next() {
        ahead.prefetch_entries(0);
        if let Some(further) = ahead.next() {
            further.prefetch_all(0);
        }
    }
    Some(first_of(leaf))
}

/// The last entry of the leaf before `leaf`, for a walk that goes on there.
#[inline(never)]
fn last_of_previous(leaf: NodeRef<'_>) -> Option<Place<'_>> {
    let leaf = leaf.previous()?;
    if let Some(ahead) = leaf.previous() {
        ahead.prefetch_entries(0);
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
    arena: Arc<Arena>,
}

impl Pinned {
    /// Nowhere, in an index over `arena`.
    pub(super) fn nowhere(arena: Arc<Arena>) -> Self {
        Pinned { place: None, arena }
    }

    /// Go where `find` says.
    #[inline]
    pub(super) fn set(&mut self, index: &Index, find: impl for<'a> FnOnce(&'a Index) -> Option<Place<'a>>) {
        assert!(Arc::ptr_eq(&self.arena, &index.arena), "an index of another memtable");
        // SAFETY: (1) a place points to nodes and entries alone, all of them in `index.arena`; (2) that
        // is the arena which `self` keeps alive; (3) `place` is private, and what is handed out of it
        // borrows `self`. So the longer lifetime is never used beyond the memory's.
        self.place =
            unsafe { std::mem::transmute::<Option<Place<'_>>, Option<Place<'static>>>(find(index)) };
    }

    /// The entry here.
    #[inline]
    pub(super) fn entry(&self) -> Option<Entry<'_>> {
        self.place.map(Place::entry)
    }

    /// Go to the following entry.
    #[inline]
    pub(super) fn next(&mut self) {
        self.place = self.place.and_then(Place::next);
    }

    /// Go to the preceding entry.
    #[inline]
    pub(super) fn prev(&mut self) {
        self.place = self.place.and_then(Place::prev);
    }

    /// Go to the following entry if there is one and it has another user key, which entry then is given.
    #[inline]
    pub(super) fn next_distinct(&mut self) -> Option<Entry<'_>> {
        self.step_to_distinct(Place::next)
    }

    /// The same for the preceding entry.
    #[inline]
    pub(super) fn prev_distinct(&mut self) -> Option<Entry<'_>> {
        self.step_to_distinct(Place::prev)
    }

    #[inline]
    fn step_to_distinct(
        &mut self,
        step: impl FnOnce(Place<'static>) -> Option<Place<'static>>,
    ) -> Option<Entry<'_>> {
        let here = self.place?;
        let there = step(here).filter(|there| there.has_other_key(here))?;
        self.place = Some(there);
        Some(there.entry)
    }

    /// Whether there is a preceding entry, with another user key.
    #[inline]
    pub(super) fn is_behind_distinct(&self) -> bool {
        let Some(here) = self.place else { return false };
        here.prev().is_some_and(|before| before.has_other_key(here))
    }
}
