//! Line charts as SVG: axes with units, bands, lines with markers. Colours come from the page's style
//! sheet through classes, so a chart is legible in light and dark.

use std::fmt::Write;

use crate::lab::stats::Interval;
use crate::lab::study::{Axis, Unit};

use super::html::escape;
use super::units::{labelled, number, tick};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// A line chart.
pub(super) struct Plot<'a> {
    /// What it shows, for readers who do not see it.
    pub(super) title: &'a str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) curves: Vec<Curve>,
}

/// A line with its markers and its band.
pub(super) struct Curve {
    /// The class its colour hangs on.
    pub(super) class: String,
    pub(super) name: String,
    pub(super) spots: Vec<Spot>,
}

/// A point of a curve.
pub(super) struct Spot {
    pub(super) x: f64,
    pub(super) y: Interval,
    /// Whether the point enters the fits; others are hollow.
    pub(super) fitted: bool,
}

/// A linear or logarithmic map from values to pixels.
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    pub(super) fn new(values: impl Iterator<Item = f64>, from: f64, to: f64, logarithmic: bool) -> Scale {
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

    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Round values within the scale, about five.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades: Vec<f64> = (-12..16).map(|i| 10f64.powi(i)).filter(|t| self.inside(*t)).collect();
            if decades.len() >= 2 {
                return decades;
            }
            let fine = [1.0, 2.0, 5.0];
            return (-12..16)
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

/// The chart of `plot`.
pub(super) fn chart(plot: &Plot<'_>) -> String {
    let spots = || plot.curves.iter().flat_map(|curve| curve.spots.iter().filter(|spot| shown(plot, spot)));
    let x = Scale::new(spots().map(|spot| spot.x), LEFT, WIDTH - RIGHT, plot.x.logarithmic);
    // Wide bands of one disturbed series must not squeeze the others.
    let tops = spots().flat_map(|spot| [spot.y.median, spot.y.high.min(spot.y.median * 1.5)]);
    let y = Scale::new(tops, HEIGHT - BOTTOM, TOP, plot.y.logarithmic);
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}: {} by {}\">\n",
        escape(plot.title),
        escape(&plot.y.label),
        escape(&plot.x.label)
    );
    axes(&mut out, plot, &x, &y).expect("writing to a string");
    for curve in &plot.curves {
        draw(&mut out, plot, curve, &x, &y).expect("writing to a string");
    }
    out.push_str("</svg>\n");
    out
}

/// What is not positive has no place on a logarithmic axis.
fn shown(plot: &Plot<'_>, spot: &Spot) -> bool {
    (!plot.x.logarithmic || spot.x > 0.0) && (!plot.y.logarithmic || spot.y.median > 0.0)
}

fn axes(out: &mut String, plot: &Plot<'_>, x: &Scale, y: &Scale) -> std::fmt::Result {
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for value in y.ticks() {
        let at = y.at(value);
        writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>")?;
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            tick(value, &plot.y.unit)
        )?;
    }
    for value in x.ticks() {
        let at = x.at(value);
        writeln!(
            out,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{floor}\" y2=\"{}\"/>",
            floor + 4.0
        )?;
        writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            floor + 17.0,
            tick(value, &plot.x.unit)
        )?;
    }
    writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{floor}\" y2=\"{floor}\"/>")?;
    writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, right),
        HEIGHT - 8.0,
        escape(&label(&plot.x))
    )?;
    let middle = f64::midpoint(TOP, floor);
    writeln!(
        out,
        "<text transform=\"translate(11 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escape(&label(&plot.y))
    )
}

/// An axis' label; ticks of times and bytes carry their unit themselves.
pub(super) fn label(axis: &Axis) -> String {
    match axis.unit {
        Unit::Of(_) => labelled(&axis.label, &axis.unit),
        _ => axis.label.clone(),
    }
}

fn draw(out: &mut String, plot: &Plot<'_>, curve: &Curve, x: &Scale, y: &Scale) -> std::fmt::Result {
    let spots: Vec<&Spot> = curve.spots.iter().filter(|spot| shown(plot, spot)).collect();
    let clamp = |value: f64| y.at(value).clamp(TOP, HEIGHT - BOTTOM);
    let place = |spot: &Spot, value: f64| format!("{:.1},{:.1}", x.at(spot.x), clamp(value));
    let upper = spots.iter().map(|spot| place(spot, spot.y.high));
    let lower = spots.iter().rev().map(|spot| place(spot, spot.y.low));
    let band: Vec<String> = upper.chain(lower).collect();
    let line: Vec<String> = spots.iter().map(|spot| place(spot, spot.y.median)).collect();
    let (class, name) = (&curve.class, escape(&curve.name));
    writeln!(out, "<g class=\"s {class}\"><polygon points=\"{}\"/>", band.join(" "))?;
    writeln!(out, "<polyline points=\"{}\"/>", line.join(" "))?;
    for spot in spots {
        let (cx, cy) = (x.at(spot.x), clamp(spot.y.median));
        let hollow = if spot.fitted { "" } else { " class=\"out\"" };
        writeln!(
            out,
            "<circle{hollow} cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"2.8\"><title>{name}, {}: {}</title></circle>",
            tick(spot.x, &plot.x.unit),
            number(spot.y.median, &plot.y.unit)
        )?;
    }
    out.push_str("</g>\n");
    Ok(())
}
