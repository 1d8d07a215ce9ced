//! A cached block: a header and the bytes, in one allocation. A get that finds the block in its slot can prefetch the
//! bytes at once; a header elsewhere, with a pointer to them, would have to be loaded first.

use std::sync::Arc;

use esker_base::ledger::Held;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_vfs::os::block_pool::{BlockPool, ThinArc};

use crate::block::BlockMeta;

/// A block that is in the cache, or was: a handle, cheap to clone.
pub(crate) type CachedBlock = ThinArc<BlockHeader>;

/// The header, which lies before the bytes.
#[derive(Debug)]
pub(crate) struct BlockHeader {
    /// How to read the bytes.
    pub(crate) meta: BlockMeta,
    /// The block's length; more may be allocated for it.
    pub(crate) len: usize,
    /// Used since the clock's hand last passed.
    referenced: AtomicBool,
    /// The allocation's debit.
    _held: Held,
}

impl BlockHeader {
    /// Mark the block as used. Reads the mark before it writes it: a hot block's mark stays set, and its
    /// cache line stays shared.
    #[inline]
    pub(crate) fn mark(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Take the mark away; whether it was there.
    pub(crate) fn unmark(&self) -> bool {
        self.referenced.swap(false, Ordering::Relaxed)
    }
}

/// A buffer for a block that is not in the cache yet, and may be written to: it has no other handle.
#[derive(Debug)]
pub(crate) struct BlockBuf(CachedBlock);

impl BlockBuf {
    /// A buffer of `len` bytes, debited by `held`: first `bytes`, then arbitrary ones.
    pub(super) fn new(pool: &Arc<BlockPool>, bytes: &[u8], len: usize, held: Held) -> BlockBuf {
        let header = BlockHeader {
            meta: BlockMeta::default(),
            len: 0,
            referenced: AtomicBool::new(false),
            _held: held,
        };
        BlockBuf(ThinArc::new(pool, header, bytes, len))
    }

    fn get_mut(&mut self) -> (&mut BlockHeader, &mut [u8]) {
        self.0.get_mut().expect("nobody else has seen it")
    }

    /// All its bytes, those after the block too.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Them, to write to.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.get_mut().1
    }

    /// The block whose first `len` bytes were written, to be read as `meta` says.
    pub(crate) fn finish(mut self, meta: BlockMeta, len: usize) -> CachedBlock {
        let header = self.get_mut().0;
        (header.meta, header.len) = (meta, len);
        self.0
    }
}
