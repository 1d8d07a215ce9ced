//! The range tombstones of one keyspace in one memtable: a list that grows, and its fragments, built
//! by the first reader that wants them after a change that it sees.
//!
//! Why a reader never misses a tombstone that its sequence number covers: the writer (1) puts it on
//! the list, (2) notes its number in `missing` if none is noted there, and raises the memtable's flag, and only then (3)
//! publishes the sequence number with a release store. A reader has loaded a number at least as large with acquire, so (1)
//! and (2) happened before its reads, and reads of one atomic never go back behind a store that
//! happened before them, relaxed ones neither. It therefore finds in `missing` that number or a smaller one, and builds
//! fragments from the list under its lock; or what was stored there later, when fragments with the tombstone had been
//! built, and those or newer ones are what it then loads.
//!
//! Readers need nothing of what is not published yet. Fragments are built of it along with the rest, but not for its sake: a
//! batch of very many range deletes beside a reader would otherwise be built after every few of them, under the commit lock.
//!
//! The writer asks about one key mostly without building ([`Tombstones::newest_over`]): a merge, or a transaction's get, after each
//! range delete would otherwise build as many times as there are range deletes.
//!
//! Tombstones of one commit group become visible together. The fragments keep the newest of each group alone,
//! so that one batch of very many, within each other, takes no more than its share of memory.
//!
//! Locks: `list`, for the length of one push, one build, or one look at those that are not in the fragments.

use std::sync::Arc;

use esker_base::SeqNo;
use esker_base::range_tombstone::{Fragment, Fragments, RangeTombstone};
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::{ArcSwapOption, Mutex};

/// How many tombstones behind the fragments, which were built of `known`, the writer looks at one by one, all its looks
/// together, before it builds new ones: about what building takes. So where it looks after each that it adds, it builds after
/// a number in the order of the root of `known`, and where it goes on looking without adding any, it builds soon.
fn looks_max(known: usize) -> usize {
    2_048 + 32 * known
}

/// Range tombstones and their fragments.
#[derive(Debug)]
pub(super) struct Tombstones {
    list: Mutex<List>,
    /// The first number on the list that is not among the fragments, or [`NONE_MISSING`]. Changes under the list's lock.
    missing: AtomicU64,
    built: ArcSwapOption<Built>,
}

/// Above every sequence number.
const NONE_MISSING: u64 = u64::MAX;

#[derive(Debug, Default)]
struct List {
    all: Vec<RangeTombstone>,
    /// With which number each group begins that has any, ascending.
    groups: Vec<SeqNo>,
    /// How many were looked at one by one since the fragments were built.
    looks: usize,
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
        Tombstones {
            list: Mutex::default(),
            missing: AtomicU64::new(NONE_MISSING),
            built: ArcSwapOption::empty(),
        }
    }

    /// Delete `[start, end)`, in the group that begins with number `group`. For the one writer.
    pub(super) fn add(&self, start: &[u8], end: &[u8], seqno: SeqNo, group: SeqNo) {
        let mut list = self.list.lock();
        if list.groups.last() != Some(&group) {
            list.groups.push(group);
        }
        list.all.push(RangeTombstone { start: start.to_vec(), end: end.to_vec(), seqno });
        if self.missing.load(Ordering::Relaxed) == NONE_MISSING {
            self.missing.store(seqno.0, Ordering::Release);
        }
    }

    /// About the bytes that a tombstone takes: one on the list, and one fragment.
    pub(super) fn bytes(start: &[u8], end: &[u8]) -> usize {
        2 * (start.len() + end.len())
            + size_of::<RangeTombstone>()
            + size_of::<Fragment>()
            + size_of::<SeqNo>()
    }

    /// The fragments of every tombstone at or below `seqno`, and of others; or `None` if there is none.
    pub(super) fn fragments(&self, seqno: SeqNo) -> Option<Arc<Fragments>> {
        self.with_fragments(seqno, Arc::clone)
    }

    /// The newest tombstone over `key` at or below `seqno`, [`SeqNo::MAX`] for the writer. Shares nothing with others: many
    /// gets at a time ask.
    pub(super) fn covering(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        if seqno == SeqNo::MAX {
            return self.newest_over(key);
        }
        self.with_fragments(seqno, |fragments| fragments.covering(key, seqno)).flatten()
    }

    fn with_fragments<R>(&self, seqno: SeqNo, read: impl FnOnce(&Arc<Fragments>) -> R) -> Option<R> {
        let missing = self.missing.load(Ordering::Acquire);
        if missing != NONE_MISSING && missing <= seqno.0 {
            return Some(read(&self.build()));
        }
        self.built.load().as_ref().map(|built| read(&built.fragments))
    }

    /// The newest tombstone over `key`. For the one writer: nobody adds any meanwhile.
    fn newest_over(&self, key: &[u8]) -> Option<SeqNo> {
        let are_missing = self.missing.load(Ordering::Acquire) != NONE_MISSING;
        let built = self.built.load();
        if are_missing {
            let known = built.as_ref().map_or(0, |built| built.count);
            let mut list = self.list.lock();
            list.looks += list.all.len() - known;
            if list.looks > looks_max(known) {
                drop(list);
                return self.build().covering(key, SeqNo::MAX);
            }
            let tail = list.all.get(known..).unwrap_or_default().iter();
            let over = |t: &&RangeTombstone| t.start.as_slice() <= key && key < t.end.as_slice();
            // Later ones have larger numbers.
            if let Some(newest) = tail.rev().find(over) {
                return Some(newest.seqno);
            }
        }
        built.as_ref()?.fragments.covering(key, SeqNo::MAX)
    }

    #[cold]
    fn build(&self) -> Arc<Fragments> {
        let mut list = self.list.lock();
        list.looks = 0;
        // Another reader may have built while this one waited for the lock.
        if let Some(built) = &*self.built.load()
            && built.count == list.all.len()
        {
            return Arc::clone(&built.fragments);
        }
        let fragments = Arc::new(list.fragments());
        let built = Built { count: list.all.len(), fragments: Arc::clone(&fragments) };
        self.built.store(Some(Arc::new(built)));
        self.missing.store(NONE_MISSING, Ordering::Release);
        fragments
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Of how many the fragments were built.
    fn known(tombstones: &Tombstones) -> usize {
        tombstones.built.load().as_ref().map_or(0, |built| built.count)
    }

    /// A batch that asks after each of its range deletes, as merges do, and a transaction that gets.
    #[test]
    fn the_writer_builds_seldom() {
        let depth: u64 = if cfg!(miri) { 300 } else { 10_000 };
        let tombstones = Tombstones::new();
        let (mut builds, mut before) = (0, 0);
        for n in 1..=depth {
            tombstones.add(&n.to_be_bytes(), &(3 * depth - n).to_be_bytes(), SeqNo(n), SeqNo(1));
            assert_eq!(tombstones.covering(&depth.to_be_bytes(), SeqNo::MAX), Some(SeqNo(n)));
            builds += u64::from(known(&tombstones) > before);
            before = known(&tombstones);
        }
        assert!(before > 0 && builds < 40, "built {builds} times");
    }

    /// Readers beside a batch that is being applied see none of it, and build nothing for it.
    #[test]
    fn readers_build_nothing_of_what_is_not_published() {
        let count: u64 = if cfg!(miri) { 100 } else { 10_000 };
        let tombstones = Tombstones::new();
        tombstones.add(b"", b"\xff", SeqNo(1), SeqNo(1));
        assert_eq!(tombstones.covering(b"a", SeqNo(1)), Some(SeqNo(1)));
        for n in 2..=count {
            tombstones.add(&n.to_be_bytes(), b"\xff", SeqNo(n), SeqNo(2));
            assert_eq!(tombstones.covering(b"a", SeqNo(1)), Some(SeqNo(1)));
            assert!(tombstones.fragments(SeqNo(1)).is_some());
        }
        assert_eq!(known(&tombstones), 1);
        assert_eq!(tombstones.covering(b"a", SeqNo(count)), Some(SeqNo(count)));
        assert_eq!(known(&tombstones), usize::try_from(count).unwrap());
    }

    /// Who asks again and again does not look at few tombstones one by one for ever.
    #[test]
    fn who_goes_on_asking_has_fragments() {
        let tombstones = Tombstones::new();
        tombstones.add(b"a", b"b", SeqNo(1), SeqNo(1));
        for _ in 0..3_000 {
            assert_eq!(tombstones.covering(b"a", SeqNo::MAX), Some(SeqNo(1)));
            assert_eq!(tombstones.covering(b"b", SeqNo::MAX), None);
        }
        assert_eq!(known(&tombstones), 1);
    }
}
