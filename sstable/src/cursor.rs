//! Walking over a table's entries.
//!
//! A cursor holds the block it stands in, so neither eviction nor other cursors disturb it. Blocks
//! already cached are used; whether others are cached is the caller's choice. Runs of blocks in file
//! order that are not cached are read in growing pieces (`cursor/read_ahead.rs`).

mod read_ahead;
#[cfg(test)]
pub(crate) mod tests;
mod walk;

use std::sync::Arc;

use esker_base::bounds::Bounds;
use esker_base::cursor::{Below, EntryView, Stepped};
use esker_base::{Cursor, Error, InternalKey, Kind, OpCost, Result, SeqNo};
use esker_vfs::os::memory::prefetch;

use self::read_ahead::ReadAhead;
use self::walk::WalkLength;
use crate::block::{Block, BlockCursor, Known, RowRun};
use crate::cache::Fill;
use crate::reader::TableReader;
use crate::stored::TRAILER_BYTES;

/// More cache lines are not prefetched at once: the processor keeps some tens under way, and blocks may be long.
const LINES_AT_ONCE: usize = 48;

/// What a cursor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorOptions {
    /// Whether blocks that are read go to the cache, and use of cached ones counts; those of a long walk
    /// only as long as there is room. Default true; false for compaction.
    pub fill_cache: bool,
    /// Read ahead 128 KiB at once from the first block on. Default false: then pieces grow from 16 KiB
    /// after two neighbouring blocks were read.
    pub readahead: bool,
}

impl Default for CursorOptions {
    fn default() -> Self {
        CursorOptions { fill_cache: true, readahead: false }
    }
}

/// A walk over a table. See [`Cursor`] for the rules.
pub struct TableCursor {
    at: BlockCursor,
    /// The block that `at` walks over.
    block: Option<usize>,
    walk: WalkLength,
    /// The block that a seek will need, which was approached.
    aim: Option<usize>,
    table: Arc<TableReader>,
    options: CursorOptions,
    /// See [`TableCursor::keep`].
    keeps: bool,
    /// See [`TableCursor::serving`].
    scan: Option<(Arc<Bounds>, SeqNo)>,
    read_ahead: ReadAhead,
    error: Option<Error>,
    cost: OpCost,
}

impl TableCursor {
    pub(crate) fn new(table: Arc<TableReader>, options: CursorOptions) -> TableCursor {
        TableCursor {
            at: BlockCursor::default(),
            block: None,
            walk: WalkLength::default(),
            aim: None,
            table,
            options,
            keeps: true,
            scan: None,
            read_ahead: ReadAhead::default(),
            error: None,
            cost: OpCost::default(),
        }
    }

    /// The same cursor for a scan of `bounds` that sees writes up to `upto`. It knows of whole blocks that
    /// they end, or begin, within the bounds and hold only what that scan sees, so that the scan need not
    /// look at each of their entries ([`Stepped::is_row`]). Entries that the scan does not want are walked
    /// over as before. A step looks only at that end of the bounds towards which it goes; the scan does not
    /// seek beyond the other.
    #[must_use]
    pub fn serving(mut self, bounds: &Arc<Bounds>, upto: SeqNo) -> TableCursor {
        self.scan = Some((Arc::clone(bounds), upto));
        self
    }

    /// Whether blocks that have to be read from now on are kept as the options say (the default), or not at
    /// all: nobody will look again for what is only passed because it is dead.
    pub fn keep(&mut self, keeps: bool) {
        self.keeps = keeps;
    }

    /// The table.
    pub fn table(&self) -> &Arc<TableReader> {
        &self.table
    }

    /// Walk over `table` from now on; stands nowhere. Costs go on adding up, and a cursor that has failed
    /// stays so.
    pub fn move_to(&mut self, table: &Arc<TableReader>) {
        self.end_walk();
        self.at.invalidate();
        self.block = None;
        self.aim = None;
        self.read_ahead = ReadAhead::default();
        if !Arc::ptr_eq(&self.table, table) {
            self.table = Arc::clone(table);
        }
    }

    /// Let `run` walk over the rows at hand that follow and are below `below`, if they are known to be of the scan which
    /// this serves ([`Stepped::is_row`]); returns the bytes that the run's steps are lent. Until [`TableCursor::end_run`] no
    /// other method may be called.
    #[inline]
    pub fn begin_run(&mut self, below: Below<'_>, run: &mut RowRun) -> Option<&[u8]> {
        self.at.begin_run(below, run)
    }

    /// End `run`, which began here, and stand on the row taken last; returns that row's head. Nothing has
    /// moved this cursor since the run began.
    #[inline]
    pub fn end_run(&mut self, run: &mut RowRun) -> u64 {
        self.at.end_run(run)
    }

    /// End `run`, which began here and has no row left below its bound, by the cheap step to the row that
    /// follows ([`Cursor::next_distinct`]). `None` if another step is needed: then this cursor stands on
    /// the row taken last.
    #[inline]
    pub fn step_off_run(&mut self, run: &mut RowRun) -> Option<Stepped<'_>> {
        if run.is_bounded() {
            return Some(self.at.step_off_run(run));
        }
        // The key's buffer, which the run has changed, does not matter in the next block.
        if !run.goes_on() && self.cross_distinct() {
            return Some(self.at.entered());
        }
        self.at.end_run(run);
        None
    }

    /// End `run`, which began here, and stand nowhere.
    pub fn drop_run(&mut self, run: &mut RowRun) {
        self.walk.pass(self.at.passed() + run.taken());
        self.at.drop_run(run);
    }

    /// Stand nowhere.
    pub fn leave(&mut self) {
        self.at.invalidate();
        self.aim = None;
    }

    /// Run `step`, and remember its error for ever.
    #[inline]
    fn guarded(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let result = step(self);
        if let Err(error) = &result {
            self.at.invalidate();
            self.error = Some(error.clone());
        }
        result
    }

    /// Walk over block `block` from now on; stands nowhere in it.
    fn enter(&mut self, block: usize) -> Result<()> {
        if self.block == Some(block) {
            return Ok(());
        }
        // Until the block is there the cursor is in none: an error must not leave it in the old one.
        self.block = None;
        self.at.invalidate();
        // In place, since blocks at hand are entered often, and a block is large to be moved.
        if !self.table.take_at_hand(block, self.options.fill_cache, &mut self.cost, self.at.block_mut())? {
            *self.at.block_mut() = self.load(block)?;
        }
        self.begin(block);
        Ok(())
    }

    /// Walk over block `block`, which was put there; stands nowhere in it.
    fn begin(&mut self, block: usize) {
        let known = self.scan.as_ref().map_or(Known::default(), |(bounds, upto)| Known {
            before_end: self.table.index().ends_within(block, bounds),
            after_start: self.table.index().starts_within(block, bounds),
            upto: *upto,
        });
        self.at.begin(known);
        self.block = Some(block);
    }

    /// Whether blocks that have to be read are cached. A long walk takes the room that there is and pushes
    /// nothing out: it would push out everything else, and the blocks that it has just read are those that
    /// it needs again last.
    fn fill(&self) -> Fill {
        match self.options.fill_cache && self.keeps {
            false => Fill::No,
            true if self.read_ahead.is_longest() => Fill::Room,
            true => Fill::Yes,
        }
    }

    /// The block for a seek to `target`: the one that was approached, or else it is looked for.
    fn approached(&mut self, target: InternalKey<'_>) -> usize {
        self.end_walk();
        let block = self.aim.take().unwrap_or_else(|| self.find(target));
        debug_assert_eq!(block, self.table.index().find(target), "another target was approached");
        block
    }

    /// Block `block`, which is not at hand.
    fn load(&mut self, block: usize) -> Result<Block> {
        if let Some(stored) = self.read_ahead.stored(&self.table, block) {
            return self.table.open_slice(block, &stored, self.fill(), &mut self.cost);
        }
        let eager = self.options.readahead;
        let blocks = self.read_ahead.plan(&self.table, block, eager);
        let fill = self.fill();
        if blocks.len() == 1 {
            return self.table.read_block(block, fill, &mut self.cost);
        }
        // The block that was walked over lies in the piece before, whose memory is wanted for this one.
        self.at = BlockCursor::default();
        self.cost.bytes_from_disk += self.read_ahead.read(&self.table, blocks, eager)?;
        let stored = self.read_ahead.stored(&self.table, block).unwrap_or_default();
        self.table.open_slice(block, &stored, fill, &mut self.cost)
    }

    /// Stand on row `row` of block `block`, or on the next block's first entry if there is no such row.
    fn stand(&mut self, block: usize, row: u32) -> Result<()> {
        if row < self.at.rows() {
            self.at.stand(row);
            return Ok(());
        }
        self.stand_first(block + 1)
    }

    fn stand_first(&mut self, block: usize) -> Result<()> {
        if block >= self.table.index().blocks() {
            self.stand_nowhere();
            return Ok(());
        }
        self.enter(block)?;
        self.at.stand(0);
        Ok(())
    }

    fn stand_last(&mut self, block: Option<usize>) -> Result<()> {
        let Some(block) = block else {
            self.stand_nowhere();
            return Ok(());
        };
        self.enter(block)?;
        self.at.stand(self.at.rows() - 1);
        Ok(())
    }

    /// All entries were walked over. A cursor that reads ahead from the first block on mostly walks once,
    /// and is one of many, as a compaction's are: it keeps no piece for another walk.
    fn stand_nowhere(&mut self) {
        self.at.invalidate();
        if self.options.readahead {
            self.at = BlockCursor::default();
            self.block = None;
            self.read_ahead = ReadAhead::default();
        }
    }

    /// The block that holds the first entry at or after `target`, or the block before it.
    fn find(&mut self, target: InternalKey<'_>) -> usize {
        let index = self.table.index();
        match self.block {
            // A target near the last one needs no search.
            Some(block) if index.is_in(block, target) => block,
            _ => {
                self.cost.tables += 1;
                self.table.locate(target)
            }
        }
    }

    #[inline(never)]
    fn next_block(&mut self) -> Result<()> {
        let block = self.block.map_or(0, |block| block + 1);
        self.walk.pass(self.at.rows_behind_start());
        self.guarded(|cursor| cursor.stand_first(block))?;
        self.look_on(false);
        Ok(())
    }

    #[inline(never)]
    fn prev_block(&mut self) -> Result<()> {
        let block = self.block.and_then(|block| block.checked_sub(1));
        self.walk.pass(self.at.passed() + 1);
        self.guarded(|cursor| cursor.stand_last(block))?;
        self.look_on(true);
        Ok(())
    }

    /// A seek has come to where this cursor stands now, if anywhere.
    fn begin_walk(&mut self) {
        if self.at.valid() {
            self.walk.begin();
        }
    }

    /// A seek goes elsewhere, and ends the walk that was under way, if one was.
    fn end_walk(&mut self) {
        self.walk.end(self.at.passed());
    }

    /// The walk takes its first step, forward or `back`: prefetch what it will likely come to.
    #[inline(never)]
    fn set_out(&mut self, back: bool) {
        self.walk.set_out();
        let here = self.at.rows_left(back);
        self.at.prefetch_values(self.walk.left().min(here), back);
        let beyond = self.walk.beyond(here);
        if let Some(next) = self.beside(back).filter(|_| beyond > 0) {
            self.prefetch_rows(next, beyond, back);
        }
    }

    /// The walk has come into this block from the one beside it, and likely goes on to the one on the other
    /// side: prefetch what it will look at there.
    #[inline]
    fn look_on(&mut self, back: bool) {
        self.walk.cross();
        let Some(next) = self.beside(back) else { return };
        if self.walk.is_long() {
            if let Some(start) = self.table.prefetch_block(next, self.lines_before_values()) {
                self.at.look_on(start, back);
            }
            return;
        }
        match self.walk.beyond(self.at.rows() - 1) {
            0 => {
                self.table.prefetch_block(next, 0);
            }
            rows => self.prefetch_rows(next, rows, back),
        }
    }

    /// The block to which a walk comes from this one. Forward there may be no block with that number.
    fn beside(&self, back: bool) -> Option<usize> {
        let block = self.block?;
        if back { block.checked_sub(1) } else { Some(block + 1) }
    }

    /// How many cache lines of the next block are prefetched up to its values: its columns and keys are likely about as long as here.
    fn lines_before_values(&self) -> usize {
        self.at.lines_before_values().min(LINES_AT_ONCE)
    }

    /// Prefetch block `block` up to its values, and those of the `rows` rows to which a walk comes first there.
    fn prefetch_rows(&self, block: usize, rows: u32, back: bool) {
        let (columns, values) = (self.lines_before_values(), self.at.lines_of_values(rows));
        if !back {
            self.table.prefetch_block(block, columns + values);
            return;
        }
        let Some(start) = self.table.prefetch_block(block, columns) else { return };
        // Where the block is compressed in the file, its end in memory is not known, and other lines are
        // prefetched.
        let len = self.table.index().stored_len(block).saturating_sub(TRAILER_BYTES);
        let end = start.wrapping_add(self.at.bytes_before() + len);
        for line in 0..=values {
            prefetch(end.wrapping_sub(64 * line));
        }
    }

    /// Step from the last row of a block to the next block's first, if that is in memory and has another key; whether it was done.
    ///
    /// [`next_block`](Self::next_block) would do it as well. But a merge and a scan that are told that the
    /// next row is here, as within a block, need not find out anew which source leads and what of each key
    /// is seen: without this, full scans took 1.3 times as long.
    #[inline(never)]
    fn cross_distinct(&mut self) -> bool {
        let Some(block) = self.block else { return false };
        let (next, index) = (block + 1, self.table.index());
        // A separator has a number where an older entry of its key follows.
        if next >= index.blocks() || index.seqno(block) != SeqNo::ZERO {
            return false;
        }
        // The rows from where the walk was put to the end of this block: this cursor, or a run, has passed
        // them.
        let passed = self.at.rows_behind_start();
        // The step that is then taken meets the failure again, and returns it.
        let fill = self.options.fill_cache;
        if !self.table.take_at_hand(next, fill, &mut self.cost, self.at.block_mut()).unwrap_or(false) {
            return false;
        }
        self.walk.pass(passed);
        self.begin(next);
        self.at.stand(0);
        self.look_on(false);
        true
    }

    /// The error of a cursor that failed; panics if it is merely nowhere.
    #[cold]
    fn nowhere(&self, step: &str) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => panic!("{step}() on a cursor that stands nowhere"),
        }
    }
}

impl Cursor for TableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.guarded(|cursor| {
            cursor.end_walk();
            cursor.cost.tables += 1;
            cursor.stand_first(0)
        })
    }

    fn seek_last(&mut self) -> Result<()> {
        self.guarded(|cursor| {
            cursor.end_walk();
            cursor.cost.tables += 1;
            cursor.stand_last(cursor.table.index().blocks().checked_sub(1))
        })
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.guarded(|cursor| {
            let block = cursor.approached(target);
            if block >= cursor.table.index().blocks() {
                cursor.at.invalidate();
                return Ok(());
            }
            cursor.enter(block)?;
            let row = cursor.at.lower_bound(target);
            cursor.stand(block, row)?;
            cursor.begin_walk();
            Ok(())
        })
    }

    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.guarded(|cursor| {
            let block = cursor.approached(target);
            let mut row = None;
            if block < cursor.table.index().blocks() {
                cursor.enter(block)?;
                row = cursor.at.lower_bound(target).checked_sub(1);
            }
            match row {
                Some(row) => cursor.at.stand(row),
                None => cursor.stand_last(block.checked_sub(1))?,
            }
            cursor.begin_walk();
            Ok(())
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if !self.at.valid() {
            return self.nowhere("next");
        }
        if self.walk.is_beginning() {
            self.set_out(false);
        }
        if self.at.next() {
            return Ok(());
        }
        self.next_block()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if !self.at.valid() {
            return self.nowhere("prev");
        }
        if self.walk.is_beginning() {
            self.set_out(true);
        }
        if self.at.prev() {
            return Ok(());
        }
        self.prev_block()
    }

    /// Step 0 finds the block, the same for both kinds of seek; step 1 prefetches its memory; step 2 enters
    /// it.
    fn approach(&mut self, target: InternalKey<'_>, step: u8) {
        match (step, self.aim) {
            (0, _) => {
                self.end_walk();
                self.aim = Some(self.find(target));
            }
            (1, Some(block)) if self.block != self.aim => {
                self.table.prefetch_block(block, 0);
            }
            (2, Some(block)) if block < self.table.index().blocks() => {
                // A failure is kept, and the seek returns it.
                let _kept = self.guarded(|cursor| {
                    cursor.at.invalidate();
                    cursor.enter(block)
                });
            }
            _ => {}
        }
    }

    #[inline(always)]
    fn next_distinct(&mut self) -> Option<Stepped<'_>> {
        if self.walk.is_beginning() {
            self.set_out(false);
        }
        if !self.at.is_last() {
            return self.at.next_distinct();
        }
        self.cross_distinct().then(|| self.at.entered())
    }

    #[inline(always)]
    fn prev_distinct(&mut self) -> Option<Stepped<'_>> {
        if self.walk.is_beginning() {
            self.set_out(true);
        }
        self.at.prev_distinct()
    }

    #[inline]
    fn known_row(&self, back: bool) -> Option<Stepped<'_>> {
        self.at.known_row(back)
    }

    #[inline]
    fn is_behind_distinct(&self) -> bool {
        self.at.is_behind_distinct()
    }

    #[inline]
    fn valid(&self) -> bool {
        self.at.valid()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.at.key()
    }

    #[inline]
    fn seqno(&self) -> SeqNo {
        self.at.seqno()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.at.kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.at.value()
    }

    #[inline]
    fn entry(&self) -> EntryView<'_> {
        self.at.entry()
    }

    fn drain_cost(&mut self, cost: &mut OpCost) {
        cost.add(&self.cost);
        self.cost = OpCost::default();
    }
}
