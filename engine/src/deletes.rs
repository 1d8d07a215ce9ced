//! The rows that writers delete one by one, in just enough detail to tell when so many of them lie together that a
//! background job should walk over them before a reader has to ([`jobs::sweep`](crate::jobs)).

use esker_base::KeyspaceId;
use esker_base::table_meta::KeyBounds;

use crate::dead_ranges::KEY_BYTES_MAX;

/// How many deletes of one keyspace make a range that is worth a look: 131,072 with a `dead_run` of 64. A first walk over
/// so many, with what they hide, takes some 10 ms (computed: 25 to 30 ns an entry).
fn enough_deletes(dead_run: u32) -> u64 {
    u64::from(dead_run) * u64::from(dead_run) * 32
}

/// Every how many deletes a key is remembered: 1,024 with a `dead_run` of 64. Walking from one to the next takes some 60 µs
/// where they lie together and are cached (computed).
fn mark_every(dead_run: u32) -> u64 {
    u64::from(dead_run) * 16
}

/// How many tombstones in a walk from one such key to the next are worth telling of; others would take the place of what
/// is known of larger ranges.
pub(crate) fn worth_telling(dead_run: u32) -> u64 {
    mark_every(dead_run) / 2
}

/// For how many keyspaces deletes are counted at the same time: those of a row and of its entries in a few indexes take
/// turns.
const KEYSPACES: usize = 8;

/// The point deletes of the keyspaces that were deleted from lately.
#[derive(Debug)]
pub(crate) struct DeleteTracker {
    /// How many make a range, and how many there are to each key that is remembered.
    enough: u64,
    mark_every: u64,
    lately: Vec<OfKeyspace>,
    /// Which of them the last delete belongs to.
    last: usize,
    /// There are enough of one for a range.
    are_many: bool,
}

/// The point deletes of one keyspace since its last range was complete.
#[derive(Debug)]
struct OfKeyspace {
    keyspace: KeyspaceId,
    count: u64,
    /// The smallest and the largest key. While `count` is 0, both are the key at which the range before ended, or of the
    /// first delete.
    smallest: Vec<u8>,
    largest: Vec<u8>,
    marks: Vec<Vec<u8>>,
}

/// A range of keys in which rows were deleted one by one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeletedRange {
    pub(crate) keyspace: KeyspaceId,
    /// How many.
    pub(crate) count: u64,
    /// At least two, ascending: the smallest, some between, and the largest.
    pub(crate) keys: Vec<Vec<u8>>,
}

impl DeleteTracker {
    /// None yet; `dead_run`: [`DatabaseOptions::dead_run`](crate::DatabaseOptions::dead_run).
    pub(crate) fn new(dead_run: u32) -> Self {
        DeleteTracker {
            enough: enough_deletes(dead_run),
            mark_every: mark_every(dead_run),
            lately: Vec::new(),
            last: 0,
            are_many: false,
        }
    }

    /// A row was deleted.
    pub(crate) fn note(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        if key.len() >= KEY_BYTES_MAX {
            // Nothing is remembered about such keys.
            return;
        }
        if self.lately.get(self.last).is_none_or(|last| last.keyspace != keyspace) {
            self.turn_to(keyspace, key);
        }
        let last = &mut self.lately[self.last];
        last.note(key, self.mark_every);
        self.are_many |= last.count >= self.enough;
    }

    /// Go on with what is known of `keyspace`, or begin with `key`.
    #[cold]
    fn turn_to(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        let known = self.lately.iter().position(|of| of.keyspace == keyspace);
        self.last = known.unwrap_or_else(|| {
            if self.lately.len() == KEYSPACES {
                // The last of those with the fewest: of more that take turns than there are places for, all but one go on.
                let fewest = (0..KEYSPACES).rev().min_by_key(|&at| self.lately[at].count);
                self.lately.swap_remove(fewest.unwrap_or_default());
            }
            self.lately.push(OfKeyspace::begin(keyspace, key));
            self.lately.len() - 1
        });
    }

    /// Whether there are enough for a range.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.are_many
    }

    /// A range that is complete, if there is one.
    pub(crate) fn take(&mut self) -> Option<DeletedRange> {
        let taken = self.lately.iter_mut().find(|of| of.count >= self.enough).map(OfKeyspace::take);
        self.are_many = self.lately.iter().any(|of| of.count >= self.enough);
        taken
    }
}

impl OfKeyspace {
    fn begin(keyspace: KeyspaceId, key: &[u8]) -> Self {
        OfKeyspace { keyspace, count: 0, smallest: key.to_vec(), largest: key.to_vec(), marks: Vec::new() }
    }

    fn note(&mut self, key: &[u8], mark_every: u64) {
        if key > self.largest.as_slice() {
            set(&mut self.largest, key);
        } else if key < self.smallest.as_slice() {
            set(&mut self.smallest, key);
        }
        self.count += 1;
        if self.count.is_multiple_of(mark_every) {
            self.marks.push(key.to_vec());
        }
    }

    /// The range so far. The next begins with its last key, so that deletes in key order leave no gap.
    fn take(&mut self) -> DeletedRange {
        let mut keys = std::mem::take(&mut self.marks);
        let last = keys.last().unwrap_or(&self.largest).clone();
        keys.push(std::mem::replace(&mut self.smallest, last.clone()));
        keys.push(std::mem::replace(&mut self.largest, last));
        keys.sort();
        DeletedRange { keyspace: self.keyspace, count: std::mem::take(&mut self.count), keys }
    }
}

impl DeletedRange {
    /// The smallest key and the largest.
    pub(crate) fn bounds(&self) -> KeyBounds {
        let end = |key: Option<&Vec<u8>>| key.cloned().unwrap_or_default();
        KeyBounds {
            smallest: end(self.keys.first()),
            largest: end(self.keys.last()),
            largest_exclusive: false,
        }
    }

    /// Whether the deletes may lie together, where the tables that they reach into have `entries`: some tables reach far
    /// beyond them.
    pub(crate) fn is_dense_in(&self, entries: u64) -> bool {
        entries > 0 && entries / 32 <= self.count
    }
}

fn set(own: &mut Vec<u8>, key: &[u8]) {
    own.clear();
    own.extend_from_slice(key);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: KeyspaceId = KeyspaceId(3);
    const DEAD_RUN: u32 = 16;
    const ENOUGH: u64 = 8_192;

    #[test]
    fn ranges_follow_each_other_without_a_gap() {
        for descending in [false, true] {
            let mut deletes = DeleteTracker::new(DEAD_RUN);
            let key = |n: u64| (if descending { u64::MAX - n } else { n }).to_be_bytes();
            let mut n = 0;
            let mut fill = |deletes: &mut DeleteTracker| {
                while !deletes.are_many() {
                    deletes.note(SPACE, &key(n));
                    n += 1;
                }
                deletes.take().unwrap()
            };
            let (first, second) = (fill(&mut deletes), fill(&mut deletes));
            assert_eq!((first.keyspace, first.count, second.count), (SPACE, ENOUGH, ENOUGH));
            assert!(first.keys.is_sorted() && first.keys.len() as u64 >= ENOUGH / mark_every(DEAD_RUN));
            let (first, second) = (first.bounds(), second.bounds());
            if descending {
                assert_eq!((first.largest, first.smallest), (key(0).to_vec(), second.largest));
            } else {
                assert_eq!((first.smallest, first.largest), (key(0).to_vec(), second.smallest));
            }
        }
    }

    #[test]
    fn what_a_stretch_holds() {
        let mut deletes = DeleteTracker::new(DEAD_RUN);
        deletes.note(SPACE, &[7; KEY_BYTES_MAX]);
        assert_eq!(deletes.lately.len(), 0, "too long a key");
        deletes.note(SPACE, b"other");
        for n in 1..ENOUGH {
            assert!(!deletes.are_many());
            // Neither ascending nor descending.
            deletes.note(SPACE, &(n ^ 5).to_be_bytes());
        }
        let range = deletes.take().unwrap();
        assert_eq!(range.count, ENOUGH);
        assert!(range.keys.is_sorted());
        assert_eq!(range.bounds().largest, b"other");
        assert!(range.is_dense_in(32 * ENOUGH));
        assert!(!range.is_dense_in(33 * ENOUGH));
        assert!(!range.is_dense_in(0), "nothing to hide");
    }

    /// One after the other, row by row, they come to their ranges as if each were alone.
    #[test]
    fn keyspaces_take_turns() {
        let keyspaces = 1..=u32::try_from(KEYSPACES).unwrap();
        let mut deletes = DeleteTracker::new(DEAD_RUN);
        let mut alone = DeleteTracker::new(DEAD_RUN);
        for n in 0..ENOUGH {
            assert!(!deletes.are_many());
            for keyspace in keyspaces.clone() {
                deletes.note(KeyspaceId(keyspace), &n.to_be_bytes());
            }
            alone.note(SPACE, &n.to_be_bytes());
        }
        let alone = alone.take().unwrap();
        for keyspace in keyspaces {
            assert!(deletes.are_many());
            let taken = deletes.take().unwrap();
            assert_eq!((taken.keyspace, taken.count), (KeyspaceId(keyspace), ENOUGH));
            assert_eq!(taken.keys, alone.keys);
        }
        assert!(!deletes.are_many());
        assert_eq!(deletes.take(), None);
    }

    /// More than are remembered: all but one of the places go on, and what was deleted elsewhere is not counted here.
    #[test]
    fn with_too_many_keyspaces_most_go_on() {
        let mut deletes = DeleteTracker::new(DEAD_RUN);
        let keyspaces = u32::try_from(KEYSPACES).unwrap() + 3;
        for n in 0..ENOUGH {
            for keyspace in 0..keyspaces {
                deletes.note(KeyspaceId(keyspace), &(u64::from(keyspace) << 32 | n).to_be_bytes());
            }
        }
        let ranges: Vec<_> = std::iter::from_fn(|| deletes.take()).collect();
        assert_eq!(ranges.len(), KEYSPACES - 1);
        for range in ranges {
            let of = u64::from(range.keyspace.0) << 32;
            assert_eq!(range.count, ENOUGH);
            let KeyBounds { smallest, largest, .. } = range.bounds();
            assert_eq!(
                (smallest, largest),
                (of.to_be_bytes().to_vec(), (of | (ENOUGH - 1)).to_be_bytes().to_vec())
            );
        }
    }
}
