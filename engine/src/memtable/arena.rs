//! The memory of one memtable: append-only chunks that never move and are freed all at once.
//!
//! An [`Arena`] owns the chunks; an [`ArenaWriter`] carves pieces off its newest chunk. A memtable has
//! two writers over one arena, one for entries and one for index nodes, so that the index stays dense. The large
//! chunks go on to the next memtable ([`spare`](super::spare)).
//!
//! Invariants:
//! 1. A chunk is neither moved nor freed before its arena is dropped; a piece handed out therefore
//!    stays where it is for as long as somebody holds the `Arc<Arena>`.
//! 2. Pieces do not overlap, and an `ArenaWriter` hands each out once. (What an index does with a node's piece that nobody sees
//!    any more is its own affair.)
//!
//! Threads: an `ArenaWriter` belongs to one thread at a time (`&mut`). The chunk list is behind a
//! mutex that is taken once a chunk, never by readers. `bytes` may be read by anyone.
#![expect(unsafe_code, reason = "pieces of memory that is freed as a whole")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_vfs::os::memory::{HUGE_PAGE_BYTES, prefetch};
use esker_vfs::os::pages::Pages;
use esker_vfs::os::region::Region;

use super::entry::ENTRY_LINES;
use super::first_read::FirstRead;
use super::spare::SpareChunks;

/// Chunks start on a cache line.
const CHUNK_ALIGN: usize = LINE_BYTES;
/// A cache line.
pub(super) const LINE_BYTES: usize = 64;
/// A shared chunk of so many bytes or more is the system's.
const SYSTEM_BYTES: usize = 64 << 10;
/// The first chunk of a writer, in bytes.
const CHUNK_BYTES_MIN: usize = 4 << 10;
/// The largest shared chunk, in bytes. A larger piece gets a chunk of its own.
pub(super) const CHUNK_BYTES_MAX: usize = HUGE_PAGE_BYTES;

/// Owns the chunks of one memtable.
#[derive(Debug)]
pub(super) struct Arena {
    chunks: Mutex<Chunks>,
    /// Bytes of all chunks, and what was counted beside them.
    bytes: AtomicU64,
    /// Those of chunks for entries.
    entry_bytes: AtomicU64,
    /// Bytes of pieces that nothing new will come to see.
    outgrown: AtomicU64,
    first_read: FirstRead,
    /// Where the largest chunks come from and go to.
    spare: Option<Arc<SpareChunks>>,
}

/// What an arena's memory comes in.
#[derive(Debug, Default)]
struct Chunks {
    /// Of any size.
    short: Vec<Allocation>,
    /// Of [`CHUNK_BYTES_MAX`] bytes, which may go on to the next memtable.
    long: Vec<Region>,
}

/// Memory of a chunk that does not go on to the next memtable.
#[derive(Debug)]
enum Allocation {
    /// Of the program's allocator.
    Program(NonNull<u8>, Layout),
    /// Of the system: what is large, and would leave a hole where other memtables' chunks and filters have come to lie behind it.
    System(#[expect(dead_code, reason = "it is held")] Pages),
}

// SAFETY: it owns its memory and touches it in `drop` alone; which thread frees it does not
// matter to the allocator.
unsafe impl Send for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Allocation::Program(start, layout) = self {
            // SAFETY: (1) `start` came from `alloc` with this very `layout` (`Allocation::new`); (2) it
            // is not `Clone`, so this runs once; (3) it runs when the arena is dropped, and invariant 1
            // promises nothing then.
            unsafe { dealloc(start.as_ptr(), *layout) }
        }
    }
}

impl Allocation {
    /// Memory of `bytes` bytes (not 0) for many pieces, and where it starts.
    fn shared(bytes: usize) -> (Allocation, NonNull<u8>) {
        if bytes < SYSTEM_BYTES {
            return Allocation::aligned(bytes);
        }
        let mut pages = Pages::new(bytes);
        let start = pages.start();
        (Allocation::System(pages), start)
    }

    /// Memory of `bytes` bytes (not 0) that starts on a cache line, uninitialised, and where that is.
    fn aligned(bytes: usize) -> (Allocation, NonNull<u8>) {
        let layout = Layout::from_size_align(bytes, CHUNK_ALIGN).expect("sizes fit an allocation");
        // SAFETY: the size is not zero: callers ask for at least one piece, which is not empty.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        (Allocation::Program(start, layout), start)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let Some(spare) = &self.spare {
            spare.put(std::mem::take(&mut self.chunks.lock().long));
        }
    }
}

impl Arena {
    /// An arena without memory, which takes its largest chunks from the `spare` ones first.
    pub(super) fn new(spare: Option<Arc<SpareChunks>>) -> Self {
        Arena {
            chunks: Mutex::default(),
            bytes: AtomicU64::new(0),
            entry_bytes: AtomicU64::new(0),
            outgrown: AtomicU64::new(0),
            first_read: FirstRead::new(),
            spare,
        }
    }

    /// Count `bytes` that lie outside the chunks, but are held for this memtable.
    pub(super) fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes held so far. One relaxed load.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the chunks for entries. One relaxed load.
    pub(super) fn entry_bytes(&self) -> u64 {
        self.entry_bytes.load(Ordering::Relaxed)
    }

    /// Count `bytes` as held only for readers that are under way.
    pub(super) fn count_outgrown(&self, bytes: usize) {
        self.outgrown.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of pieces counted as outgrown. One relaxed load.
    pub(super) fn outgrown(&self) -> u64 {
        self.outgrown.load(Ordering::Relaxed)
    }

    /// Whether anybody has read what lies here.
    #[inline]
    pub(super) fn first_read(&self) -> &FirstRead {
        &self.first_read
    }

    /// A chunk of `bytes` bytes, if that is the length of long ones and the system, if none is spare, has one to give.
    fn long_chunk(&self, bytes: usize) -> Option<Region> {
        if bytes != CHUNK_BYTES_MAX {
            return None;
        }
        self.spare.as_ref().and_then(SpareChunks::take).or_else(Region::map_huge)
    }

    /// Take a chunk of `bytes` bytes (not 0) for many pieces.
    fn grow(&self, bytes: usize) -> NonNull<u8> {
        self.count(bytes);
        if let Some(region) = self.long_chunk(bytes) {
            let start = region.start();
            self.chunks.lock().long.push(region);
            return start;
        }
        self.hold(Allocation::shared(bytes))
    }

    /// Take a chunk for one piece of `bytes` bytes (not 0).
    fn grow_for_one(&self, bytes: usize) -> NonNull<u8> {
        self.count(bytes);
        self.hold(Allocation::aligned(bytes))
    }

    fn hold(&self, (allocation, start): (Allocation, NonNull<u8>)) -> NonNull<u8> {
        self.chunks.lock().short.push(allocation);
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
    /// Whether it is for entries.
    of_entries: bool,
}

// SAFETY: `free` points into memory that `arena` owns and that no other writer hands out (invariant
// 2), so the owner may move to another thread.
unsafe impl Send for ArenaWriter {}

impl ArenaWriter {
    /// A writer of entries that takes its first chunk when it is first asked for a piece.
    pub(super) fn of_entries(arena: Arc<Arena>) -> Self {
        ArenaWriter { of_entries: true, ..ArenaWriter::of_nodes(arena) }
    }

    /// The same for index nodes.
    pub(super) fn of_nodes(arena: Arc<Arena>) -> Self {
        ArenaWriter { arena, free: NonNull::dangling(), free_bytes: 0, taken: 0, of_entries: false }
    }

    /// A new chunk of `bytes` bytes is taken.
    fn count(&mut self, bytes: usize) {
        self.taken += bytes;
        if self.of_entries {
            self.arena.entry_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
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
    /// unused rest stays near a quarter, unless a large memtable was filled just before; a large piece gets a chunk
    /// of its own and the current one goes on.
    #[cold]
    fn allocate_slow(&mut self, layout: Layout) -> NonNull<u8> {
        let shared = if self.arena.spare.as_ref().is_some_and(|spare| spare.are_to_begin_with()) {
            CHUNK_BYTES_MAX
        } else {
            (self.taken / 4).next_power_of_two().clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
        };
        if layout.size() > shared / 4 {
            let size = layout.pad_to_align().size();
            self.count(size);
            return self.arena.grow_for_one(size);
        }
        self.count(shared);
        self.free = self.arena.grow(shared);
        self.free_bytes = shared;
        self.allocate(layout)
    }
}
