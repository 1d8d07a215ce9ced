//! Getting a data block: from the cache, the mapping, or the file.

use std::sync::Arc;

use bytes::Bytes;
use esker_base::sync::Guard;
use esker_base::{OpCost, Result};

use super::TableReader;
use crate::block::{Block, Layout, View};
use crate::cache::Fill;
use crate::compression::decompress;
use crate::stored::{Codec, Place, check, split};

/// Cache lines of a block that a get asks for at once.
const GET_LINES: usize = 4;
/// Cache lines of a block that a cursor asks for when it enters it: columns and keys of some 40 short rows.
pub(crate) const CURSOR_LINES: usize = 10;

impl TableReader {
    /// Where data block `block` stands.
    pub(crate) fn place(&self, block: usize) -> Place<'_> {
        Place { path: self.source.path(), seed: self.seed, offset: self.index.offset(block) }
    }

    /// Lend block `block` and its bytes' owner to `read`, caching it if it has to be read.
    #[inline]
    pub(crate) fn with_block<R>(
        &self,
        block: usize,
        cost: &mut OpCost,
        read: impl FnOnce(View<'_>, &Bytes) -> R,
    ) -> Result<R> {
        if let Some(mapping) = self.source.mapping()
            && let Some((bytes, layout)) = self.in_mapping(block, &mapping.bytes, cost)?
        {
            return Ok(read(View { bytes, layout: &layout }, &mapping.bytes));
        }
        if let Some(cached) = self.cached.get(block, true)
            && let Some(block) = cached.as_ref()
        {
            cost.blocks_from_cache += 1;
            // Tags and records: which record it is, only the tags will tell.
            block.prefetch(GET_LINES);
            return Ok(read(block.view(), block.bytes()));
        }
        let block = self.read_block(block, Fill::Yes, cost)?;
        Ok(read(block.view(), block.bytes()))
    }

    /// Start loading block `block`, if it is cached: a walk will come to it.
    pub(crate) fn prefetch_block(&self, block: usize) {
        self.cached.prefetch(block);
    }

    /// Block `block` to hold on to, if it can be had without reading the file.
    pub(crate) fn block_at_hand(
        &self,
        block: usize,
        mark: bool,
        cost: &mut OpCost,
    ) -> Result<Option<Arc<Block>>> {
        if let Some(mapping) = self.source.mapping()
            && let Some((bytes, layout)) = self.in_mapping(block, &mapping.bytes, cost)?
        {
            return Ok(Some(Arc::new(Block::of_validated(mapping.bytes.slice_ref(bytes), layout))));
        }
        let Some(cached) = self.cached.get(block, mark) else { return Ok(None) };
        cost.blocks_from_cache += u64::from(cached.is_some());
        Ok(Guard::into_inner(cached))
    }

    /// Block `block` in the mapping, if it lies there uncompressed. Checked on first touch.
    #[inline]
    fn in_mapping<'a>(
        &self,
        block: usize,
        mapping: &'a Bytes,
        cost: &mut OpCost,
    ) -> Result<Option<(&'a [u8], Layout)>> {
        let place = self.place(block);
        let stored = usize::try_from(place.offset)
            .ok()
            .and_then(|start| mapping.get(start..start + self.index.stored_len(block)));
        let Some(stored) = stored else { return Err(place.damaged(0, "the block lies outside the file")) };
        let Some((payload, [codec, ..])) = split(stored) else {
            return Err(place.damaged(0, "the block is too short"));
        };
        // The codec may be damaged as long as the block is unchecked: whoever reads the block then finds it.
        if codec != Codec::None as u8 {
            return Ok(None);
        }
        if self.source.mapping().is_some_and(|mapping| mapping.is_checked(block)) {
            cost.blocks_from_cache += 1;
            let layout = Layout::parse(payload).map_err(|e| place.undecodable("block", e))?;
            return Ok(Some((payload, layout)));
        }
        check(place, "block", stored)?;
        let layout = Layout::parse(payload).map_err(|e| place.undecodable("block", e))?;
        View { bytes: payload, layout: &layout }.validate().map_err(|e| place.undecodable("block", e))?;
        if let Some(mapping) = self.source.mapping() {
            mapping.set_checked(block);
        }
        cost.blocks_from_disk += 1;
        cost.bytes_from_disk += stored.len() as u64;
        Ok(Some((payload, layout)))
    }

    /// Read block `block` from the file, and cache it as `fill` says.
    #[cold]
    pub(crate) fn read_block(&self, block: usize, fill: Fill, cost: &mut OpCost) -> Result<Arc<Block>> {
        let (offset, len) = (self.index.offset(block), self.index.stored_len(block));
        let buffer = if fill == Fill::No { None } else { self.cached.buffer(len) };
        let stored = match buffer {
            Some(buffer) => self.source.read_into(offset, len, buffer)?,
            None => self.source.read(offset, len)?,
        };
        cost.bytes_from_disk += stored.len() as u64;
        let place = self.place(block);
        let checked = check(place, "block", &stored)?;
        let (raw_len, keep) = (checked.raw_len, self.cached.takes(fill, checked.raw_len));
        let raw = if checked.codec == Codec::None { stored } else { decompress(place, checked)? };
        let bytes = if keep { self.cached.adopt(raw) } else { Bytes::from(raw) };
        self.open_block(block, bytes.slice(..raw_len), keep, cost)
    }

    /// Check and open block `block` whose stored bytes are `stored`, a slice of a larger read that is not to stay
    /// for its sake: what is cached as `fill` says is a copy.
    pub(crate) fn open_slice(
        &self,
        block: usize,
        stored: &Bytes,
        fill: Fill,
        cost: &mut OpCost,
    ) -> Result<Arc<Block>> {
        let place = self.place(block);
        let checked = check(place, "block", stored)?;
        let keep = self.cached.takes(fill, checked.raw_len);
        let bytes = match checked.codec {
            Codec::None if !keep => stored.slice(..checked.raw_len),
            Codec::None => {
                let mut copy = self.cached.buffer(checked.raw_len).unwrap_or_default();
                copy.extend_from_slice(checked.payload);
                self.cached.adopt(copy)
            }
            Codec::Lz4 | Codec::Zstd => {
                let raw = decompress(place, checked)?;
                if keep { self.cached.adopt(raw) } else { Bytes::from(raw) }
            }
        };
        self.open_block(block, bytes, keep, cost)
    }

    /// Open block `block`, whose bytes are `bytes`, and cache it if they are to be kept.
    fn open_block(&self, block: usize, bytes: Bytes, keep: bool, cost: &mut OpCost) -> Result<Arc<Block>> {
        let mut opened = Block::new(bytes).map_err(|e| self.place(block).undecodable("block", e))?;
        if keep {
            opened.look_for_versions();
        }
        let opened = Arc::new(opened);
        cost.blocks_from_disk += 1;
        if keep {
            self.cached.insert(block, &opened);
        }
        Ok(opened)
    }
}
