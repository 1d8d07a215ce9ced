//! A study for a terminal.

use std::fmt::Write;

use crate::lab::study::{Bars, Claim, Exhibit, Heat, Lines, Raster, Study, Table, Unit};

use super::study_html::labelled_column;
use super::text::table;
use super::units::{labelled, number, tick, value};

pub(super) fn render(out: &mut String, study: &Study) -> std::fmt::Result {
    writeln!(out, "\n{}  {} ({})\n\nDone: {}\n", study.name, study.title, study.rows, study.done())?;
    for claim in &study.claims {
        let Claim { rows, claimed, predicted, counted, timed, verdict } = claim;
        writeln!(out, "{rows}: {}", verdict.outcome)?;
        for (name, text) in [
            ("claimed", claimed),
            ("predicted", predicted),
            ("counted", counted),
            ("timed", timed),
            ("because", &verdict.reason),
        ] {
            writeln!(out, "    {name}: {text}")?;
        }
    }
    for exhibit in &study.exhibits {
        match exhibit {
            Exhibit::Table(shown) if shown.folded => {}
            Exhibit::Table(shown) => writeln!(out, "\n{}\n{}", shown.title, plain(shown))?,
            Exhibit::Heat(shown) => writeln!(out, "\n{}\n{}", shown.title, heat(shown))?,
            Exhibit::Lines(shown) => writeln!(out, "\n{}\n{}", shown.title, lines(shown))?,
            Exhibit::Bars(shown) => writeln!(out, "\n{}\n{}", shown.title, bars(shown))?,
            Exhibit::Raster(shown) => writeln!(out, "\n{}\n{}", shown.title, raster(shown))?,
        }
    }
    writeln!(out)?;
    for note in &study.notes {
        writeln!(out, "- {note}")?;
    }
    let mut sum = crate::lab::model::Tally::default();
    study.formulas.iter().for_each(|formula| sum.add(&formula.tally));
    writeln!(out, "- Counters: {} of {} operations equal their formula.", sum.equal, sum.operations)?;
    for formula in study.formulas.iter().filter(|formula| !formula.tally.all_equal()) {
        let first = formula.tally.first_mismatch.as_deref().unwrap_or("nothing was compared");
        writeln!(out, "  differs: {}, which must cost {}: {first}", formula.operation, formula.formula)?;
    }
    Ok(())
}

fn plain(shown: &Table) -> comfy_table::Table {
    let header: Vec<String> = shown.columns.iter().map(labelled_column).collect();
    let mut rows = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &shown.rows {
        rows.add_row(row.iter().zip(&shown.columns).map(|(cell, column)| value(cell, &column.unit)));
    }
    rows
}

fn heat(shown: &Heat) -> comfy_table::Table {
    let header: Vec<&str> = std::iter::once("").chain(shown.columns.iter().map(String::as_str)).collect();
    let mut rows = table(&header);
    for (name, cells) in &shown.rows {
        let cells = cells.iter().map(|cell| {
            let value = cell.value.map_or("–".into(), |value| number(value, &shown.unit));
            format!("{value}\n{}", cell.remark)
        });
        rows.add_row(std::iter::once(name.clone()).chain(cells));
    }
    rows
}

/// One row a line, one column an x.
fn lines(shown: &Lines) -> comfy_table::Table {
    let mut places: Vec<f64> =
        shown.lines.iter().flat_map(|line| line.points.iter().map(|point| point.x)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let corner = format!("{} by {}", shown.y.label, labelled(&shown.x.label, &shown.x.unit));
    let header: Vec<String> =
        std::iter::once(corner).chain(places.iter().map(|x| tick(*x, &shown.x.unit))).collect();
    let mut rows = table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for line in &shown.lines {
        let at = |x: &f64| {
            let point = line.points.iter().find(|point| point.x.total_cmp(x).is_eq());
            point.map_or("–".into(), |point| number(point.y.median, &shown.y.unit))
        };
        rows.add_row(std::iter::once(line.name.clone()).chain(places.iter().map(at)));
    }
    rows
}

fn bars(shown: &Bars) -> comfy_table::Table {
    let header: Vec<&str> =
        std::iter::once(shown.value.label.as_str()).chain(shown.bars.iter().map(String::as_str)).collect();
    let mut rows = table(&header);
    for group in &shown.groups {
        let values = group.values.iter();
        let values = values.map(|v| v.map_or("–".into(), |v| number(v, &shown.value.unit)));
        rows.add_row(std::iter::once(group.name.clone()).chain(values));
    }
    rows
}

/// A character a cell, the fuller the greater its value.
fn raster(shown: &Raster) -> String {
    const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
    let mut out = String::new();
    for row in &shown.cells {
        out.extend(row.iter().map(|value| SHADES[shown.shade(*value, SHADES.len() - 1)]));
        out.push('\n');
    }
    let (x, y) = (&shown.x, &shown.y);
    let dark = tick(shown.greatest(), &Unit::Count);
    let (counts, right, up) = (&shown.counts, &x.label, &y.label);
    let ends = format!("{right}: {} to {}; {up}, from below: {} to {}", x.from, x.to, y.from, y.to);
    out + &format!("{ends}; █ is up to {dark} {counts}")
}
