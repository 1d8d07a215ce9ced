//! How a cost grows, fitted twice.
//!
//! *Form*: a constant, a straight line and a logarithm are fitted by weighted least squares and compared
//! by the Bayesian information criterion with known errors, χ² + k·ln(points). A point's error is its
//! bootstrap error and, since repetitions share the machine's bias, at least 5 % of its value. The form is
//! affine when the line rises, beats the constant by more than 6 (strong evidence), beats the logarithm by
//! more than 2 (positive evidence), and the rise is material, a log-log slope of at least 1/4: over three
//! powers of ten a line with a slope of 0.1 only doubles. Any other rise is that of the store's depth and of
//! its caches, which every layout pays; it is reported as a percentage, not as a form.
//!
//! *Slope*: the least-squares slope of ln(cost) over ln(x), with a 95 % interval from resampling the
//! repetitions. On short ranges a line with a fixed part comes out well below 1, which is why the slope
//! alone decides nothing.

use serde::Serialize;

use super::model::Form;
use super::stats::{Interval, RESAMPLES, median, quantile, resample};

/// The least relative error of a point.
const ERROR_FLOOR: f64 = 0.05;
/// How much better than the constant's the line's criterion must be.
const EVIDENCE: f64 = 6.0;
/// The least log-log slope that counts as growth.
const SLOPE_MIN: f64 = 0.25;
/// How much better than the logarithm's.
const EVIDENCE_OVER_DEPTH: f64 = 2.0;

/// The cost at one x: one value a repetition.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Network size or degree.
    pub x: f64,
    /// Cost in each repetition.
    pub values: Vec<f64>,
}

/// The outcome of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The form the data prefer.
    pub form: Form,
    /// Criterion of the constant minus criterion of the line: positive favours the line.
    pub evidence: f64,
    /// Criterion of the logarithm minus criterion of the line: positive favours the line.
    pub evidence_over_depth: f64,
    /// The line's value at x = 0.
    pub offset: f64,
    /// The line's rise for one x.
    pub rise: f64,
    /// The line's value at the last x divided by that at the first.
    pub ratio: f64,
    /// Log-log slope; `None` if a cost is zero somewhere.
    pub slope: Option<Interval>,
    /// Points used.
    pub points: usize,
}

/// Fit `observed`; `None` with fewer than three points.
pub fn fit(observed: &[Observed], random: &mut fastrand::Rng) -> Option<Fit> {
    if observed.len() < 3 {
        return None;
    }
    let points: Vec<Weighted> = observed.iter().map(|o| Weighted::new(o, random)).collect();
    let (level, _) = line(&points, false);
    let (offset, rise) = line(&points, true);
    let penalty = (points.len() as f64).ln();
    let evidence = misfit(&points, level, 0.0) - misfit(&points, offset, rise) - penalty;
    let (first, last) = (observed.first()?.x, observed.last()?.x);
    let slope = slope(observed, random);
    // Degree 0 has no logarithm; degree 1 is as shallow as a tree gets.
    let depths: Vec<Weighted> = points.iter().map(|p| Weighted { x: p.x.max(1.0).ln(), ..*p }).collect();
    let (shallow, deeper) = line(&depths, true);
    let evidence_over_depth = misfit(&depths, shallow, deeper) - misfit(&points, offset, rise);
    let material = slope.is_none_or(|slope| slope.median >= SLOPE_MIN);
    let linear = evidence > EVIDENCE && evidence_over_depth > EVIDENCE_OVER_DEPTH && rise > 0.0 && material;
    let form = if linear { Form::Affine } else { Form::Constant };
    let start = offset + rise * first;
    let ratio = if start.abs() < f64::EPSILON { 1.0 } else { (offset + rise * last) / start };
    Some(Fit { form, evidence, evidence_over_depth, offset, rise, ratio, slope, points: points.len() })
}

struct Weighted {
    x: f64,
    y: f64,
    weight: f64,
}

impl Weighted {
    fn new(observed: &Observed, random: &mut fastrand::Rng) -> Self {
        let y = median(&observed.values);
        let medians: Vec<f64> =
            (0..RESAMPLES).map(|_| median(&resample(&observed.values, random))).collect();
        let spread = medians.iter().map(|m| (m - y).powi(2)).sum::<f64>() / medians.len() as f64;
        // An exact zero everywhere would weigh infinitely much.
        let variance = (spread + (ERROR_FLOOR * y).powi(2)).max(1e-12);
        Weighted { x: observed.x, y, weight: variance.recip() }
    }
}

/// Offset and rise of the best line, or of the best constant.
fn line(points: &[Weighted], rising: bool) -> (f64, f64) {
    let sum = |f: &dyn Fn(&Weighted) -> f64| points.iter().map(|p| p.weight * f(p)).sum::<f64>();
    let total = sum(&|_| 1.0);
    let (x, y) = (sum(&|p| p.x) / total, sum(&|p| p.y) / total);
    let spread = sum(&|p| (p.x - x).powi(2));
    if !rising || spread == 0.0 {
        return (y, 0.0);
    }
    let rise = sum(&|p| (p.x - x) * (p.y - y)) / spread;
    (y - rise * x, rise)
}

fn misfit(points: &[Weighted], offset: f64, rise: f64) -> f64 {
    points.iter().map(|p| p.weight * (p.y - offset - rise * p.x).powi(2)).sum()
}

fn slope(observed: &[Observed], random: &mut fastrand::Rng) -> Option<Interval> {
    let of = |values: &[f64]| {
        let points: Vec<Weighted> = observed
            .iter()
            .zip(values)
            .map(|(o, y)| Weighted { x: o.x.ln(), y: y.ln(), weight: 1.0 })
            .collect();
        line(&points, true).1
    };
    if observed.iter().any(|o| o.x <= 0.0 || o.values.iter().any(|v| *v <= 0.0)) {
        return None;
    }
    let medians: Vec<f64> = observed.iter().map(|o| median(&o.values)).collect();
    let slopes: Vec<f64> = (0..RESAMPLES)
        .map(|_| of(&observed.iter().map(|o| median(&resample(&o.values, random))).collect::<Vec<_>>()))
        .collect();
    Some(Interval { low: quantile(&slopes, 0.025), median: of(&medians), high: quantile(&slopes, 0.975) })
}
