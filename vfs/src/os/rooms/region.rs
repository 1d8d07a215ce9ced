//! A region: memory from the system, all zero until it is written to, that begins where a huge page may.

use std::ptr::NonNull;

use crate::os::memory::HUGE_PAGE_BYTES;

/// A region of [`HUGE_PAGE_BYTES`] bytes. `None` if the system has none to give.
#[cfg(all(unix, not(any(miri, loom))))]
pub(super) fn map() -> Option<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

    let mapped = 2 * HUGE_PAGE_BYTES;
    let wanted = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: memory at a place that the system chooses is nobody else's.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, wanted, MapFlags::PRIVATE) }.ok()?;
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

/// Give the region at `start` back.
///
/// # Safety
/// It came from [`map`], and nobody uses it any more.
#[cfg(all(unix, not(any(miri, loom))))]
pub(super) unsafe fn unmap(start: NonNull<u8>) {
    // SAFETY: what this function asks for.
    unsafe { give_back(start.as_ptr(), HUGE_PAGE_BYTES) }
}

/// # Safety
/// The system gave these bytes, and nobody uses them any more.
#[cfg(all(unix, not(any(miri, loom))))]
unsafe fn give_back(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // It refuses only to cut a mapping in two where a process has too many of them: then the bytes stay.
        // SAFETY: what this function asks for.
        let _refused = unsafe { rustix::mm::munmap(start.cast(), bytes) };
    }
}

/// What a region is of where it comes from the allocator of the program: a huge page is not asked for there.
#[cfg(not(all(unix, not(any(miri, loom)))))]
const LAYOUT: std::alloc::Layout = std::alloc::Layout::new::<[u64; HUGE_PAGE_BYTES / 8]>();

/// A region of [`HUGE_PAGE_BYTES`] bytes. `None` if the program has no memory left.
#[cfg(not(all(unix, not(any(miri, loom)))))]
pub(super) fn map() -> Option<NonNull<u8>> {
    // SAFETY: the size is not 0.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(LAYOUT) })
}

/// Give the region at `start` back.
///
/// # Safety
/// It came from [`map`], and nobody uses it any more.
#[cfg(not(all(unix, not(any(miri, loom)))))]
pub(super) unsafe fn unmap(start: NonNull<u8>) {
    // SAFETY: by the caller's word it came from `alloc_zeroed` with this layout.
    unsafe { std::alloc::dealloc(start.as_ptr(), LAYOUT) }
}
