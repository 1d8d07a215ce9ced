//! The experiments, and how recordings become panels.

mod probes;
mod samples;
mod weighed;
pub(super) mod x1;
pub(super) mod x10;
pub(super) mod x11;
pub(super) mod x12;
pub(super) mod x13;
pub(super) mod x15;
pub(super) mod x2;
pub(super) mod x3;
pub(super) mod x6;
pub(super) mod x8;
pub(super) mod x9;

use esker_layouts::followers::{HoleFilling, Layout};

use super::LabOptions;
use super::fit::{Observed, fit};
use super::model::{Counters, Form, Operation, Tally, growth};
use super::report::{MeanCounters, Panel, Point, Series};
use super::run::{Recording, Sample};
use super::stats::{Interval, interval};
use super::verdict::judge;

/// What one call costs over a network, for the modelled time.
const NETWORK_CALL_NANOS: f64 = 200_000.0;

/// The layouts of X2 and X3: numbered columns in the article's form of hole filling only.
const LAYOUTS: [Layout; 6] = [
    Layout::Default(HoleFilling::MoveLast),
    Layout::Count(HoleFilling::MoveLast),
    Layout::Column,
    Layout::Row,
    Layout::Hash,
    Layout::Relational,
];

/// The random numbers of one purpose: independent of those of any other, and of what ran before.
pub(super) fn random(options: &LabOptions, purpose: &[u64]) -> fastrand::Rng {
    let mut random = fastrand::Rng::with_seed(options.seed);
    for part in purpose {
        let next = random.u64(..) ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        random = fastrand::Rng::with_seed(next);
    }
    random
}

/// How a recording becomes panels.
struct Axis<'a> {
    /// What x is.
    label: &'a str,
    logarithmic: bool,
    /// Part of the title.
    part: &'a str,
    /// Points with a smaller x are shown but do not enter the fits.
    fitted_from: f64,
    /// Points with fewer operations a repetition do not either.
    operations_min: u64,
    /// x is the mean degree of the point's operations, not its place.
    by_degree: bool,
    /// What grows along the axis is the row: then A's complexities apply; else everything is constant.
    rows_grow: bool,
}

/// One panel for every operation.
fn panels(recording: &Recording, layouts: &[Layout], axis: &Axis<'_>, options: &LabOptions) -> Vec<Panel> {
    let mut random = random(options, &[u64::MAX]);
    Operation::ALL
        .into_iter()
        .map(|operation| Panel {
            title: format!("{}{}", operation.name(), axis.part),
            operation,
            x_label: axis.label.to_owned(),
            logarithmic: axis.logarithmic,
            series: layouts
                .iter()
                .map(|layout| series(recording, *layout, operation, axis, &mut random))
                .collect(),
        })
        .collect()
}

fn series(
    recording: &Recording,
    layout: Layout,
    operation: Operation,
    axis: &Axis<'_>,
    random: &mut fastrand::Rng,
) -> Series {
    let predicted = if axis.rows_grow { growth(layout, operation) } else { Form::Constant };
    let mut points = Vec::new();
    let mut counters = Tally::default();
    let (mut touched, mut times) = (Vec::new(), Vec::new());
    for (place, samples) in recording.series(layout, operation) {
        for sample in &samples {
            counters.add(&sample.tally);
        }
        let Some(first) = samples.first() else { continue };
        let x = if axis.by_degree { first.degrees as f64 / first.operations as f64 } else { place as f64 };
        let fitted = x >= axis.fitted_from && first.operations >= axis.operations_min;
        if fitted {
            let mean = |sample: &&Sample| sample.counted.touched() as f64 / sample.operations as f64;
            touched.push(Observed { x, values: samples.iter().map(mean).collect() });
            times.push(Observed { x, values: each(&samples, |s| s.times.trimmed) });
        }
        points.push(point(x, fitted, &samples, random));
    }
    let (counter_fit, time_fit) = (fit(&touched, random), fit(&times, random));
    let verdict = judge(predicted, &counters, time_fit.as_ref());
    let counters_equal = counters.all_equal();
    let layout = layout.name();
    Series { layout, predicted, points, counters, counters_equal, counter_fit, time_fit, verdict }
}

/// One value of each repetition that has it.
fn each(samples: &[&Sample], value: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
    samples.iter().filter_map(|sample| value(sample)).collect()
}

fn point(x: f64, fitted: bool, samples: &[&Sample], random: &mut fastrand::Rng) -> Point {
    let mut of = |value: &dyn Fn(&Sample) -> Option<f64>| -> Option<Interval> {
        let values = each(samples, value);
        (!values.is_empty()).then(|| interval(&values, random))
    };
    let nanos = of(&|s| s.times.trimmed).unwrap_or_default();
    let (mut counted, mut formula, mut operations) = (Counters::default(), Counters::default(), 0);
    for sample in samples {
        counted.add(&sample.counted);
        formula.add(&sample.formula);
        operations += sample.operations;
    }
    let counted = mean_counters(&counted, operations);
    Point {
        x,
        fitted,
        operations: samples.first().map_or(0, |sample| sample.operations),
        nanos,
        mean_nanos: of(&|s| s.times.mean).unwrap_or_default().median,
        hit_nanos: of(&|s| s.hits.trimmed),
        miss_nanos: of(&|s| s.misses.trimmed),
        modelled_nanos: nanos.median + counted.calls * NETWORK_CALL_NANOS,
        counted,
        formula: mean_counters(&formula, operations),
    }
}

fn mean_counters(sum: &Counters, operations: u64) -> MeanCounters {
    let mean = |count: u64| count as f64 / operations.max(1) as f64;
    MeanCounters {
        read: mean(sum.read),
        written: mean(sum.written),
        tombstones: mean(sum.tombstones),
        calls: mean(sum.calls),
    }
}
