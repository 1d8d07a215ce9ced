//! A layout under test without its types, so that several can be measured in one run.

use esker_layouts::kv::OrderedKv;

use super::{Operation, Subject, failed};
use crate::lab::model::Counters;
use crate::lab::{LabError, Result, stopwatch};

/// One operation that ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) operation: usize,
    pub(super) counted: Counters,
    pub(super) expected: Counters,
    pub(super) nanos: u64,
}

/// A layout, of which every store gets a fresh one.
pub(super) trait Contestant<K> {
    fn name(&self) -> &'static str;

    fn operations(&self) -> Vec<Operation>;

    /// Fill `kv` to `size`, have it settled, and run `each` operations of every kind in random order.
    fn fill_and_run(
        &self,
        kv: &K,
        size: u64,
        each: u64,
        settle: &dyn Fn() -> esker_layouts::Result<()>,
        random: &mut fastrand::Rng,
        record: &mut dyn FnMut(Measured),
    ) -> Result<()>;
}

struct Fresh<F>(F);

/// The layouts that `fresh` makes.
pub(super) fn boxed<K: OrderedKv, L: Subject<K> + 'static>(
    fresh: impl Fn() -> L + 'static,
) -> Box<dyn Contestant<K>> {
    Box::new(Fresh(fresh))
}

impl<K: OrderedKv, L: Subject<K>, F: Fn() -> L> Contestant<K> for Fresh<F> {
    fn name(&self) -> &'static str {
        (self.0)().name()
    }

    fn operations(&self) -> Vec<Operation> {
        (self.0)().operations()
    }

    fn fill_and_run(
        &self,
        kv: &K,
        size: u64,
        each: u64,
        settle: &dyn Fn() -> esker_layouts::Result<()>,
        random: &mut fastrand::Rng,
        record: &mut dyn FnMut(Measured),
    ) -> Result<()> {
        let mut layout = (self.0)();
        let name = layout.name();
        let kinds = layout.operations();
        layout.fill(kv, size, random).map_err(failed(format!("layout {name}, filling to {size}")))?;
        settle().map_err(failed("settle the store"))?;
        let mut plan: Vec<usize> = (0..each).flat_map(|_| 0..kinds.len()).collect();
        random.shuffle(&mut plan);
        for operation in plan {
            let call = layout.plan(operation, random);
            let (expected, right) = layout.expected(&call);
            let (done, nanos) = stopwatch::timed(|| layout.run(kv, &call));
            let what = kinds[operation].name;
            let done = done.map_err(failed(format!("layout {name}, {what} at size {size}")))?;
            if done.value != right {
                return Err(LabError::WrongResult {
                    layout: name,
                    question: format!("{what} at size {size}"),
                    found: format!("{:?}", done.value),
                    expected: format!("{right:?}"),
                });
            }
            record(Measured { operation, counted: Counters::of(&done.cost), expected, nanos });
        }
        Ok(())
    }
}
