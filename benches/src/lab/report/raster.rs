//! Fields of cells: what happens where and when.

use std::fmt::Write;

use crate::lab::study::{Raster, Unit};

use super::html::escape;
use super::units::number;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 26.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 62.0;
/// Steps from nothing to the greatest value.
const SHADES: usize = 6;

/// The cells of `shown`, darker where there is more. Cells of one shade are one path, so that a page with
/// several fields stays small.
pub(super) fn raster(shown: &Raster) -> String {
    let columns = shown.cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let (floor, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let (wide, high) = ((right - LEFT) / columns as f64, (floor - TOP) / shown.cells.len().max(1) as f64);
    let mut paths = vec![String::new(); SHADES];
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}: {} by {} and {}\">\n",
        escape(&shown.title),
        escape(&shown.counts),
        escape(&shown.y.label),
        escape(&shown.x.label)
    );
    let mut draw = || -> std::fmt::Result {
        for (row, cells) in shown.cells.iter().enumerate() {
            for (column, value) in cells.iter().enumerate() {
                let Some(shade) = shown.shade(*value, SHADES).checked_sub(1) else { continue };
                let (x, y) = (LEFT + wide * column as f64, TOP + high * row as f64);
                write!(paths[shade], "M{x:.1} {y:.1}h{wide:.2}v{high:.2}h-{wide:.2}z")?;
            }
        }
        writeln!(
            out,
            "<rect class=\"field\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            right - LEFT,
            floor - TOP
        )?;
        let opacity = |shade: usize| (shade + 1) as f64 / SHADES as f64;
        for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            writeln!(out, "<path class=\"cell\" fill-opacity=\"{:.2}\" d=\"{path}\"/>", opacity(shade))?;
        }
        let mut text = |x: f64, y: f64, anchor: &str, text: &str| {
            writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                escape(text)
            )
        };
        text(LEFT, TOP - 8.0, "start", &shown.y.to)?;
        text(LEFT, floor + 15.0, "start", &shown.x.from)?;
        text(right, floor + 15.0, "end", &shown.x.to)?;
        text(f64::midpoint(LEFT, right), floor + 15.0, "middle", &format!("{} →", shown.x.label))?;
        let scale = format!("0 to {} {} a cell", number(shown.greatest(), &Unit::Count), shown.counts);
        text(LEFT + 22.0 * SHADES as f64 + 8.0, floor + 43.0, "start", &scale)?;
        for shade in 0..SHADES {
            let x = LEFT + 22.0 * shade as f64;
            let y = floor + 31.0;
            writeln!(
                out,
                "<rect class=\"cell\" fill-opacity=\"{:.2}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"22\" height=\"16\"/>",
                opacity(shade)
            )?;
        }
        writeln!(
            out,
            "<text transform=\"translate(15 {:.1}) rotate(-90)\" text-anchor=\"middle\">{} →</text>",
            f64::midpoint(TOP, floor),
            escape(&shown.y.label)
        )
    };
    draw().expect("writing to a string");
    out.push_str("</svg>\n");
    out
}
