//! One self-contained page: style and charts inline, no scripts, nothing fetched.

use std::fmt::Write;

use super::svg::{Curve, Plot, Spot};
use super::units::{duration, grouped, short, signed};
use super::{
    ExperimentReport, MeanCounters, Panel, Point, Report, Series, article_name, big_o, slope, study_html,
    svg,
};
use crate::lab::harness::OWN;
use crate::lab::model::{Form, Operation};
use crate::lab::stats::Interval;
use crate::lab::study::{Axis, Unit};
use crate::lab::verdict::Outcome;

const STYLE: &str = include_str!("style.css");

pub(super) fn render(report: &Report) -> String {
    let mut out = String::with_capacity(256 * 1024);
    page(&mut out, report).expect("writing to a string");
    out
}

/// Text as it may stand between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn page(out: &mut String, report: &Report) -> std::fmt::Result {
    let experiments = report.experiments.iter();
    let followers = experiments.map(|e| (e.name.as_str(), e.title.as_str(), tally(|o| e.outcomes(o))));
    let studies =
        report.studies.iter().map(|s| (s.name.as_str(), s.title.as_str(), study_html::summary(s)));
    let contents: Vec<(&str, &str, String)> = followers.chain(studies).collect();
    let names: Vec<&str> = contents.iter().map(|(name, ..)| *name).collect();
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>esker lab: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>",
        names.join(", ")
    )?;
    writeln!(
        out,
        "<header>\n<h1>Layouts put to the test</h1>\n<p class=\"lead\">{} operations compared with their \
         formulas, counter by counter: {}.</p>",
        grouped(report.compared()),
        if report.counters_equal() {
            "every one equal"
        } else {
            "<strong class=\"bad\">some differ</strong>"
        }
    )?;
    writeln!(out, "<ul class=\"contents\">")?;
    for (name, title, tally) in &contents {
        writeln!(
            out,
            "<li><a href=\"#{name}\">{name} · {}</a> <small>{tally}</small></li>",
            escape(title)
        )?;
    }
    writeln!(out, "</ul>")?;
    writeln!(out, "<dl>")?;
    let build = if report.optimised { "optimised" } else { "not optimised: times mean nothing" };
    for (name, value) in [
        ("Store", report.store.clone()),
        ("Options", report.options_line()),
        ("Machine", report.machine.clone()),
        ("Program", format!("esker {}, {build}", report.version)),
    ] {
        writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value))?;
    }
    writeln!(out, "</dl>\n</header>")?;
    for experiment in &report.experiments {
        section(out, experiment)?;
    }
    for study in &report.studies {
        study_html::section(out, study)?;
    }
    writeln!(out, "<section>\n<h2>How to read this</h2>\n{COUNTERS}")?;
    let (followers, studies) = (!report.experiments.is_empty(), !report.studies.is_empty());
    let fits = followers || report.studies.iter().any(|study| study.name == OWN);
    for (is_true, text) in [(followers, TIMES), (studies, STUDY_TIMES), (fits, FORMS)] {
        if is_true {
            writeln!(out, "{text}")?;
        }
    }
    writeln!(out, "{VERDICTS}\n</section>\n</main>\n</body>\n</html>")
}

const COUNTERS: &str = "<p><b>Counters</b> are kept by the store, below the layout, and compared with a formula at \
    every single operation.</p>";

const TIMES: &str = "<p><b>Time</b>, of experiments on followers: that of the call alone; within a repetition the mean \
    without the fastest and slowest 2.5 %, over repetitions the median; bands are 95 % bootstrap intervals. Hollow \
    points do not enter the fits.</p>";

const STUDY_TIMES: &str = "<p><b>Time</b>, of studies: that of the call alone, and unless a study says otherwise the \
    median of all calls; bands are 95 % bootstrap intervals.</p>";

const FORMS: &str = "<p><b>Form</b>: constant, straight line and logarithm compared by the Bayesian information \
    criterion, each point uncertain by its bootstrap error and at least 5 %. A rising line wins with a lead above 6 \
    over the constant and above 2 over the logarithm, and a log-log slope of at least ¼; any other rise is that of the \
    store's depth and caches, and is shown as a percentage. <b>Slope</b>: of the logarithm of the cost over that of x, \
    with its 95 % interval.</p>";

const VERDICTS: &str = "<p><b>Verdict</b>: <i>reproduced</i> when every counter equals its formula and the time is as \
    claimed, which in an experiment on followers is its form; <i>shape only</i> when just the time is; <i>refuted</i> \
    when a count or a counterexample contradicts the claim; else <i>not reproduced</i>.</p>";

/// How many claims came out how: "3 reproduced, 1 refuted".
pub(super) fn tally(of: impl Fn(Outcome) -> usize) -> String {
    let counts = Outcome::ALL.into_iter().map(|outcome| (of(outcome), outcome));
    let shown = counts.filter(|(count, _)| *count > 0).map(|(count, outcome)| format!("{count} {outcome}"));
    shown.collect::<Vec<_>>().join(", ")
}

/// The class that colours an outcome.
pub(super) fn class_of_outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Reproduced => "good",
        Outcome::ShapeOnly => "fair",
        Outcome::NotReproduced | Outcome::Refuted => "bad",
    }
}

fn section(out: &mut String, experiment: &ExperimentReport) -> std::fmt::Result {
    writeln!(
        out,
        "<section id=\"{}\">\n<h2>{} · {}</h2>",
        experiment.name,
        experiment.name,
        escape(&experiment.title)
    )?;
    let claims = tally(|outcome| experiment.outcomes(outcome));
    writeln!(out, "<p class=\"tally\">Claims: {claims}</p>\n<div class=\"says\">")?;
    for (name, text) in [
        ("What the article claims", &experiment.claimed),
        ("What theory predicts", &experiment.predicted),
        ("What was done", &experiment.done()),
    ] {
        writeln!(out, "<div><h3>{name}</h3><p>{}</p></div>", escape(text))?;
    }
    writeln!(out, "</div>")?;
    legend(out, experiment)?;
    for panels in experiment.panels.chunks(Operation::ALL.len()) {
        writeln!(out, "<div class=\"charts\">")?;
        for panel in panels {
            let drawn = svg::chart(&plot(panel, "time per operation", |point| point.nanos));
            writeln!(out, "<figure><figcaption>{}</figcaption>\n{drawn}</figure>", title(&panel.title))?;
        }
        writeln!(out, "</div>")?;
        if experiment.name == "X1" {
            modelled(out, panels)?;
        }
        exponents(out, panels)?;
    }
    if !experiment.notes.is_empty() {
        writeln!(out, "<h3>Also counted</h3>\n<ul>")?;
        for note in &experiment.notes {
            writeln!(out, "<li>{}</li>", escape(note))?;
        }
        writeln!(out, "</ul>")?;
    }
    verdict_table(out, experiment)?;
    for panel in &experiment.panels {
        figures(out, panel)?;
    }
    writeln!(out, "</section>")
}

/// The same operations as if every call went over a network.
fn modelled(out: &mut String, panels: &[Panel]) -> std::fmt::Result {
    writeln!(
        out,
        "<details><summary>Modelled, not measured: time + calls × 200 µs, as over a network</summary>\n\
         <div class=\"charts\">"
    )?;
    for panel in panels {
        let modelled = |point: &Point| {
            let nanos = point.modelled_nanos;
            Interval { low: nanos, median: nanos, high: nanos }
        };
        let drawn = svg::chart(&plot(panel, "modelled time", modelled));
        writeln!(
            out,
            "<figure><figcaption>{}, modelled</figcaption>\n{drawn}</figure>",
            title(&panel.title)
        )?;
    }
    writeln!(out, "</div></details>")
}

/// The chart of `panel`, `value` choosing what to draw of a point.
fn plot<'a>(panel: &'a Panel, label: &str, value: impl Fn(&Point) -> Interval) -> Plot<'a> {
    let axis = |label: &str, unit| Axis { label: label.to_owned(), unit, logarithmic: panel.logarithmic };
    // The form of hole filling matters to deletes alone: elsewhere the second line would lie on the first.
    let drawn =
        |series: &&Series| panel.operation == Operation::Delete || !series.layout.ends_with("-shift");
    let spot = |point: &Point| Spot { x: point.x, y: value(point), fitted: point.fitted };
    let curve = |series: &Series| Curve {
        class: series.layout.to_owned(),
        name: series.layout.to_owned(),
        spots: series.points.iter().map(spot).collect(),
    };
    Plot {
        title: &panel.title,
        x: axis(&panel.x_label, Unit::Count),
        y: axis(label, Unit::Nanos),
        curves: panel.series.iter().filter(drawn).map(curve).collect(),
    }
}

fn title(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or(String::new(), |first| escape(&format!("{}{}", first.to_uppercase(), letters.as_str())))
}

fn legend(out: &mut String, experiment: &ExperimentReport) -> std::fmt::Result {
    let Some(panel) = experiment.panels.first() else { return Ok(()) };
    writeln!(out, "<ul class=\"legend\">")?;
    for series in &panel.series {
        let name = series.layout;
        writeln!(
            out,
            "<li><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\"><g class=\"s {name}\"><polyline points=\"1,5 27,5\"/>\
             <circle cx=\"14\" cy=\"5\" r=\"2.8\"/></g></svg>{name} <small>{}</small></li>",
            article_name(name)
        )?;
    }
    writeln!(out, "</ul>")
}

/// The article's table of complexities with what was found in each cell.
fn exponents(out: &mut String, panels: &[Panel]) -> std::fmt::Result {
    let Some(first) = panels.first() else { return Ok(()) };
    writeln!(out, "<div class=\"scroll\"><table class=\"exponents\">\n<thead><tr><th>layout</th>")?;
    for panel in panels {
        writeln!(out, "<th>{}</th>", title(&panel.title))?;
    }
    writeln!(out, "</tr></thead>\n<tbody>")?;
    for (row, series) in first.series.iter().enumerate() {
        writeln!(out, "<tr><th>{}<br><small>{}</small></th>", series.layout, article_name(series.layout))?;
        for cell in panels.iter().filter_map(|panel| panel.series.get(row)) {
            let keys =
                cell.counter_fit.and_then(|fit| fit.slope).map_or("–".into(), |s| signed(s.median));
            writeln!(
                out,
                "<td><b>{}</b> predicted<br>keys: slope {keys}, {}<br>time: slope {}, {}</td>",
                big_o(cell.predicted),
                cell.counter_fit.map_or("–".into(), |fit| form(fit.form)),
                slope(cell.time_fit.as_ref()),
                cell.time_fit.map_or("–".into(), |fit| form(fit.form)),
            )?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}

fn form(form: Form) -> String {
    form.to_string()
}

fn verdict_table(out: &mut String, experiment: &ExperimentReport) -> std::fmt::Result {
    writeln!(
        out,
        "<h3>Verdicts</h3>\n<div class=\"scroll\"><table class=\"verdicts\">\n<thead><tr><th>operation</th>\
         <th>layout</th><th>claim</th><th>verdict</th><th>reason</th></tr></thead>\n<tbody>"
    )?;
    for (panel, series) in experiment.series() {
        let class = class_of_outcome(series.verdict.outcome);
        writeln!(
            out,
            "<tr><td>{}</td><td class=\"name\">{}</td><td>{}</td><td class=\"name {class}\">{}</td><td>{}</td></tr>",
            escape(&panel.title),
            series.layout,
            big_o(series.predicted),
            series.verdict.outcome,
            escape(&series.verdict.reason)
        )?;
    }
    writeln!(out, "</tbody></table></div>")
}

/// Every point as numbers, folded away.
fn figures(out: &mut String, panel: &Panel) -> std::fmt::Result {
    let answers = panel.operation == Operation::Check;
    writeln!(
        out,
        "<details><summary>Figures: {}</summary>\n<div class=\"scroll\"><table>",
        escape(&panel.title)
    )?;
    writeln!(
        out,
        "<thead><tr><th>layout</th><th>{}</th><th>operations a repetition</th><th>time</th><th>95 % interval</th>{}\
         <th>plain mean</th><th>modelled: time + calls × 200 µs</th><th>read</th><th>written</th><th>removed</th>\
         <th>calls</th><th>formula</th></tr></thead>\n<tbody>",
        escape(&panel.x_label),
        if answers { "<th>yes</th><th>no</th>" } else { "" }
    )?;
    for series in &panel.series {
        for point in &series.points {
            figure_row(out, series, point, answers)?;
        }
    }
    writeln!(out, "</tbody></table></div></details>")
}

fn figure_row(out: &mut String, series: &Series, point: &Point, answers: bool) -> std::fmt::Result {
    let MeanCounters { read, written, tombstones, calls } = point.counted;
    let interval = |i: Option<Interval>| i.map_or("–".into(), |i| duration(i.median));
    let apart = if answers {
        format!("<td>{}</td><td>{}</td>", interval(point.hit_nanos), interval(point.miss_nanos))
    } else {
        String::new()
    };
    writeln!(
        out,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{} – {}</td>{apart}<td>{}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        series.layout,
        short(point.x),
        grouped(point.operations),
        duration(point.nanos.median),
        duration(point.nanos.low),
        duration(point.nanos.high),
        duration(point.mean_nanos),
        duration(point.modelled_nanos),
        short(read),
        short(written),
        short(tombstones),
        short(calls),
        if point.counted == point.formula { "equal" } else { "<b class=\"bad\">differs</b>" },
    )
}
