//! What compactions do without where a disk is nearly full.
//!
//! A job keeps its inputs until all of its outputs are in their place, so that a full disk may still have room for small ones,
//! and those that clean up leave it more. After each job that found no space the next may take on half as much, and after each
//! that found some twice as much. Cleaning up, which nobody waits for, would fill the disk again and again: where jobs are as
//! small as they get, it is put off until the tree is another.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use esker_base::KeyspaceId;
use esker_compaction::{Plan, Reason, Settings};
use esker_manifest::Tree;

/// See the module.
#[derive(Debug)]
pub(super) struct Shortage {
    /// What a job may take on beyond what it must, in bytes, if that is less than the settings allow.
    job_bytes_max: u64,
    /// The trees that are not cleaned up. A version of a tree is one object for as long as anybody refers to it.
    put_off: BTreeMap<KeyspaceId, Weak<Tree>>,
}

impl Default for Shortage {
    fn default() -> Self {
        Shortage { job_bytes_max: u64::MAX, put_off: BTreeMap::new() }
    }
}

impl Shortage {
    /// Make jobs as small as they have to be.
    pub(super) fn limit(&self, settings: &mut Settings) {
        settings.job_bytes_max = self.job_bytes_max.clamp(settings.table_bytes, settings.job_bytes_max);
    }

    /// Whether `tree` may be cleaned up.
    pub(super) fn may_clean_up(&self, keyspace: KeyspaceId, tree: &Arc<Tree>) -> bool {
        self.put_off.get(&keyspace).is_none_or(|refused| !std::ptr::eq(refused.as_ptr(), Arc::as_ptr(tree)))
    }

    /// A job has found the space it needed.
    pub(super) fn found_space(&mut self) {
        self.job_bytes_max = self.job_bytes_max.saturating_mul(2);
    }

    /// The job of `plan` has found no space. Whether it is left alone: it was to clean up, and jobs of tables of `table_bytes`
    /// get no smaller. `tree` is the keyspace's now.
    pub(super) fn found_none(&mut self, plan: &Plan, tree: Option<&Arc<Tree>>, table_bytes: u64) -> bool {
        let bytes = plan.tables().map(|(_, table)| table.meta.file_bytes).sum();
        // Where this is the first, the space of logs that are kept for later is given up, too.
        let are_smallest = self.job_bytes_max <= table_bytes;
        self.job_bytes_max = (self.job_bytes_max.min(bytes) / 2).max(table_bytes);
        if !are_smallest || !matches!(plan.reason, Reason::Garbage { .. } | Reason::Values { .. }) {
            return false;
        }
        self.put_off.retain(|_, refused| refused.strong_count() > 0);
        if let Some(tree) = tree {
            self.put_off.insert(plan.keyspace, Arc::downgrade(tree));
        }
        true
    }
}
