//! A memtable's Bloom filter: most gets find their key in a table, and need not search the memtable's index
//! first.
//!
//! All bits of a key lie in one word, so that a lookup is one load and an insertion one store. Bits are set before the
//! entry's sequence number is published: a reader that finds them missing after it has loaded its own number (acquire)
//! knows that no entry up to that number has the key.
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

    /// Prefetch the word that [`add`](Self::add) will look at.
    #[inline]
    pub(super) fn prefetch(&self, hash: KeyHash) {
        prefetch(self.place(hash).0);
    }

    /// The key is about to be published. For the writer.
    #[inline]
    pub(super) fn add(&self, hash: KeyHash) {
        let (word, bits) = self.place(hash);
        let before = word.load(Ordering::Relaxed);
        if before & bits != bits {
            // Only one thread stores, so nothing is lost between the load and the store.
            word.store(before | bits, Ordering::Relaxed);
        }
    }

    /// Whether a key with this hash may have been inserted.
    #[inline]
    pub(super) fn may_contain(&self, keyspace: KeyspaceId, hash: u64) -> bool {
        let (word, bits) = self.place(KeyHash::new(keyspace, hash));
        word.load(Ordering::Relaxed) & bits == bits
    }

    /// The key's word, from the upper bits of its hash, and its bits there, from the lower ones.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of words, a usize")]
    fn place(&self, KeyHash(hash): KeyHash) -> (&AtomicU64, u64) {
        let word = ((u128::from(hash) * self.words.len() as u128) >> 64) as usize;
        let bit = |shift: u32| 1u64 << (hash >> shift & 63);
        (&self.words[word], bit(0) | bit(6) | bit(12) | bit(18))
    }
}

/// A key's hash, as one filter for several keyspaces has it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    /// Of a key of `keyspace` with the hash `checksum::key_hash(key)`.
    #[inline]
    pub(super) fn new(keyspace: KeyspaceId, key_hash: u64) -> KeyHash {
        KeyHash(key_hash ^ u64::from(keyspace.0).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// How many hashes are pending at a time: about as many cache misses as a core can have outstanding.
const PENDING: usize = 8;

/// Hashes of keys written one after the other, each added some keys after its word was prefetched.
#[derive(Debug, Default)]
pub(super) struct PendingHashes {
    hashes: [KeyHash; PENDING],
    /// How many came since all were added.
    count: usize,
}

impl PendingHashes {
    /// Prefetch the word of `hash`, and add the one that came [`PENDING`] before it.
    #[inline]
    pub(super) fn push(&mut self, filter: &KeyFilter, hash: KeyHash) {
        filter.prefetch(hash);
        let earlier = std::mem::replace(&mut self.hashes[self.count % PENDING], hash);
        if self.count >= PENDING {
            filter.add(earlier);
        }
        self.count += 1;
    }

    /// Add all that are still pending.
    #[inline]
    pub(super) fn settle(&mut self, filter: &KeyFilter) {
        for hash in &self.hashes[..self.count.min(PENDING)] {
            filter.add(*hash);
        }
        self.count = 0;
    }
}
