//! Getting a data block: from the cache, the mapping, or the file.

use bytes::Bytes;
use esker_base::sync::Guard;
use esker_base::{OpCost, Result};
use esker_vfs::os::memory::prefetch_front;

use super::TableReader;
use crate::block::{Block, BlockMeta, Layout, View, view_of};
use crate::cache::{BlockBuf, Fill};
use crate::compression::decompress;
use crate::index::NEAR_BLOCKS;
use crate::stored::{Codec, Location, check, split};

/// Cache lines of a mapped block that are prefetched at once, from its first byte on: as many as of a cached
/// block after its header (`GET_LINES`). With six, gets had 0.94 of the rate; seeks the same.
const MAPPED_LINES: usize = 16;

/// Groups of blocks that are longer than this, in bytes, are not read at once: a miss of one block waits
/// for all of them.
const GROUP_BYTES_MAX: usize = 128 << 10;

/// A table with fewer blocks in the cache than this is read one block at a time: it may be wanted for a
/// single get, which would wait for the other blocks.
const FAMILIAR_BLOCKS: usize = 16;

impl TableReader {
    /// Where data block `block` stands.
    pub(crate) fn location(&self, block: usize) -> Location<'_> {
        Location { path: self.file.path(), seed: self.seed, offset: self.index.offset(block) }
    }

    /// Lend block `block` to `read`, caching it if it has to be read.
    #[inline]
    pub(crate) fn with_block<R>(
        &self,
        block: usize,
        cost: &mut OpCost,
        read: impl FnOnce(View<'_>) -> R,
    ) -> Result<R> {
        if let Some(mapping) = self.file.mapping()
            && let Some((bytes, layout)) = self.in_mapping(block, &mapping.bytes, cost)?
        {
            return Ok(read(View { bytes, layout: &layout }));
        }
        if let Some(cached) = self.cached.get(block, true)
            && let Some(block) = cached.as_ref()
        {
            cost.blocks_from_cache += 1;
            return Ok(read(view_of(block)));
        }
        Ok(read(self.read_block(block, Fill::Yes, cost)?.view()))
    }

    /// Prefetch what says where the [`NEAR_BLOCKS`] blocks from `first` on lie, one of which a get is about
    /// to look up: their slots in the cache, and for a mapped table their offsets too.
    #[inline]
    pub(crate) fn prefetch_block_locations(&self, first: usize) {
        if self.file.mapping().is_some() {
            self.index.prefetch_offsets(first, NEAR_BLOCKS);
        }
        self.cached.prefetch_slots(first, NEAR_BLOCKS);
    }

    /// If block `block` is cached, or lies in the mapping and was checked, prefetch its first `lines` cache
    /// lines, or as many as a get looks at if those are more, and return where its memory starts
    /// ([`Block::start`]).
    pub(crate) fn prefetch_block(&self, block: usize, lines: usize) -> Option<*const u8> {
        match self.file.mapping() {
            Some(mapping) if mapping.is_checked(block) => {
                let stored = self.stored_in(&mapping.bytes, block)?;
                prefetch_front(stored, lines.max(MAPPED_LINES));
                Some(stored.as_ptr())
            }
            _ => self.cached.prefetch(block, lines),
        }
    }

    /// Put block `block` into `held`, if it can be had without reading the file; whether it is there.
    pub(crate) fn take_at_hand(
        &self,
        block: usize,
        mark: bool,
        cost: &mut OpCost,
        held: &mut Block,
    ) -> Result<bool> {
        if let Some(mapping) = self.file.mapping()
            && let Some((bytes, layout)) = self.in_mapping(block, &mapping.bytes, cost)?
        {
            *held = Block::Uncached(BlockMeta::of_validated(layout), mapping.bytes.slice_ref(bytes));
            return Ok(true);
        }
        let Some(cached) = self.cached.get(block, mark).and_then(Guard::into_inner) else {
            return Ok(false);
        };
        cost.blocks_from_cache += 1;
        *held = Block::Cached(cached);
        Ok(true)
    }

    /// Block `block` in the mapping, if it lies there uncompressed. Checked on first touch.
    #[inline]
    fn in_mapping<'a>(
        &self,
        block: usize,
        mapping: &'a Bytes,
        cost: &mut OpCost,
    ) -> Result<Option<(&'a [u8], Layout)>> {
        let location = self.location(block);
        let Some(stored) = self.stored_in(mapping, block) else {
            return Err(location.damaged(0, "the block lies outside the file"));
        };
        let Some((payload, [codec, ..])) = split(stored) else {
            return Err(location.damaged(0, "the block is too short"));
        };
        // A block that was checked is not compressed: the byte that says so, at its end, need not be
        // loaded.
        if self.file.mapping().is_some_and(|mapping| mapping.is_checked(block)) {
            prefetch_front(payload, MAPPED_LINES);
            cost.blocks_from_cache += 1;
            let layout = Layout::parse(payload).map_err(|e| location.undecodable("block", e))?;
            return Ok(Some((payload, layout)));
        }
        // The codec may be damaged as long as the block is unchecked: reading the block finds that out.
        if codec != Codec::None as u8 {
            return Ok(None);
        }
        check(location, "block", stored)?;
        let layout = Layout::parse(payload).map_err(|e| location.undecodable("block", e))?;
        View { bytes: payload, layout: &layout }
            .validate()
            .map_err(|e| location.undecodable("block", e))?;
        if let Some(mapping) = self.file.mapping() {
            mapping.set_checked(block);
        }
        cost.blocks_from_disk += 1;
        cost.bytes_from_disk += stored.len() as u64;
        Ok(Some((payload, layout)))
    }

    /// The stored bytes of block `block` in `mapping`, if they lie there.
    #[inline]
    fn stored_in<'a>(&self, mapping: &'a Bytes, block: usize) -> Option<&'a [u8]> {
        let start = usize::try_from(self.index.offset(block)).ok()?;
        mapping.get(start..start + self.index.stored_len(block))
    }

    /// Read block `block` from the file, and cache it as `fill` says.
    #[cold]
    pub(crate) fn read_block(&self, block: usize, fill: Fill, cost: &mut OpCost) -> Result<Block> {
        let (offset, len) = (self.index.offset(block), self.index.stored_len(block));
        if !self.cached.takes(block, fill, len) {
            let stored = Bytes::from(self.file.read(offset, len)?);
            cost.bytes_from_disk += len as u64;
            return self.open_slice(block, &stored, Fill::No, cost);
        }
        if fill == Fill::Yes
            && self.cached.has_room_for_all()
            && !self.is_warming()
            && self.cached.count() >= FAMILIAR_BLOCKS
            && let Some(block) = self.read_group(block, cost)?
        {
            return Ok(block);
        }
        let mut buf = self.cached.allocate(&[], len)?;
        self.file.read_into(offset, buf.bytes_mut().get_mut(..len).unwrap_or_default())?;
        cost.bytes_from_disk += len as u64;
        let location = self.location(block);
        let checked = check(location, "block", buf.bytes().get(..len).unwrap_or_default())?;
        if checked.codec == Codec::None {
            let raw_len = checked.raw_len;
            return self.keep(block, buf, raw_len, cost);
        }
        self.open_raw(block, Bytes::from(decompress(location, checked)?), fill, cost)
    }

    /// Read block `block` with its group of the index, and cache those that are not yet, one after the other. `None`, and
    /// nothing is cached, if the group is long, has no room, or cannot be read: that may not be the block's fault.
    ///
    /// Where everything will be cached in the end, this costs nothing and saves the misses of the other
    /// blocks, and blocks come to lie in memory as they do in the file: a walk from one to the next then
    /// finds where in memory that is.
    fn read_group(&self, block: usize, cost: &mut OpCost) -> Result<Option<Block>> {
        let group = self.index.group(block);
        let start = self.index.offset(group.start);
        let len = usize::try_from(self.index.offset(group.end) - start).unwrap_or(usize::MAX);
        // What is cached of blob files may leave no room.
        if len > GROUP_BYTES_MAX || !self.cached.takes(block, Fill::Room, len) {
            return Ok(None);
        }
        let Ok(stored) = self.file.read(start, len).map(Bytes::from) else { return Ok(None) };
        cost.bytes_from_disk += len as u64;
        let mut wanted = None;
        for other in group {
            let at = usize::try_from(self.index.offset(other) - start).unwrap_or_default();
            let stored = stored.slice(at..at + self.index.stored_len(other));
            if other == block {
                wanted = Some(self.open_slice(block, &stored, Fill::Yes, cost)?);
            } else if !self.cached.holds(other) {
                // Nobody looked for it, so it is not counted, and damage is reported when somebody does.
                let _damaged = self.open_slice(other, &stored, Fill::Room, &mut OpCost::default());
            }
        }
        Ok(wanted)
    }

    /// Check and open block `block` whose stored bytes are `stored`, a slice of a larger read. The cache,
    /// if `fill` has it take the block, gets a copy, so that the larger read does not stay for the sake of
    /// one block.
    pub(crate) fn open_slice(
        &self,
        block: usize,
        stored: &Bytes,
        fill: Fill,
        cost: &mut OpCost,
    ) -> Result<Block> {
        let location = self.location(block);
        let checked = check(location, "block", stored)?;
        match checked.codec {
            Codec::Lz4 | Codec::Zstd => {
                self.open_raw(block, Bytes::from(decompress(location, checked)?), fill, cost)
            }
            Codec::None => self.open_raw(block, stored.slice(..checked.raw_len), fill, cost),
        }
    }

    /// Open block `block`, whose raw bytes are `raw`, and cache a copy of it as `fill` says, if there is memory for that.
    fn open_raw(&self, block: usize, raw: Bytes, fill: Fill, cost: &mut OpCost) -> Result<Block> {
        if self.cached.takes(block, fill, raw.len())
            && let Ok(buf) = self.cached.allocate(&raw, raw.len())
        {
            return self.keep(block, buf, raw.len(), cost);
        }
        let opened = Block::new(raw).map_err(|e| self.location(block).undecodable("block", e))?;
        cost.blocks_from_disk += 1;
        Ok(opened)
    }

    /// Open block `block`, the first `len` bytes in `buf`, and cache it.
    fn keep(&self, block: usize, buf: BlockBuf, len: usize, cost: &mut OpCost) -> Result<Block> {
        let bytes = buf.bytes().get(..len).unwrap_or_default();
        let mut meta = BlockMeta::new(bytes).map_err(|e| self.location(block).undecodable("block", e))?;
        meta.look_for_versions(bytes);
        let opened = buf.finish(meta, len);
        cost.blocks_from_disk += 1;
        self.cached.insert(block, &opened);
        Ok(Block::Cached(opened))
    }
}
