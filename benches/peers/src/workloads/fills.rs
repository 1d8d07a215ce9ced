//! Fills of an empty database: ordered, random, by several threads, in batches.

use super::sample::Sample;
use super::{Bench, GROUP, VALUE_BYTES, emit, fresh, group, in_threads, put_rows};
use crate::keys::Permutation;
use crate::store::{Result, Settings, Store};
use crate::values::Values;

/// Fill a fresh database with `rows` in their order, `group` to a commit, until nothing is left to do.
fn fill<S: Store>(
    bench: &Bench,
    workload: &str,
    settings: Settings,
    rows: impl ExactSizeIterator<Item = u64>,
    group: usize,
) -> Result<()> {
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, settings)?;
    let operations = rows.len() as u64;
    let measure = bench.measure(workload)?;
    put_rows(&store, &values, 0, rows, group)?;
    let settled = store.settle()?;
    emit(&measure.done_at(operations, settled)?)?;
    Sample::of(operations).check(&store, &values)?;
    store.close()
}

/// `0..rows` as an iterator that knows its length.
fn count(rows: u64) -> Result<impl ExactSizeIterator<Item = u64>> {
    Ok((0..usize::try_from(rows)?).map(|row| row as u64))
}

/// In key order.
pub(super) fn ordered<S: Store>(bench: &Bench) -> Result<()> {
    fill::<S>(bench, "ordered fill", Settings::default(), count(bench.rows)?, group::<S>())
}

/// The same with a mapped log, for the engine that has one; for the others it is the same again.
pub(super) fn ordered_mapped<S: Store>(bench: &Bench) -> Result<()> {
    let settings = Settings { mapped_log: true, ..Settings::default() };
    fill::<S>(bench, "ordered fill, mapped log", settings, count(bench.rows)?, group::<S>())
}

/// The same with what each engine's guides recommend.
pub(super) fn tuned_ordered<S: Store>(bench: &Bench) -> Result<()> {
    let settings = Settings { tuned: true, ..Settings::default() };
    fill::<S>(bench, "tuned: ordered fill", settings, count(bench.rows)?, group::<S>())
}

/// In key order, in batches of 1,000.
pub(super) fn ordered_batches<S: Store>(bench: &Bench) -> Result<()> {
    fill::<S>(bench, "ordered fill, batches of 1,000", Settings::default(), count(bench.rows)?, GROUP)
}

/// In random order, in batches of 100; two fifths of the rows.
pub(super) fn batches<S: Store>(bench: &Bench) -> Result<()> {
    let rows = bench.rows * 2 / 5;
    let order = Permutation::new(rows, 3);
    fill::<S>(
        bench,
        "random fill, batches of 100",
        Settings::default(),
        count(rows)?.map(move |at| order.at(at)),
        100,
    )
}

/// In random order, in batches of 10; two fifths of the rows.
pub(super) fn batches_of_ten<S: Store>(bench: &Bench) -> Result<()> {
    let rows = bench.rows * 2 / 5;
    let order = Permutation::new(rows, 5);
    fill::<S>(
        bench,
        "random fill, batches of 10",
        Settings::default(),
        count(rows)?.map(move |at| order.at(at)),
        10,
    )
}

/// In random order, one by one; a twenty-fifth of the rows.
pub(super) fn single<S: Store>(bench: &Bench) -> Result<()> {
    let rows = bench.rows / 25;
    let order = Permutation::new(rows, 4);
    fill::<S>(
        bench,
        "random fill, one by one",
        Settings::default(),
        count(rows)?.map(move |at| order.at(at)),
        1,
    )
}

/// In random order, by four threads; two fifths of the rows.
pub(super) fn threads<S: Store>(bench: &Bench) -> Result<()> {
    const THREADS: u64 = 4;
    let rows = bench.rows * 2 / 5 / THREADS * THREADS;
    let (order, values) = (Permutation::new(rows, 2), Values::new(VALUE_BYTES));
    let store: S = fresh(&bench.dir, Settings::default())?;
    let measure = bench.measure("random fill, four threads")?;
    in_threads(THREADS, |thread| {
        let share = rows / THREADS;
        let mine = (thread * share..(thread + 1) * share).map(|at| order.at(at));
        put_rows(&store, &values, 0, mine, group::<S>())
    })?;
    let settled = store.settle()?;
    emit(&measure.done_at(rows, settled)?)?;
    Sample::of(rows).check(&store, &values)?;
    store.close()
}
