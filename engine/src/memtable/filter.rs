//! Which keys are surely not in a memtable: most gets find their key in a table, and need not walk down the
//! index first.
//!
//! A Bloom filter in which all bits of a key lie in one word, so that a look is one load and the writer's
//! part one store. Bits are set before the entry is in the index: who finds them missing after it has loaded
//! its sequence number (acquire) knows that no entry up to that number has the key.
//!
//! Threads: one writer; any number of readers.

use esker_base::KeyspaceId;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_vfs::os::memory::prefetch;

/// See the module.
#[derive(Debug)]
pub(super) struct KeyFilter {
    words: Box<[AtomicU64]>,
}

impl KeyFilter {
    /// A filter of about `bytes` bytes.
    pub(super) fn new(bytes: usize) -> KeyFilter {
        KeyFilter { words: (0..(bytes / 8).max(1)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Ask for the memory that [`add`](Self::add) will look at.
    #[inline]
    pub(super) fn expect(&self, keyspace: KeyspaceId, hash: u64) {
        prefetch(self.place(keyspace, hash).0);
    }

    /// A key with this hash is about to be inserted. For the writer.
    #[inline]
    pub(super) fn add(&self, keyspace: KeyspaceId, hash: u64) {
        let (word, bits) = self.place(keyspace, hash);
        let before = word.load(Ordering::Relaxed);
        if before & bits != bits {
            // Only one thread stores, so nothing is lost between the load and the store.
            word.store(before | bits, Ordering::Relaxed);
        }
    }

    /// Whether a key with this hash may have been inserted.
    #[inline]
    pub(super) fn may_contain(&self, keyspace: KeyspaceId, hash: u64) -> bool {
        let (word, bits) = self.place(keyspace, hash);
        word.load(Ordering::Relaxed) & bits == bits
    }

    /// The key's word, from the upper bits of its hash, and its bits there, from the lower ones.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of words, a usize")]
    fn place(&self, keyspace: KeyspaceId, hash: u64) -> (&AtomicU64, u64) {
        let hash = hash ^ u64::from(keyspace.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let word = ((u128::from(hash) * self.words.len() as u128) >> 64) as usize;
        let bit = |shift: u32| 1u64 << (hash >> shift & 63);
        (&self.words[word], bit(0) | bit(6) | bit(12) | bit(18))
    }
}
