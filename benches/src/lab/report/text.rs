//! Tables for a terminal.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, Table};
use std::fmt::Write;

use super::units::{duration, short};
use super::{ExperimentReport, Panel, Report, Series, big_o, slope, study_text};

pub(super) fn render(report: &Report) -> String {
    let mut out = format!(
        "esker lab {} on {}\n{}\n{}\n",
        report.version,
        report.store,
        report.options_line(),
        report.machine
    );
    for experiment in &report.experiments {
        render_experiment(&mut out, experiment).expect("writing to a string");
    }
    for study in &report.studies {
        study_text::render(&mut out, study).expect("writing to a string");
    }
    out
}

pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header.iter().map(Cell::new));
    table
}

fn render_experiment(out: &mut String, experiment: &ExperimentReport) -> std::fmt::Result {
    writeln!(out, "\n{}  {}\n\nClaimed: {}", experiment.name, experiment.title, experiment.claimed)?;
    writeln!(out, "Predicted: {}\nDone: {}\n", experiment.predicted, experiment.done())?;
    for panel in &experiment.panels {
        writeln!(out, "{}\n{}\n", panel.title, verdicts(panel))?;
    }
    for note in &experiment.notes {
        writeln!(out, "- {note}")?;
    }
    Ok(())
}

fn verdicts(panel: &Panel) -> Table {
    let mut table =
        table(&["layout", "claim", "counters", "keys touched", "time", "slope of time", "form", "verdict"]);
    for series in &panel.series {
        table.add_row([
            series.layout.to_owned(),
            big_o(series.predicted).to_owned(),
            counters(series),
            span(series, |point| {
                short(point.counted.read + point.counted.written + point.counted.tombstones)
            }),
            span(series, |point| duration(point.nanos.median)),
            slope(series.time_fit.as_ref()),
            series.time_fit.map_or("–".into(), |fit| fit.form.to_string()),
            series.verdict.outcome.to_string(),
        ]);
    }
    table
}

/// "equal (12,345)" or how many differ.
fn counters(series: &Series) -> String {
    let tally = &series.counters;
    if tally.all_equal() {
        format!("equal ({})", tally.operations)
    } else {
        format!("{} of {} differ", tally.operations - tally.equal, tally.operations)
    }
}

/// A value at the first and at the last point.
fn span(series: &Series, value: impl Fn(&super::Point) -> String) -> String {
    match (series.points.first(), series.points.last()) {
        (Some(first), Some(last)) => format!("{} → {}", value(first), value(last)),
        _ => "–".into(),
    }
}
