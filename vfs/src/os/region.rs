//! A region: memory from the system, all zero until it is written to, that begins where a huge page may.
//!
//! It does not come from the program's allocator, which may keep what is given back. (Once glibc's was
//! given back memory of some length, it no longer asks the system for memory that is shorter: `mallopt(3)`,
//! `M_MMAP_THRESHOLD`.)
#![expect(unsafe_code, reason = "memory from the system")]

use std::ptr::NonNull;

use crate::os::memory::{HUGE_PAGE_BYTES, advise_huge_pages};

/// [`HUGE_PAGE_BYTES`] bytes that nobody else has. They go back to the system with it.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
}

// SAFETY: nobody else has the memory, and any thread may give it back.
unsafe impl Send for Region {}

impl Region {
    /// A region whose pages come one by one as they are used. `None` if the system has no memory to give.
    ///
    /// ```
    /// use esker_vfs::os::memory::HUGE_PAGE_BYTES;
    /// use esker_vfs::os::region::Region;
    ///
    /// let region = Region::map().expect("two mebibytes");
    /// assert_eq!(region.start().addr().get() % HUGE_PAGE_BYTES, 0);
    /// ```
    pub fn map() -> Option<Region> {
        system::map().map(|start| Region { start })
    }

    /// The same, on a huge page if the system has one to give when it is first used.
    pub fn map_huge() -> Option<Region> {
        let region = Region::map()?;
        advise_huge_pages(region.start, HUGE_PAGE_BYTES);
        Some(region)
    }

    /// The same, there already.
    pub fn brought_in() -> Option<Region> {
        const PAGE_BYTES: usize = 4 << 10;
        let region = Region::map_huge()?;
        for at in (0..HUGE_PAGE_BYTES).step_by(PAGE_BYTES) {
            // SAFETY: the region is this one's, and longer than `at`.
            unsafe { region.start.add(at).write_volatile(0) };
        }
        Some(region)
    }

    /// Where it begins, a multiple of [`HUGE_PAGE_BYTES`].
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its memory, for one who will make it a region again.
    pub(super) fn into_memory(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// # Safety
    /// `start` came from [`into_memory`](Self::into_memory), and nobody uses what is there any more.
    pub(super) unsafe fn from_memory(start: NonNull<u8>) -> Region {
        Region { start }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it came from `map`, and what was allocated from it was given back.
        unsafe { system::unmap(self.start) }
    }
}

#[cfg(all(unix, not(any(miri, loom))))]
mod system {
    use std::ptr::NonNull;

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

    use super::HUGE_PAGE_BYTES;

    /// `None` if the system has none to give.
    pub(super) fn map() -> Option<NonNull<u8>> {
        let mapped = 2 * HUGE_PAGE_BYTES;
        let wanted = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: memory at a place that the system chooses is nobody else's.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, wanted, MapFlags::PRIVATE) }.ok()?;
        let start = start.cast::<u8>();
        let before = start.align_offset(HUGE_PAGE_BYTES);
        // SAFETY: a mapping begins with a page, so `before` is less than the region's length: all three parts lie in it,
        // and nobody knows of the first and the last.
        unsafe {
            let region = start.add(before);
            give_back(start, before);
            give_back(region.add(HUGE_PAGE_BYTES), mapped - before - HUGE_PAGE_BYTES);
            NonNull::new(region)
        }
    }

    /// # Safety
    /// `start` came from [`map`], and nobody uses it any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>) {
        // SAFETY: what this function asks for.
        unsafe { give_back(start.as_ptr(), HUGE_PAGE_BYTES) }
    }

    /// # Safety
    /// The system gave these bytes, and nobody uses them any more.
    unsafe fn give_back(start: *mut u8, bytes: usize) {
        if bytes > 0 {
            // It refuses only to cut a mapping in two where a process has too many of them: then the bytes stay.
            // SAFETY: what this function asks for.
            let _refused = unsafe { rustix::mm::munmap(start.cast(), bytes) };
        }
    }
}

/// Where a region comes from the allocator of the program; a huge page need not be found there.
#[cfg(not(all(unix, not(any(miri, loom)))))]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use super::HUGE_PAGE_BYTES;

    /// As long as a huge page, and aligned like one.
    #[repr(align(0x20_0000))]
    struct Memory(#[expect(dead_code, reason = "a length")] [u8; HUGE_PAGE_BYTES]);

    const LAYOUT: Layout = Layout::new::<Memory>();

    /// `None` if the program has no memory left.
    pub(super) fn map() -> Option<NonNull<u8>> {
        // SAFETY: the size is not 0.
        NonNull::new(unsafe { alloc_zeroed(LAYOUT) })
    }

    /// # Safety
    /// `start` came from [`map`], and nobody uses it any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>) {
        // SAFETY: by the caller's word it came from `alloc_zeroed` with this layout.
        unsafe { dealloc(start.as_ptr(), LAYOUT) }
    }
}
