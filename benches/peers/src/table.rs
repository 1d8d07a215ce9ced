//! A record as a table for people: medians over the rounds, their spread, and how esker stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::record::{Figure, Record, listed};
use crate::rows::{ROWS, Show};
use crate::store::Result;

/// The engine that the others are held against.
const OURS: &str = "esker";
/// The engine that is the measuring loop.
const NULL: &str = "null";
/// Their single puts come in batches, of 1,000 unless values are long.
const BATCHED: &[&str] = &["lmdb", "redb"];

/// The most memory while a workload was measured.
const PEAK: Show = Show::Measure("peak_mib");

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
    let others = names.iter().filter(|name| **name != OURS).map(|name| format!("to {name}"));
    let heads: Vec<String> = names.iter().map(|name| (*name).to_owned()).chain(others).collect();

    let mut out = String::new();
    writeln!(out, "{} rows; {}\n", record.rows, record.machine)?;
    writeln!(out, "{}\n", listed(&record.versions))?;
    if !record.build.is_empty() {
        writeln!(out, "{}\n", listed(&record.build))?;
    }
    writeln!(out, "| workload | unit | rounds | {} | loop, ns |", heads.join(" | "))?;
    writeln!(out, "|---|---|---|{}---|", "---|".repeat(heads.len()))?;
    let columns_of = |workload: &str, show: Show, null_nanos: f64| -> Vec<Vec<f64>> {
        let of = |name| engines[name].get(workload).into_iter().flatten();
        let values = |name| of(name).filter_map(|figure| show.of(figure, null_nanos)).collect();
        names.iter().map(values).collect()
    };
    let mut all_net = true;
    for (label, workload, show, unit) in ROWS {
        let loop_nanos = null.get(workload).and_then(|figures| median(&nanos(figures)));
        let null_nanos = loop_nanos.filter(|_| show.is_net()).unwrap_or(0.0);
        let columns = columns_of(workload, *show, null_nanos);
        if columns.iter().all(Vec::is_empty) {
            continue;
        }
        let label = if label.is_empty() { workload } else { label };
        write!(out, "| {label} | {unit} | {} |", rounds(&columns))?;
        write_columns(&mut out, &names, &columns, is_grouped(workload), show.more_is_better())?;
        let null_cell = match loop_nanos {
            _ if !show.is_net() => String::new(),
            Some(nanos) => format!("{nanos:.0}"),
            None => "–".to_owned(),
        };
        all_net &= null_cell != "–";
        writeln!(out, " {null_cell} |")?;
    }
    if !all_net {
        writeln!(out, "\nloop –: the harness's own time was not measured, and is in that row's figures.")?;
    }
    write_peaks(&mut out, &names, &heads, |workload| columns_of(workload, PEAK, 0.0))?;
    Ok(out)
}

/// What each engine and then each ratio has in a row, `columns` being the rounds' values of each of `names`.
fn write_columns(
    out: &mut String,
    names: &[&str],
    columns: &[Vec<f64>],
    is_grouped: bool,
    more_is_better: bool,
) -> Result<()> {
    for (name, column) in names.iter().zip(columns) {
        let mark = if BATCHED.contains(name) && is_grouped { " b" } else { "" };
        write!(out, " {}{mark} |", cell(column))?;
    }
    let ours = names.iter().position(|name| *name == OURS).and_then(|at| median(&columns[at]));
    for (_, column) in names.iter().zip(columns).filter(|(name, _)| **name != OURS) {
        write!(out, " {} |", ratio(ours, median(column), more_is_better))?;
    }
    Ok(())
}

/// The most memory while each workload was measured, as a table of its own.
fn write_peaks(
    out: &mut String,
    names: &[&str],
    heads: &[String],
    columns_of: impl Fn(&str) -> Vec<Vec<f64>>,
) -> Result<()> {
    let mut workloads: Vec<&str> = ROWS.iter().map(|(_, workload, _, _)| *workload).collect();
    // Rows of one workload lie together or not; it is told once, where it comes first.
    let mut seen = BTreeSet::new();
    workloads.retain(|workload| seen.insert(*workload));
    let mut is_first = true;
    for workload in workloads {
        let columns = columns_of(workload);
        if columns.iter().all(Vec::is_empty) {
            continue;
        }
        if std::mem::take(&mut is_first) {
            writeln!(out, "\n| peak memory during | unit | rounds | {} |", heads.join(" | "))?;
            writeln!(out, "|---|---|---|{}", "---|".repeat(heads.len()))?;
        }
        write!(out, "| {workload} | MiB | {} |", rounds(&columns))?;
        write_columns(out, names, &columns, is_grouped(workload), false)?;
        writeln!(out)?;
    }
    Ok(())
}

/// How many rounds a row is from; the least and the most if that differs from engine to engine. Engines without figures do
/// not count.
fn rounds(columns: &[Vec<f64>]) -> String {
    let counts = || columns.iter().map(Vec::len).filter(|count| *count > 0);
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

/// Nanoseconds an operation, of every run that had one.
fn nanos(figures: &[&Figure]) -> Vec<f64> {
    let figures = figures.iter().filter(|figure| figure.operations > 0);
    figures.map(|figure| figure.seconds * 1e9 / figure.operations as f64).collect()
}

/// Whether engines that are not made for single puts write in batches there: values of 1 MiB have a batch each.
fn is_grouped(workload: &str) -> bool {
    matches!(
        workload,
        "ordered fill"
            | "ordered fill, mapped log"
            | "random fill"
            | "random fill, four threads"
            | "overwrite"
            | "delete"
            | "five passes"
            | "one writer, one reader: writes"
            | "one writer, one scanner: writes"
            | "capped: fill, without the cap"
            | "sustained: fill"
            | "sustained: overwrite"
            | "offered: capacity"
            | "offered: 50 %"
            | "offered: 80 %"
            | "offered: 95 %"
            | "tuned: fill"
            | "tuned: overwrite"
            | "tuned: delete"
            | "tuned: ordered fill"
    ) || workload.ends_with(" keys: fill")
        || workload.ends_with(" values: fill") && workload != "1 MiB values: fill"
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
        let (engine, sequence) = (engine.to_owned(), "main".to_owned());
        Run { round, engine, sequence, began_unix_seconds: None, figures: vec![figure] }
    }

    #[test]
    fn a_row_holds_net_medians_spread_and_ratios() {
        let seconds = [("null", 0.1), ("esker", 1.1), ("rocksdb", 4.1)];
        let runs = (0..3)
            .flat_map(|round| seconds.map(|(engine, seconds)| run(round, engine, "random fill", seconds)));
        let text = table(&record(runs.collect())).expect("a table");
        assert!(text.contains("| random fill | k/s | 3 | 1000 ±0 % | 250 ±0 % | 4.00 | 100 |"), "{text}");
        assert!(
            text.contains("| random fill: written ÷ user bytes |  | 3 | 1.10 ±0 % | 4.10 ±0 % | 3.73 |  |"),
            "{text}"
        );
    }

    fn record(runs: Vec<Run>) -> Record {
        Record { rows: 5, machine: "m".into(), runs, ..Record::default() }
    }

    #[test]
    fn a_loop_that_was_not_measured_is_said_to_be_so() {
        let note = "the harness's own time was not measured";
        let runs = vec![run(0, "esker", "random fill", 1.0), run(0, "null", "random fill", 0.1)];
        let with = table(&record(runs.clone())).expect("a table");
        assert!(!with.contains(note), "{with}");
        let without = table(&record(runs[..1].to_vec())).expect("a table");
        assert!(without.contains(note), "{without}");
        assert!(without.contains("| rounds | esker | loop, ns |"), "{without}");
        assert!(without.contains("| random fill | k/s | 1 | 1000 | – |"), "{without}");
    }

    #[test]
    fn a_row_says_how_many_rounds_it_is_from() {
        let mut runs = vec![run(0, "esker", "random fill", 1.0), run(0, "lmdb", "random fill", 1.0)];
        let one = table(&record(runs.clone())).expect("a table");
        assert!(one.contains("| random fill | k/s | 1 | 1000 | 1000 b |"), "{one}");
        runs.push(run(1, "esker", "random fill", 1.0));
        let uneven = table(&record(runs)).expect("a table");
        assert!(uneven.contains("| random fill | k/s | 1 to 2 |"), "{uneven}");
    }

    #[test]
    fn fills_in_batches_are_marked() {
        let marked = |workload| {
            let text = table(&record(vec![run(0, "lmdb", workload, 1.0)])).expect("a table");
            text.contains("| 1000 b |")
        };
        for workload in ["8 B values: fill", "64 KiB values: fill", "tuned: 16 KiB values: fill"] {
            assert!(marked(workload), "{workload}");
        }
        assert!(!marked("1 MiB values: fill") && !marked("random fill, one by one"));
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
    fn peaks_of_memory_are_a_table_of_their_own() {
        let with_peak = |engine, peak| {
            let mut run = run(0, engine, "overwrite", 1.0);
            run.figures[0].measures.insert("peak_mib".to_owned(), peak);
            run
        };
        let text = table(&record(vec![with_peak("esker", 150.0), with_peak("rocksdb", 120.0)]));
        let text = text.expect("a table");
        let (rows, peaks) = text.split_once("| peak memory during | unit | rounds | esker |").expect("two");
        assert!(rows.contains("| overwrite | k/s |"), "{text}");
        assert_eq!(peaks.matches("| overwrite | MiB | 1 | 150 | 120 | **0.80** |").count(), 1, "{text}");
        let without = table(&record(vec![run(0, "esker", "overwrite", 1.0)])).expect("a table");
        assert!(!without.contains("peak memory during"), "{without}");
    }

    #[test]
    fn every_row_is_shown_once() {
        let mut seen = std::collections::BTreeSet::new();
        for (label, workload, _, _) in ROWS {
            assert!(seen.insert(if label.is_empty() { workload } else { label }), "{workload}");
        }
    }
}
