//! A run from beginning to end: create, fill, settle, measure, settle, close.
#![expect(clippy::disallowed_methods, reason = "the directory is looked at before the engine has it")]

use std::path::Path;
use std::time::Duration;

use esker::{
    Compression, Counters, Database, DatabaseMetrics, Durability, Keyspace, KeyspaceOptions, LogWrites,
};

use super::drive::{Phase, drive, harness_nanos, timed};
use super::figures::{
    Figures, Latency, LevelFigures, ReadFigures, Settings, SpaceFigures, Stalls, WriteFigures,
};
use super::keys::KEY_BYTES;
use super::options::{Workload, WorkloadOptions};
use super::store::EngineSession;
use super::values::Values;
use super::worker::{Outcome, Timings};
use super::{Progress, Result, WorkloadError};

/// The name of the keyspace that workloads fill.
const KEYSPACE: &str = "workload";

/// Run the workload of `options` on a new database in its directory, which stays.
///
/// # Errors
/// [`WorkloadError::BadOption`] and [`WorkloadError::NotEmpty`] before anything is created; see
/// [`WorkloadError`] for the others.
pub fn run(options: &WorkloadOptions, progress: &mut dyn Progress) -> Result<Figures> {
    options.validate()?;
    check_empty(&options.dir)?;
    let failed = |doing| move |source| WorkloadError::Engine { doing, source };
    let value_bytes = usize::try_from(options.value_bytes).expect("validated against the engine's limit");
    let values = Values::new(value_bytes, options.seed);
    let harness_nanos = harness_nanos(options, &values)?;
    let db =
        Database::builder(&options.dir).options(options.database.clone()).open().map_err(|e| match e {
            esker::Error::InvalidArgument { what } => WorkloadError::BadOption(what),
            other => failed("open the database")(other),
        })?;
    let keyspace =
        db.keyspace(KEYSPACE, options.keyspace.clone()).map_err(failed("create the keyspace"))?;
    let session = || EngineSession::new(&db, &keyspace);
    if options.workload != Workload::Fill {
        progress.begin("filling", options.rows);
        // Batches: nobody measures this one.
        let fill = WorkloadOptions { batch: fill_batch(options.value_bytes), ..options.clone() };
        drive(&fill, Workload::Fill, &values, session, progress)?;
        progress.end();
        settle(&db, progress)?;
    }
    let before = db.metrics();
    progress.begin(&options.workload.to_string(), options.rows);
    let phase = drive(options, options.workload, &values, session, progress)?;
    progress.end();
    let settle_time = if options.workload.writes() { settle(&db, progress)? } else { Duration::ZERO };
    let figures = figures(options, &phase, settle_time, harness_nanos, &before, &db.metrics());
    close(db, keyspace).map_err(failed("close the database"))?;
    Ok(figures)
}

/// A workload must not meet rows of somebody else's.
fn check_empty(dir: &Path) -> Result<()> {
    match std::fs::read_dir(dir) {
        Ok(mut names) => match names.next() {
            None => Ok(()),
            Some(_) => Err(WorkloadError::NotEmpty(dir.to_path_buf())),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(WorkloadError::Directory { dir: dir.to_path_buf(), source }),
    }
}

/// About 100 KB a batch.
fn fill_batch(value_bytes: u64) -> u64 {
    (100_000 / (value_bytes + KEY_BYTES as u64)).clamp(1, 1_000)
}

/// Flush and wait until no compaction is due; how long that took.
fn settle(db: &Database, progress: &mut dyn Progress) -> Result<Duration> {
    progress.begin("settling", 0);
    let (result, took) = timed(|| db.flush().and_then(|()| db.wait_for_compactions()));
    progress.end();
    result.map_err(|source| WorkloadError::Engine { doing: "settle", source })?;
    Ok(took)
}

fn close(db: Database, keyspace: Keyspace) -> esker::Result<()> {
    drop(keyspace);
    db.close()
}

fn figures(
    options: &WorkloadOptions,
    phase: &Phase,
    settle: Duration,
    harness_nanos: f64,
    before: &DatabaseMetrics,
    after: &DatabaseMetrics,
) -> Figures {
    let outcome = &phase.outcome;
    let seconds = phase.took.as_secs_f64();
    let settle_seconds = settle.as_secs_f64();
    let rate = |seconds: f64| options.rows as f64 / seconds.max(1e-9);
    let stalls = after.counters.stalls;
    Figures {
        settings: settings(options),
        operations: options.rows,
        seconds,
        per_second: rate(seconds),
        settle_seconds,
        settled_per_second: rate(seconds + settle_seconds),
        latencies: outcome.timings.iter().map(latency).collect(),
        harness_nanos,
        stalls: Stalls {
            count: stalls.count - before.counters.stalls.count,
            seconds: stalls.total.saturating_sub(before.counters.stalls.total).as_secs_f64(),
        },
        writes: writes(options, outcome, &before.counters, &after.counters),
        reads: reads(options, outcome, &before.counters, &after.counters),
        space: space(options, after),
    }
}

fn settings(options: &WorkloadOptions) -> Settings {
    Settings {
        workload: options.workload.to_string(),
        rows: options.rows,
        key_bytes: KEY_BYTES as u64,
        value_bytes: options.value_bytes,
        threads: options.threads,
        batch: options.batch,
        order: options.order.to_string(),
        durability: match options.database.durability {
            Durability::Sync => "sync".to_owned(),
            Durability::Interval(every) => format!("interval:{}", every.as_millis()),
            Durability::Os => "os".to_owned(),
            Durability::NoLog => "no-log".to_owned(),
        },
        mapped_log: options.database.log_writes == LogWrites::Mapped,
        compression: compression(&options.keyspace),
        cache_bytes: options.database.cache_bytes,
        seed: options.seed,
        optimised: !cfg!(debug_assertions),
    }
}

/// Each level's compression, once if they are all the same.
fn compression(keyspace: &KeyspaceOptions) -> String {
    let mut names: Vec<String> = keyspace
        .compression
        .iter()
        .map(|compression| match compression {
            Compression::None => "none".to_owned(),
            Compression::Lz4 => "lz4".to_owned(),
            Compression::Zstd { level } => format!("zstd:{level}"),
        })
        .collect();
    names.dedup();
    names.join(", ")
}

fn latency(timings: &Timings) -> Latency {
    let histogram = &timings.histogram;
    Latency {
        call: timings.call.clone(),
        rows_per_call: timings.rows,
        count: histogram.len(),
        p50_nanos: histogram.value_at_quantile(0.5),
        p99_nanos: histogram.value_at_quantile(0.99),
        p999_nanos: histogram.value_at_quantile(0.999),
        longest_nanos: histogram.max(),
    }
}

/// Keys and values that the phase wrote.
fn user_bytes(options: &WorkloadOptions, outcome: &Outcome) -> u64 {
    let row = KEY_BYTES as u64 + options.value_bytes;
    match options.workload {
        Workload::Fill | Workload::Overwrite => options.rows * row,
        Workload::Delete => options.rows * KEY_BYTES as u64,
        Workload::Mixed => {
            outcome.timings.iter().filter(|t| t.call == "put").map(|t| t.histogram.len() * row).sum()
        }
        Workload::Get | Workload::Seek | Workload::Scan => 0,
    }
}

fn writes(
    options: &WorkloadOptions,
    outcome: &Outcome,
    before: &Counters,
    after: &Counters,
) -> Option<WriteFigures> {
    let user_bytes = user_bytes(options, outcome);
    let log_bytes = after.log_bytes - before.log_bytes;
    let flushed_bytes = after.flushed_bytes - before.flushed_bytes;
    let compacted_bytes = after.compacted_bytes_out - before.compacted_bytes_out;
    (user_bytes > 0).then(|| WriteFigures {
        user_bytes,
        log_bytes,
        flushed_bytes,
        compacted_bytes,
        amplification: (log_bytes + flushed_bytes + compacted_bytes) as f64 / user_bytes as f64,
    })
}

/// Gets are counted by the engine, seeks and steps by their cursors.
fn reads(
    options: &WorkloadOptions,
    outcome: &Outcome,
    before: &Counters,
    after: &Counters,
) -> Option<ReadFigures> {
    let operations = match options.workload {
        Workload::Get | Workload::Seek | Workload::Scan => options.rows,
        Workload::Mixed => after.gets - before.gets,
        Workload::Fill | Workload::Overwrite | Workload::Delete => 0,
    };
    let each = |gets: fn(&Counters) -> u64, cursors: u64| {
        (gets(after) - gets(before) + cursors) as f64 / operations as f64
    };
    let cost = &outcome.cost;
    (operations > 0).then(|| ReadFigures {
        cached_blocks: each(|c| c.blocks_from_cache, cost.blocks_from_cache),
        disk_blocks: each(|c| c.blocks_from_disk, cost.blocks_from_disk),
        filter_negatives: each(|c| c.filter_negatives, cost.filter_negatives),
        filter_false_positives: each(|c| c.filter_false_positives, cost.filter_false_positives),
        skipped: each(|_| 0, cost.entries_skipped + cost.tombstones_skipped),
    })
}

fn space(options: &WorkloadOptions, after: &DatabaseMetrics) -> SpaceFigures {
    let live_rows = if options.workload == Workload::Delete { 0 } else { options.rows };
    let live_bytes = live_rows * (KEY_BYTES as u64 + options.value_bytes);
    let levels = after.keyspaces.iter().filter(|keyspace| keyspace.name == KEYSPACE);
    let levels = levels.flat_map(|keyspace| &keyspace.levels);
    SpaceFigures {
        live_bytes,
        table_bytes: after.table_bytes,
        blob_bytes: after.blob_bytes,
        amplification: (live_bytes > 0)
            .then(|| (after.table_bytes + after.blob_bytes) as f64 / live_bytes as f64),
        levels: levels
            .map(|level| LevelFigures { level: level.level, tables: level.tables, bytes: level.bytes })
            .collect(),
    }
}
