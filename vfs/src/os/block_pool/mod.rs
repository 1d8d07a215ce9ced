//! A pool allocator for cached blocks, which are some KiB long and come and go by the hundred thousand: regions of 2 MiB,
//! divided by an allocator of their own. Long blocks, which are few, come from the allocator of the program.
//!
//! Regions come to lie on huge pages without an allocation waiting for one (`region_pool.rs`).
//!
//! The program's own allocator has one more drawback: such allocators keep free memory by thread, and what one thread
//! allocates and another frees goes back to the first, which may not need it any more.
//!
//! A region in which nothing is left goes back to the system.
//!
//! Locks: the allocator's, once for each allocation and each deallocation; under it, that of the region pool, and the
//! scheduler's.
#![expect(unsafe_code, reason = "memory is handed out by hand and counted by hand")]

#[cfg(all(test, loom))]
mod models;
mod region_pool;
#[cfg(all(test, not(loom)))]
mod tests;
mod thin_arc;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use allocator_api2::alloc::{AllocError, Allocator};
use esker_base::sync::Mutex;
use talc::DefaultBinning;
use talc::base::Talc;
use talc::source::AllocatorSource;

use crate::os::memory::HUGE_PAGE_BYTES;
use crate::os::region::Region;
use crate::scheduler::Scheduler;
use region_pool::RegionPool;
pub use thin_arc::ThinArc;

/// Blocks longer than this, in bytes, are not allocated from regions: gaps that are too short for them
/// would stay empty, and a huge page takes memory for the gaps too. Nor does each get a mapping of its own:
/// the system allows a process only some 65,000 mappings.
const POOLED_BYTES_MAX: usize = HUGE_PAGE_BYTES / 16;

/// Memory for [`ThinArc`]s. It lives until the last of them is gone.
///
/// ```
/// use std::sync::Arc;
/// use esker_vfs::os::block_pool::{BlockPool, ThinArc};
/// let pool = Arc::new(BlockPool::default());
/// let mut block = ThinArc::new(&pool, "header", b"a", 3);
/// let (header, bytes) = block.get_mut().expect("the only handle");
/// (*header, bytes[1], bytes[2]) = ("first", b'b', b'c');
/// let other = block.clone();
/// assert!(block.get_mut().is_none());
/// assert_eq!((*other, other.bytes()), ("first", &b"abc"[..]));
/// ```
pub struct BlockPool {
    allocator: Mutex<Talc<AllocatorSource<Regions>, DefaultBinning>>,
    regions: Arc<RegionPool>,
}

impl Default for BlockPool {
    fn default() -> Self {
        let regions = Arc::<RegionPool>::default();
        let source = AllocatorSource::with_block_size(Regions(Arc::clone(&regions)), HUGE_PAGE_BYTES);
        BlockPool { allocator: Mutex::new(Talc::new(source)), regions }
    }
}

impl fmt::Debug for BlockPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockPool").finish_non_exhaustive()
    }
}

impl BlockPool {
    /// Memory for `layout` (not empty). The bytes are initialised but arbitrary: fresh regions are zeroed, the allocator
    /// writes only whole words, into what is free, and a dropped [`ThinArc`] leaves nothing uninitialised.
    fn allocate(&self, layout: Layout) -> NonNull<u8> {
        assert!(layout.size() > 0, "a block has a header");
        let memory = if layout.size() > POOLED_BYTES_MAX {
            // SAFETY: the size is not 0.
            NonNull::new(unsafe { alloc_zeroed(layout) })
        } else {
            // SAFETY: as above.
            unsafe { self.allocator.lock().allocate(layout) }
        };
        memory.unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// From now on have jobs of `scheduler` bring memory in ahead, and see to it that it lies on huge
    /// pages.
    pub fn grow_by(&self, scheduler: Arc<dyn Scheduler>) {
        self.regions.grow_by(scheduler);
    }

    /// Take `memory` back.
    ///
    /// # Safety
    /// `memory` came from [`allocate`](Self::allocate) of this pool for this `layout`, and nobody uses it any more.
    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        if layout.size() > POOLED_BYTES_MAX {
            // SAFETY: what this function asks for: `allocate` chooses between the two by the same layout.
            unsafe { dealloc(memory.as_ptr(), layout) }
        } else {
            // SAFETY: as above.
            unsafe { self.allocator.lock().deallocate(memory.as_ptr(), layout) }
        }
    }
}

/// Regions for the allocator. Each has the length of a huge page.
#[derive(Debug)]
struct Regions(Arc<RegionPool>);

// SAFETY: a region is memory that nobody else has, stays where it is until it is given back, and nothing else ends its
// life; `Regions` cannot be cloned.
unsafe impl Allocator for Regions {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        assert!(layout.size() == HUGE_PAGE_BYTES, "the allocator takes what it was told to");
        let region = self.0.take().ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(region.into_memory(), HUGE_PAGE_BYTES))
    }

    unsafe fn deallocate(&self, start: NonNull<u8>, _layout: Layout) {
        // SAFETY: by the caller's word it came from `allocate`, and nobody uses it any more.
        self.0.give(unsafe { Region::from_memory(start) });
    }
}
