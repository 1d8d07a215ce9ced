//! A study on the page.

use std::fmt::Write;

use crate::lab::study::{Claim, Exhibit, Formula, Lines, Study, Table};
use crate::lab::verdict::Outcome;

use super::chart::{bars, heat};
use super::html::{class_of_outcome, escape, tally};
use super::raster::raster;
use super::svg::{self, Curve, Plot, Spot};
use super::units::{grouped, labelled, value};

/// Colours there are.
const COLOURS: usize = 8;

/// The names in charts, in the order of their first appearance: a name has one colour in all charts.
struct Names(Vec<String>);

impl Names {
    fn of(study: &Study) -> Names {
        let mut names = Names(Vec::new());
        for exhibit in &study.exhibits {
            match exhibit {
                Exhibit::Lines(lines) => lines.lines.iter().for_each(|line| names.add(&line.name)),
                Exhibit::Bars(bars) => bars.bars.iter().for_each(|bar| names.add(bar)),
                Exhibit::Table(_) | Exhibit::Heat(_) | Exhibit::Raster(_) => {}
            }
        }
        names
    }

    fn add(&mut self, name: &str) {
        if !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }

    fn class(&self, name: &str) -> String {
        let place = self.0.iter().position(|known| known == name).unwrap_or(0);
        format!("c{}", place % COLOURS)
    }
}

pub(super) fn section(out: &mut String, study: &Study) -> std::fmt::Result {
    let names = Names::of(study);
    writeln!(
        out,
        "<section id=\"{}\">\n<h2>{} · {}</h2>\n<p class=\"tally\">Claims {}: {}</p>",
        escape(&study.name),
        escape(&study.name),
        escape(&study.title),
        escape(&study.rows),
        tally(|outcome| study.outcomes(outcome))
    )?;
    writeln!(out, "<h3>What was done</h3><p>{}</p>", escape(&study.done()))?;
    writeln!(out, "<h3>Claims</h3>\n<div class=\"claims\">")?;
    for claim in &study.claims {
        one_claim(out, claim)?;
    }
    writeln!(out, "</div>")?;
    let mut charts = false;
    for exhibit in &study.exhibits {
        let chart = matches!(exhibit, Exhibit::Lines(_) | Exhibit::Bars(_) | Exhibit::Raster(_));
        if chart != charts {
            writeln!(out, "{}", if chart { "<div class=\"charts\">" } else { "</div>" })?;
            charts = chart;
        }
        match exhibit {
            Exhibit::Table(shown) => table(out, shown)?,
            Exhibit::Heat(shown) => heat(out, shown)?,
            Exhibit::Lines(shown) => {
                let drawn = svg::chart(&plot(shown, &names));
                figure(
                    out,
                    &shown.title,
                    shown.lines.iter().map(|line| line.name.as_str()),
                    &names,
                    &drawn,
                )?;
            }
            Exhibit::Bars(shown) => {
                let drawn = bars(shown, |name| names.class(name));
                figure(out, &shown.title, shown.bars.iter().map(String::as_str), &names, &drawn)?;
            }
            Exhibit::Raster(shown) => {
                let drawn = raster(shown);
                figure(out, &shown.title, std::iter::empty(), &names, &drawn)?;
            }
        }
    }
    if charts {
        writeln!(out, "</div>")?;
    }
    if !study.notes.is_empty() {
        writeln!(out, "<h3>Notes</h3>\n<ul>")?;
        for note in &study.notes {
            writeln!(out, "<li>{}</li>", escape(note))?;
        }
        writeln!(out, "</ul>")?;
    }
    formulas(out, &study.formulas)?;
    writeln!(out, "</section>")
}

fn one_claim(out: &mut String, claim: &Claim) -> std::fmt::Result {
    let Claim { rows, claimed, predicted, counted, timed, verdict } = claim;
    writeln!(
        out,
        "<article><h4>{} <span class=\"{}\">{}</span></h4><dl>",
        escape(rows),
        class_of_outcome(verdict.outcome),
        verdict.outcome
    )?;
    for (name, text) in [
        ("Claimed", claimed),
        ("Predicted", predicted),
        ("Counted", counted),
        ("Timed", timed),
        ("Because", &verdict.reason),
    ] {
        writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(text))?;
    }
    writeln!(out, "</dl></article>")
}

fn plot<'a>(lines: &'a Lines, names: &Names) -> Plot<'a> {
    let curve = |line: &crate::lab::study::Line| Curve {
        class: names.class(&line.name),
        name: line.name.clone(),
        spots: line.points.iter().map(|p| Spot { x: p.x, y: p.y, fitted: true }).collect(),
    };
    Plot {
        title: &lines.title,
        x: lines.x.clone(),
        y: lines.y.clone(),
        curves: lines.lines.iter().map(curve).collect(),
    }
}

fn figure<'a>(
    out: &mut String,
    title: &str,
    shown: impl Iterator<Item = &'a str>,
    names: &Names,
    drawn: &str,
) -> std::fmt::Result {
    writeln!(out, "<figure><figcaption>{}</figcaption>\n<ul class=\"legend\">", escape(title))?;
    for name in shown {
        writeln!(
            out,
            "<li><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\"><g class=\"s {}\"><polyline points=\"1,5 27,5\"/>\
             <circle cx=\"14\" cy=\"5\" r=\"2.8\"/></g></svg>{}</li>",
            names.class(name),
            escape(name)
        )?;
    }
    writeln!(out, "</ul>\n{drawn}</figure>")
}

fn table(out: &mut String, table: &Table) -> std::fmt::Result {
    let title = escape(&table.title);
    if table.folded {
        writeln!(out, "<details><summary>{title}</summary>")?;
    } else {
        writeln!(out, "<h3>{title}</h3>")?;
    }
    writeln!(out, "<div class=\"scroll\"><table class=\"plain\">\n<thead><tr>")?;
    for column in &table.columns {
        writeln!(out, "<th>{}</th>", escape(&labelled_column(column)))?;
    }
    writeln!(out, "</tr></thead>\n<tbody>")?;
    for row in &table.rows {
        out.push_str("<tr>");
        for (cell, column) in row.iter().zip(&table.columns) {
            write!(out, "<td>{}</td>", escape(&value(cell, &column.unit)))?;
        }
        out.push_str("</tr>\n");
    }
    writeln!(out, "</tbody></table></div>{}", if table.folded { "</details>" } else { "" })
}

/// A heading with its unit, where the numbers below do not show it.
pub(super) fn labelled_column(column: &crate::lab::study::Column) -> String {
    match column.unit {
        crate::lab::study::Unit::Of(_) => labelled(&column.name, &column.unit),
        _ => column.name.clone(),
    }
}

/// What was compared, formula by formula.
fn formulas(out: &mut String, formulas: &[Formula]) -> std::fmt::Result {
    writeln!(
        out,
        "<details><summary>Counters against formulas</summary>\n<div class=\"scroll\"><table>\n<thead><tr>\
         <th>operation</th><th>must cost</th><th>compared</th><th>equal</th><th>first that differs</th></tr></thead>\n<tbody>"
    )?;
    for Formula { operation, formula, tally } in formulas {
        let class = if tally.all_equal() { "" } else { " class=\"bad\"" };
        writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td{class}>{}</td><td>{}</td></tr>",
            escape(operation),
            escape(formula),
            grouped(tally.operations),
            grouped(tally.equal),
            escape(tally.first_mismatch.as_deref().unwrap_or("–"))
        )?;
    }
    writeln!(out, "</tbody></table></div></details>")
}

/// The verdicts of a study, for the list at the top of the page.
pub(super) fn summary(study: &Study) -> String {
    tally(|outcome: Outcome| study.outcomes(outcome))
}
