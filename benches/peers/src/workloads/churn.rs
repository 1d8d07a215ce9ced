//! Bytes written and occupied while rows are overwritten again and again.

use std::time::Instant;

use super::main_sequence::written;
use super::sample::Sample;
use super::{Bench, VALUE_BYTES, emit, fresh, group, mib, put_rows};
use crate::keys::{Draw, Key, Permutation};
use crate::store::{Result, Settings, Store};
use crate::values::Values;

/// Passes of overwriting, each as many rows as the database has.
const PASSES: u64 = 5;

/// A fill and the passes, each settled; then bytes over all passes, cumulative.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, Settings::default())?;
    let order = Permutation::new(bench.rows, 90);
    put_rows(&store, &values, 0, (0..bench.rows).map(|at| order.at(at)), group::<S>())?;
    store.settle()?;

    let row_bytes = (VALUE_BYTES + size_of::<Key>()) as u64;
    let drawn = |pass| Draw::new(bench.rows, 90 + pass);
    let whole = bench.measure("five passes")?;
    let mut end = Instant::now();
    let mut peak_mib = 0.0f64;
    for pass in 1..=PASSES {
        let mut draw = drawn(pass);
        let measure = bench.measure(&format!("overwriting, pass {pass}"))?;
        put_rows(&store, &values, pass, (0..bench.rows).map(|_| draw.next()), group::<S>())?;
        end = store.settle()?;
        let figure = written(bench, measure, end, bench.rows)?;
        peak_mib = peak_mib.max(figure.measures["peak_mib"]);
        emit(&figure)?;
    }
    let figure = whole.done_at(PASSES * bench.rows, end)?;
    let (user, live) = (mib(PASSES * bench.rows * row_bytes), mib(bench.rows * row_bytes));
    let amplification = figure.measures["written_mib"] / user;
    let mean = figure.measures["disk_mean_mib"] / live;
    let peak = figure.measures["disk_peak_mib"] / live;
    emit(
        &figure
            .with("write_amplification", amplification)
            .with("disk_mean_per_live", mean)
            .with("disk_peak_per_live", peak)
            .with("peak_mib", peak_mib),
    )?;
    let overwrite = |sample: Sample, pass| sample.overwritten(drawn(pass), bench.rows, pass);
    (1..=PASSES).fold(Sample::of(bench.rows), overwrite).check(&store, &values)?;
    store.close()
}
