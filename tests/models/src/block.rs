//! A block as the cache sees it: bytes and a mark.

use bytes::Bytes;
use esker_base::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct Block {
    bytes: Bytes,
    referenced: AtomicBool,
}

impl Block {
    pub(crate) fn of(bytes: Bytes) -> Block {
        Block { bytes, referenced: AtomicBool::new(false) }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn mark(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn unmark(&self) -> bool {
        self.referenced.swap(false, Ordering::Relaxed)
    }
}
