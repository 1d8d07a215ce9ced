//! Medians and bootstrap intervals.

use serde::Serialize;

/// Resamples of a bootstrap.
pub(super) const RESAMPLES: usize = 400;

/// A median with its 95 % bootstrap interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The 2.5 % point.
    pub low: f64,
    /// The median of the sample.
    pub median: f64,
    /// The 97.5 % point.
    pub high: f64,
}

/// The median; 0 of nothing.
///
/// ```
/// assert_eq!(esker_bench::lab::stats::median(&[3.0, 1.0, 2.0, 10.0]), 2.5);
/// ```
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The `q` quantile, interpolated; 0 of nothing.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = q.clamp(0.0, 1.0) * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the last index"
    )]
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// A sample drawn from `values` with replacement.
pub(super) fn resample(values: &[f64], random: &mut fastrand::Rng) -> Vec<f64> {
    values.iter().map(|_| values[random.usize(..values.len())]).collect()
}

/// The median of `values` with its percentile bootstrap interval.
pub fn interval(values: &[f64], random: &mut fastrand::Rng) -> Interval {
    let medians: Vec<f64> = (0..RESAMPLES).map(|_| median(&resample(values, random))).collect();
    Interval { low: quantile(&medians, 0.025), median: median(values), high: quantile(&medians, 0.975) }
}
