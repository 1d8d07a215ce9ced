//! What to compact next for a caller who wants a key range compacted, garbage and all.
//!
//! One plan at a time, each asked for after the one before is installed: first what was in the range when the request began
//! is brought down, level by level from the top, into the deepest level that overlaps it; then tables of that level are
//! written anew if anything in them can be made smaller: tombstones, operands, hidden versions. A table
//! whose numbers are all zero has none of these. What was written since the request began is written anew last, and once, on
//! whichever level it lies, if what it keeps is of no use any more: a job that was running then may have kept it for a snapshot
//! that is gone, or one for rows below that another job has brought to nothing.

use std::sync::Arc;

use esker_base::table_meta::{KeyBounds, TableMeta};
use esker_base::{FileNumber, KeyspaceId, SeqNo};
use esker_manifest::{TableHandle, Tree};

use crate::busy::Busy;
use crate::pick::{Picker, bytes};
use crate::plan::{Plan, Reason};
use crate::score::score;
use crate::settings::{Load, Settings};

/// What the caller asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRequest {
    /// The first key.
    pub start: Vec<u8>,
    /// The first key behind the range; `None` for no end.
    pub end: Option<Vec<u8>>,
    /// Tables with this number or a greater one are new and are not written anew where they lie: a
    /// file number allocated when the request begins. It makes the request end even while snapshots pin
    /// garbage.
    pub before: FileNumber,
    /// Of those new tables, the ones with a smaller number than this are written anew all the same if all
    /// they hold is at or before `oldest` and nothing lies below them. 0 at first; a file number allocated
    /// when [`RangeStep::Done`] has come for the first time.
    pub again: FileNumber,
    /// The oldest sequence number that anybody reads at when the request begins.
    pub oldest: SeqNo,
    /// The newest sequence number when the request begins. What is written later need not be compacted, so
    /// that the request ends even while somebody goes on writing into the range.
    pub upto: SeqNo,
}

/// What comes next.
#[derive(Clone, Debug)]
pub enum RangeStep {
    /// Carry this out, then ask again.
    Run(Box<Plan>),
    /// Running jobs are in the way: ask again when one has ended.
    Wait,
    /// The range is compacted.
    Done,
}

impl RangeRequest {
    fn overlaps(&self, bounds: &KeyBounds) -> bool {
        let ends_before_start = bounds.ends_before(&self.start);
        let starts_behind = self.end.as_ref().is_some_and(|end| bounds.smallest >= *end);
        !ends_before_start && !starts_behind
    }

    /// Whether a table that does not lie in the deepest level may hold what is to be brought there. `lies_on` says whether
    /// it lies on any other: a row whose number became zero may be one of the time before or one written since, and where
    /// nothing is below its table it is where it is meant to be, either way.
    fn asks_for(&self, meta: &TableMeta, lies_on: impl FnOnce() -> bool) -> bool {
        meta.number < self.before
            || meta.smallest_seqno <= self.upto && (meta.smallest_seqno > SeqNo::ZERO || lies_on())
    }

    /// Whether a table of `level` that is not to be brought down is to be written anew where it lies: it can be made smaller,
    /// as far as anybody knows.
    fn is_dirty(&self, meta: &TableMeta, tree: &Tree, level: u8) -> bool {
        let shrinkable = meta.point_tombstones + meta.range_tombstones + meta.merge_operands > 0
            || meta.largest_seqno > SeqNo::ZERO;
        let in_vain = || meta.largest_seqno > self.oldest || tree.overlaps_below(level, &meta.bounds);
        shrinkable && (meta.number < self.before || meta.number < self.again && !in_vain())
    }
}

/// The next step of compacting a range. Flushes should be done first: this sees tables only.
pub fn plan_range(
    tree: &Tree,
    keyspace: KeyspaceId,
    settings: &Settings,
    busy: &Busy,
    request: &RangeRequest,
) -> RangeStep {
    // What a caller asked for does not wait until flushes pause.
    let load = Load::Rested;
    let score = score(tree, settings, load);
    let picker = Picker::new(tree, keyspace, settings, busy, load, &score);
    let overlapping = |level: u8| -> Vec<Arc<TableHandle>> {
        let tables = picker.level_tables(level).iter();
        tables.filter(|table| request.overlaps(&table.meta.bounds)).cloned().collect()
    };
    let levels: Vec<u8> =
        (0u8..).take(tree.levels.len()).filter(|&level| !overlapping(level).is_empty()).collect();
    let Some(&deepest) = levels.last() else { return RangeStep::Done };
    let is_asked_for = |level: u8, table: &Arc<TableHandle>| {
        request.asks_for(&table.meta, || tree.overlaps_below(level, &table.meta.bounds))
    };
    // Neighbours only: what lies between two tables of one job is work for that job too.
    let first_asked_for = |level: u8| -> Vec<Arc<TableHandle>> {
        let tables = overlapping(level).into_iter().skip_while(|table| !is_asked_for(level, table));
        tables.take_while(|table| level == 0 || is_asked_for(level, table)).collect()
    };
    let above = levels.iter().copied().take_while(|level| *level < deepest.max(1));
    let top = above.map(|level| (level, first_asked_for(level))).find(|(_, tables)| !tables.is_empty());
    let plan = if let Some((0, tables)) = &top {
        picker.level0_within(tables)
    } else if let Some((level, tables)) = top {
        picker.push_down(level, within_job(tables, settings), Reason::Asked)
    } else {
        let dirty_of = |level: u8| {
            let is_dirty = |table: &TableHandle| request.is_dirty(&table.meta, tree, level);
            run_of_dirty(overlapping(level), is_dirty, settings)
        };
        let sorted = levels.into_iter().filter(|level| *level > 0);
        let dirty = sorted.map(|level| (level, dirty_of(level))).find(|(_, tables)| !tables.is_empty());
        let Some((level, tables)) = dirty else { return RangeStep::Done };
        picker.plan(vec![(level, tables)], level, Reason::Asked)
    };
    plan.map_or(RangeStep::Wait, |plan| RangeStep::Run(Box::new(plan)))
}

impl Picker<'_> {
    /// Bring down the newest of these level-0 tables, with everything it lies on.
    fn level0_within(&self, tables: &[Arc<TableHandle>]) -> Option<Plan> {
        let level0 = self.level_tables(0);
        let position = |table: &Arc<TableHandle>| level0.iter().position(|t| t.number() == table.number());
        let newest = tables.iter().find_map(position)?;
        self.stack_down(&[newest], Reason::Asked)
    }
}

/// The first tables, as many as one job takes.
fn within_job(tables: Vec<Arc<TableHandle>>, settings: &Settings) -> Vec<Arc<TableHandle>> {
    let mut chosen: Vec<Arc<TableHandle>> = Vec::new();
    for table in tables {
        // With what they overlap below, tables grow by the fanout.
        let weight = table.meta.file_bytes.saturating_mul(settings.fanout + 1);
        if !chosen.is_empty()
            && bytes(&chosen).saturating_mul(settings.fanout + 1) + weight > settings.job_bytes_max
        {
            break;
        }
        chosen.push(table);
    }
    chosen
}

/// The first run of neighbours that can be made smaller, as many as one job takes.
fn run_of_dirty(
    tables: Vec<Arc<TableHandle>>,
    is_dirty: impl Fn(&TableHandle) -> bool,
    settings: &Settings,
) -> Vec<Arc<TableHandle>> {
    let mut run: Vec<Arc<TableHandle>> = Vec::new();
    for table in tables.into_iter().skip_while(|table| !is_dirty(table)).take_while(|t| is_dirty(t)) {
        if !run.is_empty() && bytes(&run) + table.meta.file_bytes > settings.job_bytes_max {
            break;
        }
        run.push(table);
    }
    run
}
