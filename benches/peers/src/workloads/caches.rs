//! Gets that a single layer answers: the memtable, or the page cache behind a block cache that holds little.

use super::sample::Sample;
use super::{Bench, VALUE_BYTES, emit, fresh, group, put_rows, reads};
use crate::keys::Permutation;
use crate::store::{Result, Settings, Store};
use crate::values::Values;

/// Most rows of a database that lies in the memtable: with what an engine adds to each, well below 64 MiB.
const MEMTABLE_ROWS: u64 = 200_000;
/// Block cache of the second part, in bytes, for 5 million rows: a ninth of them.
const SMALL_CACHE_BYTES: usize = 64 << 20;

/// Both, each on a database of its own.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let values = Values::new(VALUE_BYTES);
    let gets = bench.rows / 5;

    let rows = (bench.rows / 25).min(MEMTABLE_ROWS);
    let order = Permutation::new(rows, 160);
    let store: S = fresh(&bench.dir.join("rows"), Settings::default())?;
    put_rows(&store, &values, 0, (0..rows).map(|at| order.at(at)), group::<S>())?;
    Sample::of(rows).check(&store, &values)?;
    reads::get_rows(&store, rows, gets, 161)?;
    let measure = bench.measure("get, from the memtable")?;
    reads::get_rows(&store, rows, gets, 162)?;
    emit(&measure.done(gets)?)?;
    store.close()?;

    let order = Permutation::new(bench.rows, 163);
    let store: S = fresh(&bench.dir.join("rows"), Settings::default())?;
    put_rows(&store, &values, 0, (0..bench.rows).map(|at| order.at(at)), group::<S>())?;
    store.settle()?;
    store.close()?;
    // With fewer rows, a smaller cache.
    let cache_bytes = usize::try_from(SMALL_CACHE_BYTES as u64 * bench.rows.min(5_000_000) / 5_000_000)?;
    let store = S::open(&bench.dir.join("rows"), Settings { cache_bytes, ..Settings::default() })?;
    store.settle()?;
    Sample::of(bench.rows).check(&store, &values)?;
    reads::get_rows(&store, bench.rows, gets, 164)?;
    let measure = bench.measure("get, from the page cache")?;
    reads::get_rows(&store, bench.rows, gets, 165)?;
    emit(&measure.done(gets)?)?;
    store.close()
}
