//! Scans that want less than everything, and scans beside a writer. The tree is the one that a random fill
//! and overwriting a fifth of it left.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::main_sequence::expect;
use super::{Bench, GROUP, VALUE_BYTES, emit, fresh, timed};
use crate::histogram::Histogram;
use crate::keys::{Draw, FEW_PREFIX, Key, MANY_PREFIX, Permutation, grouped_key, prefix_rows};
use crate::store::{Direction, Reader, Result, Settings, Store};
use crate::values::{Values, read_ends};

/// Prefix scans, keys only beside all of it, one writer and one scanner.
pub(super) fn run<S: Store>(bench: &Bench) -> Result<()> {
    let values = Values::new(VALUE_BYTES);
    let store: S = fresh(&bench.dir, Settings::default())?;
    // Whole thousands: every prefix has all its rows.
    let rows = bench.rows / 1000 * 1000;
    let order = Permutation::new(rows, 150);
    put(&store, &values, 0, 0..rows, |at| order.at(at))?;
    put(&store, &values, 1, 0..rows / 5, |at| order.at(at))?;
    store.settle()?;

    prefixes(bench, &store, "prefix of 10 rows", rows, FEW_PREFIX)?;
    prefixes(bench, &store, "prefix of 1,000 rows", rows, MANY_PREFIX)?;
    by_new_readers(bench, &store, rows)?;
    keys_only(bench, &store, rows)?;
    beside_a_writer(bench, &store, &values, rows)?;
    store.close()
}

/// Write `version` of the rows that `row` makes of `range`, one by one or in batches of 1,000; each commit
/// is timed.
fn put<S: Store>(
    store: &S,
    values: &Values,
    version: u64,
    mut range: Range<u64>,
    mut row: impl FnMut(u64) -> u64,
) -> Result<Histogram> {
    let pair = |row| (grouped_key(row), values.of(row, version));
    let size = if S::BATCHED { GROUP as u64 } else { 1 };
    let commits = (range.end - range.start).div_ceil(size);
    timed::repeat(timed::Budget::operations(commits), || {
        if !S::BATCHED {
            let (key, value) = pair(row(range.next().unwrap_or_default()));
            return store.put(&key, value);
        }
        let batch: Vec<(Key, &[u8])> = range.by_ref().take(GROUP).map(|at| pair(row(at))).collect();
        store.put_all(&batch)
    })
}

/// All rows of prefixes drawn at random; each has as many as the keys say.
fn prefixes<S: Store>(bench: &Bench, store: &S, workload: &str, rows: u64, bytes: usize) -> Result<()> {
    let length = prefix_rows(bytes);
    let scans = bench.rows * 4 / 10 / length;
    let mut draw = Draw::new(rows, 151);
    let mut reader = store.reader()?;
    let measure = bench.measure(workload)?;
    let (mut seen, mut sum) = (0, 0u64);
    for _ in 0..scans {
        let prefix = &grouped_key(draw.next())[..bytes];
        seen += reader.prefix(prefix, |key, value| sum += read_ends(key, value))?;
    }
    let figure = measure.done(scans)?;
    black_box(sum);
    expect(seen == scans * length, || format!("{workload}: {seen} rows in {scans} scans"))?;
    emit(&figure)
}

/// Ten rows from one drawn at random on, each time by a reader that is made for it: what it takes to begin a walk where there is
/// no cursor to be moved.
fn by_new_readers<S: Store>(bench: &Bench, store: &S, rows: u64) -> Result<()> {
    let walks = bench.rows * 4 / 100;
    // Those behind it are there as well.
    let mut draw = Draw::new(rows - 10, 153);
    let measure = bench.measure("10 rows by a new reader")?;
    let (mut seen, mut sum) = (0, 0u64);
    for _ in 0..walks {
        let from = grouped_key(draw.next());
        let see = |key: &[u8], value: &[u8]| sum += read_ends(key, value);
        seen += store.reader()?.scan(Some(&from), Direction::Forward, 10, see)?;
    }
    let figure = measure.done(walks)?;
    black_box(sum);
    expect(seen == walks * 10, || format!("new readers: {seen} rows in {walks} walks"))?;
    emit(&figure)
}

/// Every key, without its value; every row, for comparison.
fn keys_only<S: Store>(bench: &Bench, store: &S, rows: u64) -> Result<()> {
    // The null store yields as many rows as it is asked for; the others show that they have no more.
    let limit = if S::NULL { rows } else { u64::MAX };
    let mut reader = store.reader()?;
    let mut sum = 0u64;
    // The first scan after a fill meets blocks that nobody has read yet.
    reader.scan(None, Direction::Forward, limit, |key, value| sum += read_ends(key, value))?;

    let measure = bench.measure("keys-only scan")?;
    let seen = reader.keys(limit, |key| sum += read_ends(key, &[]))?;
    let figure = measure.done(seen)?;
    expect(seen == rows, || format!("keys-only scan: {seen} rows instead of {rows}"))?;
    emit(&figure)?;

    let measure = bench.measure("the same with values")?;
    let seen = reader.scan(None, Direction::Forward, limit, |key, value| sum += read_ends(key, value))?;
    let figure = measure.done(seen)?;
    expect(seen == rows, || format!("scan: {seen} rows instead of {rows}"))?;
    black_box(sum);
    emit(&figure)
}

/// One thread overwrites as many rows as there are, as fast as it can; another scans everything, again and
/// again, each time with a new reader. A scan that the writer's end interrupts is finished, and counts.
fn beside_a_writer<S: Store>(bench: &Bench, store: &S, values: &Values, rows: u64) -> Result<()> {
    let (stop, both) = (AtomicBool::new(false), Barrier::new(2));
    let scans = bench.measure("one writer, one scanner: rows scanned")?;
    let writes = bench.measure("one writer, one scanner: writes")?;
    let (wrote, written_at, scanned) = std::thread::scope(|scope| {
        let scanner = scope.spawn(|| {
            both.wait();
            scan_until(store, rows, &stop)
        });
        let mut draw = Draw::new(rows, 152);
        both.wait();
        let wrote = put(store, values, 2, 0..rows, |_| draw.next());
        let written_at = Instant::now();
        stop.store(true, Ordering::Relaxed);
        (wrote, written_at, scanner.join())
    });
    let (seen, end) = scanned.map_err(|_| "the scanner panicked")??;
    emit(&writes.done_at(rows, written_at)?.with_puts::<S>(&wrote?))?;
    emit(&scans.done_at(seen, end)?)?;
    store.settle()?;
    Ok(())
}

/// Full scans until `stop`; how many rows they showed, and when the last one ended.
fn scan_until<S: Store>(store: &S, rows: u64, stop: &AtomicBool) -> Result<(u64, Instant)> {
    let limit = if S::NULL { rows } else { u64::MAX };
    let (mut all, mut sum) = (0, 0u64);
    while !stop.load(Ordering::Relaxed) {
        let mut reader = store.reader()?;
        let see = |key: &[u8], value: &[u8]| sum += read_ends(key, value);
        let seen = reader.scan(None, Direction::Forward, limit, see)?;
        expect(seen == rows, || format!("a scan beside a writer: {seen} rows instead of {rows}"))?;
        all += seen;
    }
    black_box(sum);
    Ok((all, Instant::now()))
}
