//! Deletes in key order, and what a seek over what they leave costs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::main_sequence::expect;
use super::{Bench, GROUP, emit, timed};
use crate::histogram::Histogram;
use crate::keys::{Key, key};
use crate::record::Figure;
use crate::store::{Direction, Reader, Result, Store};
use crate::values::read_ends;

/// In how many ranges rows are deleted by range: one alone would show what the first of its kind costs.
const RANGES: u64 = 16;

/// The first half of the rows is deleted one by one and sought over: at once, again, and a second later.
/// Then the other half, but for its last row, is deleted by range, and each range sought over.
pub(super) fn run<S: Store>(bench: &Bench, store: &S) -> Result<()> {
    let half = bench.rows / 2;
    delete(bench, store, "delete")?;

    seek(bench, store, "seek over tombstones, first", 0, half)?;
    seek(bench, store, "seek over tombstones, second", 0, half)?;
    std::thread::sleep(Duration::from_secs(1));
    seek(bench, store, "seek over tombstones, a second later", 0, half)?;

    by_range(bench, store)
}

/// Delete the second half of the rows but for the last, in ranges that follow each other, each from behind the one
/// before, and seek over each.
fn by_range<S: Store>(bench: &Bench, store: &S) -> Result<()> {
    let (half, last) = (bench.rows / 2, bench.rows - 1);
    let at = |range: u64| half + (last - half) * range / RANGES;
    let (mut deletes, mut seeks) = (Histogram::new(), Histogram::new());
    let (mut deleting, mut seeking) = (Duration::ZERO, Duration::ZERO);
    let measure = bench.measure("delete by range")?;
    for range in 0..RANGES {
        let (from, to) = (at(range), at(range + 1));
        let begun = Instant::now();
        if !store.delete_range(&key(from), &key(to))? {
            return Ok(());
        }
        let deleted = Instant::now();
        let found = first_from(store, from)?;
        let sought = deleted.elapsed();
        expect(found == key(to) || S::NULL, || {
            format!("a seek over a deleted range: found {found:x?} instead of row {to}")
        })?;
        let deleted = deleted - begun;
        deleting += deleted;
        seeking += sought;
        deletes.record(timed::nanos(deleted));
        seeks.record(timed::nanos(sought));
    }
    let figure = measure.done(RANGES)?;
    let of = |workload: &str, took: Duration| Figure {
        workload: workload.to_owned(),
        seconds: took.as_secs_f64(),
        ..figure.clone()
    };
    emit(&of("delete by range", deleting).with_latencies(&deletes))?;
    emit(&of("seek over a deleted range", seeking).with_latencies(&seeks))
}

/// Delete the first half of the rows, in their order.
pub(super) fn delete<S: Store>(bench: &Bench, store: &S, workload: &str) -> Result<()> {
    let half = bench.rows / 2;
    let measure = bench.measure(workload)?;
    if S::BATCHED {
        let mut batch: Vec<Key> = Vec::with_capacity(GROUP);
        for from in (0..half).step_by(GROUP) {
            batch.clear();
            batch.extend((from..half.min(from + GROUP as u64)).map(key));
            store.delete_all(&batch)?;
        }
    } else {
        for row in 0..half {
            store.delete(&key(row))?;
        }
    }
    emit(&measure.done(half)?)
}

/// A seek to row `from` by a new reader; it has to find row `to`.
fn seek<S: Store>(bench: &Bench, store: &S, workload: &str, from: u64, to: u64) -> Result<()> {
    let measure = bench.measure(workload)?;
    let found = first_from(store, from)?;
    let figure = measure.done(1)?;
    expect(found == key(to) || S::NULL, || format!("{workload}: found {found:x?} instead of row {to}"))?;
    emit(&figure)
}

/// The first row from `from` on, seen by a new reader.
fn first_from<S: Store>(store: &S, from: u64) -> Result<Key> {
    let mut found = Key::default();
    store.reader()?.scan(Some(&key(from)), Direction::Forward, 1, |key, value| {
        found = key.first_chunk().copied().unwrap_or_default();
        black_box(read_ends(key, value));
    })?;
    Ok(found)
}
