//! What to run.

use std::fmt;
use std::path::{Path, PathBuf};

use esker::{DatabaseOptions, KeyspaceOptions, limits};

use super::{Result, WorkloadError};

/// A workload. All but `Fill` begin by filling the database, unmeasured, and settling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Put every row once.
    Fill,
    /// Put every row again.
    Overwrite,
    /// Delete every row.
    Delete,
    /// Get a row that is there.
    Get,
    /// Seek to a row and read ten from there.
    Seek,
    /// Read every row in key order.
    Scan,
    /// Half gets, half puts.
    Mixed,
}

impl Workload {
    /// Whether it changes rows.
    pub fn writes(self) -> bool {
        matches!(self, Workload::Fill | Workload::Overwrite | Workload::Delete | Workload::Mixed)
    }

    /// Whether it can write in batches.
    pub fn batches(self) -> bool {
        matches!(self, Workload::Fill | Workload::Overwrite | Workload::Delete)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Workload::Fill => "fill",
            Workload::Overwrite => "overwrite",
            Workload::Delete => "delete",
            Workload::Get => "get",
            Workload::Seek => "seek",
            Workload::Scan => "scan",
            Workload::Mixed => "mixed",
        })
    }
}

/// In which order rows are put, deleted, or looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each put and delete once, shuffled; lookups drawn at random.
    Random,
    /// By key; each thread its own stretch.
    Ordered,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Order::Random => "random",
            Order::Ordered => "ordered",
        })
    }
}

/// A workload and its size.
#[derive(Clone, Debug)]
pub struct WorkloadOptions {
    /// What to do.
    pub workload: Workload,
    /// Where: a directory that is empty, or not there yet.
    pub dir: PathBuf,
    /// Rows in the database, and operations of the workload. 1 … 10¹⁵. Default: 1,000,000.
    pub rows: u64,
    /// Bytes of each value. 0 … 1 GiB. Default: 100.
    pub value_bytes: u64,
    /// Threads that run operations at the same time. 1 … 1,024. Default: 1.
    pub threads: u16,
    /// Rows in a batch; 1: single puts or deletes. 1 … 1,000,000. Default: 1.
    pub batch: u64,
    /// Default: random.
    pub order: Order,
    /// Where keys, values and orders are drawn from. Default: 1.
    pub seed: u64,
    /// The database's settings.
    pub database: DatabaseOptions,
    /// The keyspace's settings.
    pub keyspace: KeyspaceOptions,
}

impl WorkloadOptions {
    /// The default options of `workload` in `dir`.
    pub fn new(workload: Workload, dir: &Path) -> Self {
        WorkloadOptions {
            workload,
            dir: dir.to_path_buf(),
            rows: 1_000_000,
            value_bytes: 100,
            threads: 1,
            batch: 1,
            order: Order::Random,
            seed: 1,
            database: DatabaseOptions::default(),
            keyspace: KeyspaceOptions::default(),
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        let within = |name: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(WorkloadError::BadOption(format!("{name} is {value}, it must be {low} to {high}")))
        };
        within("rows", self.rows, 1, 1_000_000_000_000_000)?;
        within("value-bytes", self.value_bytes, 0, limits::VALUE_BYTES_MAX as u64)?;
        within("threads", self.threads.into(), 1, 1024)?;
        within("batch", self.batch, 1, 1_000_000)?;
        within(
            "bytes of a batch",
            self.batch.saturating_mul(self.value_bytes + 64),
            0,
            limits::BATCH_BYTES_MAX as u64,
        )?;
        if self.batch > 1 && !self.workload.batches() {
            return Err(WorkloadError::BadOption(format!(
                "batch is {}, but {} writes no batches; only fill, overwrite and delete do",
                self.batch, self.workload
            )));
        }
        Ok(())
    }
}
