//! A sorted run as one cursor: its tables do not overlap, so at most one of them is open at a time, and a
//! table is opened only when the walk reaches it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use esker_base::blob::BlobPointer;
use esker_base::bounds::Bounds;
use esker_base::cursor::{EntryView, Stepped};
use esker_base::{Cursor, Error, InternalKey, Kind, OpCost, Result, SeqNo};
use esker_manifest::SortedRun;
use esker_sstable::{BlobReader, CursorOptions, TableCursor};

use crate::scan_view::ScanView;

/// See the module.
pub(crate) struct RunCursor {
    /// Has the run.
    view: Arc<ScanView>,
    level: usize,
    index: usize,
    /// The run's tables that are walked over.
    range: Range<usize>,
    /// What the scan asks for; see [`TableCursor::serving`].
    bounds: Arc<Bounds>,
    /// The table that `cursor` walks over.
    at: usize,
    /// The table that a seek will need, which was approached.
    aim: Option<usize>,
    /// Moved from table to table, so that its buffers are made once. `None` before the first seek and after
    /// a failure; standing nowhere where the run's end was passed.
    cursor: Option<TableCursor>,
    failed: Option<Error>,
    /// Tables entered since the cost was last drained.
    tables: u64,
}

/// Where in a view's tree a run lies.
#[derive(Clone, Copy)]
pub(crate) struct RunPlace<'a> {
    pub(crate) view: &'a Arc<ScanView>,
    pub(crate) level: usize,
    /// Which of the level's runs it is.
    pub(crate) index: usize,
}

impl RunCursor {
    /// A cursor over the tables `range` of the run at `place`, for a scan of `bounds`.
    pub(crate) fn new(place: RunPlace<'_>, range: Range<usize>, bounds: Arc<Bounds>) -> Self {
        let RunPlace { view, level, index } = place;
        let cursor = RunCursor {
            view: Arc::clone(view),
            level,
            index,
            at: range.end,
            aim: None,
            range,
            bounds,
            cursor: None,
            failed: None,
            tables: 0,
        };
        assert!(cursor.range.end <= cursor.run().tables().len(), "tables of the run");
        cursor
    }

    #[inline]
    fn run(&self) -> &SortedRun {
        &self.view.tree.levels[self.level].runs()[self.index]
    }

    /// As [`TableCursor::keep`], from where it stands on.
    pub(crate) fn keep(&mut self, keeps: bool) {
        if let Some(cursor) = &mut self.cursor {
            cursor.keep(keeps);
        }
    }

    /// The table's cursor, if it is in one.
    #[inline]
    pub(crate) fn table(&mut self) -> Option<&mut TableCursor> {
        self.cursor.as_mut()
    }

    /// The file of the table that it walks over.
    pub(crate) fn path(&self) -> PathBuf {
        let table = self.run().tables().get(self.at).and_then(|table| table.reader().ok());
        table.map_or_else(PathBuf::new, |reader| reader.path().to_path_buf())
    }

    /// The blob file that the entry it stands on refers to with `pointer`.
    pub(crate) fn blob(&self, pointer: &BlobPointer) -> Result<&Arc<BlobReader>> {
        self.run().tables()[self.at].blob(pointer)
    }

    /// The first table that may reach `target`.
    fn first_reaching(&self, target: InternalKey<'_>) -> usize {
        self.run().first_reaching(target.user).max(self.range.start)
    }

    /// The last table that begins at or before `target`. Where there is none, the range's end names none.
    fn last_begun(&self, target: InternalKey<'_>) -> usize {
        let at = self.run().last_begun(target.user).filter(|at| *at >= self.range.start);
        at.map_or(self.range.end, |at| at.min(self.range.end - 1))
    }

    /// Go to table `at`, in which a seek will begin; whether there is one.
    fn aim_at(&mut self, at: usize) -> bool {
        // A failure is kept, and the seek tells it.
        let entered = self.guard(|run| run.enter(at));
        self.aim = entered.is_ok().then_some(at);
        entered.is_ok_and(|is_there| is_there)
    }

    /// Go to table `at` without standing anywhere in it yet; false, standing nowhere, if there is none.
    fn enter(&mut self, at: usize) -> Result<bool> {
        if !self.range.contains(&at) {
            if let Some(cursor) = &mut self.cursor {
                cursor.leave();
            }
            return Ok(false);
        }
        if at == self.at && self.cursor.is_some() {
            return Ok(true);
        }
        self.tables += 1;
        let view = &self.view;
        let reader = view.tree.levels[self.level].runs()[self.index].tables()[at].reader()?;
        match &mut self.cursor {
            Some(cursor) => cursor.move_to(reader),
            none => {
                let options = CursorOptions { fill_cache: view.fill_cache, readahead: false };
                *none = Some(reader.cursor(options).serving(&self.bounds, view.read_seqno));
            }
        }
        self.at = at;
        Ok(true)
    }

    /// Run `step` unless an earlier one failed; remember a failure.
    fn guard<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        step(self).inspect_err(|error| {
            self.failed = Some(error.clone());
            self.cursor = None;
        })
    }

    /// Go to table `at`, if there is one, and `stand` in it; the walk goes on forward from there until it
    /// stands on something.
    fn forward_from(
        &mut self,
        at: usize,
        stand: impl FnOnce(&mut TableCursor) -> Result<()>,
    ) -> Result<()> {
        if !self.enter(at)? {
            return Ok(());
        }
        stand(self.here_mut())?;
        while !self.valid() && self.enter(self.at + 1)? {
            self.here_mut().seek_first()?;
        }
        Ok(())
    }

    /// The same backwards.
    fn backward_from(
        &mut self,
        at: Option<usize>,
        stand: impl FnOnce(&mut TableCursor) -> Result<()>,
    ) -> Result<()> {
        // Where there is no table before, the range's end names none.
        if !self.enter(at.unwrap_or(self.range.end))? {
            return Ok(());
        }
        stand(self.here_mut())?;
        while !self.valid() && self.enter(self.at.checked_sub(1).unwrap_or(self.range.end))? {
            self.here_mut().seek_last()?;
        }
        Ok(())
    }

    #[inline]
    fn here(&self) -> &TableCursor {
        self.cursor.as_ref().expect("the cursor is in a table")
    }

    #[inline]
    fn here_mut(&mut self) -> &mut TableCursor {
        self.cursor.as_mut().expect("the cursor is in a table")
    }
}

impl Cursor for RunCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.guard(|run| run.forward_from(run.range.start, TableCursor::seek_first))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.guard(|run| run.backward_from(run.range.end.checked_sub(1), TableCursor::seek_last))
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.guard(|run| {
            let at = run.aim.take().unwrap_or_else(|| run.first_reaching(target));
            debug_assert_eq!(at, run.first_reaching(target), "another target was approached");
            run.forward_from(at, |cursor| cursor.seek(target))
        })
    }

    fn seek_before(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.guard(|run| {
            let at = run.aim.take().unwrap_or_else(|| run.last_begun(target));
            debug_assert_eq!(at, run.last_begun(target), "another target was approached");
            run.backward_from(Some(at), |cursor| cursor.seek_before(target))
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
        self.guard(|run| run.forward_from(run.at + 1, TableCursor::seek_first))
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if let Some(cursor) = &mut self.cursor {
            cursor.prev().inspect_err(|error| self.failed = Some(error.clone()))?;
            if cursor.valid() {
                return Ok(());
            }
        }
        self.guard(|run| run.backward_from(run.at.checked_sub(1), TableCursor::seek_last))
    }

    fn approach(&mut self, target: InternalKey<'_>, step: u8) {
        if step == 0 && !self.aim_at(self.first_reaching(target)) {
            return;
        }
        if let Some(cursor) = &mut self.cursor {
            cursor.approach(target, step);
        }
    }

    fn approach_before(&mut self, target: InternalKey<'_>, step: u8) {
        if step == 0 && !self.aim_at(self.last_begun(target)) {
            return;
        }
        if let Some(cursor) = &mut self.cursor {
            cursor.approach_before(target, step);
        }
    }

    #[inline(always)]
    fn next_distinct(&mut self) -> Option<Stepped<'_>> {
        self.cursor.as_mut()?.next_distinct()
    }
    #[inline(always)]
    fn prev_distinct(&mut self) -> Option<Stepped<'_>> {
        self.cursor.as_mut()?.prev_distinct()
    }
    #[inline]
    fn known_row(&self, back: bool) -> Option<Stepped<'_>> {
        self.cursor.as_ref()?.known_row(back)
    }
    #[inline]
    fn is_behind_distinct(&self) -> bool {
        self.cursor.as_ref().is_some_and(Cursor::is_behind_distinct)
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
    #[inline]
    fn entry(&self) -> EntryView<'_> {
        self.here().entry()
    }

    fn drain_cost(&mut self, cost: &mut OpCost) {
        cost.tables += std::mem::take(&mut self.tables);
        if let Some(cursor) = &mut self.cursor {
            cursor.drain_cost(cost);
        }
    }
}
