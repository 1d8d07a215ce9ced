//! Where the writer deletes: how many rows, one by one, between which keys. What deletes rows that lie together had better
//! be flushed early: a compaction then drops both, before many readers walk over them.

use esker_base::table_meta::KeyBounds;
use esker_base::{KeyspaceId, Kind};

/// How many point deletes of one keyspace are worth a look at what they hide.
const WORTH_A_LOOK: u64 = 1 << 18;

/// The point deletes in one memtable of the keyspace that was deleted from last, since it was.
#[derive(Debug)]
pub(crate) struct Deletes {
    keyspace: KeyspaceId,
    count: u64,
    /// Empty while there is none.
    smallest: Vec<u8>,
    largest: Vec<u8>,
    /// At which count they are looked at next.
    look_at: u64,
}

impl Deletes {
    pub(super) fn new() -> Self {
        Deletes {
            keyspace: KeyspaceId(0),
            count: 0,
            smallest: Vec::new(),
            largest: Vec::new(),
            look_at: WORTH_A_LOOK,
        }
    }

    /// An entry was written.
    #[inline]
    pub(super) fn note(&mut self, keyspace: KeyspaceId, key: &[u8], kind: Kind) {
        if kind == Kind::Delete {
            self.note_delete(keyspace, key);
        }
    }

    fn note_delete(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        if self.count == 0 || self.keyspace != keyspace {
            (self.keyspace, self.count, self.look_at) = (keyspace, 0, WORTH_A_LOOK);
            set(&mut self.smallest, key);
            set(&mut self.largest, key);
        } else if key > self.largest.as_slice() {
            set(&mut self.largest, key);
        } else if key < self.smallest.as_slice() {
            set(&mut self.smallest, key);
        }
        self.count += 1;
    }

    /// Whether there are so many that it is time to look at what they hide. One comparison.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.count >= self.look_at
    }

    /// Whether at least a quarter of the entries that lie between them, of which `entries_within` tells the number, may be
    /// hidden by them. If not, it will be some time before there is another look.
    pub(crate) fn lie_together(
        &mut self,
        entries_within: impl FnOnce(KeyspaceId, &KeyBounds) -> u64,
    ) -> bool {
        self.look_at = self.count + WORTH_A_LOOK;
        let bounds = KeyBounds {
            smallest: self.smallest.clone(),
            largest: self.largest.clone(),
            largest_exclusive: false,
        };
        let within = entries_within(self.keyspace, &bounds);
        within > 0 && within / 4 <= self.count
    }
}

fn set(own: &mut Vec<u8>, key: &[u8]) {
    own.clear();
    own.extend_from_slice(key);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SPACE: KeyspaceId = KeyspaceId(3);

    #[test]
    fn many_deletes_between_few_entries_lie_together() {
        let mut deletes = Deletes::new();
        for n in 0..WORTH_A_LOOK {
            assert!(!deletes.are_many());
            deletes.note(SPACE, &n.to_be_bytes(), Kind::Put);
            // Neither ascending nor descending.
            deletes.note(SPACE, &(n ^ 5).to_be_bytes(), Kind::Delete);
        }
        assert!(deletes.are_many());
        let within = |entries| {
            move |keyspace, bounds: &KeyBounds| {
                assert_eq!(keyspace, SPACE);
                assert_eq!(bounds.smallest, 0u64.to_be_bytes());
                assert_eq!(bounds.largest, (WORTH_A_LOOK - 1).to_be_bytes());
                entries
            }
        };
        assert!(deletes.lie_together(within(4 * WORTH_A_LOOK)));
        assert!(!deletes.are_many(), "looked at a moment ago");
        assert!(!deletes.lie_together(within(5 * WORTH_A_LOOK)));
        assert!(!deletes.lie_together(within(0)), "nothing to drop");
        deletes.note(KeyspaceId(4), b"other", Kind::Delete);
        assert_eq!((deletes.count, deletes.smallest.as_slice()), (1, &b"other"[..]));
    }
}
