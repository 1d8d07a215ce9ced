//! One data block: its layout in memory, and reading single rows. See FORMAT.md, "Data block".
//!
//! Invariants:
//! 1. A [`Layout`] only exists for bytes whose sections were checked to fit ([`Layout::parse`]); rows
//!    are read only after [`View::validate`] accepted every record. So the accessors need no error
//!    path: their fallback values are never seen, they only keep the compiler's bounds checks from
//!    becoming panics.
//! 2. Nothing here trusts the order of rows: a forged block with right checksums gives wrong rows, but
//!    no panic and no endless loop.

mod ahead;
mod builder;
mod cursor;
mod key_buffer;
mod run;
mod search;
mod validate;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use esker_base::coding::{DecodeError, Decoder};
use esker_base::{Kind, SeqNo};

use crate::cache::CachedBlock;

pub(crate) use builder::{BlockBuilder, fit_u32};
pub(crate) use cursor::{BlockCursor, Known};
use run::Bound;
pub use run::RowRun;
pub(crate) use search::Found;

/// Rows from one restart point to the next: the key of a restart point is stored whole, but for the block's prefix. Unlike in
/// LevelDB and RocksDB the rows that follow share with the restart point, not with their predecessor.
pub(crate) const RESTART_INTERVAL: u32 = 16;
/// Bytes before the first column.
const HEADER_BYTES: u32 = 24;
/// Bytes of a record with narrow and with wide starts.
const NARROW: u32 = 5;
const WIDE: u32 = 9;
/// Flag: starts are u32.
const FLAG_WIDE: u8 = 1;

/// The tag of a key with this hash.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low byte is meant")]
pub(crate) fn tag(hash: u64) -> u8 {
    hash as u8
}

/// Where the sections of a block lie. Offsets are from the block's start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    rows: u32,
    wide: bool,
    seqno_width: u8,
    /// The kind of every row, or 0: `kinds` has them.
    kind: u8,
    base: u64,
    kinds: u32,
    seqnos: u32,
    records: u32,
    heads: u32,
    prefix: u32,
    keys: u32,
    values: u32,
}

impl Layout {
    /// Read the header of `bytes` and check that the sections fill the block.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Layout, DecodeError> {
        let mut header = Decoder::new(bytes);
        let rows = header.u32("row count")?;
        let flags = header.u8("flags")?;
        let seqno_width = header.u8("sequence number width")?;
        let kind = header.u8("kind")?;
        let zero = header.u8("reserved byte")?;
        let base = header.u64("base sequence number")?;
        let prefix_len = header.u16("prefix length")?;
        let zeros = header.u16("reserved bytes")?;
        let keys_len = header.u32("key area length")?;
        let known = flags & !FLAG_WIDE == 0 && seqno_width <= 7 && zero == 0 && zeros == 0;
        if !known || rows == 0 || (kind != 0 && !is_entry_kind(kind)) {
            return Err(header.error("header of the block"));
        }
        let wide = flags & FLAG_WIDE != 0;
        // Every term is below 2^37, so the sums are exact in u64 and compared before they shrink.
        let tags = u64::from(HEADER_BYTES);
        let kinds = tags + u64::from(rows);
        let seqnos = kinds + if kind == 0 { u64::from(rows) } else { 0 };
        let records = seqnos + u64::from(rows) * u64::from(seqno_width);
        let record = u64::from(if wide { WIDE } else { NARROW });
        let heads = records + (u64::from(rows) + 1) * record;
        let prefix = heads + u64::from(rows.div_ceil(RESTART_INTERVAL)) * 8;
        let keys = prefix + u64::from(prefix_len);
        let values = keys + u64::from(keys_len);
        if values > bytes.len() as u64 {
            return Err(header.error("sections of the block"));
        }
        let narrow = |at: u64| u32::try_from(at).map_err(|_| header.error("size of the block"));
        Ok(Layout {
            rows,
            wide,
            seqno_width,
            kind,
            base,
            kinds: narrow(kinds)?,
            seqnos: narrow(seqnos)?,
            records: narrow(records)?,
            heads: narrow(heads)?,
            prefix: narrow(prefix)?,
            keys: narrow(keys)?,
            values: narrow(values)?,
        })
    }
}

/// Whether a kind byte may stand in a data block: range tombstones are kept apart.
fn is_entry_kind(byte: u8) -> bool {
    matches!(Kind::from_byte(byte), Some(Kind::Put | Kind::Delete | Kind::Merge | Kind::BlobPut))
}

/// Where one row's bytes lie in its block.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// Bytes of the restart point's rest that this row's rest begins with.
    shared: u32,
    key: u32,
    key_end: u32,
    value: u32,
    value_end: u32,
}

/// A block's bytes with their layout, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) layout: &'a Layout,
}

impl<'a> View<'a> {
    #[inline]
    pub(crate) fn rows(self) -> u32 {
        self.layout.rows
    }

    /// The bytes that all keys start with.
    #[inline]
    fn prefix(self) -> &'a [u8] {
        self.bytes.get(self.layout.prefix as usize..self.layout.keys as usize).unwrap_or_default()
    }

    #[inline]
    fn row(self, row: u32) -> Row {
        row_at(self.bytes, self.layout, row)
    }

    /// What a row's key has of its own.
    #[inline]
    fn remainder(self, row: Row) -> &'a [u8] {
        self.bytes.get(row.key as usize..row.key_end as usize).unwrap_or_default()
    }

    /// The value of row `row`.
    #[inline]
    pub(crate) fn value(self, row: u32) -> &'a [u8] {
        let row = self.row(row);
        self.bytes.get(row.value as usize..row.value_end as usize).unwrap_or_default()
    }

    /// The sequence number of row `row`.
    #[inline]
    pub(crate) fn seqno(self, row: u32) -> SeqNo {
        seqno_at(self.bytes, self.layout, row)
    }

    /// The kind of row `row`.
    #[inline]
    pub(crate) fn kind(self, row: u32) -> Kind {
        kind_at(self.bytes, self.layout, row)
    }

    /// The hash tag of row `row`.
    #[inline]
    pub(crate) fn tag(self, row: u32) -> u8 {
        self.bytes.get((HEADER_BYTES + row) as usize).copied().unwrap_or_default()
    }
}

/// The 16 bits of `word` from bit `shift` on.
#[inline(always)]
fn part(word: u64, shift: u32) -> u32 {
    (word >> shift & 0xFFFF) as u32
}

/// Eight bytes from one of the columns on. They are there: after each number of a row lie two records of five bytes, and
/// after each record a head.
#[inline(always)]
fn word_at(bytes: &[u8], at: u32) -> u64 {
    // One comparison: of two 32-bit numbers the compiler knows that adding does not overflow.
    let word = bytes.get(at as usize..at as usize + 8).and_then(<[u8]>::first_chunk::<8>);
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

#[inline]
fn row_at(bytes: &[u8], layout: &Layout, row: u32) -> Row {
    // Starts of a forged block may lie anywhere: whoever reads what they lead to checks that it is there.
    let key = |start: u32| layout.keys.wrapping_add(start);
    let value = |start: u32| layout.values.wrapping_add(start);
    if !layout.wide {
        let at = (layout.records + row * NARROW) as usize;
        let record = bytes.get(at..).and_then(<[u8]>::first_chunk::<9>).copied().unwrap_or_default();
        // One load of all but the last byte: the record itself, and the starts of the next.
        let [low @ .., last] = record;
        let word = u64::from_le_bytes(low);
        return Row {
            shared: part(word, 32) & 0xFF,
            key: key(part(word, 0)),
            key_end: key(part(word, 40)),
            value: value(part(word, 16)),
            value_end: value(part(word, 56) | u32::from(last) << 8),
        };
    }
    let at = (layout.records + row * WIDE) as usize;
    let record = bytes.get(at..).and_then(<[u8]>::first_chunk::<17>).copied().unwrap_or_default();
    let [k0, k1, k2, k3, v0, v1, v2, v3, shared, e0, e1, e2, e3, w0, w1, w2, w3] = record;
    Row {
        shared: u32::from(shared),
        key: key(u32::from_le_bytes([k0, k1, k2, k3])),
        key_end: key(u32::from_le_bytes([e0, e1, e2, e3])),
        value: value(u32::from_le_bytes([v0, v1, v2, v3])),
        value_end: value(u32::from_le_bytes([w0, w1, w2, w3])),
    }
}

/// What is added to the base for row `row`.
#[inline]
fn delta_at(bytes: &[u8], layout: &Layout, row: u32) -> u64 {
    let width = u32::from(layout.seqno_width);
    word_at(bytes, layout.seqnos + row * width) & ((1 << (8 * width)) - 1)
}

#[inline]
fn seqno_at(bytes: &[u8], layout: &Layout, row: u32) -> SeqNo {
    if layout.seqno_width == 0 {
        return SeqNo(layout.base);
    }
    SeqNo(layout.base.wrapping_add(delta_at(bytes, layout, row)))
}

#[inline]
fn kind_at(bytes: &[u8], layout: &Layout, row: u32) -> Kind {
    let byte = match layout.kind {
        0 => bytes.get((layout.kinds + row) as usize).copied().unwrap_or_default(),
        uniform => uniform,
    };
    Kind::from_byte(byte).unwrap_or(Kind::Put)
}

/// What is known of a block besides its bytes: how to read them, and what cursors may rely on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockMeta {
    layout: Layout,
    /// No two neighbouring rows have the same key. False where that is not known.
    distinct: bool,
    /// No row has a larger number. The largest there is where that is not known.
    newest: SeqNo,
}

impl BlockMeta {
    /// Parse and validate the block that `bytes` are.
    pub(crate) fn new(bytes: &[u8]) -> Result<BlockMeta, DecodeError> {
        let layout = Layout::parse(bytes)?;
        View { bytes, layout: &layout }.validate()?;
        Ok(BlockMeta::of_validated(layout))
    }

    /// What is known of bytes that were validated before, with the layout parsed from them.
    pub(crate) fn of_validated(layout: Layout) -> BlockMeta {
        if layout.seqno_width == 0 {
            // No two entries share key and sequence number.
            return BlockMeta { layout, distinct: true, newest: SeqNo(layout.base) };
        }
        BlockMeta { layout, distinct: false, newest: SeqNo::MAX }
    }

    /// Find out, for cursors, what `bytes` say of versions and numbers: worth the time for a block that
    /// stays in memory.
    pub(crate) fn look_for_versions(&mut self, bytes: &[u8]) {
        // For a block whose rows all have one number, both are known.
        if self.layout.seqno_width > 0 {
            let view = View { bytes, layout: &self.layout };
            (self.distinct, self.newest) = (view.is_distinct(), view.newest());
        }
    }
}

/// The rows of a cached block. Its memory may be longer than the block: a layout leads to no byte after the block.
#[inline]
pub(crate) fn view_of(cached: &CachedBlock) -> View<'_> {
    View { bytes: cached.bytes(), layout: &cached.meta.layout }
}

/// A block to hold on to.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// One that is in the cache, or was.
    Cached(CachedBlock),
    /// One that is not: a slice of a mapping, or of a larger read.
    Uncached(BlockMeta, Bytes),
}

impl Default for Block {
    fn default() -> Self {
        Block::Uncached(BlockMeta::default(), Bytes::new())
    }
}

impl Block {
    /// Parse and validate `bytes`.
    pub(crate) fn new(bytes: Bytes) -> Result<Block, DecodeError> {
        Ok(Block::Uncached(BlockMeta::new(&bytes)?, bytes))
    }

    #[inline]
    fn meta(&self) -> &BlockMeta {
        match self {
            Block::Cached(block) => &block.meta,
            Block::Uncached(meta, _) => meta,
        }
    }

    /// Its bytes, and after them what else was allocated for it.
    #[inline]
    fn buffer(&self) -> &[u8] {
        match self {
            Block::Cached(block) => block.bytes(),
            Block::Uncached(_, bytes) => bytes,
        }
    }

    /// Where its memory starts; none of it is read. The bytes of all cached blocks lie equally far behind
    /// that.
    #[inline]
    pub(crate) fn start(&self) -> *const u8 {
        match self {
            Block::Cached(block) => block.as_ptr(),
            Block::Uncached(_, bytes) => bytes.as_ptr(),
        }
    }

    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        View { bytes: self.buffer(), layout: &self.meta().layout }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Block::Cached(block) => block.len,
            Block::Uncached(_, bytes) => bytes.len(),
        }
    }
}
