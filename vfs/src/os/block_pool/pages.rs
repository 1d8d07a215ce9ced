//! Pages from the system: memory that is all zero until it is written to, and goes back to the system as soon as it is let go.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Memory that nobody else has.
#[derive(Debug)]
pub(super) struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: nobody else has the memory, and any thread may give it back.
unsafe impl Send for Pages {}

impl Pages {
    /// Memory for `layout` (not empty). `None` if the system has none to give.
    pub(super) fn map(layout: Layout) -> Option<Pages> {
        system::map(layout).map(|start| Pages { start, layout })
    }

    /// These, made longer or shorter for `layout` (not empty): what both have is kept, and only new pages have to be cleared.
    /// `None` if the system cannot do that; then they are gone.
    pub(super) fn resize(self, layout: Layout) -> Option<Pages> {
        let start = self.start;
        // SAFETY: these came from `map`, nobody else has them, and behind this nobody has them by their old place.
        let start = unsafe { system::resize(start, self.layout, layout) }?;
        std::mem::forget(self);
        Some(Pages { start, layout })
    }

    /// Where they begin.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How long they are.
    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// The memory, for one who will make it pages again.
    pub(super) fn into_memory(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// # Safety
    /// `start` came from [`into_memory`](Self::into_memory) of pages for this `layout`, and nobody uses what is there any more.
    pub(super) unsafe fn from_memory(start: NonNull<u8>, layout: Layout) -> Pages {
        Pages { start, layout }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it came from `map`, and whoever had the memory gave it back.
        unsafe { system::unmap(self.start, self.layout) }
    }
}

#[cfg(all(unix, not(any(miri, loom))))]
mod system {
    use std::alloc::Layout;
    use std::ptr::NonNull;

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    /// No system's pages are shorter, and every mapping begins with a page.
    const PAGE_BYTES_MIN: usize = 4096;

    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        let (bytes, align) = (layout.size(), layout.align());
        // What is mapped too much lies before and behind the part that is aligned.
        let spare = if align > PAGE_BYTES_MIN { align } else { 0 };
        let wanted = ProtFlags::READ | ProtFlags::WRITE;
        let mapped = bytes.checked_add(spare)?;
        // SAFETY: memory at a place that the system chooses is nobody else's.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, wanted, MapFlags::PRIVATE) }.ok()?;
        let start = start.cast::<u8>();
        let before = if spare > 0 { start.align_offset(align) } else { 0 };
        // SAFETY: `before` is 0 or less than `spare`, so all three parts lie in the mapping, and nobody knows of the first
        // and the last.
        unsafe {
            let aligned = start.add(before);
            give_back(start, before);
            give_back(aligned.add(bytes), spare - before);
            NonNull::new(aligned)
        }
    }

    /// # Safety
    /// `start` came from [`map`] for this `layout`, and nobody uses it any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>, layout: Layout) {
        // SAFETY: what this function asks for.
        unsafe { give_back(start.as_ptr(), layout.size()) }
    }

    /// # Safety
    /// The system gave these bytes, and nobody uses them any more.
    unsafe fn give_back(start: *mut u8, bytes: usize) {
        if bytes > 0 {
            // It refuses only to cut a mapping in two where a process has too many of them: then the bytes stay.
            // SAFETY: what this function asks for.
            let _refused = unsafe { munmap(start.cast(), bytes) };
        }
    }

    /// # Safety
    /// `start` came from [`map`] for `before`, and nobody else has it. It is not used any more if this gives a place.
    #[cfg(target_os = "linux")]
    pub(super) unsafe fn resize(start: NonNull<u8>, before: Layout, after: Layout) -> Option<NonNull<u8>> {
        use rustix::mm::{MremapFlags, mremap};

        if after.align() > PAGE_BYTES_MIN {
            return None;
        }
        // SAFETY: what this function asks for: nobody but the caller knows where the mapping was.
        let moved =
            unsafe { mremap(start.as_ptr().cast(), before.size(), after.size(), MremapFlags::MAYMOVE) };
        NonNull::new(moved.ok()?.cast())
    }

    /// # Safety
    /// None of its own: it does nothing.
    #[cfg(not(target_os = "linux"))]
    pub(super) unsafe fn resize(_: NonNull<u8>, _: Layout, _: Layout) -> Option<NonNull<u8>> {
        None
    }
}

/// Where memory comes from the allocator of the program; a huge page need not be found there.
#[cfg(not(all(unix, not(any(miri, loom)))))]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the size is not 0.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    }

    /// # Safety
    /// `start` came from [`map`] for this `layout`, and nobody uses it any more.
    pub(super) unsafe fn unmap(start: NonNull<u8>, layout: Layout) {
        // SAFETY: by the caller's word it came from `alloc_zeroed` with this layout.
        unsafe { dealloc(start.as_ptr(), layout) }
    }

    /// # Safety
    /// None of its own: it does nothing. What the allocator would add is not initialised.
    pub(super) unsafe fn resize(_: NonNull<u8>, _: Layout, _: Layout) -> Option<NonNull<u8>> {
        None
    }
}
