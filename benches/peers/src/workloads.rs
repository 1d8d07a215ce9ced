//! The workloads, in sequences: a sequence runs in a process of its own, on a directory of its own.

mod caches;
mod capped;
mod churn;
mod durable;
mod fills;
mod killed;
mod main_sequence;
mod mixed;
mod offered;
mod queue;
mod reads;
mod sample;
mod scans;
mod shapes;
mod sizes;
mod sustained;
mod timed;
mod tombstones;
mod tuned;
mod variants;
mod walk;
mod ycsb;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::histogram::Histogram;
use crate::keys::{Key, key};
use crate::machine::{Used, Watch, begin_peak, recent_peak};
use crate::record::Figure;
use crate::store::{Result, Store};
use crate::values::Values;

/// Bytes of a value, unless a workload says otherwise.
const VALUE_BYTES: usize = 100;
/// Rows in a batch, for engines that are not made for single puts.
const GROUP: usize = 1000;

/// A sequence's name and what it is; the order is that of a run.
pub(crate) const SEQUENCES: &[(&str, &str)] = &[
    ("ordered", "fill in key order, settled"),
    ("ordered-mapped", "the same, esker's log without a call of the system for each put"),
    ("ordered-batches", "fill in key order in batches of 1,000"),
    ("threads", "random fill by four threads"),
    ("batches", "random fill in batches of 100"),
    ("main", "random fill, overwrite, gets, seeks, scans, mixed, reopen, deletes, tombstones"),
    ("synced", "synced puts by 1 to 16 threads beside a bare write + fdatasync loop"),
    ("large", "values of 16 KiB: fill, get, scan"),
    ("lz4", "LZ4: fill, get, scan"),
    ("batches-10", "random fill in batches of 10"),
    ("single", "random puts one by one, also where that is not what the engine is made for"),
    ("queue", "puts at the tail, deletes at the head"),
    ("ycsb", "YCSB's core workloads A to F"),
    ("sizes", "values from 8 B to 1 MiB: fill, get"),
    ("shapes", "keys of seven other shapes: fill, gets, seeks, scans"),
    ("churn", "fill and five passes of overwriting: bytes written and occupied"),
    ("scans", "prefix scans, keys-only scans, full scans beside a writer"),
    ("caches", "gets from the memtable alone, and from the page cache behind a small block cache"),
    ("killed", "reopening after a kill"),
    (
        "tuned",
        "fill, overwrite, get, seek, scan, delete, fill in key order with the settings that each engine's guides recommend",
    ),
    ("tuned-large", "values of 16 KiB with those settings"),
    (
        "capped",
        "gets and seeks under a memory cap of a tenth of the data, page cache included (needs root)",
    ),
    ("sustained", "fill of 20 times the rows, overwrite of half as many, gets"),
    ("offered", "open loop: overwrites offered at 50, 80 and 95 % of capacity"),
];

/// Sequences that run only if they are named: one needs root, the other hours.
pub(crate) const BY_NAME_ONLY: &[&str] = &["capped", "sustained"];

/// Where a sequence runs, and how large it is.
pub(crate) struct Bench {
    /// An empty directory of its own.
    pub(crate) dir: PathBuf,
    /// Rows of the full-sized workloads.
    pub(crate) rows: u64,
    /// The engine's name, for a process that has to start another one.
    pub(crate) engine: String,
}

/// Run the sequence `name` on engine `S`.
pub(crate) fn run<S: Store>(bench: &Bench, name: &str) -> Result<()> {
    match name {
        "ordered" => fills::ordered::<S>(bench),
        "ordered-mapped" => fills::ordered_mapped::<S>(bench),
        "ordered-batches" => fills::ordered_batches::<S>(bench),
        "threads" => fills::threads::<S>(bench),
        "batches" => fills::batches::<S>(bench),
        "single" => fills::single::<S>(bench),
        "main" => main_sequence::run::<S>(bench),
        "synced" => durable::run::<S>(bench),
        "large" => variants::large::<S>(bench),
        "lz4" => variants::lz4::<S>(bench),
        "queue" => queue::run::<S>(bench),
        "ycsb" => ycsb::run::<S>(bench),
        "sizes" => sizes::run::<S>(bench),
        "shapes" => shapes::run::<S>(bench),
        "churn" => churn::run::<S>(bench),
        "batches-10" => fills::batches_of_ten::<S>(bench),
        "scans" => scans::run::<S>(bench),
        "caches" => caches::run::<S>(bench),
        "killed" => killed::run::<S>(bench),
        killed::WRITES => killed::writes::<S>(bench),
        "tuned" => tuned::run::<S>(bench),
        "tuned-large" => variants::tuned_large::<S>(bench),
        "capped" => capped::run::<S>(bench),
        capped::READS => capped::reads::<S>(bench),
        "sustained" => sustained::run::<S>(bench),
        "offered" => offered::run::<S>(bench),
        _ => Err(format!("there is no sequence {name}").into()),
    }
}

impl Bench {
    /// A process for another part of this sequence, on the same directory; it prints its own figures.
    fn part(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["child", "--engine", &self.engine, "--sequence", name]);
        command.args(["--rows", &self.rows.to_string(), "--dir"]).arg(&self.dir);
        Ok(command)
    }

    /// Begin to measure a workload.
    fn measure(&self, workload: &str) -> Result<Measure> {
        let watch = Watch::over(self.dir.clone());
        begin_peak()?;
        Ok(Measure { workload: workload.to_owned(), watch, used: Used::now()?, begun: Instant::now() })
    }
}

/// Print a workload's figures: a line for the process that started this one.
fn emit(figure: &Figure) -> Result<()> {
    println!("{}", serde_json::to_string(figure)?);
    Ok(())
}

/// A workload under way.
struct Measure {
    workload: String,
    watch: Watch,
    used: Used,
    begun: Instant,
}

impl Measure {
    /// The figures of `operations` that ended now.
    fn done(self, operations: u64) -> Result<Figure> {
        self.done_at(operations, Instant::now())
    }

    /// How long it has been under way.
    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The figures of `operations` that ended at `end`.
    fn done_at(self, operations: u64, end: Instant) -> Result<Figure> {
        let seconds = end.saturating_duration_since(self.begun).as_secs_f64();
        let used = Used::now()?.since(self.used);
        let peak = recent_peak()?;
        let seen = self.watch.stop()?;
        let measures = BTreeMap::from([
            ("cpu_us_per_operation".to_owned(), used.cpu_seconds * 1e6 / operations.max(1) as f64),
            ("stolen_ms".to_owned(), used.stolen_seconds * 1e3),
            ("jitter_ms".to_owned(), seen.jitter.as_secs_f64() * 1e3),
            ("read_mib".to_owned(), mib(used.read)),
            ("read_bytes_per_operation".to_owned(), used.read as f64 / operations.max(1) as f64),
            ("written_mib".to_owned(), mib(used.written)),
            ("cancelled_mib".to_owned(), mib(used.cancelled)),
            ("disk_peak_mib".to_owned(), mib(seen.disk_peak)),
            ("disk_mean_mib".to_owned(), mib(seen.disk_mean)),
            ("peak_mib".to_owned(), mib(peak)),
        ]);
        Ok(Figure { workload: self.workload, operations, seconds, measures })
    }
}

impl Figure {
    /// With the latencies of puts, unless `S` is not made for single ones: its commits are of 1,000 rows.
    fn with_puts<S: Store>(self, histogram: &Histogram) -> Figure {
        if S::BATCHED { self } else { self.with_latencies(histogram) }
    }

    /// With the quantiles of `histogram`, in microseconds, and what its samples above a millisecond add up
    /// to, in milliseconds.
    fn with_latencies(self, histogram: &Histogram) -> Figure {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        self.with("p50_us", micros(histogram.quantile(5000)))
            .with("p99_us", micros(histogram.quantile(9900)))
            .with("p999_us", micros(histogram.quantile(9990)))
            .with("longest_us", micros(histogram.longest()))
            .with("stalled_ms", micros(histogram.stalled()) / 1e3)
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Rows a commit: one, or what suits an engine that is not made for single puts.
fn group<S: Store>() -> usize {
    if S::BATCHED { GROUP } else { 1 }
}

/// Write `version` of `rows` in this order, `group` to a commit.
fn put_rows<S: Store>(
    store: &S,
    values: &Values,
    version: u64,
    rows: impl Iterator<Item = u64>,
    group: usize,
) -> Result<()> {
    if group == 1 {
        for row in rows {
            store.put(&key(row), values.of(row, version))?;
        }
        return Ok(());
    }
    let mut batch: Vec<(Key, &[u8])> = Vec::with_capacity(group);
    for row in rows {
        batch.push((key(row), values.of(row, version)));
        if batch.len() == group {
            store.put_all(&batch)?;
            batch.clear();
        }
    }
    if batch.is_empty() { Ok(()) } else { store.put_all(&batch) }
}

/// Run `work` in `threads` threads, numbered from 0.
fn in_threads(threads: u64, work: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        running.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a worker panicked")?)
    })
}

/// Open `S` in an empty directory under `dir`.
fn fresh<S: Store>(dir: &Path, settings: crate::store::Settings) -> Result<S> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    std::fs::create_dir_all(dir)?;
    S::open(dir, settings)
}
