//! Blob files that are to be collected, although nothing else asks for a compaction of the tables that refer to
//! them.
//!
//! Such a table is written anew where it is, with its neighbours of the kind, and the run writes the values anew.
//! Afterwards none of them refers to the collected files, so that collecting ends. Tables of level 0 are left out:
//! what they refer to was written by the same flush, and nothing of it has died.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use esker_base::FileNumber;
use esker_manifest::TableHandle;

use super::{Picker, Tables, bytes};
use crate::plan::{Plan, Reason};

impl Picker<'_> {
    /// The blob files whose values `plan` writes anew, ascending by number: of those to be collected the
    /// deadest, and then the small ones that its tables refer to, so that flushes with a few long values
    /// each do not leave a file each behind for ever. As many of both are taken as have no more live bytes
    /// in these tables than a job may have.
    pub(super) fn collected_by(&self, plan: &Plan) -> Arc<[FileNumber]> {
        let mut live: BTreeMap<FileNumber, u64> = BTreeMap::new();
        for part in plan.tables().flat_map(|(_, table)| &table.meta.blobs) {
            let bytes = live.entry(part.number).or_default();
            *bytes = bytes.saturating_add(part.value_bytes);
        }
        let mut room = self.settings.job_bytes_max;
        let mut chosen = Vec::new();
        for number in &self.collect {
            let Some(bytes) = live.remove(number) else { continue };
            // A plan that is made for the sake of blob files collects at least one.
            let needed = chosen.is_empty() && matches!(plan.reason, Reason::Values { .. });
            match room.checked_sub(bytes) {
                Some(left) => room = left,
                None if needed => room = 0,
                None => break,
            }
            chosen.push(*number);
        }
        let small_max = self.settings.table_bytes / SMALL_PARTS;
        let blobs = plan.blobs();
        let small: Vec<u64> = blobs
            .iter()
            .filter(|blob| blob.meta.file_bytes < small_max)
            .filter_map(|blob| live.get(&blob.number()).copied())
            .collect();
        if small.len() > 1 {
            for blob in blobs.iter().filter(|blob| blob.meta.file_bytes < small_max) {
                let Some(left) = live.get(&blob.number()).and_then(|bytes| room.checked_sub(*bytes)) else {
                    continue;
                };
                room = left;
                chosen.push(blob.number());
            }
        }
        chosen.sort_unstable();
        chosen.into()
    }

    /// The tables to write anew for the deadest blob file that running jobs leave free.
    pub(crate) fn values(&self) -> Option<Plan> {
        self.collect.iter().find_map(|&number| {
            let refers = |table: &TableHandle| {
                table.meta.blobs.binary_search_by_key(&number, |part| part.number).is_ok()
            };
            // Deep levels first: what lies above may come down onto them later.
            let deepest = self.tree.deepest().unwrap_or(0);
            (1..=deepest).rev().find_map(|level| {
                let tables = self.level_tables(level);
                let wanted = |table: &TableHandle| refers(table) && self.is_free(level, table, level);
                let starts = (0..tables.len()).filter(|&at| wanted(&tables[at]));
                starts.take(STARTS_MAX).find_map(|at| self.written_anew(level, &tables[at..]))
            })
        })
    }

    /// A plan for the first of `tables` of `level` and as many of those behind it as refer to collected files and
    /// fit a job.
    fn written_anew(&self, level: u8, tables: &[Arc<TableHandle>]) -> Option<Plan> {
        let collect: HashSet<FileNumber> = self.collect.iter().copied().collect();
        let mut run: Tables = Vec::new();
        let mut moved = 0u64;
        for table in tables {
            let parts = table.meta.blobs.iter().filter(|part| collect.contains(&part.number));
            let values = parts.map(|part| part.value_bytes).reduce(u64::saturating_add);
            let Some(values) = values else { break };
            let all = bytes(&run).saturating_add(table.meta.file_bytes).saturating_add(moved);
            let fits = all.saturating_add(values) <= self.settings.job_bytes_max;
            if !self.is_free(level, table, level) || !(fits || run.is_empty()) {
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

/// A blob file is small if it is shorter than a table's size divided by this.
const SMALL_PARTS: u64 = 16;

/// How many tables of a level are tried that running jobs may be in the way of.
const STARTS_MAX: usize = 64;
