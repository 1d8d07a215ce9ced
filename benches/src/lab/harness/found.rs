//! From recorded operations to a study: formulas, times with intervals, growth, verdicts.

use std::collections::BTreeMap;

use super::contestant::{Contestant, Measured};
use super::{LabOptions, Operation};
use crate::lab::experiments;
use crate::lab::fit::{Observed, fit};
use crate::lab::model::{Counters, Tally};
use crate::lab::stats::{interval, median};
use crate::lab::study::{Axis, Claim, Column, Exhibit, Line, Lines, Place, Study, Table, Unit, Value};
use crate::lab::verdict::judge;

/// What was recorded of one kind of operation of one layout at one size.
#[derive(Default)]
struct Sample {
    counted: Counters,
    operations: u64,
    /// Nanoseconds of each operation, by repetition.
    nanos: BTreeMap<u32, Vec<f64>>,
}

/// Everything that ran.
pub(super) struct Recorded {
    layouts: Vec<(&'static str, Vec<Operation>)>,
    study: Study,
    /// By layout, operation and place of the size.
    samples: BTreeMap<(usize, usize, usize), Sample>,
}

/// The name of a study of layouts that are not the lab's.
pub(in crate::lab) const OWN: &str = "own";

impl Recorded {
    pub(super) fn new<K>(contestants: &[Box<dyn Contestant<K>>]) -> Recorded {
        let layouts = contestants.iter().map(|layout| (layout.name(), layout.operations())).collect();
        Recorded { layouts, study: Study::new(OWN, "", OWN, ""), samples: BTreeMap::new() }
    }

    pub(super) fn note(&mut self, layout: usize, place: usize, repetition: u32, measured: Measured) {
        let (name, operations) = &self.layouts[layout];
        let operation = operations[measured.operation];
        let full = full_name(name, operation.name);
        self.study.compare(&full, operation.formula, &measured.counted, &measured.expected);
        let sample = self.samples.entry((layout, measured.operation, place)).or_default();
        sample.counted.add(&measured.counted);
        sample.operations += 1;
        sample.nanos.entry(repetition).or_default().push(measured.nanos as f64);
    }

    /// The comparison of the operation `full`.
    fn tally(&self, full: &str) -> Tally {
        let mut sum = Tally::default();
        for formula in self.study.formulas.iter().filter(|formula| formula.operation == full) {
            sum.add(&formula.tally);
        }
        sum
    }

    /// The findings.
    pub(super) fn study(
        mut self,
        title: &str,
        sizes: &[u64],
        operations: u64,
        options: &LabOptions,
    ) -> Study {
        title.clone_into(&mut self.study.title);
        self.study.repetitions = Some(options.repetitions());
        self.study.protocol = format!(
            "{operations} operations of each kind at each size, in random order, on a fresh store each in \
             every repetition. Times are medians of a repetition's operations; over repetitions the median, with a \
             95 % bootstrap interval. Counters are the store's."
        );
        let mut random = experiments::random(options, &[u64::MAX]);
        let mut columns = vec![Column::text("operation"), Column::new("size", Unit::Count)];
        columns.push(Column::new("time", Unit::Nanos));
        for name in ["keys read", "keys written", "tombstones", "calls"] {
            columns.push(Column::new(name, Unit::Number));
        }
        let mut table = Table::new("An operation, at every size", columns);
        let mut charts: BTreeMap<&str, Vec<Line>> = BTreeMap::new();
        let mut claims = Vec::new();
        for (layout, (name, kinds)) in self.layouts.iter().enumerate() {
            for (kind, operation) in kinds.iter().enumerate() {
                let full = full_name(name, operation.name);
                let (mut points, mut times, mut touched) = (Vec::new(), Vec::new(), Vec::new());
                for (place, size) in sizes.iter().enumerate() {
                    let Some(sample) = self.samples.get(&(layout, kind, place)) else { continue };
                    let x = *size as f64;
                    let mean = |count: u64| count as f64 / sample.operations.max(1) as f64;
                    let medians: Vec<f64> = sample.nanos.values().map(|nanos| median(nanos)).collect();
                    let time = interval(&medians, &mut random);
                    let counted = &sample.counted;
                    let mut row = vec![Value::from(full.clone()), Value::from(*size), Value::from(time)];
                    for count in [counted.read, counted.written, counted.tombstones, counted.calls] {
                        row.push(Value::from(mean(count)));
                    }
                    table.row(row);
                    points.push(Place { x, y: time });
                    times.push(Observed { x, values: medians });
                    touched.push(Observed { x, values: vec![mean(counted.touched())] });
                }
                charts.entry(operation.name).or_default().push(Line { name: (*name).to_owned(), points });
                let (keys, time) = (fit(&touched, &mut random), fit(&times, &mut random));
                let words = |fit: Option<crate::lab::fit::Fit>| {
                    fit.map_or("Too few sizes for a fit.".to_owned(), |fit| {
                        format!("The growth is {}, {:.2} times from end to end.", fit.form, fit.ratio)
                    })
                };
                claims.push(Claim {
                    rows: full.clone(),
                    claimed: format!(
                        "{full} costs {} and its time is {}.",
                        operation.formula, operation.growth
                    ),
                    predicted: operation.formula.to_owned(),
                    counted: words(keys),
                    timed: words(time),
                    verdict: judge(operation.growth, &self.tally(&full), time.as_ref()),
                });
            }
        }
        self.study.claims = claims;
        let charts = charts.into_iter().map(|(name, lines)| {
            Exhibit::Lines(Lines {
                title: format!("Time of {name}"),
                x: Axis::logarithmic("size", Unit::Count),
                y: Axis::logarithmic("time", Unit::Nanos),
                lines,
            })
        });
        self.study.exhibits.extend(charts);
        self.study.exhibits.push(Exhibit::Table(table));
        self.study
    }
}

fn full_name(layout: &str, operation: &str) -> String {
    format!("{layout}: {operation}")
}
