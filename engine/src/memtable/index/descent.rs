//! The search path to a leaf, a level at a time: each step prefetches the node that the next one reads, so that the caller
//! can do something else meanwhile.

use esker_base::InternalKey;

use super::Index;
use super::node::NodeRef;

/// How far down the way to a key's leaf is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    node: NodeRef<'a>,
    /// Of `node`, so that nothing of it need have arrived.
    level: u8,
}

impl<'a> Way<'a> {
    /// At the root of `index`, if it has one, for the writer or a reader.
    #[inline]
    pub(super) fn begin<const WRITER: bool>(index: &'a Index) -> Option<Self> {
        let node = index.top::<WRITER>()?;
        Some(Way { node, level: node.level() })
    }

    /// How many steps there are to the leaf.
    #[inline]
    pub(super) fn level(self) -> u8 {
        self.level
    }

    /// Go down to `level`, unless this is there, on the way to `target`, and prefetch each node that is come to; as the writer, or as
    /// a reader.
    // Always inlined: called, it cost each row of a batch a twentieth of its instructions more.
    #[inline(always)]
    pub(super) fn go_down<const WRITER: bool>(&mut self, target: InternalKey<'_>, level: u8) {
        while self.level > level {
            self.node = if WRITER { self.node.child_for(target) } else { self.node.child_seen_for(target) };
            self.level -= 1;
            self.node.prefetch_all(self.level);
        }
    }

    /// The leaf, once this is there.
    #[inline]
    pub(super) fn leaf(self) -> Option<NodeRef<'a>> {
        (self.level == 0).then_some(self.node)
    }
}

/// How far down the way of an insertion is known.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Descent<'a> {
    pub(super) index: &'a Index,
    /// None for a key behind all others: its place is at hand.
    pub(super) way: Option<Way<'a>>,
}

impl<'a> Descent<'a> {
    /// At the root of `index`.
    #[inline]
    pub(in super::super) fn begin(index: &'a Index, key: InternalKey<'_>) -> Self {
        let in_order = index.last.get().is_none_or(|last| last.ends_before(key));
        Descent { index, way: if in_order { None } else { Way::begin::<true>(index) } }
    }

    /// Whether the key came behind all others when this began.
    #[inline]
    pub(in super::super) fn is_behind_all(self) -> bool {
        self.way.is_none()
    }

    /// How many steps there are to the leaf.
    #[inline]
    pub(in super::super) fn level(self) -> u8 {
        self.way.map_or(0, Way::level)
    }

    /// Go down to `level`, unless this is there, and prefetch each node that is come to.
    #[inline(always)]
    pub(in super::super) fn go_down(&mut self, key: InternalKey<'_>, level: u8) {
        if let Some(way) = &mut self.way {
            way.go_down::<true>(key, level);
        }
    }
}
