//! What a database's figures are gathered from.

use std::iter;

use esker_base::ledger::PURPOSES;
use esker_manifest::{Level, Tree};

use crate::core::Core;
use crate::metrics::{BlobMetrics, DatabaseMetrics, KeyspaceMetrics, LevelMetrics};

impl Core {
    /// What [`Database::metrics`](crate::Database::metrics) returns.
    pub(crate) fn database_metrics(&self) -> DatabaseMetrics {
        let current = self.current.load_full();
        let (log_bytes, log_memory) = {
            // No log is closed meanwhile: its bytes would count twice, or not at all.
            let state = self.commits.lock();
            let (written, memory) = state.log.as_ref().map_or((0, 0), |log| (log.written(), log.memory()));
            (self.metrics.log_bytes_retired() + written, memory)
        };
        let keyspaces = current.version.keyspaces().iter();
        let keyspaces = keyspaces.map(|keyspace| KeyspaceMetrics {
            id: keyspace.id,
            name: keyspace.name.clone(),
            levels: (0u8..)
                .zip(&keyspace.tree.levels)
                .filter(|(_, level)| !level.is_empty())
                .map(|(number, level)| level_metrics(number, level))
                .collect(),
            blobs: blob_metrics(&keyspace.tree),
        });
        let memtables = current.memtables().map(|m| m.memtable.bytes()).sum::<u64>() + self.spare.bytes();
        let held = PURPOSES.iter().map(|(purpose, name)| (*name, self.tables.ledger.held(*purpose)));
        let memory =
            iter::once(("memtables", memtables)).chain(held).chain([("log buffer", log_memory)]).collect();
        DatabaseMetrics {
            counters: self.metrics.counters(log_bytes, &self.group_sync.times),
            keyspaces: keyspaces.collect(),
            memory,
            sealed_memtables: current.sealed.len() as u64,
            snapshots: self.snapshots.len() as u64,
            table_bytes: current.version.bytes(),
            blob_bytes: current.version.blob_bytes(),
            open_files: self.tables.files.open_now() as u64,
        }
    }
}

fn blob_metrics(tree: &Tree) -> BlobMetrics {
    let mut metrics = BlobMetrics::default();
    for blob in tree.blobs() {
        metrics.files += 1;
        metrics.bytes += blob.handle.meta.file_bytes;
        metrics.live_values += blob.live_values;
        metrics.live_bytes += blob.live_bytes;
        metrics.dead_bytes += blob.dead_bytes();
    }
    metrics
}

fn level_metrics(number: u8, level: &Level) -> LevelMetrics {
    let mut metrics = LevelMetrics { level: number, bytes: level.bytes(), ..LevelMetrics::default() };
    for table in level.tables() {
        metrics.tables += 1;
        metrics.entries += table.meta.entries;
        metrics.point_tombstones += table.meta.point_tombstones;
        metrics.hidden_versions += table.meta.hidden_versions;
        metrics.range_tombstones += table.meta.range_tombstones;
    }
    metrics
}
