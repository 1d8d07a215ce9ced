//! The block cache: every open table has an array of slots, one a block; a hit is one load.
//!
//! Invariants:
//! 1. A block in a slot was checked and validated. An error is never cached.
//! 2. `used` is the sum of the charges of all blocks in slots: whoever puts a block into a slot adds
//!    its charge, whoever takes it out (by swapping the slot empty) subtracts it, exactly once.
//! 3. A slot that holds a block has its bit in `present` set, or about to be set by the inserter; a
//!    bit over an empty slot is allowed and costs the clock one look.
//!
//! Threads and locks: a hit takes no lock and writes no memory that another reader writes, but for the
//! block's `referenced` mark, which is only written while it is unset. The clock's mutex is taken to
//! insert beyond the capacity, and to open or close a table; nothing else is locked under it and no
//! I/O happens there.
//!
//! Memory: the ledger is debited for a block until its last user lets go: a value handed out pins its
//! block, in the ledger too, after the block left the cache.

mod spares;
mod stripes;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use esker_base::ledger::{Held, Ledger, Purpose};
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::sync::{ArcSwapOption, Guard, Mutex};
use esker_vfs::os::memory::prefetch;

use crate::block::Block;
use spares::Spares;
use stripes::Striped;

/// What a cached block costs beside its bytes: trailer, block, owner, allocator.
const OVERHEAD_BYTES: u64 = 192;

/// Whether a block that had to be read is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// No.
    No,
    /// If nothing has to leave for it.
    Room,
    /// Yes.
    Yes,
}

/// What a cache did so far. Bytes are those of blocks in the cache with their overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Blocks found in the cache.
    pub hits: u64,
    /// Blocks looked for and not found.
    pub misses: u64,
    /// Blocks taken out to make room.
    pub evictions: u64,
    /// Bytes in the cache now.
    pub bytes: u64,
    /// Bytes it may hold.
    pub capacity_bytes: u64,
}

/// A cache of data blocks, shared by all tables of a database. Eviction is by clock: a block that was
/// used since the hand last passed stays for another round.
#[derive(Debug)]
pub struct BlockCache {
    capacity: u64,
    ledger: Arc<Ledger>,
    used: AtomicU64,
    clock: Mutex<Clock>,
    spares: Arc<Spares>,
    hits: Striped,
    misses: Striped,
    evictions: AtomicU64,
}

/// The tables of a cache and the hand that walks over them.
#[derive(Debug, Default)]
struct Clock {
    tables: Vec<Arc<Slots>>,
    /// The table under the hand; taken modulo the number of tables.
    table: usize,
    /// The next block of that table.
    block: usize,
}

impl BlockCache {
    /// A cache of at most `capacity_bytes`, debited to `ledger`. With 0 nothing is cached.
    pub fn new(capacity_bytes: u64, ledger: Arc<Ledger>) -> Arc<BlockCache> {
        Arc::new(BlockCache {
            capacity: capacity_bytes,
            ledger,
            used: AtomicU64::new(0),
            clock: Mutex::new(Clock::default()),
            spares: Arc::default(),
            hits: Striped::default(),
            misses: Striped::default(),
            evictions: AtomicU64::new(0),
        })
    }

    /// What the cache did so far.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.hits.sum(),
            misses: self.misses.sum(),
            evictions: self.evictions.load(Ordering::Relaxed),
            bytes: self.used.load(Ordering::Relaxed),
            capacity_bytes: self.capacity,
        }
    }

    /// Slots for a table of `blocks` blocks.
    pub(crate) fn open_table(self: &Arc<Self>, blocks: usize) -> CachedTable {
        let slots = Arc::new(Slots {
            blocks: (0..blocks).map(|_| ArcSwapOption::empty()).collect(),
            present: (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        });
        self.clock.lock().tables.push(Arc::clone(&slots));
        CachedTable { slots, cache: Arc::clone(self) }
    }

    /// Evict until the cache fits its capacity again.
    #[cold]
    fn make_room(&self) {
        let mut clock = self.clock.lock();
        // The first round clears marks, the second finds blocks without; a third that finds none means
        // that readers mark as fast as the hand unmarks: leave it to the next insert.
        let mut turns = clock.tables.len() * 3 + 1;
        while self.used.load(Ordering::Relaxed) > self.capacity && turns > 0 {
            let Some(slots) = clock.current() else { return };
            match slots.next_present(clock.block) {
                None => {
                    clock.table += 1;
                    clock.block = 0;
                    turns -= 1;
                }
                Some(block) => {
                    clock.block = block + 1;
                    if let Some(charge) = slots.evict(block) {
                        self.used.fetch_sub(charge, Ordering::Relaxed);
                        self.evictions.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

impl Clock {
    fn current(&mut self) -> Option<Arc<Slots>> {
        if self.table >= self.tables.len() {
            self.table = 0;
        }
        self.tables.get(self.table).cloned()
    }
}

/// The slots of one table.
#[derive(Debug)]
struct Slots {
    blocks: Vec<ArcSwapOption<Block>>,
    /// One bit a block, so that the hand skips 64 empty slots at a time.
    present: Vec<AtomicU64>,
}

impl Slots {
    /// The first block from `from` on that is present.
    fn next_present(&self, from: usize) -> Option<usize> {
        let mut mask = u64::MAX << (from % 64);
        for (word, bits) in self.present.iter().enumerate().skip(from / 64) {
            let bits = bits.load(Ordering::Relaxed) & mask;
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Take block `block` out unless it was used; its charge if it was taken out.
    fn evict(&self, block: usize) -> Option<u64> {
        let slot = self.blocks.get(block)?;
        let used = slot.load().as_ref().is_some_and(|block| block.unmark());
        if used { None } else { self.take(block) }
    }

    /// Take block `block` out; its charge if it was there.
    fn take(&self, block: usize) -> Option<u64> {
        // The bit goes first: a block inserted in between sets it again after this.
        let (word, bit) = (block / 64, 1u64 << (block % 64));
        self.present.get(word)?.fetch_and(!bit, Ordering::AcqRel);
        let block = self.blocks.get(block)?.swap(None)?;
        Some(charge(&block))
    }
}

/// A table's part of the cache. Dropping it takes all its blocks out.
#[derive(Debug)]
pub(crate) struct CachedTable {
    slots: Arc<Slots>,
    cache: Arc<BlockCache>,
}

/// A block that is in the cache, or was when it was looked up.
pub(crate) type Cached = Guard<Option<Arc<Block>>>;

/// What a cached block is charged.
fn charge(block: &Block) -> u64 {
    block.bytes().len() as u64 + OVERHEAD_BYTES
}

impl CachedTable {
    /// Start loading what [`get`](Self::get) and its caller will look at first. Counts as nothing.
    pub(crate) fn prefetch(&self, block: usize) {
        let slot = self.slots.blocks.get(block).map(ArcSwapOption::load);
        if let Some(block) = slot.as_ref().and_then(|slot| slot.as_ref()) {
            prefetch(Arc::as_ptr(block));
        }
    }

    /// Block `block`, if it is cached. `mark` says whether that counts as a use.
    #[inline]
    pub(crate) fn get(&self, block: usize, mark: bool) -> Option<Cached> {
        let guard = self.slots.blocks.get(block)?.load();
        let Some(block) = guard.as_ref() else {
            self.cache.misses.add(1);
            return None;
        };
        if mark {
            block.mark();
        }
        self.cache.hits.add(1);
        Some(guard)
    }

    /// Whether a block of `len` bytes is to be inserted; under [`Fill::Room`] others may take the room meanwhile.
    pub(crate) fn takes(&self, fill: Fill, len: usize) -> bool {
        let used = || self.cache.used.load(Ordering::Relaxed);
        match fill {
            Fill::No => false,
            Fill::Room => used() + len as u64 + OVERHEAD_BYTES <= self.cache.capacity,
            Fill::Yes => true,
        }
    }

    /// An empty buffer for the `len` bytes of a block that will be inserted, unless it is a long one.
    pub(crate) fn buffer(&self, len: usize) -> Option<Vec<u8>> {
        self.cache.spares.take(len)
    }

    /// Bytes for a block that will be inserted, debited to the cache's account for as long as anything
    /// holds on to them.
    pub(crate) fn adopt(&self, bytes: Vec<u8>) -> Bytes {
        let held = self.cache.ledger.hold(Purpose::Cache, bytes.capacity() as u64 + OVERHEAD_BYTES);
        Bytes::from_owner(Adopted { bytes, spares: Arc::clone(&self.cache.spares), _held: held })
    }

    /// Cache block `index`, whose bytes came from [`CachedTable::adopt`].
    pub(crate) fn insert(&self, index: usize, block: &Arc<Block>) {
        let added = charge(block);
        let Some(slot) = self.slots.blocks.get(index) else { return };
        if added > self.cache.capacity {
            return;
        }
        let used = self.cache.used.fetch_add(added, Ordering::Relaxed) + added;
        if let Some(before) = slot.swap(Some(Arc::clone(block))) {
            // Two readers missed at the same time.
            self.cache.used.fetch_sub(charge(&before), Ordering::Relaxed);
        }
        if let Some(word) = self.slots.present.get(index / 64) {
            word.fetch_or(1 << (index % 64), Ordering::AcqRel);
        }
        if used > self.cache.capacity {
            self.cache.make_room();
        }
    }
}

impl Drop for CachedTable {
    fn drop(&mut self) {
        {
            let mut clock = self.cache.clock.lock();
            if let Some(at) = clock.tables.iter().position(|slots| Arc::ptr_eq(slots, &self.slots)) {
                clock.tables.swap_remove(at);
                clock.block = if clock.table == at { 0 } else { clock.block };
            }
        }
        // Nobody else reaches the slots any more.
        let mut block = 0;
        while let Some(present) = self.slots.next_present(block) {
            if let Some(charge) = self.slots.take(present) {
                self.cache.used.fetch_sub(charge, Ordering::Relaxed);
            }
            block = present + 1;
        }
    }
}

/// Bytes of a cached block with their debit.
struct Adopted {
    bytes: Vec<u8>,
    spares: Arc<Spares>,
    _held: Held,
}

impl Drop for Adopted {
    fn drop(&mut self) {
        self.spares.give(std::mem::take(&mut self.bytes));
    }
}

impl AsRef<[u8]> for Adopted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
