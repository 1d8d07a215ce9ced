//! Entries on their way into indexes, a few at a time, so that their cache misses overlap.
//!
//! An entry is written where it stays as soon as it comes, and no reader finds it yet. Once there are a few,
//! they go down from the roots together, a level at a time: while one's next node is on its way from memory,
//! the others are looked at. Then they are linked, in the order in which they came.
//!
//! Linking one may split the leaf of another: [`IndexWriter::link`] sees that.

use esker_base::{InternalKey, Kind};

use super::super::arena::Entry;
use super::node::NodeRef;
use super::{Index, IndexWriter};

/// How many entries go together: about as many lines as a core can wait for at once.
const TOGETHER: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(in super::super) struct Pending<'a> {
    descents: [Option<Descent<'a>>; TOGETHER],
    count: usize,
}

/// An entry, and how far down its way is known.
#[derive(Clone, Copy, Debug)]
struct Descent<'a> {
    index: &'a Index,
    entry: Entry<'a>,
    /// None for an entry behind all others: its place is at hand.
    node: Option<NodeRef<'a>>,
    /// Of `node`, so that nothing of it need have arrived.
    level: u8,
}

impl<'a> Pending<'a> {
    /// Insert an entry, by the time of [`settle`](Self::settle). No entry of `index` has the same internal key.
    #[inline]
    pub(in super::super) fn insert(
        &mut self,
        writer: &mut IndexWriter,
        index: &'a Index,
        key: InternalKey<'_>,
        kind: Kind,
        value: &[u8],
    ) {
        let entry = writer.write(index, key, kind, value);
        self.descents[self.count] = Some(Descent { index, entry, node: None, level: 0 });
        self.count += 1;
        if self.count == TOGETHER {
            self.settle(writer);
        }
    }

    /// Link what is pending. `writer` is the one that wrote it.
    pub(in super::super) fn settle(&mut self, writer: &mut IndexWriter) {
        let pending = &mut self.descents[..self.count];
        self.count = 0;
        if let [Some(only)] = pending {
            let leaf = writer.expected_leaf(only.index, only.entry);
            return writer.link(only.index, only.entry, leaf);
        }
        for descent in pending.iter_mut().flatten() {
            descent.start();
        }
        let levels = pending.iter().flatten().map(|descent| descent.level).max().unwrap_or(0);
        for _ in 0..levels {
            pending.iter_mut().flatten().for_each(Descent::step);
        }
        for descent in pending.iter().flatten() {
            writer.link(descent.index, descent.entry, descent.node);
        }
    }
}

impl Descent<'_> {
    #[inline]
    fn start(&mut self) {
        let in_order = self.index.last.get().is_none_or(|last| last.ends_before(self.key()));
        self.node = if in_order { None } else { self.index.root.get() };
        self.level = self.node.map_or(0, NodeRef::level);
    }

    /// Go down a level and ask for what is there, unless this is at its leaf.
    #[inline]
    fn step(&mut self) {
        let Some(node) = self.node.filter(|_| self.level > 0) else { return };
        let child = node.child_for(self.key());
        self.level -= 1;
        child.prefetch_all(self.level);
        self.node = Some(child);
    }

    #[inline]
    fn key(&self) -> InternalKey<'_> {
        self.entry.internal_key()
    }
}
