//! A record as a table for people: medians over the rounds, their spread, and how esker stands.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::record::{Figure, Record};
use crate::store::Result;

/// What a row shows of a workload's figures.
#[derive(Clone, Copy)]
enum Show {
    /// Thousand operations a second, the measuring loop's own time taken away.
    Thousands,
    /// Million operations a second, likewise.
    Millions,
    /// Thousand operations a second, as they are: where an operation waits for the device.
    Gross,
    /// How long the whole took, in milliseconds.
    Millis,
    /// A measure, less being better.
    Measure(&'static str),
}

/// The rows: a label (or nothing: the workload's name), the workload, what to show, its unit.
const ROWS: &[(&str, &str, Show, &str)] = &[
    ("", "ordered fill", Show::Thousands, "k/s"),
    ("", "ordered fill, batches of 1,000", Show::Thousands, "k/s"),
    ("", "random fill", Show::Thousands, "k/s"),
    ("", "random fill, four threads", Show::Thousands, "k/s"),
    ("", "random fill, batches of 100", Show::Thousands, "k/s"),
    ("", "random fill, one by one", Show::Thousands, "k/s"),
    ("", "overwrite", Show::Thousands, "k/s"),
    ("overwrite: p50", "overwrite", Show::Measure("p50_us"), "µs"),
    ("overwrite: p99", "overwrite", Show::Measure("p99_us"), "µs"),
    ("overwrite: p99.9", "overwrite", Show::Measure("p999_us"), "µs"),
    ("overwrite: longest", "overwrite", Show::Measure("longest_us"), "µs"),
    ("overwrite: the machine's jitter", "overwrite", Show::Measure("jitter_ms"), "ms"),
    ("overwrite: processor time", "overwrite", Show::Measure("cpu_us_per_operation"), "µs a row"),
    ("", "bare write + fdatasync, before", Show::Gross, "k/s"),
    ("", "synced put, 1 thread", Show::Gross, "k/s"),
    ("", "synced put, 4 threads", Show::Gross, "k/s"),
    ("", "synced put, 16 threads", Show::Gross, "k/s"),
    ("", "bare write + fdatasync, after", Show::Gross, "k/s"),
    ("", "get, present", Show::Thousands, "k/s"),
    ("", "get, present, two threads", Show::Thousands, "k/s"),
    ("", "get, absent", Show::Thousands, "k/s"),
    ("", "get, 8 at a time", Show::Thousands, "k/s"),
    ("", "get, 64 at a time", Show::Thousands, "k/s"),
    ("", "seek + 10 rows", Show::Thousands, "k/s"),
    ("", "seek + 10 rows, reverse", Show::Thousands, "k/s"),
    ("", "seek + 100 rows", Show::Thousands, "k/s"),
    ("", "seek + 100 rows, reverse", Show::Thousands, "k/s"),
    ("", "full scan", Show::Millions, "M rows/s"),
    ("", "full scan, reverse", Show::Millions, "M rows/s"),
    ("", "one writer, one reader: reads", Show::Thousands, "k/s"),
    ("", "one writer, one reader: writes", Show::Thousands, "k/s"),
    ("one writer, one reader: read p99.9", "one writer, one reader: reads", Show::Measure("p999_us"), "µs"),
    ("", "delete", Show::Thousands, "k/s"),
    ("", "seek over tombstones, first", Show::Millis, "ms"),
    ("", "seek over tombstones, second", Show::Millis, "ms"),
    ("", "seek over tombstones, a second later", Show::Millis, "ms"),
    ("", "delete by range", Show::Millis, "ms"),
    ("", "seek over a deleted range", Show::Millis, "ms"),
    ("", "reopen to first get", Show::Millis, "ms"),
    ("close before it", "reopen to first get", Show::Measure("close_ms"), "ms"),
    ("random fill: written ÷ user bytes", "random fill", Show::Measure("write_amplification"), ""),
    ("overwrite: written ÷ user bytes", "overwrite", Show::Measure("write_amplification"), ""),
    ("five passes: written ÷ user bytes", "five passes", Show::Measure("write_amplification"), ""),
    ("random fill: disk ÷ live bytes", "random fill", Show::Measure("disk_per_live"), ""),
    ("overwrite: disk ÷ live bytes", "overwrite", Show::Measure("disk_per_live"), ""),
    ("five passes: disk ÷ live bytes, mean", "five passes", Show::Measure("disk_mean_per_live"), ""),
    ("five passes: disk ÷ live bytes, peak", "five passes", Show::Measure("disk_peak_per_live"), ""),
    ("", "five passes", Show::Thousands, "k/s"),
    ("peak memory of the main sequence", "memory", Show::Measure("peak_mib"), "MiB"),
    ("not backed by files, at its end", "memory", Show::Measure("anonymous_mib"), "MiB"),
    ("", "16 KiB values: fill", Show::Thousands, "k/s"),
    ("", "16 KiB values: get", Show::Thousands, "k/s"),
    ("", "16 KiB values: full scan", Show::Thousands, "k/s"),
    (
        "16 KiB values: written ÷ user bytes",
        "16 KiB values: fill",
        Show::Measure("write_amplification"),
        "",
    ),
    ("", "LZ4: fill", Show::Thousands, "k/s"),
    ("", "LZ4: get", Show::Thousands, "k/s"),
    ("", "LZ4: full scan", Show::Millions, "M rows/s"),
    ("LZ4: disk ÷ live bytes", "LZ4: fill", Show::Measure("disk_per_live"), ""),
    ("", "queue: put, delete", Show::Thousands, "k/s"),
    ("queue: look at the head, p50", "queue: put, delete", Show::Measure("p50_us"), "µs"),
    ("queue: look at the head, longest", "queue: put, delete", Show::Measure("longest_us"), "µs"),
    ("", "YCSB A", Show::Thousands, "k/s"),
    ("", "YCSB B", Show::Thousands, "k/s"),
    ("", "YCSB C", Show::Thousands, "k/s"),
    ("", "YCSB D", Show::Thousands, "k/s"),
    ("", "YCSB E", Show::Thousands, "k/s"),
    ("", "YCSB F", Show::Thousands, "k/s"),
    ("", "8 B values: fill", Show::Thousands, "k/s"),
    ("", "8 B values: get", Show::Thousands, "k/s"),
    ("", "400 B values: fill", Show::Thousands, "k/s"),
    ("", "400 B values: get", Show::Thousands, "k/s"),
    ("", "4 KiB values: fill", Show::Thousands, "k/s"),
    ("", "4 KiB values: get", Show::Thousands, "k/s"),
    ("", "64 KiB values: fill", Show::Thousands, "k/s"),
    ("", "64 KiB values: get", Show::Thousands, "k/s"),
    ("", "1 MiB values: fill", Show::Thousands, "k/s"),
    ("", "1 MiB values: get", Show::Thousands, "k/s"),
];

/// The engine that the others are held against.
const OURS: &str = "esker";
/// The engine that is the measuring loop.
const NULL: &str = "null";
/// Their single puts come in batches of 1,000.
const BATCHED: &[&str] = &["lmdb", "redb"];

impl Show {
    /// What a row shows of `figure`, if `null_nanos` an operation are the measuring loop's.
    fn of(self, figure: &Figure, null_nanos: f64) -> Option<f64> {
        let nanos = figure.seconds * 1e9 / figure.operations as f64;
        match self {
            Show::Thousands => Some(1e6 / (nanos - null_nanos).max(0.1)),
            Show::Millions => Some(1e3 / (nanos - null_nanos).max(0.1)),
            Show::Gross => Some(figure.per_second() / 1e3),
            Show::Millis => Some(figure.seconds * 1e3),
            Show::Measure(name) => figure.measures.get(name).copied(),
        }
    }

    /// Whether more is better.
    fn more_is_better(self) -> bool {
        matches!(self, Show::Thousands | Show::Millions | Show::Gross)
    }

    /// Whether the measuring loop's time is taken away.
    fn is_net(self) -> bool {
        matches!(self, Show::Thousands | Show::Millions)
    }
}

/// The figures of one engine: by workload, one of each round.
type Figures<'a> = BTreeMap<&'a str, Vec<&'a Figure>>;

/// Print the record at `path`.
pub(crate) fn print(path: &Path) -> Result<()> {
    print!("{}", table(&Record::read(path)?)?);
    Ok(())
}

/// The record as Markdown.
fn table(record: &Record) -> Result<String> {
    let mut engines: BTreeMap<&str, Figures<'_>> = BTreeMap::new();
    for run in &record.runs {
        let of_engine = engines.entry(&run.engine).or_default();
        for figure in &run.figures {
            of_engine.entry(&figure.workload).or_default().push(figure);
        }
    }
    let null = engines.remove(NULL).unwrap_or_default();
    // Ours first, so that the ratios' columns follow the others' figures.
    let mut names: Vec<&str> = engines.keys().copied().collect();
    names.sort_by_key(|name| (*name != OURS, *name));
    let others = names.iter().filter(|name| **name != OURS);

    let mut out = String::new();
    writeln!(out, "{} rows; {}\n", record.rows, record.machine)?;
    let versions: Vec<String> =
        record.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    writeln!(out, "{}\n", versions.join(", "))?;
    let ratios: Vec<String> = others.map(|name| format!("to {name}")).collect();
    writeln!(out, "| workload | unit | {} | {} | loop, ns |", names.join(" | "), ratios.join(" | "))?;
    writeln!(out, "|---|---|{}---|", "---|".repeat(names.len() + ratios.len()))?;
    for (label, workload, show, unit) in ROWS {
        let values = |figures: &Figures<'_>, null_nanos: f64| -> Vec<f64> {
            let figures = figures.get(workload).into_iter().flatten();
            figures.filter_map(|figure| show.of(figure, null_nanos)).collect()
        };
        let loop_nanos = null.get(workload).map(|figures| median(&nanos(figures)));
        let null_nanos = if show.is_net() { loop_nanos.flatten().unwrap_or(0.0) } else { 0.0 };
        let columns: Vec<Vec<f64>> = names.iter().map(|name| values(&engines[name], null_nanos)).collect();
        if columns.iter().all(Vec::is_empty) {
            continue;
        }
        let label = if label.is_empty() { workload } else { label };
        write!(out, "| {label} | {unit} |")?;
        for (name, column) in names.iter().zip(&columns) {
            let mark = if BATCHED.contains(name) && is_grouped(workload) { " b" } else { "" };
            write!(out, " {}{mark} |", cell(column))?;
        }
        let ours = names.iter().position(|name| *name == OURS).and_then(|at| median(&columns[at]));
        for (_, column) in names.iter().zip(&columns).filter(|(name, _)| **name != OURS) {
            write!(out, " {} |", ratio(ours, median(column), show.more_is_better()))?;
        }
        let null_cell = if null_nanos > 0.0 { format!("{null_nanos:.0}") } else { String::new() };
        writeln!(out, " {null_cell} |")?;
    }
    Ok(out)
}

/// Nanoseconds an operation, of every run that had one.
fn nanos(figures: &[&Figure]) -> Vec<f64> {
    let figures = figures.iter().filter(|figure| figure.operations > 0);
    figures.map(|figure| figure.seconds * 1e9 / figure.operations as f64).collect()
}

/// Whether engines that are not made for single puts write in batches of 1,000 there.
fn is_grouped(workload: &str) -> bool {
    matches!(
        workload,
        "ordered fill"
            | "random fill"
            | "random fill, four threads"
            | "overwrite"
            | "delete"
            | "five passes"
            | "one writer, one reader: writes"
            | "16 KiB values: fill"
    )
}

/// The middle of `values`, if there are any.
fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle)?;
    if values.len() % 2 == 1 { Some(*upper) } else { Some(f64::midpoint(*upper, values[middle - 1])) }
}

/// The median, and by how many percent of it the rounds lie to either side of their middle.
fn cell(values: &[f64]) -> String {
    let Some(middle) = median(values) else { return "–".to_owned() };
    let digits = match middle {
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{middle:.digits$}");
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    if values.len() < 2 || middle == 0.0 {
        return text;
    }
    format!("{text} ±{:.0} %", (most - least) / middle * 50.0)
}

/// How much better ours is: above 1 is better, whatever the unit.
fn ratio(ours: Option<f64>, theirs: Option<f64>, more_is_better: bool) -> String {
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return "–".to_owned() };
    let (upper, lower) = if more_is_better { (ours, theirs) } else { (theirs, ours) };
    if lower <= 0.0 {
        return "–".to_owned();
    }
    let ratio = upper / lower;
    if ratio < 1.0 { format!("**{ratio:.2}**") } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Run;

    fn run(round: u32, engine: &str, workload: &str, seconds: f64) -> Run {
        let measures = BTreeMap::from([("write_amplification".to_owned(), seconds)]);
        let figure = Figure { workload: workload.into(), operations: 1_000_000, seconds, measures };
        Run { round, engine: engine.into(), sequence: "main".into(), figures: vec![figure] }
    }

    #[test]
    fn a_row_holds_net_medians_spread_and_ratios() {
        let seconds = [("null", 0.1), ("esker", 1.1), ("rocksdb", 4.1)];
        let runs = (0..3)
            .flat_map(|round| seconds.map(|(engine, seconds)| run(round, engine, "random fill", seconds)));
        let record =
            Record { rows: 5, machine: "m".into(), versions: BTreeMap::new(), runs: runs.collect() };
        let text = table(&record).expect("a table");
        assert!(text.contains("| random fill | k/s | 1000 ±0 % | 250 ±0 % | 4.00 | 100 |"), "{text}");
        assert!(
            text.contains("| random fill: written ÷ user bytes |  | 1.10 ±0 % | 4.10 ±0 % | 3.73 |  |"),
            "{text}"
        );
    }

    #[test]
    fn medians_and_losses_show() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[]), None);
        assert_eq!(cell(&[90.0, 100.0, 110.0]), "100 ±10 %");
        assert_eq!(ratio(Some(1.0), Some(2.0), true), "**0.50**");
        assert_eq!(ratio(Some(1.0), Some(2.0), false), "2.00");
    }

    #[test]
    fn every_row_is_shown_once() {
        let mut seen = std::collections::BTreeSet::new();
        for (label, workload, _, _) in ROWS {
            assert!(seen.insert(if label.is_empty() { workload } else { label }), "{workload}");
        }
    }
}
