//! A region: memory from the system, all zero until it is written to, that begins where a huge page may.

use std::alloc::Layout;
use std::ptr::NonNull;

use super::pages::Pages;
use crate::os::memory::{HUGE_PAGE_BYTES, advise_huge_pages};

/// A region begins where a huge page may.
const LAYOUT: Layout = match Layout::from_size_align(HUGE_PAGE_BYTES, HUGE_PAGE_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("the length of a huge page is a power of two"),
};

/// [`HUGE_PAGE_BYTES`] bytes that nobody else has. They go back to the system with it.
#[derive(Debug)]
pub(super) struct Region(Pages);

impl Region {
    /// A region whose pages come one by one as they are used. `None` if the system has no memory to give.
    pub(super) fn map() -> Option<Region> {
        Pages::map(LAYOUT).map(Region)
    }

    /// A region that is there already, on a huge page if the system has one to give.
    pub(super) fn brought_in() -> Option<Region> {
        let region = Region::map()?;
        let start = region.0.start();
        advise_huge_pages(start, HUGE_PAGE_BYTES);
        // SAFETY: the region is this one's, and no longer than it says.
        unsafe { start.write_volatile(0) };
        Some(region)
    }

    /// Where it begins.
    pub(super) fn address(&self) -> usize {
        self.0.start().addr().get()
    }

    /// Its memory, for one who will make it a region again.
    pub(super) fn into_memory(self) -> NonNull<u8> {
        self.0.into_memory()
    }

    /// # Safety
    /// `start` came from [`into_memory`](Self::into_memory), and nobody uses what is there any more.
    pub(super) unsafe fn from_memory(start: NonNull<u8>) -> Region {
        // SAFETY: what this function asks for.
        Region(unsafe { Pages::from_memory(start, LAYOUT) })
    }
}
