//! Regions: memory from the system, all zero until it is written to, that begins where a huge page may.

use std::ptr::NonNull;

use crate::os::memory::HUGE_PAGE_BYTES;

/// A region of `bytes` bytes, a multiple of [`HUGE_PAGE_BYTES`] and not 0. `None` if the system has none to give.
#[cfg(all(unix, not(any(miri, loom))))]
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

    let mapped = bytes.checked_add(HUGE_PAGE_BYTES)?;
    let wanted = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: memory at a place that the system chooses is nobody else's.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, wanted, MapFlags::PRIVATE) }.ok()?;
    let before = start.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
    // SAFETY: `before` is at most `HUGE_PAGE_BYTES`, by which the mapping is longer than the region: all three parts lie
    // in it, and nobody knows of the first and the last.
    unsafe {
        let region = start.cast::<u8>().add(before);
        give_back(start.cast(), before);
        give_back(region.add(bytes), mapped - before - bytes);
        NonNull::new(region)
    }
}

/// Give the region of `bytes` bytes at `start` back.
///
/// # Safety
/// It came from [`map`], and nobody uses it any more.
#[cfg(all(unix, not(any(miri, loom))))]
pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: what this function asks for.
    unsafe { give_back(start.as_ptr(), bytes) }
}

/// # Safety
/// The system gave these bytes, and nobody uses them any more.
#[cfg(all(unix, not(any(miri, loom))))]
unsafe fn give_back(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: what this function asks for.
        let outcome = unsafe { rustix::mm::munmap(start.cast(), bytes) };
        // It refuses what is no mapping, and to cut one in two when there are too many: then the memory stays.
        debug_assert!(outcome.is_ok(), "{outcome:?}");
    }
}

/// As above, from the allocator of the program.
#[cfg(not(all(unix, not(any(miri, loom)))))]
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let layout = std::alloc::Layout::from_size_align(bytes, HUGE_PAGE_BYTES).ok()?;
    assert!(bytes > 0, "a region is not empty");
    // SAFETY: the size is not 0.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// Give the region of `bytes` bytes at `start` back.
///
/// # Safety
/// It came from [`map`], and nobody uses it any more.
#[cfg(not(all(unix, not(any(miri, loom)))))]
pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    let layout = std::alloc::Layout::from_size_align(bytes, HUGE_PAGE_BYTES);
    let layout = layout.expect("`map` has made a layout of it");
    // SAFETY: by the caller's word it came from `alloc_zeroed` with this layout.
    unsafe { std::alloc::dealloc(start.as_ptr(), layout) }
}
