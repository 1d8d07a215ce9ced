//! One self-contained page: style and charts inline, no scripts, nothing fetched.

use std::fmt::Write;

use super::{
    ExperimentReport, MeanCounters, Panel, Point, Report, Series, article_name, big_o, duration, short,
    signed, slope, svg,
};
use crate::lab::model::{Form, Operation};
use crate::lab::verdict::Outcome;

const STYLE: &str = include_str!("style.css");

pub(super) fn render(report: &Report) -> String {
    let mut out = String::with_capacity(256 * 1024);
    page(&mut out, report).expect("writing to a string");
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn page(out: &mut String, report: &Report) -> std::fmt::Result {
    let names: Vec<&str> = report.experiments.iter().map(|e| e.name.as_str()).collect();
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>esker lab: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>",
        names.join(", ")
    )?;
    let operations: u64 = report
        .experiments
        .iter()
        .flat_map(ExperimentReport::series)
        .map(|(_, s)| s.counters.operations)
        .sum();
    let equal = report.experiments.iter().all(ExperimentReport::counters_equal);
    writeln!(
        out,
        "<header>\n<h1>Layouts of the follower relation</h1>\n<p class=\"lead\">{} operations compared with their \
         formulas, counter by counter: {}.</p>",
        grouped(operations),
        if equal { "every one equal" } else { "<strong class=\"bad\">some differ</strong>" }
    )?;
    writeln!(out, "<dl>")?;
    let build = if report.optimised { "optimised" } else { "not optimised: times mean nothing" };
    let commit = report.commit.as_deref().unwrap_or("unknown");
    for (name, value) in [
        ("Store", report.store.clone()),
        ("Options", report.options_line()),
        ("Machine", report.machine.clone()),
        ("Program", format!("esker {}, commit {commit}, {build}", report.version)),
    ] {
        writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value))?;
    }
    writeln!(out, "</dl>\n</header>")?;
    for experiment in &report.experiments {
        section(out, experiment)?;
    }
    writeln!(out, "{METHOD}\n</main>\n</body>\n</html>")
}

const METHOD: &str = "<section>\n<h2>How to read this</h2>\n\
    <p><b>Counters</b> are kept by the store, below the layout, and compared with a formula of the user's degree at \
    every single operation. <b>Time</b> is that of the call alone: within a repetition the mean without the fastest \
    and slowest 2.5 %, over repetitions the median; bands are 95 % bootstrap intervals. Hollow points do not enter \
    the fits.</p>\n\
    <p><b>Form</b>: constant, straight line and logarithm compared by the Bayesian information criterion, each point \
    uncertain by its bootstrap error and at least 5 %. A rising line wins with a lead above 6 over the constant and \
    above 2 over the logarithm, and a log-log slope of at least ¼; any other rise is that of the store's depth and \
    caches, and is shown as a percentage. <b>Slope</b>: of the logarithm of the cost over that of x, with its 95 % \
    interval.</p>\n\
    <p><b>Verdict</b>: <i>reproduced</i> when every counter equals its formula and the time prefers the predicted \
    form; <i>shape only</i> when just the time does; else <i>not reproduced</i>.</p>\n</section>";

fn section(out: &mut String, experiment: &ExperimentReport) -> std::fmt::Result {
    writeln!(out, "<section>\n<h2>{} · {}</h2>", experiment.name, escape(&experiment.title))?;
    let verdicts = [Outcome::Reproduced, Outcome::ShapeOnly, Outcome::NotReproduced];
    let tally: Vec<String> = verdicts
        .into_iter()
        .map(|outcome| (experiment.outcomes(outcome), outcome))
        .filter(|(count, _)| *count > 0)
        .map(|(count, outcome)| format!("{count} {outcome}"))
        .collect();
    writeln!(out, "<p class=\"tally\">Claims: {}</p>\n<div class=\"says\">", tally.join(", "))?;
    for (name, text) in [
        ("What the article claims", &experiment.claimed),
        ("What theory predicts", &experiment.predicted),
        ("What was done", &experiment.protocol),
    ] {
        writeln!(out, "<div><h3>{name}</h3><p>{}</p></div>", escape(text))?;
    }
    writeln!(out, "</div>")?;
    legend(out, experiment)?;
    for panels in experiment.panels.chunks(Operation::ALL.len()) {
        writeln!(out, "<div class=\"charts\">")?;
        for panel in panels {
            let drawn =
                svg::chart(panel, "time per operation", |p| (p.nanos.low, p.nanos.median, p.nanos.high));
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
        let drawn =
            svg::chart(panel, "modelled time", |p| (p.modelled_nanos, p.modelled_nanos, p.modelled_nanos));
        writeln!(
            out,
            "<figure><figcaption>{}, modelled</figcaption>\n{drawn}</figure>",
            title(&panel.title)
        )?;
    }
    writeln!(out, "</div></details>")
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
        let class = match series.verdict.outcome {
            Outcome::Reproduced => "good",
            Outcome::ShapeOnly => "fair",
            Outcome::NotReproduced => "bad",
        };
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
    let interval = |i: Option<crate::lab::stats::Interval>| i.map_or("–".into(), |i| duration(i.median));
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

/// 1234567 as "1,234,567".
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
