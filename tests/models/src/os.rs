//! What the models have of the system.

pub use crate::{block_pool, pages, region};

/// Words to the processor and the system.
pub mod memory {
    /// A model has no caches.
    pub fn prefetch<T>(_at: *const T) {}

    /// Nor pages, but regions have a length.
    pub const HUGE_PAGE_BYTES: usize = 2 << 20;

    /// As above.
    pub fn make_huge_page(_start: usize) {}

    /// As above.
    pub fn advise_huge_pages(_start: std::ptr::NonNull<u8>, _bytes: usize) {}
}
