//! Bar charts and heat tables.

use std::fmt::Write;

use crate::lab::study::{Bars, Heat};

use super::html::escape;
use super::svg::{Scale, label};
use super::units::{number, tick};

const WIDTH: f64 = 460.0;
const LEFT: f64 = 12.0;
const RIGHT: f64 = 84.0;
const BAR: f64 = 14.0;
/// Room for a group's name above its bars.
const NAME: f64 = 22.0;
const BOTTOM: f64 = 40.0;

/// The bars of `chart`; `class_of` gives a bar's colour by its name.
pub(super) fn bars(chart: &Bars, class_of: impl Fn(&str) -> String) -> String {
    let each = NAME + BAR * chart.bars.len() as f64;
    let floor = each * chart.groups.len() as f64 + 4.0;
    let values = || chart.groups.iter().flat_map(|group| group.values.iter().flatten().copied());
    let least = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let foot = chart.value.logarithmic.then_some(least / 10.0);
    let x = Scale::new(values().chain(foot), LEFT, WIDTH - RIGHT, chart.value.logarithmic);
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">\n",
        floor + BOTTOM,
        escape(&chart.title)
    );
    let mut draw = || -> std::fmt::Result {
        for value in x.ticks() {
            let at = x.at(value);
            writeln!(
                out,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{floor:.1}\"/>"
            )?;
            writeln!(
                out,
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                floor + 15.0,
                tick(value, &chart.value.unit)
            )?;
        }
        for (place, group) in chart.groups.iter().enumerate() {
            let top = each * place as f64;
            writeln!(
                out,
                "<text class=\"group\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
                top + 16.0,
                escape(&group.name)
            )?;
            for (row, (bar, value)) in chart.bars.iter().zip(&group.values).enumerate() {
                let y = top + NAME + BAR * row as f64;
                let end =
                    value.filter(|value| value.is_finite()).map_or(LEFT, |value| x.at(value).max(LEFT));
                let text = value.map_or("–".into(), |value| number(value, &chart.value.unit));
                writeln!(
                    out,
                    "<g class=\"s {}\"><rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
                     <title>{}: {text}</title></rect></g><text x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                    class_of(bar),
                    (end - LEFT).max(1.0),
                    BAR - 3.0,
                    escape(bar),
                    end + 5.0,
                    y + BAR - 4.0,
                )?;
            }
        }
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            floor + 33.0,
            escape(&label(&chart.value))
        )
    };
    draw().expect("writing to a string");
    out.push_str("</svg>\n");
    out
}

/// A table whose cells are shaded by the logarithm of their value.
pub(super) fn heat(out: &mut String, heat: &Heat) -> std::fmt::Result {
    let values = || heat.rows.iter().flat_map(|(_, cells)| cells.iter().filter_map(|cell| cell.value));
    let scale = Scale::new(values(), 0.0, 1.0, true);
    writeln!(out, "<h3>{}</h3>\n<div class=\"scroll\"><table class=\"heat\">", escape(&heat.title))?;
    writeln!(out, "<thead><tr><th></th>")?;
    for column in &heat.columns {
        writeln!(out, "<th>{}</th>", escape(column))?;
    }
    writeln!(out, "</tr></thead>\n<tbody>")?;
    for (name, cells) in &heat.rows {
        writeln!(out, "<tr><th>{}</th>", escape(name))?;
        for cell in cells {
            let shade = cell.value.map_or(0.0, |value| scale.at(value) * 100.0);
            let text = cell.value.map_or("–".into(), |value| number(value, &heat.unit));
            writeln!(
                out,
                "<td style=\"--heat:{shade:.0}%\"><b>{text}</b><br><small>{}</small></td>",
                escape(&cell.remark)
            )?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")
}
