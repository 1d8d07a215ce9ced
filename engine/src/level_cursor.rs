//! A whole level (one below level 0) as one cursor: its tables do not overlap, so at most one of them
//! is open at a time, and a table is opened only when the walk reaches it.

use std::ops::Range;
use std::sync::Arc;

use esker_base::{Cursor, Error, InternalKey, Kind, OpCost, Result, SeqNo};
use esker_manifest::{TableHandle, Tree};
use esker_sstable::{CursorOptions, TableCursor};

/// See the module.
pub(crate) struct LevelCursor {
    /// The tables are a piece of this tree's level: no reference to each is counted.
    tree: Arc<Tree>,
    level: usize,
    range: Range<usize>,
    options: CursorOptions,
    /// The table the cursor is in; `tables().len()` if in none.
    at: usize,
    cursor: Option<TableCursor>,
    failed: Option<Error>,
    /// Costs of tables the walk has left.
    cost: OpCost,
}

impl LevelCursor {
    /// A cursor over the tables `range` of `level` (not 0).
    pub(crate) fn new(tree: Arc<Tree>, level: usize, range: Range<usize>, options: CursorOptions) -> Self {
        assert!(level > 0 && range.end <= tree.levels[level].len(), "tables of a level below 0");
        let at = range.len();
        LevelCursor { tree, level, range, options, at, cursor: None, failed: None, cost: OpCost::default() }
    }

    fn tables(&self) -> &[Arc<TableHandle>] {
        &self.tree.levels[self.level].tables()[self.range.clone()]
    }

    /// Go to table `at` (which may be past the end) without standing anywhere in it yet.
    fn enter(&mut self, at: usize) -> Result<()> {
        if at == self.at && self.cursor.is_some() {
            return Ok(());
        }
        if let Some(mut left) = self.cursor.take() {
            left.drain_cost(&mut self.cost);
        }
        self.at = at;
        if let Some(table) = self.tables().get(at) {
            let cursor = table.reader()?.cursor(self.options);
            self.cost.tables += 1;
            self.cursor = Some(cursor);
        }
        Ok(())
    }

    /// Run `step` unless an earlier one failed; remember a failure.
    fn guard(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        step(self).inspect_err(|error| {
            self.failed = Some(error.clone());
            self.cursor = None;
        })
    }

    /// While the current table has nothing (left), stand on the first entry of the next one.
    fn skip_forward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|c| !c.valid()) {
            self.enter(self.at + 1)?;
            if let Some(cursor) = &mut self.cursor {
                cursor.seek_first()?;
            }
        }
        Ok(())
    }

    /// While the current table has nothing (left), stand on the last entry of the one before.
    fn skip_backward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|c| !c.valid()) {
            let Some(before) = self.at.checked_sub(1) else {
                return self.enter(self.tables().len());
            };
            self.enter(before)?;
            if let Some(cursor) = &mut self.cursor {
                cursor.seek_last()?;
            }
        }
        Ok(())
    }

    fn here(&self) -> &TableCursor {
        self.cursor.as_ref().expect("the cursor stands on an entry")
    }
}

impl Cursor for LevelCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.guard(|level| {
            level.enter(0)?;
            if let Some(cursor) = &mut level.cursor {
                cursor.seek_first()?;
            }
            level.skip_forward()
        })
    }

    fn seek_last(&mut self) -> Result<()> {
        self.guard(|level| {
            let Some(last) = level.tables().len().checked_sub(1) else { return Ok(()) };
            level.enter(last)?;
            if let Some(cursor) = &mut level.cursor {
                cursor.seek_last()?;
            }
            level.skip_backward()
        })
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.guard(|level| {
            let at = level.tables().partition_point(|t| t.meta.bounds.ends_before(target.user));
            level.enter(at)?;
            if let Some(cursor) = &mut level.cursor {
                cursor.seek(target)?;
            }
            level.skip_forward()
        })
    }

    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.guard(|level| {
            // The last table that may hold something before the target.
            let after =
                level.tables().partition_point(|t| t.meta.bounds.smallest.as_slice() <= target.user);
            let Some(at) = after.checked_sub(1) else { return level.enter(level.tables().len()) };
            level.enter(at)?;
            if let Some(cursor) = &mut level.cursor {
                cursor.seek_before(target)?;
            }
            level.skip_backward()
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.cursor {
            cursor.next().inspect_err(|error| self.failed = Some(error.clone()))?;
            if cursor.valid() {
                return Ok(());
            }
        }
        self.guard(LevelCursor::skip_forward)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.cursor {
            cursor.prev().inspect_err(|error| self.failed = Some(error.clone()))?;
            if cursor.valid() {
                return Ok(());
            }
        }
        self.guard(LevelCursor::skip_backward)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.cursor.as_ref().is_some_and(Cursor::valid)
    }
    #[inline]
    fn key(&self) -> &[u8] {
        self.here().key()
    }
    #[inline]
    fn seqno(&self) -> SeqNo {
        self.here().seqno()
    }
    #[inline]
    fn kind(&self) -> Kind {
        self.here().kind()
    }
    #[inline]
    fn value(&self) -> &[u8] {
        self.here().value()
    }

    fn drain_cost(&mut self, cost: &mut OpCost) {
        cost.add(&std::mem::take(&mut self.cost));
        if let Some(cursor) = &mut self.cursor {
            cursor.drain_cost(cost);
        }
    }
}
