//! The writer's side of the index: inserting, and replacing nodes that are full.

use std::cmp::Ordering;
use std::sync::Arc;

use esker_base::key::shared_prefix;
use esker_base::{InternalKey, Kind};

use super::super::arena::{Arena, ArenaWriter};
use super::super::entry::Entry;
use super::super::spare::SpareChunks;
use super::Index;
use super::descent::Descent;
use super::node::{NodeRef, Permutation, SLOTS};
use super::nodes::Nodes;

/// The most levels a tree can have. Every level but the top multiplies the leaves by seven or so, and
/// there are fewer than 2^48 of them.
const LEVELS_MAX: usize = 24;

/// The right to insert into the indexes over one arena. There is one for each arena.
#[derive(Debug)]
pub(in super::super) struct IndexWriter {
    entries: ArenaWriter,
    nodes: Nodes,
    arena: Arc<Arena>,
}

/// A node on the way from the root to a leaf.
#[derive(Clone, Copy)]
struct Step<'a> {
    node: NodeRef<'a>,
    permutation: Permutation,
    /// Which child the way goes on to, or where in the leaf it ends.
    rank: usize,
    /// The bounds of the node's range; none where it is open.
    start: Option<Entry<'a>>,
    end: Option<Entry<'a>>,
}

/// What a full node became: `left` (perhaps the node itself) and, from `separator` on, `right`.
#[derive(Clone, Copy)]
struct Split<'a> {
    left: NodeRef<'a>,
    separator: Entry<'a>,
    right: NodeRef<'a>,
}

/// One slot's content on its way to a new node. A leaf's slots have no child.
#[derive(Clone, Copy)]
struct Item<'a> {
    entry: Entry<'a>,
    /// The head in the node the item comes from; none if it is new.
    head: u64,
    child: Option<NodeRef<'a>>,
}

impl IndexWriter {
    /// An arena, which shares the `spare` chunks, and the only writer to indexes over it.
    pub(in super::super) fn new(spare: Option<Arc<SpareChunks>>) -> (Arc<Arena>, IndexWriter) {
        let arena = Arc::new(Arena::new(spare));
        let writer = IndexWriter {
            entries: ArenaWriter::of_entries(Arc::clone(&arena)),
            nodes: Nodes::new(Arc::clone(&arena)),
            arena: Arc::clone(&arena),
        };
        (arena, writer)
    }

    /// Write an entry where it stays, for [`link`](Self::link).
    #[inline]
    pub(in super::super) fn write<'a>(
        &mut self,
        index: &'a Index,
        key: InternalKey<'_>,
        kind: Kind,
        value: &[u8],
    ) -> Entry<'a> {
        assert!(Arc::ptr_eq(&self.arena, &index.arena), "an index of another memtable");
        // SAFETY: `index`, which is borrowed for `'a`, holds the arena.
        unsafe { Entry::write(&mut self.entries, key, kind, value) }
    }

    /// Use nodes again that were replaced, if nobody has read them. The caller keeps no [`Descent`], or has done with it.
    #[inline]
    pub(in super::super) fn reclaim(&mut self) {
        self.nodes.reclaim();
    }

    /// Let `entry`, which was written for the index of `descent`, be found. No entry there has the same internal key,
    /// `key`. The descent need not have come to the leaf, nor need that be the right one still: only full ones are
    /// replaced, or give range away, and none is used again before [`reclaim`](Self::reclaim).
    #[inline]
    pub(in super::super) fn link<'a>(
        &mut self,
        descent: &Descent<'a>,
        key: InternalKey<'_>,
        entry: Entry<'a>,
    ) {
        let index = descent.index;
        let leaf = match descent.way {
            None if self.append(index, key, entry) => return,
            way => {
                index.leaf::<true>(key, way).expect("an index that nothing can be appended to has a root").0
            }
        };
        let permutation = leaf.permutation();
        if permutation.count() == SLOTS {
            return self.split(index, key, entry);
        }
        leaf.add(leaf.find(permutation, key).0, leaf.head_of(key.user), entry, None);
    }

    /// [`link`](Self::link), if `entry` comes behind all others.
    #[inline]
    pub(super) fn append<'a>(&mut self, index: &'a Index, key: InternalKey<'_>, entry: Entry<'a>) -> bool {
        if index.last.get().is_some_and(|last| !last.ends_before(key)) {
            return false;
        }
        self.push(index, key, entry);
        true
    }

    /// [`link`](Self::link) for an `entry` that comes behind all others.
    #[inline]
    pub(in super::super) fn push<'a>(&mut self, index: &'a Index, key: InternalKey<'_>, entry: Entry<'a>) {
        let Some(last) = index.last.get() else { return self.plant(index, entry) };
        let permutation = last.permutation();
        if permutation.count() == SLOTS {
            return self.split(index, key, entry);
        }
        last.add(permutation.count(), last.head_of(key.user), entry, None);
    }

    /// The first entry: a root that is a leaf.
    #[cold]
    fn plant(&mut self, index: &Index, entry: Entry<'_>) {
        let leaf = self.nodes.make(index, 0, 0);
        leaf.add(0, leaf.head_of(entry.key()), entry, None);
        index.last.set(leaf);
        index.root.set(leaf);
    }

    /// Insert `entry` where the leaf is full, or was when it was looked for.
    #[cold]
    fn split<'a>(&mut self, index: &'a Index, key: InternalKey<'_>, entry: Entry<'a>) {
        let mut path = [None; LEVELS_MAX];
        let depth = find_path(index, key, &mut path);
        let (leaf, above) = path[..depth].split_last().expect("the path ends in a leaf");
        let leaf = leaf.as_ref().expect("the path is filled up to its depth");
        if leaf.permutation.count() < SLOTS {
            return leaf.node.add(leaf.rank, leaf.node.head_of(key.user), entry, None);
        }
        let (split, in_order) = self.split_leaf(index, leaf, entry);
        link_leaves(index, leaf.node, split);

        let mut old = leaf.node;
        let mut split = split;
        for step in above.iter().rev() {
            let step = step.as_ref().expect("the path is filled up to its depth");
            if step.permutation.count() < SLOTS {
                let head = step.node.head_of(split.separator.key());
                step.node.add(step.rank, head, split.separator, Some(split.right));
                if split.left != old {
                    // After the permutation that names `right`: invariant 4.
                    step.node.set_child(step.permutation, step.rank, split.left);
                }
                return;
            }
            let above = self.split_inner(index, step, old, split, in_order);
            old = step.node;
            split = above;
        }
        let root = self.nodes.make(index, split.left.level() + 1, 0);
        root.set_child(Permutation::sorted(0), 0, split.left);
        root.add(0, root.head_of(split.separator.key()), split.separator, Some(split.right));
        index.root.set(root);
    }

    /// Two leaves for a full one and `entry`; whether the keys seem to arrive in order.
    fn split_leaf<'a>(&mut self, index: &'a Index, step: &Step<'a>, entry: Entry<'a>) -> (Split<'a>, bool) {
        let Step { node, permutation, rank, start, end } = *step;
        // In order: behind the last, which was the latest; and not yet taken for that before, so that
        // keys that descend into a gap do not get a leaf each.
        let in_order = rank == SLOTS
            && !node.appended()
            && (node.next().is_none() || permutation == Permutation::sorted(SLOTS));
        let new = Item { entry, head: node.head_of(entry.key()), child: None };
        if in_order && stays(node, permutation, (start, Some(entry))) {
            let right = self.fill(index, node, (Some(entry), end), &[new]);
            node.set_appended();
            return (Split { left: node, separator: entry, right }, in_order);
        }
        let item = |rank| {
            let (entry, head) = (node.entry(permutation, rank), node.head(permutation, rank));
            Item { entry, head, child: None }
        };
        let items = with_new(item, new, rank);
        let cut = if in_order { SLOTS } else { items.len() / 2 };
        let separator = items[cut].entry;
        let right = self.fill(index, node, (Some(separator), end), &items[cut..]);
        self.nodes.replaced(node);
        let left = self.fill(index, node, (start, Some(separator)), &items[..cut]);
        (Split { left, separator, right }, in_order)
    }

    /// Two inner nodes for a full one whose child `old` was split.
    fn split_inner<'a>(
        &mut self,
        index: &'a Index,
        step: &Step<'a>,
        old: NodeRef<'a>,
        split: Split<'a>,
        in_order: bool,
    ) -> Split<'a> {
        let Step { node, permutation, rank, start, end } = *step;
        let item = |at: usize| Item {
            entry: node.entry(permutation, at),
            head: node.head(permutation, at),
            child: Some(if at + 1 == rank { split.left } else { node.child(permutation, at + 1) }),
        };
        let head = node.head_of(split.separator.key());
        let new = Item { entry: split.separator, head, child: Some(split.right) };
        let items = with_new(item, new, rank);
        let in_order = in_order && rank == SLOTS && !node.appended();
        let cut = if in_order { SLOTS } else { items.len() / 2 };
        let separator = items[cut].entry;
        let right = self.fill(index, node, (Some(separator), end), &items[cut + 1..]);
        right.set_child(Permutation::sorted(0), 0, items[cut].child.expect("inner items have children"));
        // A node whose child was replaced cannot stay: it has no slot left to show that in its permutation.
        let left = if in_order && split.left == old && stays(node, permutation, (start, Some(separator))) {
            node.set_appended();
            node
        } else {
            self.nodes.replaced(node);
            let left = self.fill(index, node, (start, Some(separator)), &items[..cut]);
            let first = if rank == 0 { split.left } else { node.child(permutation, 0) };
            left.set_child(Permutation::sorted(0), 0, first);
            left
        };
        Split { left, separator, right }
    }

    /// A new node of `like`'s level with `items`, for the range `bounds`.
    fn fill<'a>(
        &mut self,
        index: &'a Index,
        like: NodeRef<'a>,
        bounds: (Option<Entry<'a>>, Option<Entry<'a>>),
        items: &[Item<'a>],
    ) -> NodeRef<'a> {
        let longer = match items {
            [] => None,
            [first, .., last] => prefix_for(like, bounds, (first.head, last.head)),
            [only] => prefix_for(like, bounds, (only.head, only.head)),
        };
        let node = self.nodes.make(index, like.level(), longer.unwrap_or(like.prefix_len()));
        for (rank, item) in items.iter().enumerate() {
            let head = if longer.is_some() { node.head_of(item.entry.key()) } else { item.head };
            node.add(rank, head, item.entry, item.child);
        }
        node
    }
}

/// The items of a full node, and `new` at `rank`.
#[inline]
fn with_new<'a>(item: impl Fn(usize) -> Item<'a>, new: Item<'a>, rank: usize) -> [Item<'a>; SLOTS + 1] {
    std::array::from_fn(|at| match at.cmp(&rank) {
        Ordering::Less => item(at),
        Ordering::Equal => new,
        Ordering::Greater => item(at - 1),
    })
}

/// Whether a full node for the range `bounds` is as good as a copy of it would be: its heads tell its items apart, but for a
/// few, or no longer prefix could. Nothing comes to a full node any more, so what it holds decides, not what may yet come.
fn stays(
    node: NodeRef<'_>,
    permutation: Permutation,
    bounds: (Option<Entry<'_>>, Option<Entry<'_>>),
) -> bool {
    const ALIKE_MAX: usize = SLOTS / 4;
    let head = |rank| node.head(permutation, rank);
    let alike = (1..SLOTS).filter(|&rank| head(rank - 1) == head(rank)).count();
    alike <= ALIKE_MAX || prefix_for(node, bounds, (head(0), head(SLOTS - 1))).is_none()
}

/// The longer prefix that a node with items from `first` to `last`, by their heads in `like`, should have than that,
/// which they come from. None if those heads tell the items well apart, for new heads cost a look at every key, or if the
/// bounds share no more.
fn prefix_for(
    like: NodeRef<'_>,
    (start, end): (Option<Entry<'_>>, Option<Entry<'_>>),
    (first, last): (u64, u64),
) -> Option<u16> {
    if (first ^ last).leading_zeros() < 32 {
        return None;
    }
    let shared = shared_prefix(start?.key(), end?.key());
    let shared = u16::try_from(shared).expect("keys are at most 65,535 bytes");
    (shared > like.prefix_len()).then_some(shared)
}

/// Put the leaves that replace `old` between its neighbours.
fn link_leaves(index: &Index, old: NodeRef<'_>, split: Split<'_>) {
    let Split { left, right, .. } = split;
    let (before, after) = (old.previous(), old.next());
    right.set_previous(Some(left));
    right.set_next(after);
    if left != old {
        left.set_previous(before);
        left.set_next(Some(right));
    }
    // From here on readers see them.
    if left == old {
        old.set_next(Some(right));
    } else if let Some(before) = before {
        before.set_next(Some(left));
    }
    match after {
        Some(after) => after.set_previous(Some(right)),
        None => index.last.set(right),
    }
}

/// Fill `path` with the way from the root to the leaf for `key`, and the ranges on it. How many steps it has.
fn find_path<'a>(
    index: &'a Index,
    key: InternalKey<'_>,
    path: &mut [Option<Step<'a>>; LEVELS_MAX],
) -> usize {
    let (mut start, mut end) = (None, None);
    let mut node = index.root.get().expect("an index with a full leaf has a root");
    for (depth, step) in path.iter_mut().enumerate() {
        let permutation = node.permutation();
        if node.is_leaf() {
            let (rank, _) = node.find(permutation, key);
            *step = Some(Step { node, permutation, rank, start, end });
            return depth + 1;
        }
        let rank = node.find_after(permutation, key);
        *step = Some(Step { node, permutation, rank, start, end });
        if rank > 0 {
            start = Some(node.entry(permutation, rank - 1));
        }
        if rank < permutation.count() {
            end = Some(node.entry(permutation, rank));
        }
        node = node.child(permutation, rank);
    }
    panic!("a tree of more than {LEVELS_MAX} levels");
}
