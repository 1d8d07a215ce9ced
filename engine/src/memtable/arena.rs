//! The memory of one memtable: append-only chunks that never move and are freed all at once.
//!
//! An [`Arena`] owns the chunks; an [`ArenaWriter`] carves pieces off its newest chunk. A memtable has
//! two writers over one arena, one for entries and one for index nodes, so that the index stays dense. The large
//! chunks go on to the next memtable ([`spare`](super::spare)).
//!
//! Invariants:
//! 1. A chunk is neither moved nor freed before its arena is dropped; a piece handed out therefore
//!    stays where it is for as long as somebody holds the `Arc<Arena>`.
//! 2. Pieces do not overlap, and an `ArenaWriter` hands each out once.
//!
//! Threads: an `ArenaWriter` belongs to one thread at a time (`&mut`). The chunk list is behind a
//! mutex that is taken once a chunk, never by readers. `bytes` may be read by anyone.
#![expect(unsafe_code, reason = "pieces of memory that is freed as a whole")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_vfs::os::memory::{HUGE_PAGE_BYTES, advise_huge_pages, prefetch};

use super::entry::ENTRY_LINES;
use super::spare::SpareChunks;

/// Chunks start on a cache line.
const CHUNK_ALIGN: usize = LINE_BYTES;
/// A cache line.
pub(super) const LINE_BYTES: usize = 64;
/// The first chunk of a writer, in bytes.
const CHUNK_BYTES_MIN: usize = 4 << 10;
/// The largest shared chunk, in bytes. A larger piece gets a chunk of its own.
pub(super) const CHUNK_BYTES_MAX: usize = HUGE_PAGE_BYTES;

/// Owns the chunks of one memtable.
#[derive(Debug)]
pub(super) struct Arena {
    chunks: Mutex<Vec<Chunk>>,
    /// Bytes of all chunks, and what was counted beside them.
    bytes: AtomicU64,
    /// Bytes of pieces that nothing new will come to see.
    outgrown: AtomicU64,
    /// Where the largest chunks come from and go to.
    spare: Option<Arc<SpareChunks>>,
}

/// One allocation.
#[derive(Debug)]
pub(super) struct Chunk {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a chunk owns its allocation and touches it in `drop` alone; which thread frees it does not
// matter to the allocator.
unsafe impl Send for Chunk {}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: (1) `start` came from `alloc` with this very `layout` (`Chunk::new`); (2) a chunk
        // is not `Clone`, so this runs once; (3) it runs when the arena is dropped, or later if the chunk
        // went to the spare ones, and invariant 1 promises nothing then.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl Chunk {
    /// A chunk of `bytes` bytes (not 0), uninitialised.
    fn new(bytes: usize) -> Chunk {
        let align = if bytes == CHUNK_BYTES_MAX { CHUNK_BYTES_MAX } else { CHUNK_ALIGN };
        let layout = Layout::from_size_align(bytes, align).expect("sizes fit an allocation");
        // SAFETY: the size is not zero: callers ask for at least one piece, which is not empty.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        if bytes == CHUNK_BYTES_MAX {
            advise_huge_pages(start, bytes);
        }
        Chunk { start, layout }
    }

    /// A chunk of [`CHUNK_BYTES_MAX`] bytes, each page of which the system has brought in.
    pub(super) fn brought_in() -> Chunk {
        const PAGE_BYTES: usize = 4 << 10;
        let chunk = Chunk::new(CHUNK_BYTES_MAX);
        for at in (0..CHUNK_BYTES_MAX).step_by(PAGE_BYTES) {
            // SAFETY: (1) `at` is below the allocation's size; (2) nobody else has it yet.
            unsafe { chunk.start.add(at).write(0) };
        }
        chunk
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let Some(spare) = &self.spare else { return };
        let chunks = std::mem::take(&mut *self.chunks.lock());
        spare.put(chunks.into_iter().filter(|chunk| chunk.layout.size() == CHUNK_BYTES_MAX));
    }
}

impl Arena {
    /// An arena without memory, which takes its largest chunks from the `spare` ones first.
    pub(super) fn new(spare: Option<Arc<SpareChunks>>) -> Self {
        let (chunks, bytes, outgrown) = (Mutex::new(Vec::new()), AtomicU64::new(0), AtomicU64::new(0));
        Arena { chunks, bytes, outgrown, spare }
    }

    /// Count `bytes` that lie outside the chunks, but are held for this memtable.
    pub(super) fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes held so far. One relaxed load.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Count `bytes` as held only for readers that are under way.
    pub(super) fn count_outgrown(&self, bytes: usize) {
        self.outgrown.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of pieces counted as outgrown. One relaxed load.
    pub(super) fn outgrown(&self) -> u64 {
        self.outgrown.load(Ordering::Relaxed)
    }

    /// Take a chunk of `bytes` bytes (not 0).
    fn grow(&self, bytes: usize) -> NonNull<u8> {
        let spare = self.spare.as_ref().filter(|_| bytes == CHUNK_BYTES_MAX);
        let chunk = spare.and_then(SpareChunks::take).unwrap_or_else(|| Chunk::new(bytes));
        let start = chunk.start;
        self.chunks.lock().push(chunk);
        self.count(bytes);
        start
    }
}

/// Carves pieces off an arena; one owner.
#[derive(Debug)]
pub(super) struct ArenaWriter {
    arena: Arc<Arena>,
    /// The unused rest of the current chunk: where it starts and how long it is.
    free: NonNull<u8>,
    free_bytes: usize,
    /// Bytes of all chunks this writer has taken.
    taken: usize,
}

// SAFETY: `free` points into memory that `arena` owns and that no other writer hands out (invariant
// 2), so the owner may move to another thread.
unsafe impl Send for ArenaWriter {}

impl ArenaWriter {
    /// A writer that takes its first chunk when it is first asked for a piece.
    pub(super) fn new(arena: Arc<Arena>) -> Self {
        ArenaWriter { arena, free: NonNull::dangling(), free_bytes: 0, taken: 0 }
    }

    /// A piece of `layout.size()` bytes (not 0), uninitialised, alive as long as the arena.
    #[inline]
    pub(super) fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        assert!(layout.size() > 0 && layout.align() <= CHUNK_ALIGN, "a piece the arena can place");
        let padding = self.free.as_ptr().align_offset(layout.align());
        let Some(rest) =
            padding.checked_add(layout.size()).and_then(|need| self.free_bytes.checked_sub(need))
        else {
            return self.allocate_slow(layout);
        };
        // SAFETY: (1) `padding + size <= free_bytes`, and `free_bytes` bytes from `free` lie in one
        // allocation, so both sums stay inside it or one past its end; (2) not null for that reason.
        let (piece, free) = unsafe {
            let piece = self.free.add(padding);
            (piece, piece.add(layout.size()))
        };
        self.free = free;
        self.free_bytes = rest;
        // Nobody has touched the next piece's memory lately, and a store that waits for its line holds up the next system call.
        for line in 1..=ENTRY_LINES {
            prefetch(free.as_ptr().wrapping_add(LINE_BYTES * line));
        }
        piece
    }

    /// As [`allocate`](Self::allocate), from a new chunk. Chunks grow with what is held, so that the
    /// unused rest stays near a quarter; a large piece gets a chunk of its own and the current one
    /// goes on.
    #[cold]
    fn allocate_slow(&mut self, layout: Layout) -> NonNull<u8> {
        let shared = (self.taken / 4).next_power_of_two().clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        if layout.size() > shared / 4 {
            let size = layout.pad_to_align().size();
            self.taken += size;
            return self.arena.grow(size);
        }
        self.free = self.arena.grow(shared);
        self.free_bytes = shared;
        self.taken += shared;
        self.allocate(layout)
    }
}
