//! Line charts as SVG: axes with units, bands, lines with markers. Colours come from the page's style
//! sheet through classes, so a chart is legible in light and dark.

use std::fmt::Write;

use crate::lab::model::Operation;

use super::{Panel, Point, Series, duration};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// A linear or logarithmic map from values to pixels.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, from: f64, to: f64, logarithmic: bool) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|v| v.is_finite() && (!logarithmic || *v > 0.0)) {
            low = low.min(value);
            high = high.max(value);
        }
        if !low.is_finite() {
            (low, high) = (1.0, 10.0);
        }
        if !logarithmic {
            low = 0.0;
        }
        if high <= low {
            high = low * 2.0 + 1.0;
        }
        Scale { low, high, from, to, logarithmic }
    }

    fn at(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Round values within the scale, about five.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades: Vec<f64> = (0..16).map(|i| 10f64.powi(i)).filter(|t| self.inside(*t)).collect();
            if decades.len() >= 2 {
                return decades;
            }
            let fine = [1.0, 2.0, 5.0];
            return (0..16)
                .flat_map(|i| fine.map(|f| f * 10f64.powi(i)))
                .filter(|t| self.inside(*t))
                .collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|f| f * decade).into_iter().find(|s| *s >= rough);
        let step = step.unwrap_or(rough);
        (0..=12).map(|i| f64::from(i) * step).filter(|t| self.inside(*t)).collect()
    }

    fn inside(&self, value: f64) -> bool {
        value >= self.low * 0.999 && value <= self.high * 1.001
    }
}

/// The chart of `panel`: nanoseconds by x, `value` choosing what to draw of a point, with its bounds.
pub(super) fn chart(panel: &Panel, label: &str, value: impl Fn(&Point) -> (f64, f64, f64)) -> String {
    let points = || drawn(panel).flat_map(|series| series.points.iter().filter(|p| shown(panel, p)));
    let x = Scale::new(points().map(|p| p.x), LEFT, WIDTH - RIGHT, panel.logarithmic);
    // Wide bands of one disturbed series must not squeeze the others.
    let tops = points().flat_map(|p| {
        let (_, mid, high) = value(p);
        [mid, high.min(mid * 1.5)]
    });
    let y = Scale::new(tops, HEIGHT - BOTTOM, TOP, panel.logarithmic);
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}: {label} by {}\">\n",
        panel.title, panel.x_label
    );
    axes(&mut out, &x, &y, &panel.x_label, label).expect("writing to a string");
    for series in drawn(panel) {
        draw(&mut out, panel, series, &x, &y, &value).expect("writing to a string");
    }
    out.push_str("</svg>\n");
    out
}

/// The form of hole filling matters to deletes alone: elsewhere the second line would lie on the first.
fn drawn(panel: &Panel) -> impl Iterator<Item = &Series> {
    let deletes = panel.operation == Operation::Delete;
    panel.series.iter().filter(move |series| deletes || !series.layout.ends_with("-shift"))
}

/// Degree 0 has no place on a logarithmic axis.
fn shown(panel: &Panel, point: &Point) -> bool {
    !panel.logarithmic || point.x > 0.0
}

fn axes(out: &mut String, x: &Scale, y: &Scale, x_label: &str, y_label: &str) -> std::fmt::Result {
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for tick in y.ticks() {
        let at = y.at(tick);
        writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>")?;
        let text = tick_duration(tick);
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 6.0,
            at + 4.0
        )?;
    }
    for tick in x.ticks() {
        let at = x.at(tick);
        writeln!(
            out,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{floor}\" y2=\"{}\"/>",
            floor + 4.0
        )?;
        writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            floor + 17.0,
            count(tick)
        )?;
    }
    writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{floor}\" y2=\"{floor}\"/>")?;
    let middle = f64::midpoint(LEFT, right);
    writeln!(
        out,
        "<text x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{x_label}</text>",
        HEIGHT - 8.0
    )?;
    let middle = f64::midpoint(TOP, floor);
    writeln!(
        out,
        "<text transform=\"translate(11 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{y_label}</text>"
    )
}

fn draw(
    out: &mut String,
    panel: &Panel,
    series: &Series,
    x: &Scale,
    y: &Scale,
    value: &impl Fn(&Point) -> (f64, f64, f64),
) -> std::fmt::Result {
    let points: Vec<&Point> = series.points.iter().filter(|p| shown(panel, p)).collect();
    let clamp = |nanos: f64| y.at(nanos).clamp(TOP, HEIGHT - BOTTOM);
    let place = |point: &&Point, nanos: f64| format!("{:.1},{:.1}", x.at(point.x), clamp(nanos));
    let upper = points.iter().map(|p| place(p, value(p).2));
    let lower = points.iter().rev().map(|p| place(p, value(p).0));
    let band: Vec<String> = upper.chain(lower).collect();
    let line: Vec<String> = points.iter().map(|p| place(p, value(p).1)).collect();
    let name = series.layout;
    writeln!(out, "<g class=\"s {name}\"><polygon points=\"{}\"/>", band.join(" "))?;
    writeln!(out, "<polyline points=\"{}\"/>", line.join(" "))?;
    for point in points {
        let (_, nanos, _) = value(point);
        let (cx, cy) = (x.at(point.x), clamp(nanos));
        let hollow = if point.fitted { "" } else { " class=\"out\"" };
        writeln!(
            out,
            "<circle{hollow} cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"2.8\"><title>{name}, {}: {}</title></circle>",
            count(point.x),
            duration(nanos)
        )?;
    }
    out.push_str("</g>\n");
    Ok(())
}

/// A tick's time, without digits it does not need.
fn tick_duration(nanos: f64) -> String {
    let (value, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "µs"),
        n => (n / 1e6, "ms"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

fn count(x: f64) -> String {
    match x {
        x if x >= 1e6 => format!("{:.0}M", x / 1e6),
        x if x >= 1e4 => format!("{:.0}k", x / 1e3),
        x if (x - x.round()).abs() < 1e-9 => format!("{x:.0}"),
        x => format!("{x:.1}"),
    }
}
