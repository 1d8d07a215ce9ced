//! Tables full of tombstones, or of versions that stand behind newer ones, whatever their level's size.
//!
//! The picked table goes down a level, taking along what its tombstones hide; where nothing lies below,
//! it is written anew and its tombstones vanish. Hidden versions vanish wherever it is written anew: one that is picked for
//! those alone stays where it is.
//!
//! Only tables whose every number is visible to every reader count: all their tombstones and hidden versions
//! can go, so each such plan brings tombstones closer to their end. The hidden versions that a merge keeps
//! stand behind a number that some reader does not see, so their table does not count. Cleaning up ends.
//!
//! While flushes follow one another, level 0 is left to its next merge, but for tables that are mostly
//! tombstones: merging those writes less than it removes.

use std::sync::Arc;

use esker_base::SeqNo;
use esker_base::table_meta::TableMeta;
use esker_manifest::TableHandle;

use super::{Picker, Tables, bytes};
use crate::plan::{Plan, Reason};
use crate::settings::Load;

impl Picker<'_> {
    /// The garbage that costs least to clean.
    pub(crate) fn garbage(&self, oldest_snapshot: SeqNo) -> Option<Plan> {
        let is_candidate = |table: &TableHandle| {
            table.meta.largest_seqno <= oldest_snapshot
                && is_garbage(&table.meta, self.settings.garbage_percent)
        };
        let mut candidates: Vec<(f64, u8, usize)> = Vec::new();
        for (level, content) in (0u8..).zip(&self.tree.levels) {
            let growing = level == 0 && self.load == Load::Flushing;
            for (index, table) in content.tables().iter().enumerate() {
                if !is_candidate(table) || growing && !is_mostly_tombstones(&table.meta) {
                    continue;
                }
                let to = match level {
                    0 => self.score.base_level,
                    _ if self.is_cleaned_in_place(level, table) => level,
                    _ => level + 1,
                };
                if !self.is_free(level, table, to) {
                    continue;
                }
                let ratio = if to == level { 0.0 } else { self.cost_ratio(to - 1, table) };
                candidates.push((ratio, level, index));
            }
        }
        // Of equal ones the deepest comes first: what lies above may come down onto it later.
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        candidates.into_iter().find_map(|(_, level, index)| self.clean(level, index, &is_candidate))
    }

    fn clean(&self, level: u8, index: usize, is_candidate: &impl Fn(&TableHandle) -> bool) -> Option<Plan> {
        let tables = self.level_tables(level);
        let table = &tables[index];
        let reason = garbage_reason(&table.meta);
        if level == 0 {
            return self.stack_down(&[index], reason);
        }
        if !self.is_cleaned_in_place(level, table) {
            return self.push_down(level, vec![Arc::clone(table)], reason);
        }
        // Neighbours of the same kind come along, so that the survivors share tables.
        let stays = |table: &TableHandle| {
            is_candidate(table)
                && self.is_cleaned_in_place(level, table)
                && self.is_free(level, table, level)
        };
        let mut run: Tables = Vec::new();
        for table in tables[index..].iter().take_while(|table| stays(table)) {
            if !run.is_empty() && bytes(&run) + table.meta.file_bytes > self.settings.job_bytes_max {
                break;
            }
            run.push(Arc::clone(table));
        }
        self.plan(vec![(level, run)], level, reason)
    }

    /// Whether the garbage of a table below level 0 vanishes where it stands: nothing lies below that its tombstones would have
    /// to go to, or it is garbage for its hidden versions alone.
    fn is_cleaned_in_place(&self, level: u8, table: &TableHandle) -> bool {
        !has_dense_tombstones(&table.meta, self.settings.garbage_percent)
            || !self.tree.overlaps_below(level, &table.meta.bounds)
    }
}

/// Whether a table is dense with tombstones and hidden versions. A tombstone that is hidden counts as both.
fn is_garbage(meta: &TableMeta, percent: u8) -> bool {
    let garbage = meta.point_tombstones.saturating_add(meta.hidden_versions);
    meta.range_tombstones > 0 || is_dense(garbage, meta, percent)
}

fn has_dense_tombstones(meta: &TableMeta, percent: u8) -> bool {
    meta.range_tombstones > 0 || is_dense(meta.point_tombstones, meta, percent)
}

fn is_dense(garbage: u64, meta: &TableMeta, percent: u8) -> bool {
    garbage > 0 && u128::from(garbage) * 100 >= u128::from(meta.entries) * u128::from(percent)
}

fn is_mostly_tombstones(meta: &TableMeta) -> bool {
    meta.point_tombstones > meta.entries / 2
}

fn garbage_reason(meta: &TableMeta) -> Reason {
    Reason::Garbage {
        tombstones: meta.point_tombstones,
        hidden_versions: meta.hidden_versions,
        range_tombstones: meta.range_tombstones,
        entries: meta.entries,
    }
}
