//! The way of an insertion down to its leaf, a step at a time: each asks for the memory that the next looks at, so that
//! whoever has something else to do meanwhile does not wait for it.

use esker_base::InternalKey;

use super::Index;
use super::node::NodeRef;

/// How far down the way of an insertion is known.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Descent<'a> {
    pub(super) index: &'a Index,
    /// None for a key behind all others: its place is at hand.
    pub(super) node: Option<NodeRef<'a>>,
    /// Of `node`, so that nothing of it need have arrived.
    level: u8,
}

impl<'a> Descent<'a> {
    /// At the root of `index`.
    #[inline]
    pub(in super::super) fn begin(index: &'a Index, key: InternalKey<'_>) -> Self {
        let in_order = index.last.get().is_none_or(|last| last.ends_before(key));
        let node = if in_order { None } else { index.root.get() };
        Descent { index, node, level: node.map_or(0, NodeRef::level) }
    }

    /// Whether the key came behind all others when this began.
    #[inline]
    pub(in super::super) fn is_behind_all(self) -> bool {
        self.node.is_none()
    }

    /// How many steps there are to the leaf.
    #[inline]
    pub(in super::super) fn level(self) -> u8 {
        self.level
    }

    /// Go down to `level`, unless this is there, and ask for what is at each.
    #[inline]
    pub(in super::super) fn go_down(&mut self, key: InternalKey<'_>, level: u8) {
        let Some(mut node) = self.node else { return };
        while self.level > level {
            node = node.child_for(key);
            self.level -= 1;
            node.prefetch_all(self.level);
        }
        self.node = Some(node);
    }
}
