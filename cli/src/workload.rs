//! Running `esker workload`: a directory, the run, its figures.

use std::path::Path;
use std::time::Duration;

use esker::{DatabaseOptions, KeyspaceOptions, LogWrites};
use esker_bench::workload::{self, Figures, Settings, WorkloadOptions};

use crate::args::workload::{Durability, Order, Workload, WorkloadArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Out, bytes, count, counted, note, rate, say, table, time};
use crate::progress::Bars;

pub(crate) fn run(args: &WorkloadArgs, out: Out<'_>) -> Result<Exit, Failure> {
    let temporary = match args.dir {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("esker-workload-").tempdir().map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot make a temporary directory: {error}"))
                .hint("name one with --dir")
        })?),
    };
    let dir: &Path = match (&args.dir, &temporary) {
        (Some(dir), _) => dir,
        (None, Some(temporary)) => temporary.path(),
        (None, None) => return Err(Failure::usage("name a directory with --dir")),
    };
    let figures = workload::run(&options(args, dir), &mut Bars::default())?;
    let shown = if args.json { output::json(out, &figures) } else { show(&figures, out) };
    // The note belongs under the figures.
    let shown = shown.and_then(|()| out.flush().map_err(|error| Failure::output(&error)));
    if !figures.settings.optimised {
        note!(
            "note: this program was built without optimisation, its times mean little; build it with --release"
        );
    }
    if let Some(temporary) = temporary {
        let path = temporary.path().display().to_string();
        temporary
            .close()
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot remove {path}: {error}")))?;
    }
    shown.map(|()| Exit::Done)
}

fn options(args: &WorkloadArgs, dir: &Path) -> WorkloadOptions {
    let workload = match args.workload {
        Workload::Fill => workload::Workload::Fill,
        Workload::Overwrite => workload::Workload::Overwrite,
        Workload::Delete => workload::Workload::Delete,
        Workload::Get => workload::Workload::Get,
        Workload::Seek => workload::Workload::Seek,
        Workload::Scan => workload::Workload::Scan,
        Workload::Mixed => workload::Workload::Mixed,
    };
    WorkloadOptions {
        rows: args.rows,
        value_bytes: args.value_bytes,
        threads: args.threads,
        batch: args.batch,
        order: match args.order {
            Order::Random => workload::Order::Random,
            Order::Ordered => workload::Order::Ordered,
        },
        seed: args.seed,
        database: DatabaseOptions {
            durability: match args.durability {
                Durability::Sync => esker::Durability::Sync,
                Durability::Interval(every) => esker::Durability::Interval(every),
                Durability::Os => esker::Durability::Os,
                Durability::NoLog => esker::Durability::NoLog,
            },
            log_writes: if args.mapped_log { LogWrites::Mapped } else { LogWrites::Called },
            cache_bytes: args.cache_bytes,
            ..DatabaseOptions::default()
        },
        keyspace: KeyspaceOptions::default()
            .with_compression(args.compression.into())
            .with_blob_bytes_min(args.blob_bytes_min),
        ..WorkloadOptions::new(workload, dir)
    }
}

fn show(figures: &Figures, out: Out<'_>) -> Result<(), Failure> {
    say!(out, "{}", headline(&figures.settings))?;
    say!(out)?;
    output::show(out, &latencies(figures))?;
    say!(out)?;
    output::show(out, &costs(figures))
}

fn headline(settings: &Settings) -> String {
    let Settings { workload, rows, key_bytes, value_bytes, threads, order, durability, .. } = settings;
    let mapped = if settings.mapped_log { ", log mapped" } else { "" };
    format!(
        "{workload}: {} of {key_bytes} + {value_bytes} B, {order} keys, {}, durability {durability}{mapped}, compression {}, seed {}",
        counted(*rows, "row"),
        counted((*threads).into(), "thread"),
        settings.compression,
        settings.seed
    )
}

fn latencies(figures: &Figures) -> comfy_table::Table {
    let mut table = table(&["call", ">calls", ">p50", ">p99", ">p99.9", ">longest"]);
    let nanos = |nanos| time(Duration::from_nanos(nanos));
    for latency in &figures.latencies {
        table.add_row([
            latency.call.clone(),
            count(latency.count),
            nanos(latency.p50_nanos),
            nanos(latency.p99_nanos),
            nanos(latency.p999_nanos),
            nanos(latency.longest_nanos),
        ]);
    }
    table
}

/// Figures that stand alone, each with a word on what it means.
fn costs(figures: &Figures) -> comfy_table::Table {
    let mut table = table(&["figure", ">value", "note"]);
    let seconds = |seconds: f64| time(Duration::from_secs_f64(seconds));
    let mut row = |figure: &str, value: String, note: String| {
        table.add_row([figure.to_owned(), value, note]);
    };
    row(
        "rate",
        rate(figures.per_second),
        format!("{} in {}", count(figures.operations), seconds(figures.seconds)),
    );
    if figures.writes.is_some() {
        let note = format!(
            "with the {} that flushes and compactions took afterwards",
            seconds(figures.settle_seconds)
        );
        row("settled rate", rate(figures.settled_per_second), note);
    }
    row(
        "harness",
        format!("{:.0} ns", figures.harness_nanos),
        "of each operation is the harness's own, within the rate; not subtracted".to_owned(),
    );
    if let Some(writes) = &figures.writes {
        let note = format!(
            "{} by the user; log {}, flushes {}, compactions {}",
            bytes(writes.user_bytes),
            bytes(writes.log_bytes),
            bytes(writes.flushed_bytes),
            bytes(writes.compacted_bytes)
        );
        row("write amplification", format!("{:.2}", writes.amplification), note);
        let stalls = &figures.stalls;
        row(
            "stalled",
            seconds(stalls.seconds),
            format!("in {} for background work", counted(stalls.count, "wait")),
        );
    }
    if let Some(reads) = &figures.reads {
        let note = format!(
            "a read: {:.2} cached, {:.2} from files; {:.2} tables ruled out by filters, {:.4} let through in vain; {:.2} entries skipped",
            reads.cached_blocks,
            reads.disk_blocks,
            reads.filter_negatives,
            reads.filter_false_positives,
            reads.skipped
        );
        row("blocks", format!("{:.2}", reads.cached_blocks + reads.disk_blocks), note);
    }
    let space = &figures.space;
    let levels: Vec<String> = space
        .levels
        .iter()
        .map(|level| {
            format!("L{}: {}, {}", level.level, counted(level.tables, "table"), bytes(level.bytes))
        })
        .collect();
    let blobs = match space.blob_bytes {
        0 => String::new(),
        taken => format!("; blob files: {}", bytes(taken)),
    };
    let note = format!(
        "{} for {} live; {}{blobs}",
        bytes(space.table_bytes + space.blob_bytes),
        bytes(space.live_bytes),
        levels.join("; ")
    );
    row(
        "space amplification",
        space.amplification.map_or("–".to_owned(), |times| format!("{times:.2}")),
        note,
    );
    table
}
