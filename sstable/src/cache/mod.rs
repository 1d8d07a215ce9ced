//! The block cache: every open table has an array of slots, one a block; a hit is one load. Blob files have slots too, for
//! their records (`blob/cached.rs`), which are blocks here.
//!
//! Invariants:
//! 1. A block in a slot was checked and validated. An error is never cached.
//! 2. `used` is the sum of the charges of all blocks in slots: the thread that puts a block into a slot adds
//!    its charge, the one that takes it out (by swapping the slot empty) subtracts it, exactly once.
//! 3. A slot that holds a block has its bit in `present` set, or is about to have it set by whoever inserts
//!    the block; a bit that is set for an empty slot is allowed, and costs the clock one look.
//!
//! A full cache takes a block in at its second miss since the clock's hand passed it last: what is read
//! once would evict what is read often. While there is room, the first miss is enough; while all blocks of all open
//! tables would fit, a miss reads the blocks beside the missed one too (`reader/load.rs`).
//!
//! Threads and locks: a hit takes no lock and writes no memory that another reader writes, but for the
//! block's `referenced` mark, which is only written while it is unset. The clock's mutex is taken to
//! insert beyond the capacity, and to open or close a table; nothing else is locked under it and no
//! I/O happens there.
//!
//! Memory: the ledger is debited for a block until its last handle is dropped: a cursor keeps the block it stands in, and its
//! debit, after the block was evicted.

mod bits;
mod cached;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

use std::mem::ManuallyDrop;
use std::sync::Arc;

use esker_base::Result;
use esker_base::ledger::{Ledger, Purpose};
use esker_base::memory::probe;
use esker_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use esker_base::sync::{ArcSwapAny, Guard, Mutex};
use esker_vfs::os::block_pool::BlockPool;
use esker_vfs::os::memory::prefetch;
use esker_vfs::scheduler::Scheduler;

use bits::Bits;
pub(crate) use cached::{BlockBuf, CachedBlock};

/// What a cached block costs beside its bytes.
const OVERHEAD_BYTES: u64 = CachedBlock::OVERHEAD_BYTES as u64;

/// A table counts for no more than this many bytes, so that the sum over 2^16 open tables does not
/// overflow, whatever they claim.
const WHOLE_BYTES_MAX: u64 = 1 << 48;

/// Allocations are rounded up to a multiple of this, in bytes, to limit fragmentation: blocks of about the same length fit into
/// the gaps that others left.
const STEP_BYTES: usize = 256;

/// Cache lines of a block that a get prefetches at once, after the one with its header: columns and keys of some 40 short rows,
/// so that the row it finds is being loaded before it knows which that is. With five, gets of many at a time had 0.95 of the rate,
/// those by two threads 0.93; with 28 gets of many at a time were 3 to 6 % slower.
const GET_LINES: usize = 16;

/// Whether a block that had to be read is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// No.
    No,
    /// Only if no other block has to leave for it.
    Room,
    /// Yes; into a full cache at the second miss.
    Yes,
}

/// What a cache did so far. Bytes are those of blocks in the cache with their overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Blocks taken out to make room.
    pub evictions: u64,
    /// Bytes in the cache now.
    pub bytes: u64,
    /// Bytes it may hold.
    pub capacity_bytes: u64,
}

/// A cache of data blocks, shared by all tables of a database. Eviction is by clock: a block that was used
/// since the hand last passed stays for another round. A full cache takes a block in at its second miss of
/// a round.
#[derive(Debug)]
pub struct BlockCache {
    capacity: u64,
    ledger: Arc<Ledger>,
    used: AtomicU64,
    /// What the blocks of all open tables would be charged, about.
    whole: AtomicU64,
    clock: Mutex<Clock>,
    pool: Arc<BlockPool>,
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
            whole: AtomicU64::new(0),
            clock: Mutex::new(Clock::default()),
            pool: Arc::default(),
            evictions: AtomicU64::new(0),
        })
    }

    /// What the cache did so far.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            evictions: self.evictions.load(Ordering::Relaxed),
            bytes: self.used.load(Ordering::Relaxed),
            capacity_bytes: self.capacity,
        }
    }

    /// Have jobs of `scheduler` bring memory in ahead from now on: see [`BlockPool::grow_by`].
    pub fn grow_by(&self, scheduler: Arc<dyn Scheduler>) {
        self.pool.grow_by(scheduler);
    }

    /// Slots for a table of `blocks` blocks that take `raw_bytes` bytes in all.
    pub(crate) fn open_table(self: &Arc<Self>, blocks: usize, raw_bytes: u64) -> CachedTable {
        // Rounding up adds half a step on average.
        let each = OVERHEAD_BYTES + STEP_BYTES as u64 / 2;
        let whole = raw_bytes.saturating_add((blocks as u64).saturating_mul(each)).min(WHOLE_BYTES_MAX);
        self.open(blocks, whole)
    }

    /// Slots for a file whose blocks come in only when they are read, so that it does not count in `whole`.
    pub(crate) fn open_slots(self: &Arc<Self>, blocks: usize) -> CachedTable {
        self.open(blocks, 0)
    }

    fn open(self: &Arc<Self>, blocks: usize, whole: u64) -> CachedTable {
        let slots = Arc::new(Slots {
            blocks: (0..blocks).map(|_| ManuallyDrop::new(ArcSwapAny::new(None))).collect(),
            present: Bits::new(blocks),
            count: AtomicUsize::new(0),
            missed: Bits::new(blocks),
        });
        self.clock.lock().tables.push(Arc::clone(&slots));
        self.whole.fetch_add(whole, Ordering::Relaxed);
        CachedTable { slots, whole, cache: Arc::clone(self) }
    }

    /// `block` was taken out of its slot.
    fn let_go(&self, block: &CachedBlock) {
        self.used.fetch_sub(charge(block), Ordering::Relaxed);
    }

    /// Evict until the cache fits its capacity again.
    #[cold]
    fn evict_to_capacity(&self) {
        // Declared before the lock and so dropped after it: the memory goes back once the lock is free
        // again.
        let mut evicted = Vec::new();
        let mut clock = self.clock.lock();
        // The first round clears marks, the second finds blocks without; a third that finds none means
        // that readers mark as fast as the hand unmarks: leave it to the next insert.
        let mut turns = clock.tables.len() * 3 + 1;
        while self.used.load(Ordering::Relaxed) > self.capacity && turns > 0 {
            let Some(slots) = clock.current() else { return };
            let next = slots.present.next(clock.block);
            slots.missed.forget(clock.block, next.unwrap_or(usize::MAX));
            match next {
                None => {
                    clock.table += 1;
                    clock.block = 0;
                    turns -= 1;
                }
                Some(block) => {
                    clock.block = block + 1;
                    if let Some(block) = slots.evict(block) {
                        self.let_go(&block);
                        self.evictions.fetch_add(1, Ordering::Relaxed);
                        evicted.push(block);
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

/// Slots in a cache line: a slot is a pointer.
const SLOTS_A_LINE: usize = 64 / size_of::<usize>();

/// The slots of one table.
#[derive(Debug)]
struct Slots {
    /// Slots are not dropped one by one: each would look through all threads' guards, though
    /// [`CachedTable`] has emptied it before.
    blocks: Vec<ManuallyDrop<ArcSwapAny<Option<CachedBlock>>>>,
    /// Which slots hold a block.
    present: Bits,
    /// How many bits of `present` are set: counted where one is set or cleared.
    count: AtomicUsize,
    /// Which blocks were missed since the hand was there last, while the cache was full.
    missed: Bits,
}

impl Slots {
    /// Take block `block` out unless it was used.
    fn evict(&self, block: usize) -> Option<CachedBlock> {
        let slot = self.blocks.get(block)?;
        let used = slot.load().as_ref().is_some_and(|block| block.unmark());
        if used { None } else { self.take(block) }
    }

    /// Take block `block` out, if it is there.
    fn take(&self, block: usize) -> Option<CachedBlock> {
        // The bit goes first: a block inserted in between sets it again after this.
        if self.present.clear(block) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        self.blocks.get(block)?.swap(None)
    }
}

/// A table's part of the cache. Dropping it takes all its blocks out.
#[derive(Debug)]
pub(crate) struct CachedTable {
    slots: Arc<Slots>,
    /// What all its blocks would be charged, about.
    whole: u64,
    cache: Arc<BlockCache>,
}

/// A block that is in the cache, or was when it was looked up.
pub(crate) type Cached = Guard<Option<CachedBlock>>;

/// Bytes that are allocated for a block of `len`.
fn allocated_bytes(len: usize) -> usize {
    len.next_multiple_of(STEP_BYTES)
}

/// What a cached block is charged.
fn charge(block: &CachedBlock) -> u64 {
    block.bytes().len() as u64 + OVERHEAD_BYTES
}

/// Prefetch these cache lines of `block`, counted from its header, without looking at it.
#[inline]
fn prefetch_lines(block: &CachedBlock, lines: std::ops::Range<usize>) {
    let start = block.as_ptr();
    lines.for_each(|line| prefetch(start.wrapping_add(64 * line)));
}

impl CachedTable {
    /// Prefetch the slots of `count` blocks from `first` on, of which some need not be there: two lines' worth at most.
    #[inline]
    pub(crate) fn prefetch_slots(&self, first: usize, count: usize) {
        let slot = self.slots.blocks.as_ptr().wrapping_add(first);
        // They need not begin with a line.
        for at in [0, SLOTS_A_LINE, count - 1] {
            prefetch(slot.wrapping_add(at));
        }
    }

    /// Prefetch what [`get`](Self::get) and its caller will look at first of a cached block, or `lines`
    /// cache lines if those are more; returns where the block starts. Not counted as a use.
    pub(crate) fn prefetch(&self, block: usize, lines: usize) -> Option<*const u8> {
        let slot = self.slots.blocks.get(block)?.load();
        let block = slot.as_ref()?;
        prefetch_lines(block, 0..lines.max(GET_LINES));
        Some(block.as_ptr())
    }

    /// Block `block`, if it is cached. `mark` says whether that counts as a use.
    #[inline]
    pub(crate) fn get(&self, block: usize, mark: bool) -> Option<Cached> {
        let guard = self.slots.blocks.get(block)?.load();
        let block = guard.as_ref()?;
        prefetch_lines(block, 1..GET_LINES + 1);
        if mark {
            block.mark();
        }
        Some(guard)
    }

    /// Whether block `block`, of `len` bytes, is to be inserted now that it was missed. Other blocks may
    /// take the room meanwhile.
    pub(crate) fn takes(&self, block: usize, fill: Fill, len: usize) -> bool {
        let added = allocated_bytes(len) as u64 + OVERHEAD_BYTES;
        let fits = |used: u64| used + added <= self.cache.capacity;
        let has_room = || fits(self.cache.used.load(Ordering::Relaxed));
        match fill {
            Fill::No => false,
            Fill::Room => has_room(),
            Fill::Yes => fits(0) && (has_room() || self.slots.missed.set(block)),
        }
    }

    /// Bytes that the whole cache may hold.
    pub(crate) fn capacity(&self) -> u64 {
        self.cache.capacity
    }

    /// Whether all blocks of all open tables would fit into the cache.
    pub(crate) fn has_room_for_all(&self) -> bool {
        self.cache.whole.load(Ordering::Relaxed) <= self.cache.capacity
    }

    /// Whether block `block` is cached. Counts as nothing.
    pub(crate) fn holds(&self, block: usize) -> bool {
        self.slots.present.get(block)
    }

    /// How many blocks are cached.
    pub(crate) fn count(&self) -> usize {
        self.slots.count.load(Ordering::Relaxed)
    }

    /// A buffer for a block of `len` bytes that will be inserted, which begins with `bytes`. It is debited to the cache's
    /// account for as long as anything holds on to it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](esker_base::Error::OutOfMemory), of a long block.
    pub(crate) fn allocate(&self, bytes: &[u8], len: usize) -> Result<BlockBuf> {
        let allocated = allocated_bytes(len);
        probe(allocated + CachedBlock::OVERHEAD_BYTES, "a block")?;
        let held = self.cache.ledger.hold(Purpose::Cache, allocated as u64 + OVERHEAD_BYTES);
        Ok(BlockBuf::new(&self.cache.pool, bytes, allocated, held))
    }

    /// Cache block `index`.
    pub(crate) fn insert(&self, index: usize, block: &CachedBlock) {
        let added = charge(block);
        let Some(slot) = self.slots.blocks.get(index) else { return };
        if added > self.cache.capacity {
            return;
        }
        let used = self.cache.used.fetch_add(added, Ordering::Relaxed) + added;
        if let Some(before) = slot.swap(Some(block.clone())) {
            // Two readers missed at the same time.
            self.cache.let_go(&before);
        }
        // Counted before the bit is set: otherwise whoever clears the bit in between would take the count
        // below 0.
        self.slots.count.fetch_add(1, Ordering::Relaxed);
        if self.slots.present.set(index) {
            self.slots.count.fetch_sub(1, Ordering::Relaxed);
        }
        if used > self.cache.capacity {
            self.cache.evict_to_capacity();
        }
    }
}

impl Drop for CachedTable {
    fn drop(&mut self) {
        self.cache.whole.fetch_sub(self.whole, Ordering::Relaxed);
        {
            let mut clock = self.cache.clock.lock();
            if let Some(at) = clock.tables.iter().position(|slots| Arc::ptr_eq(slots, &self.slots)) {
                clock.tables.swap_remove(at);
                clock.block = if clock.table == at { 0 } else { clock.block };
            }
        }
        // Nobody else reaches the slots any more.
        let mut block = 0;
        while let Some(present) = self.slots.present.next(block) {
            if let Some(block) = self.slots.take(present) {
                self.cache.let_go(&block);
            }
            block = present + 1;
        }
    }
}
