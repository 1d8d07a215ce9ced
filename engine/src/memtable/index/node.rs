//! A node of the tree: its layout, its permutation word, the search in it.
//!
//! Layout on 64-bit machines, by cache lines: 0–1 permutation, prefix length, level and heads; 2–3 entries,
//! neighbours (leaf) or first child (inner); 4–5 the other children (inner only).

use std::alloc::Layout;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use esker_base::InternalKey;
use esker_base::key::head;
use esker_base::sync::atomic::{self, AtomicBool, AtomicPtr, AtomicU64};
use esker_vfs::os::memory::prefetch;

use super::super::entry::{Entry, Reach};

/// Entries of a leaf, separators of an inner node. Models explore a smaller tree.
pub(super) const SLOTS: usize = if cfg!(loom) { 3 } else { 14 };

/// How many slots of a node are filled, and which slot has which rank: the count in the lowest four
/// bits, then four bits a rank. So one store puts a new slot among the others.
///
/// This is the permutation of Masstree's border nodes: Mao, Kohler and Morris, "Cache Craftiness for Fast Multicore
/// Key-Value Storage", EuroSys 2012, section 4.6.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Permutation(u64);

impl Permutation {
    /// Slots `0..count`, in this order.
    pub(super) fn sorted(count: usize) -> Permutation {
        let slots = (0..count as u64).fold(0, |slots, slot| slots | slot << (4 * slot));
        Permutation(slots << 4 | count as u64)
    }

    /// Filled slots.
    #[inline]
    pub(super) fn count(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot of `rank`, which is less than `count`.
    #[inline]
    fn slot(self, rank: usize) -> usize {
        (self.0 >> (4 + 4 * rank) & 15) as usize
    }

    /// This permutation with the next free slot (its number is `count`) put at `rank`.
    #[inline]
    pub(super) fn with(self, rank: usize) -> Permutation {
        let at = 4 + 4 * rank;
        let before = self.0 & ((1 << at) - 1);
        let after = (self.0 ^ before) << 4;
        Permutation((after | (self.count() as u64) << at | before) + 1)
    }
}

/// A pointer to a node, or none.
#[derive(Debug)]
pub(super) struct Link(AtomicPtr<Node>);

impl Link {
    /// No node.
    pub(super) fn none() -> Link {
        Link(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The node, complete.
    #[inline]
    pub(super) fn get(&self) -> Option<NodeRef<'_>> {
        let at = NonNull::new(self.0.load(atomic::Ordering::Acquire))?;
        Some(NodeRef { at, arena: PhantomData })
    }

    /// Make `node` reachable. It must lie in the arena of whatever holds this link: that is what lets
    /// `get` lend it for as long as the link.
    #[inline]
    pub(super) fn set(&self, node: NodeRef<'_>) {
        self.0.store(node.at.as_ptr(), atomic::Ordering::Release);
    }

    /// Point nowhere or to `node`.
    pub(super) fn set_or_none(&self, node: Option<NodeRef<'_>>) {
        self.0.store(node.map_or(std::ptr::null_mut(), |node| node.at.as_ptr()), atomic::Ordering::Release);
    }
}

/// A leaf, or the first part of an inner node.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Node {
    permutation: AtomicU64,
    /// How many bytes all keys of the node's range share. Heads start behind them.
    prefix_len: u16,
    /// 0 for a leaf.
    level: u8,
    /// Whether a node was put behind this one for keys that arrive in order. The writer's own.
    appended: AtomicBool,
    heads: [AtomicU64; SLOTS],
    entries: [AtomicPtr<u8>; SLOTS],
    /// The leaf before this one; the child before the first separator.
    before: Link,
    /// The leaf behind this one.
    after: Link,
}

/// An inner node.
#[derive(Debug)]
#[repr(C)]
struct Inner {
    node: Node,
    /// The child right of each slot's separator.
    children: [Link; SLOTS],
}

/// A node in an arena that lives for `'a`.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRef<'a> {
    /// To a `Node`, or to the `node` of an `Inner` if the level is not 0, with the right to all of it.
    at: NonNull<Node>,
    arena: PhantomData<&'a Node>,
}

// SAFETY: this is a shared reference in all but name, and `Node` and `Inner` are `Sync`: what changes
// in them is atomic.
unsafe impl Send for NodeRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for NodeRef<'_> {}

impl PartialEq for NodeRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

/// What a node of `level` takes.
pub(super) fn layout(level: u8) -> Layout {
    if level == 0 { Layout::new::<Node>() } else { Layout::new::<Inner>() }
}

impl<'a> NodeRef<'a> {
    /// A new node without slots. `'a` is the caller's to choose.
    ///
    /// # Safety
    /// `at` is a piece of `layout(level)` that nobody else uses, and outlives `'a`.
    pub(super) unsafe fn new(at: NonNull<u8>, level: u8, prefix_len: u16) -> NodeRef<'a> {
        let node = Node {
            permutation: AtomicU64::new(0),
            prefix_len,
            level,
            appended: AtomicBool::new(false),
            heads: std::array::from_fn(|_| AtomicU64::new(u64::MAX)),
            entries: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            before: Link::none(),
            after: Link::none(),
        };
        // SAFETY: by the caller's word the piece is large enough and aligned for the type that is written, and nobody else's.
        unsafe {
            if level == 0 {
                at.cast::<Node>().write(node);
            } else {
                let children = std::array::from_fn(|_| Link::none());
                at.cast::<Inner>().write(Inner { node, children });
            }
        }
        NodeRef { at: at.cast(), arena: PhantomData }
    }

    #[inline]
    fn node(self) -> &'a Node {
        // SAFETY: (1) `at` came from `new`, which wrote a node there, and through a `Link` at most,
        // whose release and acquire put that before this; (2) it lives for `'a`; (3) all that changes
        // in it is atomic.
        unsafe { self.at.as_ref() }
    }

    #[inline]
    fn children(self) -> &'a [Link; SLOTS] {
        debug_assert!(!self.is_leaf(), "leaves have no children");
        // SAFETY: as in `node`; an inner node was written as an `Inner`, and `at` may reach all of it.
        unsafe { &self.at.cast::<Inner>().as_ref().children }
    }

    /// Whether this is a leaf.
    #[inline]
    pub(super) fn is_leaf(self) -> bool {
        self.node().level == 0
    }

    /// 0 for a leaf, one more than the children's otherwise.
    pub(super) fn level(self) -> u8 {
        self.node().level
    }

    /// Where it lies.
    pub(super) fn memory(self) -> NonNull<u8> {
        self.at.cast()
    }

    /// How many bytes all keys of the node's range share.
    pub(super) fn prefix_len(self) -> u16 {
        self.node().prefix_len
    }

    /// Whether a node was put behind this one. For the writer.
    pub(super) fn appended(self) -> bool {
        self.node().appended.load(atomic::Ordering::Relaxed)
    }

    /// Remember that a node was put behind this one. For the writer.
    pub(super) fn set_appended(self) {
        self.node().appended.store(true, atomic::Ordering::Relaxed);
    }

    /// The slots that are filled, by rank.
    #[inline]
    pub(super) fn permutation(self) -> Permutation {
        Permutation(self.node().permutation.load(atomic::Ordering::Acquire))
    }

    /// The entry (of an inner node: the separator) at `rank`.
    #[inline]
    pub(super) fn entry(self, permutation: Permutation, rank: usize) -> Entry<'a> {
        let at = self.node().entries[permutation.slot(rank)].load(atomic::Ordering::Relaxed);
        let at = NonNull::new(at).expect("a permutation names filled slots");
        // SAFETY: (1) slots are filled with entries of this node's arena, alive for `'a`, before a
        // permutation names them; (2) the permutation was loaded with acquire, or stored by this thread, so the
        // slot's and the entry's writes happened before.
        unsafe { Entry::from_ptr(at) }
    }

    /// The head at `rank`.
    pub(super) fn head(self, permutation: Permutation, rank: usize) -> u64 {
        self.node().heads[permutation.slot(rank)].load(atomic::Ordering::Relaxed)
    }

    #[inline]
    fn child_link(self, permutation: Permutation, rank: usize) -> &'a Link {
        match rank.checked_sub(1) {
            None => &self.node().before,
            Some(left) => &self.children()[permutation.slot(left)],
        }
    }

    /// The child before the separator of `rank`; behind the last one for the count.
    #[inline]
    pub(super) fn child(self, permutation: Permutation, rank: usize) -> NodeRef<'a> {
        self.child_link(permutation, rank).get().expect("an inner node has one child more than separators")
    }

    /// The child whose range holds `target`, for the writer.
    #[inline(always)]
    pub(super) fn child_for(self, target: InternalKey<'_>) -> NodeRef<'a> {
        let permutation = self.permutation();
        self.child(permutation, self.find_after(permutation, target))
    }

    /// The same for a reader.
    #[inline]
    pub(super) fn child_seen_for(self, target: InternalKey<'_>) -> NodeRef<'a> {
        let mut permutation = self.permutation();
        loop {
            let child = self.child(permutation, self.find_after(permutation, target));
            // See the module above: a child that was replaced since shows in the permutation.
            let now = self.permutation();
            if now == permutation {
                return child;
            }
            permutation = now;
        }
    }

    /// Replace the child before the separator of `rank`.
    pub(super) fn set_child(self, permutation: Permutation, rank: usize, child: NodeRef<'_>) {
        self.child_link(permutation, rank).set(child);
    }

    /// The leaf before this one.
    #[inline]
    pub(super) fn previous(self) -> Option<NodeRef<'a>> {
        self.node().before.get()
    }

    /// The leaf behind this one.
    #[inline]
    pub(super) fn next(self) -> Option<NodeRef<'a>> {
        self.node().after.get()
    }

    /// Set the leaf before this one.
    pub(super) fn set_previous(self, leaf: Option<NodeRef<'_>>) {
        self.node().before.set_or_none(leaf);
    }

    /// Set the leaf behind this one.
    pub(super) fn set_next(self, leaf: Option<NodeRef<'_>>) {
        self.node().after.set_or_none(leaf);
    }

    /// The head that `key`, a key of this node's range, has here.
    #[inline]
    pub(super) fn head_of(self, key: &[u8]) -> u64 {
        let prefix_len = usize::from(self.node().prefix_len);
        debug_assert!(key.len() >= prefix_len, "the keys of a range share its prefix");
        let rest = key.get(prefix_len..).unwrap_or_default();
        if let Some(first) = rest.first_chunk::<8>() {
            return u64::from_be_bytes(*first);
        }
        match key.last_chunk::<8>() {
            // A few bytes are faster cut out of the key's last eight than copied one by one.
            Some(end) if !rest.is_empty() => u64::from_be_bytes(*end) << (64 - 8 * rest.len()),
            _ => head(rest),
        }
    }

    /// Whether `target` comes after everything in this leaf, the last one. Its range has no end, and so no key bytes
    /// that all keys share.
    #[inline]
    pub(super) fn ends_before(self, target: InternalKey<'_>) -> bool {
        debug_assert_eq!(self.prefix_len(), 0, "the last leaf's keys need not share anything");
        let permutation = self.permutation();
        let last = permutation.count() - 1;
        match head(target.user).cmp(&self.head(permutation, last)) {
            Ordering::Equal => self.entry(permutation, last).compare(target).is_gt(),
            ordering => ordering.is_gt(),
        }
    }

    /// Fill the next free slot, put it at `rank`, and (last) let readers see it. For the writer, on a
    /// node that is not full.
    #[inline]
    pub(super) fn add(self, rank: usize, head: u64, entry: Entry<'_>, child: Option<NodeRef<'_>>) {
        let permutation = self.permutation();
        let slot = permutation.count();
        self.node().heads[slot].store(head, atomic::Ordering::Relaxed);
        self.node().entries[slot].store(entry.as_ptr().as_ptr(), atomic::Ordering::Relaxed);
        if let Some(child) = child {
            self.children()[slot].set(child);
        }
        self.node().permutation.store(permutation.with(rank).0, atomic::Ordering::Release);
    }

    /// The entries before `target`, counted, and whether the one at that rank has `target`'s head.
    #[inline]
    pub(super) fn find(self, permutation: Permutation, target: InternalKey<'_>) -> (usize, bool) {
        let (low, end) = self.find_head(permutation, target);
        if low == end {
            return (low, false);
        }
        let rank = self.find_among(permutation, low..end, target, Ordering::Greater);
        (rank, rank < end)
    }

    /// The separators not after `target`, counted: the rank of the child to go to.
    #[inline(always)]
    pub(super) fn find_after(self, permutation: Permutation, target: InternalKey<'_>) -> usize {
        let (low, end) = self.find_head(permutation, target);
        if low == end { low } else { self.find_among(permutation, low..end, target, Ordering::Equal) }
    }

    /// The first of `ranks`, whose heads equal `target`'s, to which `target` compares as less than `least`.
    #[inline(never)]
    fn find_among(
        self,
        permutation: Permutation,
        ranks: Range<usize>,
        target: InternalKey<'_>,
        least: Ordering,
    ) -> usize {
        let Range { start: mut low, end: mut high } = ranks;
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.entry(permutation, middle).compare(target) >= least {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The ranks whose heads equal `target`'s, as a range: everything before it is smaller, everything
    /// behind it larger.
    ///
    /// All heads are compared, without a branch: that beats a search by halves, whose every step waits
    /// for the one before and is guessed wrong half of the time. Those of empty slots are as large as can be.
    #[inline(always)]
    fn find_head(self, permutation: Permutation, target: InternalKey<'_>) -> (usize, usize) {
        let sought = self.head_of(target.user);
        let mut low = SLOTS;
        for head in &self.node().heads {
            // Subtracted, because so it is made of an instruction that adds a comparison's outcome.
            low = low.wrapping_sub(usize::from(head.load(atomic::Ordering::Relaxed) >= sought));
        }
        // A slot that has been filled meanwhile, which the permutation does not name, may be among them.
        while low > permutation.count() || low > 0 && self.head(permutation, low - 1) >= sought {
            low -= 1;
        }
        let mut high = low;
        while high < permutation.count() && self.head(permutation, high) == sought {
            high += 1;
        }
        (low, high)
    }

    /// Prefetch what a search in this node of level `level` reads behind the first cache line: the other
    /// heads, then entries or children.
    #[inline]
    pub(super) fn prefetch(self, level: u8) {
        let lines = if level == 0 { [64, 128, 192] } else { [64, 256, 320] };
        for line in lines {
            prefetch(self.at.as_ptr().cast_const().cast::<u8>().wrapping_add(line));
        }
    }

    /// Prefetch all that a search in this node of level `level` reads.
    #[inline]
    pub(super) fn prefetch_all(self, level: u8) {
        prefetch(self.at.as_ptr().cast_const());
        self.prefetch(level);
    }

    /// Prefetch the entries of a leaf at these `ranks`, as far as there are.
    #[inline]
    pub(super) fn prefetch_ranks(self, permutation: Permutation, ranks: Range<usize>, reach: Reach) {
        for rank in ranks.start..ranks.end.min(permutation.count()) {
            prefetch_entry(&self.node().entries[permutation.slot(rank)], reach);
        }
    }

    /// Prefetch two of the entries of a leaf that a walk is about to enter: those of its `pair`th two slots, if it
    /// has so many. All at once they would wait for each other.
    #[inline]
    pub(super) fn prefetch_pair(self, pair: usize, reach: Reach) {
        // Also for slots that are still empty: that costs less than to look which are.
        for slot in self.node().entries.iter().skip(2 * pair).take(2) {
            prefetch_entry(slot, reach);
        }
    }
}

/// Prefetch the entry in this slot.
#[inline]
fn prefetch_entry(slot: &AtomicPtr<u8>, reach: Reach) {
    reach.prefetch(slot.load(atomic::Ordering::Relaxed).cast_const());
}
