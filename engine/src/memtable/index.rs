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
mod pinned;
mod place;

use std::sync::Arc;

use esker_base::InternalKey;

use super::arena::Arena;
use super::entry::Entry;
pub(super) use descent::Descent;
use descent::Way;
pub(super) use insert::IndexWriter;
use node::{Link, NodeRef, Permutation};
pub(super) use pending::Pending;
pub(super) use pinned::{Pinned, Walked};
use place::{Place, at, first_behind, first_of, last_of};

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
