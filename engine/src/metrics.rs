//! Counters and histograms of one open database.
//!
//! Counters that reads touch are striped over cache lines by thread, so that two readers do not write
//! the same line; everything else is counted where it is rare. Nobody synchronises through a counter, so no model has to
//! see them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use esker_base::{KeyspaceId, OpCost};

/// Stripes of the read counters; threads beyond share.
const STRIPES: usize = 16;

/// One get, and one scan, in this many is sampled and speaks for all. A prime, since what callers do in turns mostly has a
/// period of few reads, or of a power of two or ten.
const SAMPLED: u64 = 61;

/// Buckets of a histogram: bucket `i` counts durations of `2^i` to `2^(i+1)` nanoseconds.
const BUCKETS: usize = 40;

/// One thread's read counters, on cache lines of their own (128: two lines are fetched together).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    gets: AtomicU64,
    scans: AtomicU64,
    filter_negatives: AtomicU64,
    filter_false_positives: AtomicU64,
    blocks_from_cache: AtomicU64,
    blocks_from_disk: AtomicU64,
}

/// Durations by powers of two.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    longest: AtomicU64,
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            longest: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub(crate) fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = (63 - (nanos | 1).leading_zeros() as usize).min(BUCKETS - 1);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(nanos, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    fn summary(&self) -> HistogramSummary {
        let counts: Vec<u64> = self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).collect();
        let count: u64 = counts.iter().sum();
        let longest = Duration::from_nanos(self.longest.load(Ordering::Relaxed));
        // The upper bound of the bucket in which the quantile lies.
        let quantile = |permille: u64| {
            let rank = (count * permille).div_ceil(1000);
            let mut seen = 0;
            let bucket = counts.iter().position(|n| {
                seen += n;
                seen >= rank
            });
            bucket.map_or(Duration::ZERO, |b| Duration::from_nanos(2u64 << b).min(longest))
        };
        HistogramSummary {
            count,
            total: Duration::from_nanos(self.sum.load(Ordering::Relaxed)),
            p50: quantile(500),
            p99: quantile(990),
            p999: quantile(999),
            longest,
        }
    }
}

/// A histogram's figures. Quantiles are upper bounds, at most twice the true value (up to 18 minutes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistogramSummary {
    /// How many were recorded.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
    /// Median.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// 99.9th percentile.
    pub p999: Duration,
    /// The longest.
    pub longest: Duration,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    stripes: [Stripe; STRIPES],
    commits: AtomicU64,
    operations: AtomicU64,
    user_bytes: AtomicU64,
    conflicts: AtomicU64,
    flushed_bytes: AtomicU64,
    compacted_bytes_in: AtomicU64,
    compacted_bytes_out: AtomicU64,
    log_bytes_retired: AtomicU64,
    job_failures: AtomicU64,
    listener_panics: AtomicU64,
    flushes: Histogram,
    compactions: Histogram,
    stalls: Histogram,
}

fn stripe_of_this_thread() -> usize {
    use std::cell::Cell;
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % STRIPES);
        }
        mine.get()
    })
}

/// Count `more`; how many they speak for, themselves included, if anything.
#[inline]
fn sampled(counter: &AtomicU64, more: u64) -> u64 {
    let before = counter.fetch_add(more, Ordering::Relaxed);
    ((before + more) / SAMPLED - before / SAMPLED) * SAMPLED
}

impl Metrics {
    /// A get, or several, that cost `cost`. Every so often it speaks for those that were counted beside it since the last one
    /// that did: for how many.
    #[inline]
    pub(crate) fn count_get(&self, cost: &OpCost) -> u64 {
        let stripe = &self.stripes[stripe_of_this_thread()];
        let add = |counter: &AtomicU64, n: u64| {
            if n > 0 {
                counter.fetch_add(n, Ordering::Relaxed);
            }
        };
        let times = sampled(&stripe.gets, cost.calls);
        add(&stripe.filter_negatives, cost.filter_negatives);
        add(&stripe.filter_false_positives, cost.filter_false_positives);
        add(&stripe.blocks_from_cache, cost.blocks_from_cache);
        add(&stripe.blocks_from_disk, cost.blocks_from_disk);
        times
    }

    /// A scan is made. Like a get it speaks for others every so often: for how many.
    pub(crate) fn count_scan(&self) -> u64 {
        sampled(&self.stripes[stripe_of_this_thread()].scans, 1)
    }

    /// A commit. In the commit queue's turn, where nobody else counts any: so a load and a store lose nothing and need
    /// no locked instruction.
    #[inline]
    pub(crate) fn count_commit(&self, operations: u64, bytes: u64) {
        let add = |counter: &AtomicU64, n| {
            counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        };
        add(&self.commits, 1);
        add(&self.operations, operations);
        add(&self.user_bytes, bytes);
    }

    pub(crate) fn count_conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_flush(&self, bytes: u64, took: Duration) {
        self.flushed_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.flushes.record(took);
    }

    pub(crate) fn count_compaction(&self, bytes_in: u64, bytes_out: u64, took: Duration) {
        self.compacted_bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        self.compacted_bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
        self.compactions.record(took);
    }

    /// A log of `bytes` was closed: under the commit lock, once another is in its place.
    pub(crate) fn count_log(&self, bytes: u64) {
        self.log_bytes_retired.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of the keys and values in commits.
    pub(crate) fn user_bytes(&self) -> u64 {
        self.user_bytes.load(Ordering::Relaxed)
    }

    /// What was written to logs that were closed.
    pub(crate) fn log_bytes_retired(&self) -> u64 {
        self.log_bytes_retired.load(Ordering::Relaxed)
    }

    pub(crate) fn count_stall(&self, waited: Duration) {
        self.stalls.record(waited);
    }

    pub(crate) fn count_job_failure(&self) {
        self.job_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_listener_panic(&self) {
        self.listener_panics.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters now; `log_bytes` are those of all logs, `syncs` the log's syncs.
    pub(crate) fn counters(&self, log_bytes: u64, syncs: &Histogram) -> Counters {
        let sum = |pick: fn(&Stripe) -> &AtomicU64| {
            self.stripes.iter().map(|s| pick(s).load(Ordering::Relaxed)).sum()
        };
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            gets: sum(|s| &s.gets),
            filter_negatives: sum(|s| &s.filter_negatives),
            filter_false_positives: sum(|s| &s.filter_false_positives),
            blocks_from_cache: sum(|s| &s.blocks_from_cache),
            blocks_from_disk: sum(|s| &s.blocks_from_disk),
            commits: load(&self.commits),
            operations: load(&self.operations),
            user_bytes: load(&self.user_bytes),
            conflicts: load(&self.conflicts),
            log_bytes,
            flushed_bytes: load(&self.flushed_bytes),
            compacted_bytes_in: load(&self.compacted_bytes_in),
            compacted_bytes_out: load(&self.compacted_bytes_out),
            job_failures: load(&self.job_failures),
            listener_panics: load(&self.listener_panics),
            flushes: self.flushes.summary(),
            compactions: self.compactions.summary(),
            stalls: self.stalls.summary(),
            syncs: syncs.summary(),
        }
    }
}

/// What has happened since the database was opened: counts, and bytes where the name says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Point lookups, of any handle; each key of a `multi_get` is one.
    pub gets: u64,
    /// Tables ruled out by their filter.
    pub filter_negatives: u64,
    /// Tables the filter let through in vain.
    pub filter_false_positives: u64,
    /// Blocks that gets found in the cache.
    pub blocks_from_cache: u64,
    /// Blocks that gets read from files.
    pub blocks_from_disk: u64,
    /// Commits.
    pub commits: u64,
    /// Operations in them.
    pub operations: u64,
    /// Bytes of the keys and values in them.
    pub user_bytes: u64,
    /// How often [`Database::transact`](crate::Database::transact) tried again.
    pub conflicts: u64,
    /// Written to logs.
    pub log_bytes: u64,
    /// Written by flushes, to tables and blob files.
    pub flushed_bytes: u64,
    /// Read by compactions that rewrote tables.
    pub compacted_bytes_in: u64,
    /// Written by compactions, to tables and blob files.
    pub compacted_bytes_out: u64,
    /// Background jobs that failed.
    pub job_failures: u64,
    /// Listeners that panicked.
    pub listener_panics: u64,
    /// How long flushes took.
    pub flushes: HistogramSummary,
    /// How long compactions took.
    pub compactions: HistogramSummary,
    /// How long writers waited for background work, of those who had to wait and went on.
    pub stalls: HistogramSummary,
    /// How long syncs of the log took, those of the directory and of the manifest that belong to one included.
    pub syncs: HistogramSummary,
}

impl Counters {
    /// Bytes written to logs, tables and blob files (not the manifest, nor what a recovery writes again) for each byte the user wrote, since the open;
    /// `None` before the first write.
    pub fn write_amplification(&self) -> Option<f64> {
        let written = self.log_bytes + self.flushed_bytes + self.compacted_bytes_out;
        (self.user_bytes > 0).then(|| written as f64 / self.user_bytes as f64)
    }
}

/// One level of one keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelMetrics {
    /// The level's number.
    pub level: u8,
    /// Tables in it.
    pub tables: u64,
    /// Their size as stored, in bytes.
    pub bytes: u64,
    /// Entries of every kind.
    pub entries: u64,
    /// Point tombstones among them.
    pub point_tombstones: u64,
    /// Entries that stand behind a newer put or delete of their key in the same table: a snapshot saw them when
    /// that was written. Tables of format versions before 4 count as having none.
    pub hidden_versions: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
}

/// The blob files of one keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobMetrics {
    /// How many there are.
    pub files: u64,
    /// Their size, in bytes.
    pub bytes: u64,
    /// Values in them that a row refers to. (Rows that newer ones hide count until a compaction drops them.)
    pub live_values: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes of values that no row refers to any more.
    pub dead_bytes: u64,
}

/// One keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceMetrics {
    /// Its number, as events show it.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
    /// Levels that hold tables.
    pub levels: Vec<LevelMetrics>,
    /// Its blob files.
    pub blobs: BlobMetrics,
}

/// A database's figures at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseMetrics {
    /// What has happened since it was opened.
    pub counters: Counters,
    /// Every keyspace.
    pub keyspaces: Vec<KeyspaceMetrics>,
    /// Memory held, in bytes, by purpose: memtables (with what is kept for the next ones), cache, table metadata, compaction
    /// (what tables and blob files under way are written with), log buffer. What batches, transactions and scans hold is their
    /// owners'.
    pub memory: Vec<(&'static str, u64)>,
    /// Memtables that wait for their flush.
    pub sealed_memtables: u64,
    /// Snapshots and transactions open.
    pub snapshots: u64,
    /// Size of all tables, in bytes.
    pub table_bytes: u64,
    /// Size of all blob files, in bytes.
    pub blob_bytes: u64,
    /// Tables and blob files that are open: at most [`open_files_max`](crate::DatabaseOptions::open_files_max).
    pub open_files: u64,
}
