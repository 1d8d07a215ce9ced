//! Far more rows than a look needs: whether a fill, an overwrite and gets keep the pace of the smaller
//! sequences once levels have filled up.

use std::hint::black_box;
use std::time::Instant;

use super::main_sequence::{expect, written_of};
use super::sample::Sample;
use super::{Bench, VALUE_BYTES, emit, fresh, group, mib, put_rows, reads, timed};
use crate::keys::{Draw, Key, Permutation};
use crate::machine::available_memory;
use crate::store::{Direction, Reader, Result, Settings, Store};
use crate::values::{Values, read_ends};

/// Rows for each of the full-sized workloads': 100 million for 5 million.
const TIMES: u64 = 20;
/// Parts of the fill whose rates are told one by one.
const TENTHS: u64 = 10;
/// Gets for each row of the full-sized workloads, uncounted, behind the walk that fills a cache for all data.
const WARMING: u64 = 12;

/// Fill, overwrite, gets with the cache of the other sequences, gets with one that holds all data.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let rows = bench.rows * TIMES;
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, Settings::default())?;
    fill(bench, &store, &values, rows)?;

    let overwritten = Draw::new(rows, 131);
    let mut draw = overwritten;
    let measure = bench.measure("sustained: overwrite")?;
    let histogram = timed::puts(&store, &values, 1, rows / 2, || draw.next())?;
    let settled = store.settle()?;
    emit(&written_of(bench, measure, settled, rows / 2, rows)?.with_puts::<S>(&histogram))?;
    Sample::of(rows).overwritten(overwritten, rows / 2, 1).check(&store, &values)?;

    gets(bench, &store, "sustained: get", bench.rows / 5)?;
    store.close()?;
    let cache_bytes = rows * (VALUE_BYTES + size_of::<Key>()) as u64 * 5 / 4;
    if available_memory()? < cache_bytes / 4 * 5 {
        eprintln!(
            "peers: sustained, {}: no gets from a cache of {:.0} MiB, for want of memory",
            bench.engine,
            mib(cache_bytes)
        );
        return Ok(());
    }
    let settings = Settings { cache_bytes: usize::try_from(cache_bytes)?, ..Settings::default() };
    let store = S::open(&bench.dir, settings)?;
    store.settle()?;
    // Blocks that gets alone meet by chance are not all: of these, they would leave out one in fifty.
    walk(&store, rows)?;
    gets(bench, &store, "sustained: get, all cached", bench.rows * WARMING)?;
    store.close()
}

/// Every row once, in random order; the rate of each tenth as well.
fn fill<S: Store>(bench: &Bench, store: &S, values: &Values, rows: u64) -> Result<()> {
    let order = Permutation::new(rows, 130);
    let measure = bench.measure("sustained: fill")?;
    let mut rates = Vec::new();
    for tenth in 0..TENTHS {
        let part = rows * tenth / TENTHS..rows * (tenth + 1) / TENTHS;
        let (size, begun) = (part.end - part.start, Instant::now());
        put_rows(store, values, 0, part.map(|at| order.at(at)), group::<S>())?;
        rates.push(size as f64 / begun.elapsed().as_secs_f64() / 1e3);
    }
    let putting = measure.elapsed();
    let settled = store.settle()?;
    let figure = written_of(bench, measure, settled, rows, rows)?;
    let settling = (figure.seconds - putting.as_secs_f64()).max(0.0);
    let mut figure = figure.with("settling_ms", settling * 1e3);
    for (tenth, rate) in rates.iter().enumerate() {
        figure = figure.with(&format!("tenth_{:02}_kps", tenth + 1), *rate);
    }
    let slowest = rates.into_iter().fold(f64::INFINITY, f64::min);
    emit(&figure.with("slowest_tenth_kps", slowest))
}

/// Over all `rows`, which are there.
fn walk<S: Store>(store: &S, rows: u64) -> Result<()> {
    let limit = if S::NULL { rows } else { u64::MAX };
    let mut sum = 0u64;
    let seen =
        store.reader()?.scan(None, Direction::Forward, limit, |key, value| sum += read_ends(key, value))?;
    black_box(sum);
    expect(seen == rows, || format!("{seen} rows instead of {rows}"))
}

/// Gets as in the long sequence, after `uncounted` ones.
fn gets<S: Store>(bench: &Bench, store: &S, workload: &str, uncounted: u64) -> Result<()> {
    let (rows, gets) = (bench.rows * TIMES, bench.rows / 5);
    reads::get_rows(store, rows, uncounted, 132)?;
    let measure = bench.measure(workload)?;
    reads::get_rows(store, rows, gets, 133)?;
    emit(&measure.done(gets)?)
}
