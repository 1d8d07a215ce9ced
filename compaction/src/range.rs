//! What to compact next for a caller who wants a key range compacted, garbage and all.
//!
//! One plan at a time, each asked for after the one before is installed: first every level that overlaps
//! the range is brought down into the deepest such level, from the top; then tables of that level are
//! written anew if anything in them can be made smaller: tombstones, operands, hidden versions. A table
//! whose numbers are all zero has none of these.

use std::sync::Arc;

use esker_base::table_meta::KeyBounds;
use esker_base::{FileNumber, KeyspaceId};
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
    /// Tables of the deepest level with this number or a greater one are new and stay as they are: a
    /// file number allocated when the request begins. It makes the request end even while snapshots pin
    /// garbage.
    pub before: FileNumber,
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
}

/// The next step of compacting a range. Flushes should be done first: this sees tables only.
pub fn plan_range(
    tree: &Tree,
    keyspace: KeyspaceId,
    settings: &Settings,
    busy: &Busy,
    request: &RangeRequest,
) -> RangeStep {
    // A caller's range does not wait for anything to rest.
    let load = Load::Rested;
    let score = score(tree, settings, load);
    let picker = Picker::new(tree, keyspace, settings, busy, load, &score);
    let overlapping = |level: u8| -> Vec<Arc<TableHandle>> {
        let tables = picker.level_tables(level).iter();
        tables.filter(|table| request.overlaps(&table.meta.bounds)).cloned().collect()
    };
    let levels: Vec<u8> =
        (0u8..).take(tree.levels.len()).filter(|&level| !overlapping(level).is_empty()).collect();
    let (Some(&top), Some(&deepest)) = (levels.first(), levels.last()) else { return RangeStep::Done };
    let plan = if top == 0 {
        picker.level0_within(&overlapping(0))
    } else if top < deepest {
        picker.push_down(top, within_job(overlapping(top), settings), Reason::Asked)
    } else {
        let dirty = run_of_dirty(overlapping(deepest), request, settings);
        if dirty.is_empty() {
            return RangeStep::Done;
        }
        picker.plan(vec![(deepest, dirty)], deepest, Reason::Asked)
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
    request: &RangeRequest,
    settings: &Settings,
) -> Vec<Arc<TableHandle>> {
    let is_dirty = |table: &Arc<TableHandle>| {
        let meta = &table.meta;
        let shrinkable = meta.point_tombstones + meta.range_tombstones + meta.merge_operands > 0;
        meta.number < request.before && (shrinkable || meta.largest_seqno.0 > 0)
    };
    let mut run: Vec<Arc<TableHandle>> = Vec::new();
    for table in tables.into_iter().skip_while(|table| !is_dirty(table)).take_while(|t| is_dirty(t)) {
        if !run.is_empty() && bytes(&run) + table.meta.file_bytes > settings.job_bytes_max {
            break;
        }
        run.push(table);
    }
    run
}
