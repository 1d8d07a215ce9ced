//! The index of a table: which data block holds a key. Pinned in memory: key heads as a tree, all else as flat arrays.
//!
//! Invariant: separators ascend strictly, lengths of blocks add up to the data section; both are
//! checked when an index is decoded, so searches need no error path.

mod heads;

use std::cmp::Ordering;
use std::ops::{Bound, Range, RangeInclusive};

use esker_base::bounds::Bounds;
use esker_base::coding::{DecodeError, Decoder};
use esker_base::key::{head, shared_prefix, strip_prefix};
use esker_base::{Error, InternalKey, Result, SeqNo};
use esker_vfs::os::memory::prefetch;

use crate::stored::{RAW_BYTES_MAX, TRAILER_BYTES};
use heads::Heads;

pub(crate) use heads::GROUP as NEAR_BLOCKS;
pub use heads::Near;

const FLAG_SEQNOS: u8 = 1;

/// Bytes of a stored block: at least one, and no more than the longest raw block has.
const STORED_BYTES: RangeInclusive<usize> = TRAILER_BYTES + 1..=RAW_BYTES_MAX + TRAILER_BYTES;

/// How many blocks a miss may read together.
const READ_GROUP: usize = 16;

/// Where data blocks lie and what lies in them. See FORMAT.md, "Index".
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// What all separators start with.
    prefix: Vec<u8>,
    /// The head of each separator's rest, the bytes after the prefix.
    heads: Heads,
    /// End of each separator's rest in `rests`.
    ends: Vec<u32>,
    rests: Vec<u8>,
    /// The separators' sequence numbers; empty if all are 0.
    seqnos: Vec<u64>,
    /// Start of each block, and the end of the last.
    offsets: Vec<u64>,
}

impl Index {
    /// Decode an index over a data section of `data_bytes`.
    pub(crate) fn decode(payload: &[u8], data_bytes: u64) -> Result<Index, DecodeError> {
        let mut input = Decoder::new(payload);
        let blocks = input.u32("block count")? as usize;
        let flags = input.u8("flags")?;
        if flags & !FLAG_SEQNOS != 0 {
            return Err(input.error("flags"));
        }
        let prefix_len = input.u16("prefix length")?;
        let prefix = input.take(prefix_len.into(), "prefix")?.to_vec();
        let words =
            |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let size = |width: usize| blocks.checked_mul(width).ok_or(input.error("block count"));
        let (four, eight) = (size(4)?, size(8)?);
        let lengths: Vec<u32> = words(input.take(four, "block lengths")?);
        let ends: Vec<u32> = words(input.take(four, "separator ends")?);
        let seqnos = if flags & FLAG_SEQNOS == 0 { 0 } else { eight };
        let seqnos = input.take(seqnos, "separator sequence numbers")?;
        let seqnos = seqnos.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect();
        let rests = input.rest().to_vec();

        let mut offsets = Vec::with_capacity(blocks + 1);
        let mut offset = 0u64;
        offsets.push(0);
        for length in lengths {
            if !STORED_BYTES.contains(&(length as usize)) {
                return Err(input.error("block length"));
            }
            offset += u64::from(length);
            offsets.push(offset);
        }
        if offset != data_bytes {
            return Err(input.error("sum of the block lengths"));
        }
        let mut index = Index { prefix, heads: Heads::default(), ends, rests, seqnos, offsets };
        index.check_and_fill_heads().ok_or(input.error("separator"))?;
        Ok(index)
    }

    /// Fill `heads`; `None` if the separators are out of bounds or do not ascend.
    fn check_and_fill_heads(&mut self) -> Option<()> {
        let Index { ends, rests, seqnos, .. } = self;
        let mut heads = Vec::with_capacity(ends.len());
        let mut start = 0;
        let mut before: Option<InternalKey<'_>> = None;
        for (block, &end) in ends.iter().enumerate() {
            let user = rests.get(start as usize..end as usize)?;
            let seqno = SeqNo(seqnos.get(block).copied().unwrap_or(0));
            let here = InternalKey { user, seqno };
            if seqno > SeqNo::MAX || before.is_some_and(|before| before >= here) {
                return None;
            }
            heads.push(head(user));
            before = Some(here);
            start = end;
        }
        self.heads = Heads::new(&heads);
        (start as usize == self.rests.len()).then_some(())
    }

    /// How many data blocks there are.
    #[inline]
    pub(crate) fn blocks(&self) -> usize {
        self.heads.len()
    }

    /// Where block `block` starts; for `blocks()`, where the data section ends.
    #[inline]
    pub(crate) fn offset(&self, block: usize) -> u64 {
        self.offsets.get(block).copied().unwrap_or_default()
    }

    /// Prefetch the offsets of `count` blocks from `first` on, of which some need not be there: two lines' worth at most.
    #[inline]
    pub(crate) fn prefetch_offsets(&self, first: usize, count: usize) {
        let offset = self.offsets.as_ptr().wrapping_add(first);
        for at in [0, count / 2, count] {
            prefetch(offset.wrapping_add(at));
        }
    }

    /// The stored length of block `block`, trailer included.
    #[inline]
    pub(crate) fn stored_len(&self, block: usize) -> usize {
        // At most u32::MAX by construction.
        usize::try_from(self.offset(block + 1).saturating_sub(self.offset(block))).unwrap_or_default()
    }

    /// The separator of block `block` without the prefix.
    fn rest(&self, block: usize) -> &[u8] {
        let start = block.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(block).copied().unwrap_or(start);
        self.rests.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The separator's sequence number.
    pub(crate) fn seqno(&self, block: usize) -> SeqNo {
        SeqNo(self.seqnos.get(block).copied().unwrap_or(0))
    }

    /// The whole separator of block `block`.
    pub(crate) fn separator(&self, block: usize) -> Vec<u8> {
        [self.prefix.as_slice(), self.rest(block)].concat()
    }

    /// The first block whose separator is at or after `target`: the only one that can hold the first
    /// entry at or after `target`, unless that is the first entry of the next block. `blocks()` if
    /// everything is before `target`.
    #[inline]
    pub(crate) fn find(&self, target: InternalKey<'_>) -> usize {
        self.arrive(self.approach(target.user), target)
    }

    /// Prefetch the root, where every search begins.
    #[inline]
    pub(crate) fn prefetch_root(&self) {
        self.heads.prefetch_root();
    }

    /// All of the search for `key` but its last step, which [`arrive`](Self::arrive) takes. The search ends
    /// at one of the [`NEAR_BLOCKS`] blocks from [`Near::first`] on, so that what says where these lie can
    /// be prefetched.
    #[inline]
    pub(crate) fn approach(&self, key: &[u8]) -> Near {
        strip_prefix(key, &self.prefix).map(|rest| self.heads.approach(head(rest))).unwrap_or_default()
    }

    /// What `find` finds, from where `approach` has come to with the same key.
    #[inline]
    pub(crate) fn arrive(&self, near: Near, target: InternalKey<'_>) -> usize {
        let Some(rest) = strip_prefix(target.user, &self.prefix) else {
            return if target.user < self.prefix.as_slice() { 0 } else { self.blocks() };
        };
        let wanted = head(rest);
        let low = self.heads.first_from(near, wanted);
        if self.heads.get(low) != Some(wanted) {
            return low;
        }
        self.find_among_equal(low, rest, target.seqno)
    }

    /// The same among the separators from `low` on, the first that has the head of `rest`.
    fn find_among_equal(&self, mut low: usize, rest: &[u8], seqno: SeqNo) -> usize {
        let wanted = head(rest);
        let mut high = match wanted.checked_add(1) {
            Some(next) => self.heads.first_from(self.heads.approach(next), next),
            None => self.blocks(),
        };
        while low < high {
            let middle = low.midpoint(high);
            let order = self.rest(middle).cmp(rest).then_with(|| seqno.cmp(&self.seqno(middle)));
            if order == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The end of the blocks from `first` on that lie in `bytes` bytes of the file together, or of `first`
    /// alone if it has more.
    pub(crate) fn end_within(&self, first: usize, bytes: u64) -> usize {
        let mut end = first + 1;
        while end < self.blocks() && self.offset(end + 1) - self.offset(first) <= bytes {
            end += 1;
        }
        end
    }

    /// The group to which `block` belongs: it and those beside it, [`READ_GROUP`] in all but for the last.
    pub(crate) fn group(&self, block: usize) -> Range<usize> {
        let first = block - block % READ_GROUP;
        first..(first + READ_GROUP).min(self.blocks())
    }

    /// Whether `find` would return `block`.
    #[inline]
    pub(crate) fn is_in(&self, block: usize, target: InternalKey<'_>) -> bool {
        let Some(rest) = strip_prefix(target.user, &self.prefix) else {
            // Where `find` stops without a search.
            return block == 0 && target.user < self.prefix.as_slice();
        };
        let before = |block: usize| match self.heads.get(block).map(|found| found.cmp(&head(rest))) {
            Some(Ordering::Less) => true,
            Some(Ordering::Equal) => {
                self.rest(block).cmp(rest).then_with(|| target.seqno.cmp(&self.seqno(block)))
                    == Ordering::Less
            }
            _ => false,
        };
        block < self.blocks() && !before(block) && block.checked_sub(1).is_none_or(before)
    }

    /// Whether the separators prove that no key of block `block` lies behind `bounds`.
    pub(crate) fn ends_within(&self, block: usize, bounds: &Bounds) -> bool {
        match &bounds.end {
            Bound::Unbounded => true,
            Bound::Included(end) | Bound::Excluded(end) => self.order(block, end) == Ordering::Less,
        }
    }

    /// Whether they prove that none lies before `bounds`.
    pub(crate) fn starts_within(&self, block: usize, bounds: &Bounds) -> bool {
        match &bounds.start {
            Bound::Unbounded => true,
            // The block may begin with older versions of the key that separates it.
            Bound::Included(start) | Bound::Excluded(start) => {
                block.checked_sub(1).is_some_and(|before| self.order(before, start) == Ordering::Greater)
            }
        }
    }

    /// How the separator of block `block` compares with `key`.
    fn order(&self, block: usize, key: &[u8]) -> Ordering {
        match strip_prefix(key, &self.prefix) {
            Some(rest) => self.rest(block).cmp(rest),
            None => self.prefix.as_slice().cmp(key),
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> u64 {
        let words = self.seqnos.capacity() + self.offsets.capacity();
        let bytes = self.ends.capacity() * 4 + self.rests.capacity() + self.prefix.capacity();
        (self.heads.memory() + words * 8 + bytes) as u64
    }
}

/// Collects the index while a table is written.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    lengths: Vec<u32>,
    /// Whole separators, one after the other, and where each ends.
    keys: Vec<u8>,
    ends: Vec<usize>,
    seqnos: Vec<u64>,
}

impl IndexBuilder {
    /// The block of `stored` bytes whose last entry is `last`; `next` is the first entry after it, if
    /// there is one.
    pub(crate) fn add(&mut self, stored: u32, last: InternalKey<'_>, next: Option<InternalKey<'_>>) {
        let seqno = match next {
            Some(next) if next.user == last.user => last.seqno.0,
            _ => 0,
        };
        match next {
            Some(next) if next.user != last.user => push_separator(&mut self.keys, last.user, next.user),
            _ => self.keys.extend_from_slice(last.user),
        }
        self.lengths.push(stored);
        self.ends.push(self.keys.len());
        self.seqnos.push(seqno);
    }

    /// Bytes that the index will take, about.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        (self.keys.len() + self.lengths.len() * 8) as u64
    }

    /// The index's payload.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let too_large = || Error::TooLarge {
            what: "index of a table",
            len: self.keys.len() as u64,
            max: u32::MAX.into(),
        };
        let first = self.key(0);
        let last = self.key(self.ends.len().saturating_sub(1));
        let prefix = first.get(..shared_prefix(first, last)).unwrap_or_default();
        let has_seqnos = self.seqnos.iter().any(|&seqno| seqno != 0);
        let blocks = u32::try_from(self.lengths.len()).map_err(|_| too_large())?;

        let mut out = Vec::with_capacity(self.keys.len() + self.lengths.len() * 16 + 16);
        out.extend_from_slice(&blocks.to_le_bytes());
        out.push(if has_seqnos { FLAG_SEQNOS } else { 0 });
        out.extend_from_slice(&u16::try_from(prefix.len()).map_err(|_| too_large())?.to_le_bytes());
        out.extend_from_slice(prefix);
        for length in &self.lengths {
            out.extend_from_slice(&length.to_le_bytes());
        }
        let mut end = 0usize;
        for block in 0..self.ends.len() {
            end += self.key(block).len() - prefix.len();
            out.extend_from_slice(&u32::try_from(end).map_err(|_| too_large())?.to_le_bytes());
        }
        if has_seqnos {
            for seqno in &self.seqnos {
                out.extend_from_slice(&seqno.to_le_bytes());
            }
        }
        for block in 0..self.ends.len() {
            out.extend_from_slice(self.key(block).get(prefix.len()..).unwrap_or_default());
        }
        Ok(out)
    }

    fn key(&self, block: usize) -> &[u8] {
        let start = block.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(block).copied().unwrap_or(start);
        self.keys.get(start..end).unwrap_or_default()
    }
}

/// Append a short key that is at or after `last` and before `next`.
fn push_separator(out: &mut Vec<u8>, last: &[u8], next: &[u8]) {
    let shared = shared_prefix(last, next);
    // The shared part with one byte more of `next` lies after `last`, and before `next` if `next` is longer
    // still.
    if let Some(longer) = next.get(..=shared)
        && longer.len() < next.len()
    {
        return out.extend_from_slice(longer);
    }
    // `next` ends there. Otherwise raise the first byte of `last` after the shared part that can be
    // raised without reaching `next`.
    let limit = next.get(shared).copied().unwrap_or_default();
    for (at, &byte) in last.iter().enumerate().skip(shared) {
        if byte < u8::MAX && (at > shared || byte + 1 < limit) {
            out.extend_from_slice(last.get(..at).unwrap_or_default());
            return out.push(byte + 1);
        }
    }
    out.extend_from_slice(last);
}

#[cfg(test)]
mod tests;
