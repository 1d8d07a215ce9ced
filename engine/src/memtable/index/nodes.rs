//! Where the nodes of a memtable's indexes come from: the arena, or nodes that were replaced before anybody read the memtable.
//!
//! A node that is replaced stays as it is for readers that may be in it, which by the end is a fifth of a memtable filled in random
//! order. Without a reader ([`FirstRead`](super::super::first_read)) there is nobody but the writer, who may have gone through that node on the way to an
//! entry's place. So it is used again from the next [`reclaim`](Nodes::reclaim) on, which the writer calls between two ways.
#![expect(unsafe_code, reason = "nodes are made in memory of the arena, also in that of former ones")]

use std::ptr::NonNull;
use std::sync::Arc;

use super::super::arena::{Arena, ArenaWriter};
use super::Index;
use super::node::{NodeRef, layout};

/// See the module. The writer's own.
#[derive(Debug)]
pub(super) struct Nodes {
    memory: ArenaWriter,
    arena: Arc<Arena>,
    /// What was replaced since the last [`reclaim`](Self::reclaim).
    replaced: Vec<Vacant>,
    /// What nobody is in any more: former leaves, former inner nodes.
    vacant: [Vec<Vacant>; 2],
}

/// The memory of a node that was replaced.
#[derive(Debug)]
struct Vacant {
    at: NonNull<u8>,
    level: u8,
}

// SAFETY: it is memory of an arena, which any thread may use; `Nodes`, which holds it, keeps the arena and has one owner.
unsafe impl Send for Vacant {}

/// Which nodes have the length of one of `level`.
fn kind(level: u8) -> usize {
    usize::from(level > 0)
}

impl Nodes {
    /// Nodes in `arena`.
    pub(super) fn new(arena: Arc<Arena>) -> Nodes {
        let memory = ArenaWriter::of_nodes(Arc::clone(&arena));
        Nodes { memory, arena, replaced: Vec::new(), vacant: Default::default() }
    }

    /// A new node of `index`, without slots.
    pub(super) fn make<'a>(&mut self, index: &'a Index, level: u8, prefix_len: u16) -> NodeRef<'a> {
        assert!(Arc::ptr_eq(&self.arena, &index.arena), "an index of another memtable");
        let at = match self.vacant[kind(level)].pop() {
            Some(vacant) => vacant.at,
            None => self.memory.allocate(layout(level)),
        };
        // SAFETY: (1) the piece is large enough and aligned for a node of this level: it is fresh, made by this layout, or was such a
        // node; (2) nobody else uses it: a fresh one is handed out once, and of a former node `reclaim` has made sure; (3) `index`,
        // which is borrowed for `'a`, holds the arena.
        unsafe { NodeRef::new(at, level, prefix_len) }
    }

    /// By the end of the insertion that is under way nothing in the tree will lead to `node`.
    pub(super) fn replaced(&mut self, node: NodeRef<'_>) {
        self.replaced.push(Vacant { at: node.memory(), level: node.level() });
    }

    /// Use what was replaced again, unless somebody has read the memtable. The writer has kept no node.
    #[inline]
    pub(super) fn reclaim(&mut self) {
        if !self.replaced.is_empty() {
            self.reclaim_some();
        }
    }

    #[inline(never)]
    fn reclaim_some(&mut self) {
        let unseen = self.arena.first_read().is_to_come();
        for node in self.replaced.drain(..) {
            if unseen {
                self.vacant[kind(node.level)].push(node);
            } else {
                self.arena.count_outgrown(layout(node.level).size());
            }
        }
    }
}
