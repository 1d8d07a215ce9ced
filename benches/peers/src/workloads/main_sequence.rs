//! The long sequence: one database is filled, overwritten, read in every way, closed, opened again and
//! half deleted. Reads see the tree that overwriting left: several levels, not compacted by hand. The
//! peak of memory is that of the whole sequence.

use std::time::Instant;

use super::sample::Sample;
use super::{
    Bench, Measure, VALUE_BYTES, emit, fresh, group, mib, mixed, put_rows, reads, timed, tombstones,
};
use crate::keys::{Draw, Permutation, key};
use crate::machine::{disk_bytes, memory};
use crate::record::Figure;
use crate::store::{Reader, Result, Settings, Store};
use crate::values::{Values, read_all};

/// All of it.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, Settings::default())?;
    let order = Permutation::new(bench.rows, 1);

    let measure = bench.measure("random fill")?;
    put_rows(&store, &values, 0, (0..bench.rows).map(|at| order.at(at)), group::<S>())?;
    let settled = store.settle()?;
    emit(&written(bench, measure, settled, bench.rows)?)?;

    let overwritten = Draw::new(bench.rows, 5);
    overwrite(bench, &store, &values, overwritten)?;
    Sample::of(bench.rows).overwritten(overwritten, bench.rows, 1).check(&store, &values)?;
    reads::run(bench, &store)?;
    mixed::run(bench, &store, &values)?;

    let begun = Instant::now();
    store.close()?;
    let closed = begun.elapsed();
    let measure = bench.measure("reopen to first get")?;
    let store = S::open(&bench.dir, Settings::default())?;
    let found = store.reader()?.get(&key(bench.rows / 2), |value| {
        std::hint::black_box(read_all(value));
    })?;
    let figure = measure.done(1)?.with("close_ms", closed.as_secs_f64() * 1e3);
    expect(found, || "a row is gone after a reopening".to_owned())?;
    emit(&figure)?;

    tombstones::run(bench, &store)?;
    let (peak, anonymous) = memory()?;
    let measure = bench.measure("memory")?;
    emit(&measure.done(1)?.with("peak_mib", mib(peak)).with("anonymous_mib", mib(anonymous)))?;
    store.close()
}

/// Fail with `what` unless it `holds`.
pub(super) fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// The figures of `rows` writes that ended at `settled`, with bytes written and occupied for each byte
/// of the user's (occupied: for each byte alive).
pub(super) fn written(bench: &Bench, measure: Measure, settled: Instant, rows: u64) -> Result<Figure> {
    written_of(bench, measure, settled, rows, bench.rows)
}

/// The same where `alive` rows are in the database.
pub(super) fn written_of(
    bench: &Bench,
    measure: Measure,
    settled: Instant,
    rows: u64,
    alive: u64,
) -> Result<Figure> {
    let row_bytes = (VALUE_BYTES + size_of::<crate::keys::Key>()) as u64;
    let figure = measure.done_at(rows, settled)?;
    let (user, live) = (mib(rows * row_bytes), mib(alive * row_bytes));
    let (written, peak) = (figure.measures["written_mib"], figure.measures["disk_peak_mib"]);
    Ok(figure
        .with("write_amplification", written / user)
        .with("disk_per_live", mib(disk_bytes(&bench.dir)) / live)
        .with("disk_peak_per_live", peak / live))
}

/// As many rows of `draw` as there are are written again; where puts go one by one, every one is timed.
fn overwrite<S: Store>(bench: &Bench, store: &S, values: &Values, mut draw: Draw) -> Result<()> {
    let measure = bench.measure("overwrite")?;
    let histogram = timed::puts(store, values, 1, bench.rows, || draw.next())?;
    let settled = store.settle()?;
    emit(&written(bench, measure, settled, bench.rows)?.with_puts::<S>(&histogram))
}
