//! Gets, seeks and scans of one database.

use std::hint::black_box;

use super::main_sequence::expect;
use super::{Bench, emit, in_threads};
use crate::keys::{Draw, absent_key, key};
use crate::store::{Direction, Reader, Result, Store};
use crate::values::{read_all, read_ends};

/// All of them. Gets come first, and first some that are not counted, so that caches are as full as they
/// get.
pub(super) fn run<S: Store>(bench: &Bench, store: &S) -> Result<()> {
    let gets = bench.rows / 5;
    get_rows(store, bench.rows, gets, 10)?;
    gets_by_threads(bench, store, "get, present", gets, 1)?;
    gets_by_threads(bench, store, "get, present, two threads", gets, 2)?;
    absent(bench, store, gets)?;
    for together in [8, 64] {
        multi_gets(bench, store, together)?;
    }
    for (workload, direction, length) in [
        ("seek + 10 rows", Direction::Forward, 10),
        ("seek + 10 rows, reverse", Direction::Reverse, 10),
        ("seek + 100 rows", Direction::Forward, 100),
        ("seek + 100 rows, reverse", Direction::Reverse, 100),
    ] {
        seeks(bench, store, workload, direction, length)?;
    }
    scan(bench, store, "full scan", Direction::Forward)?;
    scan(bench, store, "full scan, reverse", Direction::Reverse)
}

/// `gets` of rows drawn from `0..rows`, all of which are there; every byte of each value is read.
pub(super) fn get_rows<S: Store>(store: &S, rows: u64, gets: u64, seed: u64) -> Result<()> {
    let mut draw = Draw::new(rows, seed);
    let mut reader = store.reader()?;
    let mut sum = 0u64;
    for _ in 0..gets {
        let row = draw.next();
        let found = reader.get(&key(row), |value| sum = sum.wrapping_add(read_all(value)))?;
        expect(found, || format!("row {row} is gone"))?;
    }
    black_box(sum);
    Ok(())
}

/// Get row `row`, which is there, and read every byte of its value.
#[inline]
pub(super) fn get(reader: &mut impl Reader, row: u64) -> Result<()> {
    let found = reader.get(&key(row), |value| {
        black_box(read_all(value));
    })?;
    expect(found, || format!("row {row} is gone"))
}

pub(super) fn gets_by_threads<S: Store>(
    bench: &Bench,
    store: &S,
    workload: &str,
    gets: u64,
    threads: u64,
) -> Result<()> {
    let measure = bench.measure(workload)?;
    in_threads(threads, |thread| get_rows(store, bench.rows, gets, 20 + threads + thread))?;
    emit(&measure.done(gets * threads)?)
}

fn absent<S: Store>(bench: &Bench, store: &S, gets: u64) -> Result<()> {
    let mut draw = Draw::new(bench.rows, 30);
    let mut reader = store.reader()?;
    let measure = bench.measure("get, absent")?;
    let mut found = 0;
    for _ in 0..gets {
        found += u64::from(reader.get(&absent_key(draw.next()), |value| {
            black_box(read_all(value));
        })?);
    }
    let figure = measure.done(gets)?;
    expect(found == 0 || S::NULL, || format!("{found} rows that nobody wrote were found"))?;
    emit(&figure)
}

/// Rows drawn at random, `together` at a time; every byte of each value is read.
fn multi_gets<S: Store>(bench: &Bench, store: &S, together: usize) -> Result<()> {
    let calls = bench.rows / 5 / together as u64;
    let mut draw = Draw::new(bench.rows, 35);
    let mut reader = store.reader()?;
    let measure = bench.measure(&format!("get, {together} at a time"))?;
    let (mut found, mut sum) = (0, 0u64);
    let mut keys = vec![key(0); together];
    for _ in 0..calls {
        keys.fill_with(|| key(draw.next()));
        found += reader.multi_get(&keys, |value| sum = sum.wrapping_add(read_all(value)))?;
    }
    let rows = calls * together as u64;
    let figure = measure.done(rows)?;
    black_box(sum);
    expect(found == rows, || format!("{found} of {rows} rows were found"))?;
    emit(&figure)
}

/// Seeks to rows at least `length` from either end, so that each shows that many.
pub(super) fn seeks<S: Store>(
    bench: &Bench,
    store: &S,
    workload: &str,
    direction: Direction,
    length: u64,
) -> Result<()> {
    let seeks = bench.rows * 4 / 10 / length;
    let mut draw = Draw::new(bench.rows - 2 * length, 40);
    let mut reader = store.reader()?;
    let measure = bench.measure(workload)?;
    let (mut seen, mut sum) = (0, 0u64);
    for _ in 0..seeks {
        let from = key(length + draw.next());
        seen += reader.scan(Some(&from), direction, length, |key, value| sum += read_ends(key, value))?;
    }
    let figure = measure.done(seeks)?;
    black_box(sum);
    expect(seen == seeks * length, || format!("{workload}: {seen} rows in {seeks} scans"))?;
    emit(&figure)
}

/// A scan over everything.
pub(super) fn scan<S: Store>(bench: &Bench, store: &S, workload: &str, direction: Direction) -> Result<()> {
    let mut reader = store.reader()?;
    let measure = bench.measure(workload)?;
    let mut sum = 0u64;
    // The null store yields as many rows as it is asked for; the others show that they have no more.
    let limit = if S::NULL { bench.rows } else { u64::MAX };
    let seen = reader.scan(None, direction, limit, |key, value| sum += read_ends(key, value))?;
    let figure = measure.done(seen)?;
    black_box(sum);
    expect(seen == bench.rows, || format!("{workload}: {seen} rows instead of {}", bench.rows))?;
    emit(&figure)
}
