//! Walking over the rows of one block. The hot path of every scan and merge.
//!
//! The current key is kept in a buffer: `prefix ‖ part of the bundle's first rest ‖ remainder`. A step
//! forward within a bundle only writes the remainder, since shares never grow there; a step back
//! also restores the bytes of the first rest that are shared again.

use esker_base::cursor::{EntryFacts, EntryView};
use esker_base::key::head;
use esker_base::{InternalKey, Kind, SeqNo};

use super::{BUNDLE, Block, Layout, Row, kind_at, row_after, row_at, row_before, seqno_at};

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
    /// All rows are puts that the scan sees and wants, as far as that is known.
    plain: bool,
    /// What is known of the rows.
    known: Known,
    /// Length of the block's prefix, which `key` starts with.
    prefix_len: usize,
    /// Where the current bundle's first rest starts in the block.
    first: usize,
    /// How many bytes of that rest the buffer holds behind the prefix.
    held: usize,
    /// The current row's place in the block.
    here: Row,
}

/// What is known of a block's rows and the scan that a cursor serves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// All lie in its bounds.
    pub(crate) in_bounds: bool,
    /// It sees writes up to this number.
    pub(crate) upto: SeqNo,
}

impl BlockCursor {
    /// Walk over `block` from now on; stands nowhere.
    pub(crate) fn set(&mut self, block: Block, known: Known) {
        self.block = block;
        let (at, label) = (&mut self.at, self.block.label());
        at.valid = false;
        at.layout = label.layout;
        at.distinct = label.distinct;
        at.plain = known.in_bounds && label.layout.kind == Kind::Put as u8 && label.newest <= known.upto;
        at.known = known;
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
        at.first = 0;
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
        self.at.stand(self.block.room(), row);
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
        (self.at.valid && self.at.distinct && self.at.prev(bytes)).then(|| {
            let facts = self.at.facts(bytes);
            // The block before may end with newer versions of the first row's key.
            EntryFacts { is_row: facts.is_row && self.at.row > 0, ..facts }
        })
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
    #[inline(always)]
    fn next(&mut self, bytes: &[u8]) -> bool {
        let row = self.row + 1;
        if row >= self.layout.rows {
            return false;
        }
        if self.layout.wide {
            self.stand(bytes, row);
            return true;
        }
        let here = row_after(bytes, &self.layout, row, &self.here);
        if row.is_multiple_of(BUNDLE) {
            self.first = here.key;
            self.held = 0;
        }
        self.load(bytes, row, here);
        true
    }

    #[inline(always)]
    fn prev(&mut self, bytes: &[u8]) -> bool {
        let Some(row) = self.row.checked_sub(1) else { return false };
        if self.layout.wide {
            self.stand(bytes, row);
            return true;
        }
        let here = row_before(bytes, &self.layout, row, &self.here);
        if row % BUNDLE == BUNDLE - 1 {
            self.enter(bytes, row - (BUNDLE - 1));
        }
        self.load(bytes, row, here);
        true
    }

    /// Go to row `row` from anywhere. Of a block with wide starts, which has large values, each step is this one.
    #[inline(never)]
    fn stand(&mut self, bytes: &[u8], row: u32) {
        let here = row_at(bytes, &self.layout, row);
        self.enter(bytes, row - row % BUNDLE);
        self.load(bytes, row, here);
    }

    /// Prepare for the bundle that starts with row `start`.
    fn enter(&mut self, bytes: &[u8], start: u32) {
        self.first = row_at(bytes, &self.layout, start).key;
        self.held = 0;
    }

    /// Stand on row `row` of the current bundle, which is `here`.
    #[inline(always)]
    fn load(&mut self, bytes: &[u8], row: u32, here: Row) {
        if here.shared > self.held {
            let missing = here.shared - self.held;
            self.copy(bytes, self.prefix_len + self.held, self.first + self.held, missing);
        }
        let at = self.prefix_len + here.shared;
        let own = here.key_end.saturating_sub(here.key);
        self.copy(bytes, at, here.key, own);
        self.held = if row.is_multiple_of(BUNDLE) { own } else { here.shared };
        self.key_len = at + own;
        self.here = here;
        self.row = row;
    }

    /// Copy `len` bytes from offset `from` of the block to offset `at` of the key.
    #[inline(always)]
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
        bytes.get(self.here.value..self.here.value_end).unwrap_or_default()
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
        EntryFacts {
            // The buffer is longer than any head; what lies behind a short key there does not belong to it.
            head: match self.key.first_chunk::<8>() {
                Some(first) if self.key_len >= 8 => u64::from_be_bytes(*first),
                _ => head(self.key()),
            },
            bytes: self.key_len + (self.here.value_end - self.here.value),
            is_row: self.plain || self.is_row(bytes),
        }
    }

    /// Whether the row is known to be one that the scan sees and wants.
    #[inline(never)]
    fn is_row(&self, bytes: &[u8]) -> bool {
        let Known { in_bounds, upto } = self.known;
        in_bounds && self.kind(bytes) == Kind::Put && self.seqno(bytes) <= upto
    }
}
