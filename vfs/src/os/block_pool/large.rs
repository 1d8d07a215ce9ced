//! Blocks that are too large for regions. Each has pages of its own, so that it takes no more memory than it holds. A few that
//! were freed are kept for the next ones, because the system clears pages before it hands them out: with blocks of 1 MiB that
//! come and go that took half of a reader's time.

use std::alloc::Layout;
use std::ptr::NonNull;

use esker_base::sync::Mutex;

use super::pages::Pages;

/// How many freed blocks are kept.
const KEPT_MAX: usize = 4;
/// Bytes that are kept, in all.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LargeBlocks {
    /// Freed blocks, the oldest first.
    kept: Mutex<Vec<Pages>>,
}

impl LargeBlocks {
    /// Memory for `layout` (not empty). Its bytes are initialised but arbitrary. `None` if the system has none to give.
    pub(super) fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        let kept = self.take_nearest(layout.size());
        kept.and_then(|pages| pages.resize(layout)).or_else(|| Pages::map(layout)).map(Pages::into_memory)
    }

    /// # Safety
    /// `start` came from [`allocate`](Self::allocate) for this `layout`, and nobody uses it any more.
    pub(super) unsafe fn deallocate(&self, start: NonNull<u8>, layout: Layout) {
        // SAFETY: what this function asks for.
        let pages = unsafe { Pages::from_memory(start, layout) };
        if pages.bytes() > KEPT_BYTES_MAX {
            return;
        }
        // Declared before the lock, so that the system has them back when that is free again.
        let mut let_go = Vec::new();
        let mut kept = self.kept.lock();
        kept.push(pages);
        let mut bytes: usize = kept.iter().map(Pages::bytes).sum();
        while kept.len() > KEPT_MAX || bytes > KEPT_BYTES_MAX {
            let oldest = kept.remove(0);
            bytes -= oldest.bytes();
            let_go.push(oldest);
        }
    }

    /// The kept block whose length is nearest to `bytes`: pages that it lacks have to be cleared, pages beyond `bytes` are lost.
    fn take_nearest(&self, bytes: usize) -> Option<Pages> {
        let mut kept = self.kept.lock();
        let (nearest, _) =
            kept.iter().enumerate().min_by_key(|(_, pages)| pages.bytes().abs_diff(bytes))?;
        Some(kept.remove(nearest))
    }
}

#[cfg(all(test, not(loom)))]
impl LargeBlocks {
    /// The lengths of the kept blocks, the oldest first.
    pub(super) fn kept(&self) -> Vec<usize> {
        self.kept.lock().iter().map(Pages::bytes).collect()
    }
}
