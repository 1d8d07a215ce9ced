//! Walking over the rows of one block. The hot path of every scan and merge.
//!
//! The current key is kept in a buffer: `prefix ‖ part of the restart point's rest ‖ remainder`. A step
//! forward within a restart interval only writes the remainder, since shares never grow there; a step back
//! also restores the bytes of the restart point's rest that are shared again.

use esker_base::cursor::{Below, EntryView, Stepped};
use esker_base::{InternalKey, Kind, SeqNo};
use esker_vfs::os::memory::prefetch_front;

use super::ahead::Ahead;
use super::key_buffer::{KeyBuffer, first_bytes, head_at, spliced_head};
use super::{
    Block, Bound, Layout, NARROW, RESTART_INTERVAL, Row, RowRun, kind_at, part, row_at, seqno_at, word_at,
};

/// Cache lines of a value that are prefetched when a cursor comes to it by a seek: one of 100 bytes lies in up to three.
const VALUE_LINES: usize = 3;

/// More cache lines of values are not prefetched at once: steps prefetch the others as they come.
const VALUE_LINES_MAX: usize = 16;

/// A position in a block, or none.
#[derive(Debug, Default)]
pub(crate) struct BlockCursor {
    block: Block,
    at: Position,
}

/// The position, apart from the block: so each step is lent the block's bytes once, and not at each look at
/// them.
#[derive(Debug)]
struct Position {
    /// The block's.
    layout: Layout,
    /// The current row; [`NOWHERE`], which no block has, if there is none.
    row: u32,
    /// It is known that starts are narrow and that no two neighbouring rows have the same key: a step is a
    /// cheap one, and leads to another key.
    strides: bool,
    /// The same, and it is known that all rows are puts that the scan sees and, in a walk forward, wants.
    plain: bool,
    /// The same of a walk backwards.
    plain_back: bool,
    /// What is known of the rows.
    known: Known,
    /// At least `key_len` bytes.
    key: KeyBuffer,
    key_len: u32,
    /// The head of the current key. Not read from `key`: that would wait until what has just been written there has
    /// reached the cache, which took a quarter of a scan.
    head: u64,
    /// Length of the block's prefix, which `key` starts with.
    prefix_len: u32,
    /// The head of the prefix; if that is shorter than a head, the bytes after it are arbitrary.
    prefix_head: u64,
    /// Where the rest of the current restart point starts in the block.
    restart: u32,
    /// How many bytes of that rest the buffer holds after the prefix.
    held: u32,
    /// The head of the restart point's key; if that is shorter than a head, the bytes after it are arbitrary.
    restart_head: u64,
    /// The current row's place in the block.
    here: Row,
    /// The row on which it was put.
    stood: u32,
    /// What steps prefetch, forward and backwards; set whenever the cursor is put on a row.
    next_ahead: Ahead,
    prev_ahead: Ahead,
}

/// No row: neither it nor its neighbours are below any block's count.
const NOWHERE: u32 = u32::MAX - 1;

impl Default for Position {
    fn default() -> Self {
        Position {
            layout: Layout::default(),
            row: NOWHERE,
            strides: false,
            plain: false,
            plain_back: false,
            known: Known::default(),
            key: KeyBuffer::default(),
            key_len: 0,
            head: 0,
            prefix_len: 0,
            prefix_head: 0,
            restart: 0,
            held: 0,
            restart_head: 0,
            here: Row::default(),
            stood: 0,
            next_ahead: Ahead::default(),
            prev_ahead: Ahead::default(),
        }
    }
}

/// What is known of a block's rows and the scan that a cursor serves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// None lies behind its bounds.
    pub(crate) before_end: bool,
    /// None lies before its bounds.
    pub(crate) after_start: bool,
    /// It sees writes up to this number.
    pub(crate) upto: SeqNo,
}

impl BlockCursor {
    /// Walk over `block` from now on; stands nowhere.
    pub(crate) fn set(&mut self, block: Block, known: Known) {
        *self.block_mut() = block;
        self.begin(known);
    }

    /// The block, to be replaced by another: if it is, [`BlockCursor::begin`] has to follow.
    pub(crate) fn block_mut(&mut self) -> &mut Block {
        &mut self.block
    }

    /// Walk over the block that was put there; stands nowhere. Looks at none of its bytes, which may be on their way.
    pub(crate) fn begin(&mut self, known: Known) {
        let (at, meta) = (&mut self.at, self.block.meta());
        at.row = NOWHERE;
        at.layout = meta.layout;
        at.strides = meta.distinct && !meta.layout.wide;
        let puts = meta.layout.kind == Kind::Put as u8 && meta.newest <= known.upto;
        at.plain = at.strides && puts && known.before_end;
        at.plain_back = at.strides && puts && known.after_start;
        at.known = known;
        at.prefix_len = meta.layout.keys - meta.layout.prefix;
        at.held = 0;
        at.restart = 0;
    }

    /// The walk is long, and will likely go on, forward or `back`, to the block that starts at `next` ([`Block::start`]): prefetch
    /// its values.
    pub(crate) fn look_on(&mut self, next: *const u8, back: bool) {
        let ahead = Ahead::in_block(next, self.block.start());
        if back { self.at.prev_ahead = ahead } else { self.at.next_ahead = ahead }
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.at.row < self.at.layout.rows
    }

    /// Stand nowhere.
    pub(crate) fn invalidate(&mut self) {
        self.at.row = NOWHERE;
    }

    /// How many cache lines a block takes up to its values, header of a cached one included.
    pub(crate) fn lines_before_values(&self) -> usize {
        (self.at.layout.values as usize).div_ceil(64) + 2
    }

    /// How many cache lines the values of `rows` rows take if they are as long as this block's on average;
    /// at most as many as may be prefetched at once.
    pub(crate) fn lines_of_values(&self, rows: u32) -> usize {
        let rows_here = self.at.layout.rows.max(1);
        let bytes = self.block.len().saturating_sub(self.at.layout.values as usize);
        let bytes = bytes / rows_here as usize * rows.min(rows_here) as usize;
        (bytes.div_ceil(64) + 1).min(VALUE_LINES_MAX)
    }

    /// How far behind [`Block::start`] the block's bytes start, here and in all blocks from the same source.
    pub(crate) fn bytes_before(&self) -> usize {
        self.block.buffer().as_ptr().addr().wrapping_sub(self.block.start().addr())
    }

    /// Prefetch the values of the `rows` rows behind this one, or walking `back` before it.
    pub(crate) fn prefetch_values(&self, rows: u32, back: bool) {
        let here = &self.at.here;
        let from = if back { here.value } else { here.value_end };
        Ahead::prefetch_first(self.block.buffer(), from, self.lines_of_values(rows), back);
    }

    #[inline]
    pub(crate) fn rows(&self) -> u32 {
        self.at.layout.rows
    }

    /// How many rows follow the one on which this stands, or walking `back` precede it.
    pub(crate) fn rows_left(&self, back: bool) -> u32 {
        if back { self.at.row } else { self.at.layout.rows.saturating_sub(self.at.row + 1) }
    }

    /// How many rows there are from the one on which this was put to the block's last.
    pub(crate) fn rows_behind_start(&self) -> u32 {
        self.at.layout.rows.saturating_sub(self.at.stood)
    }

    /// How many rows lie between the one on which this stands and the one on which it was put; none if it stands nowhere.
    pub(crate) fn passed(&self) -> u32 {
        if self.valid() { self.at.row.abs_diff(self.at.stood) } else { 0 }
    }

    /// The first row at or after `target`; `rows()` if there is none.
    pub(crate) fn lower_bound(&self, target: InternalKey<'_>) -> u32 {
        self.block.view().lower_bound(target)
    }

    /// Stand on row `row`, which exists, and prefetch its value, which lies apart from its key, so that it is there by the time
    /// it is read. Steps from here prefetch values of this block, until [`look_on`](Self::look_on) says otherwise.
    pub(crate) fn stand(&mut self, row: u32) {
        let bytes = self.block.buffer();
        let at = &mut self.at;
        (at.next_ahead, at.prev_ahead) = (Ahead::NEXT_ROWS, Ahead::PREV_ROWS);
        at.prefix_head = at.key.begin(bytes, at.layout.prefix, at.prefix_len);
        at.stand(bytes, row);
        at.stood = row;
        let value = bytes.get(self.at.here.value as usize..).unwrap_or_default();
        prefetch_front(value, VALUE_LINES);
    }

    /// Step to the following row; false, and nothing changes, if there is none in this block, or it stands nowhere.
    #[inline]
    pub(crate) fn next(&mut self) -> bool {
        self.at.next(self.block.buffer())
    }

    /// Step to the preceding row; false, and nothing changes, if there is none in this block, or it stands nowhere.
    #[inline]
    pub(crate) fn prev(&mut self) -> bool {
        self.at.prev(self.block.buffer())
    }

    /// Step to the following row if it is known to have another key.
    #[inline(always)]
    pub(crate) fn next_distinct(&mut self) -> Option<Stepped<'_>> {
        let bytes = self.block.buffer();
        if !(self.at.strides && self.at.stride(bytes)) {
            return None;
        }
        Some(self.at.stepped(bytes))
    }

    /// Step to the preceding row if it is known to have another key.
    #[inline(always)]
    pub(crate) fn prev_distinct(&mut self) -> Option<Stepped<'_>> {
        let bytes = self.block.buffer();
        if !(self.at.strides && self.at.stride_back(bytes)) {
            return None;
        }
        // The block before may end with newer versions of the first row's key.
        Some(self.at.stepped_back(bytes, self.at.row > 0))
    }

    /// The current row, to which a step has led from the block before, no row of which has its key.
    #[inline]
    pub(crate) fn entered(&self) -> Stepped<'_> {
        self.at.stepped(self.block.buffer())
    }

    /// Whether this is the block's last row.
    #[inline(always)]
    pub(crate) fn is_last(&self) -> bool {
        self.at.row + 1 == self.at.layout.rows
    }

    /// Let `run` walk over the rows after this one that are below `below`, if they are known to be the scan's; returns
    /// the block's bytes. The run takes the key's buffer with it: until [`BlockCursor::end_run`] no other method may be called.
    #[inline]
    pub(crate) fn begin_run(&mut self, below: Below<'_>, run: &mut RowRun) -> Option<&[u8]> {
        let at = &mut self.at;
        if !(at.plain && at.row < at.layout.rows) {
            return None;
        }
        let bound = Bound::new(below, at.head, at.key.get(at.key_len));
        let ends = (at.here.key_end, at.here.value_end);
        run.begin(&at.layout, at.row + 1, bound, &mut at.key, ends, at.next_ahead);
        Some(self.block.buffer())
    }

    /// End `run`, which began here, and stand on the row taken last; its head.
    #[inline]
    pub(crate) fn end_run(&mut self, run: &mut RowRun) -> u64 {
        let (last, ..) = run.end(&mut self.at.key);
        let at = &mut self.at;
        if last != at.row {
            at.stand(self.block.buffer(), last);
        }
        at.head
    }

    /// End `run`, which began here, and stand on the row behind the one taken last, which is in the block.
    #[inline]
    pub(crate) fn step_off_run(&mut self, run: &mut RowRun) -> Stepped<'_> {
        let (last, key_end, value_end) = run.end(&mut self.at.key);
        let (at, bytes) = (&mut self.at, self.block.buffer());
        at.come_to(bytes, last, (key_end, value_end));
        at.stride(bytes);
        at.stepped(bytes)
    }

    /// End `run`, which began here, and stand nowhere.
    pub(crate) fn drop_run(&mut self, run: &mut RowRun) {
        run.end(&mut self.at.key);
        self.invalidate();
    }

    /// The current row, if it is known to be one of the scan's, which walks forward, or `back`.
    #[inline]
    pub(crate) fn known_row(&self, back: bool) -> Option<Stepped<'_>> {
        let plain = if back { self.at.plain_back } else { self.at.plain };
        (plain && self.is_behind_distinct()).then(|| self.at.lent(self.block.buffer(), true))
    }

    /// Whether the preceding row is in this block and known to have another key.
    #[inline]
    pub(crate) fn is_behind_distinct(&self) -> bool {
        self.at.strides && (1..self.at.layout.rows).contains(&self.at.row)
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        assert!(self.valid(), "key() on a cursor that stands nowhere");
        self.at.key()
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        assert!(self.valid(), "value() on a cursor that stands nowhere");
        self.at.value(self.block.buffer())
    }

    #[inline]
    pub(crate) fn entry(&self) -> EntryView<'_> {
        assert!(self.valid(), "entry() on a cursor that stands nowhere");
        let (bytes, at) = (self.block.buffer(), &self.at);
        EntryView { key: at.key(), seqno: at.seqno(bytes), kind: at.kind(bytes), value: at.value(bytes) }
    }

    #[inline]
    pub(crate) fn seqno(&self) -> SeqNo {
        assert!(self.valid(), "seqno() on a cursor that stands nowhere");
        self.at.seqno(self.block.buffer())
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        assert!(self.valid(), "kind() on a cursor that stands nowhere");
        self.at.kind(self.block.buffer())
    }
}

impl Position {
    #[inline]
    fn next(&mut self, bytes: &[u8]) -> bool {
        if self.layout.wide {
            let row = self.row + 1;
            return row < self.layout.rows && self.stand(bytes, row);
        }
        self.stride(bytes)
    }

    #[inline]
    fn prev(&mut self, bytes: &[u8]) -> bool {
        if self.layout.wide {
            let row = self.row.wrapping_sub(1);
            return row < self.layout.rows && self.stand(bytes, row);
        }
        self.stride_back(bytes)
    }

    /// [`Position::next`] in a block with narrow starts.
    #[inline(always)]
    fn stride(&mut self, bytes: &[u8]) -> bool {
        let row = self.row + 1;
        if row >= self.layout.rows {
            return false;
        }
        if row.is_multiple_of(RESTART_INTERVAL) {
            self.begin(bytes, row);
        } else {
            // What is shared with the restart point never grows on the way, so the buffer holds it.
            self.load(bytes, row, row_after(bytes, &self.layout, row, &self.here));
            self.next_ahead.prefetch(bytes, self.here.value_end);
        }
        true
    }

    /// Stand on row `row`, as far as a stride needs that: its own bytes and its value end at `ends`.
    /// Somebody else took the steps to it from here, and left in the buffer what the row after it shares.
    #[inline(always)]
    fn come_to(&mut self, bytes: &[u8], row: u32, ends: (u32, u32)) {
        if row / RESTART_INTERVAL != self.row / RESTART_INTERVAL {
            self.enter(bytes, row - row % RESTART_INTERVAL);
        }
        self.row = row;
        (self.here.key_end, self.here.value_end) = ends;
    }

    /// [`Position::prev`] in a block with narrow starts.
    #[inline(always)]
    fn stride_back(&mut self, bytes: &[u8]) -> bool {
        let row = self.row.wrapping_sub(1);
        if row >= self.layout.rows {
            return false;
        }
        let here = row_before(bytes, &self.layout, row, &self.here);
        if (row + 1).is_multiple_of(RESTART_INTERVAL) {
            self.enter(bytes, row + 1 - RESTART_INTERVAL);
        }
        self.restore(bytes, here.shared);
        self.load(bytes, row, here);
        self.prev_ahead.prefetch(bytes, here.value);
        true
    }

    /// Go to row `row`, which exists, from anywhere; returns true. In a block with wide starts, which has
    /// large values, every step is done this way.
    #[inline(never)]
    fn stand(&mut self, bytes: &[u8], row: u32) -> bool {
        self.enter(bytes, row - row % RESTART_INTERVAL);
        let here = row_at(bytes, &self.layout, row);
        self.restore(bytes, here.shared);
        self.load(bytes, row, here);
        true
    }

    /// Stand on row `row`, a restart point.
    #[inline(never)]
    fn begin(&mut self, bytes: &[u8], row: u32) {
        let restart = self.enter(bytes, row);
        self.load(bytes, row, restart);
        // The buffer holds all of its own bytes, of which the rows that follow share some.
        self.held = restart.key_end.saturating_sub(restart.key);
    }

    /// Prepare for the interval that starts with row `start`, a restart point, which is returned.
    fn enter(&mut self, bytes: &[u8], start: u32) -> Row {
        let restart = row_at(bytes, &self.layout, start);
        self.restart = restart.key;
        self.restart_head = spliced_head(self.prefix_head, self.prefix_len, head_at(bytes, restart.key));
        self.held = 0;
        restart
    }

    /// Bring back the bytes of the restart point's rest, if the buffer holds fewer than `shared` of them.
    #[inline(always)]
    fn restore(&mut self, bytes: &[u8], shared: u32) {
        if shared > self.held {
            let missing = shared - self.held;
            self.key.copy(bytes, self.prefix_len + self.held, self.restart + self.held, missing);
        }
    }

    /// Stand on row `row` of the current interval, which is `here`. The buffer holds what it shares with the restart point.
    #[inline(always)]
    fn load(&mut self, bytes: &[u8], row: u32, here: Row) {
        let at = self.prefix_len + here.shared;
        let own = here.key_end.saturating_sub(here.key);
        let own_head = self.key.copy(bytes, at, here.key, own);
        self.key_len = at + own;
        self.head = spliced_head(self.restart_head, at, own_head);
        if self.key_len < 8 {
            self.cut_head();
        }
        self.held = here.shared;
        self.here = here;
        self.row = row;
    }

    /// Clear the bytes of the head that lie after a short key.
    #[cold]
    fn cut_head(&mut self) {
        self.head &= first_bytes(self.key_len);
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.key.get(self.key_len)
    }

    #[inline]
    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.here.value as usize..self.here.value_end as usize).unwrap_or_default()
    }

    #[inline]
    fn seqno(&self, bytes: &[u8]) -> SeqNo {
        seqno_at(bytes, &self.layout, self.row)
    }

    #[inline]
    fn kind(&self, bytes: &[u8]) -> Kind {
        kind_at(bytes, &self.layout, self.row)
    }

    /// The current row, the newest version of its key in this table, to which a step forward has led.
    #[inline(always)]
    fn stepped<'a>(&'a self, bytes: &'a [u8]) -> Stepped<'a> {
        self.lent(bytes, self.plain || self.known.before_end && self.is_seen_put(bytes))
    }

    /// The current row, to which a step backwards has led. `newest`: it is known to be the newest version
    /// of its key in this table.
    #[inline(always)]
    fn stepped_back<'a>(&'a self, bytes: &'a [u8], newest: bool) -> Stepped<'a> {
        let is_row = self.plain_back || self.known.after_start && self.is_seen_put(bytes);
        self.lent(bytes, newest && is_row)
    }

    #[inline(always)]
    fn lent<'a>(&'a self, bytes: &'a [u8], is_row: bool) -> Stepped<'a> {
        Stepped { head: self.head, key: self.key(), value: self.value(bytes), is_row }
    }

    /// Whether the row is a put that the scan sees.
    #[inline(never)]
    fn is_seen_put(&self, bytes: &[u8]) -> bool {
        self.kind(bytes) == Kind::Put && self.seqno(bytes) <= self.known.upto
    }
}

/// Row `row` of a block with narrow starts, which follows `before`: where its own bytes start is known.
#[inline(always)]
fn row_after(bytes: &[u8], layout: &Layout, row: u32, before: &Row) -> Row {
    // The record's last byte and the starts of the next.
    let word = word_at(bytes, layout.records + row * NARROW + 4);
    Row {
        shared: part(word, 0) & 0xFF,
        key: before.key_end,
        key_end: layout.keys.wrapping_add(part(word, 8)),
        value: before.value_end,
        value_end: layout.values.wrapping_add(part(word, 24)),
    }
}

/// Row `row` of a block with narrow starts, which precedes `after`: where its own bytes end is known.
#[inline(always)]
fn row_before(bytes: &[u8], layout: &Layout, row: u32, after: &Row) -> Row {
    let word = word_at(bytes, layout.records + row * NARROW);
    Row {
        shared: part(word, 32) & 0xFF,
        key: layout.keys.wrapping_add(part(word, 0)),
        key_end: after.key,
        value: layout.values.wrapping_add(part(word, 16)),
        value_end: after.value,
    }
}
