//! The layouts' operations beside the same engine calls by hand, in time. Instructions, which do not depend on
//! the machine's load, are counted and judged by `cargo xtask layout-cost`.

use std::fmt::Debug;

use criterion::Criterion;
use esker_bench::layout_cost::{Bench, run};
use esker_layouts::Result;

struct Timed<'c>(&'c mut Criterion);

impl Bench for Timed<'_> {
    fn pair<T: PartialEq + Debug>(
        &mut self,
        name: &'static str,
        by_hand: impl FnMut(usize) -> Result<T>,
        layout: impl FnMut(usize) -> Result<T>,
    ) -> Result<()> {
        let mut group = self.0.benchmark_group(format!("layouts/{name}"));
        time(&mut group, "by hand", by_hand);
        time(&mut group, "layout", layout);
        group.finish();
        Ok(())
    }

    /// The sides were called as often as time allowed: what they have written differs.
    fn stores(&mut self, _check: impl FnOnce() -> Result<()>) -> Result<()> {
        Ok(())
    }
}

fn time<T>(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    side: &str,
    mut operation: impl FnMut(usize) -> Result<T>,
) {
    let mut n = 0;
    group.bench_function(side, |b| {
        b.iter(|| {
            n += 1;
            operation(n).expect("the store is in order")
        });
    });
}

pub(crate) fn layouts(c: &mut Criterion) {
    run(&mut Timed(c)).expect("the stores are in order");
}
