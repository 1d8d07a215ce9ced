//! What a workload came to.

use serde::Serialize;

/// All figures of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// What was run.
    pub settings: Settings,
    /// Operations: puts, deletes, gets, seeks, or rows scanned.
    pub operations: u64,
    /// Time until the last operation returned, in seconds.
    pub seconds: f64,
    /// Operations a second in that time.
    pub per_second: f64,
    /// Time from then until no flush and no compaction was due, in seconds; 0 where nothing was written.
    pub settle_seconds: f64,
    /// Operations a second with that time counted in.
    pub settled_per_second: f64,
    /// How long calls took, by kind.
    pub latencies: Vec<Latency>,
    /// What an operation costs the harness alone, in nanoseconds: making keys and values, reading the clock,
    /// checking answers. All of it is part of `seconds`; of `latencies` checking is, and about one reading of the clock.
    pub harness_nanos: f64,
    /// How long writers waited for background work.
    pub stalls: Stalls,
    /// What writing cost; `None` where nothing was written.
    pub writes: Option<WriteFigures>,
    /// What reading cost; `None` where nothing was read.
    pub reads: Option<ReadFigures>,
    /// What the rows take on disk.
    pub space: SpaceFigures,
}

/// What was run, for whoever compares figures later.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The workload's name.
    pub workload: String,
    /// Rows.
    pub rows: u64,
    /// Bytes of each key.
    pub key_bytes: u64,
    /// Bytes of each value.
    pub value_bytes: u64,
    /// Threads.
    pub threads: u16,
    /// Rows in a batch.
    pub batch: u64,
    /// The order of keys.
    pub order: String,
    /// When a write returned.
    pub durability: String,
    /// Whether the log goes through mapped memory instead of calls.
    pub mapped_log: bool,
    /// How blocks are compressed: none, lz4 or zstd:LEVEL; level by level where they differ.
    pub compression: String,
    /// Block cache, in bytes.
    pub cache_bytes: u64,
    /// The seed.
    pub seed: u64,
    /// Whether the program was optimised: without that, times mean little.
    pub optimised: bool,
}

/// How long one kind of call took, in nanoseconds, to three digits.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// The call.
    pub call: String,
    /// Rows that a full call passes.
    pub rows_per_call: u64,
    /// Calls.
    pub count: u64,
    /// Median.
    pub p50_nanos: u64,
    /// 99th percentile.
    pub p99_nanos: u64,
    /// 99.9th percentile.
    pub p999_nanos: u64,
    /// The longest.
    pub longest_nanos: u64,
}

/// How long writers waited.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Stalls {
    /// Waits.
    pub count: u64,
    /// All of them together, in seconds.
    pub seconds: f64,
}

/// What writing cost, in bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WriteFigures {
    /// Keys and values that the workload wrote.
    pub user_bytes: u64,
    /// Written to logs.
    pub log_bytes: u64,
    /// Written by flushes.
    pub flushed_bytes: u64,
    /// Written by compactions.
    pub compacted_bytes: u64,
    /// All that was written to files, for each byte the workload wrote.
    pub amplification: f64,
}

/// What reading cost, for each operation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReadFigures {
    /// Blocks found in the cache.
    pub cached_blocks: f64,
    /// Blocks read from files.
    pub disk_blocks: f64,
    /// Tables ruled out by their filter.
    pub filter_negatives: f64,
    /// Tables that their filter let through in vain.
    pub filter_false_positives: f64,
    /// Entries and tombstones passed over.
    pub skipped: f64,
}

/// What the rows take on disk.
#[derive(Clone, Debug, Serialize)]
pub struct SpaceFigures {
    /// Keys and values of the live rows, in bytes.
    pub live_bytes: u64,
    /// All tables, in bytes.
    pub table_bytes: u64,
    /// All blob files, in bytes.
    pub blob_bytes: u64,
    /// Bytes of both for each live byte; `None` where nothing is live.
    pub amplification: Option<f64>,
    /// Levels that hold tables.
    pub levels: Vec<LevelFigures>,
}

/// One level.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LevelFigures {
    /// Its number.
    pub level: u8,
    /// Tables in it.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
}
