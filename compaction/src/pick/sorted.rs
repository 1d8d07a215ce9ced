//! A level beyond its target into the next.

use std::sync::Arc;

use esker_manifest::TableHandle;

use super::{MOVED_TABLES_MAX, Picker, Tables, bytes};
use crate::plan::{Plan, Reason};

impl Picker<'_> {
    /// Move tables that overlap nothing; else merge the table that costs least for what it brings. `None`
    /// if what running jobs take away is enough.
    pub(crate) fn sorted_level(&self, level: u8) -> Option<Plan> {
        let (whole, target) =
            (self.tree.levels[usize::from(level)].bytes(), self.score.targets[usize::from(level)]);
        let leaving = |table: &&Arc<TableHandle>| self.busy.uses(table.number());
        let tables = self.level_tables(level).iter();
        let left = whole - tables.filter(leaving).map(|table| table.meta.file_bytes).sum::<u64>();
        let (reason, excess) = if whole >= target {
            (Reason::Full { level, bytes: whole, target }, left.checked_sub(target)?)
        } else {
            (Reason::Unneeded { level }, left)
        };
        if let Some(plan) = self.loose_tables(level, excess, reason) {
            return Some(plan);
        }
        let mut candidates: Vec<(f64, &Arc<TableHandle>)> = self
            .level_tables(level)
            .iter()
            .filter(|table| self.is_free(level, table, level + 1))
            .map(|table| (self.cost_ratio(level, table), table))
            .collect();
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.number().cmp(&b.1.number())));
        candidates.into_iter().find_map(|(_, table)| self.push_down(level, vec![Arc::clone(table)], reason))
    }

    /// Tables that overlap nothing in the next level: as many as bring this one into size, moved at once.
    fn loose_tables(&self, level: u8, excess: u64, reason: Reason) -> Option<Plan> {
        let mut moved: Tables = Vec::new();
        for table in self.level_tables(level) {
            if moved.len() >= MOVED_TABLES_MAX || (!moved.is_empty() && bytes(&moved) >= excess) {
                break;
            }
            let loose = self.overlapping(level + 1, &table.meta.bounds).is_empty()
                && self.is_free(level, table, level + 1)
                && self.may_move(level + 1, table);
            if loose {
                moved.push(Arc::clone(table));
            }
        }
        self.move_apart(level, moved, level + 1, reason)
    }

    /// Bytes of the next level to be rewritten for each byte that leaves this one for good. A tombstone
    /// takes the entry it hides along, so it counts as one of those.
    pub(super) fn cost_ratio(&self, level: u8, table: &TableHandle) -> f64 {
        let lower = self.overlapping(level + 1, &table.meta.bounds);
        let overlap = bytes(&lower);
        let entries: u64 = lower.iter().map(|table| table.meta.entries).sum();
        let entry_bytes = overlap as f64 / entries.max(1) as f64;
        let hidden = table.meta.point_tombstones as f64 * entry_bytes;
        // How much a range tombstone hides cannot be told from here: half of what it may is a guess.
        let range_hidden = if table.meta.range_tombstones > 0 { overlap as f64 / 2.0 } else { 0.0 };
        let credit = (hidden + range_hidden).min(overlap as f64);
        overlap as f64 / (table.meta.file_bytes as f64 + credit).max(1.0)
    }
}
