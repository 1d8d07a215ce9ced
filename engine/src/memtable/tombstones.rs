//! The range tombstones of one keyspace in one memtable: a list that grows, and its fragments, built
//! by the first reader that wants them after a change.
//!
//! Why a reader never misses a tombstone that its sequence number covers: the writer (1) puts it on
//! the list, (2) raises `count` and the memtable's flag, and only then (3) publishes the sequence
//! number with a release store. A reader has loaded a number at least as large with acquire, so (1)
//! and (2) happened before its reads, and reads of one atomic never go back behind a store that
//! happened before them, relaxed ones neither. It therefore sees a `count` that includes the
//! tombstone, finds the built fragments too old, and builds new ones from the list under its lock.
//!
//! The writer asks about one key without building ([`Tombstones::newest_over`]): a merge after each range
//! delete would otherwise build as many times as there are range deletes.
//!
//! Tombstones of one commit group become visible together. The fragments keep the newest of each group alone,
//! so that one batch of very many, within each other, takes no more than its share of memory.
//!
//! Locks: `list`, for the length of one push, one build, or one look at the last [`tail_max`].

use std::sync::Arc;

use esker_base::SeqNo;
use esker_base::range_tombstone::{Fragment, Fragments, RangeTombstone};
use esker_base::sync::atomic::{AtomicUsize, Ordering};
use esker_base::sync::{ArcSwapOption, Mutex};

/// How many tombstones behind the built fragments the writer looks through one by one, at least.
const TAIL_MAX: usize = 64;

/// The same with fragments built of `known`: with the root of their number, what is looked through and what is
/// built anew stay in balance, and neither is quadratic.
fn tail_max(known: usize) -> usize {
    TAIL_MAX.max(8 * known.isqrt())
}

/// Range tombstones and their fragments.
#[derive(Debug)]
pub(super) struct Tombstones {
    list: Mutex<List>,
    /// Length of the list.
    count: AtomicUsize,
    built: ArcSwapOption<Built>,
}

#[derive(Debug, Default)]
struct List {
    all: Vec<RangeTombstone>,
    /// With which number each group begins that has any, ascending.
    groups: Vec<SeqNo>,
}

impl List {
    fn fragments(&self) -> Fragments {
        Fragments::build_together(&self.all, |seqno| {
            let after = self.groups.partition_point(|group| *group <= seqno);
            self.groups.get(after.wrapping_sub(1)).copied().unwrap_or(seqno)
        })
    }
}

/// The fragments of the list's first `count` tombstones.
#[derive(Debug)]
struct Built {
    count: usize,
    fragments: Arc<Fragments>,
}

impl Tombstones {
    /// No tombstones.
    pub(super) fn new() -> Self {
        Tombstones { list: Mutex::default(), count: AtomicUsize::new(0), built: ArcSwapOption::empty() }
    }

    /// Delete `[start, end)`, in the group that begins with number `group`. For the one writer.
    pub(super) fn add(&self, start: &[u8], end: &[u8], seqno: SeqNo, group: SeqNo) {
        let mut list = self.list.lock();
        if list.groups.last() != Some(&group) {
            list.groups.push(group);
        }
        list.all.push(RangeTombstone { start: start.to_vec(), end: end.to_vec(), seqno });
        self.count.store(list.all.len(), Ordering::Release);
    }

    /// About the bytes that a tombstone takes: one on the list, and one fragment.
    pub(super) fn bytes(start: &[u8], end: &[u8]) -> usize {
        2 * (start.len() + end.len())
            + size_of::<RangeTombstone>()
            + size_of::<Fragment>()
            + size_of::<SeqNo>()
    }

    /// The fragments of every tombstone added so far, or `None` if there is none.
    pub(super) fn fragments(&self) -> Option<Arc<Fragments>> {
        self.with_fragments(Arc::clone)
    }

    /// The newest tombstone over `key` at or below `bound`. Shares nothing: many gets at a time ask.
    pub(super) fn covering(&self, key: &[u8], bound: SeqNo) -> Option<SeqNo> {
        self.with_fragments(|fragments| fragments.covering(key, bound)).flatten()
    }

    fn with_fragments<R>(&self, read: impl FnOnce(&Arc<Fragments>) -> R) -> Option<R> {
        let count = self.count.load(Ordering::Acquire);
        if count == 0 {
            return None;
        }
        Some(match &*self.built.load() {
            Some(built) if built.count >= count => read(&built.fragments),
            _ => read(&self.build()),
        })
    }

    /// The newest tombstone over `key`. For the one writer.
    pub(super) fn newest_over(&self, key: &[u8]) -> Option<SeqNo> {
        let count = self.count.load(Ordering::Relaxed);
        if count == 0 {
            return None;
        }
        let built = self.built.load();
        let known = built.as_ref().map_or(0, |built| built.count);
        if count > known + tail_max(known) {
            return self.build().covering(key, SeqNo::MAX);
        }
        let list = self.list.lock();
        let tail = list.all.get(known..).unwrap_or_default().iter();
        let over = |t: &&RangeTombstone| t.start.as_slice() <= key && key < t.end.as_slice();
        // Later ones have larger numbers.
        let newest = tail.rev().find(over).map(|tombstone| tombstone.seqno);
        newest.or_else(|| built.as_ref()?.fragments.covering(key, SeqNo::MAX))
    }

    /// Build the fragments for good: nobody adds another, and every reader sees all there are. However deep they
    /// lie within each other, this takes memory in proportion to their number.
    pub(super) fn finish(&self) {
        let list = self.list.lock();
        let fragments = Arc::new(Fragments::build_newest(&list.all));
        self.built.store(Some(Arc::new(Built { count: list.all.len(), fragments })));
    }

    #[cold]
    fn build(&self) -> Arc<Fragments> {
        let list = self.list.lock();
        // Another reader may have built while this one waited for the lock.
        if let Some(built) = &*self.built.load()
            && built.count == list.all.len()
        {
            return Arc::clone(&built.fragments);
        }
        let fragments = Arc::new(list.fragments());
        let built = Built { count: list.all.len(), fragments: Arc::clone(&fragments) };
        self.built.store(Some(Arc::new(built)));
        fragments
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A batch that asks after each of its range deletes, as merges do.
    #[test]
    fn the_writer_builds_seldom() {
        let depth: u64 = if cfg!(miri) { 300 } else { 10_000 };
        let tombstones = Tombstones::new();
        let (mut builds, mut known) = (0, 0);
        for n in 1..=depth {
            tombstones.add(&n.to_be_bytes(), &(3 * depth - n).to_be_bytes(), SeqNo(n), SeqNo(1));
            assert_eq!(tombstones.newest_over(&depth.to_be_bytes()), Some(SeqNo(n)));
            let count = tombstones.built.load().as_ref().map_or(0, |built| built.count);
            builds += u64::from(count > known);
            known = count;
        }
        assert!(known > 0 && builds < 40, "built {builds} times");
    }
}
