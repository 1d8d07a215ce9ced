//! Walking over the rows of one block. The hot path of every scan and merge.
//!
//! The current key is kept in a buffer: `prefix ‖ part of the bundle's first rest ‖ remainder`. A step
//! forward within a bundle only writes the remainder, since shares never grow there; a step back
//! also restores the bytes of the first rest that are shared again.

use esker_base::cursor::{EntryFacts, EntryView};
use esker_base::key::head;
use esker_base::{InternalKey, Kind, SeqNo};

use super::{BUNDLE, Block, Layout, Row, kind_at, row_at, seqno_at};

/// Keys up to this size are copied without calling into memcpy.
const SHORT: usize = 16;

/// A position in a block, or none.
#[derive(Debug, Default)]
pub(crate) struct BlockCursor {
    block: Block,
    at: Position,
}

/// The position, beside the block whose bytes each step is lent: once, and not at each look at them.
#[derive(Debug, Default)]
struct Position {
    /// The block's.
    layout: Layout,
    /// The current row; meaningful only while `valid`.
    row: u32,
    valid: bool,
    /// At least `key_len` bytes, and room for a short copy behind them.
    key: Vec<u8>,
    key_len: usize,
    /// No two neighbouring rows have the same key, as far as that is known.
    distinct: bool,
    /// Whether all rows lie in the bounds of the scan, as far as that is known.
    in_bounds: bool,
    /// Length of the block's prefix, which `key` starts with.
    prefix_len: usize,
    /// How many bytes of `first` the buffer holds behind the prefix.
    held: usize,
    /// The rest of the current bundle's first row, as a range of the block.
    first: (usize, usize),
    /// The current value, as a range of the block.
    value: (usize, usize),
}

impl BlockCursor {
    /// Walk over `block` from now on; stands nowhere. `in_bounds`: all its rows are known to lie in the scan's bounds.
    pub(crate) fn set(&mut self, block: Block, in_bounds: bool) {
        self.block = block;
        let (at, label) = (&mut self.at, self.block.label());
        at.valid = false;
        at.layout = label.layout;
        at.distinct = label.distinct;
        at.in_bounds = in_bounds;
        let prefix = self.block.view().prefix();
        at.prefix_len = prefix.len();
        let room = prefix.len() + 4 * SHORT;
        if at.key.len() < room {
            at.key.resize(room, 0);
        }
        if let Some(start) = at.key.get_mut(..prefix.len()) {
            start.copy_from_slice(prefix);
        }
        at.held = 0;
        at.first = (0, 0);
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.at.valid
    }

    /// Stand nowhere.
    pub(crate) fn invalidate(&mut self) {
        self.at.valid = false;
    }

    #[inline]
    pub(crate) fn rows(&self) -> u32 {
        self.at.layout.rows
    }

    /// The first row at or after `target`; `rows()` if there is none.
    pub(crate) fn lower_bound(&self, target: InternalKey<'_>) -> u32 {
        self.block.view().lower_bound(target)
    }

    /// Stand on row `row`, which exists.
    pub(crate) fn stand(&mut self, row: u32) {
        let bytes = self.block.room();
        self.at.enter(bytes, row - row % BUNDLE);
        self.at.load(bytes, row);
        self.at.valid = true;
    }

    /// Step to the following row; false, and nothing changes, if there is none in this block.
    #[inline]
    pub(crate) fn next(&mut self) -> bool {
        self.at.next(self.block.room())
    }

    /// Step to the preceding row; false, and nothing changes, if there is none in this block.
    #[inline]
    pub(crate) fn prev(&mut self) -> bool {
        self.at.prev(self.block.room())
    }

    /// Step to the following row if it is known to have another key.
    #[inline]
    pub(crate) fn next_distinct(&mut self) -> Option<EntryFacts> {
        let bytes = self.block.room();
        (self.at.valid && self.at.distinct && self.at.next(bytes)).then(|| self.at.facts(bytes))
    }

    /// Step to the preceding row if it is known to have another key.
    #[inline]
    pub(crate) fn prev_distinct(&mut self) -> Option<EntryFacts> {
        let bytes = self.block.room();
        (self.at.valid && self.at.distinct && self.at.prev(bytes)).then(|| self.at.facts(bytes))
    }

    /// Whether the preceding row is in this block and known to have another key.
    #[inline]
    pub(crate) fn is_behind_distinct(&self) -> bool {
        self.at.valid && self.at.distinct && self.at.row > 0
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        assert!(self.at.valid, "key() on a cursor that stands nowhere");
        self.at.key()
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        assert!(self.at.valid, "value() on a cursor that stands nowhere");
        self.at.value(self.block.room())
    }

    #[inline]
    pub(crate) fn entry(&self) -> EntryView<'_> {
        assert!(self.at.valid, "entry() on a cursor that stands nowhere");
        let (bytes, at) = (self.block.room(), &self.at);
        EntryView { key: at.key(), seqno: at.seqno(bytes), kind: at.kind(bytes), value: at.value(bytes) }
    }

    #[inline]
    pub(crate) fn seqno(&self) -> SeqNo {
        assert!(self.at.valid, "seqno() on a cursor that stands nowhere");
        self.at.seqno(self.block.room())
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        assert!(self.at.valid, "kind() on a cursor that stands nowhere");
        self.at.kind(self.block.room())
    }
}

impl Position {
    #[inline]
    fn next(&mut self, bytes: &[u8]) -> bool {
        let row = self.row + 1;
        if row >= self.layout.rows {
            return false;
        }
        if row.is_multiple_of(BUNDLE) {
            self.enter(bytes, row);
        }
        self.load(bytes, row);
        true
    }

    #[inline]
    fn prev(&mut self, bytes: &[u8]) -> bool {
        let Some(row) = self.row.checked_sub(1) else { return false };
        if row % BUNDLE == BUNDLE - 1 {
            self.enter(bytes, row - (BUNDLE - 1));
        }
        self.load(bytes, row);
        true
    }

    /// Prepare for the bundle that starts with row `start`.
    #[inline]
    fn enter(&mut self, bytes: &[u8], start: u32) {
        let first = row_at(bytes, &self.layout, start);
        self.first = (first.key, first.key_end);
        self.held = 0;
    }

    /// Decode row `row` of the current bundle.
    #[inline(always)]
    fn load(&mut self, bytes: &[u8], row: u32) {
        let here: Row = row_at(bytes, &self.layout, row);
        if here.shared > self.held {
            let (start, _) = self.first;
            let missing = here.shared - self.held;
            self.copy(bytes, self.prefix_len + self.held, start + self.held, missing);
        }
        let at = self.prefix_len + here.shared;
        let own = here.key_end.saturating_sub(here.key);
        self.copy(bytes, at, here.key, own);
        self.held = if row.is_multiple_of(BUNDLE) { own } else { here.shared };
        self.key_len = at + own;
        self.value = (here.value, here.value_end);
        self.row = row;
    }

    /// Copy `len` bytes from offset `from` of the block to offset `at` of the key.
    #[inline]
    fn copy(&mut self, bytes: &[u8], at: usize, from: usize, len: usize) {
        if len <= SHORT {
            let source = bytes.get(from..).and_then(<[u8]>::first_chunk::<SHORT>);
            let target = self.key.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<SHORT>);
            if let (Some(source), Some(target)) = (source, target) {
                *target = *source;
                return;
            }
        }
        self.copy_long(bytes, at, from, len);
    }

    #[inline(never)]
    fn copy_long(&mut self, bytes: &[u8], at: usize, from: usize, len: usize) {
        if self.key.len() < at + len + SHORT {
            self.key.resize((at + len) * 2 + SHORT, 0);
        }
        let source = bytes.get(from..from + len).unwrap_or_default();
        if let Some(target) = self.key.get_mut(at..at + source.len()) {
            target.copy_from_slice(source);
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.key.get(..self.key_len).unwrap_or_default()
    }

    #[inline]
    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.value.0..self.value.1).unwrap_or_default()
    }

    #[inline]
    fn seqno(&self, bytes: &[u8]) -> SeqNo {
        seqno_at(bytes, &self.layout, self.row)
    }

    #[inline]
    fn kind(&self, bytes: &[u8]) -> Kind {
        kind_at(bytes, &self.layout, self.row)
    }

    #[inline]
    fn facts(&self, bytes: &[u8]) -> EntryFacts {
        let (start, end) = self.value;
        EntryFacts {
            // The buffer is longer than any head; what lies behind a short key there does not belong to it.
            head: match self.key.first_chunk::<8>() {
                Some(first) if self.key_len >= 8 => u64::from_be_bytes(*first),
                _ => head(self.key()),
            },
            seqno: self.seqno(bytes),
            kind: self.kind(bytes),
            bytes: self.key_len + (end - start),
            in_bounds: self.in_bounds,
        }
    }
}
