//! The shortest sequence that shows an engine's character, with the settings that its own guides recommend
//! instead of its defaults: see `Settings::tuned` and what each store makes of it.

use super::main_sequence::written;
use super::sample::Sample;
use super::{Bench, VALUE_BYTES, emit, fills, fresh, group, put_rows, reads, timed, tombstones};
use crate::keys::{Draw, Permutation};
use crate::store::{Direction, Result, Settings, Store};
use crate::values::Values;

/// Fill, overwrite, gets, seeks, a full scan, deletes; then a fill in key order.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, Settings { tuned: true, ..Settings::default() })?;
    let order = Permutation::new(bench.rows, 180);
    let measure = bench.measure("tuned: fill")?;
    put_rows(&store, &values, 0, (0..bench.rows).map(|at| order.at(at)), group::<S>())?;
    let settled = store.settle()?;
    emit(&written(bench, measure, settled, bench.rows)?)?;

    let overwritten = Draw::new(bench.rows, 181);
    let mut draw = overwritten;
    let measure = bench.measure("tuned: overwrite")?;
    let histogram = timed::puts(&store, &values, 1, bench.rows, || draw.next())?;
    let settled = store.settle()?;
    emit(&written(bench, measure, settled, bench.rows)?.with_puts::<S>(&histogram))?;
    Sample::of(bench.rows).overwritten(overwritten, bench.rows, 1).check(&store, &values)?;

    let gets = bench.rows / 5;
    reads::get_rows(&store, bench.rows, gets, 182)?;
    reads::gets_by_threads(bench, &store, "tuned: get", gets, 1)?;
    reads::seeks(bench, &store, "tuned: seek + 10 rows", Direction::Forward, 10)?;
    reads::scan(bench, &store, "tuned: full scan", Direction::Forward)?;
    tombstones::delete(bench, &store, "tuned: delete")?;
    store.close()?;
    fills::tuned_ordered::<S>(bench)
}
