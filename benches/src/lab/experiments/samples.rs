//! What was measured of one operation, over all its calls.

use esker_layouts::OpCost;
use esker_layouts::kv::Costed;

use crate::lab::stats::{Interval, interval, median};
use crate::lab::{LabError, Result, stopwatch};

/// Times and the sum of the costs.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    pub(super) nanos: Vec<f64>,
    pub(super) cost: OpCost,
}

impl Samples {
    /// Make a call, and keep what it took; an error names what was being done.
    pub(super) fn call<T>(
        &mut self,
        doing: &str,
        call: impl FnOnce() -> esker_layouts::Result<Costed<T>>,
    ) -> Result<Costed<T>> {
        let (done, nanos) = stopwatch::timed(call);
        let done = done.map_err(failed(doing))?;
        self.nanos.push(nanos as f64);
        self.cost.add(&done.cost);
        Ok(done)
    }

    /// A counter, in the mean of a call.
    pub(super) fn mean(&self, counter: impl Fn(&OpCost) -> u64) -> f64 {
        counter(&self.cost) as f64 / self.nanos.len().max(1) as f64
    }

    /// The median time.
    pub(super) fn median(&self) -> f64 {
        median(&self.nanos)
    }

    /// The median time with its interval.
    pub(super) fn interval(&self, random: &mut fastrand::Rng) -> Interval {
        interval(&self.nanos, random)
    }
}

/// Names what the lab was `doing` in an error of a layout.
pub(super) fn failed(doing: &str) -> impl Fn(esker_layouts::Error) -> LabError + '_ {
    move |source| LabError::Layout { doing: doing.to_owned(), source }
}

/// An error unless `found` is `expected`, the answer of `layout` to `question`.
pub(super) fn right<T: PartialEq + std::fmt::Debug>(
    layout: &'static str,
    question: &str,
    found: &T,
    expected: &T,
) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let short = |value: &T| format!("{value:?}").chars().take(200).collect();
    Err(LabError::WrongResult {
        layout,
        question: question.to_owned(),
        found: short(found),
        expected: short(expected),
    })
}
