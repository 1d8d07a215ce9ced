//! Blob files that are to be collected, although nothing else asks for a compaction of the tables that refer to
//! them.
//!
//! Such a table is written anew where it is, with its neighbours of the kind, and the run writes the values anew.
//! Afterwards none of them refers to the collected files, so that collecting ends. Tables of level 0 are left out:
//! what they refer to was written by the same flush, and nothing of it has died.

use std::sync::Arc;

use esker_manifest::TableHandle;

use super::{Picker, Tables, bytes};
use crate::plan::{Plan, Reason};

impl Picker<'_> {
    /// The tables to write anew for the deadest blob file that running jobs leave free.
    pub(crate) fn values(&self) -> Option<Plan> {
        self.collect.iter().find_map(|&number| {
            let refers = |table: &TableHandle| {
                table.meta.blobs.binary_search_by_key(&number, |part| part.number).is_ok()
            };
            // Deep levels first: what is above may fall on top of it.
            let deepest = self.tree.deepest().unwrap_or(0);
            (1..=deepest).rev().find_map(|level| {
                let tables = self.level_tables(level);
                let wanted = |table: &TableHandle| refers(table) && !self.busy.uses(table.number());
                let starts = (0..tables.len()).filter(|&at| wanted(&tables[at]));
                starts.take(STARTS_MAX).find_map(|at| self.written_anew(level, &tables[at..]))
            })
        })
    }

    /// A plan for the first of `tables` of `level` and as many of those behind it as refer to collected files and
    /// fit a job.
    fn written_anew(&self, level: u8, tables: &[Arc<TableHandle>]) -> Option<Plan> {
        let mut run: Tables = Vec::new();
        let mut moved = 0u64;
        for table in tables {
            let parts = table.meta.blobs.iter().filter(|part| self.collect.contains(&part.number));
            let values = parts.map(|part| part.value_bytes).reduce(u64::saturating_add);
            let Some(values) = values else { break };
            let fits = bytes(&run) + table.meta.file_bytes + moved.saturating_add(values)
                <= self.settings.job_bytes_max;
            if self.busy.uses(table.number()) || !(fits || run.is_empty()) {
                break;
            }
            moved = moved.saturating_add(values);
            run.push(Arc::clone(table));
        }
        let (dead, all) = self.tree.blobs().iter().fold((0u64, 0u64), |(dead, all), blob| {
            (dead.saturating_add(blob.dead_bytes()), all.saturating_add(blob.handle.meta.value_bytes))
        });
        let reason = Reason::Values { dead, bytes: all };
        if run.is_empty() { None } else { self.plan(vec![(level, run)], level, reason) }
    }
}

/// How many tables of a level are tried that running jobs may be in the way of.
const STARTS_MAX: usize = 64;
