//! Memory for pieces of some KiB that come and go by the hundred thousand, as cached blocks do: regions of 2 MiB,
//! divided by an allocator of their own. Long pieces, which are few, have pages of their own from the system.
//!
//! Regions come to lie on huge pages, for which nobody waits (`supply.rs`).
//!
//! That the memory is not the program's heap has one more reason: allocators for everybody keep memory by thread, and
//! what one thread took and another gives goes back to the first, which may not need it any more.
//!
//! A region in which nothing is left goes back to the system.
//!
//! Locks: the allocator's, once for each piece that comes and each that goes; under it, that of the supply, and the
//! scheduler's.
#![expect(unsafe_code, reason = "memory is handed out by hand and counted by hand")]

mod long;
#[cfg(all(test, loom))]
mod models;
mod pages;
mod region;
mod room;
mod supply;
#[cfg(all(test, not(loom)))]
mod tests;

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use allocator_api2::alloc::{AllocError, Allocator};
use esker_base::sync::Mutex;
use talc::DefaultBinning;
use talc::base::Talc;
use talc::source::AllocatorSource;

use crate::os::memory::HUGE_PAGE_BYTES;
use crate::scheduler::Scheduler;
use long::LongPieces;
use region::Region;
pub use room::Room;
use supply::Supply;

/// Longer pieces are not taken from regions, in bytes: the places that are too short for them would stay empty, and a
/// huge page takes memory for those too. Nor do they come from the allocator of the program: 1 GiB of pieces between 130 KB
/// and 2 MB that come and go took 1.4 GiB from glibc's.
const PIECE_BYTES_MAX: usize = HUGE_PAGE_BYTES / 16;

/// Memory for [`Room`]s. It lives until the last of them is gone.
///
/// ```
/// use std::sync::Arc;
/// use esker_vfs::os::rooms::{Room, Rooms};
/// let rooms = Arc::new(Rooms::default());
/// let mut room = Room::new(&rooms, "head", b"a", 3);
/// let (head, bytes) = room.alone().expect("nobody else has it");
/// (*head, bytes[1], bytes[2]) = ("first", b'b', b'c');
/// let other = room.clone();
/// assert!(room.alone().is_none());
/// assert_eq!((*other, other.bytes()), ("first", &b"abc"[..]));
/// ```
pub struct Rooms {
    allocator: Mutex<Talc<AllocatorSource<Regions>, DefaultBinning>>,
    supply: Arc<Supply>,
    long: LongPieces,
}

impl Default for Rooms {
    fn default() -> Self {
        let supply = Arc::<Supply>::default();
        let source = AllocatorSource::with_block_size(Regions(Arc::clone(&supply)), HUGE_PAGE_BYTES);
        Rooms { allocator: Mutex::new(Talc::new(source)), supply, long: LongPieces::default() }
    }
}

impl fmt::Debug for Rooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rooms").finish_non_exhaustive()
    }
}

impl Rooms {
    /// Memory for `layout` (not empty). Its bytes are initialised, whatever they are: regions come so, the allocator
    /// writes whole words between the pieces and into those it has, and rooms leave it so.
    fn take(&self, layout: Layout) -> NonNull<u8> {
        assert!(layout.size() > 0, "a room has a front");
        let room = if layout.size() > PIECE_BYTES_MAX {
            self.long.allocate(layout)
        } else {
            // SAFETY: as above.
            unsafe { self.allocator.lock().allocate(layout) }
        };
        room.unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// Have jobs of `scheduler` bring memory in ahead from now on, and see that it lies on huge pages.
    pub fn grow_by(&self, scheduler: Arc<dyn Scheduler>) {
        self.supply.grow_by(scheduler);
    }

    /// Take `room` back.
    ///
    /// # Safety
    /// `room` came from [`take`](Self::take) of these rooms for this `layout`, and nobody uses it any more.
    unsafe fn give(&self, room: NonNull<u8>, layout: Layout) {
        if layout.size() > PIECE_BYTES_MAX {
            // SAFETY: what this function asks for: by its layout `take` had it from the same place.
            unsafe { self.long.deallocate(room, layout) }
        } else {
            // SAFETY: as above.
            unsafe { self.allocator.lock().deallocate(room.as_ptr(), layout) }
        }
    }
}

/// Regions for the allocator. Each has the length of a huge page.
#[derive(Debug)]
struct Regions(Arc<Supply>);

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
