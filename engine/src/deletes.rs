//! Which rows a writer deletes one by one, as far as it takes to say: so many lie together here that somebody should
//! walk over them before readers do ([`jobs::sweep`](crate::jobs)).

use esker_base::KeyspaceId;
use esker_base::table_meta::KeyBounds;

use crate::dead_ranges::KEY_BYTES_MAX;

/// How many deletes of one keyspace make a stretch that is worth a look: 131,072 with a `dead_run` of 64. A first walk over
/// so many, with what they hide, takes some 10 ms (computed: 25 to 30 ns an entry).
fn stretch_len(dead_run: u32) -> u64 {
    u64::from(dead_run) * u64::from(dead_run) * 32
}

/// Every how manieth key is remembered: with 64 each 1,024th. Walking from one to the next takes some 60 µs where they lie
/// together and are cached (computed).
fn mark_every(dead_run: u32) -> u64 {
    u64::from(dead_run) * 16
}

/// How many tombstones in a walk from one such key to the next are worth telling of; others would take the place of what
/// is known of larger ranges.
pub(crate) fn worth_telling(dead_run: u32) -> u64 {
    mark_every(dead_run) / 2
}

/// The point deletes since the last stretch was complete, if they are of the keyspace that was deleted from last.
#[derive(Debug)]
pub(crate) struct Deletes {
    /// [`DatabaseOptions::dead_run`](crate::DatabaseOptions::dead_run).
    dead_run: u32,
    keyspace: KeyspaceId,
    count: u64,
    /// Those of the first delete, while `count` is 0: where the stretch before ended.
    smallest: Vec<u8>,
    largest: Vec<u8>,
    marks: Vec<Vec<u8>>,
}

/// Deletes one by one between two keys.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) keyspace: KeyspaceId,
    /// How many.
    pub(crate) count: u64,
    /// At least two, ascending: the smallest, some between, and the largest.
    pub(crate) keys: Vec<Vec<u8>>,
}

impl Deletes {
    pub(crate) fn new(dead_run: u32) -> Self {
        Deletes {
            dead_run,
            keyspace: KeyspaceId(0),
            count: 0,
            smallest: Vec::new(),
            largest: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// A row was deleted.
    pub(crate) fn note(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        if key.len() >= KEY_BYTES_MAX {
            // Nothing is remembered about such keys.
            return;
        }
        let begins = self.largest.is_empty() || self.keyspace != keyspace;
        if begins {
            (self.keyspace, self.count) = (keyspace, 0);
            self.marks.clear();
        }
        if begins || key > self.largest.as_slice() {
            set(&mut self.largest, key);
        }
        if begins || key < self.smallest.as_slice() {
            set(&mut self.smallest, key);
        }
        self.count += 1;
        if self.count.is_multiple_of(mark_every(self.dead_run)) {
            self.marks.push(key.to_vec());
        }
    }

    /// Whether there are enough for a stretch.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.count >= stretch_len(self.dead_run)
    }

    /// The stretch that is complete. The next begins with its last key, so that deletes in key order leave no gap.
    pub(crate) fn take(&mut self) -> Stretch {
        let mut keys = std::mem::take(&mut self.marks);
        let last = keys.last().unwrap_or(&self.largest).clone();
        keys.push(std::mem::replace(&mut self.smallest, last.clone()));
        keys.push(std::mem::replace(&mut self.largest, last));
        keys.sort();
        Stretch { keyspace: self.keyspace, count: std::mem::take(&mut self.count), keys }
    }
}

impl Stretch {
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
    const STRETCH: u64 = 8_192;

    #[test]
    fn stretches_follow_each_other_without_a_gap() {
        for descending in [false, true] {
            let mut deletes = Deletes::new(DEAD_RUN);
            let key = |n: u64| (if descending { u64::MAX - n } else { n }).to_be_bytes();
            let mut n = 0;
            let mut fill = |deletes: &mut Deletes| {
                while !deletes.are_many() {
                    deletes.note(SPACE, &key(n));
                    n += 1;
                }
                deletes.take()
            };
            let (first, second) = (fill(&mut deletes), fill(&mut deletes));
            assert_eq!((first.keyspace, first.count, second.count), (SPACE, STRETCH, STRETCH));
            assert!(first.keys.is_sorted() && first.keys.len() as u64 >= STRETCH / mark_every(DEAD_RUN));
            let (first, second) = (first.bounds(), second.bounds());
            if descending {
                assert_eq!((first.largest, first.smallest), (key(0).to_vec(), second.largest));
            } else {
                assert_eq!((first.smallest, first.largest), (key(0).to_vec(), second.smallest));
            }
        }
    }

    #[test]
    fn another_keyspace_begins_anew() {
        let mut deletes = Deletes::new(DEAD_RUN);
        for n in 0..STRETCH - 1 {
            deletes.note(SPACE, &n.to_be_bytes());
        }
        deletes.note(KeyspaceId(4), &[7; KEY_BYTES_MAX]);
        deletes.note(KeyspaceId(4), b"other");
        assert!(!deletes.are_many());
        assert_eq!((deletes.count, deletes.smallest.as_slice()), (1, &b"other"[..]));
        for n in 1..STRETCH {
            // Neither ascending nor descending.
            deletes.note(KeyspaceId(4), &(n ^ 5).to_be_bytes());
        }
        let stretch = deletes.take();
        assert_eq!(stretch.keyspace, KeyspaceId(4));
        assert!(stretch.keys.is_sorted());
        assert_eq!(stretch.bounds().largest, b"other");
        assert!(stretch.is_dense_in(32 * STRETCH));
        assert!(!stretch.is_dense_in(33 * STRETCH));
        assert!(!stretch.is_dense_in(0), "nothing to hide");
    }
}
