//! Records of a blob file in the block cache.
//!
//! A cached record was checked when it was read, as a cached block was. A record's slot is found by its
//! offset in the file, in steps of half the average length of a record. Records of about equal length have
//! a slot each; where two share one, it holds the one that was read last. So each cached record has its
//! offset in the file before it, which tells the two apart.

use std::ops::Range;

use bytes::Bytes;
use esker_base::blob::BlobMeta;
use esker_base::ledger::{Held, Purpose};
use esker_base::sync::Guard;
use esker_vfs::os::memory::prefetch_front;

use super::layout::{FOOTER_BYTES, HEADER_BYTES};
use crate::block::BlockMeta;
use crate::cache::{BlockBuf, CachedBlock, CachedTable, Fill};
use crate::reader::TableContext;

/// A record that takes more than this share of the cache is not cached: it would push out too much.
const CACHE_SHARE: u64 = 16;

/// With shorter steps the slots would take more than 0.4 % of the bytes that they are for.
const STEP_BYTES_MIN: u64 = 2 << 10;

/// Cache lines of a record that are prefetched before anything in it is read. By the time they are read, the processor's own
/// prefetcher has begun with the following ones.
const LINES_AHEAD: usize = 24;

/// Bytes of what stands before a cached record, its offset: in a cache line that a lookup reads anyway.
pub(super) const PLACE_BYTES: usize = size_of::<u64>();

/// A blob file's part of the cache.
pub(super) struct CachedRecords {
    slots: CachedTable,
    /// Bytes of the file that share a slot.
    step: u64,
    /// The slots' debit.
    _held: Held,
}

impl CachedRecords {
    /// Slots for the file that `meta` describes.
    pub(super) fn new(context: &TableContext, meta: &BlobMeta) -> CachedRecords {
        let bytes = meta.file_bytes.saturating_sub((HEADER_BYTES + FOOTER_BYTES) as u64);
        let step = (bytes / meta.values.max(1) / 2).max(STEP_BYTES_MIN);
        let slots = usize::try_from(bytes / step + 1).unwrap_or(usize::MAX);
        let memory = (slots * size_of::<usize>()) as u64;
        let held = context.ledger.hold(Purpose::TableMetadata, memory);
        CachedRecords { slots: context.cache.open_slots(slots), step, _held: held }
    }

    fn slot(&self, offset: u64) -> usize {
        usize::try_from(offset.saturating_sub(HEADER_BYTES as u64) / self.step).unwrap_or(usize::MAX)
    }

    /// The block with the record of `len` bytes at `offset`, after [`PLACE_BYTES`], if it is cached.
    #[inline]
    pub(super) fn get(&self, offset: u64, len: usize) -> Option<CachedBlock> {
        let record = Guard::into_inner(self.slots.get(self.slot(offset), true)?)?;
        prefetch_front(record.bytes(), LINES_AHEAD);
        let is_there =
            record.len == PLACE_BYTES + len && record.bytes().first_chunk() == Some(&offset.to_le_bytes());
        is_there.then_some(record)
    }

    /// A buffer for the record of `len` bytes at `offset`, which was missed, that begins with the record's place, if it is to be
    /// cached and there is memory for that.
    pub(super) fn allocate(&self, offset: u64, len: usize) -> Option<BlockBuf> {
        let whole = PLACE_BYTES + len;
        let takes = whole as u64 <= self.slots.capacity() / CACHE_SHARE
            && self.slots.takes(self.slot(offset), Fill::Yes, whole);
        takes.then(|| self.slots.allocate(&offset.to_le_bytes(), whole)).and_then(Result::ok)
    }

    /// Cache the record of `len` bytes at `offset` that `buf` holds, checked.
    pub(super) fn insert(&self, offset: u64, buf: BlockBuf, len: usize) -> CachedBlock {
        let record = buf.finish(BlockMeta::default(), PLACE_BYTES + len);
        self.slots.insert(self.slot(offset), &record);
        record
    }
}

/// A part of a cached record, which stays while somebody holds on to it.
struct Pinned {
    record: CachedBlock,
    part: Range<usize>,
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self.record.bytes().get(self.part.clone()).unwrap_or_default()
    }
}

/// The bytes `part` of `record`, not copied.
pub(super) fn pin(record: CachedBlock, part: Range<usize>) -> Bytes {
    Bytes::from_owner(Pinned { record, part })
}
