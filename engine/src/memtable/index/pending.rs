//! Entries on their way into indexes, a few at a time, so that their cache misses overlap.
//!
//! An entry is written where it stays as soon as it comes, and no reader finds it yet. Once there are a few,
//! they go down from the roots together, a level at a time: while one's next node is on its way from memory,
//! the others are looked at. Then they are linked, in the order in which they came. Those that come in the order of
//! their keys are linked at once: there is no way to go.
//!
//! Linking one may split the leaf of another: [`IndexWriter::link`] sees that.

use esker_base::{InternalKey, Kind};

use super::super::entry::Entry;
use super::descent::Descent;
use super::{Index, IndexWriter};

/// How many entries are inserted together: about as many cache misses as a core can have outstanding.
const TOGETHER: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(in super::super) struct Pending<'a> {
    entries: [Option<(&'a Index, Entry<'a>)>; TOGETHER],
    count: usize,
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
        if self.count == 0 {
            writer.reclaim();
            if writer.append(index, key, entry) {
                return;
            }
        }
        self.entries[self.count] = Some((index, entry));
        self.count += 1;
        if self.count == TOGETHER {
            self.settle_some(writer);
        }
    }

    /// Link what is pending. `writer` is the one that wrote it.
    #[inline]
    pub(in super::super) fn settle(&mut self, writer: &mut IndexWriter) {
        if self.count > 0 {
            self.settle_some(writer);
        }
    }

    #[inline(never)]
    fn settle_some(&mut self, writer: &mut IndexWriter) {
        writer.reclaim();
        let pending = &self.entries[..self.count];
        self.count = 0;
        let mut descents = [None; TOGETHER];
        let mut levels = 0;
        for (descent, (index, entry)) in descents.iter_mut().zip(pending.iter().flatten()) {
            let begun = Descent::begin(index, entry.internal_key());
            levels = levels.max(begun.level());
            *descent = Some((begun, *entry));
        }
        for level in (0..levels).rev() {
            for (descent, entry) in descents.iter_mut().flatten() {
                descent.go_down(entry.internal_key(), level);
            }
        }
        for (descent, entry) in descents.iter().flatten() {
            writer.link(descent, entry.internal_key(), *entry);
        }
    }
}
